//! s3s-fs on loopback: a store that looks at a condition, and writes later.
//!
//! Its own binary listens where this one does, but takes minutes to build. `tests/support/s3s_fs.py`
//! starts it: PORT and FOLDER are its arguments, ACCESS_KEY and SECRET_KEY its variables.

use std::env;
use std::error::Error;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let port = arguments.next().ok_or("no port")?.parse::<u16>()?;
    let folder = arguments.next().ok_or("no folder")?;
    let store = s3s_fs::FileSystem::new(folder).map_err(|error| format!("{error:?}"))?;
    let mut builder = S3ServiceBuilder::new(store);
    builder.set_auth(SimpleAuth::from_single(env::var("ACCESS_KEY")?, env::var("SECRET_KEY")?));
    let service = builder.build();
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let connection =
            http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone());
        tokio::spawn(async move {
            // A client that goes away is none of its business.
            let _gone = connection.await;
        });
    }
}

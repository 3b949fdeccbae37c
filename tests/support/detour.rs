//! A way to a store that can hold one request up: a packet in a queue.
//!
//! It takes requests in whole, and passes them on byte for byte as far as a signature can tell.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use super::soon;

/// A detour.
pub(crate) struct Detour {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    store: String,
    http: Client<HttpConnector, Full<Bytes>>,
    wanted: (Method, String),
    armed: AtomicBool,
    held: Notify,
    gate: Semaphore,
    delivered: Notify,
}

impl Detour {
    /// A way to `store` that holds the next request with this method and raw path, once armed.
    pub(crate) async fn to(store: &str, method: Method, path: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            store: store.to_owned(),
            http: Client::builder(TokioExecutor::new()).build_http(),
            wanted: (method, path.to_owned()),
            armed: AtomicBool::new(false),
            held: Notify::new(),
            gate: Semaphore::new(0),
            delivered: Notify::new(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// The way's beginning.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next request that fits is held.
    pub(crate) fn arm(&self) {
        self.shared.armed.store(true, Ordering::SeqCst);
    }

    /// Waits until it is.
    pub(crate) async fn held(&self) {
        soon("a request to hold", self.shared.held.notified()).await;
    }

    /// Lets it go on, and waits until the store has answered it.
    pub(crate) async fn release(&self) {
        self.shared.gate.add_permits(1);
        soon("the store's answer", self.shared.delivered.notified()).await;
    }
}

impl Drop for Detour {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let shared = Arc::clone(&shared);
        let service = service_fn(move |request| {
            let shared = Arc::clone(&shared);
            // A task of its own: a packet in a queue does not know that its sender has gone.
            async move { tokio::spawn(shared.pass(request)).await.unwrap() }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

impl Shared {
    async fn pass(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let fits = parts.method == self.wanted.0
            && parts.uri.path() == self.wanted.1
            && parts.uri.query().is_none();
        let hold = fits && self.armed.swap(false, Ordering::SeqCst);
        if hold {
            self.held.notify_one();
            self.gate.acquire().await.unwrap().forget();
        }
        parts.uri = format!("{}{}", self.store, parts.uri).parse().unwrap();
        let answer = match self.http.request(Request::from_parts(parts, Full::new(body))).await {
            Ok(answer) => {
                let (parts, body) = answer.into_parts();
                Response::from_parts(parts, Full::new(body.collect().await?.to_bytes()))
            }
            Err(_) => {
                let mut answer = Response::new(Full::new(Bytes::new()));
                *answer.status_mut() = StatusCode::BAD_GATEWAY;
                answer
            }
        };
        if hold {
            self.delivered.notify_one();
        }
        Ok(answer)
    }
}

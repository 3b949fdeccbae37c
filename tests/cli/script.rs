//! A proxy that answers as a test tells it to. It verifies the signature of every request and keeps
//! all of them.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::auth::{AccessKeyId, KeyRing, SecretKey, verify};
use fencepost::clock;
use http::Request;
use serde_json::{Value, json};

use crate::{ID, SECRET};

/// What the script does about a request.
pub(crate) enum Reply {
    /// An answer of the API.
    Json(u16, Value),
    /// Another one.
    Text(u16, &'static str),
    /// The connection ends without an answer.
    Close,
    /// Nothing comes, for so long; then the connection ends.
    Silence(Duration),
}

impl Reply {
    /// A refusal with this code.
    pub(crate) fn refused(status: u16, code: &str) -> Self {
        Self::Json(status, json!({ "code": code, "message": "as told", "request_id": "1" }))
    }
}

/// A request, as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: String,
    /// Raw.
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    /// `null` when there is none.
    pub(crate) body: Value,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The action of a request for a lease.
    pub(crate) fn action(&self) -> &str {
        self.body["action"].as_str().unwrap_or_default()
    }
}

type Answer = dyn Fn(&Received) -> Reply + Send + Sync;

/// The proxy. Its threads end with the test's process.
pub(crate) struct Script {
    address: SocketAddr,
    scheme: &'static str,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Script {
    /// Answers every request by `answer`.
    pub(crate) fn start(answer: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen("http", None, Arc::new(answer))
    }

    /// The same over TLS, as `localhost`.
    pub(crate) fn start_tls(
        tls: rustls::ServerConfig,
        answer: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen("https", Some(Arc::new(tls)), Arc::new(answer))
    }

    fn listen(
        scheme: &'static str,
        tls: Option<Arc<rustls::ServerConfig>>,
        answer: Arc<Answer>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let all = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, all, tls) = (Arc::clone(&answer), Arc::clone(&all), tls.clone());
                std::thread::spawn(move || {
                    let stream = stream.unwrap();
                    match tls {
                        None => serve(stream.try_clone().unwrap(), stream, &*answer, &all),
                        Some(tls) => serve_tls(stream, tls, &*answer, &all),
                    }
                });
            }
        });
        Self { address, scheme, received }
    }

    pub(crate) fn url(&self) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}", self.scheme, self.address.port())
    }

    /// All requests so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The actions of all requests so far.
    pub(crate) fn actions(&self) -> Vec<String> {
        self.received().iter().map(|request| request.action().to_owned()).collect()
    }
}

/// Requests on one connection, until either side ends it.
fn serve(stream: impl Read, mut out: impl Write, answer: &Answer, all: &Mutex<Vec<Received>>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream) {
        all.lock().unwrap().push(request.clone());
        if !reply(&mut out, answer(&request)) {
            return;
        }
    }
}

fn serve_tls(
    stream: TcpStream,
    tls: Arc<rustls::ServerConfig>,
    answer: &Answer,
    all: &Mutex<Vec<Received>>,
) {
    let connection = rustls::ServerConnection::new(tls).unwrap();
    let mut stream = BufReader::new(rustls::StreamOwned::new(connection, stream));
    while let Some(request) = read(&mut stream) {
        all.lock().unwrap().push(request.clone());
        if !reply(stream.get_mut(), answer(&request)) {
            return;
        }
    }
}

/// Whether the connection goes on.
fn reply(out: &mut impl Write, reply: Reply) -> bool {
    let (status, media_type, body) = match reply {
        Reply::Json(status, body) => (status, "application/json", body.to_string()),
        Reply::Text(status, body) => (status, "text/plain", body.to_owned()),
        Reply::Close => return false,
        Reply::Silence(time) => {
            std::thread::sleep(time);
            return false;
        }
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: ");
    write!(out, "{head}{length}\r\n\r\n{body}").and_then(|()| out.flush()).is_ok()
}

/// The next request; `None` at the end of the connection.
fn read(stream: &mut impl std::io::BufRead) -> Option<Received> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut words = lines[0].split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let mut request = Request::builder().method(method).uri(target);
    for line in &lines[1..] {
        let (name, value) = line.split_once(": ").unwrap();
        request = request.header(name, value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let length = parts.headers.get("content-length");
    let length = length.map_or(0, |text| text.to_str().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    if parts.headers.contains_key("authorization") {
        let ring = KeyRing::single(AccessKeyId::new(ID).unwrap(), SecretKey::new(SECRET).unwrap());
        let now = clock::now();
        verify(&parts, &ring, now).expect("the proxy would take the signature");
    }
    Some(Received {
        method: method.to_owned(),
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body: if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() },
    })
}

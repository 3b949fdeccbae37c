//! The listener over raw sockets: what clients see when requests are refused early, broken, slow
//! or in flight at the end, on HTTP/1.1, HTTP/2 and over TLS. This file is the server and the
//! HTTP/1.1 client; the tests are in its modules.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may end at the first surprise")]

#[path = "../support/authority.rs"]
mod authority;
mod certificates;
mod ending;
mod http2;
mod http2_ending;
mod http2_limits;
mod limits;
mod refusal;
mod streams;
mod target;
mod tls;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fencepost::listener::{
    BodyError, ClientAddress, Drained, Handler, Limits, Listener, Refusal, RequestBody, RequestId,
    Tls,
};
use fencepost::telemetry::{Metrics, Traffic};
use http::{Request, Response, StatusCode, request};
use http_body_util::{BodyExt as _, Full};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

const LIMITS: Limits = Limits {
    header_bytes_max: 8192,
    connections_max: 16,
    requests_in_flight_max: 16,
    header_timeout: Duration::from_secs(5),
    body_idle_timeout: Duration::from_secs(5),
    request_timeout: Duration::from_secs(30),
    http2_streams_max: 16,
    http2_window_bytes: 128 * 1024,
    refusal_drain_bytes_max: 64 * 1024 * 1024,
    refusal_drain_max: Duration::from_secs(5),
    drain_max: Duration::from_secs(5),
};

/// Long enough for any machine, short enough to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(30);

const UPLOAD_BYTES: usize = 30 * 1024 * 1024;

/// Headers that an answer cannot have on HTTP/2, and one that `Connection` names.
const HOP_BY_HOP: [(&str, &str); 5] = [
    ("connection", "x-private"),
    ("keep-alive", "timeout=5"),
    ("proxy-connection", "keep-alive"),
    ("upgrade", "h2c"),
    ("x-private", "1"),
];

/// Does what the path says.
#[derive(Clone, Default)]
struct ByPath {
    /// Lets `/wait` go on.
    go: Arc<Notify>,
    /// How many `/wait` have begun, and have ended.
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Handler for ByPath {
    type Body = Full<Bytes>;

    async fn handle(&self, request: Request<RequestBody>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        match head.uri.path() {
            "/refuse" => answer(StatusCode::CONFLICT, "stale"),
            "/read" => match body.collect().await {
                Ok(body) => answer(StatusCode::OK, format!("{} bytes", body.to_bytes().len())),
                Err(BodyError::Idle(_)) => answer(StatusCode::REQUEST_TIMEOUT, "idle"),
                Err(BodyError::Late(_)) => answer(StatusCode::REQUEST_TIMEOUT, "late"),
                Err(BodyError::Broken(_)) => answer(StatusCode::BAD_REQUEST, "broken"),
            },
            "/id" => {
                let id = head.extensions.get::<RequestId>().unwrap();
                let client = head.extensions.get::<ClientAddress>().unwrap();
                answer(StatusCode::OK, format!("{id} {}", client.0))
            }
            "/headers" => answer(StatusCode::OK, format!("{:?}", head.headers)),
            "/hop-by-hop" => {
                let mut answer = answer(StatusCode::OK, "from somewhere else");
                for (name, value) in HOP_BY_HOP {
                    answer.headers_mut().append(name, value.parse().unwrap());
                }
                answer
            }
            "/wait" => {
                self.begun.fetch_add(1, Ordering::SeqCst);
                self.go.notified().await;
                self.ended.fetch_add(1, Ordering::SeqCst);
                answer(StatusCode::OK, "waited")
            }
            "/large" => answer(StatusCode::OK, vec![b'x'; UPLOAD_BYTES]),
            "/panic" => panic!("a broken invariant"),
            _ => answer(StatusCode::OK, head.uri.path_and_query().unwrap().as_str().to_owned()),
        }
    }

    fn refuse(&self, head: &request::Parts, refusal: Refusal) -> Response<Full<Bytes>> {
        assert!(head.extensions.get::<RequestId>().is_some());
        match refusal {
            Refusal::Busy => answer(StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Refusal::Malformed(why) => answer(StatusCode::BAD_REQUEST, why),
            Refusal::Failed => answer(StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        }
    }
}

fn answer(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer
}

struct Server {
    address: SocketAddr,
    handler: ByPath,
    traffic: Traffic,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

async fn server(limits: Limits) -> Server {
    serve(limits, None).await
}

async fn serve(limits: Limits, tls: Option<Tls>) -> Server {
    let traffic = Metrics::new().traffic();
    let free = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    let listener = Listener::bind(free, limits, traffic.clone()).await.unwrap();
    let listener = match tls {
        Some(tls) => listener.with_tls(tls),
        None => listener,
    };
    let address = listener.local_addr();
    let handler = ByPath::default();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn({
        let handler = handler.clone();
        async move { listener.serve(handler, async { stopped.await.unwrap() }).await }
    });
    Server { address, handler, traffic, stop, ended }
}

/// A client of plain blocking calls, as simple clients are.
fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Runs blocking client code beside the server.
async fn client<T: Send + 'static>(code: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(code)).await.unwrap().unwrap()
}

/// Reads one answer whose length is given, or up to the end.
fn read_answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap() == 0 {
            return String::from_utf8(text).unwrap();
        }
        text.push(byte[0]);
    }
    let head = String::from_utf8(text).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    head + std::str::from_utf8(&body).unwrap()
}

/// One request on a connection of its own.
async fn ask(address: SocketAddr, request: impl AsRef<[u8]> + Send + 'static) -> String {
    client(move || {
        let mut stream = connect(address);
        stream.write_all(request.as_ref()).unwrap();
        read_answer(&mut stream)
    })
    .await
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let start = fencepost::clock::monotonic();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn put(path: &str, length: usize) -> String {
    format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

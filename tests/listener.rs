//! The listener over raw sockets: what clients see when requests are refused early, broken, slow
//! or in flight at the end.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fencepost::listener::{
    BodyError, ClientAddress, Drained, Handler, Limits, Listener, Refusal, RequestBody, RequestId,
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
    refusal_drain_bytes_max: 64 * 1024 * 1024,
    refusal_drain_max: Duration::from_secs(5),
    drain_max: Duration::from_secs(5),
};

/// Long enough for any machine, short enough to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(30);

const UPLOAD_BYTES: usize = 30 * 1024 * 1024;

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
                Err(BodyError::Broken(_)) => answer(StatusCode::BAD_REQUEST, "broken"),
            },
            "/id" => {
                let id = head.extensions.get::<RequestId>().unwrap();
                let client = head.extensions.get::<ClientAddress>().unwrap();
                answer(StatusCode::OK, format!("{id} {}", client.0))
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
    let traffic = Metrics::new().traffic();
    let free = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    let listener = Listener::bind(free, limits, traffic.clone()).await.unwrap();
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
    let start = Instant::now();
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

#[tokio::test]
async fn an_upload_that_is_refused_early_gets_its_answer_and_no_reset() {
    let server = server(LIMITS).await;
    let (answer, rest) = client(move || {
        let mut stream = connect(server.address);
        stream.write_all(put("/refuse", UPLOAD_BYTES).as_bytes()).unwrap();
        // The whole body before the first look at the answer, as simple clients do it. Each of
        // these calls fails with a reset or a broken pipe when the server just closes.
        for _ in 0..UPLOAD_BYTES / 65_536 {
            stream.write_all(&[b'x'; 65_536]).unwrap();
        }
        let answer = read_answer(&mut stream);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        (answer, rest)
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.ends_with("stale"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(rest, b"");
    assert_eq!(server.traffic.received_bytes.get(), 0, "the body is not for the handler");
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_is_refused_without_it() {
    let server = server(LIMITS).await;
    let answer = client(move || {
        let mut stream = connect(server.address);
        let head = put("/refuse", UPLOAD_BYTES).replace("Host", "Expect: 100-continue\r\nHost");
        stream.write_all(head.as_bytes()).unwrap();
        // Everything up to the end: there is no 100 before it and nothing after it.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.ends_with("stale"), "{answer}");
    assert!(!answer.contains("100 Continue"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it_once_the_body_is_wanted() {
    let server = server(LIMITS).await;
    let (first, second) = client(move || {
        let mut stream = connect(server.address);
        let head = put("/read", 5).replace("Host", "Expect: 100-continue\r\nHost");
        stream.write_all(head.as_bytes()).unwrap();
        let first = read_answer(&mut stream);
        stream.write_all(b"hello").unwrap();
        (first, read_answer(&mut stream))
    })
    .await;
    assert_eq!(first, "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(second.starts_with("HTTP/1.1 200 OK\r\n") && second.ends_with("5 bytes"), "{second}");
    assert_eq!(server.traffic.received_bytes.get(), 5);
}

#[tokio::test]
async fn the_drain_after_a_refusal_has_an_end() {
    let by_bytes = Limits { refusal_drain_bytes_max: 1024 * 1024, ..LIMITS };
    let by_time = Limits { refusal_drain_max: Duration::from_millis(200), ..LIMITS };
    for limits in [by_bytes, by_time] {
        let server = server(limits).await;
        let broke_off = client(move || {
            let mut stream = connect(server.address);
            stream.write_all(put("/refuse", usize::MAX / 2).as_bytes()).unwrap();
            let start = Instant::now();
            // A client that never stops. At the bound by bytes it runs as fast as it can, at the
            // bound by time slowly enough to stay below the other.
            while start.elapsed() < PATIENCE {
                if stream.write_all(&[b'x'; 4096]).is_err() {
                    return true;
                }
                if limits.refusal_drain_max < Duration::from_secs(1) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            false
        })
        .await;
        assert!(broke_off, "{limits:?}");
        until("the connection is gone", || server.traffic.connections.get() == 0).await;
    }
}

#[tokio::test]
async fn connections_are_kept_when_the_body_was_read_or_there_was_none() {
    let server = server(LIMITS).await;
    let answers = client(move || {
        let mut stream = connect(server.address);
        let mut answers = Vec::new();
        for head in [put("/read", 3) + "abc", put("/refuse", 0), get("/refuse"), get("/id")] {
            stream.write_all(head.as_bytes()).unwrap();
            answers.push(read_answer(&mut stream));
        }
        answers
    })
    .await;
    for (answer, end) in answers.iter().zip(["3 bytes", "stale", "stale"]) {
        assert!(answer.ends_with(end) && !answer.contains("connection: close"), "{answer}");
    }
    assert!(answers[3].starts_with("HTTP/1.1 200 "), "{}", answers[3]);
}

#[tokio::test]
async fn every_request_has_an_id_of_its_own() {
    let server = server(LIMITS).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = ask(server.address, get("/id")).await;
        let line = answer.lines().last().unwrap().to_owned();
        let (id, client) = line.split_once(' ').unwrap();
        let upper_hex = |c: char| c.is_ascii_digit() || ('A'..='F').contains(&c);
        assert!(id.len() == 16 && id.chars().all(upper_hex), "{id}");
        assert!(client.starts_with("127.0.0.1:"), "{client}");
        ids.push(id.to_owned());
    }
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn the_bytes_of_a_target_reach_the_handler_as_they_were_sent() {
    let server = server(LIMITS).await;
    let kept: [&[u8]; 13] = [
        b"/b/k",
        b"//b//k//",
        b"/b/../k/./x",
        b"/b/%2e%2E/%2F%2f%00%FF",
        b"/b/a+b%20c;d=e,f:g@h!$&'()*~-_",
        b"/b/k?list-type=2&prefix=a%2Fb&x",
        b"/b/k?",
        b"/b/k??a=b?c",
        b"/b/raw\"quote",
        b"/b/{brace}|pipe^caret`tick\\back",
        b"/b/<angle>[square]",
        "/b/sn\u{f6}/\u{1f512}".as_bytes(),
        b"/b/%zz%1",
    ];
    for target in kept {
        let mut head = b"GET ".to_vec();
        head.extend_from_slice(target);
        head.extend_from_slice(b" HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = ask(server.address, head).await;
        let text = String::from_utf8_lossy(target);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{text}: {answer}");
        assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, text);
    }
    // A fragment has no place in a target and is cut off by the URI parser; a client sends %23.
    let answer = ask(server.address, get("/b/k#fragment")).await;
    assert!(answer.ends_with("\r\n\r\n/b/k"), "{answer}");
    let absolute = ask(server.address, get("http://A/b/k?x")).await;
    assert!(absolute.ends_with("\r\n\r\n/b/k?x"), "{absolute}");
}

#[tokio::test]
async fn what_http_does_not_allow_is_400() {
    let server = server(LIMITS).await;
    let ours = [
        ("GET /b/k HTTP/1.1\r\n\r\n", "no Host header"),
        ("GET /b/k HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "more than one Host header"),
        ("GET http://b/b/k HTTP/1.1\r\nHost: a\r\n\r\n", "names another host than the Host header"),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "the request target is not a path"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "the request target is not a path"),
    ];
    for (head, why) in ours {
        let answer = ask(server.address, head).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with(why), "{head}: {answer}");
    }
    let hypers: [&[u8]; 6] = [
        b"GET /b/\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /b/\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET b/k HTTP/1.1\r\nHost: a\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"PUT /b/k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    ];
    for head in hypers {
        let answer = ask(server.address, head).await;
        let text = String::from_utf8_lossy(head);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{text}: {answer}");
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_431_and_not_a_reset() {
    let server = server(LIMITS).await;
    let answer = client(move || {
        let mut stream = connect(server.address);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX: ").unwrap();
        for _ in 0..64 {
            stream.write_all(&[b'x'; 65_536]).unwrap();
        }
        read_answer(&mut stream)
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let server = server(Limits { header_timeout: Duration::from_millis(200), ..LIMITS }).await;
    for beginning in ["GET / HTTP/1.1\r\nHost:", ""] {
        let took = client(move || {
            let mut stream = connect(server.address);
            stream.write_all(beginning.as_bytes()).unwrap();
            let start = Instant::now();
            stream.read_to_end(&mut Vec::new()).unwrap();
            start.elapsed()
        })
        .await;
        assert!(took < Duration::from_secs(10), "{beginning:?}: {took:?}");
    }
}

#[tokio::test]
async fn a_body_that_stops_coming_is_an_error_for_the_handler() {
    let server = server(Limits { body_idle_timeout: Duration::from_millis(200), ..LIMITS }).await;
    let answer = ask(server.address, put("/read", 10) + "hello").await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.ends_with("idle"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_is_let_go() {
    let server = server(Limits { body_idle_timeout: Duration::from_millis(200), ..LIMITS }).await;
    let address = server.address;
    let stream = client(move || {
        let mut stream = connect(address);
        stream.write_all(get("/large").as_bytes()).unwrap();
        stream
    })
    .await;
    until("the answer has begun", || server.traffic.sent_bytes.get() > 0).await;
    until("the connection is gone", || server.traffic.connections.get() == 0).await;
    assert_eq!(server.traffic.in_flight_requests.get(), 0);
    drop(stream);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let server = server(Limits { connections_max: 1, ..LIMITS }).await;
    let address = server.address;
    let (first, waited, second) = client(move || {
        let mut first = connect(address);
        first.write_all(get("/id").as_bytes()).unwrap();
        let answer = read_answer(&mut first);
        let mut second = connect(address);
        second.write_all(get("/id").as_bytes()).unwrap();
        second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let waited = second.read(&mut [0]).is_err();
        drop(first);
        second.set_read_timeout(Some(PATIENCE)).unwrap();
        (answer, waited, read_answer(&mut second))
    })
    .await;
    assert!(first.starts_with("HTTP/1.1 200 ") && second.starts_with("HTTP/1.1 200 "));
    assert!(waited, "the second connection was served beside the first");
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused_until_one_has_ended() {
    let server = server(Limits { requests_in_flight_max: 1, ..LIMITS }).await;
    let waiting = tokio::spawn(ask(server.address, get("/wait")));
    until("a request is in flight", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    assert_eq!(server.traffic.in_flight_requests.get(), 1);
    let refused = ask(server.address, put("/read", 3) + "abc").await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.ends_with("busy"), "{refused}");
    server.handler.go.notify_one();
    assert!(waiting.await.unwrap().ends_with("waited"));
    until("none is in flight", || server.traffic.in_flight_requests.get() == 0).await;
    let next = ask(server.address, put("/read", 3) + "abc").await;
    assert!(next.ends_with("3 bytes"), "{next}");
}

#[tokio::test]
async fn a_panic_ends_one_request_and_not_the_connection() {
    let server = server(LIMITS).await;
    let (failed, next) = client(move || {
        let mut stream = connect(server.address);
        stream.write_all(get("/panic").as_bytes()).unwrap();
        let failed = read_answer(&mut stream);
        stream.write_all(get("/id").as_bytes()).unwrap();
        (failed, read_answer(&mut stream))
    })
    .await;
    assert!(failed.starts_with("HTTP/1.1 500 ") && failed.ends_with("failed"), "{failed}");
    assert!(next.starts_with("HTTP/1.1 200 "), "{next}");
    assert_eq!(server.traffic.in_flight_requests.get(), 0);
}

#[tokio::test]
async fn a_handler_goes_on_when_its_client_has_gone() {
    let server = server(LIMITS).await;
    let address = server.address;
    let stream = client(move || {
        let mut stream = connect(address);
        stream.write_all(get("/wait").as_bytes()).unwrap();
        stream
    })
    .await;
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    drop(stream);
    until("the connection is gone", || server.traffic.connections.get() == 0).await;
    assert_eq!(server.handler.ended.load(Ordering::SeqCst), 0);
    // It is waited for at the end, too.
    server.stop.send(()).unwrap();
    server.handler.go.notify_one();
    assert_eq!(server.ended.await.unwrap(), Drained::Completely);
    assert_eq!(server.handler.ended.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_drain_lets_requests_finish_closes_idle_connections_and_the_port() {
    let server = server(LIMITS).await;
    let address = server.address;
    let mut idle = client(move || {
        let mut stream = connect(address);
        stream.write_all(get("/id").as_bytes()).unwrap();
        read_answer(&mut stream);
        stream
    })
    .await;
    let waiting = tokio::spawn(ask(address, get("/wait")));
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    server.stop.send(()).unwrap();
    let rest = client(move || idle.read(&mut [0]).unwrap()).await;
    assert_eq!(rest, 0, "the idle connection is closed while the other one works");
    until("the port is closed", || TcpStream::connect(address).is_err()).await;
    assert!(!server.ended.is_finished(), "a request is still in flight");
    server.handler.go.notify_one();
    let answer = waiting.await.unwrap();
    assert!(answer.ends_with("waited") && answer.contains("connection: close"), "{answer}");
    assert_eq!(server.ended.await.unwrap(), Drained::Completely);
}

#[tokio::test]
async fn the_drain_cuts_what_takes_too_long() {
    let server = server(Limits { drain_max: Duration::from_millis(200), ..LIMITS }).await;
    let address = server.address;
    let cut = tokio::spawn(client(move || {
        let mut stream = connect(address);
        stream.write_all(get("/wait").as_bytes()).unwrap();
        stream.read(&mut [0]).map_or(0, |read| read)
    }));
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    server.stop.send(()).unwrap();
    assert_eq!(server.ended.await.unwrap(), Drained::Cut);
    assert_eq!(cut.await.unwrap(), 0, "there is no answer");
    until("the handler is cut", || server.traffic.in_flight_requests.get() == 0).await;
    assert_eq!(server.handler.ended.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn bytes_are_counted_in_both_directions() {
    let server = server(LIMITS).await;
    let chunked = "PUT /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n0\r\n\r\n";
    let answer = ask(server.address, chunked).await;
    assert!(answer.ends_with("5 bytes"), "{answer}");
    assert_eq!(server.traffic.received_bytes.get(), 5);
    assert_eq!(server.traffic.sent_bytes.get(), 7);
}

//! TLS on the listener: both versions of HTTP, and clients that are slow or wrong.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fencepost::listener::{Drained, Limits, Tls};
use rustls::ClientConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::authority::Authority;
use crate::streams::{Connection, put as put_http2, soon};
use crate::{LIMITS, Server, UPLOAD_BYTES, client, connect, get, put, read_answer, serve, until};

pub(crate) const HOST: &str = "localhost";

const A_MOMENT: Duration = Duration::from_millis(300);

async fn secure(limits: Limits, handshake_timeout: Duration) -> (Server, Authority) {
    let authority = Authority::new("authority");
    let tls = Tls::new(authority.issue(HOST).server(), handshake_timeout);
    (serve(limits, Some(tls)).await, authority)
}

/// A handshake, which may fail.
pub(crate) async fn handshake(
    address: SocketAddr,
    config: Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    soon(TlsConnector::from(config).connect(HOST.try_into().unwrap(), stream)).await
}

/// One HTTP/1.1 request over an open connection, and all that comes back.
pub(crate) async fn ask_over(stream: &mut TlsStream<TcpStream>, head: &str) -> String {
    stream.write_all(head.replace("Host", "Connection: close\r\nHost").as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

#[tokio::test]
async fn clients_choose_the_version_by_alpn() {
    let (server, authority) = secure(LIMITS, LIMITS.header_timeout).await;
    for (offered, agreed) in [
        (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let mut stream = handshake(server.address, authority.client(None, offered)).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed);
        if agreed == Some(b"h2") {
            let builder = h2::client::Builder::new();
            assert_eq!(Connection::over(&builder, stream).await.get("/b/k?x").await.body, "/b/k?x");
        } else {
            let answer = ask_over(&mut stream, &get("/b/k?x")).await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("/b/k?x"), "{answer}");
        }
    }
    let other = handshake(server.address, Authority::new("other").client(None, &[])).await;
    assert!(other.is_err(), "the certificate is the authority's");
}

#[tokio::test]
async fn an_upload_that_is_refused_early_gets_its_answer_and_no_reset() {
    let (server, authority) = secure(LIMITS, LIMITS.header_timeout).await;
    let mut stream = handshake(server.address, authority.client(None, &[])).await.unwrap();
    stream.write_all(put("/refuse", UPLOAD_BYTES).as_bytes()).await.unwrap();
    // The whole body before the first look at the answer.
    for _ in 0..UPLOAD_BYTES / 65_536 {
        soon(stream.write_all(&[b'x'; 65_536])).await.unwrap();
    }
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.ends_with("stale"), "{answer}");

    let stream = handshake(server.address, authority.client(None, &["h2"])).await.unwrap();
    let mut connection = Connection::over(&h2::client::Builder::new(), stream).await;
    let mut upload = connection.begin(put_http2("/refuse"), true).await;
    upload.send(vec![b'x'; UPLOAD_BYTES].into()).await.unwrap();
    assert_eq!(upload.answer().await.unwrap().body, "stale");
    assert_eq!(connection.get("/b").await.body, "/b");
}

#[tokio::test]
async fn a_handshake_that_does_not_come_ends_the_connection_and_holds_up_nobody() {
    let (server, authority) = secure(LIMITS, A_MOMENT).await;
    let address = server.address;
    let silent = client(move || connect(address)).await;
    let half = client(move || {
        let mut stream = connect(address);
        stream.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
        stream
    })
    .await;
    until("both are connected", || server.traffic.connections.get() == 2).await;
    let mut other = handshake(address, authority.client(None, &[])).await.unwrap();
    assert!(ask_over(&mut other, &get("/b")).await.ends_with("/b"));
    for mut stream in [silent, half] {
        let rest = client(move || stream.read(&mut [0; 64]).unwrap_or(0)).await;
        assert_eq!(rest, 0);
    }
    drop(other);
    until("the connections are gone", || server.traffic.connections.get() == 0).await;
}

#[tokio::test]
async fn a_handshake_counts_as_a_connection() {
    let (server, authority) = secure(Limits { connections_max: 1, ..LIMITS }, A_MOMENT).await;
    let silent = client(move || connect(server.address)).await;
    until("it is connected", || server.traffic.connections.get() == 1).await;
    let start = fencepost::clock::monotonic();
    // Its turn comes when the other one's time is up.
    let mut stream = handshake(server.address, authority.client(None, &[])).await.unwrap();
    assert!(start.elapsed() > A_MOMENT / 2, "{:?}", start.elapsed());
    assert!(ask_over(&mut stream, &get("/b")).await.ends_with("/b"));
    drop(silent);
}

#[tokio::test]
async fn a_client_that_speaks_no_tls_is_told_so() {
    let (server, authority) = secure(LIMITS, LIMITS.header_timeout).await;
    let answers = client(move || {
        let ask = |request: &[u8]| {
            let mut stream = connect(server.address);
            stream.write_all(request).unwrap();
            read_answer(&mut stream)
        };
        // The first is ended by a reset, were its body not read.
        [ask(&[put("/b", 65_536).into_bytes(), vec![b'x'; 65_536]].concat()), ask(b"G")]
    })
    .await;
    for answer in answers {
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("https://\n"), "{answer}");
    }
    assert_eq!(server.traffic.in_flight_requests.get(), 0);
    let noise = client(move || {
        let mut stream = connect(server.address);
        stream.write_all(&[0; 64]).unwrap();
        stream.read_to_end(&mut Vec::new()).is_ok()
    });
    noise.await;
    let mut stream = handshake(server.address, authority.client(None, &[])).await.unwrap();
    assert!(ask_over(&mut stream, &get("/b")).await.ends_with("/b"));
}

#[tokio::test]
async fn a_client_that_asks_for_nothing_or_takes_nothing_is_let_go() {
    let limits = Limits { header_timeout: A_MOMENT, body_idle_timeout: A_MOMENT, ..LIMITS };
    let (server, authority) = secure(limits, LIMITS.header_timeout).await;
    for alpn in [&["h2"][..], &[]] {
        let mut silent = handshake(server.address, authority.client(None, alpn)).await.unwrap();
        let _ = soon(silent.read(&mut [0; 1024])).await;
        until("the silent one is gone", || server.traffic.connections.get() == 0).await;
    }
    let mut stream = handshake(server.address, authority.client(None, &[])).await.unwrap();
    stream.write_all(get("/large").as_bytes()).await.unwrap();
    until("the answer has begun", || server.traffic.sent_bytes.get() > 0).await;
    until("the connection is gone", || server.traffic.connections.get() == 0).await;
    assert_eq!(server.traffic.in_flight_requests.get(), 0);
}

#[tokio::test]
async fn the_drain_does_not_wait_for_handshakes() {
    let (server, _authority) = secure(LIMITS, LIMITS.header_timeout).await;
    let silent = client(move || connect(server.address)).await;
    until("it is connected", || server.traffic.connections.get() == 1).await;
    let start = fencepost::clock::monotonic();
    server.stop.send(()).unwrap();
    assert_eq!(soon(server.ended).await.unwrap(), Drained::Completely);
    assert!(start.elapsed() < LIMITS.header_timeout, "{:?}", start.elapsed());
    drop(silent);
}

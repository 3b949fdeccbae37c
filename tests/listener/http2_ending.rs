//! How HTTP/2 connections end: clients that go, and drains.

use std::io::{Read as _, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use fencepost::listener::{Drained, Limits};

use crate::streams::{Connection, PREFACE, connected, frame, get, put, soon};
use crate::{LIMITS, client, connect, server, until};

#[tokio::test]
async fn a_handler_goes_on_when_its_client_has_gone() {
    let (server, mut connection) = connected(LIMITS).await;
    let open = connection.begin(get("/wait"), false).await;
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    connection.vanish().await;
    drop(open);
    until("the connection is gone", || server.traffic.connections.get() == 0).await;
    assert_eq!(server.handler.ended.load(Ordering::SeqCst), 0);
    // It is waited for at the end, too.
    server.stop.send(()).unwrap();
    server.handler.go.notify_one();
    assert_eq!(server.ended.await.unwrap(), Drained::Completely);
    assert_eq!(server.handler.ended.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_drain_lets_requests_finish_and_closes_idle_connections() {
    let (server, mut connection) = connected(LIMITS).await;
    let idle = Connection::open(server.address).await;
    let mut upload = connection.begin(put("/read"), true).await;
    let mut waiting = connection.begin(get("/wait"), false).await;
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    server.stop.send(()).unwrap();
    idle.ended().await.unwrap();
    assert!(!server.ended.is_finished(), "requests are still in flight");
    // Told that the connection ends, the client has no new requests for it.
    let refused = soon(async {
        while let Ok(mut requests) = connection.requests.clone().ready().await
            && requests.send_request(get("/b"), true).is_ok()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    refused.await;
    upload.send(Bytes::from_static(b"hello")).await.unwrap();
    assert_eq!(upload.answer().await.unwrap().body, "5 bytes");
    server.handler.go.notify_one();
    assert_eq!(waiting.answer().await.unwrap().body, "waited");
    connection.ended().await.unwrap();
    assert_eq!(server.ended.await.unwrap(), Drained::Completely);
}

#[tokio::test]
async fn the_drain_cuts_what_takes_too_long() {
    let limits = Limits { drain_max: Duration::from_millis(200), ..LIMITS };
    let (server, mut connection) = connected(limits).await;
    let mut waiting = connection.begin(get("/wait"), false).await;
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    server.stop.send(()).unwrap();
    assert_eq!(server.ended.await.unwrap(), Drained::Cut);
    assert!(waiting.answer().await.is_err(), "there is no answer");
    until("the handler is cut", || server.traffic.in_flight_requests.get() == 0).await;
    assert_eq!(server.handler.ended.load(Ordering::SeqCst), 0);
}

/// The connection ends with the answer, and the client is still sending: a reset of the socket
/// would take the answer away from it.
#[tokio::test]
async fn an_answer_before_its_body_survives_the_drain() {
    let (server, mut connection) = connected(LIMITS).await;
    let mut upload = connection.begin(put("/wait"), true).await;
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    server.stop.send(()).unwrap();
    upload.send(vec![b'x'; LIMITS.http2_window_bytes as usize / 2].into()).await.unwrap();
    server.handler.go.notify_one();
    assert_eq!(upload.answer().await.unwrap().body, "waited");
    drop(upload);
    connection.ended().await.unwrap();
    assert_eq!(soon(server.ended).await.unwrap(), Drained::Completely);
}

#[tokio::test]
async fn a_client_that_still_sends_when_its_connection_ends_is_not_reset() {
    let limits = Limits {
        body_idle_timeout: Duration::from_millis(200),
        refusal_drain_max: Duration::from_secs(2),
        ..LIMITS
    };
    let server = server(limits).await;
    let mut stream = client(move || {
        let mut stream = connect(server.address);
        // PUT by its name, /wait, and no end of the stream.
        let head = b"\x02\x03PUT\x86\x04\x05/wait\x41\x01a";
        stream.write_all(PREFACE).unwrap();
        stream.write_all(&frame(1, 0x4, 1, head)).unwrap();
        stream.write_all(&frame(0, 0, 1, b"hello")).unwrap();
        stream
    })
    .await;
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    server.stop.send(()).unwrap();
    server.handler.go.notify_one();
    let seen = client(move || {
        let mut seen = Vec::new();
        stream.read_to_end(&mut seen).unwrap();
        // At a socket that is closed with these in it, the second would fail.
        for _ in 0..2 {
            stream.write_all(&frame(0, 0, 1, &[b'x'; 1024])).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        seen
    })
    .await;
    assert!(seen.windows(6).any(|bytes| bytes == b"waited"), "{seen:?}");
    assert_eq!(soon(server.ended).await.unwrap(), Drained::Completely);
}

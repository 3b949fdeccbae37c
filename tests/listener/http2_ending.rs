//! How HTTP/2 connections end: clients that go, and drains.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use fencepost::listener::{Drained, Limits};

use crate::streams::{Connection, connected, get, put, soon};
use crate::{LIMITS, until};

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

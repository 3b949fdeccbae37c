//! `Expect: 100-continue` and other interim answers.

use std::time::Duration;

use super::support::header;
use super::{Stage, ask};

/// A body that is streamed and not held in memory.
const STREAMS: &str = "limits.body_buffer_bytes_max = 16\n";

/// A PUT that waits to be told to go on.
fn expecting(length: usize) -> String {
    ask("PUT", "k", &format!("Expect: 100-continue\r\nContent-Length: {length}\r\n"))
}

#[tokio::test]
async fn a_client_that_waits_is_told_to_go_on() {
    for length in [5, 50] {
        let stage = Stage::set(STREAMS, |mut wire| async move {
            let Some(head) = wire.head().await else { return };
            let length = header(&head, "content-length").unwrap().parse().unwrap();
            if header(&head, "expect").is_some() {
                wire.send("HTTP/1.1 100 Continue\r\n\r\n").await;
            }
            let body = wire.bytes(length).await.unwrap();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            wire.send([answer.as_bytes(), &body].concat()).await;
        })
        .await;
        let mut caller = stage.caller().await;
        caller.send(expecting(length)).await;
        assert_eq!(caller.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        assert!(caller.is_quiet().await, "there is no answer before the body");
        let body = "b".repeat(length);
        caller.send(&body).await;
        let (head, echo) = caller.answer().await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert_eq!(echo, body.as_bytes());
    }
}

/// What is refused from its head costs nobody a body.
#[tokio::test]
async fn a_store_that_refuses_at_once_is_heard_before_the_body() {
    let stage = Stage::set(STREAMS, |mut wire| async move {
        let Some(head) = wire.head().await else { return };
        assert_eq!(header(&head, "expect"), Some("100-continue"));
        wire.send("HTTP/1.1 412 Precondition Failed\r\nContent-Length: 3\r\n\r\nwo").await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        wire.send("n").await;
        assert!(wire.bytes(1).await.is_none(), "the connection ends without a body");
    })
    .await;
    let mut caller = stage.caller().await;
    caller.send(expecting(50_000_000)).await;
    let (head, body) = caller.answer().await;
    assert!(head.starts_with("HTTP/1.1 412 Precondition Failed\r\n"), "{head}");
    assert_eq!(header(&head, "connection"), Some("close"));
    assert_eq!(body, b"won", "however late it ends");
    assert_eq!(caller.rest().await, b"");
    let received = stage.proxy.counter("fencepost_bytes_total", "received").await;
    assert_eq!(received, 0, "the client was not asked for it");
}

/// Interim answers concern the connection to the store; what counts is the final one.
#[tokio::test]
async fn the_stores_interim_answers_are_not_the_answer() {
    let stage = Stage::set("", |mut wire| async move {
        while let Some(request) = wire.request().await {
            for interim in ["100 Continue", "102 Processing", "103 Early Hints", "199 Odd"] {
                wire.send(format!("HTTP/1.1 {interim}\r\nLink: <x>\r\n\r\n")).await;
            }
            let body = String::from_utf8(request.body).unwrap();
            let length = body.len();
            wire.send(format!("HTTP/1.1 201 Created\r\nContent-Length: {length}\r\n\r\n{body}"))
                .await;
        }
    })
    .await;
    let mut caller = stage.caller().await;
    for request in [super::put("k", "body"), ask("GET", "k", "")] {
        caller.send(&request).await;
        let (head, body) = caller.answer().await;
        assert!(head.starts_with("HTTP/1.1 201 Created\r\n"), "{head}");
        assert_eq!(header(&head, "link"), None);
        assert!(request.ends_with(std::str::from_utf8(&body).unwrap()));
    }
}

/// The store's own words, and not a reset or a time-out.
#[tokio::test]
async fn a_store_that_refuses_in_the_middle_of_a_body_is_heard() {
    let stage = Stage::set(STREAMS, |mut wire| async move {
        let Some(_) = wire.head().await else { return };
        let _ = wire.bytes(1).await;
        let refusal =
            "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 6\r\n\r\ndenied";
        wire.send(refusal).await;
        // A store that reads on for a while, as stores do.
        while wire.bytes(1).await.is_some() {}
    })
    .await;
    let mut caller = stage.caller().await;
    caller.send(expecting(50_000_000)).await;
    assert_eq!(caller.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    caller.send([b'b'; 100_000]).await;
    let (head, body) = caller.answer().await;
    assert!(head.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{head}");
    assert_eq!(body, b"denied");
}

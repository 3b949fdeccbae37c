//! A store that stops in the middle of a body: the client must not take what it got for all of it.

use std::sync::Arc;

use tokio::sync::Notify;

use super::support::header;
use super::{Stage, ask};

/// How a store stops.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It closes the connection in order.
    Fin,
    /// It crashes.
    Reset,
    /// It says no more.
    Silence,
}

/// What the client got after the head of the answer, up to the end of its connection.
async fn cut_off(answer: &'static str, end: End) -> (String, Vec<u8>) {
    let seen = Arc::new(Notify::new());
    let go = Arc::clone(&seen);
    let stage = Stage::set("backend.idle_body_timeout_seconds = 1\n", move |mut wire| {
        let go = Arc::clone(&go);
        async move {
            let Some(_) = wire.request().await else { return };
            wire.send(answer).await;
            // Not before the client has seen the beginning: what is left can only be the end.
            go.notified().await;
            match end {
                End::Fin => drop(wire),
                End::Reset => wire.reset(),
                End::Silence => {
                    let _ = wire.head().await;
                }
            }
        }
    })
    .await;
    let mut caller = stage.caller().await;
    caller.send(ask("GET", "k", "Connection: close\r\n")).await;
    let head = caller.until("\r\n\r\n").await;
    let first = caller.until("first").await;
    seen.notify_one();
    let mut body = first.into_bytes();
    body.extend(caller.rest().await);
    (head, body)
}

const LENGTH: &str = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
const IN_A_CHUNK: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nfirst";
const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\n\r\nfirst";
const OLD: &str = "HTTP/1.0 200 OK\r\n\r\nfirst";
const OLD_WITH_LENGTH: &str = "HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\nfirst";

/// A body of a known length is short, and one in chunks has no last chunk.
fn assert_not_complete(head: &str, body: &[u8], case: &str) {
    assert!(head.starts_with("HTTP/1.1 200 "), "{case}: {head}");
    match header(head, "content-length") {
        Some(length) => {
            assert_eq!(length, "100", "{case}");
            assert!(body.len() < 100, "{case}");
        }
        None => {
            assert_eq!(header(head, "transfer-encoding"), Some("chunked"), "{case}: {head}");
            let text = String::from_utf8_lossy(body);
            assert!(!text.contains("\r\n0\r\n"), "{case}: {text}");
        }
    }
}

#[tokio::test]
async fn a_store_that_is_cut_is_a_cut_for_the_client() {
    for answer in [LENGTH, CHUNKED, IN_A_CHUNK, OLD_WITH_LENGTH] {
        for end in [End::Fin, End::Reset, End::Silence] {
            let (head, body) = cut_off(answer, end).await;
            assert_not_complete(&head, &body, &format!("{answer:?}, {end:?}"));
        }
    }
}

/// The close is the end of such a body by definition (RFC 9112, section 6.3), so that a close in
/// order cannot be told from a cut. Whatever can be told is passed on as a cut.
#[tokio::test]
async fn a_body_that_ends_with_the_connection_is_cut_when_that_breaks() {
    for answer in [UNTIL_CLOSE, OLD] {
        for end in [End::Reset, End::Silence] {
            let (head, body) = cut_off(answer, end).await;
            assert_not_complete(&head, &body, &format!("{answer:?}, {end:?}"));
        }
        let (head, body) = cut_off(answer, End::Fin).await;
        assert_eq!(header(&head, "transfer-encoding"), Some("chunked"), "{head}");
        assert!(body.ends_with(b"\r\n0\r\n\r\n"), "{}", String::from_utf8_lossy(&body));
    }
}

//! Bytes pass as they come, in both directions.

use std::sync::Arc;

use tokio::sync::Notify;

use super::{Stage, ask};

/// A store that takes long to put an object together sends white space meanwhile, so that nobody
/// hangs up (S3 does for CompleteMultipartUpload and CopyObject). It must not be held back.
#[tokio::test]
async fn white_space_before_a_late_answer_passes_at_once() {
    let seen = Arc::new(Notify::new());
    let go = Arc::clone(&seen);
    let stage = Stage::set("", move |mut wire| {
        let go = Arc::clone(&go);
        async move {
            let Some(_) = wire.request().await else { return };
            wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
            for space in ["1\r\n \r\n", "1\r\n\n\r\n"] {
                wire.send(space).await;
                go.notified().await;
            }
            wire.send("8\r\n<Error/>\r\n0\r\n\r\n").await;
        }
    })
    .await;
    let mut caller = stage.caller().await;
    let complete = "<CompleteMultipartUpload/>";
    let length = format!("Content-Length: {}\r\n", complete.len());
    caller.send(ask("POST", "k?uploadId=u", &length) + complete).await;
    caller.until("\r\n\r\n").await;
    for space in ["1\r\n \r\n", "1\r\n\n\r\n"] {
        assert_eq!(caller.until(space).await, space);
        assert!(caller.is_quiet().await);
        seen.notify_one();
    }
    assert_eq!(caller.until("\r\n0\r\n\r\n").await, "8\r\n<Error/>\r\n0\r\n\r\n");
}

#[tokio::test]
async fn a_large_body_reaches_the_store_before_it_is_all_there() {
    let seen = Arc::new(Notify::new());
    let shown = Arc::clone(&seen);
    let stage = Stage::set("limits.body_buffer_bytes_max = 4\n", move |mut wire| {
        let shown = Arc::clone(&shown);
        async move {
            let Some(_) = wire.head().await else { return };
            assert_eq!(wire.bytes(5).await.unwrap(), b"first");
            shown.notify_one();
            assert_eq!(wire.bytes(10).await.unwrap(), b"secondlast");
            wire.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        }
    })
    .await;
    let mut caller = stage.caller().await;
    caller.send(ask("PUT", "k", "Content-Length: 15\r\n") + "first").await;
    // The newest piece waits for the next one, so that a body that is not what was promised is
    // never complete.
    assert!(caller.is_quiet().await);
    caller.send("second").await;
    super::support::soon("the first bytes at the store", seen.notified()).await;
    caller.send("last").await;
    assert!(caller.answer().await.0.starts_with("HTTP/1.1 200 "));
}

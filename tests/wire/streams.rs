//! Bytes pass as they come, in both directions.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;

use super::support::{header, unsigned_chunks_with_crc32};
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

/// Amazon S3 wants the checksum of every part of an upload that was created with an algorithm, and
/// clients on TLS send it in the trailer.
#[tokio::test]
async fn a_checksum_in_the_trailer_of_a_body_that_streams_goes_on() {
    let body = Bytes::from(vec![b'p'; 100_000]);
    let sent = unsigned_chunks_with_crc32(&[body.slice(..7), body.slice(7..)], &body);
    let framing = "Content-Encoding: gzip, aws-chunked\r\nx-amz-decoded-content-length: 100000\r\n\
                   x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\n\
                   x-amz-trailer: x-amz-checksum-crc32\r\nx-amz-sdk-checksum-algorithm: CRC32\r\n";
    for (forward, way) in [(true, "forward"), (false, "drop")] {
        let settings =
            format!("limits.body_buffer_bytes_max = 16\nbackend.checksum_trailers = \"{way}\"\n");
        let stage = Stage::set(&settings, |mut wire| async move {
            let Some(request) = wire.request().await else { return };
            let length = request.body.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            wire.send([answer.as_bytes(), &request.body].concat()).await;
        })
        .await;
        let mut caller = stage.caller().await;
        let length = format!("Content-Length: {}\r\n", sent.len());
        caller.send(ask("PUT", "k?partNumber=1&uploadId=u", &format!("{framing}{length}"))).await;
        caller.send(&sent).await;
        let (_, stored) = caller.answer().await;
        let head = stage.store.heads().remove(0);
        let says = |name| header(&head, name);
        if forward {
            let pieces = [body.slice(..65_536), body.slice(65_536..)];
            assert!(stored == unsigned_chunks_with_crc32(&pieces, &body), "in the SDKs' chunks");
            assert_eq!(says("x-amz-content-sha256"), Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER"));
            assert_eq!(says("x-amz-trailer"), Some("x-amz-checksum-crc32"));
            assert_eq!(says("x-amz-sdk-checksum-algorithm"), Some("CRC32"));
            assert_eq!(says("x-amz-decoded-content-length"), Some("100000"));
            let codings: Vec<_> =
                head.lines().filter(|line| line.starts_with("content-encoding")).collect();
            assert_eq!(codings, ["content-encoding: gzip,aws-chunked"]);
        } else {
            assert!(stored == body);
            assert_eq!(says("x-amz-content-sha256"), Some("UNSIGNED-PAYLOAD"));
            assert_eq!(says("x-amz-trailer"), None);
            assert_eq!(says("x-amz-sdk-checksum-algorithm"), None);
            assert_eq!(says("content-encoding"), Some("gzip"));
        }
    }
}

//! A wrong upload is never complete on the store: verified bodies forwarded by hyper's client to
//! a server that counts what it gets.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fencepost::auth::{BodyChecks, BodyError, ChecksumHeaders, Verified, VerifiedBody};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

type Headers<'a> = &'a [(&'a str, &'a str)];

/// What the store made of an upload: all of it, or a body that broke off.
type Stored = Option<Result<Bytes, ()>>;

/// Forwards `sent`, in portions of `portion` bytes, as the proxy would.
async fn forward(headers: Headers<'_>, sent: &str, portion: usize) -> (Stored, Option<BodyError>) {
    let mut head = Request::put("/b/k").header("host", "store.example");
    for (name, value) in headers {
        head = head.header(*name, *value);
    }
    let (parts, ()) = head.body(()).unwrap().into_parts();
    let payload = Verified::unauthenticated(&parts).unwrap().payload;
    let checks = BodyChecks::new(&parts, payload, ChecksumHeaders::OfBody).unwrap();
    let portions: Vec<Result<_, Infallible>> = sent
        .as_bytes()
        .chunks(portion)
        .map(|portion| Ok(Frame::data(Bytes::copy_from_slice(portion))))
        .collect();
    let body = VerifiedBody::new(StreamBody::new(futures_util::stream::iter(portions)), checks);
    let outcome = body.outcome();
    let length = body.decoded_length().unwrap();
    let request = Request::put("/b/k").header("host", "store.example");
    let request = request.header("content-length", length).body(body).unwrap();

    let (near, far) = tokio::io::duplex(256);
    let stored: Arc<Mutex<Stored>> = Arc::default();
    let slot = Arc::clone(&stored);
    let store = service_fn(move |request: Request<Incoming>| {
        let slot = Arc::clone(&slot);
        async move {
            let body = request.into_body().collect().await;
            *slot.lock().unwrap() = Some(body.map(|body| body.to_bytes()).map_err(drop));
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let serving =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), store);
    let (mut client, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(near)).await.unwrap();
    let asking = async move {
        let answer = client.send_request(request).await;
        drop(client);
        answer.is_ok()
    };
    let (answered, _sent, _served) = tokio::join!(asking, connection, serving);
    let stored = stored.lock().unwrap().take();
    let error = outcome.get().and_then(|outcome| outcome.as_ref().err().cloned());
    assert_eq!(answered, error.is_none());
    (stored, error)
}

#[tokio::test]
async fn a_wrong_upload_is_never_complete_on_the_store() {
    let stream = [
        ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        ("x-amz-decoded-content-length", "5"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
    ];
    let hash = |hash| [("content-length", "5"), ("x-amz-content-sha256", hash)];
    let right = hash("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    let wrong = hash("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let framed =
        |crc32: &str| format!("3\r\nhel\r\n2\r\nlo\r\n0\r\nx-amz-checksum-crc32:{crc32}\r\n\r\n");
    let cases: [(Headers<'_>, String, Option<&str>); 7] = [
        (&right, "hello".to_owned(), None),
        (&wrong, "hello".to_owned(), Some("XAmzContentSHA256Mismatch")),
        (&right, "hell".to_owned(), Some("IncompleteBody")),
        (&right, "hello!".to_owned(), Some("InvalidRequest")),
        (&stream, framed("NhCmhg=="), None),
        (&stream, framed("NhCmhQ=="), Some("BadDigest")),
        (&stream, framed("NhCmhg==").replace("\r\n\r\n", "\r\n"), Some("IncompleteBody")),
    ];
    for (headers, sent, refused) in cases {
        for portion in [1, 2, 3, 5, 100] {
            let (stored, error) = forward(headers, &sent, portion).await;
            match refused {
                None => assert_eq!(stored, Some(Ok(Bytes::from("hello"))), "{headers:?}"),
                Some(code) => {
                    assert_eq!(error.unwrap().code(), code);
                    assert!(!matches!(stored, Some(Ok(_))), "{headers:?} {sent:?} was stored");
                }
            }
        }
    }
}

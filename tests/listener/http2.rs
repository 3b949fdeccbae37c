//! HTTP/2 in plain text, by prior knowledge: that it is HTTP, and what a handler sees of it.

use std::time::Duration;

use bytes::Bytes;
use fencepost::listener::Limits;
use h2::Reason;
use http::{HeaderValue, Method, StatusCode};

use crate::streams::{connected, get, put, request};
use crate::{HOP_BY_HOP, LIMITS, UPLOAD_BYTES, ask, get as get_http1, until};

#[tokio::test]
async fn one_port_speaks_both_versions() {
    let (server, mut connection) = connected(LIMITS).await;
    let answer = connection.get("/b/k?list-type=2&x").await;
    assert_eq!((answer.status, &*answer.body), (StatusCode::OK, "/b/k?list-type=2&x"));
    let http1 = ask(server.address, get_http1("/b/k")).await;
    assert!(http1.starts_with("HTTP/1.1 200 ") && http1.ends_with("/b/k"), "{http1}");
}

#[tokio::test]
async fn many_requests_share_a_connection() {
    let (server, mut connection) = connected(LIMITS).await;
    let mut waiting = connection.begin(get("/wait"), false).await;
    // Larger than the window.
    let answer = connection.put("/read", vec![b'x'; 1024 * 1024]).await;
    assert_eq!(answer.body, "1048576 bytes");
    let large = connection.get("/large").await;
    assert_eq!(large.body.len(), UPLOAD_BYTES);
    assert_eq!(large.headers["content-length"], UPLOAD_BYTES.to_string());
    until("the handler works", || server.traffic.in_flight_requests.get() == 1).await;
    server.handler.go.notify_one();
    assert_eq!(waiting.answer().await.unwrap().body, "waited");
    assert_eq!(server.traffic.connections.get(), 1);
    until("nothing is in flight", || server.traffic.in_flight_requests.get() == 0).await;
}

#[tokio::test]
async fn an_upload_that_is_refused_early_gets_its_answer_and_the_connection_goes_on() {
    let (server, mut connection) = connected(LIMITS).await;
    let mut upload = connection.begin(put("/refuse"), true).await;
    // The whole body before the first look at the answer.
    let whole = upload.send(vec![b'x'; UPLOAD_BYTES].into()).await.unwrap();
    assert!(whole, "nothing is reset under a client that does not look");
    let answer = upload.answer().await.unwrap();
    assert_eq!((answer.status, &*answer.body), (StatusCode::CONFLICT, "stale"));
    assert!(!answer.headers.contains_key("connection"), "{answer:?}");
    assert_eq!(server.traffic.received_bytes.get(), 0, "the body is not for the handler");
    assert_eq!(server.traffic.in_flight_requests.get(), 0);
    assert_eq!(connection.get("/b").await.body, "/b");
}

#[tokio::test]
async fn beyond_a_bound_the_rest_of_a_refused_upload_is_reset_without_an_error() {
    let by_bytes = Limits { refusal_drain_bytes_max: 1024 * 1024, ..LIMITS };
    let by_time = Limits { refusal_drain_max: Duration::from_millis(200), ..LIMITS };
    for limits in [by_bytes, by_time] {
        let (_server, mut connection) = connected(limits).await;
        let mut upload = connection.begin(put("/refuse"), true).await;
        if limits.refusal_drain_bytes_max < LIMITS.refusal_drain_bytes_max {
            let _ = upload.send(vec![b'x'; UPLOAD_BYTES].into()).await;
        }
        assert_eq!(upload.answer().await.unwrap().body, "stale");
        assert_eq!(upload.reset().await, Reason::NO_ERROR);
        assert_eq!(connection.get("/b").await.body, "/b");
    }
}

/// Resetting each of them at once made h2 end the connection: frames that were on their way came
/// in on streams that it had forgotten.
#[tokio::test]
async fn a_connection_survives_many_uploads_that_are_refused_at_once() {
    let limits = Limits {
        http2_streams_max: 100,
        requests_in_flight_max: 300,
        http2_window_bytes: 1024 * 1024,
        ..LIMITS
    };
    let (_server, mut connection) = connected(limits).await;
    // From then on the client knows how many streams it may open.
    connection.get("/b").await;
    let mut uploads = tokio::task::JoinSet::new();
    for _ in 0..300 {
        let mut connection = connection.clone();
        uploads.spawn(async move {
            let mut upload = connection.begin(put("/refuse"), true).await;
            let _ = upload.send(vec![b'x'; 2 * 1024 * 1024].into()).await;
            upload.answer().await.map(|answer| answer.body)
        });
    }
    while let Some(answer) = uploads.join_next().await {
        assert_eq!(answer.unwrap().unwrap(), "stale");
    }
    assert_eq!(connection.get("/b").await.body, "/b");
}

#[tokio::test]
async fn an_answer_comes_before_a_body_that_was_announced_and_never_sent() {
    let (_server, mut connection) = connected(LIMITS).await;
    let mut request = put("/refuse");
    request.headers_mut().insert("expect", HeaderValue::from_static("100-continue"));
    request.headers_mut().insert("content-length", HeaderValue::from_static("5"));
    let mut upload = connection.begin(request, true).await;
    assert_eq!(upload.answer().await.unwrap().body, "stale");
}

#[tokio::test]
async fn the_authority_is_the_host_and_cookies_are_one() {
    let (_server, mut connection) = connected(LIMITS).await;
    let mut two = request(Method::GET, "http://Store.test:9000/headers");
    for cookie in ["a=1", "b=2", "c=3"] {
        two.headers_mut().append("cookie", HeaderValue::from_static(cookie));
    }
    for value in ["1", "2"] {
        two.headers_mut().append("x-amz-meta-a", HeaderValue::from_static(value));
    }
    let seen = connection.begin(two, false).await.answer().await.unwrap().body;
    assert!(seen.contains(r#""host": "Store.test:9000""#), "{seen}");
    assert!(seen.contains(r#""cookie": "a=1; b=2; c=3""#), "{seen}");
    assert!(seen.contains(r#""x-amz-meta-a": "1", "x-amz-meta-a": "2""#), "{seen}");

    let mut same = request(Method::GET, "http://Store.test:9000/headers");
    same.headers_mut().insert("host", HeaderValue::from_static("store.test:9000"));
    let answer = connection.begin(same, false).await.answer().await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn what_could_mean_two_things_is_400() {
    let (_server, mut connection) = connected(LIMITS).await;
    let with_host = |hosts: &[&'static str]| {
        let mut request = get("/b/k");
        for host in hosts {
            request.headers_mut().append("host", HeaderValue::from_static(host));
        }
        request
    };
    let cases = [
        (with_host(&["b"]), "names another host than the Host header"),
        (with_host(&["a", "a"]), "more than one Host header"),
        (request(Method::GET, "http://user@a/b/k"), "the request target names a user"),
        (request(Method::CONNECT, "a:1"), "the request target is not a path"),
    ];
    for (request, why) in cases {
        let shown = format!("{request:?}");
        let answer = connection.begin(request, false).await.answer().await.unwrap();
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{shown}");
        assert!(answer.body.ends_with(why), "{shown}: {answer:?}");
    }
}

#[tokio::test]
async fn the_bytes_of_a_target_reach_the_handler_as_they_were_sent() {
    let (_server, mut connection) = connected(LIMITS).await;
    for target in [
        "/",
        "//b//k//",
        "/b/../k/./x",
        "/b/%2e%2E/%2F%2f%00%FF",
        "/b/a+b%20c;d=e,f:g@h!$&'()*~-_",
        "/b/k?list-type=2&prefix=a%2Fb&x",
        "/b/k?",
        "/b/k??a=b?c",
        "/b/%zz%1",
    ] {
        assert_eq!(connection.get(target).await.body, target);
    }
}

#[tokio::test]
async fn answers_have_no_headers_of_a_connection() {
    let (_server, mut connection) = connected(LIMITS).await;
    let answer = connection.get("/hop-by-hop").await;
    assert_eq!(answer.body, "from somewhere else");
    for (name, _) in HOP_BY_HOP {
        assert!(!answer.headers.contains_key(name), "{name}: {answer:?}");
    }
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    let (server, mut connection) = connected(LIMITS).await;
    let head = request(Method::HEAD, "http://a/large");
    let answer = connection.begin(head, false).await.answer().await.unwrap();
    assert_eq!((answer.status, &*answer.body), (StatusCode::OK, ""));
    assert_eq!(server.traffic.sent_bytes.get(), 0);
}

#[tokio::test]
async fn a_panic_ends_one_request_and_not_the_connection() {
    let (server, mut connection) = connected(LIMITS).await;
    let failed = connection.get("/panic").await;
    assert_eq!((failed.status.as_u16(), &*failed.body), (500, "failed"));
    assert_eq!(connection.get("/b").await.body, "/b");
    until("nothing is in flight", || server.traffic.in_flight_requests.get() == 0).await;
}

#[tokio::test]
async fn trailers_and_bodies_of_unknown_length_arrive() {
    let (server, mut connection) = connected(LIMITS).await;
    let mut upload = connection.begin(put("/read"), true).await;
    upload.body.send_data(Bytes::from_static(b"hello"), false).unwrap();
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-amz-checksum-crc32", HeaderValue::from_static("AAAAAA=="));
    upload.body.send_trailers(trailers).unwrap();
    assert_eq!(upload.answer().await.unwrap().body, "5 bytes");
    assert_eq!(server.traffic.received_bytes.get(), 5);
    let mut empty = connection.begin(put("/read"), true).await;
    empty.body.send_data(Bytes::new(), true).unwrap();
    assert_eq!(empty.answer().await.unwrap().body, "0 bytes");
}

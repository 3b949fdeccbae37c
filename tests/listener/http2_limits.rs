//! HTTP/2 clients that are too large, too slow or too many.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use fencepost::listener::Limits;
use h2::Reason;
use h2::client::Builder;
use http::{HeaderValue, StatusCode};

use crate::streams::{Connection, connected, frame, get, put, send_and_wait, soon};
use crate::{LIMITS, client, server, until};

const A_MOMENT: Duration = Duration::from_millis(200);

/// `:method GET`, `:scheme http`, `:path /` by their places in HPACK's table, and `:authority a`.
const HEADERS: &[u8] = b"\x82\x86\x84\x41\x01a";

#[tokio::test]
async fn headers_that_are_too_large_are_431() {
    let (_server, mut connection) = connected(LIMITS).await;
    let with = |bytes: usize| {
        let mut request = get("/b");
        for (i, part) in vec![b'x'; bytes].chunks(1000).enumerate() {
            let name: http::HeaderName = format!("x-{i}").parse().unwrap();
            request.headers_mut().insert(name, HeaderValue::from_bytes(part).unwrap());
        }
        request
    };
    for (bytes, status) in [(6_000, 200), (9_000, 431), (6_000, 200)] {
        // The client of h2 does not keep to the limit that it was told.
        let answer = connection.begin(with(bytes), false).await.answer().await.unwrap();
        assert_eq!(answer.status.as_u16(), status, "{bytes} bytes of headers");
    }
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let (server, connection) = connected(Limits { header_timeout: A_MOMENT, ..LIMITS }).await;
    connection.ended().await.unwrap();
    until("the connection is gone", || server.traffic.connections.get() == 0).await;
}

#[tokio::test]
async fn time_between_requests_is_limited_and_time_for_an_answer_is_not() {
    let (server, mut connection) = connected(Limits { header_timeout: A_MOMENT, ..LIMITS }).await;
    let mut waiting = connection.begin(get("/wait"), false).await;
    tokio::time::sleep(3 * A_MOMENT).await;
    server.handler.go.notify_one();
    assert_eq!(waiting.answer().await.unwrap().body, "waited");
    // Requests that come and go are noticed.
    for _ in 0..6 {
        tokio::time::sleep(A_MOMENT / 2).await;
        assert_eq!(connection.get("/b").await.body, "/b");
    }
    connection.ended().await.unwrap();
}

#[tokio::test]
async fn a_client_that_says_nothing_right_is_let_go() {
    let limits = Limits { header_timeout: A_MOMENT, body_idle_timeout: A_MOMENT, ..LIMITS };
    let server = server(limits).await;
    let whole = frame(1, 0x5, 1, HEADERS);
    let cases = [
        ("nothing", Vec::new()),
        ("a part of a frame", whole[..12].to_vec()),
        ("headers that are never complete", frame(1, 0x1, 1, &HEADERS[..3])),
    ];
    for (what, bytes) in cases {
        client(move || send_and_wait(server.address, &bytes)).await;
        until(what, || server.traffic.connections.get() == 0).await;
    }
}

#[tokio::test]
async fn a_client_that_breaks_the_protocol_is_let_go() {
    let server = server(LIMITS).await;
    let cases = [
        ("a frame that is too large", frame(0, 0, 1, &[0; 16_385])),
        ("data on no stream", frame(0, 0, 1, b"x")),
        ("a connection header", frame(1, 0x5, 1, &[HEADERS, b"\x40\x0aconnection\x01x"].concat())),
    ];
    for (what, mut bytes) in cases {
        // An acknowledgement of the server's settings, so that nothing is left open by the client.
        bytes.extend(frame(4, 1, 0, b""));
        bytes.extend(frame(7, 0, 0, &[0; 8]));
        client(move || send_and_wait(server.address, &bytes)).await;
        until(what, || server.traffic.connections.get() == 0).await;
    }
    assert_eq!(server.traffic.in_flight_requests.get(), 0);
}

#[tokio::test]
async fn a_body_that_stops_coming_is_an_error_for_the_handler() {
    let (_server, mut connection) =
        connected(Limits { body_idle_timeout: A_MOMENT, ..LIMITS }).await;
    let mut upload = connection.begin(put("/read"), true).await;
    upload.body.send_data(Bytes::from_static(b"hello"), false).unwrap();
    let (mut sender, stop) = (upload.body, tokio::sync::oneshot::channel::<()>());
    // Frames without data are no data.
    let idle = tokio::spawn(async move {
        let mut stop = stop.1;
        while stop.try_recv().is_err() && sender.send_data(Bytes::new(), false).is_ok() {
            tokio::time::sleep(A_MOMENT / 10).await;
        }
    });
    let answer = upload.answer.await.unwrap();
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    drop(stop.0);
    soon(idle).await.unwrap();
}

#[tokio::test]
async fn a_body_that_takes_too_long_in_all_is_an_error_for_the_handler() {
    let limits = Limits { request_timeout: A_MOMENT, refusal_drain_max: Duration::ZERO, ..LIMITS };
    let (_server, mut connection) = connected(limits).await;
    let mut upload = connection.begin(put("/read"), true).await;
    while upload.body.send_data(Bytes::from_static(b"x"), false).is_ok() {
        tokio::time::sleep(A_MOMENT / 20).await;
    }
    let answer = upload.answer().await.unwrap();
    assert_eq!((answer.status, &*answer.body), (StatusCode::REQUEST_TIMEOUT, "late"));
}

#[tokio::test]
async fn a_client_that_does_not_take_an_answer_loses_that_stream() {
    let server = server(Limits { body_idle_timeout: A_MOMENT, ..LIMITS }).await;
    // The client opens no window for any stream's answer.
    let builder = { Builder::new() }.initial_window_size(0).clone();
    let mut connection = Connection::with(&builder, server.address).await;
    let mut large = connection.begin(get("/large"), false).await;
    assert_eq!(large.head().await.unwrap().status(), StatusCode::OK);
    assert_eq!(large.reset().await, Reason::CANCEL);
    until("nothing is in flight", || server.traffic.in_flight_requests.get() == 0).await;
    assert_eq!(connection.begin(get("/b"), false).await.head().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_client_that_takes_an_answer_in_part_loses_that_stream() {
    let server = server(Limits { body_idle_timeout: A_MOMENT, ..LIMITS }).await;
    let mut connection = Connection::open(server.address).await;
    let mut large = connection.begin(get("/large"), false).await;
    let (_, mut body) = large.head().await.unwrap().into_parts();
    // Slowly, for much longer than one pause may be.
    for _ in 0..20 {
        tokio::time::sleep(A_MOMENT / 4).await;
        let data = soon(body.data()).await.unwrap().unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    let received = server.traffic.sent_bytes.get();
    assert!(received < crate::UPLOAD_BYTES as u64, "the answer is not all out: {received}");
    assert_eq!(large.reset().await, Reason::CANCEL);
    until("nothing is in flight", || server.traffic.in_flight_requests.get() == 0).await;
}

#[tokio::test]
async fn a_small_answer_that_nobody_takes_does_not_keep_the_connection() {
    let limits = Limits { header_timeout: A_MOMENT, body_idle_timeout: A_MOMENT, ..LIMITS };
    let server = server(limits).await;
    // Room for one byte: the rest is the server's to keep.
    let builder = { Builder::new() }.initial_window_size(1).clone();
    let mut connection = Connection::with(&builder, server.address).await;
    let mut answer = connection.begin(get("/id"), false).await;
    assert_eq!(answer.head().await.unwrap().status(), StatusCode::OK);
    until("nothing is in flight", || server.traffic.in_flight_requests.get() == 0).await;
    until("the connection is gone", || server.traffic.connections.get() == 0).await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_at_all_is_let_go() {
    let server = server(Limits { body_idle_timeout: A_MOMENT, ..LIMITS }).await;
    let address = server.address;
    let open = client(move || {
        use std::io::Write as _;
        let mut stream = crate::connect(address);
        // A window as large as windows can be, for the connection and for streams, and a request.
        let path = [b"\x82\x86\x04\x06/large".as_slice(), &HEADERS[3..]].concat();
        stream.write_all(crate::streams::PREFACE).unwrap();
        stream.write_all(&frame(4, 0, 0, b"\0\x04\x7f\xff\xff\xff")).unwrap();
        stream.write_all(&frame(8, 0, 0, &0x7fff_0000_u32.to_be_bytes())).unwrap();
        stream.write_all(&frame(1, 0x5, 1, &path)).unwrap();
        stream
    })
    .await;
    until("the answer has begun", || server.traffic.sent_bytes.get() > 0).await;
    until("the connection is gone", || server.traffic.connections.get() == 0).await;
    assert_eq!(server.traffic.in_flight_requests.get(), 0);
    drop(open);
}

#[tokio::test]
async fn clients_are_told_how_many_streams_there_may_be() {
    let server = server(Limits { http2_streams_max: 2, ..LIMITS }).await;
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (requests, mut connection) = h2::client::handshake(stream).await.unwrap();
    let mut settings = connection.ping_pong().unwrap();
    let driver = tokio::spawn(async move {
        let told = std::future::poll_fn(|cx| {
            let _ = std::pin::Pin::new(&mut connection).poll(cx);
            settings.poll_pong(cx).map(|_| ())
        });
        let _ = tokio::time::timeout(A_MOMENT, told).await;
        connection.max_concurrent_send_streams()
    });
    assert_eq!(driver.await.unwrap(), 2);
    drop(requests);
}

#[tokio::test]
async fn streams_that_are_reset_count_while_their_handlers_work() {
    let (server, mut connection) = connected(Limits { http2_streams_max: 2, ..LIMITS }).await;
    for begun in 1..=2 {
        let mut request = connection.begin(get("/wait"), false).await;
        until("it works", || server.handler.begun.load(Ordering::SeqCst) == begun).await;
        request.body.send_reset(Reason::CANCEL);
    }
    let refused = connection.get("/b").await;
    assert_eq!((refused.status.as_u16(), &*refused.body), (503, "busy"));
    // Other clients are none the worse for it.
    let mut other = Connection::open(server.address).await;
    assert_eq!(other.get("/b").await.body, "/b");
    server.handler.go.notify_waiters();
    until("the handlers end", || server.handler.ended.load(Ordering::SeqCst) == 2).await;
    until("nothing is in flight", || server.traffic.in_flight_requests.get() == 0).await;
    assert_eq!(connection.get("/b").await.body, "/b");
}

#[tokio::test]
async fn resetting_streams_without_end_ends_the_connection() {
    let server = server(LIMITS).await;
    let bytes: Vec<u8> = (0..5_000_u32)
        .flat_map(|i| {
            let stream = 2 * i + 1;
            [frame(1, 0x5, stream, HEADERS), frame(3, 0, stream, &8_u32.to_be_bytes())].concat()
        })
        .collect();
    client(move || {
        use std::io::Write as _;
        let mut stream = crate::connect(server.address);
        stream.write_all(crate::streams::PREFACE).unwrap();
        // The server may have had enough before the end.
        let _ = stream.write_all(&bytes);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    })
    .await;
    until("the connection is gone", || server.traffic.connections.get() == 0).await;
    until("nothing is in flight", || server.traffic.in_flight_requests.get() == 0).await;
}

/// A request that waits for another one must not keep that one's body out.
#[tokio::test]
async fn bodies_that_nobody_reads_yet_do_not_hold_up_others() {
    let (server, mut connection) = connected(LIMITS).await;
    let mut waiting = Vec::new();
    for _ in 0..LIMITS.http2_streams_max - 1 {
        let mut upload = connection.begin(put("/wait"), true).await;
        upload.send(vec![b'x'; LIMITS.http2_window_bytes as usize].into()).await.unwrap();
        waiting.push(upload);
    }
    let answer = connection.put("/read", vec![b'x'; 1024 * 1024]).await;
    assert_eq!(answer.body, "1048576 bytes");
    assert_eq!(server.traffic.received_bytes.get(), 1024 * 1024);
    until("all work", || server.handler.begun.load(Ordering::SeqCst) == waiting.len()).await;
    server.handler.go.notify_waiters();
    for mut upload in waiting {
        assert_eq!(upload.answer().await.unwrap().body, "waited");
    }
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused_until_one_has_ended() {
    let (server, mut connection) = connected(Limits { requests_in_flight_max: 1, ..LIMITS }).await;
    let mut waiting = connection.begin(get("/wait"), false).await;
    until("a request is in flight", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    let refused = connection.get("/b").await;
    assert_eq!((refused.status.as_u16(), &*refused.body), (503, "busy"));
    server.handler.go.notify_one();
    assert_eq!(waiting.answer().await.unwrap().body, "waited");
    until("none is in flight", || server.traffic.in_flight_requests.get() == 0).await;
    assert_eq!(connection.get("/b").await.body, "/b");
}

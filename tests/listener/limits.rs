//! Clients that are too large, too slow or too many.

use std::io::{Read as _, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost::listener::Limits;

use crate::{
    LIMITS, PATIENCE, UPLOAD_BYTES, ask, client, connect, get, put, read_answer, server, until,
};

#[tokio::test]
async fn a_head_that_is_too_large_is_431_and_not_a_reset() {
    let server = server(LIMITS).await;
    let answer = client(move || {
        let mut stream = connect(server.address);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX: ").unwrap();
        for _ in 0..UPLOAD_BYTES / 65_536 {
            stream.write_all(&[b'x'; 65_536]).unwrap();
        }
        read_answer(&mut stream)
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_the_connection() {
    let server = server(Limits { header_timeout: Duration::from_millis(200), ..LIMITS }).await;
    for beginning in ["GET / HTTP/1.1\r\nHost:", "P", "PRI * HTTP/2.0\r\n", ""] {
        let took = client(move || {
            let mut stream = connect(server.address);
            stream.write_all(beginning.as_bytes()).unwrap();
            let start = fencepost::clock::monotonic();
            stream.read_to_end(&mut Vec::new()).unwrap();
            start.elapsed()
        })
        .await;
        assert!(took < Duration::from_secs(10), "{beginning:?}: {took:?}");
    }
}

#[tokio::test]
async fn a_body_that_stops_coming_is_an_error_for_the_handler() {
    let server = server(Limits { body_idle_timeout: Duration::from_millis(200), ..LIMITS }).await;
    let answer = ask(server.address, put("/read", 10) + "hello").await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.ends_with("idle"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn a_body_that_takes_too_long_in_all_is_an_error_for_the_handler() {
    let server = server(Limits { request_timeout: Duration::from_millis(300), ..LIMITS }).await;
    let answer = client(move || {
        let mut stream = connect(server.address);
        stream.write_all(put("/read", UPLOAD_BYTES).as_bytes()).unwrap();
        // Never a pause, and never the end.
        let mut sender = stream.try_clone().unwrap();
        std::thread::spawn(move || {
            while sender.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        read_answer(&mut stream)
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.ends_with("late"), "{answer}");
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_is_let_go() {
    let server = server(Limits { body_idle_timeout: Duration::from_millis(200), ..LIMITS }).await;
    let address = server.address;
    let stream = client(move || {
        let mut stream = connect(address);
        stream.write_all(get("/large").as_bytes()).unwrap();
        stream
    })
    .await;
    until("the answer has begun", || server.traffic.sent_bytes.get() > 0).await;
    until("the connection is gone", || server.traffic.connections.get() == 0).await;
    assert_eq!(server.traffic.in_flight_requests.get(), 0);
    drop(stream);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let server = server(Limits { connections_max: 1, ..LIMITS }).await;
    let address = server.address;
    let (first, waited, second) = client(move || {
        let mut first = connect(address);
        first.write_all(get("/id").as_bytes()).unwrap();
        let answer = read_answer(&mut first);
        let mut second = connect(address);
        second.write_all(get("/id").as_bytes()).unwrap();
        second.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let waited = second.read(&mut [0]).is_err();
        drop(first);
        second.set_read_timeout(Some(PATIENCE)).unwrap();
        (answer, waited, read_answer(&mut second))
    })
    .await;
    assert!(first.starts_with("HTTP/1.1 200 ") && second.starts_with("HTTP/1.1 200 "));
    assert!(waited, "the second connection was served beside the first");
}

#[tokio::test]
async fn requests_beyond_the_limit_are_refused_until_one_has_ended() {
    let server = server(Limits { requests_in_flight_max: 1, ..LIMITS }).await;
    let waiting = tokio::spawn(ask(server.address, get("/wait")));
    until("a request is in flight", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    assert_eq!(server.traffic.in_flight_requests.get(), 1);
    let refused = ask(server.address, put("/read", 3) + "abc").await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.ends_with("busy"), "{refused}");
    server.handler.go.notify_one();
    assert!(waiting.await.unwrap().ends_with("waited"));
    until("none is in flight", || server.traffic.in_flight_requests.get() == 0).await;
    let next = ask(server.address, put("/read", 3) + "abc").await;
    assert!(next.ends_with("3 bytes"), "{next}");
}

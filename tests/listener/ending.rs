//! How requests and listeners end: panics, clients that go, drains, signals.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost::listener::{Drained, Limits, termination};

use crate::{LIMITS, PATIENCE, ask, client, connect, get, read_answer, server, until};

#[tokio::test]
async fn a_panic_ends_one_request_and_not_the_connection() {
    let server = server(LIMITS).await;
    let (failed, next) = client(move || {
        let mut stream = connect(server.address);
        stream.write_all(get("/panic").as_bytes()).unwrap();
        let failed = read_answer(&mut stream);
        stream.write_all(get("/id").as_bytes()).unwrap();
        (failed, read_answer(&mut stream))
    })
    .await;
    assert!(failed.starts_with("HTTP/1.1 500 ") && failed.ends_with("failed"), "{failed}");
    assert!(next.starts_with("HTTP/1.1 200 "), "{next}");
    assert_eq!(server.traffic.in_flight_requests.get(), 0);
}

#[tokio::test]
async fn a_handler_goes_on_when_its_client_has_gone() {
    let server = server(LIMITS).await;
    let address = server.address;
    let stream = client(move || {
        let mut stream = connect(address);
        stream.write_all(get("/wait").as_bytes()).unwrap();
        stream
    })
    .await;
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    drop(stream);
    until("the connection is gone", || server.traffic.connections.get() == 0).await;
    assert_eq!(server.handler.ended.load(Ordering::SeqCst), 0);
    // It is waited for at the end, too.
    server.stop.send(()).unwrap();
    server.handler.go.notify_one();
    assert_eq!(server.ended.await.unwrap(), Drained::Completely);
    assert_eq!(server.handler.ended.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn the_drain_lets_requests_finish_closes_idle_connections_and_the_port() {
    let server = server(LIMITS).await;
    let address = server.address;
    let mut idle = client(move || {
        let mut stream = connect(address);
        stream.write_all(get("/id").as_bytes()).unwrap();
        read_answer(&mut stream);
        stream
    })
    .await;
    let waiting = tokio::spawn(ask(address, get("/wait")));
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    server.stop.send(()).unwrap();
    let rest = client(move || idle.read(&mut [0]).unwrap()).await;
    assert_eq!(rest, 0, "the idle connection is closed while the other one works");
    until("the port is closed", || TcpStream::connect(address).is_err()).await;
    assert!(!server.ended.is_finished(), "a request is still in flight");
    server.handler.go.notify_one();
    let answer = waiting.await.unwrap();
    assert!(answer.ends_with("waited") && answer.contains("connection: close"), "{answer}");
    assert_eq!(server.ended.await.unwrap(), Drained::Completely);
}

#[tokio::test]
async fn the_drain_cuts_what_takes_too_long() {
    let server = server(Limits { drain_max: Duration::from_millis(200), ..LIMITS }).await;
    let address = server.address;
    let cut = tokio::spawn(client(move || {
        let mut stream = connect(address);
        stream.write_all(get("/wait").as_bytes()).unwrap();
        stream.read(&mut [0]).map_or(0, |read| read)
    }));
    until("the handler works", || server.handler.begun.load(Ordering::SeqCst) == 1).await;
    server.stop.send(()).unwrap();
    assert_eq!(server.ended.await.unwrap(), Drained::Cut);
    assert_eq!(cut.await.unwrap(), 0, "there is no answer");
    until("the handler is cut", || server.traffic.in_flight_requests.get() == 0).await;
    assert_eq!(server.handler.ended.load(Ordering::SeqCst), 0);
}

#[cfg(unix)]
#[tokio::test]
async fn sigterm_and_sigint_end_the_wait_for_them() {
    use rustix::process::{Signal, getpid, kill_process};
    for signal in [Signal::TERM, Signal::INT] {
        let mut stopped = std::pin::pin!(termination().unwrap());
        let early = tokio::time::timeout(Duration::from_millis(50), &mut stopped).await;
        assert!(early.is_err(), "nothing was sent yet");
        kill_process(getpid(), signal).unwrap();
        tokio::time::timeout(PATIENCE, stopped).await.unwrap();
    }
}

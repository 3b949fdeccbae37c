//! Answers before the body: no reset, no `100 Continue`, and a bound.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use fencepost::listener::Limits;

use crate::{
    LIMITS, PATIENCE, UPLOAD_BYTES, client, connect, get, put, read_answer, server, until,
};

#[tokio::test]
async fn an_upload_that_is_refused_early_gets_its_answer_and_no_reset() {
    let server = server(LIMITS).await;
    let (answer, rest) = client(move || {
        let mut stream = connect(server.address);
        stream.write_all(put("/refuse", UPLOAD_BYTES).as_bytes()).unwrap();
        // The whole body before the first look at the answer, as simple clients do it. Each of
        // these calls fails with a reset or a broken pipe when the server just closes.
        for _ in 0..UPLOAD_BYTES / 65_536 {
            stream.write_all(&[b'x'; 65_536]).unwrap();
        }
        let answer = read_answer(&mut stream);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        (answer, rest)
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.ends_with("stale"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert_eq!(rest, b"");
    assert_eq!(server.traffic.received_bytes.get(), 0, "the body is not for the handler");
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_is_refused_without_it() {
    let server = server(LIMITS).await;
    let answer = client(move || {
        let mut stream = connect(server.address);
        let head = put("/refuse", UPLOAD_BYTES).replace("Host", "Expect: 100-continue\r\nHost");
        stream.write_all(head.as_bytes()).unwrap();
        // Everything up to the end: there is no 100 before it and nothing after it.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
    .await;
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.ends_with("stale"), "{answer}");
    assert!(!answer.contains("100 Continue"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it_once_the_body_is_wanted() {
    let server = server(LIMITS).await;
    let (first, second) = client(move || {
        let mut stream = connect(server.address);
        let head = put("/read", 5).replace("Host", "Expect: 100-continue\r\nHost");
        stream.write_all(head.as_bytes()).unwrap();
        let first = read_answer(&mut stream);
        stream.write_all(b"hello").unwrap();
        (first, read_answer(&mut stream))
    })
    .await;
    assert_eq!(first, "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(second.starts_with("HTTP/1.1 200 OK\r\n") && second.ends_with("5 bytes"), "{second}");
    assert_eq!(server.traffic.received_bytes.get(), 5);
}

#[tokio::test]
async fn the_drain_after_a_refusal_has_an_end() {
    let by_bytes = Limits { refusal_drain_bytes_max: 1024 * 1024, ..LIMITS };
    let by_time = Limits { refusal_drain_max: Duration::from_millis(200), ..LIMITS };
    for limits in [by_bytes, by_time] {
        let server = server(limits).await;
        let broke_off = client(move || {
            let mut stream = connect(server.address);
            stream.write_all(put("/refuse", usize::MAX / 2).as_bytes()).unwrap();
            let start = fencepost::clock::monotonic();
            // A client that never stops. At the bound by bytes it runs as fast as it can, at the
            // bound by time slowly enough to stay below the other.
            while start.elapsed() < PATIENCE {
                if stream.write_all(&[b'x'; 4096]).is_err() {
                    return true;
                }
                if limits.refusal_drain_max < Duration::from_secs(1) {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            false
        })
        .await;
        assert!(broke_off, "{limits:?}");
        until("the connection is gone", || server.traffic.connections.get() == 0).await;
    }
}

#[tokio::test]
async fn connections_are_kept_when_the_body_was_read_or_there_was_none() {
    let server = server(LIMITS).await;
    let answers = client(move || {
        let mut stream = connect(server.address);
        let mut answers = Vec::new();
        for head in [put("/read", 3) + "abc", put("/refuse", 0), get("/refuse"), get("/id")] {
            stream.write_all(head.as_bytes()).unwrap();
            answers.push(read_answer(&mut stream));
        }
        answers
    })
    .await;
    for (answer, end) in answers.iter().zip(["3 bytes", "stale", "stale"]) {
        assert!(answer.ends_with(end) && !answer.contains("connection: close"), "{answer}");
    }
    assert!(answers[3].starts_with("HTTP/1.1 200 "), "{}", answers[3]);
}

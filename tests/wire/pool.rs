//! Connections to the store that are kept, and closed by the store.

use std::time::Duration;

use super::support::{Scripted, Wire, until};
use super::{Stage, ask, put};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// How many requests for this key the store has seen.
fn seen(store: &Scripted, key: &str) -> usize {
    store.lines().iter().filter(|line| line.ends_with(&format!("/data/{key}"))).count()
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_no_error() {
    let stage = Stage::set("", |mut wire| async move {
        if wire.request().await.is_some() {
            wire.send(OK).await;
        }
    })
    .await;
    let mut caller = stage.caller().await;
    for number in 0..20 {
        let key = format!("k{number}");
        caller.send(put(&key, "body")).await;
        assert!(caller.answer().await.0.starts_with("HTTP/1.1 200 "), "{key}");
        // The close arrives.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stage.store.heads().len(), 20);
}

/// Answers one request, and closes when the next one is there: once its head has come, or all.
async fn closes_on_the_second(wire: Wire, whole: bool) {
    let mut wire = wire;
    if wire.request().await.is_none() {
        return;
    }
    wire.send(OK).await;
    if whole { drop(wire.request().await) } else { drop(wire.head().await) }
}

/// The keep-alive race. Whether the store has carried a request out nobody knows.
#[tokio::test]
async fn a_write_that_was_written_is_never_sent_again() {
    for whole in [false, true] {
        let stage = Stage::set("", move |wire| closes_on_the_second(wire, whole)).await;
        let mut caller = stage.caller().await;
        let writes = [
            put("put", "body"),
            ask("DELETE", "delete", ""),
            ask("POST", "post?uploads", "Content-Length: 0\r\n"),
            ask("PUT", "copy", "x-amz-copy-source: /data/k\r\nContent-Length: 0\r\n"),
        ];
        for write in writes {
            caller.send(put("first", "body")).await;
            assert!(caller.answer().await.0.starts_with("HTTP/1.1 200 "), "{write}");
            caller.send(&write).await;
            let (head, body) = caller.answer().await;
            let body = String::from_utf8(body).unwrap();
            assert!(head.starts_with("HTTP/1.1 502 "), "{write}: {head}");
            assert!(body.contains("may or may not have been carried out"), "{body}");
        }
        for key in ["put", "delete", "post?uploads", "copy"] {
            assert_eq!(seen(&stage.store, key), 1, "{key}");
        }
    }
}

/// Nothing is changed by asking twice, and the client cannot know of the store's connections.
#[tokio::test]
async fn a_read_that_met_a_closed_connection_is_asked_again() {
    for (method, key) in [("GET", "get"), ("HEAD", "head")] {
        let stage = Stage::set("", |wire| closes_on_the_second(wire, true)).await;
        let mut caller = stage.caller().await;
        caller.send(put("first", "body")).await;
        assert!(caller.answer().await.0.starts_with("HTTP/1.1 200 "));
        caller.send(ask(method, key, "")).await;
        assert!(caller.answer().await.0.starts_with("HTTP/1.1 200 "), "{method}");
        assert_eq!(seen(&stage.store, key), 2);
    }
}

#[tokio::test]
async fn a_store_that_answers_no_read_is_asked_twice_and_no_more() {
    let stage = Stage::set("", |mut wire| async move { drop(wire.request().await) }).await;
    let mut caller = stage.caller().await;
    caller.send(ask("GET", "k", "")).await;
    assert!(caller.answer().await.0.starts_with("HTTP/1.1 502 "));
    assert_eq!(seen(&stage.store, "k"), 2);
}

/// The close comes at any moment around the next write.
#[tokio::test]
async fn the_race_between_a_close_and_a_write_makes_no_second_write() {
    let stage = Stage::set("", |mut wire: Wire| async move {
        let number = wire.number as u64;
        if wire.request().await.is_none() {
            return;
        }
        wire.send(OK).await;
        let pause = Duration::from_micros(number * 37 % 500);
        // Whatever has come when the time is up is read, and not answered.
        let _ = tokio::time::timeout(pause, wire.request()).await;
    })
    .await;
    let mut caller = stage.caller().await;
    let (mut done, mut unknown) = (0, 0);
    for number in 0..300 {
        let key = format!("k{number}");
        caller.send(put(&key, "body")).await;
        let head = caller.answer().await.0;
        match head.split(' ').nth(1).unwrap() {
            "200" => done += 1,
            "502" => unknown += 1,
            _ => panic!("{head}"),
        }
        assert!(seen(&stage.store, &key) <= 1, "{key} was sent twice");
    }
    assert_eq!(done + unknown, 300);
    assert!(done > 0);
}

#[tokio::test]
async fn connections_are_kept() {
    let stage = Stage::set("", |mut wire| async move {
        while let Some(request) = wire.request().await {
            assert!(request.head.contains("/data/"));
            wire.send(OK).await;
        }
    })
    .await;
    let mut caller = stage.caller().await;
    for _ in 0..10 {
        caller.send(put("k", "body")).await;
        caller.answer().await;
    }
    assert_eq!(stage.store.connections(), 1);
    until("the store has seen all", async || seen(&stage.store, "k") == 10).await;
}

//! Every fault, and that it strikes only what it names.

use crate::raw::Raw;
use crate::{BUCKET, get, outcome, put, start};
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use fencepost::devstore::{DevStore, Effect, Profile, Rule};
use http::Method;
use std::time::Duration;

async fn try_put(client: &Client, key: &str, body: &'static str) -> String {
    let body = ByteStream::from_static(body.as_bytes());
    outcome(client.put_object().bucket(BUCKET).key(key).body(body).send().await)
}

#[tokio::test]
async fn answers_lost_and_requests_cut() {
    let (running, client) = start(Profile::Aws).await;
    let faults = running.store().faults();

    let seen = faults.add(Rule::new(Effect::Observe).method(Method::HEAD).always());
    let lost = faults.add(Rule::new(Effect::LoseAnswer).method(Method::PUT).key_prefix("lost/"));
    assert_eq!(try_put(&client, "other", "v").await, "ok");
    assert_eq!(try_put(&client, "lost/k", "v").await, "cut");
    assert_eq!(get(&client, "lost/k").await.as_deref(), Some("v"), "executed all the same");
    assert_eq!(try_put(&client, "lost/k", "w").await, "ok", "once is once");
    assert_eq!((lost.hits(), lost.finished()), (1, 1));
    assert_eq!(outcome(client.head_object().bucket(BUCKET).key("other").send().await), "ok");
    assert_eq!(seen.hits(), 1);

    faults.add(Rule::new(Effect::CutBefore).bucket(BUCKET).times(2));
    assert_eq!(try_put(&client, "cut", "v").await, "cut");
    assert_eq!(try_put(&client, "cut", "v").await, "cut");
    assert_eq!(get(&client, "cut").await, None, "never executed");
}

#[tokio::test]
async fn wrong_statuses() {
    let (running, client) = start(Profile::Aws).await;
    let faults = running.store().faults();
    faults.add(Rule::new(Effect::Status(503, "SlowDown")));
    assert_eq!(try_put(&client, "k", "v").await, "503 SlowDown");
    assert_eq!(get(&client, "k").await, None);
    faults.add(Rule::new(Effect::ExecuteThenStatus(500, "InternalError")));
    assert_eq!(try_put(&client, "k", "v").await, "500 InternalError");
    assert_eq!(get(&client, "k").await.as_deref(), Some("v"));
}

#[tokio::test]
async fn an_answer_cut_in_its_body() {
    let (running, client) = start(Profile::Aws).await;
    put(&client, "k", "0123456789").await;
    running.store().faults().add(Rule::new(Effect::CutBody).method(Method::GET));
    let answer = client.get_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(answer.content_length(), Some(10), "the head promises everything");
    assert!(answer.body.collect().await.is_err(), "and the body breaks off");
    assert_eq!(get(&client, "k").await.as_deref(), Some("0123456789"));
}

#[tokio::test]
async fn a_held_request_is_executed_after_its_client_has_gone() {
    let (running, client) = start(Profile::Aws).await;
    let hold = running.store().faults().add(Rule::new(Effect::Hold).method(Method::PUT));
    let mut open = Raw::new("PUT", "k").open(&running, 5).await;
    open.write("stale").await;
    hold.wait_parked(1).await;
    drop(open);
    put(&client, "k", "fresh").await;
    assert_eq!(get(&client, "k").await.as_deref(), Some("fresh"));
    hold.release();
    hold.wait_finished(1).await;
    assert_eq!(get(&client, "k").await.as_deref(), Some("stale"), "the packet in the queue landed");
    assert_eq!(running.store().history().len(), 2);
}

#[tokio::test]
async fn held_requests_keep_their_order_one_by_one() {
    let (running, client) = start(Profile::Aws).await;
    let hold = running.store().faults().add(Rule::new(Effect::Hold).method(Method::PUT).times(2));
    for (parked, body) in [(1, "first"), (2, "second")] {
        let client = client.clone();
        tokio::spawn(async move { try_put(&client, "k", body).await });
        hold.wait_parked(parked).await;
    }
    hold.release_one();
    hold.wait_finished(1).await;
    assert_eq!(get(&client, "k").await.as_deref(), Some("first"));
    hold.release_one();
    hold.wait_finished(2).await;
    assert_eq!(get(&client, "k").await.as_deref(), Some("second"));
}

#[tokio::test]
async fn a_delayed_request_is_judged_when_it_is_executed() {
    let (running, client) = start(Profile::Aws).await;
    let delay = Rule::new(Effect::Delay(Duration::from_millis(100))).header("if-none-match", "*");
    let delay = running.store().faults().add(delay);
    let create = client.put_object().bucket(BUCKET).key("k").if_none_match("*").send();
    let (late, _) = tokio::join!(create, async {
        delay.wait_hits(1).await;
        put(&client, "k", "v").await
    });
    assert_eq!(outcome(late), "412 PreconditionFailed");

    // The signature too: this is what bounds the life of a packet in a queue (F9).
    let delay = Duration::from_millis(2100);
    running.store().faults().add(Rule::new(Effect::Delay(delay)).method(Method::PUT));
    let short = Raw::new("PUT", "late").presigned(Duration::from_secs(1));
    assert_eq!(short.send(&running, "stale").await, "403 AccessDenied");
    assert_eq!(get(&client, "late").await, None);
}

#[tokio::test]
async fn latency_and_rules_from_the_start() {
    let latency = Duration::from_millis(40);
    let rule = Rule::new(Effect::Status(503, "SlowDown")).key_prefix("slow");
    let store = DevStore::builder().latency(latency).fault(rule).build().unwrap();
    let running = store.start().await.unwrap();
    store.create_bucket(BUCKET).await.unwrap();
    let client = crate::client(&running);
    let begun = fencepost::clock::monotonic();
    assert_eq!(try_put(&client, "slow", "v").await, "503 SlowDown");
    assert!(begun.elapsed() >= latency);
    store.faults().add(Rule::new(Effect::CutBefore).always());
    assert_eq!(try_put(&client, "k", "v").await, "cut");
    store.faults().clear();
    assert_eq!(try_put(&client, "k", "v").await, "ok");
}

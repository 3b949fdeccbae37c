//! Leases: a lock whose record is the fence's own.

use std::time::{Duration, Instant};

use fencepost::clock;
use fencepost::devstore::{Effect, Profile, Rule};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, Backend, LEDGER, Proxy, S3, soon};
use super::{TIDY, on_data};

const SCOPES: &str = "[[scope]]\nbucket = \"data\"\nprefix = \"jobs/\"\nper = \"prefix\"\n";

fn settings() -> String {
    format!("{TIDY}{SCOPES}")
}

async fn ask(client: &S3, path: &str, body: Value) -> Answer {
    client.send(Method::POST, &format!("/_fence/lease/data/{path}"), body.to_string()).await
}

async fn acquire(client: &S3, path: &str, holder: &str, ttl: u64, wait: u64) -> Answer {
    let body = json!({
        "action": "acquire", "ttl_seconds": ttl, "holder": holder, "wait_seconds": wait
    });
    ask(client, path, body).await
}

fn read(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

/// The token and the id of a lease that was granted.
fn granted(answer: &Answer) -> (u64, String) {
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    let lease = read(answer);
    (lease["token"].as_str().unwrap().parse().unwrap(), lease["id"].as_str().unwrap().into())
}

fn code(answer: &Answer) -> String {
    format!("{} {}", answer.status, read(answer)["code"].as_str().unwrap_or_default())
}

async fn release(client: &S3, path: &str, id: &str) -> Answer {
    ask(client, path, json!({ "action": "release", "id": id })).await
}

async fn renew(client: &S3, path: &str, id: &str) -> Answer {
    ask(client, path, json!({ "action": "renew", "id": id })).await
}

async fn show(proxy: &Proxy, path: &str) -> Value {
    let target = format!("/_fence/lease/data/{path}");
    read(&proxy.plain().send(Method::GET, &target, "").await)
}

#[tokio::test]
async fn a_lease_is_one_holders_and_its_token_is_the_newest() {
    for path in ["jobs/", "one"] {
        let backend = Backend::embedded(Profile::Aws).await;
        let (one, other) = backend.proxies(&settings()).await;
        let (client, key) = (one.plain(), if path == "one" { "one" } else { "jobs/a" });
        assert_eq!(one.token(40).put(key, "x").await.short(), "200");
        let (first, id) = granted(&acquire(&client, path, "a", 30, 0).await);
        assert_eq!(first, 41, "it is newer than whatever the scope has seen");
        assert_eq!(one.token(40).put(key, "late").await.short(), "409 StaleFenceToken", "{path}");
        assert_eq!(one.token(first).put(key, "mine").await.short(), "200");

        let held = acquire(&other.plain(), path, "b", 30, 0).await;
        assert_eq!(code(&held), "409 FenceLeaseHeld");
        assert_eq!(read(&held)["holder"], "a");
        let shown = show(&other, path).await;
        assert_eq!((&shown["token"], &shown["lease"]["holder"]), (&json!("41"), &json!("a")));
        assert_eq!(shown["lease"]["expired"], false);
        assert_eq!(shown["lease"]["id"], Value::Null, "the id is the holder's alone");

        assert_eq!(renew(&other.plain(), path, &id).await.status, 200, "through any proxy");
        let stranger = "0".repeat(32);
        for answer in
            [renew(&client, path, &stranger).await, release(&client, path, &stranger).await]
        {
            assert_eq!(code(&answer), "409 FenceLeaseLost");
        }
        assert_eq!(release(&other.plain(), path, &id).await.status, 200);
        assert_eq!(code(&release(&client, path, &id).await), "409 FenceLeaseLost");
        let (second, _) = granted(&acquire(&other.plain(), path, "b", 30, 0).await);
        assert_eq!(second, 42);
        assert_eq!(one.token(first).put(key, "late").await.short(), "409 StaleFenceToken");
        assert_eq!(show(&one, path).await["lease"]["holder"], "b", "a late release freed nothing");
    }
}

#[tokio::test]
async fn a_lease_ends_by_the_stores_clock_and_a_waiter_gets_it() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (one, other) = backend.proxies(&settings()).await;
    let (first, id) = granted(&acquire(&one.plain(), "jobs/", "a", 1, 0).await);
    let (second, _) = granted(&acquire(&other.plain(), "jobs/", "b", 30, 20).await);
    assert!(second > first);
    assert_eq!(code(&renew(&one.plain(), "jobs/", &id).await), "409 FenceLeaseLost");
    assert_eq!(one.token(first).put("jobs/a", "x").await.short(), "409 StaleFenceToken");
    let data = "bucket=\"data\"";
    assert_eq!(other.counter("fence_leases_lost_total", data).await, 1);
    let lost = "bucket=\"data\",result=\"lost\"";
    assert_eq!(one.counter("fence_lease_renewals_total", lost).await, 1);
    let (status, metrics) = other.admin("/metrics").await;
    assert_eq!(status, 200);
    assert!(metrics.contains("fence_lease_wait_seconds_count{bucket=\"data\"} 1"), "{metrics}");
    assert!(metrics.contains("fence_lease_held_seconds_count{bucket=\"data\"} 1"), "{metrics}");
}

#[tokio::test]
async fn a_release_wakes_up_who_waits_at_the_same_proxy() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&settings()).await;
    let (_, id) = granted(&acquire(&proxy.plain(), "jobs/", "a", 60, 0).await);
    let client = proxy.plain();
    let waiting = tokio::spawn(async move { acquire(&client, "jobs/", "b", 60, 30).await });
    // Long enough for its pauses to have grown.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let released: Instant = clock::monotonic();
    assert_eq!(release(&proxy.plain(), "jobs/", &id).await.status, 200);
    granted(&soon("the lease", waiting).await.unwrap());
    assert!(released.elapsed() < Duration::from_millis(800), "{:?}", released.elapsed());
}

/// A client that lost the answer asks again under the same id.
#[tokio::test]
async fn a_repeat_of_an_acquisition_is_the_same_lease() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&settings()).await;
    let id = format!("{:032x}", clock::random_u128());
    let body = json!({ "action": "acquire", "ttl_seconds": 30, "holder": "a", "id": id });
    backend.faults().add(Rule::new(Effect::LoseAnswer).method(Method::PUT).bucket(LEDGER));
    let first = granted(&ask(&proxy.plain(), "jobs/", body.clone()).await);
    assert_eq!(granted(&ask(&proxy.plain(), "jobs/", body).await), first);
    assert_eq!(first.1, id);
}

/// Acquiring is the claim: what the old holder has on its way is waited for.
#[tokio::test]
async fn a_lease_is_not_granted_while_an_older_write_may_land() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (older, newer) = backend.proxies(&settings()).await;
    let (token, id) = granted(&acquire(&older.plain(), "jobs/", "a", 1, 0).await);
    assert_eq!(older.token(token).put("jobs/a", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(token);
    let late = tokio::spawn(async move { client.put("jobs/a", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    assert_eq!(release(&older.plain(), "jobs/", &id).await.status, 200);
    let barred = acquire(&newer.plain(), "jobs/", "b", 30, 0).await;
    assert_eq!(code(&barred), "503 FenceBarrier");
    assert_eq!(read(&barred)["waiting_for"][0]["key"], "jobs/a");
    assert_eq!(show(&newer, "jobs/").await["lease"], Value::Null, "it is free again");
    let client = newer.plain();
    let waiting = tokio::spawn(async move { acquire(&client, "jobs/", "b", 30, 20).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    parked.release();
    assert_eq!(soon("its answer", late).await.unwrap().short(), "200");
    let (after, _) = granted(&soon("the lease", waiting).await.unwrap());
    assert!(after > token + 1, "every acquisition has had a token of its own");
}

/// Two requests under one id, of a client that lost the answer to the first. The one that gives up
/// takes the lease back; the other must not hand out what is gone.
#[tokio::test]
async fn a_lease_that_was_given_up_elsewhere_while_it_waited_is_not_granted() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (older, newer) = backend.proxies(&settings()).await;
    let third = backend.proxy(&settings()).await;
    let (token, old) = granted(&acquire(&older.plain(), "jobs/", "a", 60, 0).await);
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(token);
    let late = tokio::spawn(async move { client.put("jobs/a", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    assert_eq!(release(&older.plain(), "jobs/", &old).await.status, 200);
    let id = format!("{:032x}", clock::random_u128());
    let asked = |wait: u64| json!({ "action": "acquire", "ttl_seconds": 60, "holder": "b", "id": id, "wait_seconds": wait });
    let (client, body) = (newer.plain(), asked(0));
    let first = tokio::spawn(async move { ask(&client, "jobs/", body).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (client, body) = (third.plain(), asked(20));
    let second = tokio::spawn(async move { ask(&client, "jobs/", body).await });
    assert_eq!(code(&soon("the first", first).await.unwrap()), "503 FenceBarrier");
    parked.release();
    assert_eq!(soon("its answer", late).await.unwrap().short(), "200");
    let second = soon("the second", second).await.unwrap();
    granted(&second);
    let answer = read(&second);
    assert_eq!(
        show(&third, "jobs/").await["lease"]["token"],
        answer["token"],
        "it is in the record"
    );
    let ends = answer["expires_at"].as_u64().unwrap() - answer["store_time"].as_u64().unwrap();
    assert_eq!(ends, 60, "all of its time is left");
    assert_eq!(renew(&third.plain(), "jobs/", &id).await.status, 200);
}

#[tokio::test]
async fn what_is_not_well_formed_is_refused() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&settings()).await;
    let client = proxy.plain();
    let valid = json!({ "action": "acquire", "ttl_seconds": 1, "holder": "a" });
    let with = |name: &str, value: Value| {
        let mut body = valid.clone();
        body[name] = value;
        body
    };
    for body in [
        json!({}),
        json!([]),
        with("action", "steal".into()),
        with("ttl_seconds", 0.into()),
        with("ttl_seconds", 86_401.into()),
        with("ttl_seconds", (-1).into()),
        with("holder", "".into()),
        with("holder", "x".repeat(257).into()),
        with("holder", "a\nb".into()),
        with("wait_seconds", 601.into()),
        with("id", "1".into()),
        with("id", "+".repeat(32).into()),
        with("more", 1.into()),
        json!({ "action": "renew" }),
        json!({ "action": "release", "id": "x" }),
    ] {
        let answer = ask(&client, "jobs/", body.clone()).await;
        assert_eq!(code(&answer), "400 InvalidRequest", "{body}");
    }
    assert_eq!(code(&ask(&client, "other/", valid.clone()).await), "400 FenceNotAScope");
    let forged = client.clone().secret("wrong");
    assert_eq!(code(&ask(&forged, "jobs/", valid).await), "403 SignatureDoesNotMatch");
    assert_eq!(show(&proxy, "jobs/").await["token"], Value::Null);
}

/// A newer token from elsewhere ends the lease, as far as it matters.
#[tokio::test]
async fn a_newer_token_overtakes_a_lease() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&settings()).await;
    let (token, id) = granted(&acquire(&proxy.plain(), "jobs/", "a", 60, 0).await);
    assert_eq!(proxy.token(token + 10).put("jobs/a", "x").await.short(), "200");
    assert_eq!(code(&renew(&proxy.plain(), "jobs/", &id).await), "409 FenceLeaseLost");
    assert_eq!(show(&proxy, "jobs/").await["lease"]["expired"], true);
    let (next, _) = granted(&acquire(&proxy.plain(), "jobs/", "b", 60, 0).await);
    assert_eq!(next, token + 11);
    let largest = proxy.token(u64::MAX).put("jobs/a", "x").await;
    assert_eq!(largest.short(), "200");
    let exhausted = acquire(&proxy.plain(), "jobs/", "c", 60, 0).await;
    assert_eq!(code(&exhausted), "409 FenceTokensExhausted");
}

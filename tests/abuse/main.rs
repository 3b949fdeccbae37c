//! Abuse: what a hostile, careless or unlucky client does to scopes of many keys and to leases.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

#[path = "../support/mod.rs"]
mod support;

mod leases;
mod machine;
mod storm;

use std::time::Duration;

use fencepost::clock;
use fencepost::devstore::{Effect, Profile, Rule};
use fencepost::ledger::{Ledger as _, Scope};
use fencepost::s3::Bucket;
use http::Method;
use serde_json::{Value, json};
use support::{Answer, Backend, DATA, LEDGER, Proxy, S3, soon, until};

const TIDY: &str = "fence.contention_wait_seconds_max = 1\nfence.settle_delay_milliseconds = 0\n";
const SCOPES: &str = "[[scope]]\nbucket = \"data\"\nprefix = \"jobs/\"\nper = \"prefix\"\n";
const UNIQUE: &str = "[[bucket]]\nname = \"data\"\ntags = \"unique\"\n";

fn settings() -> String {
    format!("{TIDY}{SCOPES}")
}

fn on_data(effect: Effect, method: Method) -> Rule {
    Rule::new(effect).method(method).bucket(DATA)
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

async fn claim(client: &S3, path: &str) -> Answer {
    client.send(Method::PUT, &format!("/_fence/claim/data/{path}"), "").await
}

fn read(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

fn code(answer: &Answer) -> String {
    let code = read(answer)["code"].as_str().unwrap_or_default().to_owned();
    format!("{} {code}", answer.status)
}

fn granted(answer: &Answer) -> (u64, String) {
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    let lease = read(answer);
    (lease["token"].as_str().unwrap().parse().unwrap(), lease["id"].as_str().unwrap().into())
}

async fn show(proxy: &Proxy, path: &str) -> Value {
    let target = format!("/_fence/lease/data/{path}");
    read(&proxy.plain().send(Method::GET, &target, "").await)
}

async fn open_intents(backend: &Backend) -> usize {
    let scope = Scope::prefix(Bucket::new("data"), "jobs/");
    backend.records().load(&scope).await.unwrap().intents().len()
}

#[tokio::test]
async fn what_a_claim_says_of_its_holder_and_lock_is_recorded_however_often_it_is_claimed() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (proxy, other_proxy) = backend.proxies(&settings()).await;
    for (path, key) in [("jobs/", "jobs/a"), ("one", "one")] {
        assert_eq!(claim(&proxy.token(7), path).await.status, 200);
        // What the proxy remembers of the record is not the newest any more.
        assert_eq!(other_proxy.token(7).put(key, "x").await.short(), "200");
        let first = proxy.token(7).with("x-fence-holder", "a").with("x-fence-lock", "nightly");
        assert_eq!(claim(&first, path).await.status, 200);
        let second = other_proxy.token(7).with("x-fence-holder", "b");
        assert_eq!(code(&claim(&second, path).await), "409 FenceHolderMismatch", "{path}");
        let other = other_proxy.token(8).with("x-fence-lock", "hourly");
        assert_eq!(code(&claim(&other, path).await), "409 FenceLockMismatch", "{path}");
    }
}

/// A store that is busy for a moment must not shut the scope for twenty minutes.
#[tokio::test]
async fn writes_that_the_store_throttled_do_not_fill_the_record_for_good() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&settings()).await;
    assert_eq!(proxy.token(7).put("jobs/first", "x").await.short(), "200");
    backend.faults().add(on_data(Effect::Status(503, "SlowDown"), Method::PUT).times(70));
    let writers = (0..70).map(|number| {
        let client = proxy.token(7);
        tokio::spawn(async move { client.put(&format!("jobs/{number}"), "x").await.short() })
    });
    let mut answers = std::collections::BTreeMap::new();
    for writer in writers.collect::<Vec<_>>() {
        *answers.entry(writer.await.unwrap()).or_insert(0) += 1;
    }
    println!("throttled: {answers:?}, {} intents", open_intents(&backend).await);
    // Their clients ask again, as every SDK does, and succeed where they are let.
    let mut again = std::collections::BTreeMap::new();
    for number in 0..8 {
        let answer = proxy.token(7).put(&format!("jobs/{number}"), "x").await.short();
        *again.entry(answer).or_insert(0) += 1;
    }
    println!("asked again: {again:?}, {} intents", open_intents(&backend).await);
    let mut other = std::collections::BTreeMap::new();
    for number in 100..104 {
        let answer = proxy.token(7).put(&format!("jobs/{number}"), "x").await.short();
        *other.entry(answer).or_insert(0) += 1;
    }
    println!("other keys: {other:?}");
    assert_eq!(again.get("200"), Some(&8));
    assert_eq!(other.get("200"), Some(&4));
}

/// F5 for the one who holds the newest token: the old one's hot loop must not keep it out.
#[tokio::test]
async fn a_zombie_that_writes_in_a_chain_is_shut_out() {
    let backend = Backend::embedded(Profile::AwsKms).await;
    let settings = format!("backend.conditional_copy = \"conditional\"\n{TIDY}{UNIQUE}");
    let (older, newer) = backend.proxies(&settings).await;
    assert_eq!(older.token(10).put("k", "0").await.short(), "200");
    backend.faults().set_latency(Duration::from_millis(15));
    let client = older.token(10);
    let zombie = tokio::spawn(async move {
        let mut written = 0_u64;
        loop {
            match client.put("k", format!("zombie {written}")).await.short().as_str() {
                "200" => written += 1,
                other => return (written, other.to_owned()),
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = clock::monotonic();
    let mut tries = Vec::new();
    while began.elapsed() < Duration::from_secs(10) {
        let answer = newer.token(11).put("k", "mine").await.short();
        tries.push(answer.clone());
        if answer == "200" {
            break;
        }
        let claimed = claim(&newer.token(11), "k").await;
        tries.push(format!("claim {}", claimed.status));
        if claimed.status == 200 {
            break;
        }
    }
    println!("zombie: {:?}: {tries:?}, over: {}", began.elapsed(), zombie.is_finished());
    zombie.abort();
    assert!(tries.len() <= 2, "{tries:?}");
}

/// How often a client tries.
const TRIES: usize = 4;

/// An exclusive DELETE needs three quiet round trips on the record.
#[tokio::test]
async fn what_is_exclusive_gets_its_turn_beside_a_busy_proxy() {
    let backend = Backend::embedded(Profile::Minio).await;
    let patient = format!("fence.settle_delay_milliseconds = 0\n{SCOPES}");
    let (busy, other) = backend.proxies(&patient).await;
    for number in 0..8 {
        assert_eq!(busy.token(7).put(&format!("jobs/{number}"), "x").await.short(), "200");
    }
    let slow = Rule::new(Effect::Delay(Duration::from_millis(10)));
    backend.faults().add(slow.always());
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let client = busy.token(7);
            tokio::spawn(async move {
                for number in 0.. {
                    let _ = client.put(&format!("jobs/w{writer}"), format!("{number}")).await;
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut answers = Vec::new();
    for number in 0..8 {
        let began = clock::monotonic();
        // As every SDK does with a 503.
        for _ in 0..TRIES {
            let answer = other.token(7).delete(&format!("jobs/{number}")).await.short();
            answers.push(format!("{answer} in {:?}", began.elapsed()));
            if answer == "204" {
                break;
            }
            assert_eq!(answer, "503 FenceContended");
        }
    }
    for writer in writers {
        writer.abort();
    }
    println!("{answers:?}");
    let deleted = answers.iter().filter(|answer| answer.starts_with("204")).count();
    assert_eq!(deleted, 8, "{answers:?}");
}

/// A page may read through a proxy without authentication, but not claim.
#[tokio::test]
async fn a_page_cannot_claim() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&format!("auth.mode = \"none\"\n{}", settings())).await;
    let page = proxy
        .plain()
        .with("origin", "https://elsewhere.example")
        .with("x-fence-claim", "true")
        .with("x-fence-token", "18446744073709551615");
    let answer = page.get("jobs/a").await;
    println!("{}", answer.short());
    let put = proxy.plain().with("x-fence-token", "7").put("jobs/a", "x").await;
    assert_eq!(put.short(), "200", "the page has burnt the fence");
}

/// A swap that was given up and lands later leaves an intent that nobody withdraws.
#[tokio::test]
async fn a_swap_that_lands_late_does_not_leave_its_intent_for_twenty_minutes() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&format!("ledger.timeout_seconds = 1\n{}", settings())).await;
    for key in ["jobs/a", "one"] {
        assert_eq!(proxy.token(7).put(key, "x").await.short(), "200");
    }
    until("nothing is left open", async || open_intents(&backend).await == 0).await;
    for (key, many) in [("jobs/a", true), ("one", false)] {
        let held = backend.faults().add(Rule::new(Effect::Hold).method(Method::PUT).bucket(LEDGER));
        let answer = proxy.token(7).put(key, "x").await.short();
        // Its withdrawal finds nothing yet.
        tokio::time::sleep(Duration::from_secs(2)).await;
        held.release();
        soon("the late swap", held.wait_finished(1)).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let left =
            if many { open_intents(&backend).await } else { backend.intents(key).await.len() };
        println!("{key}: {answer}, then {left} intents");
        let claimed = claim(&proxy.token(8), if many { "jobs/" } else { key }).await;
        println!("claim: {}", claimed.status);
        assert_eq!((left, claimed.status), (0, 200), "{key}");
    }
}

/// Where more than 256 writes settle between two swaps.
#[tokio::test]
async fn many_writes_that_settle_at_once_are_all_withdrawn() {
    const WRITERS: u64 = 500;
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&format!("fence.contention_wait_seconds_max = 10\nfence.settle_delay_milliseconds = 200\n{SCOPES}")).await;
    assert_eq!(proxy.token(7).put("jobs/first", "x").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT).times(WRITERS));
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let client = proxy.token(7);
            tokio::spawn(async move { client.put(&format!("jobs/{number}"), "x").await.short() })
        })
        .collect();
    // Keys share locks by chance, so not all of them get there at once.
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!("{} parked", parked.parked());
    parked.release();
    for writer in writers {
        assert_eq!(writer.await.unwrap(), "200");
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let left = open_intents(&backend).await;
    println!("{left} intents are left");
    assert_eq!(left, 0);
}

/// A claim may wait for ten minutes; what it sends then must not be too old.
#[tokio::test]
async fn a_claim_that_has_waited_longer_than_a_signature_lives_succeeds() {
    let backend = Backend::embedded(Profile::AwsKms).await;
    let settings = format!("backend.conditional_copy = \"conditional\"\n{TIDY}{UNIQUE}");
    let (older, newer) = backend.proxies(&settings).await;
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(10);
    let late = tokio::spawn(async move { client.put("k", "created").await.short() });
    soon("a parked request", parked.wait_parked(1)).await;
    let client = newer.token(11).with("x-fence-wait", "200");
    let claiming = tokio::spawn(async move { claim(&client, "k").await });
    tokio::time::sleep(Duration::from_secs(65)).await;
    println!("waiting: {}", !claiming.is_finished());
    parked.release();
    println!("late: {}", late.await.unwrap());
    let answer = soon("the claim", claiming).await.unwrap();
    println!("{} {:?}", answer.status, answer.body);
    assert_eq!(answer.status, 200);
}

/// One claim that waits must not keep everybody else from the object, nor a lease from renewal.
#[tokio::test]
async fn a_claim_that_waits_for_minutes_does_not_hold_the_place() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (older, newer) = backend.proxies(&settings()).await;
    assert_eq!(older.token(10).put("k", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(10);
    let late = tokio::spawn(async move { client.put("k", "late").await.short() });
    soon("a parked request", parked.wait_parked(1)).await;
    let client = newer.token(11).with("x-fence-wait", "20");
    let claiming = tokio::spawn(async move { claim(&client, "k").await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = clock::monotonic();
    let put = newer.token(11).put("k", "mine").await.short();
    println!("PUT with the same token beside the claim: {put} in {:?}", began.elapsed());
    let began = clock::monotonic();
    let client = newer.plain();
    let lease = tokio::time::timeout(Duration::from_secs(8), acquire(&client, "k", "b", 5, 0));
    let lease = lease.await.map(|answer| answer.status);
    println!("an acquisition with wait_seconds 0: {lease:?} in {:?}", began.elapsed());
    parked.release();
    late.await.unwrap();
    let _ = claiming.await;
    assert!(lease.is_ok(), "it waits for the claim");
    assert_eq!(put, "200");
}

/// A ledger that does not answer fails everybody at about the same time.
#[tokio::test]
async fn a_silent_ledger_fails_those_who_wait_for_it_together() {
    let backend = Backend::embedded(Profile::Minio).await;
    let proxy = backend.proxy(&format!("ledger.timeout_seconds = 1\n{}", settings())).await;
    for number in 0..20 {
        assert_eq!(proxy.token(7).put(&format!("jobs/{number}"), "x").await.short(), "200");
    }
    let rules = [Method::GET, Method::PUT].map(|method| {
        backend.faults().add(Rule::new(Effect::Hold).method(method).bucket(LEDGER).always())
    });
    let began = clock::monotonic();
    let deletes: Vec<_> = (0..20)
        .map(|number| {
            let client = proxy.token(7);
            tokio::spawn(async move { client.delete(&format!("jobs/{number}")).await.short() })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let client = proxy.token(7);
    let put = tokio::spawn(async move { client.put("jobs/last", "x").await.short() });
    let mut answers = std::collections::BTreeMap::new();
    for delete in deletes {
        *answers.entry(delete.await.unwrap()).or_insert(0) += 1;
    }
    let deleted = began.elapsed();
    let put = put.await.unwrap();
    println!("silent ledger: {answers:?} in {deleted:?}, PUT {put} in {:?}", began.elapsed());
    for rule in rules {
        rule.remove();
        rule.release();
    }
    assert!(deleted < Duration::from_secs(15), "{deleted:?}");
}

/// Whatever the path looks like, it is the proxy's own or the store's, and never a bucket's by
/// another name.
#[tokio::test]
async fn tricks_with_the_paths_of_the_proxys_own_requests() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&settings()).await;
    let client = proxy.token(7);
    for path in [
        "//_fence/claim/data/jobs/",
        "/_fence//claim/data/jobs/",
        "/_fence/claim//data/jobs/",
        "/%5Ffence/claim/data/jobs/",
        "/_fence%2Fclaim/data/jobs/",
        "/_fence/claim",
        "/_fence/claim/",
        "/_fence/",
        "/_fence",
        "/_fence/claim/..%2Ffencepost-ledger/x",
        "/_fence/claim/fencepost%2Dledger/x",
        "/_fence/claim/%66encepost-ledger/x",
        "/_fence/claim/data%2Fjobs/x",
        "/_FENCE/claim/data/jobs/",
        "/_fence/CLAIM/data/jobs/",
        "/data/_fence/claim/data/jobs/",
    ] {
        let answer = client.clone().send(Method::PUT, path, "").await;
        println!(
            "{path}: {} {}",
            answer.status,
            String::from_utf8_lossy(&answer.body).chars().take(160).collect::<String>()
        );
    }
    assert_eq!(show(&proxy, "jobs/").await["token"], Value::Null, "nothing was claimed");
    for (path, scope) in [
        ("/_fence/claim/data/jobs/a%2Fb", "s3://data/jobs/*"),
        ("/_fence/claim/data/j%6Fbs/", "s3://data/jobs/*"),
        ("/_fence/claim/data/jobs/?x=1", "s3://data/jobs/*"),
        ("/_fence/claim/data//jobs/a", "s3://data//jobs/a"),
        ("/_fence/claim/d%61ta/jobs/", "s3://data/jobs/*"),
    ] {
        let answer = client.send(Method::PUT, path, "").await;
        println!("{path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
        assert_eq!(read(&answer)["scope"], scope, "{path}");
    }
    // In a bucket named by the host it is a key like any other.
    let hosted = client.clone().host("data.localhost");
    let put = hosted.send(Method::PUT, "/_fence/claim/data/jobs/", "x").await;
    assert_eq!(put.short(), "200");
    assert_eq!(backend.bytes("_fence/claim/data/jobs/").await.as_deref(), Some(&b"x"[..]));
}

/// Where the record is full, intents that are alike become one that nobody can settle.
#[tokio::test]
async fn a_record_that_was_full_is_empty_again_when_all_is_quiet() {
    let backend = Backend::embedded(Profile::Aws).await;
    let patient = format!(
        "fence.scope_intents_max = 4\nfence.attempts_max = 50\nfence.contention_wait_seconds_max = 10\nfence.settle_delay_milliseconds = 0\n{SCOPES}"
    );
    let (one, other) = backend.proxies(&patient).await;
    backend.faults().set_latency(Duration::from_millis(5));
    let until = clock::monotonic() + Duration::from_secs(8);
    let writers: Vec<_> = (0..16)
        .map(|writer: u64| {
            let client = if writer.is_multiple_of(2) { one.token(7) } else { other.token(7) };
            tokio::spawn(async move {
                let mut answers = std::collections::BTreeMap::new();
                let mut number = 0;
                while clock::monotonic() < until {
                    number += 1;
                    let key = format!("jobs/{}", (writer / 2 + number) % 4);
                    let answer = client.put(&key, format!("{writer} {number}")).await.short();
                    *answers.entry(answer).or_insert(0) += 1;
                }
                answers
            })
        })
        .collect();
    let mut all = std::collections::BTreeMap::new();
    for writer in writers {
        for (answer, times) in writer.await.unwrap() {
            *all.entry(answer).or_insert(0) += times;
        }
    }
    backend.faults().clear();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let left = open_intents(&backend).await;
    let again = one.token(7).put("jobs/new", "x").await.short();
    println!("full record: {all:?}; {left} intents are left; a new key: {again}");
    assert_eq!(left, 0);
}

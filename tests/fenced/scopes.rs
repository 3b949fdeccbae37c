//! Scopes of many keys: which keys share a fence, the barrier (F5), claims (F14), and writes that
//! enter the record together.

use std::time::Duration;

use fencepost::devstore::{ChangeKind, Effect, Profile, Rule};
use fencepost::ledger::{Ledger as _, Scope};
use fencepost::s3::Bucket;
use http::Method;
use serde_json::Value;

use super::support::{Answer, Backend, LEDGER, S3, soon, until};
use super::{TIDY, on_data};

on_real_stores! { a_handover }

/// Every directory below `tables/` is a scope, and all of `jobs/` is one.
const SCOPES: &str = r#"
[[scope]]
bucket = "data"
prefix = "tables/"
mode = "require"
per = "depth:1"

[[scope]]
bucket = "data"
prefix = "jobs/"
per = "prefix"
"#;

fn tidy() -> String {
    format!("{TIDY}{SCOPES}")
}

fn patient() -> String {
    format!("fence.settle_delay_milliseconds = 0\n{SCOPES}")
}

async fn claim(client: &S3, path: &str) -> Answer {
    client.send(Method::PUT, &format!("/_fence/claim/data/{path}"), "").await
}

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

fn code(answer: &Answer) -> String {
    let code = json(answer)["code"].as_str().unwrap_or_default().to_owned();
    format!("{} {code}", answer.status)
}

fn prefix(prefix: &str) -> Scope {
    Scope::prefix(Bucket::new("data"), prefix)
}

async fn intents(backend: &Backend, of: &str) -> usize {
    backend.records().load(&prefix(of)).await.unwrap().intents().len()
}

#[tokio::test]
async fn a_token_fences_every_key_of_its_scope_and_no_other() {
    for profile in [Profile::Aws, Profile::AwsKms, Profile::Minio] {
        let backend = Backend::embedded(profile).await;
        let (one, other) = backend.proxies(&tidy()).await;
        assert_eq!(one.token(7).put("tables/orders/a", "x").await.short(), "200", "{profile}");
        assert_eq!(other.token(8).put("tables/orders/b", "y").await.short(), "200", "{profile}");
        // A key that the new holder has not touched, and one that nobody has.
        for key in ["tables/orders/a", "tables/orders/2026/c", "tables/orders/"] {
            let stale = one.token(7).put(key, "late").await;
            assert_eq!(stale.short(), "409 StaleFenceToken", "{profile} {key}");
            assert_eq!(stale.element("FenceScope"), Some("s3://data/tables/orders/*"));
            assert_eq!(one.token(7).delete(key).await.short(), "409 StaleFenceToken", "{key}");
        }
        for key in ["tables/users/a", "tables/orders", "jobs/a", "elsewhere"] {
            assert_eq!(one.token(7).put(key, "x").await.short(), "200", "{profile} {key}");
        }
        assert_eq!(one.plain().put("tables/new/a", "x").await.short(), "428 FenceTokenRequired");
        until("nothing is left open", async || intents(&backend, "tables/orders/").await == 0)
            .await;
    }
}

/// F5, on a key that the new holder does not touch.
#[tokio::test]
async fn a_write_waits_for_what_an_older_holder_has_on_its_way_elsewhere() {
    for profile in [Profile::Aws, Profile::AwsKms] {
        let backend = Backend::embedded(profile).await;
        let (older, newer) = backend.proxies(&patient()).await;
        let impatient = backend.proxy(&tidy()).await;
        assert_eq!(older.token(10).put("jobs/a", "idle").await.short(), "200");
        let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
        let client = older.token(10);
        let late = tokio::spawn(async move { client.put("jobs/a", "late").await });
        soon("a parked request", parked.wait_parked(1)).await;

        let barred = impatient.token(11).put("jobs/b", "new").await;
        assert_eq!(barred.short(), "503 FenceBarrier", "{profile}");
        assert_eq!(impatient.token(11).get("jobs/b").await.short(), "404 NoSuchKey");
        // Its token is in the record all the same.
        assert_eq!(older.token(10).put("jobs/c", "x").await.short(), "409 StaleFenceToken");
        let claimed = claim(&impatient.token(11), "jobs/").await;
        assert_eq!(code(&claimed), "503 FenceBarrier", "{profile}");
        let body = json(&claimed);
        let waiting = &body["waiting_for"][0];
        assert_eq!(waiting["key"], "jobs/a", "{profile}");
        assert_eq!(waiting["token"], "10", "{profile}");

        let client = newer.token(11);
        let write = tokio::spawn(async move { client.put("jobs/b", "new").await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!write.is_finished(), "{profile}: it has to wait");
        parked.release();
        assert_eq!(soon("its answer", late).await.unwrap().short(), "200", "it was before");
        assert_eq!(soon("the write", write).await.unwrap().short(), "200");
        let last = |key: &str| backend.history(key).last().map(|change| change.kind);
        assert_eq!(
            (last("jobs/a"), last("jobs/b")),
            (Some(ChangeKind::Put), Some(ChangeKind::Put))
        );
    }
}

#[tokio::test]
async fn when_a_claim_has_returned_nothing_older_takes_effect_on_any_key() {
    for profile in [Profile::Aws, Profile::AwsKms, Profile::Minio] {
        let backend = Backend::embedded(profile).await;
        let (older, newer) = backend.proxies(&patient()).await;
        for key in ["jobs/a", "jobs/b"] {
            assert_eq!(older.token(10).put(key, "idle").await.short(), "200");
        }
        let claimed = claim(&newer.token(11), "jobs/").await;
        assert_eq!(claimed.short(), "200", "{profile}");
        let expected = serde_json::json!({ "scope": "s3://data/jobs/*", "token": "11" });
        assert_eq!(json(&claimed), expected);
        for key in ["jobs/a", "jobs/b", "jobs/c"] {
            assert_eq!(older.token(10).put(key, "late").await.short(), "409 StaleFenceToken");
        }
        assert_eq!(code(&claim(&older.token(10), "jobs/x").await), "409 StaleFenceToken");
        assert_eq!(claim(&older.token(11), "jobs/x").await.short(), "200", "an equal one is");
        assert_eq!(newer.token(11).put("jobs/a", "new").await.short(), "200", "{profile}");
    }
}

/// What makes the lock of one object whole, too: the record is swapped, and no key is asked.
#[tokio::test]
async fn one_object_is_claimed_without_being_changed_where_tags_repeat() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (older, newer) = backend.proxies(TIDY).await;
    assert_eq!(older.token(10).put("k", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(10);
    let late = tokio::spawn(async move { client.put("k", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    assert_eq!(code(&claim(&newer.token(11), "k").await), "503 FenceBarrier");
    parked.release();
    assert_eq!(soon("its answer", late).await.unwrap().short(), "200");
    assert_eq!(claim(&newer.token(11), "k").await.short(), "200");
    assert_eq!(backend.history("k").len(), 2);
    assert_eq!(older.token(10).put("k", "x").await.short(), "409 StaleFenceToken");
}

/// F14: there the writes of the old holder are not on record, and only a changed tag shuts them out.
#[tokio::test]
async fn one_object_is_rewritten_onto_itself_where_tags_are_unique() {
    let unique = format!("{TIDY}{}", super::UNIQUE);
    let backend = Backend::embedded(Profile::AwsKms).await;
    let refusing = backend.proxy(&unique).await;
    assert_eq!(refusing.token(9).put("k", "idle").await.short(), "200");
    let refused = claim(&refusing.token(9), "k").await;
    assert_eq!(code(&refused), "501 FenceUnsupportedOperation");

    let settings = format!("backend.conditional_copy = \"conditional\"\n{unique}");
    let (older, newer) = backend.proxies(&settings).await;
    let described = older.token(10).with("x-amz-meta-note", "kept").with("content-type", "text/x");
    assert_eq!(described.put("k", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(10);
    let late = tokio::spawn(async move { client.put("k", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    assert_eq!(claim(&newer.token(11), "k").await.short(), "200");
    parked.release();
    assert_eq!(soon("its answer", late).await.unwrap().short(), "409 StaleFenceToken");
    let now = newer.plain().get("k").await;
    assert_eq!((now.body.as_ref(), now.header("x-amz-meta-note")), (&b"idle"[..], "kept"));
    assert_eq!(now.header("content-type"), "text/x");
    assert_eq!(claim(&newer.token(12), "none").await.short(), "200", "what is not there, too");
}

#[tokio::test]
async fn a_read_can_claim_first() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (older, newer) = backend.proxies(&tidy()).await;
    assert_eq!(older.token(10).put("jobs/a", "x").await.short(), "200");
    let claiming = newer.token(11).with("x-fence-claim", "true");
    let read = claiming.get("jobs/a").await;
    assert_eq!((read.short().as_str(), read.body.as_ref()), ("200", &b"x"[..]));
    assert_eq!(read.header("x-fence-claimed"), "s3://data/jobs/*");
    assert_eq!(older.token(10).put("jobs/b", "x").await.short(), "409 StaleFenceToken");
    let stale = older.token(10).with("x-fence-claim", "true");
    assert_eq!(stale.get("jobs/a").await.short(), "409 StaleFenceToken");
    assert_eq!(stale.head("jobs/a").await.status, 409);
    assert_eq!(older.token(10).get("jobs/a").await.short(), "200", "a plain read is never fenced");
    let list = newer.token(12).with("x-fence-claim", "true");
    let listed = list.send(Method::GET, "/data?list-type=2&prefix=jobs%2F", "").await;
    assert_eq!(listed.short(), "200");
    assert_eq!(claiming.get("jobs/a").await.short(), "409 StaleFenceToken");

    for (client, answer) in [
        (newer.plain().with("x-fence-claim", "true"), "400 InvalidFenceToken"),
        (newer.token(12).with("x-fence-claim", "yes"), "400 InvalidArgument"),
        (newer.token(12).with_unsigned("x-fence-claim", "true"), "400 InvalidRequest"),
        (
            newer.token(12).with("x-fence-claim", "true").with("x-fence-wait", "x"),
            "400 InvalidArgument",
        ),
    ] {
        assert_eq!(client.get("jobs/a").await.short(), answer);
    }
    let write = newer.token(12).with("x-fence-claim", "true").put("jobs/a", "x").await;
    assert_eq!(write.short(), "400 InvalidArgument");
}

#[tokio::test]
async fn what_is_no_scope_is_not_claimed() {
    let backend = Backend::embedded(Profile::Aws).await;
    let off = "[[scope]]\nbucket = \"data\"\nprefix = \"off/\"\nmode = \"off\"\n";
    let proxy = backend.proxy(&format!("{}{off}", tidy())).await;
    let client = proxy.token(7);
    for (path, answer) in [
        ("tables/orders/", "200"),
        ("tables/orders/x", "200"),
        ("plain", "200"),
        ("tables/", "400 FenceNotAScope"),
        ("other/", "400 FenceNotAScope"),
        ("", "400 FenceNotAScope"),
        ("off/a", "400 FenceNotAScope"),
    ] {
        let claimed = claim(&client, path).await;
        let found = if claimed.status == 200 { "200".into() } else { code(&claimed) };
        assert_eq!(found, answer, "{path}");
    }
    let without = claim(&proxy.plain(), "jobs/").await;
    assert_eq!(code(&without), "400 InvalidFenceToken");
    assert!(json(&without)["request_id"].is_string());
    let get = client.send(Method::GET, "/_fence/claim/data/jobs/", "").await;
    assert_eq!(code(&get), "404 FenceNoSuchRequest");
    let forged = client.clone().secret("wrong").send(Method::PUT, "/_fence/claim/data/k", "").await;
    assert_eq!(code(&forged), "403 SignatureDoesNotMatch");
    let ledger = format!("/_fence/claim/{LEDGER}/k");
    assert_eq!(code(&client.send(Method::PUT, &ledger, "").await), "403 AccessDenied");
}

#[tokio::test]
async fn tokens_of_two_locks_and_of_two_holders_are_told_apart() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (one, other) = backend.proxies(&tidy()).await;
    let locked = one.token(7).with("x-fence-lock", "nightly").with("x-fence-holder", "a");
    assert_eq!(locked.put("jobs/a", "x").await.short(), "200");
    let mismatched = other.token(900).with("x-fence-lock", "hourly").put("jobs/b", "x").await;
    assert_eq!(mismatched.short(), "409 FenceLockMismatch");
    let twice = other.token(7).with("x-fence-holder", "b").put("jobs/b", "x").await;
    assert_eq!(twice.short(), "409 FenceHolderMismatch");
    let shared = other.token(7).with("x-fence-lock", "nightly; mode=shared");
    assert_eq!(shared.put("jobs/b", "x").await.short(), "409 FenceLockMismatch");
    for reason in ["lock_mismatch", "holder_mismatch"] {
        let labels = format!("bucket=\"data\",reason=\"{reason}\"");
        assert!(other.counter("fence_rejected_total", &labels).await > 0, "{reason}");
    }
    assert_eq!(other.token(7).put("jobs/b", "x").await.short(), "200", "who says nothing may");
    assert_eq!(other.token(8).with("x-fence-holder", "b").put("jobs/b", "y").await.short(), "200");
    for (name, value) in [("x-fence-lock", "; mode=shared"), ("x-fence-lock", "l; mode=x")] {
        let invalid = one.token(8).with(name, value).put("jobs/a", "x").await;
        assert_eq!(invalid.short(), "400 InvalidFenceToken", "{value}");
    }
    let unsigned = one.token(8).with_unsigned("x-fence-holder", "b").put("jobs/a", "x").await;
    assert_eq!(unsigned.short(), "400 InvalidFenceToken");
}

#[tokio::test]
async fn writes_that_arrive_together_share_a_swap() {
    const WRITERS: u64 = 48;
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&patient()).await;
    assert_eq!(proxy.token(7).put("jobs/first", "x").await.short(), "200");
    let slow = Rule::new(Effect::Delay(Duration::from_millis(30))).method(Method::PUT);
    backend.faults().add(slow.bucket(LEDGER).always());
    let writers = (0..WRITERS).map(|number| {
        let client = proxy.token(7);
        tokio::spawn(async move { client.put(&format!("jobs/{number}"), "x").await.short() })
    });
    for writer in writers.collect::<Vec<_>>() {
        assert_eq!(writer.await.unwrap(), "200");
    }
    let operations = proxy.counter("fence_grouped_operations_total", "").await;
    let swaps = proxy.counter("fence_grouped_swaps_total", "").await;
    assert_eq!(operations, WRITERS + 1);
    assert!(swaps <= WRITERS / 4, "{swaps} swaps for {operations} operations");
    until("nothing is left open", async || intents(&backend, "jobs/").await == 0).await;
}

/// The record is bounded. Who finds it full waits, and nothing is dropped.
#[tokio::test]
async fn a_full_record_makes_writers_wait() {
    const WRITERS: usize = 24;
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&format!("fence.scope_intents_max = 4\n{}", patient())).await;
    let writers = (0..WRITERS).map(|number| {
        let client = proxy.token(7);
        tokio::spawn(async move { client.put(&format!("jobs/{number}"), "x").await.short() })
    });
    for writer in writers.collect::<Vec<_>>() {
        assert_eq!(writer.await.unwrap(), "200");
    }
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT).times(4));
    let stuck: Vec<_> = (0..4)
        .map(|number| {
            let client = proxy.token(7);
            tokio::spawn(async move { client.put(&format!("jobs/{number}"), "y").await })
        })
        .collect();
    soon("four parked requests", parked.wait_parked(4)).await;
    let impatient = backend.proxy(&format!("fence.scope_intents_max = 4\n{}", tidy())).await;
    assert_eq!(impatient.token(7).put("jobs/9", "y").await.short(), "503 FenceContended");
    parked.release();
    for write in stuck {
        assert_eq!(soon("its answer", write).await.unwrap().short(), "200");
    }
    assert_eq!(impatient.token(7).put("jobs/9", "y").await.short(), "200");
}

/// The same over a real store, with its own latency and its own way of losing races.
async fn a_handover(backend: &Backend) {
    const WRITERS: u64 = 16;
    let scope = format!(
        "[[scope]]\nbucket = \"{}\"\nprefix = \"jobs/\"\nper = \"prefix\"\n",
        backend.bucket
    );
    let settings =
        format!("fence.settle_delay_milliseconds = 0\nledger.timeout_seconds = 30\n{scope}");
    let (older, newer) = backend.proxies(&settings).await;
    let writers = (0..WRITERS).map(|number| {
        let client = older.token(10);
        tokio::spawn(async move { client.put(&format!("jobs/{number}"), "x").await.short() })
    });
    for writer in writers.collect::<Vec<_>>() {
        assert_eq!(writer.await.unwrap(), "200");
    }
    let target = format!("/_fence/claim/{}/jobs/", backend.bucket);
    let claimed = newer.token(11).send(Method::PUT, &target, "").await;
    assert_eq!(claimed.short(), "200", "{claimed:?}");
    for key in ["jobs/1", "jobs/new"] {
        assert_eq!(older.token(10).put(key, "late").await.short(), "409 StaleFenceToken");
    }
    let target = format!("/_fence/lease/{}/jobs/", backend.bucket);
    let ask = r#"{"action":"acquire","ttl_seconds":60,"holder":"a"}"#;
    let granted = older.plain().send(Method::POST, &target, ask).await;
    assert_eq!(json(&granted)["token"], "12", "{granted:?}");
    assert_eq!(newer.token(11).delete("jobs/1").await.short(), "409 StaleFenceToken");
    assert_eq!(newer.token(12).delete("jobs/1").await.short(), "204");
    assert_eq!(newer.token(12).put("jobs/2", "y").await.short(), "200");
    assert_eq!(newer.plain().get("jobs/2").await.body, "y");
}

//! The ledger in a bucket: the conformance suite over every store, and what the suite cannot see:
//! lost answers, and records that are not ours to touch.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use fencepost::devstore::{Effect, Profile, Rule};
use fencepost::fence::{Record, RecordVersion, Token};
use fencepost::ledger::{Ledger as _, LedgerUnavailable, SwapOutcome, conformance};
use http::Method;
use support::{Backend, LEDGER};

fn record(token: u64) -> Record {
    Record::new(Token::new(token).unwrap(), Vec::new())
}

/// Strikes swaps.
fn swap_fault(effect: Effect) -> Rule {
    Rule::new(effect).method(Method::PUT).bucket(LEDGER)
}

/// The key of the one record in the ledger bucket.
async fn the_records_key(backend: &Backend) -> String {
    let mut records = backend.objects_in(&backend.ledger).await;
    // Beside what was found out about the store.
    records.retain(|key| key != "examinations.json");
    assert_eq!(records.len(), 1);
    records.remove(0)
}

async fn overwrite(backend: &Backend, key: &str, text: &str) {
    let put = backend.sdk(None).put_object().bucket(&backend.ledger).key(key);
    put.body(ByteStream::from(text.as_bytes().to_vec())).send().await.unwrap();
}

#[tokio::test]
async fn the_suite_passes_on_every_embedded_store_that_can_be_fenced_on() {
    for profile in [Profile::Aws, Profile::AwsKms, Profile::Minio] {
        let backend = Backend::embedded(profile).await;
        conformance::all(Arc::new(backend.records())).await;
    }
}

#[tokio::test]
async fn the_suite_passes_on_seaweedfs() {
    let Some(backend) = Backend::seaweedfs().await else { return };
    conformance::all(Arc::new(backend.records())).await;
}

/// The suite has to be able to fail: on a store that ignores conditions, every swap lands.
#[tokio::test]
async fn a_swap_from_another_version_lands_on_a_store_that_ignores_conditions() {
    let backend = Backend::embedded(Profile::Liar).await;
    let (ledger, scope) = (backend.records(), backend.scope("k"));
    for token in [2, 1] {
        let swapped = ledger.swap(&scope, &RecordVersion::Absent, &record(token)).await.unwrap();
        assert!(matches!(swapped, SwapOutcome::Swapped(_)));
    }
    let suite = tokio::spawn(conformance::all(Arc::new(ledger)));
    assert!(suite.await.unwrap_err().is_panic(), "the suite must notice");
}

#[tokio::test]
async fn a_swap_whose_answer_is_lost_is_recognised_by_its_nonce() {
    let lost = [
        Effect::LoseAnswer,
        Effect::ExecuteThenStatus(500, "InternalError"),
        Effect::ExecuteThenStatus(503, "SlowDown"),
    ];
    for effect in lost {
        let backend = Backend::embedded(Profile::Aws).await;
        let (ledger, scope) = (backend.records(), backend.scope("k"));
        let fault = backend.faults().add(swap_fault(effect.clone()).times(2));
        let absent = RecordVersion::Absent;
        let SwapOutcome::Swapped(first) = ledger.swap(&scope, &absent, &record(7)).await.unwrap()
        else {
            panic!("{effect:?}: it landed");
        };
        let SwapOutcome::Swapped(second) = ledger.swap(&scope, &first, &record(8)).await.unwrap()
        else {
            panic!("{effect:?}: it landed");
        };
        assert_eq!(fault.hits(), 2);
        let loaded = ledger.load(&scope).await.unwrap();
        assert_eq!((loaded.record, loaded.version), (Some(record(8)), second), "{effect:?}");
    }
}

#[tokio::test]
async fn a_swap_that_may_still_be_on_its_way_is_neither_done_nor_lost() {
    for effect in [Effect::CutBefore, Effect::Status(500, "InternalError")] {
        let backend = Backend::embedded(Profile::Aws).await;
        let (ledger, scope) = (backend.records(), backend.scope("k"));
        backend.faults().add(swap_fault(effect.clone()));
        let answer = ledger.swap(&scope, &RecordVersion::Absent, &record(7)).await;
        assert!(matches!(answer, Err(LedgerUnavailable(_))), "{effect:?}: {answer:?}");
        assert_eq!(ledger.load(&scope).await.unwrap().record, None, "{effect:?}");
    }
}

/// Another writer's swap from the same version is in: ours can never land.
#[tokio::test]
async fn a_lost_answer_behind_another_swap_is_a_lost_swap() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (ledger, scope) = (backend.records(), backend.scope("k"));
    let other = backend.records();
    let held = backend.faults().add(swap_fault(Effect::Hold));
    let ours = tokio::spawn({
        let scope = scope.clone();
        async move { ledger.swap(&scope, &RecordVersion::Absent, &record(7)).await }
    });
    held.wait_parked(1).await;
    let theirs = other.swap(&scope, &RecordVersion::Absent, &record(9)).await.unwrap();
    assert!(matches!(theirs, SwapOutcome::Swapped(_)));
    held.release();
    assert_eq!(ours.await.unwrap().unwrap(), SwapOutcome::Lost);

    // The same when the refusal is lost on the way.
    let version = other.load(&scope).await.unwrap().version;
    let stranger = RecordVersion::Tag("0123456789abcdef0123456789abcdef".into());
    backend.faults().add(swap_fault(Effect::LoseAnswer));
    let lost = other.swap(&scope, &stranger, &record(10)).await.unwrap();
    assert_eq!(lost, SwapOutcome::Lost);
    assert_eq!(other.load(&scope).await.unwrap().version, version);
}

#[tokio::test]
async fn an_unreadable_ledger_is_unavailable() {
    let faults = [
        Effect::Status(500, "InternalError"),
        Effect::Status(403, "AccessDenied"),
        Effect::CutBefore,
        Effect::CutBody,
    ];
    for effect in faults {
        let backend = Backend::embedded(Profile::Aws).await;
        let (ledger, scope) = (backend.records(), backend.scope("k"));
        ledger.swap(&scope, &RecordVersion::Absent, &record(7)).await.unwrap();
        backend.faults().add(Rule::new(effect.clone()).method(Method::GET).bucket(LEDGER));
        let loaded = ledger.load(&scope).await;
        assert!(matches!(loaded, Err(LedgerUnavailable(_))), "{effect:?}: {loaded:?}");
        assert_eq!(ledger.load(&scope).await.unwrap().record, Some(record(7)), "{effect:?}");
    }
}

#[tokio::test]
async fn a_ledger_bucket_that_has_gone_is_unavailable_and_not_empty() {
    let backend = Backend::embedded(Profile::Aws).await.with_ledger("never-created");
    let (ledger, scope) = (backend.records(), backend.scope("k"));
    assert!(ledger.load(&scope).await.is_err(), "no bucket is not the same as no record");
    assert!(ledger.swap(&scope, &RecordVersion::Absent, &record(1)).await.is_err());
}

#[tokio::test]
async fn what_is_not_a_record_is_unavailable_and_stays_as_it_is() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (ledger, scope) = (backend.records(), backend.scope("k"));
    ledger.swap(&scope, &RecordVersion::Absent, &record(7)).await.unwrap();
    let key = the_records_key(&backend).await;
    let stored = backend.store().object(LEDGER, &key).await.unwrap().unwrap();
    let right = String::from_utf8(stored.body.to_vec()).unwrap();
    let later = right.replacen("\"format\": 2", "\"format\": 3", 1);
    let of_another_scope = right.replacen("\"key\": \"k\"", "\"key\": \"other\"", 1);
    assert!(later != right && of_another_scope != right);
    for foreign in [&*later, &*of_another_scope, "hello", "", "{}"] {
        overwrite(&backend, &key, foreign).await;
        let loaded = ledger.load(&scope).await;
        assert!(matches!(loaded, Err(LedgerUnavailable(_))), "{foreign:?}: {loaded:?}");
        // Nothing that a ledger hands out is this object's version, so that no swap fits it.
        let absent = ledger.swap(&scope, &RecordVersion::Absent, &record(9)).await;
        assert!(!matches!(absent, Ok(SwapOutcome::Swapped(_))), "{foreign:?}: {absent:?}");
        let now = backend.store().object(LEDGER, &key).await.unwrap().unwrap();
        assert_eq!(now.body, foreign.as_bytes(), "{foreign:?} must not be overwritten");
    }
}

/// The same through a proxy: an operation's own guess at the record must not overwrite it either.
#[tokio::test]
async fn a_proxy_never_overwrites_a_record_of_a_later_format() {
    let backend = Backend::embedded(Profile::Aws).await;
    let settings = "[fence]\nsettle_delay_milliseconds = 60000\n";
    let (warm, cold) = (backend.proxy(settings).await, backend.proxy(settings).await);
    assert_eq!(warm.token(7).put("k", "one").await.short(), "200");
    let key = the_records_key(&backend).await;
    let stored = backend.store().object(LEDGER, &key).await.unwrap().unwrap();
    let later = String::from_utf8(stored.body.to_vec()).unwrap();
    let later = later.replacen("\"format\": 2", "\"format\": 3", 1);
    overwrite(&backend, &key, &later).await;
    for proxy in [&warm, &cold] {
        assert_eq!(proxy.token(8).put("k", "two").await.short(), "503 FenceUnavailable");
        assert_eq!(proxy.token(8).delete("k").await.short(), "503 FenceUnavailable");
        assert_eq!(proxy.plain().put("k", "two").await.short(), "503 FenceUnavailable");
    }
    let refused = cold.token(8).put("k", "two").await;
    assert_eq!(refused.element("Reason"), None, "the reason is in the log, not for the client");
    assert_eq!(backend.bytes("k").await.unwrap(), b"one");
    // What the warm proxy owes is not forced in at its end either.
    warm.stop().await;
    let now = backend.store().object(LEDGER, &key).await.unwrap().unwrap();
    assert_eq!(now.body, later.as_bytes());
}

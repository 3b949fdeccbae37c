//! How many requests a write costs at the store, in steady state (the table of `docs/protocol.md`).

use std::time::Duration;

use fencepost::devstore::{Effect, Profile, Rule, RuleHandle};

use super::support::{Backend, DATA, LEDGER};
use super::{IMPATIENT, UNIQUE};

/// Requests to the data bucket, and to the ledger.
struct Count {
    data: RuleHandle,
    ledger: RuleHandle,
}

impl Count {
    fn of(backend: &Backend) -> Self {
        let rule = |bucket| {
            let rule = Rule::new(Effect::Delay(Duration::ZERO)).bucket(bucket);
            backend.faults().add(rule.always())
        };
        Self { data: rule(DATA), ledger: rule(LEDGER) }
    }

    fn get(&self) -> (u64, u64) {
        (self.data.hits(), self.ledger.hits())
    }
}

#[tokio::test]
async fn where_tags_repeat_a_write_costs_two_requests() {
    for profile in [Profile::Aws, Profile::Minio] {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(IMPATIENT).await;
        assert_eq!(proxy.token(7).put("k", "first").await.short(), "200");
        let count = Count::of(&backend);
        for round in 1..=5 {
            assert_eq!(proxy.token(7).put("k", format!("{round}")).await.short(), "200");
            assert_eq!(count.get(), (round, round), "{profile}: the record and the object");
        }
        // A newer token costs no more.
        assert_eq!(proxy.token(8).put("k", "new").await.short(), "200");
        assert_eq!(count.get(), (6, 6), "{profile}");
    }
}

#[tokio::test]
async fn where_tags_are_unique_a_write_costs_one_request() {
    let backend = Backend::embedded(Profile::AwsUniqueTags).await;
    let proxy = backend.proxy(&format!("{IMPATIENT}{UNIQUE}")).await;
    assert_eq!(proxy.token(7).put("k", "first").await.short(), "200");
    let count = Count::of(&backend);
    for round in 1..=5 {
        assert_eq!(proxy.token(7).put("k", "same").await.short(), "200");
        assert_eq!(count.get(), (round, 0), "the object alone");
    }
}

#[tokio::test]
async fn a_refusal_of_a_token_that_is_known_to_be_old_costs_nothing() {
    for regime in ["", UNIQUE] {
        let backend = Backend::embedded(Profile::AwsUniqueTags).await;
        let (writer, other) = backend.proxies(&format!("{IMPATIENT}{regime}")).await;
        assert_eq!(writer.token(7).put("k", "first").await.short(), "200");
        let count = Count::of(&backend);
        for _ in 0..3 {
            assert_eq!(writer.token(6).put("k", "late").await.short(), "409 StaleFenceToken");
            assert_eq!(writer.token(6).delete("k").await.short(), "409 StaleFenceToken");
        }
        assert_eq!(count.get(), (0, 0));
        // A proxy that has not seen the key asks once.
        for _ in 0..3 {
            assert_eq!(other.token(6).put("k", "late").await.short(), "409 StaleFenceToken");
        }
        assert_eq!(count.get(), (0, 1));
    }
}

#[tokio::test]
async fn a_read_costs_one_request() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(IMPATIENT).await;
    assert_eq!(proxy.token(7).put("k", "first").await.short(), "200");
    let count = Count::of(&backend);
    assert_eq!(proxy.plain().get("k").await.short(), "200");
    assert_eq!(count.get(), (1, 0));
}

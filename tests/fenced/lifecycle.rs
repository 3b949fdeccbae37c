//! Restarts, several proxies, settings of the fence, and what is left in the record.

use std::time::Duration;

use fencepost::devstore::{DevStore, Effect, Profile};
use http::Method;

use super::support::{Backend, soon, until};
use super::{IMPATIENT, TIDY, UNIQUE, on_data, on_every_store, tokens};

#[tokio::test]
async fn a_fence_outlives_its_proxy() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let first = backend.proxy(settings).await;
        assert_eq!(first.token(42).put("k", "one").await.short(), "200");
        assert_eq!(first.token(42).put("gone", "one").await.short(), "200");
        assert_eq!(first.token(42).delete("gone").await.short(), "204");
        first.kill().await;
        let second = backend.proxy(settings).await;
        assert_eq!(second.token(41).put("k", "late").await.short(), "409 StaleFenceToken");
        assert_eq!(second.token(41).delete("k").await.short(), "409 StaleFenceToken");
        assert_eq!(second.token(41).put("gone", "late").await.short(), "409 StaleFenceToken");
        assert_eq!(second.plain().put("k", "late").await.short(), "428 FenceTokenRequired");
        assert_eq!(second.token(42).put("k", "two").await.short(), "200", "{profile}");
        assert_eq!(tokens(&backend, "k"), [42, 42], "{profile}");
    })
    .await;
}

/// The store as well is a new process, which has what it wrote to disk.
#[tokio::test]
async fn a_fence_outlives_its_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = || DevStore::builder().data_dir(directory.path());
    let mut backend = Backend::built(store()).await;
    let proxy = backend.proxy(TIDY).await;
    assert_eq!(proxy.token(42).put("k", "one").await.short(), "200");
    proxy.kill().await;
    backend.stop_store();
    drop(backend);
    let backend = soon("the directory", async {
        loop {
            match store().build() {
                Ok(built) => {
                    drop(built);
                    return Backend::built(store()).await;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    })
    .await;
    let proxy = backend.proxy(TIDY).await;
    assert_eq!(proxy.token(41).put("k", "late").await.short(), "409 StaleFenceToken");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"one"[..]));
}

#[tokio::test]
async fn two_proxies_have_one_fence() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let (one, other) = backend.proxies(settings).await;
        // To and fro, so that each finds its memory outdated.
        let mut expected = Vec::new();
        for token in 40..46 {
            let (this, that) = if token % 2 == 0 { (&one, &other) } else { (&other, &one) };
            let body = if token % 3 == 0 { "a" } else { "b" };
            assert_eq!(this.token(token).put("k", body).await.short(), "200", "{profile} {token}");
            let stale = that.token(token - 1).put("k", "late").await;
            assert_eq!(stale.short(), "409 StaleFenceToken", "{profile} {token}");
            assert_eq!(that.token(token).put("k", body).await.short(), "200", "{profile} {token}");
            expected.extend([token, token]);
        }
        assert_eq!(tokens(&backend, "k"), expected, "{profile}");
        assert_eq!(one.token(50).delete("k").await.short(), "204", "{profile}");
        assert_eq!(other.token(49).put("k", "late").await.short(), "409 StaleFenceToken");
        assert_eq!(other.token(50).put("k", "new").await.short(), "200", "{profile}");
    })
    .await;
}

#[tokio::test]
async fn with_the_strict_comparison_a_token_is_good_for_one_write() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let settings = format!("fence.compare = \"strictly-greater\"\n{TIDY}{regime}");
        let (one, other) = backend.proxies(&settings).await;
        assert_eq!(one.token(7).put("k", "one").await.short(), "200", "{profile}");
        for proxy in [&one, &other] {
            let again = proxy.token(7).put("k", "two").await;
            assert_eq!(again.short(), "409 StaleFenceToken", "{profile}");
            assert_eq!(again.header("x-fence-highest"), "7");
            assert_eq!(proxy.token(7).delete("k").await.short(), "409 StaleFenceToken");
        }
        assert_eq!(one.token(8).delete("k").await.short(), "204", "{profile}");
        assert_eq!(one.token(8).delete("k").await.short(), "409 StaleFenceToken", "{profile}");
        assert_eq!(other.token(9).delete("k").await.short(), "204", "{profile}: of nothing");
        assert_eq!(tokens(&backend, "k"), [7], "{profile}");
        // Its own first attempt must not refuse it: another writer was in between.
        assert_eq!(other.token(10).put("k", "x").await.short(), "200", "{profile}");
        assert_eq!(one.token(11).put("k", "y").await.short(), "200", "{profile}");
    })
    .await;
}

#[tokio::test]
async fn the_status_of_a_stale_token_can_be_412() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("fence.stale_status = 412\n").await;
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
    let stale = proxy.token(6).put("k", "late").await;
    assert_eq!(stale.short(), "412 StaleFenceToken");
    assert_eq!(stale.header("x-fence-highest"), "7");
}

#[tokio::test]
async fn settled_intents_are_withdrawn_after_a_while() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let settings = format!("fence.settle_delay_milliseconds = 50\n{regime}");
        let proxy = backend.proxy(&settings).await;
        for round in 0..3 {
            let answer = proxy.token(7).put("k", format!("{round}")).await;
            assert_eq!(answer.short(), "200", "{profile}");
        }
        until("the record is tidy", async || backend.intents("k").await.is_empty()).await;
        assert_eq!(backend.record("k").await.highest().unwrap().get(), 7);
        assert_eq!(proxy.token(7).delete("k").await.short(), "204", "{profile}");
        until("the record is tidy", async || backend.intents("k").await.is_empty()).await;
    })
    .await;
}

#[tokio::test]
async fn a_drain_withdraws_what_is_settled() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(&format!("{IMPATIENT}{regime}")).await;
        for key in ["a", "b", "c"] {
            assert_eq!(proxy.token(7).put(key, "one").await.short(), "200", "{profile}");
            assert_eq!(backend.intents(key).await.len(), 1, "{profile}: a create is announced");
        }
        proxy.stop().await;
        for key in ["a", "b", "c"] {
            assert!(backend.intents(key).await.is_empty(), "{profile}");
        }
    })
    .await;
}

/// A request in flight is finished, and what it leaves is withdrawn too.
#[tokio::test]
async fn a_drain_waits_for_what_is_in_flight() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(IMPATIENT).await;
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = proxy.token(7);
    let put = tokio::spawn(async move { client.put("k", "one").await });
    soon("a parked request", parked.wait_parked(1)).await;
    let stopped = tokio::spawn(proxy.stop());
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!stopped.is_finished(), "there is a request in flight");
    parked.release();
    assert_eq!(soon("its answer", put).await.unwrap().short(), "200");
    soon("the drain", stopped).await.unwrap();
    assert!(backend.intents("k").await.is_empty());
}

/// A record holds so many intents and no more; beyond it there is no room for another.
#[tokio::test]
async fn a_record_that_is_full_admits_nothing_more() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&format!("fence.intents_max = 2\n{IMPATIENT}")).await;
    for contents in ["one", "two"] {
        assert_eq!(proxy.token(7).put("k", contents).await.short(), "200");
        backend.faults().add(on_data(Effect::CutBefore, Method::PUT));
        let unknown = proxy.token(7).put("k", "lost").await;
        assert_eq!(unknown.short(), "503 FenceOutcomeUnknown");
    }
    assert_eq!(proxy.token(7).put("k", "three").await.short(), "503 FenceContended");
    assert_eq!(backend.intents("k").await.len(), 2);
    assert_eq!(proxy.token(6).put("k", "late").await.short(), "409 StaleFenceToken");
}

/// An outage leaves one intent for every try, all alike: they are one when room is needed.
#[tokio::test]
async fn a_record_that_is_full_of_the_same_intent_makes_room() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&format!("fence.intents_max = 2\n{IMPATIENT}")).await;
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
    for _ in 0..5 {
        backend.faults().add(on_data(Effect::CutBefore, Method::PUT));
        let unknown = proxy.token(7).put("k", "lost").await;
        assert_eq!(unknown.short(), "503 FenceOutcomeUnknown");
    }
    assert_eq!(proxy.token(8).put("k", "two").await.short(), "200");
    assert_eq!(proxy.token(7).put("k", "late").await.short(), "409 StaleFenceToken");
    // The lost ones still wait for what the object held before.
    let again = proxy.token(8).put("k", "one").await;
    assert_eq!(again.short(), "200");
    assert!(again.etag().ends_with("-1"), "{}", again.etag());
}

/// What is remembered is bounded, and costs requests and not safety.
#[tokio::test]
async fn a_proxy_that_remembers_little_refuses_all_the_same() {
    for regime in ["", UNIQUE] {
        let backend = Backend::embedded(Profile::AwsKms).await;
        let proxy = backend.proxy(&format!("ledger.hint_entries_max = 2\n{TIDY}{regime}")).await;
        for round in [7, 8] {
            for key in 0..8 {
                let answer = proxy.token(round).put(&format!("k{key}"), "x").await;
                assert_eq!(answer.short(), "200");
            }
        }
        for key in 0..8 {
            let stale = proxy.token(7).put(&format!("k{key}"), "late").await;
            assert_eq!(stale.short(), "409 StaleFenceToken");
        }
    }
}

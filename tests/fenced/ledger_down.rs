//! The ledger or the store cannot be asked: nothing is sent (F11).

use std::time::Duration;

use fencepost::devstore::{Effect, Profile, Rule, RuleHandle};
use http::Method;

use super::support::{Backend, DATA, LEDGER};
use super::{IMPATIENT, on_every_store};

/// Counts the writes that reach the data bucket.
fn writes(backend: &Backend) -> [RuleHandle; 3] {
    [Method::PUT, Method::DELETE, Method::POST].map(|method| {
        let count = Rule::new(Effect::Delay(Duration::ZERO)).method(method).bucket(DATA);
        backend.faults().add(count.always())
    })
}

fn sum(counters: &[RuleHandle]) -> u64 {
    counters.iter().map(RuleHandle::hits).sum()
}

#[tokio::test]
async fn a_ledger_that_fails_lets_nothing_through() {
    let failures =
        [Effect::Status(500, "InternalError"), Effect::Status(503, "SlowDown"), Effect::CutBefore];
    on_every_store(async |profile, regime| {
        for effect in &failures {
            let backend = Backend::embedded(profile).await;
            let settings = format!("{IMPATIENT}{regime}");
            let (warm, cold) = backend.proxies(&settings).await;
            assert_eq!(warm.token(7).put("k", "one").await.short(), "200");
            let writes = writes(&backend);
            let down = backend.faults().add(Rule::new(effect.clone()).bucket(LEDGER).always());
            for proxy in [&warm, &cold] {
                let context = format!("{profile} {effect:?}");
                let put = proxy.token(8).put("k", "two").await;
                assert_eq!(put.short(), "503 FenceUnavailable", "{context}");
                assert_eq!(put.header("retry-after"), "1");
                assert_eq!(proxy.token(8).delete("k").await.short(), "503 FenceUnavailable");
                assert_eq!(proxy.token(8).put("n", "two").await.short(), "503 FenceUnavailable");
                assert_eq!(proxy.plain().put("k", "two").await.short(), "503 FenceUnavailable");
                assert_eq!(proxy.plain().put("n", "two").await.short(), "503 FenceUnavailable");
                assert_eq!(proxy.plain().get("k").await.short(), "200", "{context}: reads pass");
                let (status, ready) = proxy.admin("/readyz").await;
                assert_eq!(status, 503, "{context}: {ready}");
            }
            // An old record is still proof (F12).
            assert_eq!(warm.token(6).put("k", "late").await.short(), "409 StaleFenceToken");
            assert_eq!(sum(&writes), 0, "{profile} {effect:?}: nothing is sent");
            down.remove();
            for proxy in [&warm, &cold] {
                assert_eq!(proxy.token(8).put("k", "three").await.short(), "200", "{profile}");
                assert_eq!(proxy.admin("/readyz").await.0, 200);
            }
        }
    })
    .await;
}

/// The record can be read and not be changed.
#[tokio::test]
async fn a_ledger_that_takes_no_swaps_lets_nothing_through() {
    let failures = [
        Effect::Status(500, "InternalError"),
        Effect::Status(403, "AccessDenied"),
        Effect::Status(507, "InsufficientStorage"),
        Effect::CutBefore,
    ];
    on_every_store(async |profile, regime| {
        for effect in &failures {
            let backend = Backend::embedded(profile).await;
            let settings = format!("{IMPATIENT}{regime}");
            let (first, cold) = backend.proxies(&settings).await;
            assert_eq!(first.token(7).put("k", "one").await.short(), "200");
            // Nothing is open any more, so that nothing but the ledger stands in the way.
            first.stop().await;
            let warm = backend.proxy(&settings).await;
            assert_eq!(warm.token(7).put("k", "two").await.short(), "200");
            let writes = writes(&backend);
            let rule = Rule::new(effect.clone()).method(Method::PUT).bucket(LEDGER).always();
            let down = backend.faults().add(rule);
            for proxy in [&warm, &cold] {
                let context = format!("{profile} {effect:?}");
                let put = proxy.token(8).put("k", "two").await;
                assert_eq!(put.short(), "503 FenceUnavailable", "{context}");
                let delete = proxy.token(8).delete("k").await;
                assert_eq!(delete.short(), "503 FenceUnavailable", "{context}");
                let absent = proxy.token(8).delete("n").await;
                assert_eq!(absent.short(), "503 FenceUnavailable", "{context}: of what is absent");
            }
            assert_eq!(sum(&writes), 0, "{profile} {effect:?}: nothing is sent");
            down.remove();
            assert_eq!(cold.token(8).put("k", "three").await.short(), "200");
        }
    })
    .await;
}

#[tokio::test]
async fn a_swap_whose_answer_is_lost_is_no_reason_to_refuse() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(&format!("{IMPATIENT}{regime}")).await;
        let rule = Rule::new(Effect::LoseAnswer).method(Method::PUT).bucket(LEDGER);
        let lost = backend.faults().add(rule);
        assert_eq!(proxy.token(7).put("k", "one").await.short(), "200", "{profile}");
        assert_eq!(lost.hits(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_store_that_is_down_is_answered_503() {
    let mut backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(IMPATIENT).await;
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
    backend.stop_store();
    assert_eq!(proxy.token(8).put("k", "two").await.short(), "503 FenceUnavailable");
    assert_eq!(proxy.token(8).delete("k").await.short(), "503 FenceUnavailable");
    assert_eq!(proxy.plain().put("k", "two").await.short(), "503 FenceUnavailable");
    let read = proxy.plain().get("k").await;
    assert!([502, 503].contains(&read.status), "{read:?}");
    assert_eq!(proxy.token(6).put("k", "late").await.short(), "409 StaleFenceToken");
}

/// The ledger can be asked, the object cannot be looked at.
#[tokio::test]
async fn an_object_that_cannot_be_looked_at_is_not_written() {
    on_every_store(async |profile, regime| {
        for effect in [Effect::CutBefore, Effect::Status(500, "InternalError")] {
            let backend = Backend::embedded(profile).await;
            let proxy = backend.proxy(&format!("{IMPATIENT}{regime}")).await;
            let writes = writes(&backend);
            let rule = Rule::new(effect).method(Method::HEAD).bucket(DATA).always();
            let down = backend.faults().add(rule);
            assert_eq!(proxy.token(7).put("k", "x").await.short(), "503 FenceUnavailable");
            assert_eq!(proxy.token(7).delete("k").await.short(), "503 FenceUnavailable");
            assert_eq!(sum(&writes), 0, "{profile}");
            down.remove();
            assert_eq!(proxy.token(7).put("k", "x").await.short(), "200");
        }
    })
    .await;
}

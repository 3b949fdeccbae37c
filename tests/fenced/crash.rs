//! A proxy that dies between the swap and the request, and the end of what it left behind (F9).

use std::time::Duration;

use fencepost::clock;
use fencepost::devstore::{Effect, Profile, Rule};
use http::Method;

use super::support::{Backend, LEDGER, Proxy, soon};

/// What a request with a body is good for: a minute, and a second for a body that stalls. The
/// store's own limits are far longer; the settings are what the fence reckons with.
const SETTINGS: &str = "fence.contention_wait_seconds_max = 0\n\
                        fence.settle_delay_milliseconds = 60000\n\
                        fence.signature_lifetime_seconds = 60\n\
                        fence.body_stall_seconds = 1\n";

const BOUND: Duration = Duration::from_secs(61);

/// Moves the store's clock to this long after the crash, which was at `since`.
fn set_store_clock(backend: &Backend, since: std::time::Instant, after: Duration) {
    let passed = clock::monotonic().duration_since(since);
    let ahead = after.saturating_sub(passed).as_millis();
    backend.store().set_clock_offset_ms(i64::try_from(ahead).unwrap());
}

/// Registers a write of token 11 and dies before it is sent.
async fn crash(backend: &Backend, proxy: Proxy, method: Method) -> std::time::Instant {
    let swap = Rule::new(Effect::Hold).method(Method::PUT).bucket(LEDGER);
    let swap = backend.faults().add(swap);
    let client = proxy.token(11);
    let body = if method == Method::PUT { "late" } else { "" };
    let request = tokio::spawn(async move { client.try_send(method, "/data/k", body).await });
    soon("a swap", swap.wait_parked(1)).await;
    let since = clock::monotonic();
    proxy.kill().await;
    swap.release();
    soon("the swap's end", swap.wait_finished(1)).await;
    assert!(soon("no answer", request).await.unwrap().is_err(), "its proxy is gone");
    let intents = backend.intents("k").await;
    assert_eq!(intents.len(), 1, "the intent is in");
    assert_eq!(intents[0].token.get(), 11);
    since
}

#[tokio::test]
async fn an_intent_that_was_left_behind_is_avoided_until_it_has_expired() {
    let backend = Backend::embedded(Profile::Aws).await;
    let first = backend.proxy(SETTINGS).await;
    assert_eq!(first.token(10).put("k", "idle").await.short(), "200");
    first.stop().await;
    let changes = backend.history("k").len();
    let since = crash(&backend, backend.proxy(SETTINGS).await, Method::PUT).await;
    assert_eq!(backend.history("k").len(), changes, "it was never sent");

    let round_of = async |after: Duration| {
        set_store_clock(&backend, since, after);
        // A new proxy: what it knows of the store's time is new as well.
        let proxy = backend.proxy(SETTINGS).await;
        assert_eq!(proxy.token(12).put("k", "busy").await.short(), "200");
        let idle = proxy.token(12).put("k", "idle").await;
        assert_eq!(idle.short(), "200");
        proxy.stop().await;
        idle.etag().ends_with("-1")
    };
    assert!(round_of(Duration::ZERO).await, "what it expects does not come back");
    assert!(round_of(BOUND - Duration::from_secs(8)).await, "nor shortly before its end");
    assert_eq!(backend.intents("k").await.len(), 1);
    assert!(!round_of(BOUND + Duration::from_secs(8)).await, "after it, there is nothing to avoid");
    assert!(backend.intents("k").await.is_empty(), "and it is taken out");
}

#[tokio::test]
async fn a_create_that_was_left_behind_is_waited_for_until_it_has_expired() {
    let backend = Backend::embedded(Profile::Aws).await;
    let since = crash(&backend, backend.proxy(SETTINGS).await, Method::PUT).await;
    let proxy = backend.proxy(SETTINGS).await;
    assert_eq!(proxy.token(12).delete("k").await.short(), "503 FenceContended");
    set_store_clock(&backend, since, BOUND - Duration::from_secs(8));
    assert_eq!(proxy.token(12).delete("k").await.short(), "503 FenceContended");
    set_store_clock(&backend, since, BOUND + Duration::from_secs(8));
    assert_eq!(proxy.token(12).delete("k").await.short(), "204");
    assert_eq!(proxy.token(11).put("k", "late").await.short(), "409 StaleFenceToken");
}

/// Nothing at all is admitted on the key meanwhile. A DELETE's signature is good for a minute, and
/// the store has another one to carry out what it has accepted.
#[tokio::test]
async fn an_exclusive_delete_that_was_left_behind_blocks_its_key_until_it_has_expired() {
    let backend = Backend::embedded(Profile::Minio).await;
    let first = backend.proxy(SETTINGS).await;
    assert_eq!(first.token(10).put("k", "idle").await.short(), "200");
    first.stop().await;
    let since = crash(&backend, backend.proxy(SETTINGS).await, Method::DELETE).await;
    let proxy = backend.proxy(SETTINGS).await;
    for after in [0, 50, 110] {
        set_store_clock(&backend, since, Duration::from_secs(after));
        let answer = proxy.token(12).put("k", "new").await;
        assert_eq!(answer.short(), "503 FenceContended", "{after} s");
        assert_eq!(proxy.token(12).put("other", "new").await.short(), "200", "{after} s");
    }
    set_store_clock(&backend, since, Duration::from_secs(130));
    assert_eq!(proxy.token(12).put("k", "new").await.short(), "200");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"new"[..]));
}

/// The other half of the bargain: what arrives after that time the store itself refuses, however
/// long it was on its way.
#[tokio::test]
async fn a_delete_that_arrives_after_its_time_is_refused_by_the_store() {
    let backend = Backend::embedded(Profile::Minio).await;
    let proxy = backend.proxy(SETTINGS).await;
    assert_eq!(proxy.token(10).put("k", "idle").await.short(), "200");
    let parked =
        backend.faults().add(Rule::new(Effect::Hold).method(Method::DELETE).bucket("data"));
    let client = proxy.token(11);
    let late = tokio::spawn(async move { client.delete("k").await });
    soon("a parked request", parked.wait_parked(1)).await;
    backend.store().set_clock_offset_ms(62_000);
    parked.release();
    let late = soon("its answer", late).await.unwrap();
    assert_eq!(late.short(), "403 AccessDenied");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"idle"[..]));
}

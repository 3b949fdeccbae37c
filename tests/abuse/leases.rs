//! Leases: who waits for one, who has gone away, and who has it.

use std::time::{Duration, Instant};

use fencepost::clock;
use fencepost::devstore::{Effect, Profile, Rule, RuleHandle};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::support::{Answer, Backend, LEDGER, Proxy, soon};
use super::{acquire, ask, claim, code, granted, on_data, read, settings, show};

/// Its token would be used up by its own claim.
#[tokio::test]
async fn there_is_no_lease_where_tokens_are_good_for_one_write() {
    let backend = Backend::embedded(Profile::Aws).await;
    let strict = format!("fence.compare = \"strictly-greater\"\n{}", settings());
    let proxy = backend.proxy(&strict).await;
    for path in ["jobs/", "one"] {
        let answer = acquire(&proxy.plain(), path, "a", 30, 0).await;
        println!("{path}: {} {:?}", answer.status, answer.body);
        assert_eq!(answer.status, 501, "{path}");
        assert_eq!(show(&proxy, path).await["token"], Value::Null, "nothing has entered");
    }
}

/// A write of token 5 that the store has and does not carry out yet.
async fn park_a_write(backend: &Backend, holder: &Proxy) -> (RuleHandle, JoinHandle<Answer>) {
    assert_eq!(holder.token(5).put("jobs/a", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = holder.token(5);
    let late = tokio::spawn(async move { client.put("jobs/a", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    (parked, late)
}

/// The claim may take longer than the lease lasts.
#[tokio::test]
async fn a_lease_that_is_granted_is_one_that_its_holder_has() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (older, newer) = backend.proxies(&settings()).await;
    let (parked, late) = park_a_write(&backend, &older).await;
    let client = newer.plain();
    let waiting = tokio::spawn(async move { acquire(&client, "jobs/", "a", 2, 25).await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    parked.release();
    soon("its answer", late).await.unwrap();
    let answer = soon("the lease", waiting).await.unwrap();
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    let left = read(&answer)["expires_at"].as_u64().unwrap();
    let shown = show(&newer, "jobs/").await;
    assert_eq!(shown["lease"]["expired"], false, "it was to last until {left}: {shown}");
}

/// A client that does not get its answer in time asks again under the same id; the first request
/// goes on.
#[tokio::test]
async fn a_repeated_acquisition_that_was_granted_is_not_released_by_the_first_one() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (older, newer) = backend.proxies(&settings()).await;
    let (parked, late) = park_a_write(&backend, &older).await;
    let id = format!("{:032x}", clock::random_u128());
    let body = |wait: u64| {
        json!({
            "action": "acquire", "ttl_seconds": 60, "holder": "a", "wait_seconds": wait, "id": id
        })
    };
    let (client, first) = (newer.plain(), body(3));
    let first = tokio::spawn(async move { ask(&client, "jobs/", first).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (client, second) = (newer.plain(), body(25));
    let second = tokio::spawn(async move { ask(&client, "jobs/", second).await });
    println!("first: {}", code(&soon("the first", first).await.unwrap()));
    parked.release();
    soon("its answer", late).await.unwrap();
    let answer = soon("the second", second).await.unwrap();
    assert_eq!(answer.status, 200, "{:?}", answer.body);
    let other = acquire(&newer.plain(), "jobs/", "b", 60, 0).await;
    assert_eq!(code(&other), "409 FenceLeaseHeld", "a has just been told that it has it");
}

#[tokio::test]
async fn who_has_gone_away_while_waiting_for_a_lease_does_not_get_it() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&settings()).await;
    let (_, id) = granted(&acquire(&proxy.plain(), "jobs/", "a", 600, 0).await);
    let client = proxy.plain();
    let waiting = tokio::spawn(async move { acquire(&client, "jobs/", "ghost", 600, 60).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    waiting.abort();
    let _ = waiting.await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let released = ask(&proxy.plain(), "jobs/", json!({ "action": "release", "id": id })).await;
    assert_eq!(released.status, 200);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let next = acquire(&proxy.plain(), "jobs/", "b", 60, 3).await;
    println!("{} {:?}", next.status, next.body);
    granted(&next);
}

/// Whoever closes the connection does not go on taking a place for ten minutes.
#[tokio::test]
async fn those_who_wait_do_not_take_every_place() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&format!("limits.requests_in_flight_max = 16\n{}", settings())).await;
    granted(&acquire(&proxy.plain(), "jobs/", "a", 600, 0).await);
    for _ in 0..16 {
        let client = proxy.plain();
        let waiting = tokio::spawn(async move { acquire(&client, "jobs/", "x", 60, 600).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        waiting.abort();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let answer = proxy.token(7).put("elsewhere", "x").await;
    println!("{}", answer.short());
    assert_eq!(answer.short(), "200");
}

/// Those who wait must not keep the holder from renewing.
#[tokio::test]
async fn a_crowd_that_waits_for_a_lease_does_not_starve_its_holder() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&settings()).await;
    let (token, id) = granted(&acquire(&proxy.plain(), "jobs/", "a", 600, 0).await);
    let slow = Rule::new(Effect::Delay(Duration::from_millis(20))).method(Method::GET);
    backend.faults().add(slow.bucket(LEDGER).always());
    let time = async |what: &str| {
        let began: Instant = clock::monotonic();
        let body = json!({ "action": "renew", "id": id });
        assert_eq!(ask(&proxy.plain(), "jobs/", body).await.status, 200);
        let renewed = began.elapsed();
        let began = clock::monotonic();
        let put = proxy.token(token).put("jobs/a", what.to_owned()).await.short();
        println!("{what}: renewed in {renewed:?}, PUT {put} in {:?}", began.elapsed());
        renewed.max(began.elapsed())
    };
    time("alone").await;
    let crowd: Vec<_> = (0..400)
        .map(|_| {
            let client = proxy.plain();
            tokio::spawn(async move { acquire(&client, "jobs/", "x", 60, 20).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let worst = time("among 400").await.max(time("again").await);
    for waiting in crowd {
        waiting.abort();
    }
    assert!(worst < Duration::from_secs(6), "{worst:?}");
}

/// A proxy that stops does not wait for those who wait.
#[tokio::test]
async fn who_waits_for_a_lease_does_not_hold_up_the_end_of_the_process() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&settings()).await;
    granted(&acquire(&proxy.plain(), "jobs/", "a", 600, 0).await);
    let client = proxy.plain();
    let waiting = tokio::spawn(async move {
        let body = json!({
            "action": "acquire", "ttl_seconds": 9, "holder": "b", "wait_seconds": 25
        });
        let _ = client.try_send(Method::POST, "/_fence/lease/data/jobs/", body.to_string()).await;
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = clock::monotonic();
    proxy.stop().await;
    println!("stopped after {:?}", began.elapsed());
    waiting.abort();
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

/// A write of one object that takes long must not cost its holder the lease.
#[tokio::test]
async fn a_holder_can_renew_and_claim_while_its_own_write_is_under_way() {
    for (path, key) in [("jobs/", "jobs/a"), ("one", "one")] {
        let backend = Backend::embedded(Profile::Aws).await;
        let proxy = backend.proxy(&settings()).await;
        let (token, id) = granted(&acquire(&proxy.plain(), path, "a", 30, 0).await);
        assert_eq!(proxy.token(token).put(key, "first").await.short(), "200");
        let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
        let client = proxy.token(token);
        let write = tokio::spawn(async move { client.put(key, "slow").await.short() });
        soon("a parked request", parked.wait_parked(1)).await;
        let began = clock::monotonic();
        let renewed = ask(&proxy.plain(), path, json!({ "action": "renew", "id": id })).await;
        println!("beside {key}: renew {} in {:?}", renewed.status, began.elapsed());
        let (renew_took, began) = (began.elapsed(), clock::monotonic());
        let client = proxy.token(token).with("x-fence-wait", "6");
        let claimed = claim(&client, path).await;
        println!("beside {key}: claim {} in {:?}", claimed.status, began.elapsed());
        let claim_took = began.elapsed();
        parked.release();
        assert_eq!(soon("its answer", write).await.unwrap(), "200");
        assert_eq!((renewed.status, claimed.status), (200, 200), "{path}");
        assert!(renew_took.max(claim_took) < Duration::from_secs(4), "{path}");
    }
}

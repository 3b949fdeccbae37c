//! How many requests a write costs at the store, in steady state (the table of `docs/protocol.md`).

use std::time::Duration;

use fencepost::devstore::{Effect, Profile, Rule, RuleHandle};
use http::Method;
use serde_json::{Value, json};

use super::support::{Backend, DATA, LEDGER, Proxy};
use super::{IMPATIENT, UNIQUE, on_data};

/// All of `jobs/` is one scope.
const SHARED: &str = "[[scope]]\nbucket = \"data\"\nprefix = \"jobs/\"\nper = \"prefix\"\n";

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

    /// Those of one thing that is done.
    async fn during<T>(&self, done: impl Future<Output = T>) -> (T, (u64, u64)) {
        let (data, ledger) = self.get();
        let result = done.await;
        let (data_now, ledger_now) = self.get();
        (result, (data_now - data, ledger_now - ledger))
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
    let backend = Backend::embedded(Profile::AwsKms).await;
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
        let backend = Backend::embedded(Profile::AwsKms).await;
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

#[tokio::test]
async fn in_a_shared_scope_a_key_that_is_new_to_the_proxy_costs_a_look_more() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&format!("{IMPATIENT}{SHARED}")).await;
    let count = Count::of(&backend);
    let put = async |token: u64, key: &str| {
        let (answer, cost) = count.during(proxy.token(token).put(key, "x")).await;
        assert_eq!(answer.short(), "200", "{key}");
        cost
    };
    assert_eq!(put(7, "jobs/a").await, (2, 3), "load, look, load, swap, write");
    assert_eq!(put(7, "jobs/b").await, (2, 1), "look, swap, write");
    assert_eq!(put(7, "jobs/a").await, (1, 1), "swap, write");
    assert_eq!(put(8, "jobs/a").await, (1, 1), "a newer token, and nothing older is open");
}

#[tokio::test]
async fn in_a_shared_scope_whose_tags_are_unique_a_write_costs_a_look_and_a_load_more() {
    let backend = Backend::embedded(Profile::AwsKms).await;
    let proxy = backend.proxy(&format!("{IMPATIENT}{UNIQUE}{SHARED}")).await;
    assert_eq!(proxy.token(7).put("jobs/a", "first").await.short(), "200");
    let count = Count::of(&backend);
    for round in 1..=3 {
        assert_eq!(proxy.token(7).put("jobs/a", "same").await.short(), "200");
        assert_eq!(count.get(), (2 * round, 2 * round), "look, load, swap, write");
    }
}

/// F5: each of these keys is looked at once, by each proxy.
#[tokio::test]
async fn the_barrier_costs_a_look_for_every_key_with_an_older_open_operation() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (one, other) = backend.proxies(&format!("{IMPATIENT}{SHARED}")).await;
    for key in ["jobs/a", "jobs/b", "jobs/c"] {
        assert_eq!(one.token(7).put(key, "idle").await.short(), "200");
        backend.faults().add(on_data(Effect::CutBefore, Method::PUT));
        assert_eq!(one.token(7).put(key, "lost").await.short(), "503 FenceOutcomeUnknown");
        // It expects what is not there any more, and stays in the record.
        assert_eq!(one.token(7).put(key, "next").await.short(), "200");
    }
    let count = Count::of(&backend);
    let put = async |proxy: &Proxy| {
        let (answer, cost) = count.during(proxy.token(8).put("jobs/d", "x")).await;
        assert_eq!(answer.short(), "200");
        cost
    };
    assert_eq!(put(&one).await, (5, 1), "look, swap, three looks, write");
    assert_eq!(put(&one).await, (1, 1), "swap, write");
    assert_eq!(put(&other).await, (5, 3), "load, look, load, swap, three looks, write");
}

#[tokio::test]
async fn claims_and_leases_cost_what_the_documents_say() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&format!("{IMPATIENT}{SHARED}")).await;
    let count = Count::of(&backend);
    let claim = async |token: u64, path: &str| {
        let client = proxy.token(token);
        let target = format!("/_fence/claim/data/{path}");
        let (answer, cost) = count.during(client.send(Method::PUT, &target, "")).await;
        assert_eq!(answer.short(), "200", "{path}");
        cost
    };
    assert_eq!(claim(7, "one").await, (0, 2), "load, swap");
    assert_eq!(claim(7, "one").await, (0, 1), "load");
    assert_eq!(claim(8, "one").await, (0, 2), "load, swap");
    assert_eq!(claim(7, "jobs/").await, (0, 2), "load, swap");
    assert_eq!(claim(7, "jobs/").await, (0, 1), "load");
    assert_eq!(claim(8, "jobs/").await, (0, 1), "swap");
    for path in ["two", "jobs/"] {
        let client = proxy.plain();
        let target = format!("/_fence/lease/data/{path}");
        let ask = async |body: Value| {
            let sent = client.send(Method::POST, &target, body.to_string());
            let (answer, cost) = count.during(sent).await;
            assert_eq!(answer.short(), "200", "{path}");
            (serde_json::from_slice::<Value>(&answer.body).unwrap(), cost)
        };
        let acquire = json!({ "action": "acquire", "ttl_seconds": 30, "holder": "a" });
        let (lease, cost) = ask(acquire).await;
        assert_eq!(cost, (0, 4), "{path}: look, load, swap, load");
        let of_it = |action: &str| json!({ "action": action, "id": lease["id"] });
        assert_eq!(ask(of_it("renew")).await.1, (0, 2), "{path}: load, swap");
        let shown = count.during(client.send(Method::GET, &target, "")).await.1;
        assert_eq!(shown, (0, 1), "{path}: load");
        assert_eq!(ask(of_it("release")).await.1, (0, 2), "{path}: load, swap");
    }
}

/// F14: it changes the object's tag.
#[tokio::test]
async fn a_claim_of_one_object_whose_tags_are_unique_rewrites_it() {
    let backend = Backend::embedded(Profile::AwsKms).await;
    let settings = format!("backend.conditional_copy = \"conditional\"\n{IMPATIENT}{UNIQUE}");
    let (writer, other) = backend.proxies(&settings).await;
    assert_eq!(writer.token(7).put("k", "idle").await.short(), "200");
    let count = Count::of(&backend);
    let client = other.token(8);
    let claimed = client.send(Method::PUT, "/_fence/claim/data/k", "");
    let (answer, cost) = count.during(claimed).await;
    assert_eq!(answer.short(), "200");
    assert_eq!(cost, (4, 2), "load, look, swap, look at what is open, look, copy");
}

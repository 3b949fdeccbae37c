//! The write that plain `If-Match` does not stop: the delayed request of an older holder arrives
//! when the object has become again what that request expects (F4, F5).

use fencepost::devstore::{ChangeKind, Effect, Profile};
use fencepost::fence::{Rule, Rules};
use http::Method;

use super::support::{Answer, Backend, soon};
use super::{AT_ONCE, IMPATIENT, PATIENT, UNIQUE, on_data, on_every_store, tokens};

/// Every rule off: what is left is a compare with the record and `If-Match`.
const IF_MATCH_ONLY: Rules = Rules::ALL
    .without(Rule::Register)
    .without(Rule::Avoid)
    .without(Rule::KeepDead)
    .without(Rule::KeepUnknown)
    .without(Rule::TagBeforeRecord);

/// What a race came to.
struct Race {
    /// The newer holder's two writes.
    newer: [Answer; 2],
    /// What the older one is told at last.
    late: Answer,
    /// The object at the end.
    bytes: Option<Vec<u8>>,
    /// The tokens of the PUTs in the order in which the store made them.
    tokens: Vec<u64>,
}

/// The object is `idle`. Token 11 changes it (a PUT or a DELETE), and that request is parked in
/// the store. Token 12 writes `busy` and then `idle` again through another proxy; then the parked
/// request goes on.
async fn race(profile: Profile, settings: &str, rules: Rules, late: Method) -> Race {
    let backend = Backend::embedded(profile).await;
    let (older, newer) =
        tokio::join!(backend.proxy_with(settings, rules), backend.proxy_with(settings, rules));
    assert_eq!(older.token(10).put("k", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, late.clone()));
    let client = older.token(11);
    let late = tokio::spawn(async move {
        let body = if late == Method::PUT { "late" } else { "" };
        client.send(late, "/data/k", body).await
    });
    soon("a parked request", parked.wait_parked(1)).await;

    let busy = newer.token(12).put("k", "busy").await;
    let idle = newer.token(12).put("k", "idle").await;
    parked.release();
    soon("the parked request's end", parked.wait_finished(1)).await;
    let late = soon("the older holder's answer", late).await.unwrap();
    let (bytes, tokens) = (backend.bytes("k").await, tokens(&backend, "k"));
    Race { newer: [busy, idle], late, bytes, tokens }
}

#[tokio::test]
async fn a_delayed_put_does_not_land_on_bytes_that_have_come_back() {
    for profile in [Profile::Aws, Profile::Minio] {
        let race = race(profile, PATIENT, Rules::ALL, Method::PUT).await;
        let [busy, idle] = &race.newer;
        assert_eq!((busy.short(), idle.short()), ("200".into(), "200".into()), "{profile}");
        assert!(!busy.etag().contains('-'), "{profile}: nobody expects it");
        assert!(idle.etag().ends_with("-1"), "{profile}: the one-part form, not {}", idle.etag());
        assert_eq!(race.late.short(), "409 StaleFenceToken", "{profile}");
        assert_eq!(race.bytes.as_deref(), Some(&b"idle"[..]), "{profile}");
        assert_eq!(race.tokens, [10, 12, 12], "{profile}");
    }
}

#[tokio::test]
async fn a_delayed_delete_does_not_land_on_bytes_that_have_come_back() {
    let race = race(Profile::Aws, PATIENT, Rules::ALL, Method::DELETE).await;
    let [busy, idle] = &race.newer;
    assert_eq!((busy.short(), idle.short()), ("200".into(), "200".into()));
    assert!(idle.etag().ends_with("-1"), "{}", idle.etag());
    assert_eq!(race.late.short(), "409 StaleFenceToken");
    assert_eq!(race.bytes.as_deref(), Some(&b"idle"[..]));
}

#[tokio::test]
async fn where_tags_are_unique_the_stores_own_comparison_is_enough() {
    let settings = format!("{PATIENT}{UNIQUE}");
    for late in [Method::PUT, Method::DELETE] {
        let race = race(Profile::AwsKms, &settings, Rules::ALL, late).await;
        for newer in &race.newer {
            assert_eq!(newer.short(), "200");
            assert!(!newer.etag().contains('-'));
        }
        assert_eq!(race.late.short(), "409 StaleFenceToken");
        assert_eq!(race.bytes.as_deref(), Some(&b"idle"[..]));
        assert_eq!(race.tokens, [10, 12, 12]);
    }
}

/// What the rules are for: without F4, or with `If-Match` alone, the newer holder's object is
/// overwritten after it was told that it has written it.
#[tokio::test]
async fn without_avoidance_the_delayed_put_lands() {
    for rules in [Rules::ALL.without(Rule::Avoid), IF_MATCH_ONLY] {
        let race = race(Profile::Aws, PATIENT, rules, Method::PUT).await;
        for newer in &race.newer {
            assert_eq!(newer.short(), "200");
        }
        assert_eq!(race.tokens, [10, 12, 12, 11], "an older token after a newer one's success");
        assert_eq!(race.bytes.as_deref(), Some(&b"late"[..]));
        assert_eq!(race.late.short(), "200");
    }
}

#[tokio::test]
async fn without_avoidance_the_delayed_delete_lands() {
    for rules in [Rules::ALL.without(Rule::Avoid), IF_MATCH_ONLY] {
        let race = race(Profile::Aws, PATIENT, rules, Method::DELETE).await;
        assert_eq!(race.newer[1].short(), "200");
        assert_eq!(race.bytes, None, "the newer holder's object is gone");
    }
}

/// An honest tag is not enough where the setting lies: tags that are said to be unique and repeat
/// are no fence. It is why the setting's default is the safe one.
#[tokio::test]
async fn tags_that_are_said_to_be_unique_and_repeat_are_no_fence() {
    let settings = format!("{PATIENT}{UNIQUE}");
    let race = race(Profile::Aws, &settings, Rules::ALL, Method::PUT).await;
    assert_eq!(race.tokens, [10, 12, 12, 11]);
}

/// `absent` comes back as well: create, delete, and a delayed create.
#[tokio::test]
async fn a_delete_waits_for_a_create_that_may_still_arrive() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let (patient, impatient) = (format!("{PATIENT}{regime}"), format!("{IMPATIENT}{regime}"));
        let (older, newer) = tokio::join!(backend.proxy(&patient), backend.proxy(&impatient));
        let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
        let client = older.token(11);
        let late = tokio::spawn(async move { client.put("k", "late").await });
        soon("a parked request", parked.wait_parked(1)).await;

        assert_eq!(newer.token(12).put("k", "new").await.short(), "200", "{profile}");
        // It would leave `absent`, which the parked request expects.
        let delete = newer.token(12).delete("k").await;
        assert_eq!(delete.short(), "503 FenceContended", "{profile}");
        assert_eq!(delete.header("retry-after"), "1");
        assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"new"[..]), "{profile}");
        // A PUT leaves a tag that it does not expect, and need not wait.
        assert_eq!(newer.token(12).put("k", "newer").await.short(), "200", "{profile}");

        parked.release();
        let late = soon("the older holder's answer", late).await.unwrap();
        assert_eq!(late.short(), "409 StaleFenceToken", "{profile}");
        // The intent is settled; it is taken out of the record by the proxy that knows.
        older.stop().await;
        assert_eq!(newer.token(12).delete("k").await.short(), "204", "{profile}");
        assert_eq!(tokens(&backend, "k"), [12, 12], "{profile}");
        assert_eq!(newer.counter("fence_contended_total", "data").await, 1, "{profile}");
    })
    .await;
}

/// Nothing is there to be overwritten, and nothing is written: the token alone has entered, and
/// the answer has to wait for what may still bring the object into being (F5).
#[tokio::test]
async fn a_delete_of_what_is_absent_waits_for_a_create_that_may_still_arrive() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (older, newer) = tokio::join!(backend.proxy(PATIENT), backend.proxy(AT_ONCE));
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(11);
    let late = tokio::spawn(async move { client.put("k", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    assert_eq!(newer.token(12).delete("k").await.short(), "503 FenceContended");
    parked.release();
    // It lands, and that is right: nobody with a newer token has been told anything yet.
    assert_eq!(soon("its answer", late).await.unwrap().short(), "200");
    older.stop().await;
    assert_eq!(newer.token(12).delete("k").await.short(), "204");
    assert_eq!(backend.bytes("k").await, None);
    let kinds: Vec<_> = backend.history("k").iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Put, ChangeKind::Delete]);
}

#[tokio::test]
async fn without_avoidance_the_delayed_create_lands() {
    for rules in [Rules::ALL.without(Rule::Avoid), IF_MATCH_ONLY] {
        let backend = Backend::embedded(Profile::Aws).await;
        let (older, newer) =
            tokio::join!(backend.proxy_with(PATIENT, rules), backend.proxy_with(PATIENT, rules));
        let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
        let client = older.token(11);
        let late = tokio::spawn(async move { client.put("k", "late").await });
        soon("a parked request", parked.wait_parked(1)).await;
        assert_eq!(newer.token(12).put("k", "new").await.short(), "200");
        assert_eq!(newer.token(12).delete("k").await.short(), "204");
        parked.release();
        soon("its answer", late).await.unwrap();
        assert_eq!(tokens(&backend, "k"), [12, 11]);
        assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"late"[..]));
    }
}

//! DELETE where the store has no condition for it: MinIO (F8).

use fencepost::devstore::{Effect, Profile};
use http::Method;

use super::support::{Backend, soon, until};
use super::{AT_ONCE, PATIENT, TIDY, on_data, tokens};

#[tokio::test]
async fn while_an_exclusive_delete_is_open_nothing_else_is_admitted_on_its_key() {
    let backend = Backend::embedded(Profile::Minio).await;
    let (one, other) = tokio::join!(backend.proxy(TIDY), backend.proxy(AT_ONCE));
    assert_eq!(one.token(10).put("k", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::DELETE));
    let client = one.token(11);
    let delete = tokio::spawn(async move { client.delete("k").await });
    soon("a parked request", parked.wait_parked(1)).await;

    for token in [11, 12] {
        let holder = other.token(token);
        assert_eq!(holder.put("k", "new").await.short(), "503 FenceContended", "{token}");
        assert_eq!(holder.delete("k").await.short(), "503 FenceContended", "{token}");
    }
    assert_eq!(one.token(12).put("k", "new").await.short(), "503 FenceContended");
    // A refusal is a refusal all the same, and reads are not concerned.
    assert_eq!(other.token(9).put("k", "late").await.short(), "409 StaleFenceToken");
    assert_eq!(other.plain().put("k", "late").await.short(), "428 FenceTokenRequired");
    assert_eq!(other.plain().get("k").await.body, "idle");
    assert_eq!(other.token(12).put("another", "new").await.short(), "200");
    assert_eq!(tokens(&backend, "k"), [10]);

    parked.release();
    assert_eq!(soon("its answer", delete).await.unwrap().short(), "204");
    until("its intent is withdrawn", async || backend.intents("k").await.is_empty()).await;
    assert_eq!(other.token(12).put("k", "new").await.short(), "200");
    assert_eq!(tokens(&backend, "k"), [10, 12]);
}

/// A conditional request of an older holder does not block it: the delete leaves `absent`, which
/// that one does not expect.
#[tokio::test]
async fn an_exclusive_delete_passes_an_open_put_that_it_makes_dead() {
    let backend = Backend::embedded(Profile::Minio).await;
    let (older, newer) = backend.proxies(PATIENT).await;
    assert_eq!(older.token(10).put("k", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(11);
    let late = tokio::spawn(async move { client.put("k", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    assert_eq!(newer.token(12).delete("k").await.short(), "204");
    parked.release();
    assert_eq!(soon("its answer", late).await.unwrap().short(), "409 StaleFenceToken");
    assert_eq!(backend.bytes("k").await, None);
}

/// Nobody judges the client's condition at the store, so nobody may change what the proxy judged
/// it on.
#[tokio::test]
async fn a_condition_on_an_exclusive_delete_waits_for_every_open_request() {
    let backend = Backend::embedded(Profile::Minio).await;
    let (one, other) = tokio::join!(backend.proxy(PATIENT), backend.proxy(AT_ONCE));
    let first = one.token(10).put("k", "idle").await;
    one.stop().await;
    let one = backend.proxy(PATIENT).await;
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = one.token(12);
    let put = tokio::spawn(async move { client.put("k", "new").await });
    soon("a parked request", parked.wait_parked(1)).await;
    let conditional = other.token(12).with("if-match", first.header("etag"));
    assert_eq!(conditional.delete("k").await.short(), "503 FenceContended");
    parked.release();
    assert_eq!(soon("its answer", put).await.unwrap().short(), "200");
    one.stop().await;
    assert_eq!(conditional.delete("k").await.short(), "412 PreconditionFailed");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"new"[..]));
}

/// What cannot be conditional is sent by one proxy and not by two.
#[tokio::test]
async fn of_two_deletes_at_the_same_time_each_is_applied_or_told_to_try_again() {
    let backend = Backend::embedded(Profile::Minio).await;
    let (one, other) = backend.proxies(TIDY).await;
    for _ in 0..10 {
        assert_eq!(one.token(7).put("k", "x").await.short(), "200");
        let (a, b) = (one.token(7), other.token(7));
        let (a, b) = tokio::join!(a.delete("k"), b.delete("k"));
        for answer in [a, b] {
            assert!(["204", "503 FenceContended"].contains(&&*answer.short()), "{answer:?}");
        }
        assert_eq!(backend.bytes("k").await, None);
    }
}

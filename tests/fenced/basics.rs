//! Admitted, stale, equal, missing and invalid tokens.

use bytes::Bytes;
use fencepost::devstore::Profile;
use http::Method;

use super::support::Backend;
use super::{UNIQUE, on_every_store, tokens};

#[tokio::test]
async fn a_lower_token_is_refused_and_changes_nothing() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(settings).await;
        let first = proxy.token(33).put("k", "one").await;
        assert_eq!(first.short(), "200", "{profile}: the first touch creates");
        assert_eq!(proxy.token(34).put("k", "two").await.short(), "200", "{profile}");
        let before = backend.history("k").len();

        for stale in [proxy.token(33).put("k", "late").await, proxy.token(33).delete("k").await] {
            assert_eq!(stale.short(), "409 StaleFenceToken", "{profile}");
            assert_eq!(stale.element("FenceToken"), Some("33"));
            assert_eq!(stale.element("HighestFenceToken"), Some("34"));
            assert_eq!(stale.element("BucketName"), Some("data"));
            assert_eq!(stale.element("Key"), Some("k"));
            assert_eq!(stale.header("x-fence-token"), "33");
            assert_eq!(stale.header("x-fence-highest"), "34");
            assert!(!stale.header("x-amz-request-id").is_empty());
        }
        assert_eq!(backend.history("k").len(), before, "{profile}");
        let read = proxy.plain().get("k").await;
        assert_eq!((read.status, &read.body[..]), (200, &b"two"[..]), "{profile}");
        let rejected = proxy.counter("fence_rejected_total", "reason=\"stale\"").await;
        assert_eq!(rejected, 2, "{profile}");
        assert_eq!(proxy.counter("fence_admitted_total", "data").await, 2, "{profile}");
    })
    .await;
}

#[tokio::test]
async fn the_same_token_may_write_again_and_again() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(settings).await;
        let holder = proxy.token(7);
        for body in ["one", "two", "two", "one", ""] {
            let answer = holder.put("k", body).await;
            assert_eq!(answer.short(), "200", "{profile} {body:?}");
            let stored = backend.store().object("data", "k").await.unwrap().unwrap();
            assert_eq!(answer.etag(), stored.etag, "{profile}: the answer names what is there");
            assert_eq!(stored.body, body.as_bytes(), "{profile}");
            assert_eq!(stored.metadata["fencepost-token"], "7");
        }
        assert_eq!(holder.delete("k").await.short(), "204", "{profile}");
        assert_eq!(holder.delete("k").await.short(), "204", "{profile}: of what is absent");
        assert_eq!(holder.put("k", "three").await.short(), "200", "{profile}");
        assert_eq!(tokens(&backend, "k"), [7; 6], "{profile}");
    })
    .await;
}

#[tokio::test]
async fn a_delete_does_not_erase_the_fence() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(settings).await;
        assert_eq!(proxy.token(5).put("k", "one").await.short(), "200", "{profile}");
        assert_eq!(proxy.token(6).delete("k").await.short(), "204", "{profile}");
        assert_eq!(backend.bytes("k").await, None, "{profile}");
        assert_eq!(proxy.token(5).put("k", "late").await.short(), "409 StaleFenceToken");
        assert_eq!(proxy.token(5).delete("k").await.short(), "409 StaleFenceToken");
        assert_eq!(proxy.plain().put("k", "late").await.short(), "428 FenceTokenRequired");
        assert_eq!(backend.bytes("k").await, None, "{profile}");
        assert_eq!(proxy.token(6).put("k", "two").await.short(), "200", "{profile}");
    })
    .await;
}

/// Nothing is written, and yet the older token is out from then on.
#[tokio::test]
async fn a_delete_of_what_was_never_there_raises_the_fence() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(settings).await;
        assert_eq!(proxy.token(9).delete("k").await.short(), "204", "{profile}");
        assert_eq!(backend.record("k").await.highest().unwrap().get(), 9, "{profile}");
        assert_eq!(proxy.token(8).put("k", "late").await.short(), "409 StaleFenceToken");
        assert_eq!(proxy.token(8).delete("k").await.short(), "409 StaleFenceToken");
        assert!(backend.history("k").is_empty(), "{profile}");
    })
    .await;
}

#[tokio::test]
async fn keys_have_a_fence_each() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    assert_eq!(proxy.token(9).put("a", "one").await.short(), "200");
    assert_eq!(proxy.token(1).put("b", "one").await.short(), "200");
    assert_eq!(proxy.token(1).put("a/", "one").await.short(), "200");
    assert_eq!(proxy.token(1).put("A", "one").await.short(), "200");
    assert_eq!(proxy.token(8).put("a", "late").await.short(), "409 StaleFenceToken");
    // One key has one fence however it is spelt.
    let spelt = proxy.token(8).send(Method::PUT, "/data/%61", Bytes::new()).await;
    assert_eq!(spelt.short(), "409 StaleFenceToken");
    let hosted = proxy.token(8).host("data.localhost");
    assert_eq!(hosted.send(Method::PUT, "/a", Bytes::new()).await.short(), "409 StaleFenceToken");
}

#[tokio::test]
async fn the_largest_token_is_a_token() {
    for settings in ["", UNIQUE] {
        let backend = Backend::embedded(Profile::AwsKms).await;
        let proxy = backend.proxy(settings).await;
        assert_eq!(proxy.token(u64::MAX).put("k", "one").await.short(), "200");
        let stale = proxy.token(u64::MAX - 1).put("k", "late").await;
        assert_eq!(stale.short(), "409 StaleFenceToken");
        assert_eq!(stale.header("x-fence-highest"), "18446744073709551615");
    }
}

#[tokio::test]
async fn what_is_not_a_token_is_refused_before_anything_is_asked() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    let before = backend.store().history().len();
    let invalid =
        ["0", "-1", "+1", "1 2", "0x1", "1.0", "", "1,2", "18446744073709551616", "1e3", "fence:7"];
    for given in invalid {
        let header = proxy.plain().with("x-fence-token", given);
        assert_eq!(header.put("k", "x").await.short(), "400 InvalidFenceToken", "{given:?}");
        assert_eq!(header.delete("k").await.short(), "400 InvalidFenceToken", "{given:?}");
        let session = proxy.plain().session(&format!("fence:{given}"));
        assert_eq!(session.put("k", "x").await.short(), "400 InvalidFenceToken", "{given:?}");
    }
    let two = proxy.token(7).with("x-fence-token", "8");
    assert_eq!(two.put("k", "x").await.short(), "400 InvalidFenceToken");
    let twice =
        proxy.plain().with_unsigned("x-fence-token", "7").with_unsigned("x-fence-token", "7");
    assert_eq!(twice.put("k", "x").await.short(), "400 InvalidFenceToken");
    let unsigned = proxy.plain().with_unsigned("x-fence-token", "7");
    assert_eq!(unsigned.put("k", "x").await.short(), "400 InvalidFenceToken");
    let foreign = proxy.plain().session("FwoGZXIvYXdzEXAMPLE");
    assert_eq!(foreign.put("k", "x").await.short(), "400 InvalidToken");
    assert_eq!(backend.store().history().len(), before);
    assert!(proxy.counter("fence_rejected_total", "invalid_token").await >= 33);
    assert_eq!(proxy.counter("fence_rejected_total", "conflicting_tokens").await, 1);

    // The same in both carriers is one token; leading zeros are none of its digits.
    let same = proxy.token(7).with("x-fence-token", "007");
    assert_eq!(same.put("k", "x").await.short(), "200");
}

#[tokio::test]
async fn an_unsigned_token_is_taken_where_the_setting_says_so() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("auth.token_signature = \"any\"\n").await;
    let client = |token: &str| proxy.plain().with_unsigned("x-fence-token", token);
    assert_eq!(client("7").put("k", "one").await.short(), "200");
    assert_eq!(client("6").put("k", "late").await.short(), "409 StaleFenceToken");
}

/// The proxy's own headers and session tokens stay with the proxy; user metadata does not.
#[tokio::test]
async fn what_the_store_gets_is_what_the_client_sent_and_the_stamp() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    let client = proxy
        .token(7)
        .with("x-amz-meta-mine", "yes")
        .with("x-amz-meta-fencepost-token", "1")
        .with("x-amz-meta-fencepost-operation", "1")
        .with("content-type", "text/x")
        .with("cache-control", "no-cache");
    assert_eq!(client.put("k", "one").await.short(), "200");
    let head = backend.direct().head("k").await;
    assert_eq!(head.header("content-type"), "text/x");
    assert_eq!(head.header("cache-control"), "no-cache");
    assert_eq!(head.header("x-amz-meta-mine"), "yes");
    assert_eq!(head.header("x-amz-meta-fencepost-token"), "7");
    assert_eq!(head.header("x-amz-meta-fencepost-operation").len(), 32);
}

#[tokio::test]
async fn a_bucket_that_is_not_there_is_the_stores_own_answer() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(settings).await;
        let answer = proxy.token(7).send(Method::PUT, "/nowhere/k", Bytes::from("x")).await;
        assert_eq!(answer.short(), "404 NoSuchBucket", "{profile}");
    })
    .await;
}

//! CopyObject: the destination is fenced, the source pinned.

use std::time::Duration;

use bytes::Bytes;
use fencepost::devstore::{Effect, Profile};
use http::Method;

use super::support::{Answer, Backend, S3, soon, until};
use super::{AT_ONCE, PATIENT, TIDY, on_data, on_every_store, tokens};

async fn copy(client: &S3, source: &str, key: &str) -> Answer {
    let client = client.clone().with("x-amz-copy-source", source);
    client.send(Method::PUT, &format!("/data/{key}"), Bytes::new()).await
}

#[tokio::test]
async fn a_copy_is_fenced_and_carries_its_sources_metadata_and_a_stamp_of_its_own() {
    on_every_store(async |profile, regime| {
        for enforcement in ["exclusive", "conditional"] {
            let settings = format!("{TIDY}backend.conditional_copy = \"{enforcement}\"\n{regime}");
            let backend = Backend::embedded(profile).await;
            let (one, other) = backend.proxies(&settings).await;
            let what = format!("{profile} {enforcement}");
            let writer = one.token(3).with("content-type", "text/plain").with("x-amz-meta-a", "b");
            assert_eq!(writer.put("src", "bytes").await.short(), "200", "{what}");
            let copied = copy(&one.token(7), "/data/src", "k").await;
            assert_eq!(copied.short(), "200", "{what}");
            assert!(copied.element("ETag").is_some(), "{what}: the store's own answer");
            let read = other.plain().get("k").await;
            assert_eq!(
                (read.body.as_ref(), read.header("content-type")),
                (&b"bytes"[..], "text/plain")
            );
            assert_eq!(read.header("x-amz-meta-a"), "b", "{what}");
            assert_eq!(tokens(&backend, "k"), [7], "{what}: the source's stamp is not copied");

            assert_eq!(other.token(8).put("k", "newer").await.short(), "200", "{what}");
            for proxy in [&one, &other] {
                let late = copy(&proxy.token(7), "data/src", "k").await;
                assert_eq!(late.short(), "409 StaleFenceToken", "{what}");
            }
            let without = copy(&one.plain(), "/data/src", "k").await;
            assert_eq!(without.short(), "428 FenceTokenRequired", "{what}");
            assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"newer"[..]), "{what}");
            // Reading needs no token: the source may be anybody's.
            assert_eq!(copy(&one.token(1), "/data/k", "elsewhere").await.short(), "200", "{what}");
            until("no intent is left", async || backend.intents("k").await.is_empty()).await;
        }
    })
    .await;
}

#[tokio::test]
async fn metadata_is_replaced_by_a_copy_onto_itself() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(&format!("{TIDY}{regime}")).await;
        let client = proxy.token(7);
        assert_eq!(client.clone().with("x-amz-meta-a", "old").put("k", "x").await.short(), "200");
        let idle = copy(&client, "/data/k", "k").await;
        assert_eq!(idle.short(), "400 InvalidRequest", "{profile}: it would change nothing");
        let replacing = client.clone().with("x-amz-metadata-directive", "REPLACE");
        let replacing = replacing.with("x-amz-meta-a", "new");
        assert_eq!(copy(&replacing, "/data/k", "k").await.short(), "200", "{profile}");
        assert_eq!(client.head("k").await.header("x-amz-meta-a"), "new", "{profile}");
        assert_eq!(tokens(&backend, "k"), [7, 7], "{profile}");
        let malformed = client.clone().with("x-amz-metadata-directive", "KEEP");
        assert_eq!(copy(&malformed, "/data/k", "k").await.short(), "400 InvalidArgument");
    })
    .await;
}

/// A copy that would leave the very tag that an older holder's write waits for must not be made:
/// that write would land on it.
#[tokio::test]
async fn a_copy_does_not_bring_back_a_tag_that_an_open_write_expects() {
    let backend = Backend::embedded(Profile::Minio).await;
    let older = backend.proxy(PATIENT).await;
    assert_eq!(older.token(9).put("same", "idle").await.short(), "200");
    assert_eq!(older.token(10).put("k", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(11);
    let late = tokio::spawn(async move { client.put("k", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    let newer = backend.proxy(AT_ONCE).await;
    assert_eq!(newer.token(12).put("k", "busy").await.short(), "200");
    let back = copy(&newer.token(12), "/data/same", "k").await;
    assert_eq!(back.short(), "503 FenceContended");
    parked.release();
    assert_eq!(soon("its answer", late).await.unwrap().short(), "409 StaleFenceToken");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"busy"[..]));
}

#[tokio::test]
async fn a_copy_whose_answer_is_lost_is_recognised() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(&format!("{TIDY}{regime}")).await;
        assert_eq!(proxy.token(7).put("src", "bytes").await.short(), "200");
        let lost = backend.faults().add(on_data(Effect::LoseAnswer, Method::PUT));
        let copied = copy(&proxy.token(7), "/data/src", "k").await;
        assert_eq!(copied.short(), "200", "{profile}");
        assert_eq!(lost.hits(), 1);
        let stored = backend.store().object("data", "k").await.unwrap().unwrap();
        let etag = format!("&quot;{}&quot;", stored.etag);
        assert_eq!(copied.element("ETag"), Some(&*etag), "{profile}");
        assert!(copied.element("LastModified").is_some_and(|date| date.ends_with('Z')));
        assert_eq!(tokens(&backend, "k"), [7], "{profile}");
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_copied_is_said() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(TIDY).await;
    let client = proxy.token(7);
    assert_eq!(client.put("src", "x").await.short(), "200");
    let etag = client.head("src").await.etag().to_owned();
    for (source, expected) in [
        ("/data/none", "404 NoSuchKey"),
        ("/nowhere/k", "404 NoSuchKey"),
        ("/data", "400 InvalidURI"),
        ("arn:aws:s3:eu-west-1:1:accesspoint/a/object/k", "400 InvalidBucketName"),
        ("/fencepost-ledger/scopes/x", "403 AccessDenied"),
    ] {
        assert_eq!(copy(&client, source, "k").await.short(), expected, "{source}");
    }
    let other = client.clone().with("x-amz-copy-source-if-match", "\"0123\"");
    assert_eq!(copy(&other, "/data/src", "k").await.short(), "412 PreconditionFailed");
    let same = client.clone().with("x-amz-copy-source-if-none-match", &etag);
    assert_eq!(copy(&same, "/data/src", "k").await.short(), "412 PreconditionFailed");
    assert_eq!(backend.bytes("k").await, None);
    let hidden = "x-amz-copy-source-server-side-encryption-customer-algorithm";
    let hidden = copy(&client.clone().with(hidden, "AES256"), "/data/src", "k").await;
    assert_eq!(hidden.short(), "501 FenceUnsupportedOperation");
    until("no intent is left", async || backend.intents("k").await.is_empty()).await;
    assert_eq!(proxy.counter("fence_rejected_total", "stale").await, 0);
}

#[tokio::test]
async fn the_clients_own_conditions_on_the_destination_keep_their_meaning() {
    on_every_store(async |profile, regime| {
        for enforcement in ["exclusive", "conditional"] {
            let settings = format!("{TIDY}backend.conditional_copy = \"{enforcement}\"\n{regime}");
            let backend = Backend::embedded(profile).await;
            let proxy = backend.proxy(&settings).await;
            let client = proxy.token(7);
            let what = format!("{profile} {enforcement}");
            assert_eq!(client.put("src", "x").await.short(), "200", "{what}");
            let absent = client.clone().with("if-none-match", "*");
            if super::is_unique(regime) {
                // Nobody could hold to it.
                let refused = copy(&absent, "/data/src", "k").await;
                assert_eq!(refused.short(), "501 FenceUnsupportedOperation", "{what}");
                continue;
            }
            assert_eq!(copy(&absent, "/data/src", "k").await.short(), "200", "{what}");
            let failed = "412 PreconditionFailed";
            assert_eq!(copy(&absent, "/data/src", "k").await.short(), failed, "{what}");
            let foreign = client.clone().with("if-match", "\"0123\"");
            assert_eq!(copy(&foreign, "/data/src", "k").await.short(), failed, "{what}");
            assert_eq!(copy(&foreign, "/data/src", "l").await.short(), "404 NoSuchKey", "{what}");
            let quoted_star = client.clone().with("if-none-match", "\"*\"");
            let refused = copy(&quoted_star, "/data/src", "k").await;
            assert_eq!(refused.short(), "501 NotImplemented", "{what}");
        }
    })
    .await;
}

/// A store that copies the bytes answers when it is done.
#[tokio::test]
async fn a_copy_that_takes_long_is_waited_for() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&format!("{TIDY}backend.response_timeout_seconds = 2\n")).await;
    assert_eq!(proxy.token(7).put("src", "bytes").await.short(), "200");
    let slow = || on_data(Effect::Delay(Duration::from_millis(4500)), Method::PUT);
    backend.faults().add(slow());
    assert_eq!(copy(&proxy.token(7), "/data/src", "k").await.short(), "200");
    // A PUT is not: its answer is due when its bytes are there.
    let put = backend.faults().add(slow());
    assert_eq!(proxy.token(7).put("l", "x").await.short(), "503 FenceOutcomeUnknown");
    assert_eq!(put.hits(), 1);
}

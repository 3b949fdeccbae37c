//! What leaves an object's bytes and ETag as they are, and what brings an older version back.

use bytes::Bytes;
use fencepost::devstore::{ChangeKind, Effect, Profile};
use http::Method;

use super::support::{Answer, Backend, S3, soon, until};
use super::{AT_ONCE, PATIENT, TIDY, UNIQUE, on_data};

const TAGS: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";

async fn tag(client: &S3, key: &str) -> Answer {
    client.send(Method::PUT, &format!("/data/{key}?tagging"), TAGS).await
}

async fn tagged(backend: &Backend, key: &str) -> bool {
    let tags = backend.direct().send(Method::GET, &format!("/data/{key}?tagging"), "").await;
    tags.element("Value") == Some("b")
}

#[tokio::test]
async fn tags_are_fenced() {
    for profile in [Profile::Aws, Profile::Minio] {
        let backend = Backend::embedded(profile).await;
        let (one, other) = backend.proxies(TIDY).await;
        assert_eq!(one.token(7).put("k", "x").await.short(), "200");
        assert_eq!(tag(&one.token(7), "k").await.short(), "200", "{profile}");
        assert!(tagged(&backend, "k").await, "{profile}");
        let untag = async |client: &S3| {
            client.send(Method::DELETE, "/data/k?tagging", Bytes::new()).await.short()
        };
        assert_eq!(untag(&other.token(6)).await, "409 StaleFenceToken", "{profile}");
        assert_eq!(untag(&other.plain()).await, "428 FenceTokenRequired", "{profile}");
        assert!(tagged(&backend, "k").await, "{profile}");
        assert_eq!(untag(&other.token(8)).await, "204", "{profile}");
        assert_eq!(tag(&one.token(7), "k").await.short(), "409 StaleFenceToken", "{profile}");
        assert!(!tagged(&backend, "k").await, "{profile}");
        assert_eq!(tag(&one.token(8), "none").await.short(), "404 NoSuchKey", "{profile}");
        until("no intent is left", async || backend.intents("k").await.is_empty()).await;
        assert_eq!(one.token(8).put("k", "y").await.short(), "200", "{profile}");
    }
}

/// F5: the object is left as it is, so whatever expects it as it is has to be over first.
#[tokio::test]
async fn tags_wait_for_an_open_write_of_an_older_holder() {
    let backend = Backend::embedded(Profile::Aws).await;
    let (older, newer) = backend.proxies("fence.settle_delay_milliseconds = 0\n").await;
    assert_eq!(older.token(10).put("k", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(11);
    let late = tokio::spawn(async move { client.put("k", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    let impatient = backend.proxy(AT_ONCE).await;
    assert_eq!(tag(&impatient.token(12), "k").await.short(), "503 FenceContended");
    let client = newer.token(12);
    let tagging = tokio::spawn(async move { tag(&client, "k").await });
    parked.release();
    assert_eq!(soon("its answer", late).await.unwrap().short(), "200", "it was before the tags");
    assert_eq!(soon("the tags", tagging).await.unwrap().short(), "200");
    let kinds: Vec<ChangeKind> = backend.history("k").iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Put, ChangeKind::Put, ChangeKind::Tagging]);
}

/// F8: nothing on the object can tell what became of a change of tags.
#[tokio::test]
async fn tags_whose_answer_is_lost_lock_the_key_for_minutes_and_say_so() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(AT_ONCE).await;
    assert_eq!(proxy.token(7).put("k", "x").await.short(), "200");
    backend.faults().add(on_data(Effect::CutBefore, Method::PUT).query("tagging"));
    assert_eq!(tag(&proxy.token(7), "k").await.short(), "503 FenceOutcomeUnknown");
    assert_eq!(proxy.token(8).put("k", "y").await.short(), "503 FenceContended");
}

#[tokio::test]
async fn acl_retention_and_the_like_are_refused_to_a_stale_holder_before_the_store_is_asked() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(TIDY).await;
    assert_eq!(proxy.token(9).put("k", "x").await.short(), "200");
    let asked = backend.faults().add(on_data(Effect::Observe, Method::PUT).always());
    let posted = backend.faults().add(on_data(Effect::Observe, Method::POST).always());
    let rows = [
        (Method::PUT, "?acl"),
        (Method::PUT, "?retention"),
        (Method::PUT, "?legal-hold"),
        (Method::POST, "?restore"),
        (Method::POST, "?restore&versionId=null"),
    ];
    for (method, query) in &rows {
        let target = format!("/data/k{query}");
        let send = async |client: S3| client.send(method.clone(), &target, "<x/>").await.short();
        assert_eq!(send(proxy.token(8)).await, "409 StaleFenceToken", "{query}");
        assert_eq!(send(proxy.plain()).await, "428 FenceTokenRequired", "{query}");
        let malformed = proxy.plain().with("x-fence-token", "nine");
        assert_eq!(send(malformed).await, "400 InvalidFenceToken", "{query}");
    }
    assert_eq!((asked.hits(), posted.hits()), (0, 0));
    // A good token gets the store's own answer, which for most of these is "not implemented".
    for (method, query) in rows {
        let target = format!("/data/k{query}");
        let answer = proxy.token(9).send(method.clone(), &target, "<x/>").await;
        let own = backend.direct().send(method, &target, "<x/>").await;
        assert_eq!(answer.short(), own.short(), "{query}");
    }
    assert!(asked.hits() > 0 && posted.hits() > 0);
    until("no intent is left", async || backend.intents("k").await.is_empty()).await;
}

#[tokio::test]
async fn where_tags_never_repeat_open_writes_are_not_on_record_so_it_is_refused() {
    let backend = Backend::embedded(Profile::AwsKms).await;
    let proxy = backend.proxy(&format!("{TIDY}{UNIQUE}")).await;
    assert_eq!(proxy.token(7).put("k", "x").await.short(), "200");
    let refused = "501 FenceUnsupportedOperation";
    assert_eq!(tag(&proxy.token(7), "k").await.short(), refused);
    let version = proxy.token(7).send(Method::DELETE, "/data/k?versionId=null", "").await;
    assert_eq!(version.short(), refused);
}

#[tokio::test]
async fn a_version_is_deleted_only_when_no_older_write_is_open() {
    let backend = Backend::embedded(Profile::Minio).await;
    let enable = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    let enabled = backend.direct().send(Method::PUT, "/data?versioning", enable).await;
    assert_eq!(enabled.short(), "200");
    let older = backend.proxy(PATIENT).await;
    assert_eq!(older.token(10).put("k", "idle").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = older.token(11);
    let late = tokio::spawn(async move { client.put("k", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    let newer = backend.proxy(AT_ONCE).await;
    let written = newer.token(12).put("k", "busy").await;
    assert_eq!(written.short(), "200");
    let target = format!("/data/k?versionId={}", written.header("x-amz-version-id"));
    let delete = async |client: S3| client.send(Method::DELETE, &target, "").await.short();
    // It would bring "idle" back, which the older write expects.
    assert_eq!(delete(newer.token(12)).await, "503 FenceContended");
    assert_eq!(delete(newer.token(11)).await, "409 StaleFenceToken");
    let conditional = newer.token(12).with("if-match", written.header("etag"));
    assert_eq!(delete(conditional).await, "501 NotImplemented");
    parked.release();
    assert_eq!(soon("its answer", late).await.unwrap().short(), "409 StaleFenceToken");
    older.stop().await;
    assert_eq!(delete(newer.token(12)).await, "204");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"idle"[..]));
}

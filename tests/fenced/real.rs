//! The most important of the above over each real store that is beside the test.

use http::Method;

use super::support::{Backend, Detour, soon};

on_real_stores! {
    admitted_stale_deleted_restarted_and_two_proxies,
    a_clients_own_conditions,
    a_large_body,
    a_delayed_put_does_not_land_on_bytes_that_have_come_back,
}

/// The loser of a race waits for seconds there.
const SETTINGS: &str = "fence.settle_delay_milliseconds = 0\nledger.timeout_seconds = 30\n";

async fn admitted_stale_deleted_restarted_and_two_proxies(backend: &Backend) {
    let (one, other) = backend.proxies(SETTINGS).await;
    let direct = backend.direct();
    assert_eq!(one.plain().put("k", "free").await.short(), "200");
    assert_eq!(one.token(42).put("k", "one").await.short(), "200");
    assert_eq!(other.token(41).put("k", "late").await.short(), "409 StaleFenceToken");
    assert_eq!(other.token(41).delete("k").await.short(), "409 StaleFenceToken");
    assert_eq!(other.plain().put("k", "late").await.short(), "428 FenceTokenRequired");
    assert_eq!(direct.get("k").await.body, "one");
    assert_eq!(direct.head("k").await.header("x-amz-meta-fencepost-token"), "42");
    assert_eq!(other.token(43).put("k", "two").await.short(), "200");
    assert_eq!(one.token(43).put("k", "three").await.short(), "200", "its memory is outdated");
    assert_eq!(one.token(42).put("k", "late").await.short(), "409 StaleFenceToken");

    one.kill().await;
    let restarted = backend.proxy(SETTINGS).await;
    assert_eq!(restarted.token(42).put("k", "late").await.short(), "409 StaleFenceToken");
    assert_eq!(restarted.token(44).delete("k").await.short(), "204");
    assert_eq!(direct.head("k").await.status, 404);
    assert_eq!(other.token(43).put("k", "late").await.short(), "409 StaleFenceToken");
    assert_eq!(other.token(44).delete("k").await.short(), "204", "of what is absent");
    assert_eq!(other.token(44).put("k", "four").await.short(), "200");
    assert_eq!(direct.get("k").await.body, "four");
}

/// SeaweedFS takes `d//e` for `d/e`: two spellings of one object must not have two fences.
#[tokio::test]
async fn a_key_that_the_store_takes_for_another_is_refused() {
    let Some(backend) = Backend::seaweedfs().await else { return };
    let proxy = backend.proxy(SETTINGS).await;
    assert_eq!(proxy.token(9).put("d/e", "nine").await.short(), "200");
    for alias in ["d//e", "/d/e", "//d///e"] {
        for client in [proxy.token(3), proxy.token(10), proxy.plain()] {
            assert_eq!(client.put(alias, "late").await.short(), "400 InvalidArgument", "{alias}");
            assert_eq!(client.delete(alias).await.short(), "400 InvalidArgument", "{alias}");
        }
    }
    // Other untidy paths it refuses itself.
    for alias in ["a/../d/e", "./d/e", "d/./e", "../x/d/e"] {
        let answer = proxy.token(3).put(alias, "late").await;
        assert!(answer.status >= 400, "{alias}: {answer:?}");
    }
    assert_eq!(backend.direct().get("d/e").await.body, "nine");
    let unfenced = backend.proxy(&format!("{SETTINGS}fence.mode = \"off\"\n")).await;
    assert_eq!(unfenced.plain().put("d//e", "free").await.short(), "200", "nothing is fenced");
}

async fn a_clients_own_conditions(backend: &Backend) {
    let proxy = backend.proxy(SETTINGS).await;
    let create = proxy.token(7).with("if-none-match", "*");
    let first = create.put("k", "one").await;
    assert_eq!(first.short(), "200");
    assert_eq!(create.put("k", "two").await.short(), "412 PreconditionFailed");
    let right = proxy.token(7).with("if-match", first.header("etag"));
    assert_eq!(right.put("k", "two").await.short(), "200");
    assert_eq!(right.put("k", "three").await.short(), "412 PreconditionFailed");
    // Whatever the store itself answers (SeaweedFS and Ceph: 412), the proxy answers as AWS does.
    assert_eq!(right.put("absent", "x").await.short(), "404 NoSuchKey");
}

async fn a_large_body(backend: &Backend) {
    let proxy = backend.proxy(SETTINGS).await;
    let body = vec![b'x'; 12 * 1024 * 1024];
    let put = soon("an upload", proxy.token(7).put("k", body.clone())).await;
    assert_eq!(put.short(), "200");
    assert!(backend.direct().get("k").await.body == body);
    assert_eq!(proxy.token(6).put("k", body).await.short(), "409 StaleFenceToken");
}

/// The write that plain `If-Match` does not stop, with a packet that was delayed on its way to a
/// real store.
async fn a_delayed_put_does_not_land_on_bytes_that_have_come_back(backend: &Backend) {
    let path = format!("/{}/k", backend.bucket);
    let detour = Detour::to(&backend.endpoint, Method::PUT, &path).await;
    let older = backend.by_way_of(detour.endpoint()).proxy(SETTINGS).await;
    let newer = backend.proxy(SETTINGS).await;
    assert_eq!(older.token(10).put("k", "idle").await.short(), "200");
    detour.arm();
    let client = older.token(11);
    let late = tokio::spawn(async move { client.put("k", "late").await });
    detour.held().await;
    assert_eq!(newer.token(12).put("k", "busy").await.short(), "200");
    let idle = newer.token(12).put("k", "idle").await;
    assert_eq!(idle.short(), "200");
    assert!(idle.etag().ends_with("-1"), "{}", idle.etag());
    detour.release().await;
    let late = soon("the older holder's answer", late).await.unwrap();
    assert_eq!(late.short(), "409 StaleFenceToken");
    let now = backend.direct().get("k").await;
    assert_eq!((&now.body[..], now.header("x-amz-meta-fencepost-token")), (&b"idle"[..], "12"));
}

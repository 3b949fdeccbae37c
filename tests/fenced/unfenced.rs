//! Writes without a token (F13), and what is not fenced at all.

use bytes::Bytes;
use fencepost::devstore::{Effect, Profile, Rule};
use http::Method;

use super::support::{Backend, LEDGER};
use super::{on_every_store, tokens};

#[tokio::test]
async fn without_a_token_a_write_passes_until_its_key_has_seen_one() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        // Two proxies: what one of them remembers must not count (F12).
        let (one, other) = backend.proxies(settings).await;
        assert_eq!(other.plain().put("k", "free").await.short(), "200", "{profile}");
        assert_eq!(other.plain().delete("k").await.short(), "204", "{profile}");
        assert_eq!(other.plain().put("k", "free").await.short(), "200", "{profile}");
        assert_eq!(one.token(7).put("k", "fenced").await.short(), "200", "{profile}");
        for proxy in [&other, &one] {
            for refused in [proxy.plain().put("k", "late").await, proxy.plain().delete("k").await] {
                assert_eq!(refused.short(), "428 FenceTokenRequired", "{profile}");
                assert_eq!(refused.element("HighestFenceToken"), Some("7"));
                assert_eq!(refused.header("x-fence-highest"), "7");
            }
        }
        assert_eq!(tokens(&backend, "k"), [0, 0, 7], "{profile}");
        assert_eq!(other.counter("fence_rejected_total", "missing_token").await, 2);
        assert_eq!(other.plain().put("another", "free").await.short(), "200", "{profile}");
    })
    .await;
}

#[tokio::test]
async fn the_ledger_is_asked_every_time() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    let asked = Rule::new(Effect::Delay(std::time::Duration::ZERO)).method(Method::GET);
    let asked = backend.faults().add(asked.bucket(LEDGER).always());
    for number in 1..=3 {
        assert_eq!(proxy.plain().put("k", "free").await.short(), "200");
        assert_eq!(asked.hits(), number);
    }
    asked.remove();
    let down = Rule::new(Effect::Status(500, "InternalError")).bucket(LEDGER).always();
    backend.faults().add(down);
    assert_eq!(proxy.plain().put("k", "free").await.short(), "503 FenceUnavailable");
}

#[tokio::test]
async fn where_a_token_is_required_nothing_passes_without() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("fence.mode = \"require\"\n").await;
    for refused in [proxy.plain().put("k", "x").await, proxy.plain().delete("k").await] {
        assert_eq!(refused.short(), "428 FenceTokenRequired");
        assert_eq!(refused.element("HighestFenceToken"), None);
    }
    assert!(backend.history("k").is_empty());
    assert_eq!(proxy.token(7).put("k", "x").await.short(), "200");
    assert_eq!(proxy.plain().put("k", "x").await.short(), "428 FenceTokenRequired");
}

#[tokio::test]
async fn where_nothing_is_fenced_every_token_passes() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("fence.mode = \"off\"\n").await;
    let down = Rule::new(Effect::Status(500, "InternalError")).bucket(LEDGER).always();
    let down = backend.faults().add(down);
    for token in [9, 8, 7] {
        assert_eq!(proxy.token(token).put("k", token.to_string()).await.short(), "200");
    }
    assert_eq!(proxy.plain().put("k", "free").await.short(), "200");
    assert_eq!(proxy.token(1).delete("k").await.short(), "204");
    assert_eq!(down.hits(), 0, "the ledger is not concerned");
    assert_eq!(tokens(&backend, "k"), [0; 4], "nothing is stamped");
    assert_eq!(proxy.plain().with("x-fence-token", "x").put("k", "").await.status, 400);
}

#[tokio::test]
async fn the_longest_prefix_decides() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend
        .proxy(
            "[[bucket]]\nname = \"data\"\nmode = \"require\"\n\
             [[scope]]\nbucket = \"data\"\nprefix = \"free/\"\nmode = \"off\"\n\
             [[scope]]\nbucket = \"data\"\nprefix = \"free/not/\"\nmode = \"if-fenced\"\n",
        )
        .await;
    assert_eq!(proxy.plain().put("k", "x").await.short(), "428 FenceTokenRequired");
    assert_eq!(proxy.plain().put("free/k", "x").await.short(), "200");
    assert_eq!(proxy.plain().put("free/not/k", "x").await.short(), "200");
    assert_eq!(proxy.token(3).put("free/not/k", "x").await.short(), "200");
    assert_eq!(proxy.token(2).put("free/not/k", "x").await.short(), "409 StaleFenceToken");
    assert_eq!(proxy.token(3).put("free/k", "x").await.short(), "200");
    assert_eq!(proxy.token(2).put("free/k", "x").await.short(), "200");
    // The prefix is one of decoded keys.
    let spelt = proxy.plain().send(Method::PUT, "/data/%66ree%2Fnot%2Fk", Bytes::new()).await;
    assert_eq!(spelt.short(), "428 FenceTokenRequired");
}

#[tokio::test]
async fn reads_need_no_token_and_no_token_stops_them() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("fence.mode = \"require\"\n").await;
    assert_eq!(proxy.token(7).put("k", "x").await.short(), "200");
    for client in [proxy.plain(), proxy.token(1), proxy.token(9)] {
        assert_eq!(client.get("k").await.body, "x");
        assert_eq!(client.head("k").await.status, 200);
        let listed = client.send(Method::GET, "/data?list-type=2", Bytes::new()).await;
        assert_eq!(listed.element("Key"), Some("k"));
        let buckets = client.send(Method::GET, "/", Bytes::new()).await;
        assert_eq!(buckets.status, 200);
    }
    assert_eq!(backend.record("k").await.highest().unwrap().get(), 7, "a read raises nothing");
}

#[tokio::test]
async fn buckets_come_and_go_and_their_records_stay() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("fence.bucket_operations = \"allow\"\n").await;
    let plain = proxy.plain();
    let on_bucket = async |method| plain.send(method, "/another", Bytes::new()).await.short();
    assert_eq!(on_bucket(Method::PUT).await, "200");
    let stale = async |token| {
        proxy.token(token).send(Method::PUT, "/another/k", Bytes::from("x")).await.short()
    };
    assert_eq!(stale(7).await, "200");
    assert_eq!(on_bucket(Method::DELETE).await, "409 BucketNotEmpty");
    let deleted = proxy.token(7).send(Method::DELETE, "/another/k", Bytes::new()).await;
    assert_eq!(deleted.short(), "204");
    assert_eq!(on_bucket(Method::DELETE).await, "204");
    assert_eq!(on_bucket(Method::PUT).await, "200");
    assert_eq!(stale(6).await, "409 StaleFenceToken", "a new bucket of that name is no new fence");
}

#[tokio::test]
async fn a_bucket_that_holds_fenced_objects_is_left_alone_unless_allowed() {
    let backend = Backend::embedded(Profile::Aws).await;
    let settings = "[[bucket]]\nname = \"open\"\nbucket_operations = \"allow\"\n\
                    [[bucket]]\nname = \"unfenced\"\nmode = \"off\"\n";
    let proxy = backend.proxy(settings).await;
    let client = proxy.token(7);
    for bucket in ["open", "unfenced", "closed"] {
        let made = client.send(Method::PUT, &format!("/{bucket}"), Bytes::new()).await;
        assert_eq!(made.short(), "200", "{bucket}");
    }
    let denied = "403 FenceBucketOperationDenied";
    for (method, query) in [
        (Method::PUT, "?versioning"),
        (Method::PUT, "?lifecycle"),
        (Method::DELETE, "?lifecycle"),
        (Method::PUT, "?policy"),
        (Method::PUT, "?replication"),
        (Method::DELETE, "?force-delete=true"),
        (Method::POST, "?metadataConfiguration"),
        (Method::DELETE, ""),
    ] {
        let on = async |bucket: &str| {
            let target = format!("/{bucket}{query}");
            client.send(method.clone(), &target, Bytes::new()).await.short()
        };
        assert_eq!(on("closed").await, denied, "{method} {query}");
        assert_eq!(on("data").await, denied, "{method} {query}");
        if !query.contains("replication") {
            assert_ne!(on("open").await, denied, "{method} {query}");
        } else {
            // It would write into other buckets, which are fenced.
            assert_eq!(on("open").await, denied);
            assert_eq!(on("unfenced").await, denied);
        }
    }
    let refused = proxy.counter("fence_rejected_total", "unsupported_operation").await;
    assert_eq!(refused, 18);
}

//! DeleteObjects: every key on its own, one answer.

use bytes::Bytes;
use fencepost::devstore::{Effect, Profile};
use http::Method;

use super::support::{Answer, Backend, S3};
use super::{AT_ONCE, TIDY, on_data, on_every_store};

async fn delete(client: &S3, objects: &str) -> Answer {
    let body = format!("<Delete>{objects}</Delete>");
    client.send(Method::POST, "/data?delete", body).await
}

fn keys(keys: &[&str]) -> String {
    keys.iter().map(|key| format!("<Object><Key>{key}</Key></Object>")).collect()
}

/// What the answer says of each key, in its order.
fn results(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.short().split(' ').next(), Some("200"), "{answer:?}");
    let text = std::str::from_utf8(&answer.body).unwrap();
    let mut found = Vec::new();
    for (at, _) in text.match_indices("<Key>") {
        let (key, rest) = text[at + 5..].split_once("</Key>").unwrap();
        let end = rest.find("<Key>").unwrap_or(rest.len());
        let code = rest[..end].split_once("<Code>").and_then(|(_, rest)| rest.split_once('<'));
        found.push(format!("{key}: {}", code.map_or("gone", |(code, _)| code)));
    }
    found
}

#[tokio::test]
async fn each_key_has_its_own_verdict_in_the_order_of_the_request() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let (one, other) = backend.proxies(&format!("{TIDY}{regime}")).await;
        for (key, token) in [("a", 5), ("b", 9), ("c", 5), ("d", 9)] {
            assert_eq!(one.token(token).put(key, "x").await.short(), "200");
        }
        let stale = ["b: StaleFenceToken", "d: StaleFenceToken"];
        let answer = delete(&other.token(7), &keys(&["d", "a", "none", "b", "c"])).await;
        let expected = [stale[1], "a: gone", "none: gone", stale[0], "c: gone"];
        assert_eq!(results(&answer), expected, "{profile}");
        for (key, there) in [("a", false), ("b", true), ("c", false), ("d", true)] {
            assert_eq!(backend.bytes(key).await.is_some(), there, "{profile} {key}");
        }
        assert_eq!(other.counter("fence_rejected_total", "stale").await, 2, "{profile}");
        // What it deleted is fenced by its token.
        for key in ["a", "none"] {
            assert_eq!(one.token(6).put(key, "late").await.short(), "409 StaleFenceToken");
        }
        let quiet = format!("<Quiet>true</Quiet>{}", keys(&["a", "b"]));
        assert_eq!(results(&delete(&other.token(7), &quiet).await), [stale[0]], "{profile}");
    })
    .await;
}

#[tokio::test]
async fn without_a_token_the_keys_that_have_seen_none_go_together() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(TIDY).await;
    let plain = proxy.plain();
    for key in ["a", "b", "c"] {
        assert_eq!(plain.put(key, "x").await.short(), "200");
    }
    assert_eq!(proxy.token(7).put("fenced", "x").await.short(), "200");
    let sent = backend.faults().add(on_data(Effect::Observe, Method::POST).always());
    let mixed = delete(&plain, &keys(&["a", "fenced", "b"])).await;
    assert_eq!(results(&mixed), ["a: gone", "fenced: FenceTokenRequired", "b: gone"]);
    assert_eq!(sent.hits(), 1, "one request for both");
    assert_eq!(backend.bytes("a").await, None);
    assert!(backend.bytes("fenced").await.is_some());
    assert_eq!(results(&delete(&plain, &keys(&["c"])).await), ["c: gone"]);
    assert_eq!(backend.bytes("c").await, None);
}

#[tokio::test]
async fn keys_in_scopes_of_every_mode_are_told_apart() {
    let backend = Backend::embedded(Profile::Aws).await;
    let modes = "[[scope]]\nbucket = \"data\"\nprefix = \"free/\"\nmode = \"off\"\n\
                 [[scope]]\nbucket = \"data\"\nprefix = \"strict/\"\nmode = \"require\"\n";
    let proxy = backend.proxy(&format!("{TIDY}{modes}")).await;
    let client = proxy.token(7);
    let all = ["free/k", "strict/k", "k"];
    for key in all {
        assert_eq!(client.put(key, "x").await.short(), "200");
    }
    let without = delete(&proxy.plain(), &keys(&all)).await;
    let required = "FenceTokenRequired";
    assert_eq!(
        results(&without),
        ["free/k: gone", &format!("strict/k: {required}"), &format!("k: {required}")]
    );
    assert_eq!(results(&delete(&client, &keys(&all[1..])).await), ["strict/k: gone", "k: gone"]);
}

#[tokio::test]
async fn conditions_and_versions_of_a_key_are_judged_for_it() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(AT_ONCE).await;
    let client = proxy.token(7);
    for key in ["a", "b", "c", "d"] {
        assert_eq!(client.put(key, "x").await.short(), "200");
    }
    let etag = client.head("a").await.etag().to_owned();
    let object = |key: &str, more: &str| format!("<Object><Key>{key}</Key>{more}</Object>");
    let objects = [
        object("a", &format!("<ETag>&quot;{etag}&quot;</ETag>")),
        object("b", "<ETag>&quot;0123&quot;</ETag>"),
        object("c", "<Size>1</Size>"),
        object("d", "<VersionId>null</VersionId>"),
    ];
    let answer = delete(&client, &objects.concat()).await;
    let expected = ["a: gone", "b: PreconditionFailed", "c: NotImplemented", "d: gone"];
    assert_eq!(results(&answer), expected);
    assert!(backend.bytes("b").await.is_some() && backend.bytes("c").await.is_some());
    assert_eq!(backend.bytes("d").await, None);
    assert_eq!(proxy.counter("fence_rejected_total", "stale").await, 0);
}

#[tokio::test]
async fn what_is_not_a_list_of_keys_is_refused() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(AT_ONCE).await;
    assert_eq!(proxy.token(7).put("k", "x").await.short(), "200");
    for body in ["", "<Delete/>", "<Delete><Object/></Delete>", "<Delete><Object><Key>k</Key>"] {
        let answer = proxy.token(7).send(Method::POST, "/data?delete", Bytes::from(body)).await;
        assert_eq!(answer.short(), "400 MalformedXML", "{body}");
    }
    let unknown = delete(&proxy.token(7), "<Object><Key>k</Key><Unless>x</Unless></Object>").await;
    assert_eq!(unknown.short(), "400 MalformedXML", "it may be a condition");
    assert!(backend.bytes("k").await.is_some());
}

#[tokio::test]
async fn a_key_whose_outcome_is_not_known_is_reported_as_such() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(AT_ONCE).await;
    let client = proxy.token(7);
    for key in ["a", "b"] {
        assert_eq!(client.put(key, "x").await.short(), "200");
    }
    backend.faults().add(on_data(Effect::CutBefore, Method::DELETE).key_prefix("a"));
    let answer = delete(&client, &keys(&["a", "b"])).await;
    assert_eq!(results(&answer), ["a: FenceOutcomeUnknown", "b: gone"]);
}

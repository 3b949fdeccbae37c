//! The client's own preconditions on fenced writes: answered as AWS answers them, and no refusal
//! of the fence.

use fencepost::devstore::Profile;
use http::Method;

use super::on_every_store;
use super::support::Backend;

#[tokio::test]
async fn a_clients_condition_is_judged_as_on_aws() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(settings).await;
        let holder = proxy.token(7);
        let case = |name: &str| format!("{profile}: {name}");
        let if_match = |etag: &str| holder.clone().with("if-match", etag);
        let create = holder.clone().with("if-none-match", "*");

        let absent = if_match("\"0123456789abcdef\"");
        assert_eq!(absent.put("k", "x").await.short(), "404 NoSuchKey", "{}", case("absent"));
        assert_eq!(absent.delete("k").await.short(), "404 NoSuchKey", "{}", case("absent"));
        assert_eq!(if_match("*").put("k", "x").await.short(), "404 NoSuchKey", "{profile}");

        let first = create.put("k", "one").await;
        assert_eq!(first.short(), "200", "{}", case("create"));
        let again = create.put("k", "two").await;
        assert_eq!(again.short(), "412 PreconditionFailed", "{}", case("create again"));
        assert_eq!(again.element("Condition"), Some("If-None-Match"));
        assert_eq!(create.delete("k").await.short(), "412 PreconditionFailed", "{profile}");

        let right = if_match(first.header("etag"));
        let second = right.put("k", "two").await;
        assert_eq!(second.short(), "200", "{}", case("right"));
        let wrong = right.put("k", "three").await;
        assert_eq!(wrong.short(), "412 PreconditionFailed", "{}", case("wrong"));
        assert_eq!(wrong.element("Condition"), Some("If-Match"));
        assert_eq!(right.delete("k").await.short(), "412 PreconditionFailed", "{profile}");
        assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"two"[..]), "{profile}");

        // Bare, and any object at all.
        assert_eq!(if_match(second.etag()).put("k", "three").await.short(), "200", "{profile}");
        let any = if_match("*").put("k", "four").await;
        assert_eq!(any.short(), "200", "{}", case("any"));
        assert_eq!(if_match(any.header("etag")).delete("k").await.short(), "204", "{profile}");
        assert_eq!(backend.bytes("k").await, None, "{profile}");
        assert_eq!(create.put("k", "five").await.short(), "200", "{}", case("create anew"));

        let rejected = proxy.counter("fence_rejected_total", "").await;
        assert_eq!(rejected, 0, "{}", case("a failed condition is no refusal of the fence"));
    })
    .await;
}

/// The fence's answer comes first: a stale holder learns that it is stale.
#[tokio::test]
async fn a_stale_token_is_refused_before_its_condition_is_judged() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let (warm, cold) = backend.proxies(settings).await;
        assert_eq!(warm.token(7).put("k", "one").await.short(), "200");
        for proxy in [&warm, &cold] {
            let wrong = proxy.token(6).with("if-match", "\"0123456789abcdef\"");
            assert_eq!(wrong.put("k", "late").await.short(), "409 StaleFenceToken", "{profile}");
            assert_eq!(wrong.delete("k").await.short(), "409 StaleFenceToken", "{profile}");
        }
    })
    .await;
}

/// What some store takes for no condition at all must not come through as one.
#[tokio::test]
async fn a_condition_that_is_none_is_refused() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(settings).await;
        let first = proxy.token(7).put("k", "one").await;
        let list = format!("{}, \"0123456789abcdef\"", first.header("etag"));
        let weak = format!("W/{}", first.header("etag"));
        for (name, value, expected) in [
            ("if-match", "", "400 InvalidArgument"),
            ("if-match", "\"\"", "400 InvalidArgument"),
            ("if-match", "\"*\"", "400 InvalidArgument"),
            ("if-match", &*list, "400 InvalidArgument"),
            ("if-match", &*weak, "400 InvalidArgument"),
            ("if-none-match", "", "400 InvalidArgument"),
            ("if-none-match", "\"*\"", "501 NotImplemented"),
            ("if-none-match", first.header("etag"), "501 NotImplemented"),
        ] {
            let client = proxy.token(7).with(name, value);
            let copy = client.clone().with("x-amz-copy-source", "/data/k");
            let parts = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>\
                         <ETag>a</ETag></Part></CompleteMultipartUpload>";
            for answer in [
                client.put("k", "x").await,
                client.delete("k").await,
                copy.put("k", "").await,
                client.send(Method::POST, "/data/k?uploadId=u", parts).await,
            ] {
                assert_eq!(answer.short(), expected, "{profile} {name}: {value}");
            }
        }
        for name in ["if-match", "if-none-match"] {
            let twice = proxy.token(7).with_unsigned(name, "*").with_unsigned(name, "*");
            assert_eq!(twice.put("k", "x").await.short(), "400 InvalidArgument", "{profile}");
        }
        assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"one"[..]), "{profile}");
    })
    .await;
}

/// Where nothing is fenced the store judges, by what the client wrote.
#[tokio::test]
async fn a_condition_in_an_unfenced_scope_is_the_stores_to_judge() {
    let off = "[[scope]]\nbucket = \"data\"\nprefix = \"off/\"\nmode = \"off\"\n";
    for profile in [Profile::Aws, Profile::Minio] {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(off).await;
        let etag = backend.direct().put("direct", "one").await.header("etag").to_owned();
        let (list, weak) = (format!("{etag}, \"a\""), format!("W/{etag}"));
        let values = ["", "*", "\"*\"", "\"\"", "\"a\"", "a b", &etag, &list, &weak];
        for name in ["if-match", "if-none-match"] {
            for value in values {
                let mut answers = Vec::new();
                for (client, key) in [
                    (backend.direct(), "direct"),
                    (proxy.plain(), "not-fenced-yet"),
                    (proxy.plain(), "off/k"),
                ] {
                    assert_eq!(backend.direct().put(key, "one").await.short(), "200");
                    let put = client.clone().with(name, value).put(key, "two").await;
                    let now = backend.bytes(key).await.unwrap();
                    let deleted = client.with(name, value).delete(key).await;
                    answers.push((put.short(), now, deleted.short()));
                }
                assert_eq!(answers[1], answers[0], "{profile} {name}: {value}");
                assert_eq!(answers[2], answers[0], "{profile} {name}: {value}");
            }
        }
        assert_eq!(proxy.counter("fence_rejected_total", "").await, 0, "{profile}");
    }
}

/// The guess from memory must not answer for the object: another proxy has written meanwhile.
#[tokio::test]
async fn a_condition_is_judged_on_what_is_there_now() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let (one, other) = backend.proxies(settings).await;
        let first = one.token(7).put("k", "one").await;
        let second = other.token(7).put("k", "two").await;
        assert_eq!((first.short(), second.short()), ("200".into(), "200".into()));
        let old = one.token(7).with("if-match", first.header("etag"));
        assert_eq!(old.put("k", "x").await.short(), "412 PreconditionFailed", "{profile}");
        let new = one.token(7).with("if-match", second.header("etag"));
        assert_eq!(new.put("k", "three").await.short(), "200", "{profile}");
    })
    .await;
}

#[tokio::test]
async fn a_clients_checksum_and_md5_are_kept() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    let wrong = proxy.token(7).with("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==");
    assert_eq!(wrong.put("k", "x").await.short(), "400 BadDigest");
    let wrong = proxy.token(7).with("x-amz-checksum-crc32", "AAAAAA==");
    assert_eq!(wrong.put("k", "x").await.short(), "400 BadDigest");
    assert!(backend.history("k").is_empty());
    let right = proxy.token(7).with("x-amz-checksum-crc32", "jNwWgw==");
    assert_eq!(right.put("k", "x").await.short(), "200");
}

//! Authentication and raw bytes, end to end: who is let in, which key a request names, and what
//! of an answer arrives.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::io::Write as _;
use std::time::Duration;

use aws_sdk_s3::presigning::PresigningConfig;
use bytes::Bytes;
use fencepost::clock;
use fencepost::devstore::{Effect, Profile, Rule};
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use support::{Backend, DATA, Proxy, soon};

/// S3's own encoding of a key in a path.
const KEY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

const A_MINUTE: Duration = Duration::from_secs(60);

async fn start() -> (Backend, Proxy) {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    (backend, proxy)
}

/// Path and query of a URL.
fn target(url: &str) -> String {
    let uri: http::Uri = url.parse().unwrap();
    uri.path_and_query().unwrap().to_string()
}

#[tokio::test]
async fn presigned_by_the_sdk() {
    let (backend, proxy) = start().await;
    let expires = || PresigningConfig::expires_in(A_MINUTE).unwrap();
    let put = async |token: u64| {
        let client = backend.sdk_with_token(Some(proxy.endpoint()), Some(token));
        let url = client.put_object().bucket(DATA).key("a b/ü").presigned(expires()).await.unwrap();
        let url = target(url.uri());
        assert!(url.contains("X-Amz-Security-Token=fence%3A"), "{url}");
        proxy.plain().send_presigned(Method::PUT, &url, format!("by {token}")).await
    };
    assert_eq!(put(7).await.short(), "200");
    assert_eq!(put(6).await.short(), "409 StaleFenceToken");
    assert_eq!(put(8).await.short(), "200");
    let client = backend.sdk(Some(proxy.endpoint()));
    let url = client.get_object().bucket(DATA).key("a b/ü").presigned(expires()).await.unwrap();
    let got = proxy.plain().send_presigned(Method::GET, &target(url.uri()), "").await;
    assert_eq!((got.status, &got.body[..]), (200, &b"by 8"[..]));
}

/// What boto3 presigns by default, and what old clients send.
#[tokio::test]
async fn signature_version_2_is_refused_and_told_what_to_set() {
    let (_backend, proxy) = start().await;
    let plain = proxy.plain();
    let query = "/data/k?AWSAccessKeyId=AKIDEXAMPLE&Signature=vjbyPxybdZaNmGa%2ByT272YEAiv4%3D\
                 &Expires=4102444800";
    let header = plain.clone().with_unsigned("authorization", "AWS AKIDEXAMPLE:vjbyPxybdZaNmGa=");
    for (client, target) in [(plain, query), (header, "/data/k")] {
        for method in [Method::GET, Method::PUT] {
            let refused = client.send_presigned(method, target, "").await;
            assert_eq!(refused.short(), "400 InvalidRequest");
            let message = refused.element("Message").unwrap();
            assert!(message.contains("signature_version s3v4"), "{message}");
        }
    }
}

/// However far the clocks are apart: the life of a link is what it says, not fifteen minutes.
#[tokio::test]
async fn a_presigned_request_outlives_the_limit_on_clocks_and_does_not_begin_before_it() {
    let (_backend, proxy) = start().await;
    let (plain, minutes) = (proxy.plain(), |minutes: u64| Duration::from_secs(60 * minutes));
    let target = "/data/k?X-Fence-Token=7";
    let put = async |at, expires| {
        let url = plain.clone().at(at).presigned(&Method::PUT, target, expires);
        plain.send_presigned(Method::PUT, &url, "x").await.short()
    };
    let now = clock::now();
    assert_eq!(put(now - minutes(60), minutes(61)).await, "200");
    assert_eq!(put(now - minutes(60), minutes(59)).await, "403 AccessDenied");
    assert_eq!(put(now + minutes(14), minutes(1)).await, "200");
    assert_eq!(put(now + minutes(16), minutes(60)).await, "403 AccessDenied");
}

#[tokio::test]
async fn a_presigned_request_is_good_for_what_was_signed_and_as_long_as_it_says() {
    let (_backend, proxy) = start().await;
    let plain = proxy.plain();
    let url = plain.presigned(&Method::PUT, "/data/k?X-Fence-Token=7", A_MINUTE);
    assert_eq!(plain.send_presigned(Method::PUT, &url, "one").await.short(), "200");
    // Whoever holds the URL cannot change the token, nor take it away.
    let other = url.replace("X-Fence-Token=7", "X-Fence-Token=8");
    let refused = plain.send_presigned(Method::PUT, &other, "two").await;
    assert_eq!(refused.short(), "403 SignatureDoesNotMatch");
    let without = url.replace("X-Fence-Token=7&", "");
    assert_ne!(without, url);
    let refused = plain.send_presigned(Method::PUT, &without, "two").await;
    assert_eq!(refused.short(), "403 SignatureDoesNotMatch");
    let refused = plain.send_presigned(Method::DELETE, &url, "").await;
    assert_eq!(refused.short(), "403 SignatureDoesNotMatch");
    // A header that the signature does not cover is not a token.
    let added = plain.clone().with_unsigned("x-fence-token", "9");
    assert_eq!(added.send_presigned(Method::PUT, &url, "two").await.status, 400);
    let before = plain.clone().at(clock::now() - Duration::from_secs(61));
    let expired = before.presigned(&Method::PUT, "/data/k?X-Fence-Token=7", A_MINUTE);
    let refused = plain.send_presigned(Method::PUT, &expired, "two").await;
    assert_eq!(refused.short(), "403 AccessDenied");
    assert_eq!(plain.get("k").await.body, "one");
}

#[tokio::test]
async fn who_does_not_sign_right_is_not_let_in() {
    let (backend, proxy) = start().await;
    let client = proxy.token(7);
    let quarter = Duration::from_secs(15 * 60);
    let (now, slack) = (clock::now(), Duration::from_secs(30));
    let wrong = [
        (client.clone().secret("not-the-secret-at-all"), "403 SignatureDoesNotMatch"),
        (client.clone().id("AKIAIOSFODNN7EXAMPLE"), "403 InvalidAccessKeyId"),
        (client.clone().at(now - quarter - slack), "403 RequestTimeTooSkewed"),
        (client.clone().at(now + quarter + slack), "403 RequestTimeTooSkewed"),
        (client.clone().with_unsigned("x-amz-acl", "public-read"), "403 AccessDenied"),
        (client.clone().with_unsigned("x-amz-meta-a", "1"), "403 AccessDenied"),
        (client.clone().with_unsigned("x-amz-copy-source", "/data/k"), "403 AccessDenied"),
        (client.clone().with_unsigned("x-amz-tagging", "a=b"), "403 AccessDenied"),
    ];
    for (client, expected) in wrong {
        let put = client.put("k", "x").await;
        assert_eq!(put.short(), expected);
        assert!(!put.header("x-amz-request-id").is_empty());
        let read = client.get("k").await;
        assert_eq!(read.short(), expected);
        assert_eq!(client.head("k").await.body, "", "HEAD has no body");
        assert_eq!(client.delete("k").await.short(), expected);
    }
    let unsigned = client.clone().with_unsigned("x-amz-acl", "public-read").put("k", "x").await;
    assert_eq!(unsigned.element("HeadersNotSigned"), Some("x-amz-acl"));
    let anonymous = client.send_presigned(Method::PUT, "/data/k", "x").await;
    assert_eq!(anonymous.short(), "403 AccessDenied");
    assert!(backend.history("k").is_empty());
    for at in [now - quarter + slack, now + quarter - slack] {
        assert_eq!(client.clone().at(at).put("k", "x").await.short(), "200");
    }
}

#[tokio::test]
async fn clients_have_key_pairs_of_their_own_where_a_file_says_so() {
    let backend = Backend::embedded(Profile::Aws).await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for id in ["one", "two"] {
        writeln!(
            file,
            "[[credential]]\naccess_key_id = \"{id}\"\nsecret_access_key = \"secret-of-{id}\""
        )
        .unwrap();
    }
    let path = file.path().display();
    let proxy = backend.proxy(&format!("auth.credentials_file = \"{path}\"\n")).await;
    for (id, token) in [("one", 7), ("two", 8)] {
        let client = proxy.token(token).id(id).secret(&format!("secret-of-{id}"));
        assert_eq!(client.put("k", "x").await.short(), "200");
    }
    let crossed = proxy.token(9).id("one").secret("secret-of-two");
    assert_eq!(crossed.put("k", "x").await.short(), "403 SignatureDoesNotMatch");
    // The store's own pair is the proxy's, and no client's.
    assert_eq!(proxy.token(9).put("k", "x").await.short(), "403 InvalidAccessKeyId");
}

#[tokio::test]
async fn without_authentication_the_fence_is_there_all_the_same() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("auth.mode = \"none\"\n").await;
    let put = async |token: &str| {
        let client = proxy.plain().with("x-fence-token", token);
        client.send_presigned(Method::PUT, "/data/k", "x").await.short()
    };
    assert_eq!(put("7").await, "200");
    assert_eq!(put("6").await, "409 StaleFenceToken");
    assert_eq!(put("").await, "400 InvalidFenceToken");
    let plain = proxy.plain().send_presigned(Method::PUT, "/data/k", "x").await;
    assert_eq!(plain.short(), "428 FenceTokenRequired");
    // Signatures of whatever kind are not looked at.
    assert_eq!(proxy.token(8).secret("whatever").put("k", "y").await.short(), "200");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"y"[..]));
}

#[tokio::test]
async fn a_bucket_may_be_in_the_host() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("host_suffixes = [\"s3.example.com\"]\n").await;
    let port = proxy.data.port();
    for host in [
        format!("data.localhost:{port}"),
        "data.localhost".into(),
        "data.s3.example.com".into(),
        "DATA.S3.Example.COM:80".to_lowercase(),
    ] {
        let client = proxy.token(7).host(&host);
        let put = client.send(Method::PUT, "/a//b%20c", "hosted").await;
        assert_eq!(put.short(), "200", "{host}");
        assert_eq!(client.send(Method::GET, "/a//b%20c", "").await.body, "hosted", "{host}");
        let list = client.send(Method::GET, "/?list-type=2", "").await;
        assert_eq!(list.element("Key"), Some("a//b c"), "{host}");
        assert_eq!(client.send(Method::HEAD, "/", "").await.status, 200, "{host}");
    }
    assert_eq!(backend.bytes("a//b c").await.as_deref(), Some(&b"hosted"[..]));
    let stale = proxy.token(6).send(Method::PUT, "/data/a//b%20c", "late").await;
    assert_eq!(stale.short(), "409 StaleFenceToken", "one fence, however it is named");
}

/// Keys that something on the way likes to tidy up.
fn odd_keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "plain",
        "a//b",
        "//leading",
        "/leading",
        "trailing/",
        "trailing//",
        "..",
        ".",
        "../up",
        "a/../b",
        "a/./b",
        "a/..",
        "%2F",
        "a%2Fb",
        "%",
        "%25",
        "a+b",
        "a b",
        " lead and trail ",
        "caf\u{e9}",
        "cafe\u{301}",
        "日本/キー",
        "\u{1f980}",
        "?a=b&c",
        "#fragment",
        "!*'();:@&=+$,[]~\"<>\\^`{|}",
        "k?versionId=1",
        "~user",
    ]
    .map(str::to_owned)
    .into();
    keys.push("x".repeat(1024));
    keys.push("é".repeat(512));
    keys
}

#[tokio::test]
async fn keys_are_kept_byte_for_byte() {
    let (backend, proxy) = start().await;
    let (holder, plain, direct) = (proxy.token(7), proxy.plain(), backend.direct());
    for key in odd_keys() {
        let target = format!("/data/{}", utf8_percent_encode(&key, KEY));
        let body = format!("the object of {key:?}");
        let put = holder.send(Method::PUT, &target, body.clone()).await;
        assert_eq!(put.short(), "200", "{key:?}");
        assert_eq!(backend.bytes(&key).await.as_deref(), Some(body.as_bytes()), "{key:?}");
    }
    // Each its own object with its own fence, none another's spelling.
    for key in odd_keys() {
        let target = format!("/data/{}", utf8_percent_encode(&key, KEY));
        let body = format!("the object of {key:?}");
        for reader in [&plain, &direct] {
            assert_eq!(reader.send(Method::GET, &target, "").await.body, body, "{key:?}");
        }
        let stale = proxy.token(6).send(Method::PUT, &target, "late").await;
        assert_eq!(stale.short(), "409 StaleFenceToken", "{key:?}");
    }
    let listed = backend.sdk(Some(proxy.endpoint())).list_objects_v2().bucket(DATA).send().await;
    let listed = listed.unwrap();
    assert_eq!(listed.contents().len(), odd_keys().len());
    for key in odd_keys() {
        let target = format!("/data/{}", utf8_percent_encode(&key, KEY));
        assert_eq!(holder.send(Method::DELETE, &target, "").await.short(), "204", "{key:?}");
        assert_eq!(backend.bytes(&key).await, None, "{key:?}");
    }
}

#[tokio::test]
async fn one_key_may_be_spelt_in_many_ways_and_is_one_key() {
    let (backend, proxy) = start().await;
    let spellings =
        ["/data/a%2Fb+c%20d!", "/data/a/b+c%20d!", "/data/%61/b%2Bc%20d%21", "/data/a/b%2bc%20d!"];
    for (token, spelling) in (7..).zip(spellings) {
        let put = proxy.token(token).send(Method::PUT, spelling, "x").await;
        assert_eq!(put.short(), "200", "{spelling}");
        for other in spellings {
            let stale = proxy.token(token - 1).send(Method::PUT, other, "late").await;
            assert_eq!(stale.short(), "409 StaleFenceToken", "{spelling} {other}");
            assert_eq!(proxy.plain().send(Method::GET, other, "").await.body, "x", "{other}");
        }
    }
    assert_eq!(backend.history("a/b+c d!").len(), spellings.len());
}

#[tokio::test]
async fn a_key_that_is_too_long_is_refused() {
    let (_backend, proxy) = start().await;
    let put = proxy.token(7).put(&"x".repeat(1025), "x").await;
    assert_eq!(put.short(), "400 KeyTooLongError");
}

#[tokio::test]
async fn answers_arrive_as_the_store_gives_them() {
    let (backend, proxy) = start().await;
    let client = proxy.token(7).with("content-type", "text/x").with("x-amz-meta-a", "b");
    let put = client.put("k", "0123456789").await;
    assert_eq!(put.short(), "200");
    let etag = put.header("etag").to_owned();
    let (plain, direct) = (proxy.plain(), backend.direct());
    for (name, value, status, body) in [
        ("range", "bytes=2-4", 206, "234"),
        ("range", "bytes=-3", 206, "789"),
        ("range", "bytes=8-", 206, "89"),
        ("if-none-match", &*etag, 304, ""),
        ("if-match", &*etag, 200, "0123456789"),
        ("if-match", "\"0123456789abcdef\"", 412, "*"),
        ("range", "bytes=20-30", 416, "*"),
    ] {
        for method in [Method::GET, Method::HEAD] {
            let ask = async |client: &support::S3| {
                let client = client.clone().with(name, value);
                client.send(method.clone(), "/data/k", "").await
            };
            let (ours, theirs) = (ask(&plain).await, ask(&direct).await);
            assert_eq!(ours.status, theirs.status, "{method} {name}: {value}");
            if method == Method::GET {
                assert_eq!(ours.status, status, "{name}: {value}");
            }
            if method == Method::GET && body != "*" {
                assert_eq!(ours.body, body, "{name}: {value}");
            }
            if method == Method::HEAD {
                assert_eq!(ours.body, "", "{name}: {value}");
            }
            for header in [
                "etag",
                "content-range",
                "content-length",
                "content-type",
                "last-modified",
                "x-amz-meta-a",
                "accept-ranges",
                "x-amz-meta-fencepost-token",
            ] {
                let what = format!("{method} {name}: {value}: {header}");
                assert_eq!(ours.header(header), theirs.header(header), "{what}");
            }
        }
    }
    let missing = plain.head("missing").await;
    assert_eq!((missing.status, &missing.body[..]), (404, &b""[..]));
    assert_eq!(plain.get("missing").await.short(), "404 NoSuchKey");
    let deleted = proxy.token(7).delete("k").await;
    assert_eq!((deleted.status, &deleted.body[..]), (204, &b""[..]));
    assert_eq!(deleted.header("content-type"), "");
}

/// Half an object must not look like a whole one.
#[tokio::test]
async fn a_store_that_breaks_off_is_a_break_for_the_client() {
    let (backend, proxy) = start().await;
    let body = Bytes::from(vec![b'x'; 1024 * 1024]);
    assert_eq!(proxy.token(7).put("k", body.clone()).await.short(), "200");
    for range in [None, Some("bytes=100-900000")] {
        backend.faults().add(Rule::new(Effect::CutBody).method(Method::GET).bucket(DATA));
        let client = match range {
            Some(range) => proxy.plain().with("range", range),
            None => proxy.plain(),
        };
        let got = soon("an answer", client.get("k")).await;
        assert!(got.cut, "{range:?}: {} bytes came as if they were all", got.body.len());
        assert!(got.body.len() < 900_000, "{range:?}");
    }
    let whole = proxy.plain().get("k").await;
    assert!(!whole.cut && whole.body == body);
    // Cut off before it has answered at all, and again when it is asked once more.
    let twice = Rule::new(Effect::CutBefore).method(Method::GET).bucket(DATA).times(2);
    backend.faults().add(twice);
    assert_eq!(proxy.plain().get("k").await.short(), "502 InternalError");
}

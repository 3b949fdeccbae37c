//! Browser forms: the policy that signs them, the key and the token in their fields, and the fence.

use std::time::Duration;

use bytes::Bytes;
use fencepost::clock;
use fencepost::devstore::{Effect, Profile};
use http::Method;
use serde_json::json;

use super::support::{Answer, Backend, DATA, Form, LEDGER, Proxy, S3, feed};
use super::{on_data, on_every_store, tokens};

on_real_stores! { a_form }

fn form(proxy: &Proxy, key: &str, file: &'static str) -> Form {
    Form::new(&proxy.plain(), key, file)
}

#[tokio::test]
async fn a_form_is_fenced_like_a_put() {
    on_every_store(async |profile, settings| {
        let backend = Backend::embedded(profile).await;
        let (warm, cold) = backend.proxies(settings).await;
        let first = form(&warm, "k", "by 7").token(7).send().await;
        assert_eq!(first.short(), "204", "{profile}");
        assert_eq!(first.header("location"), format!("{}/data/k", warm.endpoint()));
        assert_eq!(warm.plain().head("k").await.header("etag"), first.header("etag"), "{profile}");
        for proxy in [&warm, &cold] {
            let stale = form(proxy, "k", "late").token(6).send().await;
            assert_eq!(stale.short(), "409 StaleFenceToken", "{profile}");
            assert_eq!(stale.header("x-fence-highest"), "7", "{profile}");
            let bare = form(proxy, "k", "late").send().await;
            assert_eq!(bare.short(), "428 FenceTokenRequired", "{profile}");
        }
        assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"by 7"[..]), "{profile}");
        let equal = form(&cold, "k", "by 7 again").token(7).send().await;
        assert_eq!(equal.short(), "204", "{profile}");
        // A form and a PUT share the fence of their key.
        assert_eq!(warm.token(8).put("k", "by 8").await.short(), "200", "{profile}");
        let stale = form(&cold, "k", "late").token(7).send().await;
        assert_eq!(stale.short(), "409 StaleFenceToken", "{profile}");
        assert_eq!(tokens(&backend, "k"), [7, 7, 8], "{profile}");
        assert_eq!(warm.counter("fence_rejected_total", "stale").await, 1, "{profile}");
        assert_eq!(cold.counter("fence_rejected_total", "stale").await, 2, "{profile}");
        assert_eq!(cold.counter("fence_rejected_total", "missing_token").await, 1, "{profile}");
    })
    .await;
}

#[tokio::test]
async fn a_form_without_a_token_passes_where_a_put_does() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    assert_eq!(form(&proxy, "free", "x").send().await.short(), "204");
    assert_eq!(tokens(&backend, "free"), [0], "nothing is stamped");
    let required = backend.proxy("fence.mode = \"require\"\n").await;
    assert_eq!(form(&required, "k", "x").send().await.short(), "428 FenceTokenRequired");
    let off = backend.proxy("[[bucket]]\nname = \"data\"\nmode = \"off\"\n").await;
    assert_eq!(form(&required, "k", "x").token(9).send().await.short(), "204");
    assert_eq!(form(&off, "k", "y").token(7).send().await.short(), "204");
    assert_eq!(form(&off, "a//b/../c", "y").send().await.short(), "204");
    assert_eq!(tokens(&backend, "k"), [9, 0]);
    assert_eq!(backend.bytes("a//b/../c").await.as_deref(), Some(&b"y"[..]));
}

#[tokio::test]
async fn the_token_rides_in_a_field_that_the_policy_speaks_of() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    let session = form(&proxy, "k", "a").field("X-Amz-Security-Token", "fence:7").send().await;
    assert_eq!(session.short(), "204");
    assert_eq!(form(&proxy, "k", "b").field("X-Fence-Token", "007").send().await.short(), "204");
    assert_eq!(tokens(&backend, "k"), [7, 7]);
    let k = || form(&proxy, "k", "x");
    for (refused, expected) in [
        (k().only_field("x-fence-token", "9"), "403 AccessDenied"),
        (k().only_field("x-amz-security-token", "fence:9"), "403 AccessDenied"),
        (k().token(9).field("x-amz-security-token", "fence:8"), "400 InvalidFenceToken"),
        (k().field("x-fence-token", "nine"), "400 InvalidFenceToken"),
        (k().field("x-amz-security-token", "FwoGZXIvYXdz"), "400 InvalidToken"),
    ] {
        assert_eq!(refused.send().await.short(), expected);
    }
    // Whoever passes a form on can change its head.
    for (header, value) in [("x-fence-token", "9"), ("x-amz-security-token", "fence:9")] {
        let client = proxy.plain().with_unsigned(header, value);
        let refused = Form::new(&client, "k", "x").send().await;
        assert_eq!(refused.short(), "400 InvalidFenceToken", "{header}");
    }
    let mut in_query = k();
    in_query.target.push_str("?X-Fence-Token=9");
    assert_eq!(in_query.send().await.short(), "400 InvalidFenceToken");
    assert_eq!(tokens(&backend, "k"), [7, 7]);
    let any = backend.proxy("auth.token_signature = \"any\"\n").await;
    let client = any.plain().with_unsigned("x-fence-token", "9");
    assert_eq!(Form::new(&client, "k", "x").send().await.short(), "204");
    assert_eq!(tokens(&backend, "k"), [7, 7, 9]);
}

#[tokio::test]
async fn what_the_policy_does_not_allow_is_refused() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    let k = || form(&proxy, "k", "0123456789").token(7);
    let mut expired = k();
    expired.expiration = "2020-01-01T00:00:00Z".into();
    let mut elsewhere = k();
    elsewhere.target = "/other".into();
    let in_future = proxy.plain().at(clock::now() + Duration::from_secs(3600));
    let range = |min: u64, max: u64| k().condition(json!(["content-length-range", min, max]));
    let inside = |key| {
        k().without("key").only_field("key", key).condition(json!(["starts-with", "$key", "in/"]))
    };
    for (refused, expected) in [
        (expired, "403 AccessDenied"),
        (elsewhere, "403 AccessDenied"),
        (Form::new(&in_future, "k", "x"), "403 AccessDenied"),
        (Form::new(&proxy.plain().secret("another"), "k", "x"), "403 SignatureDoesNotMatch"),
        (Form::new(&proxy.plain().id("nobody"), "k", "x"), "403 InvalidAccessKeyId"),
        (k().without("key").only_field("key", "other"), "403 AccessDenied"),
        (inside("out/k"), "403 AccessDenied"),
        (k().only_field("acl", "public-read"), "403 AccessDenied"),
        (k().condition(json!({"acl": "private"})), "403 AccessDenied"),
        (k().condition(json!({"acl": 1})), "400 InvalidPolicyDocument"),
        (range(0, 9), "400 EntityTooLarge"),
        (range(11, 20), "400 EntityTooSmall"),
        (k().without("x-amz-credential"), "400 InvalidArgument"),
        (k().without("x-amz-date"), "400 InvalidArgument"),
        (k().only_field("AWSAccessKeyId", "a").only_field("signature", "b"), "400 InvalidRequest"),
    ] {
        assert_eq!(refused.send().await.short(), expected);
    }
    let anonymous = k().send_unsigned().await;
    assert_eq!(anonymous.short(), "403 AccessDenied");
    assert!(backend.store().history().iter().all(|change| change.bucket != DATA));
    assert_eq!(backend.record("k").await.highest(), None, "and no token was taken");
    assert_eq!(range(10, 10).send().await.short(), "204");
}

#[tokio::test]
async fn what_is_no_form_is_refused() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("limits.body_buffer_bytes_max = 1000\n").await;
    let whole = form(&proxy, "k", "x").token(7);
    let fields = whole.signed_fields();
    let body = whole.body(&fields);
    let text = String::from_utf8(body.to_vec()).unwrap();
    let late = text.replacen("name=\"key\"", "name=\"x-ignore-key\"", 1);
    for (body, expected) in [
        (Bytes::new(), "400 IncompleteBody"),
        (body.slice(..body.len() / 2), "400 IncompleteBody"),
        (body.slice(..body.len() - 10), "400 IncompleteBody"),
        (Bytes::from("--x--"), "400 IncompleteBody"),
        (
            text.replace("name=\"file\"", "name=\"data\"").into(),
            "400 IncorrectNumberOfFilesInPostRequest",
        ),
        (text.replace("form-data; name", "attachment; name").into(), "400 MalformedPOSTRequest"),
        (late.into(), "403 AccessDenied"),
        (whole.body(&[fields.clone(), fields.clone()].concat()), "400 InvalidArgument"),
    ] {
        assert_eq!(whole.send_body(body).await.short(), expected);
    }
    let unnamed = whole.clone().without("key").condition(json!(["starts-with", "$key", ""]));
    assert_eq!(
        unnamed.send().await.short(),
        "403 AccessDenied",
        "the key of the policy is not there"
    );
    for (refused, expected) in [
        (form(&proxy, "", "x"), "400 InvalidArgument"),
        (Form::new(&proxy.plain(), &"k".repeat(1025), "x"), "400 KeyTooLongError"),
        (Form::new(&proxy.plain(), "k", "x".repeat(1001)), "400 EntityTooLarge"),
        (
            whole.clone().field("x-ignore-long", &"v".repeat(20 * 1024)),
            "400 MaxPostPreDataLengthExceeded",
        ),
        (whole.clone().field("x-amz-copy-source", "/data/other"), "400 InvalidArgument"),
        (
            whole.clone().field("x-amz-meta-snowball-auto-extract", "true"),
            "501 FenceUnsupportedOperation",
        ),
        (whole.clone().field("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg=="), "400 BadDigest"),
    ] {
        assert_eq!(refused.send().await.short(), expected);
    }
    let other = proxy.plain().with("content-type", "text/plain");
    let other = other.send(Method::POST, "/data", body.clone()).await;
    assert_eq!(other.short(), "412 PreconditionFailed");
    let signed = proxy.token(7).with("content-type", &Form::content_type());
    assert_eq!(
        signed.send(Method::POST, "/data", body.clone()).await.short(),
        "400 InvalidArgument"
    );
    let mut ledger = whole.clone();
    ledger.target = format!("/{LEDGER}");
    assert_eq!(ledger.send().await.short(), "403 AccessDenied");
    assert!(backend.store().history().iter().all(|change| change.bucket != DATA));
    assert_eq!(Form::new(&proxy.plain(), "k", "x".repeat(1000)).send().await.short(), "204");
}

#[tokio::test]
async fn a_form_says_what_the_object_is() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    // Conditions are about the key that comes of it.
    let mut described = form(&proxy, "dir/a b.html", "<p>").without("key");
    described = described.only_field("key", "dir/${filename}").token(7);
    described = described.field("Content-Type", "text/html").field("x-amz-meta-colour", "red");
    described.file_name = "C:\\d\\a b.html".into();
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b c</Value></Tag></TagSet></Tagging>";
    let described = described.field("tagging", tags);
    let answer = described.send().await;
    assert_eq!(answer.short(), "204");
    assert_eq!(answer.header("location"), format!("{}/data/dir/a%20b.html", proxy.endpoint()));
    let got = proxy.plain().send(Method::GET, "/data/dir/a%20b.html", Bytes::new()).await;
    assert_eq!((got.short(), &got.body[..]), ("200".into(), &b"<p>"[..]));
    assert_eq!(got.header("content-type"), "text/html");
    assert_eq!(got.header("x-amz-meta-colour"), "red");
    let tags = proxy.plain().send(Method::GET, "/data/dir/a%20b.html?tagging", Bytes::new()).await;
    assert_eq!((tags.element("Key"), tags.element("Value")), (Some("a"), Some("b c")));
}

#[tokio::test]
async fn a_success_is_answered_as_the_form_asks() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    let k = || form(&proxy, "k", "x").token(7);
    assert_eq!(k().field("success_action_status", "200").send().await.short(), "200");
    let document = k().field("success_action_status", "201").send().await;
    assert_eq!(document.short(), "201");
    assert_eq!(document.element("Location"), Some(document.header("location")));
    assert_eq!(document.element("Bucket"), Some("data"));
    assert_eq!(document.element("Key"), Some("k"));
    assert_eq!(document.element("ETag"), Some(&*format!("&quot;{}&quot;", document.etag())));
    let on = k().field("success_action_redirect", "http://web.example/done?x=1").send().await;
    assert_eq!(on.short(), "303");
    let expected =
        format!("http://web.example/done?x=1&bucket=data&key=k&etag=%22{}%22", on.etag());
    assert_eq!(on.header("location").replace("%2D", "-"), expected);
    let mut hosted = Form::new(&proxy.plain().host("data.localhost"), "k", "x").token(7);
    hosted.target = "/".into();
    let hosted = hosted.send().await;
    assert_eq!(hosted.header("location"), "http://data.localhost/k");
}

#[tokio::test]
async fn a_form_that_breaks_off_changes_nothing() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    let whole = form(&proxy, "k", "0123456789").token(7);
    let body = whole.body(&whole.signed_fields());
    for end in [10, body.len() / 2, body.len() - 1] {
        let (piece, out) = feed();
        let client = proxy.plain().with("content-type", &Form::content_type());
        let sent = body.slice(..end);
        let cut = async {
            assert!(piece.send(sent).await);
            piece.cut().await;
        };
        let length = body.len() as u64;
        let (_, answer) = tokio::join!(cut, client.post_stream("/data", out, length));
        assert!(answer.is_none_or(|answer: Answer| answer.status == 400), "cut at {end}");
    }
    assert!(backend.history("k").is_empty());
    assert_eq!(whole.send().await.short(), "204");
}

#[tokio::test]
async fn a_store_that_fails_is_answered_for_as_for_a_put() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("").await;
    let k = || form(&proxy, "k", "x").token(7);
    assert_eq!(k().send().await.short(), "204");
    backend.faults().add(on_data(Effect::Status(400, "InvalidStorageClass"), Method::PUT));
    assert_eq!(k().send().await.short(), "400 InvalidStorageClass");
    let lost = backend.faults().add(on_data(Effect::LoseAnswer, Method::PUT));
    let recognised = k().field("success_action_status", "201").send().await;
    assert_eq!((recognised.short(), lost.hits()), ("201".into(), 1));
    assert_eq!(recognised.element("ETag"), Some(&*format!("&quot;{}&quot;", recognised.etag())));
    assert_eq!(tokens(&backend, "k").last(), Some(&7));
}

#[tokio::test]
async fn where_nobody_signs_a_form_needs_no_policy() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("auth.mode = \"none\"\n").await;
    let client: S3 = proxy.plain();
    let seven = Form::new(&client, "k", "by 7").only_field("x-fence-token", "7");
    assert_eq!(seven.send_unsigned().await.short(), "204");
    let six = Form::new(&client, "k", "late").only_field("x-fence-token", "6");
    assert_eq!(six.send_unsigned().await.short(), "409 StaleFenceToken");
    let bare = Form::new(&client, "k", "late").send_unsigned().await;
    assert_eq!(bare.short(), "428 FenceTokenRequired");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"by 7"[..]));
}

/// A browser on the machine of a sidecar sends forms, and other POSTs, for any page that it shows.
#[tokio::test]
async fn where_nobody_signs_no_page_writes() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("auth.mode = \"none\"\n").await;
    let page = proxy.plain().with_unsigned("origin", "http://evil.example");
    assert_eq!(Form::new(&page, "k", "x").send_unsigned().await.short(), "403 AccessDenied");
    assert_eq!(page.put("k", "x").await.short(), "403 AccessDenied");
    let list = "<Delete><Object><Key>k</Key></Object></Delete>";
    let many = page.send(Method::POST, "/data?delete", list).await;
    assert_eq!(many.short(), "403 AccessDenied");
    assert!(backend.history("k").is_empty());
    assert_eq!(proxy.plain().put("k", "x").await.short(), "200");
    assert_eq!(page.get("k").await.short(), "200", "reads change nothing");
    let signed = backend.proxy("").await;
    let page = signed.plain().with_unsigned("origin", "http://good.example");
    assert_eq!(Form::new(&page, "k", "y").send().await.short(), "204");
}

/// What every other operation goes through in `table.rs`.
async fn a_form(backend: &Backend) {
    let proxy =
        backend.proxy("fence.settle_delay_milliseconds = 0\nledger.timeout_seconds = 30\n").await;
    let k = |file| form(&proxy, "dir/k +\u{e9}", file);
    let state = async || {
        let path = format!("/{}/dir/k%20%2B%C3%A9", backend.bucket);
        let got = backend.direct().send(Method::GET, &path, Bytes::new()).await;
        let text = String::from_utf8(got.body.to_vec()).unwrap();
        (text, got.header("x-amz-meta-fencepost-token").to_owned())
    };
    assert_eq!(k("free").send().await.short(), "204");
    assert_eq!(state().await, ("free".into(), String::new()));
    assert_eq!(k("by 7").token(7).send().await.short(), "204");
    assert_eq!(k("late").token(6).send().await.short(), "409 StaleFenceToken");
    assert_eq!(k("late").send().await.short(), "428 FenceTokenRequired");
    let malformed = k("late").field("x-fence-token", "7x").send().await;
    assert_eq!(malformed.short(), "400 InvalidFenceToken");
    assert_eq!(state().await, ("by 7".into(), "7".into()));
    assert_eq!(k("by 7 again").token(7).send().await.short(), "204");
    assert_eq!(state().await, ("by 7 again".into(), "7".into()));
}

/// The store has the request and does not carry it out, and nobody hears of it.
#[tokio::test]
async fn a_form_and_a_store_that_fails_midway() {
    for profile in [Profile::Aws, Profile::Minio] {
        let backend = Backend::embedded(profile).await;
        a_form(&backend).await;
        let proxy = backend.proxy("fence.contention_wait_seconds_max = 1\n").await;
        assert_eq!(form(&proxy, "k", "one").token(7).send().await.short(), "204");
        let cut = backend.faults().add(on_data(Effect::CutBefore, Method::PUT));
        let answer = form(&proxy, "k", "two").token(7).send().await;
        assert_eq!(answer.short(), "503 FenceOutcomeUnknown", "{profile}");
        assert_eq!(cut.hits(), 1, "{profile}: it is sent once");
        assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"one"[..]), "{profile}");
    }
}

//! The proxy in front of Google Cloud Storage: what is its own there. What is fenced and how runs
//! over the same store in `tests/fenced`.
//!
//! The store is the embedded one with profile `gcs`, which verifies Google's signatures by an
//! implementation of its own. Nothing here has run against Google.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../support/mod.rs"]
mod support;

mod oauth;

use bytes::Bytes;
use fencepost::devstore::Profile;
use fencepost::fence::{Action, Tag};
use http::Method;
use md5::{Digest as _, Md5};
use support::{Answer, Backend, Payload, S3, Scripted};

const GCS: &str = "backend.dialect = \"gcs\"\nfence.settle_delay_milliseconds = 0\n";

/// The ETag of an object that was put.
fn md5_of(body: &str) -> String {
    hex::encode(Md5::digest(body))
}

async fn copy(client: &S3, source: &str, key: &str) -> Answer {
    let client = client.clone().with("x-amz-copy-source", source);
    client.send(Method::PUT, &format!("/data/{key}"), Bytes::new()).await
}

/// A multipart upload of one part, but for its completion: its id and the body of that.
async fn uploaded(client: &S3, key: &str, body: &str) -> (String, String) {
    let created = client.send(Method::POST, &format!("/data/{key}?uploads"), "").await;
    assert_eq!(created.short(), "200");
    let id = created.element("UploadId").unwrap().to_owned();
    let target = format!("/data/{key}?partNumber=1&uploadId={id}");
    let part = client.send(Method::PUT, &target, body.to_owned()).await;
    assert_eq!(part.short(), "200");
    let list = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part>\
         </CompleteMultipartUpload>",
        part.etag()
    );
    (id, list)
}

/// The value of a header of a request.
fn sent<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    support::header(head, name)
}

#[tokio::test]
async fn fenced_writes_are_in_googles_words_and_reads_in_the_clients() {
    let backend = Backend::embedded(Profile::Gcs).await;
    let wire = Scripted::recording(&backend).await;
    let proxy = backend.by_way_of(wire.endpoint()).proxy(GCS).await;
    let holder = proxy.token(7);
    let client = holder.clone().with("x-amz-meta-a", "b").with("content-type", "text/plain");
    let first = client.put("k", "one").await;
    assert_eq!(first.short(), "200");
    assert_eq!(holder.put("k", "two").await.short(), "200");
    assert_eq!(proxy.plain().get("k").await.body, "two");
    assert_eq!(holder.delete("k").await.short(), "204");
    let heads = wire.heads();
    let requests: Vec<(&str, &String)> =
        heads.iter().map(|head| (head.split(' ').next().unwrap(), head)).collect();
    let methods: Vec<&str> = requests.iter().map(|(method, _)| *method).collect();
    assert_eq!(methods, ["HEAD", "PUT", "PUT", "GET", "DELETE"], "a chain is one request a write");
    for (method, head) in &requests {
        let authorization = sent(head, "authorization").unwrap_or_default();
        match *method {
            "GET" => {
                assert!(authorization.starts_with("AWS4-HMAC-SHA256 "), "{head}");
                assert!(authorization.contains("/auto/s3/aws4_request"), "{head}");
                assert!(!head.contains("x-goog-"), "{head}");
            }
            "DELETE" => {
                assert!(head.contains("X-Goog-Algorithm=GOOG4-HMAC-SHA256"), "{head}");
                assert!(head.contains("X-Goog-Expires=60"), "{head}");
            }
            _ => {
                assert!(authorization.starts_with("GOOG4-HMAC-SHA256 "), "{head}");
                assert!(authorization.contains("/auto/storage/goog4_request"), "{head}");
                assert!(!authorization.contains("accept-encoding"), "{head}");
            }
        }
        if *method != "GET" {
            assert!(!head.contains("x-amz-") && !head.contains("if-match:"), "{head}");
        }
    }
    assert_eq!(sent(&heads[1], "x-goog-if-generation-match"), Some("0"));
    assert_eq!(sent(&heads[1], "x-goog-meta-a"), Some("b"));
    assert_eq!(sent(&heads[1], "x-goog-meta-fencepost-token"), Some("7"));
    let generations: Vec<u64> = [&heads[2], &heads[4]]
        .map(|head| sent(head, "x-goog-if-generation-match").unwrap().parse().unwrap())
        .to_vec();
    assert!(0 < generations[0] && generations[0] < generations[1], "{generations:?}");
}

#[tokio::test]
async fn clients_see_the_stores_etag_and_the_record_the_generation() {
    let backend = Backend::embedded(Profile::Gcs).await;
    let proxy = backend.proxy(&format!("{GCS}fence.contention_wait_seconds_max = 1\n")).await;
    let holder = proxy.token(7);
    assert_eq!(holder.put("k", "one").await.etag(), md5_of("one"));
    assert_eq!(proxy.plain().head("k").await.etag(), md5_of("one"));
    let copied = copy(&holder, "/data/k", "copy").await;
    assert_eq!(copied.short(), "200");
    assert_eq!(copied.element("ETag").unwrap().trim_matches('"'), md5_of("one"));
    let (id, list) = uploaded(&holder, "parts", "one").await;
    let target = format!("/data/parts?uploadId={id}");
    let completed = holder.send(Method::POST, &target, list).await;
    assert_eq!(completed.short(), "200");
    let etag = completed.element("ETag").unwrap().replace("&quot;", "");
    assert_eq!(proxy.plain().head("parts").await.etag(), etag);
    assert!(!etag.contains('/'), "{etag}");

    // In a scope of many keys every write is on record, by the tag that it expects.
    let many = "[[scope]]\nbucket = \"data\"\nprefix = \"jobs/\"\nper = \"prefix\"\n";
    let settings = GCS.replace("milliseconds = 0", "milliseconds = 60000") + many;
    let other = backend.proxy(&settings).await;
    assert_eq!(other.token(7).put("jobs/a", "one").await.short(), "200");
    assert_eq!(other.token(7).put("jobs/a", "two").await.short(), "200");
    let scope =
        fencepost::ledger::Scope::prefix(fencepost::s3::Bucket::new("data"), b"jobs/".to_vec());
    let record = fencepost::ledger::Ledger::load(&backend.records(), &scope).await.unwrap();
    let expected: Vec<_> = record.intents().iter().map(|intent| intent.action.clone()).collect();
    let tags = expected.iter().filter_map(|action| match action {
        Action::Conditional { expects: Tag::Version(tag) } => Some(tag.clone()),
        Action::Conditional { expects: Tag::Absent } | Action::Exclusive => None,
    });
    for tag in tags.collect::<Vec<_>>() {
        let (generation, etag) = tag.split_once('/').unwrap();
        assert!(generation.parse::<u64>().unwrap() > 0, "{tag}");
        assert_eq!(etag, md5_of("one"));
    }
}

/// Google ignores `If-Match` and `If-None-Match` where it writes.
#[tokio::test]
async fn a_clients_condition_holds_without_a_token_too() {
    let backend = Backend::embedded(Profile::Gcs).await;
    let proxy = backend.proxy(GCS).await;
    let client = proxy.plain();
    let create = client.clone().with("if-none-match", "*");
    let first = create.put("k", "one").await;
    assert_eq!(first.short(), "200");
    assert_eq!(create.put("k", "two").await.short(), "412 PreconditionFailed");
    let on = |etag: &str| client.clone().with("if-match", etag);
    let wrong = on("\"0123456789abcdef0123456789abcdef\"");
    assert_eq!(wrong.put("k", "two").await.short(), "412 PreconditionFailed");
    assert_eq!(wrong.delete("k").await.short(), "412 PreconditionFailed");
    assert_eq!(wrong.put("absent", "x").await.short(), "404 NoSuchKey");
    assert_eq!(copy(&wrong, "/data/k", "k").await.short(), "412 PreconditionFailed");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"one"[..]));
    let second = on(first.header("etag")).put("k", "two").await;
    assert_eq!((second.short(), second.etag()), ("200".into(), &*md5_of("two")));
    assert_eq!(on("*").put("k", "three").await.short(), "200");
    assert_eq!(on(&format!("\"{}\"", md5_of("three"))).delete("k").await.short(), "204");
    assert_eq!(backend.bytes("k").await, None);

    // Of a completion Google ignores the generation as well, so that nothing can be promised.
    let (id, list) = uploaded(&client, "parts", "one").await;
    let target = format!("/data/parts?uploadId={id}");
    let answer = create.send(Method::POST, &target, list.clone()).await;
    assert_eq!(answer.short(), "501 NotImplemented");
    assert_eq!(client.send(Method::POST, &target, list).await.short(), "200");
}

#[tokio::test]
async fn what_cannot_be_said_to_google_is_refused_by_name() {
    let backend = Backend::embedded(Profile::Gcs).await;
    let proxy = backend.proxy(GCS).await;
    for (name, value) in [
        ("x-amz-tagging", "a=b"),
        ("x-amz-object-lock-legal-hold", "ON"),
        ("x-amz-grant-read", "id=1"),
        ("x-amz-expected-bucket-owner", "1"),
        ("x-amz-server-side-encryption", "aws:kms"),
    ] {
        let client = proxy.token(7).with(name, value);
        let put = client.put("k", "x").await;
        assert_eq!(put.short(), "501 NotImplemented", "{name}");
        assert_eq!(put.element("Header"), Some(name));
        let create = client.send(Method::POST, "/data/k?uploads", "").await;
        assert_eq!(create.short(), "501 NotImplemented", "{name}");
    }
    assert!(backend.history("k").is_empty());
    let encrypted = proxy.token(7).with("x-amz-server-side-encryption", "AES256");
    assert_eq!(encrypted.put("k", "x").await.short(), "200", "Google encrypts everything");
}

/// The pin of a copy names a generation: an ETag that is the same is not the same object.
#[tokio::test]
async fn the_source_of_a_copy_is_judged_by_the_etag_and_pinned_by_the_generation() {
    let backend = Backend::embedded(Profile::Gcs).await;
    let wire = Scripted::recording(&backend).await;
    let proxy = backend.by_way_of(wire.endpoint()).proxy(GCS).await;
    assert_eq!(proxy.token(7).put("src", "one").await.short(), "200");
    let on = |etag: String| proxy.token(7).with("x-amz-copy-source-if-match", &etag);
    let wrong = copy(&on(format!("\"{}\"", md5_of("two"))), "/data/src", "k").await;
    assert_eq!(wrong.short(), "412 PreconditionFailed");
    let right = copy(&on(format!("\"{}\"", md5_of("one"))), "/data/src", "k").await;
    assert_eq!(right.short(), "200");
    let heads = wire.heads();
    let head = heads.iter().rfind(|head| head.starts_with("PUT /data/k")).unwrap();
    let pin = sent(head, "x-goog-copy-source-if-generation-match").unwrap();
    assert!(pin.parse::<u64>().unwrap() > 0, "{head}");
    assert_eq!(sent(head, "x-goog-copy-source"), Some("/data/src"));
}

/// A body in chunks with a checksum in its trailer arrives whole and plain.
#[tokio::test]
async fn what_is_chunked_is_sent_plain() {
    let backend = Backend::embedded(Profile::Gcs).await;
    let wire = Scripted::recording(&backend).await;
    let settings = format!("{GCS}backend.checksum_trailers = \"forward\"\n");
    let proxy = backend.by_way_of(wire.endpoint()).proxy(&settings).await;
    let pieces = [Bytes::from_static(b"he"), Bytes::from_static(b"llo")];
    let framed = support::unsigned_chunks_with_crc32(&pieces, b"hello");
    let client = proxy
        .token(7)
        .with("content-encoding", "aws-chunked")
        .with("x-amz-decoded-content-length", "5")
        .with("x-amz-trailer", "x-amz-checksum-crc32");
    let said = "STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned();
    let answer = client.put("k", Payload::Claimed(framed, said)).await;
    assert_eq!(answer.short(), "200");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"hello"[..]));
    let heads = wire.heads();
    let put = heads.iter().find(|head| head.starts_with("PUT")).unwrap();
    assert_eq!(sent(put, "content-length"), Some("5"), "{put}");
    assert!(!put.contains("aws-chunked") && !put.contains("trailer"), "{put}");
}

//! What could change something in a fenced scope and cannot be fenced yet; and the ways round the
//! fence that are shut.

use std::time::Duration;

use bytes::Bytes;
use fencepost::devstore::{Effect, Profile, Rule};
use http::Method;

use super::AT_ONCE;
use super::support::{Backend, DATA, LEDGER, S3};

/// Name, method, target, headers.
type Shape = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Every operation that is not fenceable, in every shape that a client gives it.
const SHAPES: &[Shape] = &[
    ("AppendObject", "PUT", "/data/k", &[("x-amz-write-offset-bytes", "3")]),
    ("RenameObject", "PUT", "/data/k?renameObject", &[("x-amz-rename-source", "/data/other")]),
    ("RenameObject", "PUT", "/data/k", &[("x-amz-rename-source", "/data/other")]),
    (
        "PostObject",
        "POST",
        "/data/k?uploads",
        &[("content-type", "multipart/form-data; boundary=b")],
    ),
    ("PutObjectTagging", "PUT", "/data/k?tagging&acl", &[]),
    ("CreateMultipartUpload", "POST", "/data/k?uploads&delete", &[]),
    ("CompleteMultipartUpload", "POST", "/data/k?uploadId=u&delete", &[]),
    ("UploadPart", "PUT", "/data/k?partNumber=1&uploadId=u&tagging", &[]),
    ("DeleteObjectVersion", "DELETE", "/data/k?versionId=v&unheard-of", &[]),
    ("DeleteObjects", "POST", "/data?delete&uploads", &[]),
    ("PutObject", "PUT", "/data/k", &[("x-amz-unheard-of", "1")]),
    (
        "CopyObject",
        "PUT",
        "/data/k",
        &[("x-amz-copy-source", "/data/other"), ("x-amz-copy-sources", "/data/third")],
    ),
    ("PutObjectAnnotation", "PUT", "/data/k?annotation&annotationName=n", &[]),
    ("DeleteObjectAnnotation", "DELETE", "/data/k?annotation&annotationName=n", &[]),
    ("UpdateObjectEncryption", "PUT", "/data/k?encryption", &[]),
    // Each of these is a plain write to some store.
    ("WriteObjectSubresource", "PUT", "/data/k?partNumber=1", &[]),
    (
        "WriteObjectSubresource",
        "PUT",
        "/data/k?uploadId=u",
        &[("x-amz-copy-source", "/data/other")],
    ),
    ("WriteObjectSubresource", "PUT", "/data/k?partNumber=1&uploadId=", &[]),
    ("WriteObjectSubresource", "DELETE", "/data/k?uploadId=", &[]),
    ("WriteObjectSubresource", "DELETE", "/data/k?versionId=", &[]),
    ("UploadPart", "PUT", "/data/k?partNumber=1&uploadId=u&uploadId=", &[]),
    // Each of these is a form to some store, whatever its query says.
    (
        "PostObject",
        "POST",
        "/data/k?select&select-type=2",
        &[("content-type", " a, multipart/form-data; boundary=b")],
    ),
    ("WriteObjectSubresource", "POST", "/data/k?append&position=0", &[]),
    ("WriteObjectSubresource", "PUT", "/data/k?compose", &[]),
    ("WriteObjectSubresource", "PUT", "/data/k?unheard-of", &[]),
    ("WriteObjectSubresource", "POST", "/data/k", &[]),
    ("Unknown", "PATCH", "/data/k", &[]),
    ("Unknown", "MOVE", "/data/k", &[("destination", "/data/other")]),
    ("Unknown", "COPY", "/data/k", &[]),
    ("Unknown", "PUT", "/", &[]),
    ("Unknown", "POST", "/", &[]),
];

fn shaped(client: &S3, headers: &[(&str, &str)]) -> S3 {
    headers.iter().fold(client.clone(), |client, (name, value)| client.with(name, value))
}

#[tokio::test]
async fn what_cannot_be_fenced_is_refused_with_and_without_a_token() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(AT_ONCE).await;
    for key in ["k", "other"] {
        assert_eq!(proxy.token(7).put(key, "x").await.short(), "200");
    }
    let before = backend.store().history();
    let any = Rule::new(Effect::Delay(Duration::ZERO)).always();
    let any = backend.faults().add(any);
    for (name, method, target, headers) in SHAPES {
        for client in [proxy.plain(), proxy.token(9)] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let client = shaped(&client, headers);
            let answer = client.send(method, target, Bytes::from_static(b"<x/>")).await;
            assert_eq!(answer.short(), "501 FenceUnsupportedOperation", "{name} {target}");
            assert_eq!(answer.element("Operation"), Some(*name), "{target}");
        }
    }
    assert_eq!(any.hits(), 0, "nothing at all reaches the store");
    assert_eq!(backend.store().history(), before);
    let refused = proxy.counter("fence_rejected_total", "unsupported_operation").await;
    assert_eq!(refused, 2 * SHAPES.len() as u64);
}

/// In a bucket of which only a part is unfenced, what names no single key is refused, and what
/// names one is judged by it.
#[tokio::test]
async fn a_prefix_that_is_off_opens_itself_and_nothing_else() {
    let backend = Backend::embedded(Profile::Aws).await;
    let off = "[[scope]]\nbucket = \"data\"\nprefix = \"free/\"\nmode = \"off\"\n";
    let proxy = backend.proxy(off).await;
    let plain = proxy.plain();
    assert_eq!(plain.put("free/k", "x").await.short(), "200");
    let created = plain.send(Method::POST, "/data/free/k?uploads", Bytes::new()).await;
    assert_eq!(created.short(), "200");
    let copied = plain.clone().with("x-amz-copy-source", "/data/free/k");
    assert_eq!(copied.send(Method::PUT, "/data/free/l", Bytes::new()).await.short(), "200");
    // Its source goes away as well, and a source in another scope would be unfenced.
    let renamed = plain.clone().with("x-amz-rename-source", "/data/k");
    let renamed = renamed.send(Method::PUT, "/data/free/m?renameObject", Bytes::new()).await;
    assert_eq!(renamed.short(), "501 FenceUnsupportedOperation");
    let door = plain.clone().with("x-amz-meta-snowball-auto-extract", "true");
    assert_eq!(door.put("free/k", "x").await.short(), "501 FenceUnsupportedOperation");
}

/// Some stores look for a form before they look at the query.
#[tokio::test]
async fn a_form_is_nothing_else_whatever_its_query_says() {
    let backend = Backend::embedded(Profile::Aws).await;
    let settings = format!("{AT_ONCE}fence.bucket_operations = \"allow\"\n");
    let proxy = backend.proxy(&settings).await;
    assert_eq!(proxy.token(7).put("k", "x").await.short(), "200");
    let any = Rule::new(Effect::Delay(Duration::ZERO)).always();
    let any = backend.faults().add(any);
    let body = "<Delete><Object><Key>free</Key></Object></Delete>";
    for form in ["multipart/form-data; boundary=b", "text/plain, Multipart/form-data; boundary=b"] {
        let client = proxy.token(7).with("content-type", form);
        for target in ["/data?delete", "/data?lifecycle", "/data", "/data/k?uploads"] {
            let answer = client.send(Method::POST, target, body).await;
            assert!([400, 412, 501].contains(&answer.status), "{form} {target}: {answer:?}");
        }
    }
    assert_eq!(any.hits(), 0, "nothing reaches the store");
}

#[tokio::test]
async fn headers_that_open_a_side_door_in_some_store_are_refused() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(AT_ONCE).await;
    assert_eq!(proxy.token(7).put("k", "x").await.short(), "200");
    let before = backend.store().history();
    let doors = [
        ("x-minio-extract", "true"),
        ("x-minio-force-delete", "true"),
        ("x-minio-source-mtime", "2020-01-01T00:00:00Z"),
        ("x-rustfs-force-delete", "true"),
        ("x-amz-meta-snowball-auto-extract", "true"),
        ("x-goog-if-generation-match", "0"),
        ("x-http-method-override", "DELETE"),
        ("x-method-override", "DELETE"),
        ("x-tigris-rename", "true"),
        ("x-rgw-meta-fencepost-operation", "0"),
    ];
    for (name, value) in doors {
        for client in [proxy.token(8), proxy.plain()] {
            let client = client.with(name, value);
            for answer in [client.put("k", "y").await, client.delete("k").await] {
                assert_eq!(answer.short(), "501 FenceUnsupportedOperation", "{name}");
            }
            let bucket = client.send(Method::DELETE, "/data", Bytes::new()).await;
            assert_eq!(bucket.short(), "501 FenceUnsupportedOperation", "{name}");
        }
    }
    assert_eq!(backend.store().history(), before);
}

#[tokio::test]
async fn encryption_that_the_fence_cannot_see_through_is_refused() {
    let key = "x-amz-server-side-encryption-customer-algorithm";
    let named = "x-amz-server-side-encryption";
    let backend = Backend::embedded(Profile::AwsKms).await;
    for (settings, header, value, allowed) in [
        ("", key, "AES256", false),
        (super::UNIQUE, key, "AES256", false),
        (super::UNIQUE, named, "AES256", false),
        (super::UNIQUE, named, "aws:kms", true),
        (super::UNIQUE, named, "aws:kms:dsse", true),
        ("", named, "AES256", true),
    ] {
        let proxy = backend.proxy(settings).await;
        let answer = proxy.token(7).with(header, value).put("k", "x").await;
        let expected = if allowed { "200" } else { "501 FenceUnsupportedOperation" };
        assert_eq!(answer.short(), expected, "{header}: {value} {settings}");
    }
}

/// Its records decide who may write; whoever could write them would decide it.
#[tokio::test]
async fn the_ledger_bucket_cannot_be_reached_by_clients() {
    let backend = Backend::embedded(Profile::Aws).await;
    for settings in ["", "fence.mode = \"off\"\n"] {
        let proxy = backend.proxy(settings).await;
        let ledger = proxy.token(7);
        let any = Rule::new(Effect::Delay(Duration::ZERO)).always();
        let any = backend.faults().add(any);
        let methods = [Method::GET, Method::HEAD, Method::PUT, Method::POST, Method::DELETE];
        for method in methods {
            for target in [
                "/fencepost-ledger",
                "/fencepost-ledger/",
                "/fencepost-ledger/scopes/x.json",
                "/fencepost%2Dledger/scopes/x.json",
                "/%66encepost-ledger",
                "/fencepost-ledger?list-type=2",
            ] {
                let answer = ledger.send(method.clone(), target, Bytes::new()).await;
                assert_eq!(answer.status, 403, "{method} {target} {settings}");
            }
            let hosted = ledger.clone().host("fencepost-ledger.localhost");
            assert_eq!(hosted.send(method, "/scopes/x.json", Bytes::new()).await.status, 403);
        }
        // Nor can a copy carry records out.
        for source in ["/fencepost-ledger/x", "fencepost-ledger/x", "/fencepost%2Dledger/x"] {
            let copy = proxy.plain().with("x-amz-copy-source", source);
            let copied = copy.send(Method::PUT, "/data/stolen", Bytes::new()).await;
            assert!([403, 501].contains(&copied.status), "{source} {settings}: {copied:?}");
            let target = "/data/stolen?partNumber=1&uploadId=u";
            let copied = copy.send(Method::PUT, target, Bytes::new()).await;
            assert!([403, 501].contains(&copied.status), "{source} {settings}: {copied:?}");
        }
        assert_eq!(any.hits(), 0, "nothing reaches the store");
        any.remove();
    }
    let ours = backend.store().history();
    assert!(ours.iter().all(|change| change.bucket != DATA), "{ours:?}");
    assert!(ours.iter().any(|change| change.bucket == LEDGER), "the probe's own");
}

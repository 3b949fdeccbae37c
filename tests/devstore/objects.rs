//! Objects, listings, versions, uploads, copies and tags, without conditions.

use crate::{BUCKET, get, outcome, put, start};
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    BucketVersioningStatus, CompletedMultipartUpload, CompletedPart, EncodingType,
    MetadataDirective, Tag, Tagging, VersioningConfiguration,
};
use fencepost::devstore::{ChangeKind, Profile};
use std::collections::BTreeSet;

#[tokio::test]
async fn put_get_head_delete() {
    let (running, client) = start(Profile::Aws).await;
    let put = client.put_object().bucket(BUCKET).key("a/b").metadata("token", "42");
    let put = put.content_type("text/x").cache_control("no-store").content_encoding("gzip");
    let put = put.body(ByteStream::from_static(b"hello")).send().await.unwrap();
    assert_eq!(put.e_tag(), Some("\"5d41402abc4b2a76b9719d911017c592\""));
    let head = client.head_object().bucket(BUCKET).key("a/b").send().await.unwrap();
    assert_eq!(head.content_type(), Some("text/x"));
    assert_eq!(head.cache_control(), Some("no-store"));
    assert_eq!(head.content_encoding(), Some("gzip"));
    assert_eq!(head.content_length(), Some(5));
    assert_eq!(head.metadata().unwrap()["token"], "42");
    assert!(head.last_modified().is_some());

    let delete = async || client.delete_object().bucket(BUCKET).key("a/b").send().await.unwrap();
    delete().await;
    delete().await;
    let gone = client.get_object().bucket(BUCKET).key("a/b").send().await;
    assert_eq!(outcome(gone), "404 NoSuchKey");
    let history = running.store().history();
    let kinds: Vec<_> = history.iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Put, ChangeKind::Delete], "deleting nothing is no change");
    assert_eq!(history[0].metadata["token"], "42");
    assert_eq!(history[0].etag.as_deref(), Some("5d41402abc4b2a76b9719d911017c592"));
}

#[tokio::test]
async fn ranges() {
    let (_running, client) = start(Profile::Aws).await;
    put(&client, "k", "0123456789").await;
    put(&client, "empty", "").await;
    let cases = [
        ("bytes=0-3", "bytes 0-3/10", "0123"),
        ("bytes=8-", "bytes 8-9/10", "89"),
        ("bytes=-3", "bytes 7-9/10", "789"),
        ("bytes=-30", "bytes 0-9/10", "0123456789"),
        ("bytes=5-99", "bytes 5-9/10", "56789"),
    ];
    for (range, content_range, expected) in cases {
        let got = client.get_object().bucket(BUCKET).key("k").range(range).send().await.unwrap();
        assert_eq!(got.content_range(), Some(content_range));
        assert_eq!(got.body.collect().await.unwrap().to_vec(), expected.as_bytes());
    }
    for (key, range) in [("k", "bytes=10-"), ("k", "bytes=-0"), ("empty", "bytes=0-")] {
        let got = client.get_object().bucket(BUCKET).key(key).range(range).send().await;
        assert_eq!(outcome(got), "416 InvalidRange", "{key} {range}");
    }
}

#[tokio::test]
async fn keys_are_bytes() {
    let (_running, client) = start(Profile::Aws).await;
    let keys = [
        "a",
        "a/",
        "a//",
        "a//b",
        "a/b",
        "a/./b",
        "a/../b",
        "/a",
        "//a",
        "./a",
        "../a",
        "a b",
        "a+b",
        "a%20b",
        "a%2Fb",
        "a\u{e9}",
        "ae\u{301}",
        "a?b#c&d=e",
        "日本",
        "a\\b",
        "a\"b'c<d>",
    ];
    for key in keys {
        let body = ByteStream::from(key.as_bytes().to_vec());
        client.put_object().bucket(BUCKET).key(key).body(body).send().await.unwrap();
    }
    for key in keys {
        assert_eq!(get(&client, key).await.as_deref(), Some(key));
        let copy = client.copy_object().bucket(BUCKET).key(format!("copy of {key}"));
        let source = percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC);
        let copy = copy.copy_source(format!("{BUCKET}/{source}")).send().await;
        assert_eq!(outcome(copy), "ok", "{key}");
        assert_eq!(get(&client, &format!("copy of {key}")).await.as_deref(), Some(key));
    }
    let list = client.list_objects_v2().bucket(BUCKET).send().await.unwrap();
    let listed: Vec<_> = list.contents().iter().map(|object| object.key().unwrap()).collect();
    let mut expected = keys.to_vec();
    let copies = keys.map(|key| format!("copy of {key}"));
    expected.extend(copies.iter().map(String::as_str));
    expected.sort_unstable();
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn listings() {
    let (_running, client) = start(Profile::Aws).await;
    for key in ["a", "b/1", "b/2", "c d/x", "e"] {
        put(&client, key, "v").await;
    }
    let (mut keys, mut prefixes) = (Vec::new(), Vec::new());
    let list = client.list_objects_v2().bucket(BUCKET).delimiter("/").max_keys(2);
    let mut pages = list.into_paginator().send();
    while let Some(page) = pages.next().await {
        let page = page.unwrap();
        assert!(page.key_count().unwrap() <= 2);
        keys.extend(page.contents().iter().map(|object| object.key().unwrap().to_owned()));
        prefixes.extend(page.common_prefixes().iter().map(|p| p.prefix().unwrap().to_owned()));
    }
    assert_eq!(
        (keys.as_slice(), prefixes.as_slice()),
        (&["a".to_owned(), "e".to_owned()][..], &["b/".to_owned(), "c d/".to_owned()][..],)
    );

    let first = client.list_objects().bucket(BUCKET).max_keys(2).send().await.unwrap();
    assert_eq!((first.is_truncated(), first.contents().len()), (Some(true), 2));
    let marker = first.contents()[1].key().unwrap();
    let rest = client.list_objects().bucket(BUCKET).marker(marker);
    let rest = rest.encoding_type(EncodingType::Url).send().await.unwrap();
    let rest: Vec<_> = rest.contents().iter().map(|object| object.key().unwrap()).collect();
    assert_eq!(rest, ["b/2", "c%20d/x", "e"]);
    let after = client.list_objects_v2().bucket(BUCKET).start_after("b/2").prefix("c");
    assert_eq!(after.send().await.unwrap().contents().len(), 1);
}

#[tokio::test]
async fn buckets() {
    let (_running, client) = start(Profile::Aws).await;
    let create = async |name: &str| outcome(client.create_bucket().bucket(name).send().await);
    assert_eq!(create("other").await, "ok");
    assert_eq!(create("other").await, "409 BucketAlreadyOwnedByYou");
    let list = client.list_buckets().send().await.unwrap();
    let names: Vec<_> = list.buckets().iter().map(|bucket| bucket.name().unwrap()).collect();
    assert_eq!(names, [BUCKET, "other"]);
    assert!(client.get_bucket_location().bucket("other").send().await.is_ok());
    put(&client, "k", "v").await;
    let delete = async |name: &str| outcome(client.delete_bucket().bucket(name).send().await);
    assert_eq!(delete(BUCKET).await, "409 BucketNotEmpty");
    assert_eq!(delete("other").await, "ok");
    assert_eq!(delete("other").await, "404 NoSuchBucket");
    assert!(client.head_bucket().bucket("other").send().await.is_err());
    let nowhere = client.put_object().bucket("other").key("k").send().await;
    assert_eq!(outcome(nowhere), "404 NoSuchBucket");
}

async fn set_versioning(client: &Client, status: BucketVersioningStatus) {
    let versioning = VersioningConfiguration::builder().status(status).build();
    let put = client.put_bucket_versioning().bucket(BUCKET).versioning_configuration(versioning);
    put.send().await.unwrap();
}

/// Versions (`v`) and markers (`m`) of every key, newest first, paged by two.
async fn versions(client: &Client) -> Vec<String> {
    let (mut found, mut key, mut id) = (Vec::new(), None, None);
    loop {
        let page = client.list_object_versions().bucket(BUCKET).max_keys(2);
        let page = page.set_key_marker(key).set_version_id_marker(id).send().await.unwrap();
        for version in page.versions() {
            found.push((version.key().unwrap().to_owned(), version.is_latest(), 'v'));
        }
        for marker in page.delete_markers() {
            found.push((marker.key().unwrap().to_owned(), marker.is_latest(), 'm'));
        }
        if page.is_truncated() != Some(true) {
            break;
        }
        key = page.next_key_marker().map(str::to_owned);
        id = page.next_version_id_marker().map(str::to_owned);
    }
    let shown = |(key, latest, kind): (String, Option<bool>, char)| {
        format!("{key}{kind}{}", if latest == Some(true) { "!" } else { "" })
    };
    let mut shown: Vec<_> = found.into_iter().map(shown).collect();
    shown.sort_unstable();
    shown
}

#[tokio::test]
async fn versioning() {
    let (_running, client) = start(Profile::Aws).await;
    put(&client, "k", "before").await;
    set_versioning(&client, BucketVersioningStatus::Enabled).await;
    put(&client, "k", "first").await;
    put(&client, "k", "second").await;
    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    let second = head.version_id().unwrap().to_owned();
    let marker = client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(marker.delete_marker(), Some(true));
    assert_eq!(get(&client, "k").await, None);
    assert_eq!(versions(&client).await, ["km!", "kv", "kv", "kv"]);

    let read = |id: &str| client.get_object().bucket(BUCKET).key("k").version_id(id).send();
    let body = read(&second).await.unwrap().body.collect().await.unwrap();
    assert_eq!(body.to_vec(), b"second");
    let body = read("null").await.unwrap().body.collect().await.unwrap();
    assert_eq!(body.to_vec(), b"before");
    assert_eq!(outcome(read(marker.version_id().unwrap()).await), "405 MethodNotAllowed");
    assert_eq!(outcome(read("nonsense").await), "404 NoSuchVersion");

    let remove = |id: &str| client.delete_object().bucket(BUCKET).key("k").version_id(id).send();
    let removed = remove(marker.version_id().unwrap()).await.unwrap();
    assert_eq!(removed.delete_marker(), Some(true));
    assert_eq!(get(&client, "k").await.as_deref(), Some("second"));
    remove(&second).await.unwrap();
    assert_eq!(get(&client, "k").await.as_deref(), Some("first"), "an older one is current again");

    set_versioning(&client, BucketVersioningStatus::Suspended).await;
    put(&client, "k", "suspended").await;
    assert_eq!(versions(&client).await, ["kv", "kv!"], "the null version was replaced");
    client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(versions(&client).await, ["km!", "kv"]);
}

#[tokio::test]
async fn multipart() {
    const PART: usize = 5 * 1024 * 1024;
    let (running, client) = start(Profile::Aws).await;
    put(&client, "source", "0123456789").await;
    let create = client.create_multipart_upload().bucket(BUCKET).key("k").metadata("a", "b");
    let id = create.send().await.unwrap().upload_id().unwrap().to_owned();
    let part = |number: i32, body: Vec<u8>| {
        let part = client.upload_part().bucket(BUCKET).key("k").upload_id(&id).part_number(number);
        part.body(ByteStream::from(body)).send()
    };
    let first = part(1, vec![b'a'; PART]).await.unwrap().e_tag().unwrap().to_owned();
    part(2, b"dropped".to_vec()).await.unwrap();
    let copy = client.upload_part_copy().bucket(BUCKET).key("k").upload_id(&id).part_number(3);
    let copy = copy.copy_source(format!("{BUCKET}/source")).copy_source_range("bytes=2-4");
    let third = copy.send().await.unwrap();
    let third = third.copy_part_result().unwrap().e_tag().unwrap().to_owned();

    let parts = client.list_parts().bucket(BUCKET).key("k").upload_id(&id).max_parts(2);
    let parts = parts.send().await.unwrap();
    assert_eq!((parts.parts().len(), parts.is_truncated()), (2, Some(true)));
    assert_eq!(parts.parts()[0].size(), Some(PART as i64));
    let uploads = client.list_multipart_uploads().bucket(BUCKET).send().await.unwrap();
    assert_eq!(uploads.uploads()[0].upload_id(), Some(id.as_str()));
    assert_eq!(get(&client, "k").await, None, "an upload is no object");

    let named = |number, tag: &str| CompletedPart::builder().part_number(number).e_tag(tag).build();
    let complete = |parts: Vec<CompletedPart>| {
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let complete = client.complete_multipart_upload().bucket(BUCKET).key("k").upload_id(&id);
        complete.multipart_upload(parts).send()
    };
    let small_first = complete(vec![named(1, &first), named(2, "\"x\""), named(3, &third)]).await;
    assert_eq!(outcome(small_first), "400 InvalidPart");
    let done = complete(vec![named(1, &first), named(3, &third)]).await.unwrap();
    assert!(done.e_tag().unwrap().ends_with("-2\""));
    assert_eq!(outcome(complete(vec![named(1, &first)]).await), "404 NoSuchUpload");
    let stored = running.store().object(BUCKET, "k").await.unwrap().unwrap();
    assert_eq!(stored.metadata["a"], "b");
    assert_eq!(stored.body.len(), PART + 3);
    assert!(stored.body.ends_with(b"a234"));
    let second = client.get_object().bucket(BUCKET).key("k").part_number(2).send().await.unwrap();
    assert_eq!(second.parts_count(), Some(2));
    assert_eq!(second.body.collect().await.unwrap().to_vec(), b"234");

    let create = client.create_multipart_upload().bucket(BUCKET).key("gone").send().await.unwrap();
    let abort = client.abort_multipart_upload().bucket(BUCKET).key("gone");
    let abort = abort.upload_id(create.upload_id().unwrap());
    assert_eq!(outcome(abort.clone().send().await), "ok");
    assert_eq!(outcome(abort.send().await), "404 NoSuchUpload");
}

#[tokio::test]
async fn uploads_are_listed_page_by_page() {
    let (_running, client) = start(Profile::Aws).await;
    for key in ["a b", "k", "k", "k", "p/1", "p/2"] {
        client.create_multipart_upload().bucket(BUCKET).key(key).send().await.unwrap();
    }
    let (mut keys, mut prefixes, mut ids) = (Vec::new(), Vec::new(), BTreeSet::new());
    let (mut key, mut id) = (None, None);
    loop {
        let page = client.list_multipart_uploads().bucket(BUCKET).delimiter("/").max_uploads(2);
        let page = page.encoding_type(EncodingType::Url).set_key_marker(key);
        let page = page.set_upload_id_marker(id).send().await.unwrap();
        for upload in page.uploads() {
            keys.push(upload.key().unwrap().to_owned());
            ids.insert(upload.upload_id().unwrap().to_owned());
        }
        prefixes.extend(page.common_prefixes().iter().map(|p| p.prefix().unwrap().to_owned()));
        if page.is_truncated() != Some(true) {
            break;
        }
        key = page.next_key_marker().map(str::to_owned);
        id = page.next_upload_id_marker().map(str::to_owned);
    }
    assert_eq!(keys, ["a%20b", "k", "k", "k"]);
    assert_eq!(prefixes, ["p/"]);
    assert_eq!(ids.len(), 4);
}

#[tokio::test]
async fn a_one_part_upload_of_the_same_bytes_has_another_tag() {
    let (_running, client) = start(Profile::Aws).await;
    let single = put(&client, "k", "same").await;
    let create = client.create_multipart_upload().bucket(BUCKET).key("k").send().await.unwrap();
    let id = create.upload_id().unwrap();
    let copy = client.upload_part_copy().bucket(BUCKET).key("k").upload_id(id).part_number(1);
    let part = copy.copy_source(format!("{BUCKET}/k")).send().await.unwrap();
    let tag = part.copy_part_result().unwrap().e_tag().unwrap();
    let parts = CompletedPart::builder().part_number(1).e_tag(tag).build();
    let parts = CompletedMultipartUpload::builder().parts(parts).build();
    let complete = client.complete_multipart_upload().bucket(BUCKET).key("k").upload_id(id);
    let done = complete.multipart_upload(parts).if_match(&single).send().await.unwrap();
    assert_ne!(done.e_tag(), Some(single.as_str()));
    assert!(done.e_tag().unwrap().ends_with("-1\""));
    assert_eq!(get(&client, "k").await.as_deref(), Some("same"));
    // A copy is one piece again, so its tag is the MD5 of the bytes.
    let copy = client.copy_object().bucket(BUCKET).key("copy").copy_source(format!("{BUCKET}/k"));
    let copy = copy.send().await.unwrap();
    assert_eq!(copy.copy_object_result().unwrap().e_tag(), Some(single.as_str()));
}

#[tokio::test]
async fn copies_and_tags() {
    let (_running, client) = start(Profile::Aws).await;
    let put = client.put_object().bucket(BUCKET).key("a").metadata("m", "1").tagging("t=1");
    put.body(ByteStream::from_static(b"v")).send().await.unwrap();
    let copy =
        |to: &str| client.copy_object().bucket(BUCKET).key(to).copy_source(format!("/{BUCKET}/a"));
    copy("b").send().await.unwrap();
    let replaced = copy("c").metadata_directive(MetadataDirective::Replace).metadata("m", "2");
    replaced.send().await.unwrap();
    for (key, metadata) in [("b", "1"), ("c", "2")] {
        let head = client.head_object().bucket(BUCKET).key(key).send().await.unwrap();
        assert_eq!(head.metadata().unwrap()["m"], metadata);
        let tags = client.get_object_tagging().bucket(BUCKET).key(key).send().await.unwrap();
        assert_eq!(tags.tag_set()[0].value(), "1");
    }
    assert_eq!(outcome(copy("a").send().await), "400 InvalidRequest");
    let onto_itself = copy("a").metadata_directive(MetadataDirective::Replace).send().await;
    assert_eq!(outcome(onto_itself), "ok");

    let tag = Tag::builder().key("t").value("2").build().unwrap();
    let tagging = Tagging::builder().tag_set(tag).build().unwrap();
    let before = client.head_object().bucket(BUCKET).key("a").send().await.unwrap();
    let put = client.put_object_tagging().bucket(BUCKET).key("a").tagging(tagging);
    put.send().await.unwrap();
    let after = client.head_object().bucket(BUCKET).key("a").send().await.unwrap();
    assert_eq!(before.e_tag(), after.e_tag(), "tags leave the entity tag alone");
    client.delete_object_tagging().bucket(BUCKET).key("a").send().await.unwrap();
    let tags = client.get_object_tagging().bucket(BUCKET).key("a").send().await.unwrap();
    assert!(tags.tag_set().is_empty());
}

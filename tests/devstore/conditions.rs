//! Every conditional operation, one after the other, in every profile.

use crate::raw::Raw;
use crate::{BUCKET, get, outcome, put, start};
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    BucketVersioningStatus, CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier,
    VersioningConfiguration,
};
use fencepost::devstore::Profile;

/// `*` for `If-None-Match: *`, anything else for `If-Match`.
type Condition<'a> = &'a str;

const WRONG: &str = "\"00000000000000000000000000000000\"";

async fn conditional_put(client: &Client, key: &str, condition: Condition<'_>) -> String {
    let request = client.put_object().bucket(BUCKET).key(key);
    let request = request.body(ByteStream::from_static(b"new"));
    let request = match condition {
        "*" => request.if_none_match("*"),
        tag => request.if_match(tag),
    };
    outcome(request.send().await)
}

async fn conditional_copy(client: &Client, key: &str, condition: Condition<'_>) -> String {
    put(client, "source", "copied").await;
    let request = client.copy_object().bucket(BUCKET).key(key);
    let request = request.copy_source(format!("{BUCKET}/source"));
    let request = match condition {
        "*" => request.if_none_match("*"),
        tag => request.if_match(tag),
    };
    outcome(request.send().await)
}

async fn conditional_complete(client: &Client, key: &str, condition: Condition<'_>) -> String {
    let create = client.create_multipart_upload().bucket(BUCKET).key(key).send().await.unwrap();
    let id = create.upload_id().unwrap();
    let part = client.upload_part().bucket(BUCKET).key(key).upload_id(id).part_number(1);
    let part = part.body(ByteStream::from_static(b"part")).send().await.unwrap();
    let part = CompletedPart::builder().part_number(1).e_tag(part.e_tag().unwrap()).build();
    let parts = CompletedMultipartUpload::builder().parts(part).build();
    let request = client.complete_multipart_upload().bucket(BUCKET).key(key).upload_id(id);
    let request = request.multipart_upload(parts);
    let request = match condition {
        "*" => request.if_none_match("*"),
        tag => request.if_match(tag),
    };
    outcome(request.send().await)
}

async fn conditional_delete(client: &Client, key: &str, tag: &str) -> String {
    outcome(client.delete_object().bucket(BUCKET).key(key).if_match(tag).send().await)
}

async fn conditional_batch_delete(client: &Client, key: &str, tag: &str) -> String {
    let object = ObjectIdentifier::builder().key(key).e_tag(tag).build().unwrap();
    let delete = Delete::builder().objects(object).build().unwrap();
    let answer = client.delete_objects().bucket(BUCKET).delete(delete).send().await.unwrap();
    match answer.errors() {
        [] => "ok".to_owned(),
        [error] => error.code().unwrap().to_owned(),
        more => panic!("{more:?}"),
    }
}

/// What the creating operations answer: exists + `*`, absent + `*`, right tag, wrong tag, tag on
/// what is absent.
async fn creating<F>(client: &Client, operation: impl Fn(String, String) -> F) -> [String; 5]
where
    F: Future<Output = String>,
{
    let key = || format!("key-{:p}", client);
    let cleared = async |exists: bool| {
        client.delete_object().bucket(BUCKET).key(key()).send().await.unwrap();
        if exists { put(client, &key(), "old").await } else { String::new() }
    };
    cleared(true).await;
    let on_existing = operation(key(), "*".to_owned()).await;
    cleared(false).await;
    let on_absent = operation(key(), "*".to_owned()).await;
    let tag = cleared(true).await;
    let right = operation(key(), tag).await;
    cleared(true).await;
    let wrong = operation(key(), WRONG.to_owned()).await;
    cleared(false).await;
    let absent = operation(key(), WRONG.to_owned()).await;
    [on_existing, on_absent, right, wrong, absent]
}

#[tokio::test]
async fn writes_that_create() {
    const STRICT: [&str; 5] =
        ["412 PreconditionFailed", "ok", "ok", "412 PreconditionFailed", "404 NoSuchKey"];
    for profile in Profile::ALL {
        let (_running, client) = start(profile).await;
        let client = &client;
        let expected = if profile == Profile::Liar { ["ok"; 5] } else { STRICT };
        let puts =
            creating(client, |key, c| async move { conditional_put(client, &key, &c).await });
        assert_eq!(puts.await, expected, "PUT, {profile}");
        let copies =
            creating(client, |key, c| async move { conditional_copy(client, &key, &c).await });
        assert_eq!(copies.await, expected, "Copy, {profile}");
        let completes =
            creating(client, |key, c| async move { conditional_complete(client, &key, &c).await });
        assert_eq!(completes.await, expected, "Complete, {profile}");
    }
}

#[tokio::test]
async fn deletes() {
    for profile in Profile::ALL {
        let (_running, client) = start(profile).await;
        let lax = matches!(profile, Profile::Minio | Profile::Liar);
        let expect = |strict: &'static str| if lax { "ok" } else { strict };

        assert_eq!(conditional_delete(&client, "k", WRONG).await, expect("404 NoSuchKey"));
        put(&client, "k", "v").await;
        let wrong = conditional_delete(&client, "k", WRONG).await;
        assert_eq!(wrong, expect("412 PreconditionFailed"), "{profile}");
        assert_eq!(get(&client, "k").await.is_none(), lax, "{profile}");
        let tag = put(&client, "k", "v").await;
        assert_eq!(conditional_delete(&client, "k", &tag).await, "ok");
        assert_eq!(get(&client, "k").await, None);
        put(&client, "k", "v").await;
        assert_eq!(conditional_delete(&client, "k", "*").await, "ok");
        assert_eq!(conditional_delete(&client, "k", "*").await, expect("404 NoSuchKey"));

        let absent = conditional_batch_delete(&client, "k", WRONG).await;
        assert_eq!(absent, expect("NoSuchKey"), "{profile}");
        let tag = put(&client, "k", "v").await;
        let wrong = conditional_batch_delete(&client, "k", WRONG).await;
        assert_eq!(wrong, expect("PreconditionFailed"), "{profile}");
        if !lax {
            assert_eq!(get(&client, "k").await.as_deref(), Some("v"));
            assert_eq!(conditional_batch_delete(&client, "k", &tag).await, "ok");
        }
        assert_eq!(get(&client, "k").await, None);
    }
}

#[tokio::test]
async fn tags_repeat_except_where_they_are_unique() {
    for profile in Profile::ALL {
        let (_running, client) = start(profile).await;
        let tags = [put(&client, "a", "same").await, put(&client, "a", "same").await];
        assert_eq!(tags[0] != tags[1], profile == Profile::AwsKms, "{profile}");
        let head = client.head_object().bucket(BUCKET).key("a").send().await.unwrap();
        assert_eq!(head.e_tag(), Some(tags[1].as_str()));
    }
}

#[tokio::test]
async fn odd_spellings_never_overwrite() {
    let (running, client) = start(Profile::Aws).await;
    let tag = put(&client, "k", "old").await;
    let bare = tag.trim_matches('"').to_owned();
    let send = async |name: &str, value: &str| {
        Raw::new("PUT", "k").header(name, value).send(&running, "new").await
    };
    assert_eq!(send("if-match", "").await, "400 InvalidArgument");
    assert_eq!(send("if-none-match", "\"*\"").await, "501 NotImplemented");
    assert_eq!(send("if-none-match", &tag).await, "501 NotImplemented");
    assert_eq!(send("if-match", &format!("W/{tag}")).await, "412 PreconditionFailed");
    assert_eq!(get(&client, "k").await.as_deref(), Some("old"));
    assert_eq!(send("if-match", &bare).await, "ok");
    // A condition needs no signature; that it was added on the way does not weaken it.
    let unsigned = Raw::new("PUT", "k").unsigned("if-none-match", "*");
    assert_eq!(unsigned.send(&running, "newer").await, "412 PreconditionFailed");
}

#[tokio::test]
async fn conditions_look_at_the_current_version_only() {
    let (_running, client) = start(Profile::Aws).await;
    let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled);
    let enable = client.put_bucket_versioning().bucket(BUCKET);
    enable.versioning_configuration(enabled.build()).send().await.unwrap();

    let tag = put(&client, "k", "v").await;
    client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(conditional_put(&client, "k", &tag).await, "404 NoSuchKey");
    assert_eq!(conditional_delete(&client, "k", &tag).await, "404 NoSuchKey");
    assert_eq!(conditional_put(&client, "k", "*").await, "ok");
    assert_eq!(conditional_put(&client, "k", &tag).await, "412 PreconditionFailed");

    let head = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    let delete = client.delete_object().bucket(BUCKET).key("k");
    let delete = delete.version_id(head.version_id().unwrap()).if_match(head.e_tag().unwrap());
    assert_eq!(outcome(delete.send().await), "501 NotImplemented");
}

#[tokio::test]
async fn reads_and_copy_sources() {
    let (_running, client) = start(Profile::Aws).await;
    let tag = put(&client, "k", "v").await;
    let read = || client.get_object().bucket(BUCKET).key("k");
    assert_eq!(outcome(read().if_match(&tag).send().await), "ok");
    assert_eq!(outcome(read().if_match(WRONG).send().await), "412 PreconditionFailed");
    let fresh = read().if_none_match(&tag).send().await.unwrap_err();
    assert_eq!(fresh.raw_response().unwrap().status().as_u16(), 304);
    assert_eq!(fresh.raw_response().unwrap().headers().get("etag"), Some(tag.as_str()));

    let copy = || {
        let copy = client.copy_object().bucket(BUCKET).key("copy");
        copy.copy_source(format!("{BUCKET}/k"))
    };
    assert_eq!(outcome(copy().copy_source_if_match(&tag).send().await), "ok");
    let wrong = copy().copy_source_if_match(WRONG).send().await;
    assert_eq!(outcome(wrong), "412 PreconditionFailed");
    let fresh = copy().copy_source_if_none_match(&tag).send().await;
    assert_eq!(outcome(fresh), "412 PreconditionFailed");
}

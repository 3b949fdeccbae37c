//! The table of profiles, from outside: what every one of them answers to every condition.

use crate::operations::{
    Condition, complete, copy, delete, delete_objects, enable_versions, put as put_if, without_body,
};
use crate::raw::Raw;
use crate::{BUCKET, client, get, put, start};
use aws_sdk_s3::Client;
use fencepost::devstore::{DevStore, Profile};
use std::time::Duration;

const WRONG: &str = "\"00000000000000000000000000000000\"";

/// What an operation that creates answers to `If-None-Match: *` on what exists and on what does not;
/// to `If-Match` of the right tag, quoted and bare, of a wrong one, and of one on what does not
/// exist; and to `If-Match: *` on what exists and on what does not.
type Creating = [&'static str; 8];

const STRICT: Creating = ["412", "ok", "ok", "ok", "412", "404", "ok", "404"];
/// As [`STRICT`], with another answer for what does not exist.
const FAILS: Creating = ["412", "ok", "ok", "ok", "412", "412", "ok", "412"];
const BARE: Creating = ["412", "ok", "412", "ok", "412", "412", "ok", "412"];
const IGNORED: Creating = ["ok"; 8];

/// What one profile answers.
struct Row {
    profile: Profile,
    put: Creating,
    complete: Creating,
    copy: Creating,
    /// The right tag, a wrong one, one on what does not exist, `*` on what exists and on what does
    /// not.
    delete: [&'static str; 5],
    /// The right tag, a wrong one, one on what does not exist.
    delete_objects: [&'static str; 3],
    /// PUT on a bucket with versions: `If-None-Match: *` on what exists, a wrong tag, the right one,
    /// a tag on a delete marker, `If-None-Match: *` on one. `None` where there are no versions.
    versioned: Option<[&'static str; 5]>,
}

const DELETE: [&str; 5] = ["ok", "412", "404", "ok", "404"];
const DELETE_OBJECTS: [&str; 3] = ["ok", "PreconditionFailed", "NoSuchKey"];
const VERSIONED: Option<[&str; 5]> = Some(["412", "412", "ok", "404", "ok"]);

impl Row {
    const fn strict(profile: Profile) -> Self {
        Self {
            profile,
            put: STRICT,
            complete: STRICT,
            copy: STRICT,
            delete: DELETE,
            delete_objects: DELETE_OBJECTS,
            versioned: VERSIONED,
        }
    }

    const fn lax(profile: Profile) -> Self {
        Self {
            profile,
            put: IGNORED,
            complete: IGNORED,
            copy: IGNORED,
            delete: ["ok"; 5],
            delete_objects: ["ok"; 3],
            versioned: Some(["ok"; 5]),
        }
    }
}

fn rows() -> Vec<Row> {
    use Profile::{
        Aws, AwsExpress, AwsKms, Ceph, Garage, Gcs, Liar, Minio, R2, Racy, Spaces, Wasabi,
    };
    vec![
        Row::strict(Aws),
        Row { versioned: None, ..Row::strict(AwsExpress) },
        Row::strict(AwsKms),
        Row { put: STRICT, complete: STRICT, versioned: VERSIONED, ..Row::lax(Minio) },
        Row { put: FAILS, complete: FAILS, versioned: None, ..Row::lax(R2) },
        Row { put: BARE, versioned: Some(["ok", "412", "ok", "412", "ok"]), ..Row::lax(Ceph) },
        Row::lax(Wasabi),
        Row { versioned: None, ..Row::lax(Garage) },
        Row { put: FAILS, versioned: Some(["412", "412", "ok", "412", "ok"]), ..Row::lax(Spaces) },
        // S3's conditions; for its own see `gcs`. What does not exist is no success to delete.
        Row { delete: ["ok", "ok", "404", "ok", "404"], ..Row::lax(Gcs) },
        Row::lax(Liar),
        Row::strict(Racy),
    ]
}

fn short(outcome: &str) -> &str {
    match outcome {
        "412 PreconditionFailed" => "412",
        "404 NoSuchKey" => "404",
        other => other,
    }
}

/// The key, with an object or without one; the object's tag.
async fn cleared(client: &Client, exists: bool) -> String {
    // Of no use where it is absent already, whatever the answer.
    let _ = client.delete_object().bucket(BUCKET).key("k").send().await;
    if exists { put(client, "k", "old").await } else { String::new() }
}

async fn creating<F>(client: &Client, operation: impl Fn(Asked) -> F) -> Vec<String>
where
    F: Future<Output = String>,
{
    let mut answers = Vec::new();
    cleared(client, true).await;
    answers.push(operation(Asked::Absent).await);
    cleared(client, false).await;
    answers.push(operation(Asked::Absent).await);
    let tag = cleared(client, true).await;
    answers.push(operation(Asked::Match(tag)).await);
    let tag = cleared(client, true).await;
    answers.push(operation(Asked::Match(tag.trim_matches('"').to_owned())).await);
    cleared(client, true).await;
    answers.push(operation(Asked::Match(WRONG.to_owned())).await);
    cleared(client, false).await;
    answers.push(operation(Asked::Match(WRONG.to_owned())).await);
    cleared(client, true).await;
    answers.push(operation(Asked::Match("*".to_owned())).await);
    cleared(client, false).await;
    answers.push(operation(Asked::Match("*".to_owned())).await);
    answers.iter().map(|answer| short(answer).to_owned()).collect()
}

/// A [`Condition`] that owns its tag.
enum Asked {
    Absent,
    Match(String),
}

impl Asked {
    fn condition(&self) -> Condition<'_> {
        match self {
            Self::Absent => Condition::Absent,
            Self::Match(tag) => Condition::Match(tag),
        }
    }
}

#[tokio::test]
async fn every_profile_has_a_row() {
    let rows: Vec<_> = rows().iter().map(|row| row.profile).collect();
    assert_eq!(rows, Profile::ALL);
}

#[tokio::test]
async fn operations_that_create() {
    for Row { profile, put, complete: completes, copy: copies, .. } in rows() {
        let (_running, client) = start(profile).await;
        let client = &client;
        let puts =
            creating(client, |asked| async move { put_if(client, "k", asked.condition()).await });
        assert_eq!(puts.await, put, "PUT, {profile}");
        let answers =
            creating(client, |asked| async move { complete(client, "k", asked.condition()).await });
        assert_eq!(answers.await, completes, "Complete, {profile}");
        let answers =
            creating(client, |asked| async move { copy(client, "k", asked.condition()).await });
        assert_eq!(answers.await, copies, "Copy, {profile}");
    }
}

#[tokio::test]
async fn operations_that_delete() {
    for row in rows() {
        let profile = row.profile;
        let (_running, client) = start(profile).await;
        let mut answers = Vec::new();
        let tag = cleared(&client, true).await;
        answers.push(delete(&client, "k", Condition::Match(&tag)).await);
        cleared(&client, true).await;
        answers.push(delete(&client, "k", Condition::Match(WRONG)).await);
        let kept = get(&client, "k").await.is_some();
        assert_eq!(kept, row.delete[1] == "412", "{profile}: an answer is what was done");
        cleared(&client, false).await;
        answers.push(delete(&client, "k", Condition::Match(WRONG)).await);
        cleared(&client, true).await;
        answers.push(delete(&client, "k", Condition::Match("*")).await);
        cleared(&client, false).await;
        answers.push(delete(&client, "k", Condition::Match("*")).await);
        let answers: Vec<_> = answers.iter().map(|answer| short(answer)).collect();
        assert_eq!(answers, row.delete, "DELETE, {profile}");

        let mut answers = Vec::new();
        let tag = cleared(&client, true).await;
        answers.push(delete_objects(&client, "k", &tag).await);
        assert_eq!(get(&client, "k").await, None);
        cleared(&client, true).await;
        answers.push(delete_objects(&client, "k", WRONG).await);
        let kept = get(&client, "k").await.is_some();
        assert_eq!(kept, row.delete_objects[1] != "ok", "{profile}");
        cleared(&client, false).await;
        answers.push(delete_objects(&client, "k", WRONG).await);
        assert_eq!(answers, row.delete_objects, "DeleteObjects, {profile}");
    }
}

#[tokio::test]
async fn buckets_with_versions() {
    for Row { profile, versioned, .. } in rows() {
        let (_running, client) = start(profile).await;
        let enabled = enable_versions(&client).await;
        let Some(expected) = versioned else {
            assert_eq!(enabled, "501 NotImplemented", "{profile}");
            continue;
        };
        assert_eq!(enabled, "ok", "{profile}");
        let mut answers = Vec::new();
        put(&client, "k", "old").await;
        answers.push(put_if(&client, "k", Condition::Absent).await);
        answers.push(put_if(&client, "k", Condition::Match(WRONG)).await);
        let tag = put(&client, "k", "old").await;
        // Bare, which every store takes.
        let tag = tag.trim_matches('"');
        answers.push(put_if(&client, "k", Condition::Match(tag)).await);
        client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
        answers.push(put_if(&client, "k", Condition::Match(tag)).await);
        client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
        answers.push(put_if(&client, "k", Condition::Absent).await);
        let answers: Vec<_> = answers.iter().map(|answer| short(answer)).collect();
        assert_eq!(answers, expected, "{profile}");
    }
}

#[tokio::test]
async fn reads_and_copy_sources() {
    use Profile::{Ceph, Liar, Spaces, Wasabi};
    for profile in Profile::ALL {
        let (_running, client) = start(profile).await;
        put(&client, "k", "v").await;
        let read = client.get_object().bucket(BUCKET).key("k").if_match(WRONG).send().await;
        let expected = if profile == Liar { "ok" } else { "412 PreconditionFailed" };
        assert_eq!(crate::outcome(read), expected, "{profile}");
        let copy = client.copy_object().bucket(BUCKET).key("copy");
        let copy = copy.copy_source(format!("{BUCKET}/k")).copy_source_if_match(WRONG);
        let lax = matches!(profile, Liar | Ceph | Wasabi | Spaces);
        let expected = if lax { "ok" } else { "412 PreconditionFailed" };
        let copied = copy.customize().mutate_request(without_body).send().await;
        assert_eq!(crate::outcome(copied), expected, "{profile}");
    }
}

#[tokio::test]
async fn tags() {
    for profile in Profile::ALL {
        let (_running, client) = start(profile).await;
        let tags = [put(&client, "a", "same").await, put(&client, "a", "same").await];
        let unique = matches!(profile, Profile::AwsKms | Profile::AwsExpress);
        assert_eq!(tags[0] != tags[1], unique, "{profile}");
        let bare = tags[0].trim_matches('"');
        let hex = bare.len() == 32 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert_eq!(hex, profile != Profile::AwsExpress, "{profile}: {bare}");
        let head = client.head_object().bucket(BUCKET).key("a").send().await.unwrap();
        assert_eq!(head.e_tag(), Some(tags[1].as_str()));
    }
}

#[tokio::test]
async fn how_conditions_are_spelt() {
    let answers = [
        // Profile, a list of tags that has the right one, the right tag in `If-None-Match`, an empty
        // `If-Match`, both headers.
        (Profile::Minio, ["412 PreconditionFailed", "412 PreconditionFailed", "ok", "412"]),
        (Profile::R2, ["ok", "412 PreconditionFailed", "ok", "412"]),
        (Profile::Ceph, ["412 PreconditionFailed", "ok", "412 PreconditionFailed", "412"]),
        (
            Profile::Spaces,
            ["412 PreconditionFailed", "501 NotImplemented", "400 InvalidArgument", "501"],
        ),
    ];
    for (profile, [list, tag_in_create, empty, both]) in answers {
        let (running, client) = start(profile).await;
        let send = async |name: &str, value: &str| {
            Raw::new("PUT", "k").header(name, value).send(&running, "new").await
        };
        let tag = put(&client, "k", "old").await;
        assert_eq!(send("if-match", &format!("\"x\", {tag}")).await, list, "{profile}");
        let tag = put(&client, "k", "old").await;
        assert_eq!(send("if-none-match", &tag).await, tag_in_create, "{profile}");
        assert_eq!(send("if-match", "").await, empty, "{profile}");
        let tag = put(&client, "k", "old").await;
        let request = Raw::new("PUT", "k").header("if-match", tag.trim_matches('"'));
        let answer = request.header("if-none-match", "*").send(&running, "new").await;
        assert!(answer.starts_with(both), "{profile}: {answer}");
    }
}

#[tokio::test]
async fn a_copy_to_r2_has_headers_of_its_own() {
    let (running, client) = start(Profile::R2).await;
    put(&client, "source", "copied").await;
    let tag = put(&client, "k", "old").await;
    let copy = async |name: &str, value: &str| {
        let copy = Raw::new("PUT", "k").header("x-amz-copy-source", "/bucket/source");
        copy.header(name, value).send(&running, "").await
    };
    let none = "cf-copy-destination-if-none-match";
    assert_eq!(copy(none, "*").await, "412 PreconditionFailed");
    assert_eq!(copy("cf-copy-destination-if-match", WRONG).await, "412 PreconditionFailed");
    assert_eq!(get(&client, "k").await.as_deref(), Some("old"));
    assert_eq!(copy("cf-copy-destination-if-match", &tag).await, "ok");
    assert_eq!(get(&client, "k").await.as_deref(), Some("copied"));
}

#[tokio::test]
async fn keys_of_other_stores() {
    let (_running, client) = start(Profile::R2).await;
    put(&client, "e\u{301}", "one object").await;
    assert_eq!(get(&client, "\u{e9}").await.as_deref(), Some("one object"));
    assert_eq!(put_if(&client, "\u{e9}", Condition::Absent).await, "412 PreconditionFailed");

    let (_running, client) = start(Profile::Minio).await;
    put(&client, "/lead", "one object").await;
    assert_eq!(get(&client, "lead").await.as_deref(), Some("one object"));
    for refused in ["a//b", "a/../b"] {
        let answer = put_if(&client, refused, Condition::Absent).await;
        assert_eq!(answer, "400 XMinioInvalidObjectName", "{refused}");
    }

    let (_running, client) = start(Profile::Gcs).await;
    assert_eq!(put_if(&client, "a\nb", Condition::Absent).await, "400 InvalidObjectName");
}

#[tokio::test]
async fn one_write_of_a_key_in_a_while() {
    let interval = Duration::from_millis(400);
    for (profile, too_fast) in
        [(Profile::R2, "429 TooManyRequests"), (Profile::Gcs, "429 SlowDown")]
    {
        let store = DevStore::builder().profile(profile).write_interval(interval);
        let running = store.build().unwrap().start().await.unwrap();
        running.store().create_bucket(BUCKET).await.unwrap();
        let client = client(&running);
        let tag = put(&client, "k", "first").await;
        assert_eq!(put_if(&client, "k", Condition::Match(&tag)).await, too_fast);
        assert_eq!(put_if(&client, "other", Condition::Absent).await, "ok");
        assert_eq!(get(&client, "k").await.as_deref(), Some("first"));
        tokio::time::sleep(interval).await;
        assert_eq!(put_if(&client, "k", Condition::Match(&tag)).await, "ok");
    }
}

#[tokio::test]
async fn bodies_with_trailers() {
    let unsigned = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let signed = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
    let cases = [
        (Profile::Aws, unsigned, "ok"),
        (Profile::Ceph, unsigned, "400 XAmzContentSHA256Mismatch"),
        (Profile::Ceph, signed, "400 XAmzContentSHA256Mismatch"),
        (Profile::Gcs, unsigned, "400 XAmzContentSHA256Mismatch"),
        (Profile::Garage, unsigned, "ok"),
        (Profile::Garage, signed, "400 InvalidRequest"),
    ];
    for (profile, framing, expected) in cases {
        let (running, client) = start(profile).await;
        let put = Raw::new("PUT", "k").payload_hash(framing);
        let put = put.header("content-encoding", "aws-chunked");
        let put = put.header("x-amz-decoded-content-length", "5");
        let put = put.header("x-amz-trailer", "x-amz-checksum-crc32");
        let body = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
        assert_eq!(put.send(&running, body).await, expected, "{profile}, {framing}");
        assert_eq!(get(&client, "k").await.is_some(), expected == "ok", "{profile}");
    }
}

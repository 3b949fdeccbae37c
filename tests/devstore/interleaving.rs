//! Writes that land while another one is on its way.

use crate::raw::{Open, Raw};
use crate::{BUCKET, client, get, outcome, put, start};
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use fencepost::devstore::{DevStore, Effect, Profile, Rule, RunningStore};
use std::time::Duration;

/// Sends half of a PUT of `slow body`, and waits until the store has begun with it.
async fn half_sent(running: &RunningStore, name: &str, value: &str) -> Open {
    let seen = running.store().faults().add(Rule::new(Effect::Observe).header(name, value));
    let mut open = Raw::new("PUT", "k").header(name, value).open(running, 9).await;
    open.write("slow ").await;
    seen.wait_hits(1).await;
    // From the head's arrival to the operation's first step: the signature's arithmetic.
    tokio::time::sleep(Duration::from_millis(30)).await;
    open
}

async fn delete(client: &Client) {
    // Google's store calls it an error where there was nothing.
    let _ = client.delete_object().bucket(BUCKET).key("k").send().await;
}

/// What lands during the slow PUT.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Nothing,
    PutSame,
    PutOther,
    Delete,
    PutDelete,
    DeletePut,
}

impl Meanwhile {
    async fn act(self, client: &Client) {
        match self {
            Self::Nothing => {}
            Self::PutSame => drop(put(client, "k", "v").await),
            Self::PutOther => drop(put(client, "k", "other").await),
            Self::Delete => delete(client).await,
            Self::PutDelete => {
                put(client, "k", "v").await;
                delete(client).await;
            }
            Self::DeletePut => {
                delete(client).await;
                put(client, "k", "v").await;
            }
        }
    }
}

#[tokio::test]
async fn a_slow_put_overtaken() {
    use Meanwhile::{Delete, DeletePut, Nothing, PutDelete, PutOther, PutSame};
    const CONFLICT: &str = "409 ConditionalRequestConflict";
    const FAILED: &str = "412 PreconditionFailed";
    // Whether the key exists before, what lands, and what Aws and Minio answer.
    let if_none_match = [
        (false, Nothing, "ok", "ok"),
        (false, PutSame, FAILED, FAILED),
        (false, Delete, CONFLICT, "ok"),
        (false, PutDelete, CONFLICT, "ok"),
        (true, Delete, CONFLICT, "ok"),
        (true, Nothing, FAILED, FAILED),
    ];
    let if_match = [
        (true, Nothing, "ok", "ok"),
        (true, PutSame, CONFLICT, "ok"),
        (true, DeletePut, CONFLICT, "ok"),
        (true, PutOther, FAILED, FAILED),
        (true, Delete, "404 NoSuchKey", "404 NoSuchKey"),
        (true, PutDelete, "404 NoSuchKey", "404 NoSuchKey"),
    ];
    let created = if_none_match.map(|case| ("if-none-match", case));
    let cases: Vec<_> =
        created.into_iter().chain(if_match.map(|case| ("if-match", case))).collect();
    for profile in Profile::ALL {
        let (running, client) = start(profile).await;
        for (name, (exists, meanwhile, aws, minio)) in cases.iter().copied() {
            // Where there is nothing to delete, whatever the answer.
            let _ = client.delete_object().bucket(BUCKET).key("k").send().await;
            let tag = if exists { put(&client, "k", "v").await } else { String::new() };
            // Bare, which every store takes.
            let value = if name == "if-match" { tag.trim_matches('"') } else { "*" };
            let mut slow = half_sent(&running, name, value).await;
            meanwhile.act(&client).await;
            slow.write("body").await;
            let expected = overtaken(profile, name, meanwhile, [aws, minio]);
            let context = format!("{profile}, {name}, {exists}, {meanwhile:?}");
            assert_eq!(slow.answer().await, expected, "{context}");
            let landed = get(&client, "k").await.as_deref() == Some("slow body");
            assert_eq!(landed, expected == "ok", "{context}");
        }
    }
}

/// What a profile answers where Aws and Minio answer so.
fn overtaken(
    profile: Profile,
    name: &str,
    meanwhile: Meanwhile,
    [aws, minio]: [&'static str; 2],
) -> &'static str {
    let put_again = matches!(meanwhile, Meanwhile::PutSame | Meanwhile::DeletePut);
    match profile {
        Profile::Aws => aws,
        // The same bytes have another tag.
        Profile::AwsKms | Profile::AwsExpress if name == "if-match" && put_again => {
            "412 PreconditionFailed"
        }
        Profile::AwsKms | Profile::AwsExpress => aws,
        Profile::Minio | Profile::Racy => minio,
        Profile::R2 | Profile::Ceph | Profile::Spaces if minio == "404 NoSuchKey" => {
            "412 PreconditionFailed"
        }
        Profile::R2 | Profile::Ceph | Profile::Spaces => minio,
        Profile::Wasabi | Profile::Garage | Profile::Gcs | Profile::Liar => "ok",
    }
}

#[tokio::test]
async fn a_wrong_tag_from_the_start_is_412_whatever_lands() {
    let (running, client) = start(Profile::Aws).await;
    put(&client, "k", "v").await;
    let mut slow = half_sent(&running, "if-match", "\"0000\"").await;
    put(&client, "k", "v").await;
    slow.write("body").await;
    assert_eq!(slow.answer().await, "412 PreconditionFailed");
}

/// An upload of one part to `k`, and Complete's outcome after something has landed.
async fn complete_after(
    client: &Client,
    meanwhile: Meanwhile,
    if_match: Option<&str>,
) -> (String, Option<String>) {
    let create = client.create_multipart_upload().bucket(BUCKET).key("k").send().await.unwrap();
    let id = create.upload_id().unwrap();
    let part = client.upload_part().bucket(BUCKET).key("k").upload_id(id).part_number(1);
    let part = part.body(ByteStream::from_static(b"part")).send().await.unwrap();
    meanwhile.act(client).await;
    let part = CompletedPart::builder().part_number(1).e_tag(part.e_tag().unwrap()).build();
    let parts = CompletedMultipartUpload::builder().parts(part).build();
    let complete = client.complete_multipart_upload().bucket(BUCKET).key("k").upload_id(id);
    let complete = complete.multipart_upload(parts);
    let complete = match if_match {
        Some(tag) => complete.if_match(tag),
        None => complete.if_none_match("*"),
    };
    (outcome(complete.send().await), get(client, "k").await)
}

#[tokio::test]
async fn complete_is_fenced_from_create() {
    let (_running, client) = start(Profile::Aws).await;
    let tag = put(&client, "k", "v").await;
    let after = async |meanwhile, tag| complete_after(&client, meanwhile, tag).await.0;
    let tag = Some(tag.as_str());
    // Right, and yet too late: only a new upload helps.
    assert_eq!(after(Meanwhile::PutSame, tag).await, "409 ConditionalRequestConflict");
    assert_eq!(after(Meanwhile::DeletePut, tag).await, "409 ConditionalRequestConflict");
    assert_eq!(after(Meanwhile::PutOther, tag).await, "412 PreconditionFailed");
    assert_eq!(after(Meanwhile::Delete, tag).await, "404 NoSuchKey");
    assert_eq!(after(Meanwhile::PutSame, None).await, "412 PreconditionFailed");
    assert_eq!(after(Meanwhile::Delete, None).await, "409 ConditionalRequestConflict");
    let (created, body) = complete_after(&client, Meanwhile::Nothing, None).await;
    assert_eq!((created.as_str(), body.as_deref()), ("ok", Some("part")));
    put(&client, "k", "v").await;
    assert_eq!(after(Meanwhile::Nothing, tag).await, "ok");
}

#[tokio::test]
async fn a_body_that_breaks_off_changes_nothing() {
    let (running, client) = start(Profile::Aws).await;
    put(&client, "k", "old").await;
    // The first rule that matches counts, so this one sees the end of the slow request.
    let slow_put = Rule::new(Effect::LoseAnswer).header("x-amz-meta-a", "b");
    let slow_put = running.store().faults().add(slow_put);
    let mut open = Raw::new("PUT", "k").header("x-amz-meta-a", "b").open(&running, 9).await;
    open.write("slow ").await;
    slow_put.wait_hits(1).await;
    drop(open);
    slow_put.wait_finished(1).await;
    assert_eq!(get(&client, "k").await.as_deref(), Some("old"));
    assert_eq!(running.store().history().len(), 1);
}

#[tokio::test]
async fn a_body_that_stops_arriving_is_cut_off() {
    let timeout = Duration::from_millis(150);
    let store = DevStore::builder().body_idle_timeout(timeout).history(true).build().unwrap();
    let running = store.start().await.unwrap();
    store.create_bucket(BUCKET).await.unwrap();
    let slow = half_sent(&running, "x-amz-meta-a", "b").await;
    let answer = tokio::time::timeout(Duration::from_secs(5), slow.answer()).await.unwrap();
    assert_eq!(answer, "400 RequestTimeout");
    assert_eq!(get(&client(&running), "k").await, None);
    assert!(running.store().history().is_empty());
}

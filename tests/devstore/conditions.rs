//! Conditions as Amazon S3 takes them, beyond the table of `profiles`.

use crate::operations::{Condition, delete, enable_versions, put as conditional_put};
use crate::raw::Raw;
use crate::{BUCKET, get, outcome, put, start};
use fencepost::devstore::Profile;

const WRONG: &str = "\"00000000000000000000000000000000\"";

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
    assert_eq!(enable_versions(&client).await, "ok");

    let tag = put(&client, "k", "v").await;
    client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(conditional_put(&client, "k", Condition::Match(&tag)).await, "404 NoSuchKey");
    assert_eq!(delete(&client, "k", Condition::Match(&tag)).await, "404 NoSuchKey");
    assert_eq!(conditional_put(&client, "k", Condition::Absent).await, "ok");
    assert_eq!(
        conditional_put(&client, "k", Condition::Match(&tag)).await,
        "412 PreconditionFailed"
    );

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

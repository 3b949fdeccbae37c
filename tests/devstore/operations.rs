//! Every operation that takes a condition, with one, by the SDK.

use crate::{BUCKET, outcome, put as put_plain};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpRequest;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    BucketVersioningStatus, CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier,
    VersioningConfiguration,
};

/// What a request wants to be true.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition<'a> {
    /// `If-None-Match: *`.
    Absent,
    /// `If-Match`, as it is sent.
    Match(&'a str),
}

impl Condition<'_> {
    /// `If-Match` and `If-None-Match`.
    fn headers(self) -> (Option<String>, Option<String>) {
        match self {
            Self::Absent => (None, Some("*".to_owned())),
            Self::Match(tag) => (Some(tag.to_owned()), None),
        }
    }
}

pub(crate) async fn put(client: &Client, key: &str, condition: Condition<'_>) -> String {
    let (if_match, if_none_match) = condition.headers();
    let request = client.put_object().bucket(BUCKET).key(key);
    let request = request.body(ByteStream::from_static(b"new"));
    let request = request.set_if_match(if_match).set_if_none_match(if_none_match);
    outcome(request.send().await)
}

pub(crate) async fn copy(client: &Client, key: &str, condition: Condition<'_>) -> String {
    put_plain(client, "source", "copied").await;
    let (if_match, if_none_match) = condition.headers();
    let request = client.copy_object().bucket(BUCKET).key(key);
    let request = request.copy_source(format!("{BUCKET}/source"));
    let request = request.set_if_match(if_match).set_if_none_match(if_none_match);
    outcome(request.customize().mutate_request(without_body).send().await)
}

/// Says that there is no body, which the SDK does not and Cloud Storage insists on (411).
pub(crate) fn without_body(request: &mut HttpRequest) {
    request.headers_mut().insert("content-length", "0");
}

/// An upload of one part, begun after everything that was there before.
pub(crate) async fn complete(client: &Client, key: &str, condition: Condition<'_>) -> String {
    let (if_match, if_none_match) = condition.headers();
    let create = client.create_multipart_upload().bucket(BUCKET).key(key).customize();
    let create = create.mutate_request(without_body).send().await.unwrap();
    let id = create.upload_id().unwrap();
    let part = client.upload_part().bucket(BUCKET).key(key).upload_id(id).part_number(1);
    let part = part.body(ByteStream::from_static(b"part")).send().await.unwrap();
    let part = CompletedPart::builder().part_number(1).e_tag(part.e_tag().unwrap()).build();
    let parts = CompletedMultipartUpload::builder().parts(part).build();
    let request = client.complete_multipart_upload().bucket(BUCKET).key(key).upload_id(id);
    let request = request.multipart_upload(parts);
    let request = request.set_if_match(if_match).set_if_none_match(if_none_match);
    outcome(request.send().await)
}

pub(crate) async fn delete(client: &Client, key: &str, condition: Condition<'_>) -> String {
    let request = client.delete_object().bucket(BUCKET).key(key);
    outcome(request.set_if_match(condition.headers().0).send().await)
}

/// `ok`, or the code that the answer has for the key.
pub(crate) async fn delete_objects(client: &Client, key: &str, tag: &str) -> String {
    let object = ObjectIdentifier::builder().key(key).e_tag(tag).build().unwrap();
    let delete = Delete::builder().objects(object).build().unwrap();
    let answer = client.delete_objects().bucket(BUCKET).delete(delete).send().await.unwrap();
    match answer.errors() {
        [] => "ok".to_owned(),
        [error] => error.code().unwrap().to_owned(),
        more => panic!("{more:?}"),
    }
}

pub(crate) async fn enable_versions(client: &Client) -> String {
    let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled);
    let enable = client.put_bucket_versioning().bucket(BUCKET);
    outcome(enable.versioning_configuration(enabled.build()).send().await)
}

//! A bucket that is not fenced: every operation passes as if the proxy were not there.

use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    BucketVersioningStatus, CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier, Tag,
    Tagging, VersioningConfiguration,
};
use fencepost::devstore::Profile;

use super::support::{Backend, DATA};

const OFF: &str = "[[bucket]]\nname = \"data\"\nmode = \"off\"\n";

/// S3's smallest part that is not the last one.
const PART: usize = 5 * 1024 * 1024;

fn bytes(bytes: &'static [u8]) -> ByteStream {
    ByteStream::from_static(bytes)
}

#[tokio::test]
async fn multipart_uploads_pass() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(OFF).await;
    let client = backend.sdk(Some(proxy.endpoint()));
    client.put_object().bucket(DATA).key("source").body(bytes(b"tail")).send().await.unwrap();
    let created = client.create_multipart_upload().bucket(DATA).key("k").send().await.unwrap();
    let id = created.upload_id().unwrap();
    let part = client.upload_part().bucket(DATA).key("k").upload_id(id).part_number(1);
    let part = part.body(ByteStream::from(vec![b'a'; PART])).send().await.unwrap();
    let copy = client.upload_part_copy().bucket(DATA).key("k").upload_id(id).part_number(2);
    let copy = copy.copy_source("data/source").send().await.unwrap();
    let parts = client.list_parts().bucket(DATA).key("k").upload_id(id).send().await.unwrap();
    assert_eq!(parts.parts().len(), 2);
    let copied = copy.copy_part_result().unwrap();
    let etags = [part.e_tag().unwrap(), copied.e_tag().unwrap()];
    let parts = (1..)
        .zip(etags)
        .map(|(number, etag)| CompletedPart::builder().part_number(number).e_tag(etag).build());
    let parts = CompletedMultipartUpload::builder().set_parts(Some(parts.collect())).build();
    let done = client.complete_multipart_upload().bucket(DATA).key("k").upload_id(id);
    let done = done.multipart_upload(parts).send().await.unwrap();
    assert!(done.e_tag().unwrap().ends_with("-2\""));
    assert_eq!(backend.bytes("k").await.unwrap().len(), PART + 4);

    let other = client.create_multipart_upload().bucket(DATA).key("l").send().await.unwrap();
    let abort = client.abort_multipart_upload().bucket(DATA).key("l");
    abort.upload_id(other.upload_id().unwrap()).send().await.unwrap();
    let left = client.list_multipart_uploads().bucket(DATA).send().await.unwrap();
    assert!(left.uploads().is_empty());
}

#[tokio::test]
async fn copies_tags_and_deletes_of_many_pass() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(OFF).await;
    let client = backend.sdk(Some(proxy.endpoint()));
    client.put_object().bucket(DATA).key("a").body(bytes(b"one")).send().await.unwrap();
    let copy = client.copy_object().bucket(DATA).key("b").copy_source("data/a");
    copy.send().await.unwrap();
    let tag = Tag::builder().key("colour").value("red").build().unwrap();
    let tags = Tagging::builder().tag_set(tag).build().unwrap();
    client.put_object_tagging().bucket(DATA).key("b").tagging(tags).send().await.unwrap();
    let tags = client.get_object_tagging().bucket(DATA).key("b").send().await.unwrap();
    assert_eq!(tags.tag_set()[0].value(), "red");
    client.delete_object_tagging().bucket(DATA).key("b").send().await.unwrap();
    assert_eq!(backend.bytes("b").await.unwrap(), b"one");
    let ids = ["a", "b", "c"].map(|key| ObjectIdentifier::builder().key(key).build().unwrap());
    let delete = Delete::builder().set_objects(Some(ids.into())).build().unwrap();
    let deleted = client.delete_objects().bucket(DATA).delete(delete).send().await.unwrap();
    assert_eq!(deleted.deleted().len(), 3);
    assert_eq!((backend.bytes("a").await, backend.bytes("b").await), (None, None));
}

#[tokio::test]
async fn versions_pass() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(OFF).await;
    let client = backend.sdk(Some(proxy.endpoint()));
    let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled);
    let enabled =
        client.put_bucket_versioning().bucket(DATA).versioning_configuration(enabled.build());
    enabled.send().await.unwrap();
    let put = |body| client.put_object().bucket(DATA).key("k").body(bytes(body)).send();
    let first = put(b"one").await.unwrap();
    put(b"two").await.unwrap();
    let marker = client.delete_object().bucket(DATA).key("k").send().await.unwrap();
    assert_eq!(marker.delete_marker(), Some(true));
    let id = first.version_id().unwrap();
    let old = client.get_object().bucket(DATA).key("k").version_id(id).send().await.unwrap();
    assert_eq!(old.body.collect().await.unwrap().to_vec(), b"one");
    client.delete_object().bucket(DATA).key("k").version_id(id).send().await.unwrap();
    let versions = client.list_object_versions().bucket(DATA).send().await.unwrap();
    assert_eq!((versions.versions().len(), versions.delete_markers().len()), (1, 1));
}

/// Nothing is buffered or replayed there; a body of any size streams.
#[tokio::test]
async fn large_bodies_pass() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(OFF).await;
    let client = backend.sdk(Some(proxy.endpoint()));
    let large = vec![b'z'; 12 * 1024 * 1024];
    let put = client.put_object().bucket(DATA).key("k").body(ByteStream::from(large.clone()));
    tokio::time::timeout(Duration::from_secs(30), put.send()).await.unwrap().unwrap();
    assert_eq!(backend.bytes("k").await.unwrap(), large);
}

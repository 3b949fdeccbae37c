//! The operations of S3, on the trait of `s3s`, which has already parsed and verified the request.
//!
//! One file per family; the trait's single block below is their table of contents. Operations that
//! are not in it answer 501 `NotImplemented`.

mod bucket;
mod copy;
mod list;
mod multipart;
mod object;
mod tagging;

pub(super) use object::epoch_seconds;

use super::conditions::unquoted;
use super::store::Store;
use async_trait::async_trait;
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use std::sync::Arc;
use std::time::SystemTime;

/// The operations on one store.
#[derive(Debug)]
pub(super) struct Operations {
    pub(super) store: Arc<Store>,
}

macro_rules! operations {
    ($($name:ident: $input:ident $([$key:ident])? -> $output:ident;)*) => {
        #[async_trait]
        impl S3 for Operations {
            $(async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                $(let request = {
                    let mut request = request;
                    let key = &mut request.input.$key;
                    *key = self.store.key(std::mem::take(key))?;
                    request
                };)?
                self.$name(request).await.map(S3Response::new)
            })*
        }
    };
}

// `[key]`: the input has a key, which the profile may spell otherwise.
operations! {
    create_bucket: CreateBucketInput -> CreateBucketOutput;
    delete_bucket: DeleteBucketInput -> DeleteBucketOutput;
    head_bucket: HeadBucketInput -> HeadBucketOutput;
    list_buckets: ListBucketsInput -> ListBucketsOutput;
    get_bucket_location: GetBucketLocationInput -> GetBucketLocationOutput;
    get_bucket_versioning: GetBucketVersioningInput -> GetBucketVersioningOutput;
    put_bucket_versioning: PutBucketVersioningInput -> PutBucketVersioningOutput;

    put_object: PutObjectInput[key] -> PutObjectOutput;
    get_object: GetObjectInput[key] -> GetObjectOutput;
    head_object: HeadObjectInput[key] -> HeadObjectOutput;
    delete_object: DeleteObjectInput[key] -> DeleteObjectOutput;
    delete_objects: DeleteObjectsInput -> DeleteObjectsOutput;
    copy_object: CopyObjectInput[key] -> CopyObjectOutput;

    list_objects: ListObjectsInput -> ListObjectsOutput;
    list_objects_v2: ListObjectsV2Input -> ListObjectsV2Output;
    list_object_versions: ListObjectVersionsInput -> ListObjectVersionsOutput;

    get_object_tagging: GetObjectTaggingInput[key] -> GetObjectTaggingOutput;
    put_object_tagging: PutObjectTaggingInput[key] -> PutObjectTaggingOutput;
    delete_object_tagging: DeleteObjectTaggingInput[key] -> DeleteObjectTaggingOutput;

    create_multipart_upload: CreateMultipartUploadInput[key] -> CreateMultipartUploadOutput;
    upload_part: UploadPartInput[key] -> UploadPartOutput;
    upload_part_copy: UploadPartCopyInput[key] -> UploadPartCopyOutput;
    complete_multipart_upload: CompleteMultipartUploadInput[key] -> CompleteMultipartUploadOutput;
    abort_multipart_upload: AbortMultipartUploadInput[key] -> AbortMultipartUploadOutput;
    list_parts: ListPartsInput[key] -> ListPartsOutput;
    list_multipart_uploads: ListMultipartUploadsInput -> ListMultipartUploadsOutput;
}

/// The owner of everything.
const OWNER_ID: &str = "fencepost";

/// The most items in one page of any listing (`ListObjectsV2`, "MaxKeys").
const PAGE_ITEMS_MAX: i32 = 1000;

fn owner() -> Owner {
    Owner { display_name: Some(OWNER_ID.to_owned()), id: Some(OWNER_ID.to_owned()) }
}

fn etag(tag: &str) -> ETag {
    ETag::Strong(tag.to_owned())
}

fn etag_text(tag: &ETag) -> &str {
    unquoted(tag.value())
}

/// A time as S3 shows it: whole seconds.
fn timestamp(time: SystemTime) -> Timestamp {
    super::conditions::whole_seconds(time).into()
}

/// A count or a size as S3's signed numbers.
fn signed(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// A page size: the default when absent, capped, never negative.
fn page_size(asked: Option<i32>) -> S3Result<usize> {
    let asked = asked.unwrap_or(PAGE_ITEMS_MAX).min(PAGE_ITEMS_MAX);
    usize::try_from(asked).map_err(|_| s3_error!(InvalidArgument, "a page size is not negative"))
}

//! Operations on buckets.

use super::{Operations, owner, timestamp};
use crate::devstore::index::{Bucket, Versioning};
use crate::devstore::profile::Offer;
use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

/// Where a bucket is when its creator did not say; Amazon leaves the location empty for it.
const DEFAULT_REGION: &str = "us-east-1";

impl Operations {
    pub(super) async fn create_bucket(
        &self,
        request: S3Request<CreateBucketInput>,
    ) -> S3Result<CreateBucketOutput> {
        let name = request.input.bucket;
        let location = Some(format!("/{name}"));
        self.store.write(move |index, store| index.create_bucket(store, &name)).await?;
        Ok(CreateBucketOutput { location })
    }

    pub(super) async fn delete_bucket(
        &self,
        request: S3Request<DeleteBucketInput>,
    ) -> S3Result<DeleteBucketOutput> {
        let name = request.input.bucket;
        let delete = move |index: &mut crate::devstore::index::Index, store: &_| {
            index.delete_bucket(store, &name)
        };
        self.store.write(delete).await?;
        Ok(DeleteBucketOutput {})
    }

    pub(super) async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<HeadBucketOutput> {
        self.store.read(|index| index.bucket(&request.input.bucket).map(|_| ()))?;
        let bucket_region = Some(DEFAULT_REGION.to_owned());
        Ok(HeadBucketOutput { bucket_region, ..HeadBucketOutput::default() })
    }

    pub(super) async fn list_buckets(
        &self,
        request: S3Request<ListBucketsInput>,
    ) -> S3Result<ListBucketsOutput> {
        let prefix = request.input.prefix.clone().unwrap_or_default();
        let shown = |(name, bucket): (&String, &Bucket)| s3s::dto::Bucket {
            bucket_region: Some(DEFAULT_REGION.to_owned()),
            creation_date: Some(timestamp(bucket.created)),
            name: Some(name.clone()),
        };
        let buckets = self.store.read(|index| {
            let wanted = index.buckets.iter().filter(|(name, _)| name.starts_with(&prefix));
            Ok(wanted.map(shown).collect())
        })?;
        Ok(ListBucketsOutput {
            buckets: Some(buckets),
            owner: Some(owner()),
            prefix: request.input.prefix,
            ..ListBucketsOutput::default()
        })
    }

    pub(super) async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> S3Result<GetBucketLocationOutput> {
        self.store.read(|index| index.bucket(&request.input.bucket).map(|_| ()))?;
        Ok(GetBucketLocationOutput { location_constraint: None })
    }

    pub(super) async fn get_bucket_versioning(
        &self,
        request: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<GetBucketVersioningOutput> {
        let versioning =
            self.store.read(|index| Ok(index.bucket(&request.input.bucket)?.versioning))?;
        let status = match versioning {
            Versioning::Never => None,
            Versioning::Enabled => Some(BucketVersioningStatus::ENABLED),
            Versioning::Suspended => Some(BucketVersioningStatus::SUSPENDED),
        };
        Ok(GetBucketVersioningOutput {
            status: status.map(BucketVersioningStatus::from_static),
            ..GetBucketVersioningOutput::default()
        })
    }

    pub(super) async fn put_bucket_versioning(
        &self,
        request: S3Request<PutBucketVersioningInput>,
    ) -> S3Result<PutBucketVersioningOutput> {
        match self.store.behaviour.versioning {
            Offer::Offered => {}
            Offer::Refused => return Err(s3_error!(NotImplemented, "there are no versions here")),
        }
        let PutBucketVersioningInput { bucket, versioning_configuration, .. } = request.input;
        let status = versioning_configuration.status;
        let versioning = match status.as_ref().map(BucketVersioningStatus::as_str) {
            Some(BucketVersioningStatus::ENABLED) => Versioning::Enabled,
            Some(BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
            _ => return Err(s3_error!(IllegalVersioningConfigurationException)),
        };
        self.store
            .write(move |index, store| index.set_versioning(store, &bucket, versioning))
            .await?;
        Ok(PutBucketVersioningOutput {})
    }
}

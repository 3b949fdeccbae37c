//! Changes to buckets themselves: part of the index, apart from the changes to objects.

use super::index::{Bucket, Index, Versioning};
use super::store::Store;
use s3s::{S3Result, s3_error};
use std::collections::btree_map::Entry;

impl Index {
    /// # Errors
    ///
    /// `BucketAlreadyOwnedByYou`.
    pub(super) fn create_bucket(&mut self, store: &Store, name: &str) -> S3Result<()> {
        let bucket = Bucket::new(store.clock.now(), Versioning::Never);
        let saved = match self.buckets.entry(name.to_owned()) {
            Entry::Occupied(_) => {
                return Err(s3_error!(
                    BucketAlreadyOwnedByYou,
                    "Your previous request to create the named bucket succeeded and you already \
                     own it."
                ));
            }
            Entry::Vacant(entry) => {
                let saved = store.medium.save_bucket(name, &bucket);
                entry.insert(bucket);
                saved
            }
        };
        self.saved(saved)
    }

    /// # Errors
    ///
    /// `NoSuchBucket`, `BucketNotEmpty`.
    pub(super) fn delete_bucket(&mut self, store: &Store, name: &str) -> S3Result<()> {
        if !self.bucket(name)?.is_empty() {
            return Err(s3_error!(BucketNotEmpty, "The bucket you tried to delete is not empty"));
        }
        let saved = store.medium.remove_bucket(name);
        self.saved(saved)?;
        self.buckets.remove(name);
        Ok(())
    }

    /// # Errors
    ///
    /// `NoSuchBucket`.
    pub(super) fn set_versioning(
        &mut self,
        store: &Store,
        name: &str,
        versioning: Versioning,
    ) -> S3Result<()> {
        let bucket = self.bucket_mut(name)?;
        bucket.versioning = versioning;
        let saved = store.medium.save_bucket(name, bucket);
        self.saved(saved)
    }
}

//! Changes to multipart uploads: part of the index, apart from the changes to objects.

use super::index::{Index, Target, Written};
use super::multipart::{Part, Upload};
use super::object::Content;
use super::store::{Store, random_id};
use s3s::S3Result;

impl Index {
    /// Begins an upload and returns its id. From here on Complete notices other writes.
    pub(super) fn create_upload(
        &mut self,
        store: &Store,
        bucket: &str,
        mut upload: Upload,
    ) -> S3Result<String> {
        self.bucket(bucket)?;
        upload.started = self.sequence;
        self.sequence += 1;
        // The running number first, so that ids are in the order of creation.
        let id = format!("{:016x}{}", self.sequence, random_id());
        let saved = store.medium.save_upload(bucket, &id, &upload);
        self.saved(saved)?;
        self.bucket_mut(bucket)?.uploads.insert(&id, upload);
        Ok(id)
    }

    /// Adds a part, or replaces the one with its number.
    pub(super) fn add_part(
        &mut self,
        store: &Store,
        bucket: &str,
        key: &str,
        id: &str,
        number: u16,
        part: Part,
    ) -> S3Result<()> {
        let upload = self.bucket_mut(bucket)?.uploads.get_mut(key, id)?;
        upload.parts.insert(number, part);
        let saved = store.medium.save_upload(bucket, id, upload);
        self.saved(saved)
    }

    /// Makes the object of an upload and ends it, if the condition holds; otherwise it stays.
    pub(super) fn complete_upload(
        &mut self,
        store: &Store,
        target: &Target,
        id: &str,
        content: Content,
    ) -> S3Result<Written> {
        // Two Completes of one upload: the second finds it gone.
        self.bucket(&target.bucket)?.uploads.get(&target.key, id)?;
        let written = self.put(store, target, content)?;
        self.abort_upload(store, &target.bucket, &target.key, id)?;
        Ok(written)
    }

    /// Ends an upload and drops its parts.
    pub(super) fn abort_upload(
        &mut self,
        store: &Store,
        bucket: &str,
        key: &str,
        id: &str,
    ) -> S3Result<()> {
        self.bucket(bucket)?.uploads.get(key, id)?;
        let saved = store.medium.remove_upload(bucket, id);
        self.saved(saved)?;
        self.bucket_mut(bucket)?.uploads.remove(key, id);
        Ok(())
    }
}

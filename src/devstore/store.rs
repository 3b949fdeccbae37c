//! The store behind the wire: the index under its lock, its medium, its clock and its history.

use super::clock::StoreClock;
use super::conditions::WriteCondition;
use super::disk::Medium;
use super::history::History;
use super::index::{Deleted, Index, Target, Written};
use super::object::Content;
use super::profile::{Behaviour, Commit, Interleaving, Operation, Profile, Tags};
use crate::clock;
use s3s::{S3Error, S3Result, s3_error};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Shared by every request.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) profile: Profile,
    pub(super) behaviour: &'static Behaviour,
    pub(super) clock: StoreClock,
    pub(super) history: History,
    pub(super) medium: Medium,
    /// How long [`Commit::CheckThenAct`] waits between looking and acting.
    pub(super) race_window: Duration,
    pub(super) index: Mutex<Index>,
}

impl Store {
    fn lock(&self) -> S3Result<MutexGuard<'_, Index>> {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if index.failed {
            return Err(s3_error!(InternalError, "an earlier change could not be saved"));
        }
        Ok(index)
    }

    /// Looks at the index. On disk this may wait for another request's fsync.
    pub(super) fn read<R>(&self, look: impl FnOnce(&Index) -> S3Result<R>) -> S3Result<R> {
        look(&*self.lock()?)
    }

    /// Changes the index: `change` runs under the lock, so everything it looks at stays as it is
    /// until it has changed it.
    pub(super) async fn write<R: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Index, &Self) -> S3Result<R> + Send + 'static,
    ) -> S3Result<R> {
        match &self.medium {
            Medium::Memory => change(&mut *self.lock()?, self),
            // A change on disk waits for fsync, which must not hold up the runtime's threads.
            Medium::Disk(_) => {
                let store = self.clone();
                let run = move || change(&mut *store.lock()?, &store);
                tokio::task::spawn_blocking(run).await.map_err(S3Error::internal_error)?
            }
        }
    }

    /// What is left of a condition in an operation that may ignore it.
    pub(super) fn effective(
        &self,
        operation: Operation,
        bucket: &str,
        condition: WriteCondition,
    ) -> S3Result<WriteCondition> {
        let honours = self.behaviour.honours(operation);
        let buckets = match condition {
            WriteCondition::None => return Ok(condition),
            WriteCondition::Absent => honours.create,
            WriteCondition::Present | WriteCondition::Match(_) => honours.swap,
        };
        let versioning = self.read(|index| index.bucket(bucket).map(|bucket| bucket.versioning))?;
        Ok(if buckets.contain(versioning) { condition } else { WriteCondition::None })
    }

    /// Begins a write: the bucket exists, and from here on interleaving changes are noticed.
    pub(super) fn begin(&self, bucket: &str) -> S3Result<u64> {
        let sequence = self.read(|index| index.bucket(bucket).map(|_| index.sequence))?;
        Ok(self.noticed_since(sequence))
    }

    /// From where on an interleaving change is noticed, for a request that began at `sequence`.
    pub(super) fn noticed_since(&self, sequence: u64) -> u64 {
        match self.behaviour.interleaving {
            Interleaving::Detected => sequence,
            Interleaving::JudgedAtCommit => u64::MAX,
        }
    }

    /// Commits an object whose body has arrived.
    pub(super) async fn put(
        self: &Arc<Self>,
        target: Target,
        content: Content,
    ) -> S3Result<Written> {
        let target = self.open_race_window(target).await?;
        self.write(move |index, store| index.put(store, &target, content)).await
    }

    /// Deletes the current version.
    pub(super) async fn delete(self: &Arc<Self>, target: Target) -> S3Result<Deleted> {
        let target = self.open_race_window(target).await?;
        self.write(move |index, store| index.delete(store, &target)).await
    }

    /// [`Commit::CheckThenAct`]: judge now, wait, and let the caller act without a condition.
    pub(super) async fn open_race_window(&self, target: Target) -> S3Result<Target> {
        match self.behaviour.commit {
            Commit::Atomic => return Ok(target),
            Commit::CheckThenAct if target.condition == WriteCondition::None => return Ok(target),
            Commit::CheckThenAct => {}
        }
        self.read(|index| index.check(&target))?;
        tokio::time::sleep(self.race_window).await;
        Ok(Target { condition: WriteCondition::None, ..target })
    }

    /// The entity tag of a body with this MD5.
    pub(super) fn etag(&self, md5_hex: &str) -> String {
        match self.behaviour.tags {
            Tags::Md5 => md5_hex.to_owned(),
            Tags::RandomHex => random_id(),
        }
    }

    /// The entity tag of a multipart object.
    pub(super) fn multipart_etag(&self, md5_of_md5s_hex: &str, parts: usize) -> String {
        format!("{}-{parts}", self.etag(md5_of_md5s_hex))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Before the index goes: dropping it must not look like deleting every object.
        self.medium.close();
    }
}

/// 128 random bits in hex.
pub(super) fn random_id() -> String {
    format!("{:032x}", clock::random_u128())
}

//! The store behind the wire: the index under its lock, its medium, its clock and its history.

use super::clock::StoreClock;
use super::conditions::{Asked, WriteCondition};
use super::disk::Medium;
use super::generation::Admitted;
use super::history::History;
use super::index::{Deleted, Index, Target, Written};
use super::keys;
use super::object::Content;
use super::pace::Pace;
use super::profile::{Behaviour, Commit, Interleaving, Operation, Profile, Tags};
use crate::clock;
use http::Extensions;
use s3s::{S3Error, S3Result, s3_error};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many letters and digits hold 128 bits.
const ALPHANUMERIC_LEN: usize = 25;

/// Shared by every request.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) profile: Profile,
    pub(super) behaviour: &'static Behaviour,
    pub(super) clock: StoreClock,
    pub(super) history: History,
    pub(super) medium: Medium,
    /// How long to wait between looking and acting, where the profile's own time is not wanted.
    pub(super) race_window: Option<Duration>,
    pub(super) pace: Pace,
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

    /// The condition of a request, as far as this profile looks at it.
    pub(super) fn condition(
        &self,
        operation: Operation,
        bucket: &str,
        asked: Asked<'_>,
        extensions: &Extensions,
    ) -> S3Result<WriteCondition> {
        let generations = Admitted::of(extensions).conditions;
        if !generations.are_free() {
            return Ok(WriteCondition::Generation(generations));
        }
        let honours = self.behaviour.honours(operation);
        let versioning = self.read(|index| index.bucket(bucket).map(|bucket| bucket.versioning))?;
        let (swap, create) = (honours.swap.contain(versioning), honours.create.contain(versioning));
        asked.looked_at(swap, create).read(self.behaviour.spelling)
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

    /// Where a profile looks at a condition before it acts: judge now, wait, and leave to the
    /// caller what is left of it.
    pub(super) async fn open_race_window(&self, mut target: Target) -> S3Result<Target> {
        let (pause, left): (_, fn(WriteCondition) -> WriteCondition) = match self.behaviour.commit {
            Commit::Atomic => return Ok(target),
            Commit::CheckThenAct(pause) => (pause, |_| WriteCondition::None),
            Commit::CheckThenSwap(pause) => (pause, WriteCondition::raced),
        };
        if target.condition == WriteCondition::None {
            return Ok(target);
        }
        self.read(|index| index.check(self, &target))?;
        tokio::time::sleep(self.race_window.unwrap_or(pause)).await;
        target.condition = left(target.condition);
        Ok(target)
    }

    /// A key as this profile has it.
    ///
    /// # Errors
    ///
    /// A key that it refuses.
    pub(super) fn key(&self, key: String) -> S3Result<String> {
        keys::spelt(key, self.behaviour.keys)
    }

    /// The entity tag of a body with this MD5.
    pub(super) fn etag(&self, md5_hex: &str) -> String {
        match self.behaviour.tags {
            Tags::Md5 => md5_hex.to_owned(),
            Tags::RandomHex => random_id(),
            Tags::Opaque => random_alphanumeric(),
        }
    }

    /// The entity tag of a multipart object.
    pub(super) fn multipart_etag(&self, md5_of_md5s_hex: &str, parts: usize) -> String {
        let etag = self.etag(md5_of_md5s_hex);
        match self.behaviour.tags {
            Tags::Md5 | Tags::RandomHex => format!("{etag}-{parts}"),
            Tags::Opaque => etag,
        }
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

/// 128 random bits in letters and digits.
fn random_alphanumeric() -> String {
    let mut left = clock::random_u128();
    let mut text = String::new();
    while text.len() < ALPHANUMERIC_LEN {
        let digit = u32::try_from(left % 36).unwrap_or_default();
        text.extend(char::from_digit(digit, 36));
        left /= 36;
    }
    text
}

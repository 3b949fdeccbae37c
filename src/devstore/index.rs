//! The index: buckets, keys, versions and uploads, all in memory, and every change to them.
//!
//! Synchronous on purpose. A condition is judged and the change made (on disk first, where there is
//! one) by one call under the one lock that [`Store`] holds: that is what makes conditional writes
//! atomic. Bodies are received before and are only referred to here.

use super::conditions::{KeyState, Refusal, WriteCondition};
use super::history::{Change, ChangeKind};
use super::multipart::Uploads;
use super::object::{Content, NULL_VERSION, Version};
use super::profile::DeleteAbsent;
use super::store::{Store, random_id};
use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

/// How many deletes a bucket remembers, to tell a conditional create that one landed while its
/// body was arriving. Forgetting one turns a 409 into a success, which the condition allows too.
const DELETES_REMEMBERED_MAX: usize = 100_000;

/// Everything in the store.
#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) buckets: BTreeMap<String, Bucket>,
    /// The number of the last change.
    pub(super) sequence: u64,
    /// The largest generation so far.
    pub(super) generation: u64,
    /// A change could not be saved, so memory and disk may differ: nothing is served any more.
    pub(super) failed: bool,
}

/// A bucket's versioning state; a bucket never goes back to `Never`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Versioning {
    #[default]
    Never,
    Enabled,
    Suspended,
}

/// One bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) created: SystemTime,
    pub(super) versioning: Versioning,
    /// Versions from the oldest to the current one; never empty.
    pub(super) keys: BTreeMap<String, Vec<Arc<Version>>>,
    pub(super) uploads: Uploads,
    deletes: RecentDeletes,
}

impl Bucket {
    pub(super) fn new(created: SystemTime, versioning: Versioning) -> Self {
        Self {
            created,
            versioning,
            keys: BTreeMap::new(),
            uploads: Uploads::default(),
            deletes: RecentDeletes::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The current version: `None` when there is none, or when it is a delete marker.
    pub(super) fn current(&self, key: &str) -> Option<(&Arc<Version>, &Content)> {
        let version = self.keys.get(key)?.last()?;
        Some((version, version.content.as_ref()?))
    }

    /// A version id as answers show it: not at all before versioning was first enabled.
    pub(super) fn shown_id(&self, version: &Version) -> Option<String> {
        match self.versioning {
            Versioning::Never => None,
            Versioning::Enabled | Versioning::Suspended => Some(version.id.clone()),
        }
    }

    /// The state of a key as conditions see it.
    pub(super) fn key_state(&self, key: &str) -> KeyState<'_> {
        let current = self.current(key);
        KeyState {
            current: current.map(|(v, content)| (content.etag.as_str(), v.sequence)),
            generation: current.map_or(0, |(version, _)| version.generation),
            deleted: self.deletes.get(key),
        }
    }

    fn versions(&self, key: &str) -> &[Arc<Version>] {
        self.keys.get(key).map_or(&[], Vec::as_slice)
    }

    /// The versions of `key` once `new` is the current one.
    fn with(&self, key: &str, new: Version) -> Vec<Arc<Version>> {
        let kept = |version: &&Arc<Version>| version.id != new.id;
        let mut versions: Vec<_> = self.versions(key).iter().filter(kept).cloned().collect();
        versions.push(Arc::new(new));
        versions
    }

    /// The id of the next version.
    fn next_id(&self) -> String {
        match self.versioning {
            Versioning::Enabled => random_id(),
            Versioning::Never | Versioning::Suspended => NULL_VERSION.to_owned(),
        }
    }

    fn set(&mut self, key: &str, versions: Vec<Arc<Version>>) {
        if versions.is_empty() {
            self.keys.remove(key);
        } else {
            self.keys.insert(key.to_owned(), versions);
        }
    }
}

/// The last deletes of a bucket, by key.
#[derive(Debug, Default)]
struct RecentDeletes {
    by_key: HashMap<String, u64>,
    order: VecDeque<(u64, String)>,
}

impl RecentDeletes {
    fn get(&self, key: &str) -> Option<u64> {
        self.by_key.get(key).copied()
    }

    fn note(&mut self, key: &str, sequence: u64) {
        self.by_key.insert(key.to_owned(), sequence);
        self.order.push_back((sequence, key.to_owned()));
        while self.order.len() > DELETES_REMEMBERED_MAX {
            let Some((sequence, key)) = self.order.pop_front() else { return };
            if self.by_key.get(&key) == Some(&sequence) {
                self.by_key.remove(&key);
            }
        }
    }
}

/// Where a change happens and what has to be true for it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) bucket: String,
    pub(super) key: String,
    pub(super) condition: WriteCondition,
    /// See [`WriteCondition::judge`].
    pub(super) started: u64,
}

/// What a write or a delete left behind.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) version: Arc<Version>,
    /// The version's id as the answer shows it.
    pub(super) shown_id: Option<String>,
}

/// What a DELETE did.
#[derive(Clone, Debug, Default)]
pub(super) struct Deleted {
    /// A delete marker was written, or was what the version id named.
    pub(super) marker: bool,
    /// The id of the marker, or of the version that was removed.
    pub(super) version_id: Option<String>,
}

impl Index {
    pub(super) fn bucket(&self, name: &str) -> S3Result<&Bucket> {
        let missing = || s3_error!(NoSuchBucket, "The specified bucket does not exist");
        self.buckets.get(name).ok_or_else(missing)
    }

    pub(super) fn bucket_mut(&mut self, name: &str) -> S3Result<&mut Bucket> {
        let missing = || s3_error!(NoSuchBucket, "The specified bucket does not exist");
        self.buckets.get_mut(name).ok_or_else(missing)
    }

    /// Judges a condition without changing anything.
    pub(super) fn check(&self, store: &Store, target: &Target) -> S3Result<()> {
        let state = self.bucket(&target.bucket)?.key_state(&target.key);
        let judged = target.condition.judge(state, target.started);
        Ok(judged.map_err(|refusal| refusal.told(store.behaviour.absent))?)
    }

    /// Makes `content` the current version of a key, if the condition holds.
    pub(super) fn put(
        &mut self,
        store: &Store,
        target: &Target,
        content: Content,
    ) -> S3Result<Written> {
        store.pace.admit(&target.bucket, &target.key)?;
        self.check(store, target)?;
        let (sequence, generation) = (self.sequence + 1, self.next_generation(store));
        let bucket = self.bucket(&target.bucket)?;
        let version = Version {
            id: bucket.next_id(),
            sequence,
            generation,
            modified: store.clock.now(),
            content: Some(content),
        };
        let versions = bucket.with(&target.key, version);
        let version = versions.last().cloned().expect("the new version was just added");
        let shown_id = bucket.shown_id(&version);
        self.replace(store, &target.bucket, &target.key, versions)?;
        store.pace.note(&target.bucket, &target.key);
        self.record(store, target, ChangeKind::Put, &version);
        Ok(Written { version, shown_id })
    }

    /// Deletes the current version of a key, or hides it under a delete marker, if the condition
    /// holds.
    pub(super) fn delete(&mut self, store: &Store, target: &Target) -> S3Result<Deleted> {
        store.pace.admit(&target.bucket, &target.key)?;
        let existed = self.bucket(&target.bucket)?.current(&target.key).is_some();
        match store.behaviour.delete_absent {
            DeleteAbsent::NoSuchKey if !existed => return Err(Refusal::NoSuchKey.into()),
            DeleteAbsent::NoSuchKey | DeleteAbsent::Succeeds => {}
        }
        self.check(store, target)?;
        let (sequence, generation) = (self.sequence + 1, self.next_generation(store));
        let bucket = self.bucket(&target.bucket)?;
        let modified = store.clock.now();
        let marker =
            Version { id: bucket.next_id(), sequence, generation, modified, content: None };
        let deleted = match bucket.versioning {
            Versioning::Never => {
                // Nothing is left of the object, so nothing of it is kept: the empty list.
                if existed {
                    self.replace(store, &target.bucket, &target.key, Vec::new())?;
                } else {
                    self.sequence = sequence;
                }
                Deleted::default()
            }
            Versioning::Enabled | Versioning::Suspended => {
                let versions = bucket.with(&target.key, marker.clone());
                self.replace(store, &target.bucket, &target.key, versions)?;
                Deleted { marker: true, version_id: Some(marker.id.clone()) }
            }
        };
        self.bucket_mut(&target.bucket)?.deletes.note(&target.key, sequence);
        if existed {
            store.pace.note(&target.bucket, &target.key);
            self.record(store, target, ChangeKind::Delete, &marker);
        }
        Ok(deleted)
    }

    /// Deletes one version for good. Deleting what does not exist is a success, as on Amazon S3.
    pub(super) fn delete_version(
        &mut self,
        store: &Store,
        target: &Target,
        version_id: &str,
    ) -> S3Result<Deleted> {
        let bucket = self.bucket(&target.bucket)?;
        let versions = bucket.versions(&target.key);
        let deleted = Deleted { marker: false, version_id: Some(version_id.to_owned()) };
        let Some(found) = versions.iter().find(|version| version.id == version_id).cloned() else {
            return Ok(deleted);
        };
        let left = versions.iter().filter(|version| version.id != version_id).cloned().collect();
        self.replace(store, &target.bucket, &target.key, left)?;
        let gone = Version { content: None, ..Version::clone(&found) };
        self.record(store, target, ChangeKind::DeleteVersion, &gone);
        Ok(Deleted { marker: found.content.is_none(), ..deleted })
    }

    /// Replaces the tags of a version; the entity tag and the modification time stay.
    pub(super) fn set_tags(
        &mut self,
        store: &Store,
        target: &Target,
        version_id: Option<&str>,
        tags: Vec<(String, String)>,
    ) -> S3Result<Option<String>> {
        let bucket = self.bucket(&target.bucket)?;
        let (version, mut content) = bucket.find(&target.key, version_id)?;
        content.attributes.tags = tags;
        let changed = Arc::new(Version { content: Some(content), ..Version::clone(&version) });
        let swap = |v: &Arc<Version>| if v.id == changed.id { &changed } else { v }.clone();
        let versions = bucket.versions(&target.key).iter().map(swap).collect();
        let shown_id = bucket.shown_id(&changed);
        self.replace(store, &target.bucket, &target.key, versions)?;
        self.record(store, target, ChangeKind::Tagging, &changed);
        Ok(shown_id)
    }

    fn next_generation(&mut self, store: &Store) -> u64 {
        let since = store.clock.now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let micros = u64::try_from(since.as_micros()).unwrap_or_default();
        self.generation = micros.max(self.generation + 1);
        self.generation
    }

    /// The one place where the versions of a key change: saved first, then visible.
    fn replace(
        &mut self,
        store: &Store,
        bucket: &str,
        key: &str,
        versions: Vec<Arc<Version>>,
    ) -> S3Result<()> {
        let saved = store.medium.save_key(bucket, key, &versions);
        self.saved(saved)?;
        self.sequence += 1;
        self.bucket_mut(bucket)?.set(key, versions);
        Ok(())
    }

    /// Stops serving after a failed save: whether it will be there after a restart is not known.
    pub(super) fn saved(&mut self, result: std::io::Result<()>) -> S3Result<()> {
        result.map_err(|error| {
            tracing::error!(%error, "a change could not be saved; the store stops serving");
            self.failed = true;
            s3s::S3Error::internal_error(error)
        })
    }

    fn record(&self, store: &Store, target: &Target, kind: ChangeKind, version: &Version) {
        store.history.record(|| Change {
            sequence: self.sequence,
            bucket: target.bucket.clone(),
            key: target.key.clone(),
            kind,
            etag: version.content.as_ref().map(|content| content.etag.clone()),
            version_id: version.id.clone(),
            metadata: version
                .content
                .as_ref()
                .map(|content| content.attributes.metadata.clone())
                .unwrap_or_default(),
            time: store.clock.now(),
        });
    }
}

impl Bucket {
    /// The version that a read asks for.
    ///
    /// # Errors
    ///
    /// `NoSuchKey`, `NoSuchVersion`, or `MethodNotAllowed` when the id names a delete marker.
    pub(super) fn find(
        &self,
        key: &str,
        version_id: Option<&str>,
    ) -> S3Result<(Arc<Version>, Content)> {
        let no_key = || s3_error!(NoSuchKey, "The specified key does not exist.");
        let Some(id) = version_id else {
            let (version, content) = self.current(key).ok_or_else(no_key)?;
            return Ok((version.clone(), content.clone()));
        };
        let version = self.versions(key).iter().find(|version| version.id == id);
        let version = version
            .ok_or_else(|| s3_error!(NoSuchVersion, "The specified version does not exist."))?;
        let content = version.content.clone().ok_or_else(|| {
            s3_error!(
                MethodNotAllowed,
                "The specified method is not allowed against this resource."
            )
        })?;
        Ok((version.clone(), content))
    }
}

//! The ordered log of every committed change, for tests that judge a run by what really happened.
//!
//! Off unless asked for, bounded, in memory only. An entry is written under the same lock as the
//! change itself, so that the order of the log is the order in which the store changed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// How many changes the history keeps; older ones are dropped, which shows as a gap at the start
/// of the sequence numbers.
pub const HISTORY_CHANGES_MAX: usize = 200_000;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// New contents or new metadata: PUT, Copy, Complete, POST.
    Put,
    /// The current version was deleted, or hidden by a delete marker.
    Delete,
    /// One version was deleted by its id.
    DeleteVersion,
    /// Its tags were replaced or removed; the entity tag stays.
    Tagging,
}

/// One committed change of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The store's running number; a larger one was committed later.
    pub sequence: u64,
    /// The bucket.
    pub bucket: String,
    /// The key, byte for byte.
    pub key: String,
    /// What happened.
    pub kind: ChangeKind,
    /// The entity tag that the change left behind, without quotes; `None` for a delete.
    pub etag: Option<String>,
    /// The version that was written, hidden under a marker or deleted; `"null"` without versioning.
    pub version_id: String,
    /// The user metadata (`x-amz-meta-*` without the prefix, lower case) of what was written;
    /// empty for a delete.
    pub metadata: BTreeMap<String, String>,
    /// When, by the store's clock.
    pub time: SystemTime,
}

/// The log.
#[derive(Debug)]
pub(super) struct History {
    changes: Option<Mutex<VecDeque<Change>>>,
}

impl History {
    pub(super) fn new(on: bool) -> Self {
        Self { changes: on.then(Mutex::default) }
    }

    /// Records one change; `change` is not called when the history is off.
    pub(super) fn record(&self, change: impl FnOnce() -> Change) {
        let Some(changes) = &self.changes else { return };
        let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() == HISTORY_CHANGES_MAX {
            changes.pop_front();
        }
        changes.push_back(change());
    }

    /// A copy of the log, oldest first; empty when it is off.
    pub(super) fn snapshot(&self) -> Vec<Change> {
        let Some(changes) = &self.changes else { return Vec::new() };
        changes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

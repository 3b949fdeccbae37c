//! The values that labels can have. All are enums, or bounded in number; none is an object key.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

/// Why a request was refused by the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its token is lower than the scope's highest (F1).
    Stale,
    /// It has no token and the scope wants one (F13).
    MissingToken,
    /// Its token cannot be read, or is not signed where it has to be.
    InvalidToken,
    /// It carries two different tokens.
    ConflictingTokens,
    /// It could change something in a way that cannot be fenced.
    UnsupportedOperation,
}

impl Reason {
    /// All of them; every bucket's counters exist from its first request on.
    pub const ALL: [Self; 5] = [
        Self::Stale,
        Self::MissingToken,
        Self::InvalidToken,
        Self::ConflictingTokens,
        Self::UnsupportedOperation,
    ];

    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::MissingToken => "missing_token",
            Self::InvalidToken => "invalid_token",
            Self::ConflictingTokens => "conflicting_tokens",
            Self::UnsupportedOperation => "unsupported_operation",
        }
    }
}

/// What was asked of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LedgerOperation {
    /// Read a record.
    Load,
    /// Compare-and-swap a record.
    Swap,
}

impl LedgerOperation {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Load, Self::Swap];

    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Swap => "swap",
        }
    }
}

/// How the ledger answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LedgerResult {
    /// Loaded, or swapped.
    Ok,
    /// Somebody else swapped first.
    Conflict,
    /// It said no, and nothing has changed.
    Error,
    /// No answer that tells whether the swap happened.
    Unknown,
}

impl LedgerResult {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Conflict, Self::Error, Self::Unknown];

    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Conflict => "conflict",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
}

/// Which way bytes went, as seen by the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Request bodies, from clients.
    Received,
    /// Response bodies, to clients.
    Sent,
}

impl Direction {
    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Sent => "sent",
        }
    }
}

/// The bucket names that have a label of their own: the first so many, the rest is `other`.
///
/// Whoever may send requests may make up bucket names, and each label is memory here and in
/// Prometheus for as long as the process lives.
#[derive(Debug)]
pub(super) struct BucketLabels {
    bucket_labels_max: usize,
    seen: RwLock<HashSet<Box<str>>>,
}

/// The label of the buckets beyond the limit. No bucket has this name together with a label of
/// its own: it is counted as `other` then, too.
pub(super) const OTHER: &str = "other";

/// Whether a label has just come into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    First,
    Again,
}

impl BucketLabels {
    pub(super) fn new(bucket_labels_max: usize) -> Self {
        Self { bucket_labels_max, seen: RwLock::default() }
    }

    /// The label for `bucket`.
    pub(super) fn label<'a>(&self, bucket: &'a str) -> (&'a str, Sight) {
        // Neither lock is held over anything that can panic, so a poisoned one is still sound.
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(bucket) {
            return (bucket, Sight::Again);
        }
        if seen.len() >= self.bucket_labels_max {
            return (OTHER, Sight::Again);
        }
        drop(seen);
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= self.bucket_labels_max && !seen.contains(bucket) {
            return (OTHER, Sight::Again);
        }
        let sight = if seen.insert(bucket.into()) { Sight::First } else { Sight::Again };
        (bucket, sight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_keep_their_label_and_the_rest_share_one() {
        let labels = BucketLabels::new(2);
        assert_eq!(labels.label("a"), ("a", Sight::First));
        assert_eq!(labels.label("b"), ("b", Sight::First));
        assert_eq!(labels.label("c"), (OTHER, Sight::Again));
        assert_eq!(labels.label("a"), ("a", Sight::Again));
    }
}

//! The fence's counters for each bucket, and the limit on how many buckets are told apart.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use prometheus::{IntCounterVec, Registry};

use super::labels::Reason;
use super::leases::LeaseMetrics;
use super::metrics::counters;

/// How many buckets have a label of their own; the others share `other`.
pub(super) const BUCKET_LABELS_MAX: usize = 256;

/// The counters that have a bucket for a label.
#[derive(Debug)]
pub(super) struct BucketCounters {
    labels: BucketLabels,
    rejected: IntCounterVec,
    admitted: IntCounterVec,
    contended: IntCounterVec,
    outcome_unknown: IntCounterVec,
    regressed: IntCounterVec,
    pub(super) leases: LeaseMetrics,
}

impl BucketCounters {
    pub(super) fn new(registry: &Registry, bucket_labels_max: usize) -> Self {
        let per_bucket = |name, help| counters(registry, name, help, &["bucket"]);
        Self {
            labels: BucketLabels::new(bucket_labels_max),
            rejected: counters(
                registry,
                "fence_rejected_total",
                "Requests that the fence refused.",
                &["bucket", "reason"],
            ),
            admitted: per_bucket(
                "fence_admitted_total",
                "Fenced operations that were acknowledged.",
            ),
            contended: per_bucket(
                "fence_contended_total",
                "Fenced operations answered with \"try again\".",
            ),
            regressed: per_bucket(
                "fence_token_regressed_total",
                "Claims whose token was not the newest: a new holder with an old number.",
            ),
            leases: LeaseMetrics::new(registry),
            outcome_unknown: per_bucket(
                "fence_outcome_unknown_total",
                "Fenced operations whose outcome could not be learnt.",
            ),
        }
    }

    pub(super) fn rejected(&self, bucket: &str, reason: Reason) {
        self.rejected.with_label_values(&[self.label(bucket), reason.as_str()]).inc();
    }

    pub(super) fn admitted(&self, bucket: &str) {
        self.admitted.with_label_values(&[self.label(bucket)]).inc();
    }

    pub(super) fn contended(&self, bucket: &str) {
        self.contended.with_label_values(&[self.label(bucket)]).inc();
    }

    pub(super) fn outcome_unknown(&self, bucket: &str) {
        self.outcome_unknown.with_label_values(&[self.label(bucket)]).inc();
    }

    pub(super) fn token_regressed(&self, bucket: &str) {
        self.regressed.with_label_values(&[self.label(bucket)]).inc();
    }

    /// The label for `bucket`. All its counters exist from the first time on.
    pub(super) fn label<'a>(&self, bucket: &'a str) -> &'a str {
        let (label, sight) = self.labels.label(bucket);
        if sight == Sight::First {
            for reason in Reason::ALL {
                self.rejected.with_label_values(&[label, reason.as_str()]);
            }
            let counters =
                [&self.admitted, &self.contended, &self.outcome_unknown, &self.regressed];
            for counters in counters {
                counters.with_label_values(&[label]);
            }
            self.leases.show(label);
        }
        label
    }
}

/// The bucket names that have a label of their own: the first so many, the rest is `other`.
///
/// Whoever may send requests may make up bucket names, and each label is memory here and in
/// Prometheus for as long as the process lives.
#[derive(Debug)]
struct BucketLabels {
    bucket_labels_max: usize,
    seen: RwLock<HashSet<Box<str>>>,
}

/// The label of the buckets beyond the limit; shared by a bucket that really is named so.
const OTHER: &str = "other";

/// Whether a label has just come into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    First,
    Again,
}

impl BucketLabels {
    fn new(bucket_labels_max: usize) -> Self {
        Self { bucket_labels_max, seen: RwLock::default() }
    }

    /// The label for `bucket`.
    fn label<'a>(&self, bucket: &'a str) -> (&'a str, Sight) {
        // Neither lock is held over anything that can panic, so a poisoned one is still sound.
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let is_full = seen.len() >= self.bucket_labels_max;
        let label = if is_full && !seen.contains(bucket) { OTHER } else { bucket };
        if seen.contains(label) {
            return (label, Sight::Again);
        }
        drop(seen);
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        // Several threads may have come this far with the last free place in sight.
        let is_full = seen.len() >= self.bucket_labels_max;
        let label = if is_full && !seen.contains(bucket) { OTHER } else { bucket };
        let sight = if seen.insert(label.into()) { Sight::First } else { Sight::Again };
        (label, sight)
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
        assert_eq!(labels.label("c"), (OTHER, Sight::First));
        assert_eq!(labels.label("d"), (OTHER, Sight::Again));
        assert_eq!(labels.label("a"), ("a", Sight::Again));
    }
}

//! Which scope a key belongs to, and how the scope is fenced.
//!
//! Without any configuration every object is a scope of its own in mode `if-fenced`. Pure; it does
//! *not* know of records or tokens.

use crate::fence::{Compare, Mode, Tags};
use crate::s3::{Bucket, ObjectKey};

/// How a scope is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fencing {
    /// What a missing token means.
    pub mode: Mode,
    /// How tokens are compared.
    pub compare: Compare,
}

/// A rule for every key of a bucket that begins with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The bucket.
    pub bucket: Bucket,
    /// The prefix, as key bytes; empty for the whole bucket.
    pub prefix: Vec<u8>,
    /// How its keys are fenced.
    pub fencing: Fencing,
}

/// What is said of a bucket as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketRule {
    /// The bucket.
    pub bucket: Bucket,
    /// Whether the tags of its objects repeat.
    pub tags: Tags,
    /// Whether it may be deleted and its settings changed, though it holds fenced objects.
    pub bucket_operations: BucketOperations,
}

/// Whether operations on a bucket as a whole pass where any object in it is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketOperations {
    /// They pass.
    Allow,
    /// They are refused.
    Deny,
}

/// The rules in force.
#[derive(Clone, Debug)]
pub struct Policy {
    default: Fencing,
    bucket_operations: BucketOperations,
    rules: Vec<Rule>,
    buckets: Vec<BucketRule>,
}

impl Policy {
    /// These rules; the rule with the longest matching prefix wins, and `default` applies where
    /// none matches; likewise `bucket_operations` for a bucket that has no rule of its own.
    #[must_use]
    pub fn new(
        default: Fencing,
        bucket_operations: BucketOperations,
        rules: Vec<Rule>,
        buckets: Vec<BucketRule>,
    ) -> Self {
        Self { default, bucket_operations, rules, buckets }
    }

    /// How the scope of an object is fenced.
    #[must_use]
    pub fn of_object(&self, bucket: &Bucket, key: &ObjectKey) -> Fencing {
        self.rules
            .iter()
            .filter(|rule| rule.bucket == *bucket && key.as_bytes().starts_with(&rule.prefix))
            .max_by_key(|rule| rule.prefix.len())
            .map_or(self.default, |rule| rule.fencing)
    }

    /// Whether a request that names no single key may pass unfenced: nothing in the bucket is
    /// fenced.
    #[must_use]
    pub fn is_off_everywhere(&self, bucket: &Bucket) -> bool {
        let in_bucket = || self.rules.iter().filter(|rule| rule.bucket == *bucket);
        let remainder_is_off = in_bucket()
            .find(|rule| rule.prefix.is_empty())
            .map_or(self.default.mode == Mode::Off, |rule| rule.fencing.mode == Mode::Off);
        remainder_is_off && in_bucket().all(|rule| rule.fencing.mode == Mode::Off)
    }

    /// Whether no bucket at all is fenced.
    #[must_use]
    pub fn is_off_for_service(&self) -> bool {
        self.default.mode == Mode::Off
            && self.rules.iter().all(|rule| rule.fencing.mode == Mode::Off)
    }

    /// Whether operations on the bucket as a whole pass. One that reaches into other buckets, too,
    /// passes only where that is allowed for all.
    #[must_use]
    pub fn allows_bucket_operation(&self, bucket: &Bucket, reaches_others: bool) -> bool {
        let rule = self.buckets.iter().find(|rule| rule.bucket == *bucket);
        let own = rule.map_or(self.bucket_operations, |rule| rule.bucket_operations);
        let allowed = |operations| operations == BucketOperations::Allow;
        if reaches_others {
            return self.is_off_for_service() || (allowed(own) && allowed(self.bucket_operations));
        }
        self.is_off_everywhere(bucket) || allowed(own)
    }

    /// Whether the tags of the bucket's objects repeat; the safe assumption is that they do.
    #[must_use]
    pub fn tags_of(&self, bucket: &Bucket) -> Tags {
        self.buckets
            .iter()
            .find(|rule| rule.bucket == *bucket)
            .map_or(Tags::Repeat, |rule| rule.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fencing(mode: Mode) -> Fencing {
        Fencing { mode, compare: Compare::AtLeast }
    }

    fn policy_with(rules: Vec<Rule>, buckets: Vec<BucketRule>) -> Policy {
        Policy::new(fencing(Mode::IfFenced), BucketOperations::Deny, rules, buckets)
    }

    fn rule(bucket: &str, prefix: &str, mode: Mode) -> Rule {
        Rule { bucket: Bucket::new(bucket), prefix: prefix.into(), fencing: fencing(mode) }
    }

    fn mode(policy: &Policy, bucket: &str, key: &str) -> Mode {
        policy.of_object(&Bucket::new(bucket), &ObjectKey::new(key).unwrap()).mode
    }

    #[test]
    fn the_longest_prefix_wins() {
        let rules = vec![
            rule("b", "", Mode::Off),
            rule("b", "locked/", Mode::Require),
            rule("b", "locked/free/", Mode::Off),
        ];
        let policy = policy_with(rules, Vec::new());
        assert_eq!(mode(&policy, "other", "locked/a"), Mode::IfFenced);
        assert_eq!(mode(&policy, "b", "a"), Mode::Off);
        assert_eq!(mode(&policy, "b", "locked/a"), Mode::Require);
        assert_eq!(mode(&policy, "b", "locked/free/a"), Mode::Off);
    }

    #[test]
    fn a_bucket_is_off_only_if_all_of_it_is() {
        let rules =
            vec![rule("b", "", Mode::Off), rule("c", "", Mode::Off), rule("c", "x", Mode::Require)];
        let policy = policy_with(rules, Vec::new());
        assert!(policy.is_off_everywhere(&Bucket::new("b")));
        assert!(!policy.is_off_everywhere(&Bucket::new("c")));
        assert!(!policy.is_off_everywhere(&Bucket::new("d")));
        assert!(!policy.is_off_for_service());
        let only = vec![rule("b", "x", Mode::Off)];
        let policy = policy_with(only, Vec::new());
        assert!(!policy.is_off_everywhere(&Bucket::new("b")), "the rest of it is fenced");
    }

    #[test]
    fn a_bucket_that_holds_fenced_objects_is_left_alone_unless_allowed() {
        let allowed = BucketRule {
            bucket: Bucket::new("free"),
            tags: Tags::Repeat,
            bucket_operations: BucketOperations::Allow,
        };
        let policy = policy_with(vec![rule("off", "", Mode::Off)], vec![allowed]);
        let allows = |bucket| policy.allows_bucket_operation(&Bucket::new(bucket), false);
        assert!(!allows("b"));
        assert!(allows("free"));
        assert!(allows("off"));
        for bucket in ["b", "free", "off"] {
            assert!(!policy.allows_bucket_operation(&Bucket::new(bucket), true), "{bucket}");
        }
    }

    #[test]
    fn tags_repeat_unless_told_otherwise() {
        let unique = BucketRule {
            bucket: Bucket::new("kms"),
            tags: Tags::Unique,
            bucket_operations: BucketOperations::Deny,
        };
        let policy = policy_with(Vec::new(), vec![unique]);
        assert_eq!(policy.tags_of(&Bucket::new("kms")), Tags::Unique);
        assert_eq!(policy.tags_of(&Bucket::new("b")), Tags::Repeat);
    }
}

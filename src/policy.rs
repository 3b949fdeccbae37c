//! Which scope a key belongs to, and how the scope is fenced.
//!
//! Without any configuration every object is a scope of its own in mode `if-fenced`. Pure; it does
//! *not* know of records or tokens.

use std::fmt;
use std::str::FromStr;

use crate::fence::{Compare, Mode, Tags};
use crate::s3::{Bucket, ObjectKey};
use crate::scope::Scope;

/// How a scope is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fencing {
    /// What a missing token means.
    pub mode: Mode,
    /// How tokens are compared.
    pub compare: Compare,
}

/// Which keys under a rule's prefix share one fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// None: every object has its own.
    Object,
    /// All of them.
    Prefix,
    /// Those in one directory so many levels below the prefix. An object above that has its own.
    Depth(u32),
}

/// The most levels that [`Per::Depth`] may count; a key has no more slashes than bytes.
const DEPTH_MAX: u32 = 1024;

impl FromStr for Per {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let depth = || text.strip_prefix("depth:")?.parse().ok();
        match text {
            "object" => Ok(Self::Object),
            "prefix" => Ok(Self::Prefix),
            _ => match depth() {
                Some(levels @ 1..=DEPTH_MAX) => Ok(Self::Depth(levels)),
                Some(_) | None => Err(format!(
                    "expected \"object\", \"prefix\" or \"depth:N\" with N from 1 to {DEPTH_MAX}, \
                     not {text:?}"
                )),
            },
        }
    }
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object => f.write_str("object"),
            Self::Prefix => f.write_str("prefix"),
            Self::Depth(levels) => write!(f, "depth:{levels}"),
        }
    }
}

/// Where a key belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its scope.
    pub scope: Scope,
    /// The key, as the store knows it.
    pub key: ObjectKey,
    /// How the scope is fenced.
    pub fencing: Fencing,
}

/// A rule for every key of a bucket that begins with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The bucket.
    pub bucket: Bucket,
    /// The prefix, as key bytes; empty for the whole bucket.
    pub prefix: Vec<u8>,
    /// Which of its keys share one fence.
    pub per: Per,
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
    /// Of buckets without a rule.
    tags: Tags,
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
        Self { default, bucket_operations, rules, buckets, tags: Tags::Repeat }
    }

    /// The same in front of a store whose tags never repeat, in no bucket.
    #[must_use]
    pub fn with_unique_tags(mut self) -> Self {
        self.tags = Tags::Unique;
        for rule in &mut self.buckets {
            rule.tags = Tags::Unique;
        }
        self
    }

    /// The rule that a key falls under, if there is one.
    #[must_use]
    pub fn rule_of(&self, bucket: &Bucket, key: &ObjectKey) -> Option<&Rule> {
        self.rules
            .iter()
            .filter(|rule| rule.bucket == *bucket && key.as_bytes().starts_with(&rule.prefix))
            .max_by_key(|rule| rule.prefix.len())
    }

    /// The scope that a key belongs to, and how it is fenced.
    #[must_use]
    pub fn place(&self, bucket: &Bucket, key: ObjectKey) -> Place {
        let rule = self.rule_of(bucket, &key);
        let shared = match rule {
            Some(Rule { per: Per::Prefix, prefix, .. }) => Some(prefix.as_slice()),
            Some(Rule { per: Per::Depth(levels), prefix, .. }) => {
                directory(key.as_bytes(), prefix.len(), *levels)
            }
            Some(Rule { per: Per::Object, .. }) | None => None,
        };
        let scope = match shared {
            Some(prefix) => Scope::prefix(bucket.clone(), prefix),
            None => Scope::object(bucket.clone(), key.clone()),
        };
        let fencing = rule.map_or(self.default, |rule| rule.fencing);
        Place { scope, key, fencing }
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
        self.buckets.iter().find(|rule| rule.bucket == *bucket).map_or(self.tags, |rule| rule.tags)
    }
}

/// What `key` begins with up to the slash that closes the directory `levels` below its first
/// `prefix_len` bytes; `None` if the key is not that deep.
fn directory(key: &[u8], prefix_len: usize, levels: u32) -> Option<&[u8]> {
    let below = key.get(prefix_len..)?;
    let mut slashes = below.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let levels = usize::try_from(levels).unwrap_or(usize::MAX);
    let (last, _) = slashes.nth(levels.checked_sub(1)?)?;
    key.get(..=prefix_len + last)
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
        let per = Per::Object;
        Rule { bucket: Bucket::new(bucket), prefix: prefix.into(), per, fencing: fencing(mode) }
    }

    fn mode(policy: &Policy, bucket: &str, key: &str) -> Mode {
        policy.place(&Bucket::new(bucket), ObjectKey::new(key).unwrap()).fencing.mode
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
    fn a_key_belongs_to_one_scope() {
        let per = |bucket: &str, prefix: &str, per: &str| Rule {
            per: per.parse().unwrap(),
            ..rule(bucket, prefix, Mode::Require)
        };
        let rules = vec![
            per("b", "tables/", "depth:1"),
            per("b", "tables/raw/", "object"),
            per("b", "jobs", "prefix"),
            per("c", "", "prefix"),
            per("d", "x", "depth:2"),
        ];
        let policy = policy_with(rules, Vec::new());
        let scope = |bucket: &str, key: &str| {
            let place = policy.place(&Bucket::new(bucket), ObjectKey::new(key).unwrap());
            assert_eq!(place.key.as_bytes(), key.as_bytes());
            place.scope.to_string()
        };
        for (bucket, key, expected) in [
            ("b", "tables/orders/part-1", "s3://b/tables/orders/*"),
            ("b", "tables/orders/2026/part-1", "s3://b/tables/orders/*"),
            ("b", "tables/orders/", "s3://b/tables/orders/*"),
            ("b", "tables/orders", "s3://b/tables/orders"),
            ("b", "tables//x", "s3://b/tables//*"),
            ("b", "tables/raw/a", "s3://b/tables/raw/a"),
            ("b", "jobs", "s3://b/jobs*"),
            ("b", "jobs-2/a", "s3://b/jobs*"),
            ("b", "job", "s3://b/job"),
            ("c", "any/thing", "s3://c/*"),
            ("d", "x1/2/3", "s3://d/x1/2/*"),
            ("d", "x1/2", "s3://d/x1/2"),
            ("e", "a/b", "s3://e/a/b"),
        ] {
            assert_eq!(scope(bucket, key), expected);
        }
    }

    #[test]
    fn per_is_one_of_three() {
        for text in ["object", "prefix", "depth:1", "depth:1024"] {
            assert_eq!(text.parse::<Per>().unwrap().to_string(), text);
        }
        for text in ["", "Object", "depth", "depth:", "depth:0", "depth:-1", "depth:1025"] {
            assert!(text.parse::<Per>().is_err(), "{text}");
        }
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
        let unique = policy.with_unique_tags();
        assert_eq!(unique.tags_of(&Bucket::new("b")), Tags::Unique);
    }
}

//! What one fence protects: one object, or every key under a prefix.
//!
//! Which of the two a key belongs to is the [`policy`](crate::policy)'s business.

use std::fmt;

use crate::s3::{Bucket, ObjectKey, percent_encode_key};

/// The keys that one fence protects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extent {
    /// One object.
    Object(ObjectKey),
    /// Every key that begins with these bytes; empty for the whole bucket. What a rule with a
    /// longer prefix takes out of it is not in it.
    Prefix(Vec<u8>),
}

/// What one record of the ledger is kept for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// The bucket.
    pub bucket: Bucket,
    /// Which of its keys.
    pub extent: Extent,
}

impl Scope {
    /// One object.
    #[must_use]
    pub fn object(bucket: Bucket, key: ObjectKey) -> Self {
        Self { bucket, extent: Extent::Object(key) }
    }

    /// Every key that begins with `prefix`.
    #[must_use]
    pub fn prefix(bucket: Bucket, prefix: impl Into<Vec<u8>>) -> Self {
        Self { bucket, extent: Extent::Prefix(prefix.into()) }
    }

    /// Whether the scope may hold many keys.
    #[must_use]
    pub fn holds_many(&self) -> bool {
        match self.extent {
            Extent::Object(_) => false,
            Extent::Prefix(_) => true,
        }
    }

    /// The bytes of its key or its prefix.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.extent {
            Extent::Object(key) => key.as_bytes(),
            Extent::Prefix(prefix) => prefix,
        }
    }
}

/// `s3://bucket/key` or `s3://bucket/prefix*`, percent-encoded.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.holds_many() { "*" } else { "" };
        write!(f, "s3://{}/{}{star}", self.bucket, percent_encode_key(self.bytes()))
    }
}

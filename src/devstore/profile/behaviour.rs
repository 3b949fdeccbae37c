//! The table of profiles: one [`Behaviour`] each.

use crate::devstore::index::Versioning;

/// Everything that a fence depends on and that stores do differently.
#[derive(Debug)]
pub(in crate::devstore) struct Behaviour {
    pub(in crate::devstore) put: Honours,
    pub(in crate::devstore) complete: Honours,
    /// Of a copy's destination.
    pub(in crate::devstore) copy: Honours,
    pub(in crate::devstore) delete: Honours,
    /// `<ETag>` of an object in `DeleteObjects`.
    pub(in crate::devstore) delete_objects: Honours,
    /// GET and HEAD.
    pub(in crate::devstore) reads: Reads,
    /// `x-amz-copy-source-if-*`.
    pub(in crate::devstore) copy_source: Reads,
    pub(in crate::devstore) tags: Tags,
    pub(in crate::devstore) interleaving: Interleaving,
    pub(in crate::devstore) commit: Commit,
}

/// On which buckets an operation looks at its conditions.
#[derive(Debug, Clone, Copy)]
pub(in crate::devstore) struct Honours {
    /// `If-None-Match`.
    pub(in crate::devstore) create: Buckets,
    /// `If-Match`.
    pub(in crate::devstore) swap: Buckets,
}

/// Buckets, by their versioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Buckets {
    /// No bucket: the condition is ignored, and the answer is success.
    None,
    /// Every bucket.
    All,
}

/// Whether the conditions of a read are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Reads {
    Ignored,
    Judged,
}

/// What an entity tag is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Tags {
    /// The MD5 of the bytes (of the parts' MD5s for a multipart object): it repeats.
    Md5,
    /// New with every write, and it looks like an MD5: 32 hexadecimal digits.
    RandomHex,
}

/// What becomes of a condition that is true, but was not all the time while the request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Interleaving {
    /// 409 `ConditionalRequestConflict`.
    Detected,
    /// Nothing: what counts is the state in which the write commits.
    JudgedAtCommit,
}

/// How a condition is tied to the write that it guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Commit {
    /// Nothing comes between.
    Atomic,
    /// It is looked at, and after a pause the write is made whatever has happened meanwhile.
    CheckThenAct,
}

/// The operations that can have a condition on the key that they write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Operation {
    Put,
    Complete,
    Copy,
    Delete,
    DeleteObjects,
}

impl Honours {
    const ALWAYS: Self = Self { create: Buckets::All, swap: Buckets::All };
    const NEVER: Self = Self { create: Buckets::None, swap: Buckets::None };
}

impl Buckets {
    /// Whether a bucket is among them.
    pub(in crate::devstore) fn contain(self, _versioning: Versioning) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
        }
    }
}

impl Behaviour {
    /// How an operation takes its conditions.
    pub(in crate::devstore) fn honours(&self, operation: Operation) -> Honours {
        match operation {
            Operation::Put => self.put,
            Operation::Complete => self.complete,
            Operation::Copy => self.copy,
            Operation::Delete => self.delete,
            Operation::DeleteObjects => self.delete_objects,
        }
    }
}

/// [`Profile::Aws`](super::Profile::Aws).
pub(super) static AWS: Behaviour = AWS_S3;

/// Amazon S3, which the other rows are written as differences from.
const AWS_S3: Behaviour = Behaviour {
    put: Honours::ALWAYS,
    complete: Honours::ALWAYS,
    copy: Honours::ALWAYS,
    delete: Honours::ALWAYS,
    delete_objects: Honours::ALWAYS,
    reads: Reads::Judged,
    copy_source: Reads::Judged,
    tags: Tags::Md5,
    interleaving: Interleaving::Detected,
    commit: Commit::Atomic,
};

/// [`Profile::AwsKms`](super::Profile::AwsKms).
pub(super) static AWS_KMS: Behaviour = Behaviour { tags: Tags::RandomHex, ..AWS_S3 };

/// [`Profile::Minio`](super::Profile::Minio).
pub(super) static MINIO: Behaviour = Behaviour {
    delete: Honours::NEVER,
    delete_objects: Honours::NEVER,
    interleaving: Interleaving::JudgedAtCommit,
    ..AWS_S3
};

/// [`Profile::Liar`](super::Profile::Liar).
pub(super) static LIAR: Behaviour = Behaviour {
    put: Honours::NEVER,
    complete: Honours::NEVER,
    copy: Honours::NEVER,
    delete: Honours::NEVER,
    delete_objects: Honours::NEVER,
    reads: Reads::Ignored,
    copy_source: Reads::Ignored,
    interleaving: Interleaving::JudgedAtCommit,
    ..AWS_S3
};

/// [`Profile::Racy`](super::Profile::Racy).
pub(super) static RACY: Behaviour = Behaviour {
    interleaving: Interleaving::JudgedAtCommit,
    commit: Commit::CheckThenAct,
    ..AWS_S3
};

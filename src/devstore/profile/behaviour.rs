//! What a profile is made of: the differences between stores that a fence depends on, each an
//! enum, and [`Behaviour`], one value of each. The rows are in `table`.

use crate::devstore::errors::{slow_down, too_many_requests};
use crate::devstore::index::Versioning;
use s3s::S3Error;
use std::time::Duration;

/// Everything that a fence depends on and that stores do differently.
#[derive(Debug)]
pub(in crate::devstore) struct Behaviour {
    pub(in crate::devstore) put: Honours,
    /// `CreateMultipartUpload`, which Amazon S3 takes without a look at conditions.
    pub(in crate::devstore) create_upload: Honours,
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
    /// The headers that carry the conditions on a copy's destination.
    pub(in crate::devstore) copy_headers: CopyHeaders,
    pub(in crate::devstore) spelling: Spelling,
    pub(in crate::devstore) absent: Absent,
    pub(in crate::devstore) delete_absent: DeleteAbsent,
    pub(in crate::devstore) tags: Tags,
    pub(in crate::devstore) interleaving: Interleaving,
    pub(in crate::devstore) commit: Commit,
    pub(in crate::devstore) keys: Keys,
    /// The shortest time between two writes of one key; zero for no limit.
    pub(in crate::devstore) write_interval: Duration,
    pub(in crate::devstore) too_fast: TooFast,
    pub(in crate::devstore) versioning: Offer,
    pub(in crate::devstore) trailers: Trailers,
    pub(in crate::devstore) dialect: Dialect,
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
    /// Those without versions.
    Unversioned,
    /// Every bucket.
    All,
}

/// Whether the conditions of a read are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Reads {
    Ignored,
    Judged,
}

/// Where a copy's conditions on its destination are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum CopyHeaders {
    /// `If-Match` and `If-None-Match`, as a PUT's.
    Plain,
    /// `cf-copy-destination-if-match` and `cf-copy-destination-if-none-match`.
    Cloudflare,
}

/// How the conditions of a write are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Spelling {
    /// One tag, quoted or bare, or `*`; nothing but `*` in `If-None-Match` (501), never both (501),
    /// and no empty header (400).
    Amazon,
    /// One tag, quoted or bare, or `*`, in either header, or in both. An empty header is none.
    Single,
    /// A list of tags, quoted or bare, or `*`, in either header, or in both.
    List,
    /// As [`Single`](Self::Single), but compared byte for byte with the bare tag: a quoted one
    /// never is the object's, and neither is an empty one.
    Bare,
}

/// What `If-Match` on a key that is absent answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Absent {
    /// 404 `NoSuchKey`.
    NoSuchKey,
    /// 412 `PreconditionFailed`.
    PreconditionFailed,
}

/// What DELETE of what is absent answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum DeleteAbsent {
    /// Success; a delete marker, where there are versions.
    Succeeds,
    /// 404 `NoSuchKey`, whatever the condition; success in a batch.
    NoSuchKey,
}

/// What an entity tag is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Tags {
    /// The MD5 of the bytes (of the parts' MD5s for a multipart object): it repeats.
    Md5,
    /// New with every write, and it looks like an MD5: 32 hexadecimal digits.
    RandomHex,
    /// New with every write: letters and digits that nobody takes for an MD5.
    Opaque,
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
    /// It is looked at, and after this pause the write is made whatever has happened meanwhile.
    CheckThenAct(Duration),
    /// It is looked at, and after this pause the write is made if nothing has happened meanwhile,
    /// else answered with 500 `UnknownError`.
    CheckThenSwap(Duration),
}

/// Which keys there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Keys {
    /// Any bytes, and two spellings are two keys.
    Bytes,
    /// Unicode's normalisation form C of what was sent: two spellings of an accent are one key.
    Nfc,
    /// Paths: a leading slash is dropped, and `//`, `.` and `..` within are refused (400).
    Paths,
    /// Any bytes but CR and LF, which are refused (400).
    NoLineBreaks,
}

/// What a write is answered with that comes too soon after another one to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum TooFast {
    /// 429 `TooManyRequests`.
    TooManyRequests,
    /// 429 `SlowDown`.
    SlowDown,
}

/// Whether buckets can have versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Offer {
    Offered,
    /// `PutBucketVersioning` answers 501.
    Refused,
}

/// Whether a body may be sent with a checksum trailer (aws-chunked).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Trailers {
    Taken,
    /// Taken unsigned; signed, 400 `InvalidRequest`.
    Unsigned,
    /// 400 `XAmzContentSHA256Mismatch`.
    Refused,
}

/// What clients speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Dialect {
    S3,
    /// S3, and Cloud Storage's XML API; see `gcs`.
    Gcs,
}

/// The operations that can have a condition on the key that they write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::devstore) enum Operation {
    Put,
    CreateUpload,
    Complete,
    Copy,
    Delete,
    DeleteObjects,
}

impl Honours {
    pub(super) const ALWAYS: Self = Self { create: Buckets::All, swap: Buckets::All };
    pub(super) const NEVER: Self = Self { create: Buckets::None, swap: Buckets::None };
}

impl Buckets {
    /// Whether a bucket is among them.
    pub(in crate::devstore) fn contain(self, versioning: Versioning) -> bool {
        match (self, versioning) {
            (Self::None, _) => false,
            (Self::Unversioned, Versioning::Never) | (Self::All, _) => true,
            (Self::Unversioned, Versioning::Enabled | Versioning::Suspended) => false,
        }
    }
}

impl TooFast {
    pub(in crate::devstore) fn error(self) -> S3Error {
        match self {
            Self::TooManyRequests => too_many_requests(),
            Self::SlowDown => slow_down(),
        }
    }
}

impl Behaviour {
    /// How an operation takes its conditions.
    pub(in crate::devstore) fn honours(&self, operation: Operation) -> Honours {
        match operation {
            Operation::Put => self.put,
            Operation::CreateUpload => self.create_upload,
            Operation::Complete => self.complete,
            Operation::Copy => self.copy,
            Operation::Delete => self.delete,
            Operation::DeleteObjects => self.delete_objects,
        }
    }
}

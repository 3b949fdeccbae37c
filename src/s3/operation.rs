//! Which S3 operation a request is, and what is done with it: one table, which recognises, decides
//! and is the documentation (`docs/operations.md` is written from it).
//!
//! Recognised by method, path shape, sub-resource query and headers; never by `x-id`, which is
//! only advice. What is not recognised counts as something that may change everything, so that no
//! gate stays open for an operation this table has not heard of.

mod document;
mod headers;
mod table;

use http::{HeaderMap, Method};

pub use self::document::document;
pub use self::headers::{overrides_method, side_door, unknown_write_header};
use self::table::{Row, TABLE};
use super::{Query, Target};

/// An S3 operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the S3 API reference")]
pub enum Operation {
    GetObject,
    HeadObject,
    ListObjects,
    ListObjectsV2,
    ListBuckets,
    HeadBucket,
    GetBucketLocation,
    /// Any other GET or HEAD: object and bucket sub-resources.
    ReadSubresource,
    /// `POST {key}?select`, which only reads.
    SelectObjectContent,
    PutObject,
    DeleteObject,
    CreateBucket,
    DeleteBucket,
    AppendObject,
    CopyObject,
    RenameObject,
    CreateMultipartUpload,
    UploadPart,
    UploadPartCopy,
    CompleteMultipartUpload,
    AbortMultipartUpload,
    DeleteObjectVersion,
    DeleteObjects,
    PostObject,
    PutObjectTagging,
    DeleteObjectTagging,
    PutObjectAcl,
    PutObjectRetention,
    PutObjectLegalHold,
    PutObjectAnnotation,
    DeleteObjectAnnotation,
    UpdateObjectEncryption,
    RestoreObject,
    /// Any other write to a sub-resource of an object.
    WriteObjectSubresource,
    /// A write to a sub-resource of a bucket: lifecycle, policy, versioning, …
    WriteBucketSubresource,
    /// Anything else.
    Unknown,
}

/// What an operation can change, and so what is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Footprint {
    /// Nothing.
    Reads,
    /// The one object that the path names; fenced.
    Object(Write),
    /// A multipart upload and no object: its token is looked at, nothing is registered.
    Upload,
    /// The objects that its body names; each is fenced on its own.
    Objects,
    /// The one object that its form names; fenced.
    Form,
    /// It brings a bucket into being.
    CreatesBucket,
    /// The bucket: whether it is there, who may do what in it, what becomes of its objects later.
    Bucket,
    /// Something that is not fenced, and hence refused where anything is.
    Refused,
}

/// How the one object is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// By the bytes in the request.
    Put,
    /// It goes away.
    Delete,
    /// By the bytes of another object.
    Copy,
    /// By the parts of a multipart upload.
    Complete,
    /// In what belongs to it; its bytes and its ETag stay.
    Touch,
    /// One version of it goes away.
    DeleteVersion,
}

impl Operation {
    /// All of them, each once.
    pub fn all() -> impl Iterator<Item = Self> {
        let first = |at: &usize| {
            let operation = TABLE[*at].operation;
            TABLE[..*at].iter().all(|row| row.operation != operation)
        };
        (0..TABLE.len()).filter(first).map(|at| TABLE[at].operation)
    }

    /// Recognises a request.
    #[must_use]
    pub fn of(method: &Method, target: &Target, query: Query<'_>, headers: &HeaderMap) -> Self {
        TABLE
            .iter()
            .find(|row| row.recognises(method, target, query, headers))
            .map_or(Self::Unknown, |row| row.operation)
    }

    /// Its row, the first if it has several.
    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.operation == self).expect("every operation has a row")
    }

    /// What it can change.
    #[must_use]
    pub fn footprint(self) -> Footprint {
        self.row().footprint
    }

    /// Its name, for messages and metric labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Why it is refused where anything is fenced, if it is.
    #[must_use]
    pub fn reason(self) -> &'static str {
        self.row().fencing
    }

    /// Whether its query holds nothing but its own parameters.
    ///
    /// Stores differ in which of two query parameters they look at first: to SeaweedFS a POST with
    /// `delete` in its query deletes the keys in its body, whatever else is in the query. So an
    /// operation is taken for what it seems only if nothing else is asked.
    #[must_use]
    pub fn is_all_of(self, query: Query<'_>) -> bool {
        TABLE.iter().any(|row| row.operation == self && row.is_all_of(query))
    }

    /// Whether it can make the store write into another bucket, later and by itself.
    #[must_use]
    pub fn reaches_other_buckets(self, query: Query<'_>) -> bool {
        self == Self::WriteBucketSubresource
            && ["replication", "logging", "inventory", "analytics"]
                .iter()
                .any(|name| query.has(name))
    }

    /// Whether it changes nothing but the object that its path names.
    #[must_use]
    pub fn stays_on_its_key(self, query: Query<'_>) -> bool {
        let one_key = match self.footprint() {
            Footprint::Object(_) | Footprint::Upload => true,
            Footprint::Reads
            | Footprint::Objects
            | Footprint::Form
            | Footprint::CreatesBucket
            | Footprint::Bucket => false,
            Footprint::Refused => self == Self::AppendObject,
        };
        one_key && self.is_all_of(query)
    }
}

#[cfg(test)]
mod tests;

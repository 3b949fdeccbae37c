//! The table. The first row that fits a request is what the request is.

use http::{HeaderMap, Method, header};

use super::{Footprint, Operation, Write};
use crate::s3::{Query, Target};

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Service,
    Bucket,
    Object,
}

/// What tells the operation from others with the same method and shape.
#[derive(Clone, Copy, Debug)]
pub(super) enum Marker {
    /// The query holds the row's own parameters at most.
    Plain,
    /// This parameter.
    Query(&'static str),
    /// All of these parameters, none of them empty. Without one of them, or with an empty one, some
    /// store takes the request for a plain PUT or DELETE.
    Ids(&'static [&'static str]),
    /// The same, and the header.
    IdsAndHeader(&'static [&'static str], &'static str),
    /// The header, and a query with the row's own parameters at most.
    Header(&'static str),
    /// The body is a browser's form, whatever the query says: some stores take it for an upload
    /// wherever under the bucket it is sent.
    Form,
    /// `select-type=2`, and nothing else but `select`. It alone of all POSTs only reads, so it is
    /// recognised by all of its query.
    Select,
    /// Nothing: whatever has not been recognised before.
    Rest,
}

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) operation: Operation,
    pub(super) name: &'static str,
    pub(super) methods: &'static [Method],
    pub(super) shape: Shape,
    pub(super) marker: Marker,
    /// The parameters that belong to it, beside those that change nothing.
    pub(super) own: &'static [&'static str],
    pub(super) footprint: Footprint,
    /// How it is fenced, or why it is not. For the documentation, and for who is refused.
    pub(super) fencing: &'static str,
}

macro_rules! row {
    ($operation:ident, $methods:expr, $shape:ident, $marker:expr, $own:expr, $footprint:expr, $fencing:expr) => {
        Row {
            operation: Operation::$operation,
            name: stringify!($operation),
            methods: &$methods,
            shape: Shape::$shape,
            marker: $marker,
            own: &$own,
            footprint: $footprint,
            fencing: $fencing,
        }
    };
}

use Footprint as F;
use Marker::{Form, Header, Ids, IdsAndHeader, Plain, Query as With, Rest, Select};

const GET: Method = Method::GET;
const HEAD: Method = Method::HEAD;
const PUT: Method = Method::PUT;
const POST: Method = Method::POST;
const DELETE: Method = Method::DELETE;

const FORM: &str = "the policy is verified, then it is a PutObject of the key in the form";
const PASSES: &str = "changes nothing: passes";
const TOUCH: &str = "exclusive: no store has a precondition for it. Waits until no write with a \
                     lower token is open. Refused with `tags = \"unique\"`, \
                     where such writes are not on record";
const NOT_EVERYWHERE: &str =
    "refused: a store that does not know it takes it for a plain PUT or DELETE of the object";
const PART: &str = "changes no object: refused early when the upload's token is stale";
const BUCKET: &str = "by `bucket_operations`: it can destroy or change objects, now or later";

/// Every operation, in the order in which they are tried.
#[rustfmt::skip] // one row, one line
pub(super) static TABLE: &[Row] = &[
    row!(ListBuckets, [GET, HEAD], Service, Plain, ["prefix", "max-buckets", "continuation-token", "bucket-region"], F::Reads, PASSES),
    row!(ReadSubresource, [GET, HEAD], Service, Rest, [], F::Reads, PASSES),

    row!(HeadBucket, [HEAD], Bucket, Plain, [], F::Reads, PASSES),
    row!(GetBucketLocation, [GET], Bucket, With("location"), [], F::Reads, PASSES),
    row!(ListObjectsV2, [GET], Bucket, With("list-type"), [], F::Reads, PASSES),
    row!(ListObjects, [GET], Bucket, Plain, ["prefix", "delimiter", "marker", "max-keys", "encoding-type"], F::Reads, PASSES),
    row!(ReadSubresource, [GET, HEAD], Bucket, Rest, [], F::Reads, PASSES),
    row!(CreateBucket, [PUT], Bucket, Plain, [], F::CreatesBucket, "changes no object: passes"),
    row!(DeleteBucket, [DELETE], Bucket, Plain, [], F::Bucket, "by `bucket_operations`; where they are allowed, only when a listing shows the bucket empty, because some stores delete a full one"),
    row!(PostObject, [POST], Bucket, Form, [], F::Form, FORM),
    row!(PostObject, [POST], Bucket, Plain, [], F::Form, FORM),
    row!(DeleteObjects, [POST], Bucket, With("delete"), ["delete"], F::Objects, "each key on its own, like DeleteObject or DeleteObjectVersion; one answer, in the order of the request"),
    row!(WriteBucketSubresource, [PUT, POST, DELETE], Bucket, Rest, [], F::Bucket, BUCKET),

    row!(GetObject, [GET], Object, Plain, ["versionId", "partNumber", "response-*"], F::Reads, PASSES),
    row!(HeadObject, [HEAD], Object, Plain, ["versionId", "partNumber", "response-*"], F::Reads, PASSES),
    row!(ReadSubresource, [GET, HEAD], Object, Rest, [], F::Reads, PASSES),

    row!(PostObject, [POST], Object, Form, [], F::Refused, "refused: a form is sent to the bucket"),
    row!(UploadPartCopy, [PUT], Object, IdsAndHeader(&["uploadId", "partNumber"], "x-amz-copy-source"), ["uploadId", "partNumber"], F::Upload, PART),
    row!(UploadPart, [PUT], Object, Ids(&["uploadId", "partNumber"]), ["uploadId", "partNumber"], F::Upload, PART),
    row!(RenameObject, [PUT], Object, With("renameObject"), ["renameObject"], F::Refused, "refused: it changes two keys at once, and their fences cannot be asked as one"),
    row!(RenameObject, [PUT], Object, Header("x-amz-rename-source"), [], F::Refused, "refused: it changes two keys at once, and their fences cannot be asked as one"),
    row!(CopyObject, [PUT], Object, Header("x-amz-copy-source"), [], F::Object(Write::Copy), "the destination is fenced, exclusively unless `conditional_copy` says otherwise; the source is pinned by its ETag"),
    row!(AppendObject, [PUT], Object, Header("x-amz-write-offset-bytes"), [], F::Refused, "refused: it changes the object in place, and nobody knows the tag that it is going to leave"),
    row!(PutObject, [PUT], Object, Plain, [], F::Object(Write::Put), "by precondition; in another form where its tag is one that an open write expects"),
    row!(PutObjectTagging, [PUT], Object, With("tagging"), ["tagging", "versionId"], F::Object(Write::Touch), TOUCH),
    row!(DeleteObjectTagging, [DELETE], Object, With("tagging"), ["tagging", "versionId"], F::Object(Write::Touch), TOUCH),
    row!(PutObjectAcl, [PUT], Object, With("acl"), ["acl", "versionId"], F::Object(Write::Touch), TOUCH),
    row!(PutObjectRetention, [PUT], Object, With("retention"), ["retention", "versionId"], F::Object(Write::Touch), TOUCH),
    row!(PutObjectLegalHold, [PUT], Object, With("legal-hold"), ["legal-hold", "versionId"], F::Object(Write::Touch), TOUCH),
    row!(PutObjectAnnotation, [PUT], Object, With("annotation"), ["annotation", "annotationName", "versionId"], F::Refused, NOT_EVERYWHERE),
    row!(DeleteObjectAnnotation, [DELETE], Object, With("annotation"), ["annotation", "annotationName", "versionId"], F::Refused, NOT_EVERYWHERE),
    row!(UpdateObjectEncryption, [PUT], Object, With("encryption"), ["encryption", "versionId"], F::Refused, NOT_EVERYWHERE),
    row!(AbortMultipartUpload, [DELETE], Object, Ids(&["uploadId"]), ["uploadId"], F::Upload, "changes no object: passes for the upload's own holder and every newer one"),
    row!(DeleteObject, [DELETE], Object, Plain, [], F::Object(Write::Delete), "by precondition where the store enforces it, else exclusive"),
    row!(DeleteObjectVersion, [DELETE], Object, Ids(&["versionId"]), ["versionId"], F::Object(Write::DeleteVersion), "exclusive, and only when no write with a lower token is open: it may bring an older version, and its tag, back. Refused with `tags = \"unique\"`"),
    row!(CreateMultipartUpload, [POST], Object, With("uploads"), ["uploads"], F::Upload, "changes no object: refused early when its token is stale; binds the token to the upload, for clients that send it only here"),
    row!(CompleteMultipartUpload, [POST], Object, Ids(&["uploadId"]), ["uploadId"], F::Object(Write::Complete), "exclusive unless `conditional_complete` says otherwise; the tag that it is going to leave is known from the parts"),
    row!(RestoreObject, [POST], Object, With("restore"), ["restore", "versionId"], F::Object(Write::Touch), TOUCH),
    row!(SelectObjectContent, [POST], Object, Select, ["select", "select-type"], F::Reads, PASSES),
    row!(WriteObjectSubresource, [PUT, POST, DELETE], Object, Rest, [], F::Refused, "refused: not known to this version, so nobody can say what it changes"),

    row!(Unknown, [], Service, Rest, [], F::Refused, "refused: not known to this version, so nobody can say what it changes"),
];

impl Row {
    pub(super) fn recognises(
        &self,
        method: &Method,
        target: &Target,
        query: Query<'_>,
        headers: &HeaderMap,
    ) -> bool {
        let shape = match target {
            Target::Service => Shape::Service,
            Target::Bucket(_) => Shape::Bucket,
            Target::Object(..) => Shape::Object,
        };
        let has_all = |names: &[&str]| {
            names.iter().all(|name| query.value(name).is_some_and(|value| !value.is_empty()))
        };
        self.methods.contains(method)
            && self.shape == shape
            && match self.marker {
                Marker::Plain => self.is_all_of(query),
                Marker::Query(name) => query.has(name),
                Marker::Ids(names) => has_all(names),
                Marker::IdsAndHeader(names, header) => {
                    has_all(names) && headers.contains_key(header)
                }
                Marker::Header(header) => headers.contains_key(header) && self.is_all_of(query),
                Marker::Form => is_form(headers),
                Marker::Select => {
                    query.value("select-type").as_deref() == Some(b"2") && self.is_all_of(query)
                }
                Marker::Rest => true,
            }
    }

    /// Whether the query holds the row's own parameters at most, beside those that change nothing.
    /// In a write each may be there once: of two, some stores take the first and some the last.
    pub(super) fn is_all_of(&self, query: Query<'_>) -> bool {
        let reads =
            self.footprint == Footprint::Reads && self.operation != Operation::SelectObjectContent;
        if !reads && has_repeated_name(query) {
            return false;
        }
        let is_neutral = match self.footprint {
            Footprint::Reads if reads => is_neutral,
            Footprint::Reads
            | Footprint::Object(_)
            | Footprint::Upload
            | Footprint::Objects
            | Footprint::Form
            | Footprint::CreatesBucket
            | Footprint::Bucket
            | Footprint::Refused => is_neutral_for_write,
        };
        query.pairs().all(|(name, _)| {
            is_neutral(&name)
                || self.own.iter().any(|own| match own.strip_suffix('*') {
                    Some(prefix) => name.starts_with(prefix.as_bytes()),
                    None => name == own.as_bytes(),
                })
        })
    }
}

fn has_repeated_name(query: Query<'_>) -> bool {
    let mut names: Vec<Vec<u8>> =
        query.pairs().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Query parameters that do not change what a read is: the signature's, the SDKs' advice, the
/// token, and `x-amz-*` headers that ride in a presigned query.
fn is_neutral(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    name == b"x-id" || name == b"x-fence-token" || name.starts_with(b"x-amz-")
}

/// The `x-amz-*` parameters that do not change what a write is, without `x-amz-`. A store may take
/// any of them for the header of its name, and `x-amz-copy-source` would make a PUT a copy, so
/// what is not in this list is not recognised.
const NEUTRAL_FOR_WRITES: [&str; 11] = [
    "algorithm",
    "credential",
    "date",
    "expires",
    "signedheaders",
    "signature",
    "security-token",
    "content-sha256",
    "sdk-checksum-algorithm",
    "user-agent",
    "acl",
];

/// Query parameters that do not change which write a request is.
fn is_neutral_for_write(name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let Ok(name) = std::str::from_utf8(&name) else { return false };
    if name == "x-id" || name == "x-fence-token" {
        return true;
    }
    name.strip_prefix("x-amz-").is_some_and(|rest| {
        NEUTRAL_FOR_WRITES.contains(&rest)
            || rest.starts_with("checksum-")
            || (rest.starts_with("meta-")
                && !rest.starts_with("meta-fencepost-")
                && !rest.starts_with("meta-snowball-"))
    })
}

/// Whether some store may take the body for a browser's form. Stores look for it in different ways,
/// some before they look at the query.
fn is_form(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_TYPE).iter().any(|value| {
        let value = value.as_bytes().to_ascii_lowercase();
        value.windows(10).any(|part| part == b"multipart/")
    })
}

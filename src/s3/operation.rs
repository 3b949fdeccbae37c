//! Which S3 operation a request is, and what it can change.
//!
//! Recognised by method, path shape, sub-resource query and headers; never by `x-id`, which is
//! only advice. What is not recognised counts as something that may change everything, so that no
//! gate stays open for an operation this table has not heard of.

use http::{HeaderMap, Method};

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
    /// A write to a sub-resource of an object: tagging, ACL, retention, legal hold, …
    WriteObjectSubresource,
    /// A write to a sub-resource of a bucket: lifecycle, policy, versioning, …
    WriteBucketSubresource,
    /// Anything else.
    Unknown,
}

/// What an operation can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Footprint {
    /// Nothing.
    Reads,
    /// The one object that the path names; fenced.
    WritesObject,
    /// The bucket itself, which must be empty to be deleted; no object changes.
    WritesBucket,
    /// Something that this version does not fence.
    Unfenceable,
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

impl Operation {
    /// Recognises a request.
    #[must_use]
    pub fn of(method: &Method, target: &Target, query: Query<'_>, headers: &HeaderMap) -> Self {
        match target {
            Target::Service => Self::of_service(method, query),
            Target::Bucket(_) => Self::of_bucket(method, query),
            Target::Object(..) => Self::of_object(method, query, headers),
        }
    }

    fn of_service(method: &Method, query: Query<'_>) -> Self {
        if !is_read(method) {
            return Self::Unknown;
        }
        let listing = query.pairs().all(|(name, _)| {
            is_neutral(&name)
                || matches!(
                    name.as_slice(),
                    b"prefix" | b"max-buckets" | b"continuation-token" | b"bucket-region"
                )
        });
        if listing { Self::ListBuckets } else { Self::ReadSubresource }
    }

    fn of_bucket(method: &Method, query: Query<'_>) -> Self {
        let plain = is_plain(method, query);
        match *method {
            Method::HEAD if plain => Self::HeadBucket,
            Method::GET if query.has("location") => Self::GetBucketLocation,
            Method::GET if query.has("list-type") => Self::ListObjectsV2,
            Method::GET if lists_objects(query) => Self::ListObjects,
            Method::GET | Method::HEAD => Self::ReadSubresource,
            Method::PUT if plain => Self::CreateBucket,
            Method::DELETE if plain => Self::DeleteBucket,
            Method::POST if query.has("delete") => Self::DeleteObjects,
            Method::POST if plain => Self::PostObject,
            Method::PUT | Method::POST | Method::DELETE => Self::WriteBucketSubresource,
            _ => Self::Unknown,
        }
    }

    fn of_object(method: &Method, query: Query<'_>, headers: &HeaderMap) -> Self {
        let plain = is_plain(method, query);
        match *method {
            Method::GET | Method::HEAD => Self::read_of_object(method, query),
            Method::PUT if query.has("uploadId") || query.has("partNumber") => {
                if headers.contains_key("x-amz-copy-source") {
                    Self::UploadPartCopy
                } else {
                    Self::UploadPart
                }
            }
            Method::PUT if query.has("renameObject") => Self::RenameObject,
            Method::PUT if plain && headers.contains_key("x-amz-copy-source") => Self::CopyObject,
            Method::PUT if plain && headers.contains_key("x-amz-rename-source") => {
                Self::RenameObject
            }
            Method::PUT if plain && headers.contains_key("x-amz-write-offset-bytes") => {
                Self::AppendObject
            }
            Method::PUT if plain => Self::PutObject,
            Method::DELETE if query.has("uploadId") => Self::AbortMultipartUpload,
            Method::DELETE if plain => Self::DeleteObject,
            Method::DELETE if names_only(query, &["versionId"]) => Self::DeleteObjectVersion,
            // Some stores take a form for an upload wherever under the bucket it is sent.
            Method::POST if is_form(headers) => Self::PostObject,
            Method::POST if query.has("uploads") => Self::CreateMultipartUpload,
            Method::POST if query.has("uploadId") => Self::CompleteMultipartUpload,
            // It alone of all POSTs only reads, so it is recognised by all of its query.
            Method::POST
                if query.value("select-type").as_deref() == Some(b"2")
                    && names_only(query, &["select", "select-type"]) =>
            {
                Self::SelectObjectContent
            }
            Method::PUT | Method::POST | Method::DELETE => Self::WriteObjectSubresource,
            _ => Self::Unknown,
        }
    }

    fn read_of_object(method: &Method, query: Query<'_>) -> Self {
        let plain = query.pairs().all(|(name, _)| {
            is_neutral(&name)
                || name == b"versionId"
                || name == b"partNumber"
                || name.starts_with(b"response-")
        });
        match (plain, *method == Method::HEAD) {
            (true, true) => Self::HeadObject,
            (true, false) => Self::GetObject,
            (false, _) => Self::ReadSubresource,
        }
    }

    /// Whether it changes nothing but the object that its path names, whatever store reads it.
    ///
    /// Stores differ in which of two query parameters they look at first: to SeaweedFS a POST with
    /// `delete` in its query deletes the keys in its body, whatever else is in the query. So an
    /// operation is taken to stay on its key only if the query holds nothing but its own
    /// parameters.
    #[must_use]
    pub fn stays_on_its_key(self, method: &Method, query: Query<'_>) -> bool {
        match self {
            Self::PutObject | Self::DeleteObject | Self::AppendObject | Self::CopyObject => {
                names_only(query, &[])
            }
            Self::CreateMultipartUpload => names_only(query, &["uploads"]),
            Self::UploadPart | Self::UploadPartCopy => {
                names_only(query, &["partNumber", "uploadId"])
            }
            Self::CompleteMultipartUpload | Self::AbortMultipartUpload => {
                names_only(query, &["uploadId"])
            }
            Self::DeleteObjectVersion => names_only(query, &["versionId"]),
            Self::WriteObjectSubresource => {
                *method != Method::POST
                    && ["tagging", "acl", "retention", "legal-hold"]
                        .iter()
                        .any(|name| query.has(name) && names_only(query, &[name, "versionId"]))
            }
            Self::GetObject
            | Self::HeadObject
            | Self::ListObjects
            | Self::ListObjectsV2
            | Self::ListBuckets
            | Self::HeadBucket
            | Self::GetBucketLocation
            | Self::ReadSubresource
            | Self::SelectObjectContent
            | Self::CreateBucket
            | Self::DeleteBucket
            | Self::RenameObject
            | Self::DeleteObjects
            | Self::PostObject
            | Self::WriteBucketSubresource
            | Self::Unknown => false,
        }
    }

    /// Whether it can make the store write into another bucket, later and by itself.
    #[must_use]
    pub fn reaches_other_buckets(self, query: Query<'_>) -> bool {
        self == Self::WriteBucketSubresource
            && ["replication", "logging", "inventory", "analytics"]
                .iter()
                .any(|name| query.has(name))
    }

    /// What it can change.
    #[must_use]
    pub fn footprint(self) -> Footprint {
        match self {
            Self::GetObject
            | Self::HeadObject
            | Self::ListObjects
            | Self::ListObjectsV2
            | Self::ListBuckets
            | Self::HeadBucket
            | Self::GetBucketLocation
            | Self::ReadSubresource
            | Self::SelectObjectContent => Footprint::Reads,
            Self::PutObject | Self::DeleteObject => Footprint::WritesObject,
            Self::CreateBucket | Self::DeleteBucket => Footprint::WritesBucket,
            Self::AppendObject
            | Self::CopyObject
            | Self::RenameObject
            | Self::CreateMultipartUpload
            | Self::UploadPart
            | Self::UploadPartCopy
            | Self::CompleteMultipartUpload
            | Self::AbortMultipartUpload
            | Self::DeleteObjectVersion
            | Self::DeleteObjects
            | Self::PostObject
            | Self::WriteObjectSubresource
            | Self::WriteBucketSubresource
            | Self::Unknown => Footprint::Unfenceable,
        }
    }

    /// Its name, for messages and metric labels.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GetObject => "GetObject",
            Self::HeadObject => "HeadObject",
            Self::ListObjects => "ListObjects",
            Self::ListObjectsV2 => "ListObjectsV2",
            Self::ListBuckets => "ListBuckets",
            Self::HeadBucket => "HeadBucket",
            Self::GetBucketLocation => "GetBucketLocation",
            Self::ReadSubresource => "ReadSubresource",
            Self::SelectObjectContent => "SelectObjectContent",
            Self::PutObject => "PutObject",
            Self::DeleteObject => "DeleteObject",
            Self::CreateBucket => "CreateBucket",
            Self::DeleteBucket => "DeleteBucket",
            Self::AppendObject => "AppendObject",
            Self::CopyObject => "CopyObject",
            Self::RenameObject => "RenameObject",
            Self::CreateMultipartUpload => "CreateMultipartUpload",
            Self::UploadPart => "UploadPart",
            Self::UploadPartCopy => "UploadPartCopy",
            Self::CompleteMultipartUpload => "CompleteMultipartUpload",
            Self::AbortMultipartUpload => "AbortMultipartUpload",
            Self::DeleteObjectVersion => "DeleteObjectVersion",
            Self::DeleteObjects => "DeleteObjects",
            Self::PostObject => "PostObject",
            Self::WriteObjectSubresource => "WriteObjectSubresource",
            Self::WriteBucketSubresource => "WriteBucketSubresource",
            Self::Unknown => "Unknown",
        }
    }
}

/// Whether the query holds these parameters at most, beside those that change nothing.
fn names_only(query: Query<'_>, names: &[&str]) -> bool {
    query.pairs().all(|(name, _)| {
        is_neutral_for_write(&name) || names.iter().any(|known| name == known.as_bytes())
    })
}

/// Whether the body is a browser's form.
fn is_form(headers: &HeaderMap) -> bool {
    headers.get_all(http::header::CONTENT_TYPE).iter().any(|value| {
        let value = value.as_bytes().trim_ascii_start();
        value.get(..10).is_some_and(|kind| kind.eq_ignore_ascii_case(b"multipart/"))
    })
}

/// Whether the query names no sub-resource and changes nothing.
fn is_plain(method: &Method, query: Query<'_>) -> bool {
    let is_neutral = if is_read(method) { is_neutral } else { is_neutral_for_write };
    query.pairs().all(|(name, _)| is_neutral(&name))
}

fn is_read(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

fn lists_objects(query: Query<'_>) -> bool {
    query.pairs().all(|(name, _)| {
        is_neutral(&name)
            || matches!(
                name.as_slice(),
                b"prefix" | b"delimiter" | b"marker" | b"max-keys" | b"encoding-type"
            )
    })
}

/// The first header on a write that opens a side door in some store: one PUT that creates many
/// keys, a delete of a whole prefix, a forged replica. A fenced write must not carry it.
#[must_use]
pub fn side_door(headers: &HeaderMap) -> Option<&str> {
    headers.keys().map(http::HeaderName::as_str).find(|name| {
        name.starts_with("x-minio-")
            || name.starts_with("x-rustfs-")
            || name.starts_with("x-goog-")
            || *name == "x-amz-meta-snowball-auto-extract"
            || *name == "x-http-method-override"
    })
}

#[cfg(test)]
mod tests {
    use super::super::HostSuffixes;
    use super::*;

    fn recognise(method: Method, uri: &str, headers: &[(&'static str, &str)]) -> Operation {
        let uri: http::Uri = uri.parse().unwrap();
        let target = Target::parse(uri.path(), "h", &HostSuffixes::default()).unwrap();
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        Operation::of(&method, &target, Query::of(&uri), &headers)
    }

    #[test]
    fn every_shape_has_its_name() {
        use Method as M;
        use Operation as O;
        let copy: &[(&'static str, &str)] = &[("x-amz-copy-source", "/buc/s")];
        let append: &[(&'static str, &str)] = &[("x-amz-write-offset-bytes", "3")];
        let form: &[(&'static str, &str)] = &[("content-type", "Multipart/form-data; boundary=b")];
        let rows = [
            (M::GET, "/", O::ListBuckets, &[] as &[_]),
            (M::GET, "/?x-id=ListBuckets", O::ListBuckets, &[]),
            (M::PUT, "/", O::Unknown, &[]),
            (M::GET, "/buc", O::ListObjects, &[]),
            (M::GET, "/buc?prefix=a&delimiter=/", O::ListObjects, &[]),
            (M::GET, "/buc?list-type=2", O::ListObjectsV2, &[]),
            (M::GET, "/buc?location", O::GetBucketLocation, &[]),
            (M::GET, "/buc?versioning", O::ReadSubresource, &[]),
            (M::HEAD, "/buc", O::HeadBucket, &[]),
            (M::PUT, "/buc", O::CreateBucket, &[]),
            (M::PUT, "/buc?versioning", O::WriteBucketSubresource, &[]),
            (M::PUT, "/buc?unheard-of", O::WriteBucketSubresource, &[]),
            (M::DELETE, "/buc", O::DeleteBucket, &[]),
            (M::DELETE, "/buc?lifecycle", O::WriteBucketSubresource, &[]),
            (M::POST, "/buc?delete", O::DeleteObjects, &[]),
            (M::POST, "/buc", O::PostObject, &[]),
            (M::GET, "/buc/k", O::GetObject, &[]),
            (M::GET, "/buc/k?versionId=3&response-content-type=x", O::GetObject, &[]),
            (M::GET, "/buc/k?tagging", O::ReadSubresource, &[]),
            (M::HEAD, "/buc/k?partNumber=1", O::HeadObject, &[]),
            (M::PUT, "/buc/k", O::PutObject, &[]),
            (M::PUT, "/buc/k?x-id=CopyObject", O::PutObject, &[]),
            (M::PUT, "/buc/k?X-Amz-Signature=0&x-amz-acl=private", O::PutObject, &[]),
            (M::PUT, "/buc/k?X-Fence-Token=7&x-amz-meta-a=b", O::PutObject, &[]),
            (M::PUT, "/buc/k?x-amz-copy-source=/b/s", O::WriteObjectSubresource, &[]),
            (M::PUT, "/buc/k?X-Amz-Write-Offset-Bytes=3", O::WriteObjectSubresource, &[]),
            (M::PUT, "/buc/k?x-amz-meta-fencepost-token=9", O::WriteObjectSubresource, &[]),
            (M::DELETE, "/buc/k?x-amz-version-id=3", O::WriteObjectSubresource, &[]),
            (M::PUT, "/buc/k?unheard-of", O::WriteObjectSubresource, &[]),
            (M::PUT, "/buc/k?tagging", O::WriteObjectSubresource, &[]),
            (M::PUT, "/buc/k?append&position=0", O::WriteObjectSubresource, &[]),
            (M::PUT, "/buc/k", O::CopyObject, copy),
            (M::PUT, "/buc/k", O::AppendObject, append),
            (M::PUT, "/buc/k?renameObject", O::RenameObject, &[]),
            (M::PUT, "/buc/k?partNumber=1&uploadId=u", O::UploadPart, &[]),
            (M::PUT, "/buc/k?partNumber=1&uploadId=u", O::UploadPartCopy, copy),
            (M::POST, "/buc/k?uploads", O::CreateMultipartUpload, &[]),
            (M::POST, "/buc/k?uploadId=u", O::CompleteMultipartUpload, &[]),
            (M::DELETE, "/buc/k?uploadId=u", O::AbortMultipartUpload, &[]),
            (M::DELETE, "/buc/k?versionId=v", O::DeleteObjectVersion, &[]),
            (M::DELETE, "/buc/k", O::DeleteObject, &[]),
            (M::DELETE, "/buc/k?tagging", O::WriteObjectSubresource, &[]),
            (M::POST, "/buc/k?select&select-type=2", O::SelectObjectContent, &[]),
            (M::POST, "/buc/k?select", O::WriteObjectSubresource, &[]),
            (M::POST, "/buc/k?select&select-type=2&delete", O::WriteObjectSubresource, &[]),
            (M::POST, "/buc/k?delete&select&select-type=2", O::WriteObjectSubresource, &[]),
            (M::POST, "/buc/k?select&select-type=2", O::PostObject, form),
            (M::POST, "/buc/k?uploads", O::PostObject, form),
            (
                M::PUT,
                "/buc/k?x-amz-meta-snowball-auto-extract=true",
                O::WriteObjectSubresource,
                &[],
            ),
            (M::POST, "/buc/k?restore", O::WriteObjectSubresource, &[]),
            (M::POST, "/buc/k", O::WriteObjectSubresource, &[]),
            (Method::from_bytes(b"MOVE").unwrap(), "/buc/k", O::Unknown, &[]),
            (M::PATCH, "/buc/k", O::Unknown, &[]),
        ];
        for (method, uri, operation, headers) in rows {
            assert_eq!(recognise(method.clone(), uri, headers), operation, "{method} {uri}");
        }
    }

    #[test]
    fn an_operation_stays_on_its_key_only_if_nothing_else_is_asked() {
        let stays = |method: Method, uri: &str| {
            let uri: http::Uri = uri.parse().unwrap();
            let operation = recognise(method.clone(), &uri.to_string(), &[]);
            operation.stays_on_its_key(&method, Query::of(&uri))
        };
        for uri in ["/buc/k?uploads", "/buc/k?uploadId=u&x-id=CompleteMultipartUpload"] {
            assert!(stays(Method::POST, uri), "{uri}");
        }
        assert!(stays(Method::PUT, "/buc/k?tagging"));
        assert!(stays(Method::DELETE, "/buc/k?tagging&versionId=v"));
        assert!(stays(Method::DELETE, "/buc/k?versionId=v"));
        for uri in ["/buc/k?uploads&delete", "/buc/k?delete", "/buc/k?uploadId=u&policy"] {
            assert!(!stays(Method::POST, uri), "{uri}");
        }
        for uri in ["/buc/k?tagging&acl", "/buc/k?renameObject", "/buc/k?compose", "/buc/k?append"]
        {
            assert!(!stays(Method::PUT, uri), "{uri}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_fenceable() {
        for operation in [Operation::Unknown, Operation::WriteObjectSubresource] {
            assert_eq!(operation.footprint(), Footprint::Unfenceable);
        }
    }
}

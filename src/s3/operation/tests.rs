//! Requests of every shape, and what they are taken for.

use super::*;
use crate::s3::HostSuffixes;

fn recognise(method: Method, uri: &str, headers: &[(&'static str, &str)]) -> Operation {
    let uri: http::Uri = uri.parse().unwrap();
    let target = Target::parse(uri.path(), "h", &HostSuffixes::default()).unwrap();
    let headers = headers
        .iter()
        .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
        .collect();
    Operation::of(&method, &target, Query::of(&uri), &headers)
}

/// Method, target, what it is, headers.
type Shape = (Method, &'static str, Operation, &'static [(&'static str, &'static str)]);

const COPY: &[(&str, &str)] = &[("x-amz-copy-source", "/buc/s")];
const APPEND: &[(&str, &str)] = &[("x-amz-write-offset-bytes", "3")];
const FORM: &[(&str, &str)] = &[("content-type", "Multipart/form-data; boundary=b")];

fn reads_and_buckets() -> Vec<Shape> {
    use Method as M;
    use Operation as O;
    vec![
        (M::GET, "/", O::ListBuckets, &[]),
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
        (M::POST, "/buc", O::PostObject, FORM),
        (M::POST, "/buc", O::PostObject, &[]),
        (M::GET, "/buc/k", O::GetObject, &[]),
        (M::GET, "/buc/k?versionId=3&response-content-type=x", O::GetObject, &[]),
        (M::GET, "/buc/k?tagging", O::ReadSubresource, &[]),
        (M::HEAD, "/buc/k?partNumber=1", O::HeadObject, &[]),
    ]
}

fn writes_of_objects() -> Vec<Shape> {
    use Method as M;
    use Operation as O;
    vec![
        (M::PUT, "/buc/k", O::PutObject, &[]),
        (M::PUT, "/buc/k?x-id=CopyObject", O::PutObject, &[]),
        (M::PUT, "/buc/k?X-Amz-Signature=0&x-amz-acl=private", O::PutObject, &[]),
        (M::PUT, "/buc/k?X-Fence-Token=7&x-amz-meta-a=b", O::PutObject, &[]),
        (M::PUT, "/buc/k?x-amz-copy-source=/b/s", O::WriteObjectSubresource, &[]),
        (M::PUT, "/buc/k?X-Amz-Write-Offset-Bytes=3", O::WriteObjectSubresource, &[]),
        (M::PUT, "/buc/k?x-amz-meta-fencepost-token=9", O::WriteObjectSubresource, &[]),
        (M::DELETE, "/buc/k?x-amz-version-id=3", O::WriteObjectSubresource, &[]),
        (M::PUT, "/buc/k?unheard-of", O::WriteObjectSubresource, &[]),
        (M::PUT, "/buc/k?tagging", O::PutObjectTagging, &[]),
        (M::PUT, "/buc/k?append&position=0", O::WriteObjectSubresource, &[]),
        (M::PUT, "/buc/k", O::CopyObject, COPY),
        (M::PUT, "/buc/k", O::AppendObject, APPEND),
        (M::PUT, "/buc/k?renameObject", O::RenameObject, &[]),
        (M::PUT, "/buc/k?partNumber=1&uploadId=u", O::UploadPart, &[]),
        (M::PUT, "/buc/k?partNumber=1&uploadId=u", O::UploadPartCopy, COPY),
        // Each of these is a plain PUT, copy or DELETE to some store.
        (M::PUT, "/buc/k?partNumber=1", O::WriteObjectSubresource, &[]),
        (M::PUT, "/buc/k?uploadId=u", O::WriteObjectSubresource, COPY),
        (M::PUT, "/buc/k?partNumber=1&uploadId=", O::WriteObjectSubresource, &[]),
        (M::PUT, "/buc/k?partNumber=&uploadId=u", O::WriteObjectSubresource, &[]),
        (M::DELETE, "/buc/k?uploadId=", O::WriteObjectSubresource, &[]),
        (M::DELETE, "/buc/k?uploadId", O::WriteObjectSubresource, &[]),
        (M::DELETE, "/buc/k?versionId=", O::WriteObjectSubresource, &[]),
        (M::POST, "/buc/k?uploadId=", O::WriteObjectSubresource, &[]),
        (M::POST, "/buc/k?uploads", O::CreateMultipartUpload, &[]),
        (M::POST, "/buc/k?uploadId=u", O::CompleteMultipartUpload, &[]),
        (M::DELETE, "/buc/k?uploadId=u", O::AbortMultipartUpload, &[]),
        (M::DELETE, "/buc/k?versionId=v", O::DeleteObjectVersion, &[]),
        (M::DELETE, "/buc/k", O::DeleteObject, &[]),
        (M::DELETE, "/buc/k?tagging", O::DeleteObjectTagging, &[]),
        (M::POST, "/buc/k?select&select-type=2", O::SelectObjectContent, &[]),
        (M::POST, "/buc/k?select", O::WriteObjectSubresource, &[]),
        (M::POST, "/buc/k?select&select-type=2&delete", O::WriteObjectSubresource, &[]),
        (M::POST, "/buc/k?delete&select&select-type=2", O::WriteObjectSubresource, &[]),
        (M::POST, "/buc/k?select&select-type=2", O::PostObject, FORM),
        (M::POST, "/buc/k?uploads", O::PostObject, FORM),
        (M::PUT, "/buc/k?x-amz-meta-snowball-auto-extract=true", O::WriteObjectSubresource, &[]),
        (M::POST, "/buc/k?restore", O::RestoreObject, &[]),
        (M::POST, "/buc/k", O::WriteObjectSubresource, &[]),
        (Method::from_bytes(b"MOVE").unwrap(), "/buc/k", O::Unknown, &[]),
        (M::PATCH, "/buc/k", O::Unknown, &[]),
    ]
}

#[test]
fn every_shape_has_its_name() {
    for (method, uri, operation, headers) in [reads_and_buckets(), writes_of_objects()].concat() {
        assert_eq!(recognise(method.clone(), uri, headers), operation, "{method} {uri}");
    }
}

#[test]
fn an_operation_stays_on_its_key_only_if_nothing_else_is_asked() {
    let stays = |method: Method, uri: &str| {
        let uri: http::Uri = uri.parse().unwrap();
        let operation = recognise(method, &uri.to_string(), &[]);
        operation.stays_on_its_key(Query::of(&uri))
    };
    for uri in ["/buc/k?uploads", "/buc/k?uploadId=u&x-id=CompleteMultipartUpload"] {
        assert!(stays(Method::POST, uri), "{uri}");
    }
    for uri in ["/buc/k?tagging", "/buc/k?acl&versionId=v", "/buc/k?legal-hold", "/buc/k"] {
        assert!(stays(Method::PUT, uri), "{uri}");
    }
    assert!(stays(Method::DELETE, "/buc/k?tagging&versionId=v"));
    assert!(stays(Method::DELETE, "/buc/k?versionId=v"));
    for uri in ["/buc/k?uploads&delete", "/buc/k?delete", "/buc/k?uploadId=u&policy"] {
        assert!(!stays(Method::POST, uri), "{uri}");
    }
    for uri in ["/buc/k?tagging&acl", "/buc/k?renameObject", "/buc/k?compose", "/buc/k?append"] {
        assert!(!stays(Method::PUT, uri), "{uri}");
    }
    assert!(!stays(Method::DELETE, "/buc/k?versionId=v&uploadId=u&tagging"));
    // Of two values some stores take the first and some the last.
    assert!(!stays(Method::PUT, "/buc/k?uploadId=u&partNumber=1&uploadId="));
    assert!(!stays(Method::DELETE, "/buc/k?versionId=v&versionId=w"));
    assert!(!stays(Method::POST, "/buc/k?uploads&%75ploads"));
}

#[test]
fn what_is_not_known_is_refused() {
    for operation in [Operation::Unknown, Operation::WriteObjectSubresource] {
        assert_eq!(operation.footprint(), Footprint::Refused);
    }
}

#[test]
fn rows_of_one_operation_agree() {
    for row in TABLE {
        assert_eq!(row.name, format!("{:?}", row.operation));
        let refused = |row: &Row| row.footprint == Footprint::Refused;
        let first = row.operation.row();
        // A form that is sent to a key is refused whatever a form to a bucket is.
        if row.operation != Operation::PostObject {
            assert_eq!((row.footprint, row.fencing), (first.footprint, first.fencing));
        }
        assert_eq!(row.fencing.starts_with("refused: "), refused(row), "{}", row.name);
    }
}

//! What the store keeps for one version of an object.

use super::body::Body;
use super::checksum::Checksums;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The version id of everything written while versioning is not enabled.
pub(super) const NULL_VERSION: &str = "null";

/// One version of an object, or a delete marker. Never changed once it is in the index: new tags
/// make a new value.
#[derive(Clone, Debug)]
pub(super) struct Version {
    /// `"null"` or a random id.
    pub(super) id: String,
    /// The store's running number of the change that wrote it.
    pub(super) sequence: u64,
    /// Larger than that of every version before it, also of one that is gone and of one before a
    /// restart: microseconds since 1970, or one more than the last. What Cloud Storage calls so.
    pub(super) generation: u64,
    pub(super) modified: SystemTime,
    /// `None` is a delete marker.
    pub(super) content: Option<Content>,
}

/// Everything of a version that a client put there.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Without quotes.
    pub(super) etag: String,
    /// MD5 of the bytes in hex, where it was computed; not known for multipart objects.
    pub(super) md5: Option<String>,
    pub(super) attributes: Attributes,
    pub(super) checksums: Checksums,
    /// The sizes of the parts of a multipart object in bytes; empty for any other.
    pub(super) part_sizes: Vec<u64>,
    pub(super) body: Body,
}

/// Headers, user metadata and tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Attributes {
    pub(super) cache_control: Option<String>,
    pub(super) content_disposition: Option<String>,
    pub(super) content_encoding: Option<String>,
    pub(super) content_language: Option<String>,
    pub(super) content_type: Option<String>,
    /// Seconds since 1970.
    pub(super) expires: Option<u64>,
    pub(super) website_redirect_location: Option<String>,
    /// Names in lower case, without `x-amz-meta-`.
    pub(super) metadata: BTreeMap<String, String>,
    /// In the order given.
    pub(super) tags: Vec<(String, String)>,
}

/// `aws-chunked` describes the transfer, not the object; what else was said stays.
pub(super) fn strip_aws_chunked(content_encoding: Option<&str>) -> Option<String> {
    let codings = content_encoding?.split(',').map(str::trim);
    let kept: Vec<_> = codings.filter(|c| !c.eq_ignore_ascii_case("aws-chunked")).collect();
    (!kept.is_empty()).then(|| kept.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aws_chunked_is_not_stored() {
        assert_eq!(strip_aws_chunked(None), None);
        assert_eq!(strip_aws_chunked(Some("aws-chunked")), None);
        assert_eq!(strip_aws_chunked(Some("aws-chunked, gzip")).as_deref(), Some("gzip"));
        assert_eq!(strip_aws_chunked(Some("gzip,br")).as_deref(), Some("gzip,br"));
    }
}

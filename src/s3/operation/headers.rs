//! Headers of a write that could make it another one.

use http::{HeaderMap, HeaderName};

/// The first header on a write that opens a side door in some store: one PUT that creates many
/// keys, a delete of a whole prefix, a forged replica. A fenced write must not carry it.
#[must_use]
pub fn side_door(headers: &HeaderMap) -> Option<&str> {
    headers.keys().map(HeaderName::as_str).find(|name| {
        VENDORS.iter().any(|vendor| name.starts_with(vendor))
            || *name == "x-amz-meta-snowball-auto-extract"
            || METHOD_OVERRIDES.contains(name)
    })
}

/// The beginnings of headers by which a store can be made to do something else: a rename instead
/// of a copy (Tigris), metadata by another name (Ceph), a replica.
const VENDORS: [&str; 12] = [
    "x-bz-",
    "x-cos-",
    "x-dho-",
    "x-emc-",
    "x-goog-",
    "x-minio-",
    "x-obs-",
    "x-oss-",
    "x-rgw-",
    "x-rustfs-",
    "x-tigris-",
    "x-wasabi-",
];

/// Headers that some servers take for the method.
const METHOD_OVERRIDES: [&str; 3] =
    ["x-http-method", "x-http-method-override", "x-method-override"];

/// Whether the header may be taken for the method.
#[must_use]
pub fn overrides_method(name: &str) -> bool {
    METHOD_OVERRIDES.contains(&name)
}

/// What the `x-amz-*` headers of a write begin with, as far as it is known what they do: they
/// describe the object, the request or its signature, and none of them names another object.
const KNOWN: [&str; 35] = [
    "x-amz-acl",
    "x-amz-api-version",
    "x-amz-bypass-governance-retention",
    "x-amz-checksum-",
    "x-amz-content-sha256",
    "x-amz-copy-source",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-expected-bucket-owner",
    "x-amz-grant-",
    "x-amz-meta-",
    "x-amz-metadata-directive",
    "x-amz-mfa",
    "x-amz-mp-object-size",
    "x-amz-object-annotation-",
    "x-amz-object-if-match",
    "x-amz-object-lock-",
    "x-amz-request-payer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-bucket-key-enabled",
    "x-amz-server-side-encryption-context",
    "x-amz-server-side-encryption-customer-",
    "x-amz-source-expected-bucket-owner",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-tagging-directive",
    "x-amz-te",
    "x-amz-trailer",
    "x-amz-user-agent",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
    "x-amz-optional-object-attributes",
];

/// The copy-source headers that a copy may carry beside the source itself.
const OF_COPY_SOURCE: [&str; 5] =
    ["", "-if-match", "-if-none-match", "-if-modified-since", "-if-unmodified-since"];

/// The first `x-amz-*` header whose meaning is not known. It may make the write another one, as
/// `x-amz-copy-source` does.
#[must_use]
pub fn unknown_write_header<'a>(headers: &'a HeaderMap, allowed: &[String]) -> Option<&'a str> {
    headers.keys().map(HeaderName::as_str).find(|name| {
        name.starts_with("x-amz-") && !is_known(name) && !allowed.iter().any(|known| known == name)
    })
}

fn is_known(name: &str) -> bool {
    if let Some(rest) = name.strip_prefix("x-amz-copy-source") {
        return OF_COPY_SOURCE.contains(&rest)
            || rest == "-range"
            || rest.starts_with("-server-side-encryption-customer-");
    }
    KNOWN.iter().any(
        |known| {
            if known.ends_with('-') { name.starts_with(known) } else { name == *known }
        },
    )
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn unknown(name: &'static str, allowed: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static("1"));
        let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        unknown_write_header(&headers, &allowed).is_some()
    }

    #[test]
    fn a_header_is_known_by_its_whole_name() {
        for name in [
            "x-amz-acl",
            "x-amz-meta-a",
            "x-amz-grant-full-control",
            "x-amz-checksum-crc64nvme",
            "x-amz-copy-source-if-none-match",
            "x-amz-server-side-encryption",
            "content-type",
            "x-forwarded-for",
        ] {
            assert!(!unknown(name, &[]), "{name}");
        }
        for name in [
            "x-amz-unheard-of",
            "x-amz-acl-2",
            "x-amz-copy-sources",
            "x-amz-copy-source-bucket",
            "x-amz-storage-classes",
            "x-amz-server-side-encryption-off",
            "x-amz-rename-source",
        ] {
            assert!(unknown(name, &[]), "{name}");
            assert!(!unknown(name, &[name]), "{name} is allowed");
        }
    }
}

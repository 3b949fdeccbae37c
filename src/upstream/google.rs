//! The edge to Google Cloud Storage: an S3 request as Google's XML API wants it, and its answer as
//! S3 has it.
//!
//! Google takes S3 requests as they are, with an HMAC key and Signature Version 4, but ignores
//! `If-Match` and `If-None-Match` on what writes. Its own precondition,
//! `x-goog-if-generation-match`, is refused (400 `ExcessHeaderValues`) beside any `x-amz-*` header.
//! So a request either stays in S3's words or is put into Google's altogether. What cannot be put
//! into them is refused, never left out: only what says nothing about the object (names of SDKs,
//! checksums that the proxy has verified) is dropped.
//!
//! Sources: `cloud.google.com/storage/docs/xml-api/reference-headers`, `…/put-object-copy`,
//! `…/request-preconditions`, `…/migrating` ("change any x-amz-* headers to x-goog-*").

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Uri};

use super::dialect::{generation_of, is_opaque};
use crate::auth::strip_client_auth;
use crate::s3::strip_quotes;

const IF_GENERATION: HeaderName = HeaderName::from_static("x-goog-if-generation-match");
const SOURCE: HeaderName = HeaderName::from_static("x-goog-copy-source");
const SOURCE_GENERATION: HeaderName = HeaderName::from_static("x-goog-copy-source-generation");
const SOURCE_IF_MATCH: HeaderName = HeaderName::from_static("x-goog-copy-source-if-match");
const SOURCE_IF_GENERATION: HeaderName =
    HeaderName::from_static("x-goog-copy-source-if-generation-match");
const HASH: HeaderName = HeaderName::from_static("x-goog-hash");
const KMS_KEY: HeaderName = HeaderName::from_static("x-goog-encryption-kms-key-name");

const AMZ_SSE: HeaderName = HeaderName::from_static("x-amz-server-side-encryption");
const AMZ_KMS_KEY: HeaderName =
    HeaderName::from_static("x-amz-server-side-encryption-aws-kms-key-id");
const AMZ_CRC32C: HeaderName = HeaderName::from_static("x-amz-checksum-crc32c");
const AMZ_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");

/// A generation that no object has: they are times in microseconds, in 63 bits.
const GENERATION_NEVER: &str = "9223372036854775807";

/// What follows `x-amz-` in headers that Google knows by the same name behind `x-goog-`. The names
/// of canned ACLs are the same ones; Google refuses those that it does not have.
const SAME: [&str; 8] = [
    "acl",
    "copy-source",
    "copy-source-if-match",
    "copy-source-if-modified-since",
    "copy-source-if-none-match",
    "copy-source-if-unmodified-since",
    "metadata-directive",
    "storage-class",
];

/// What follows `x-amz-` in headers that say nothing about the object that Google would have to
/// know: the SDK, how the body was framed, who pays, checksums (`checksum-*` too, see [`say`]).
const DROPPED: [&str; 13] = [
    "api-version",
    "content-sha256",
    "date",
    "decoded-content-length",
    "mp-object-size",
    "optional-object-attributes",
    "request-payer",
    "s3session-token",
    "sdk-checksum-algorithm",
    "security-token",
    "te",
    "trailer",
    "user-agent",
];

/// What cannot be said to Google.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unspeakable {
    /// A header without a counterpart.
    #[error("Google Cloud Storage has no counterpart to the header {0}")]
    Header(HeaderName),
    /// A precondition that names no generation.
    #[error("the condition {0} names no generation")]
    Condition(HeaderName),
    /// The URI cannot be rebuilt.
    #[error("the URI of the request cannot be rebuilt")]
    Uri,
}

/// What becomes of a header.
enum Said {
    As(HeaderName, HeaderValue),
    Dropped,
    Not,
}

/// The first header that a write cannot be sent with to Google.
pub(super) fn unspeakable(headers: &HeaderMap) -> Option<&str> {
    let mut named = headers.iter();
    let found = named.find(|(name, value)| matches!(say(headers, name, value), Said::Not));
    found.map(|(name, _)| name.as_str())
}

/// Whether the request changes something under a condition that Google would ignore as it is, or
/// pins what it copies by a generation.
pub(super) fn is_conditional_write(parts: &Parts) -> bool {
    let pin = parts.headers.get("x-amz-copy-source-if-match");
    !reads(parts)
        && (parts.headers.contains_key(header::IF_MATCH)
            || parts.headers.contains_key(header::IF_NONE_MATCH)
            || pin.and_then(generation_in).is_some())
}

fn reads(parts: &Parts) -> bool {
    matches!(parts.method, Method::GET | Method::HEAD)
}

/// Puts an S3 request into Google's words, without authentication. No `x-amz-*` header is left.
///
/// # Errors
///
/// [`Unspeakable`]; the request must not be sent then.
pub(super) fn outbound(parts: &mut Parts) -> Result<(), Unspeakable> {
    strip_client_auth(parts);
    let crc32c = content_crc32c(parts);
    let mut said = HeaderMap::with_capacity(parts.headers.len());
    for (name, value) in &parts.headers {
        match say(&parts.headers, name, value) {
            Said::As(name, value) => {
                said.append(name, value);
            }
            Said::Dropped => {}
            Said::Not => return Err(Unspeakable::Header(name.clone())),
        }
    }
    if let Some(crc32c) = crc32c {
        said.insert(HASH, crc32c);
    }
    if !reads(parts) {
        set_precondition(&mut said)?;
    }
    set_source(&mut said)?;
    parts.headers = said;
    if let Some(query) = parts.uri.query().filter(|query| query.contains("versionId=")) {
        parts.uri = with_generation(&parts.uri, query).ok_or(Unspeakable::Uri)?;
    }
    Ok(())
}

fn say(all: &HeaderMap, name: &HeaderName, value: &HeaderValue) -> Said {
    let same = |name: &str| {
        let name = HeaderName::try_from(format!("x-goog-{name}"));
        Said::As(name.expect("a header's name with another beginning"), value.clone())
    };
    let Some(rest) = name.as_str().strip_prefix("x-amz-") else {
        // `x-amzn-trace-id` and the like.
        let of_aws = name.as_str().starts_with("x-amzn-") || name.as_str().starts_with("amz-sdk-");
        return if of_aws { Said::Dropped } else { Said::As(name.clone(), value.clone()) };
    };
    match rest {
        _ if rest.starts_with("meta-") || SAME.contains(&rest) => same(rest),
        // Google keeps CRC32C and MD5 alone; the proxy has verified the others.
        _ if rest.starts_with("checksum-") || DROPPED.contains(&rest) => Said::Dropped,
        // Google encrypts everything, with AES-256 if nothing else is asked for.
        "server-side-encryption" if value == "AES256" => Said::Dropped,
        "server-side-encryption" if value == "aws:kms" && all.contains_key(&AMZ_KMS_KEY) => {
            Said::Dropped
        }
        "server-side-encryption-aws-kms-key-id" => Said::As(KMS_KEY, value.clone()),
        "server-side-encryption-bucket-key-enabled" => Said::Dropped,
        // There are no tags of objects to be copied.
        "tagging-directive" if value == "COPY" => Said::Dropped,
        _ => Said::Not,
    }
}

/// The checksum that Google verifies, of a body that is an object's.
fn content_crc32c(parts: &Parts) -> Option<HeaderValue> {
    let is_content = parts.method == Method::PUT && !parts.headers.contains_key(AMZ_SOURCE);
    let crc32c = parts.headers.get(AMZ_CRC32C).filter(|_| is_content)?.to_str().ok()?;
    HeaderValue::from_str(&format!("crc32c={crc32c}")).ok()
}

/// `If-None-Match: *` and `If-Match: "<generation>/<etag>"`, in Google's words.
fn set_precondition(headers: &mut HeaderMap) -> Result<(), Unspeakable> {
    let none_match = headers.remove(header::IF_NONE_MATCH);
    let generation = match (headers.remove(header::IF_MATCH), none_match) {
        (None, None) => return Ok(()),
        (None, Some(any)) if any == "*" => HeaderValue::from_static("0"),
        (Some(tag), None) => {
            let generation = generation_in(&tag).or_else(|| no_generation(&tag));
            generation.ok_or(Unspeakable::Condition(header::IF_MATCH))?
        }
        (_, Some(_)) => return Err(Unspeakable::Condition(header::IF_NONE_MATCH)),
    };
    headers.insert(IF_GENERATION, generation);
    Ok(())
}

fn generation_in(tag: &HeaderValue) -> Option<HeaderValue> {
    HeaderValue::from_str(generation_of(strip_quotes(tag.to_str().ok()?))?).ok()
}

/// What stands for a tag that names no generation, and so is that of no object (an examination's): the
/// condition must fail, and not be left out.
fn no_generation(tag: &HeaderValue) -> Option<HeaderValue> {
    let tag = strip_quotes(tag.to_str().ok()?);
    (is_opaque(tag) && tag != "*").then(|| HeaderValue::from_static(GENERATION_NEVER))
}

/// The source of a copy: its version, and the pin on it where that names a generation.
fn set_source(headers: &mut HeaderMap) -> Result<(), Unspeakable> {
    if let Some(generation) = headers.get(SOURCE_IF_MATCH).and_then(generation_in) {
        headers.remove(SOURCE_IF_MATCH);
        headers.insert(SOURCE_IF_GENERATION, generation);
    }
    let Some(source) = headers.get(SOURCE).and_then(|source| source.to_str().ok()) else {
        return Ok(());
    };
    if let Some((path, version)) = source.split_once("?versionId=") {
        let wrong = |_| Unspeakable::Header(SOURCE);
        let (path, version) = (
            HeaderValue::from_str(path).map_err(wrong)?,
            HeaderValue::from_str(version).map_err(wrong)?,
        );
        headers.insert(SOURCE, path);
        headers.insert(SOURCE_GENERATION, version);
    }
    Ok(())
}

/// Google's name for `versionId`.
fn with_generation(uri: &Uri, query: &str) -> Option<Uri> {
    let renamed: Vec<String> = query
        .split('&')
        .map(|parameter| match parameter.strip_prefix("versionId=") {
            Some(version) => format!("generation={version}"),
            None => parameter.to_owned(),
        })
        .collect();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{}", uri.path(), renamed.join("&")).parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Adds to the headers of an answer in Google's words what an S3 client looks for in it. Google's
/// own stay, but for the metadata, which has another name.
pub(super) fn inbound(headers: &mut HeaderMap) {
    let metadata: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-goog-meta-")).cloned().collect();
    for name in metadata {
        let own = name.as_str().replacen("x-goog-", "x-amz-", 1);
        let own = HeaderName::try_from(own).expect("a header's name with another beginning");
        let values: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
        headers.remove(&name);
        for value in values {
            headers.append(own.clone(), value);
        }
    }
    // S3 does not name the standard class.
    if let Some(class) = headers.get("x-goog-storage-class").filter(|class| *class != "STANDARD") {
        let class = class.clone();
        headers.insert("x-amz-storage-class", class);
    }
    if let Some(key) = headers.get(KMS_KEY).and_then(|key| key.to_str().ok()) {
        // The version of the key cannot be asked for.
        let key = key.split_once("/cryptoKeyVersions/").map_or(key, |(key, _)| key);
        if let Ok(key) = HeaderValue::from_str(key) {
            headers.insert(AMZ_SSE, HeaderValue::from_static("aws:kms"));
            headers.insert(AMZ_KMS_KEY, key);
        }
    }
}

#[cfg(test)]
#[path = "google_tests.rs"]
mod tests;

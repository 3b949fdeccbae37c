//! What the head of a request promises about its body.
//!
//! Parsed, and refused where malformed, before a byte of the body is read.

use http::request::Parts;
use http::{HeaderMap, HeaderName, Version, header};

use super::checksum::ChecksumAlgorithm;
use super::error::AuthError;
use super::payload::{DECODED_LENGTH, Payload, TRAILER, parse_decimal};

const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");

/// What `x-amz-checksum-*` headers are the checksum of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumHeaders {
    /// Of the body of this request: every operation but one.
    OfBody,
    /// Of the whole object, as in `CompleteMultipartUpload`, where the body is a list of parts.
    /// The store verifies it.
    OfObject,
}

/// The promises about a body, for [`VerifiedBody`](super::VerifiedBody) to hold the client to.
#[derive(Debug)]
pub struct BodyChecks {
    pub(super) payload: Payload,
    pub(super) decoded_length: Option<u64>,
    pub(super) content_md5: Option<Vec<u8>>,
    pub(super) checksum: Option<(ChecksumAlgorithm, Vec<u8>)>,
    pub(super) trailer: Option<ChecksumAlgorithm>,
}

impl BodyChecks {
    /// Collects the promises from the head of a request as the client sent it (before any header
    /// is removed). `payload` is that of [`Verified`](super::Verified).
    ///
    /// # Errors
    ///
    /// [`AuthError`] when a promise cannot be read, or when there are several of one kind.
    pub fn new(
        parts: &Parts,
        payload: Payload,
        checksum_headers: ChecksumHeaders,
    ) -> Result<Self, AuthError> {
        let headers = &parts.headers;
        let decoded_length = match payload {
            Payload::Chunked { .. } => {
                Some(length(headers, &DECODED_LENGTH)?.ok_or(AuthError::MissingDecodedLength)?)
            }
            Payload::Sha256(_) | Payload::Unsigned => plain_length(parts)?,
        };
        let checksum = match checksum_headers {
            ChecksumHeaders::OfBody => checksum_header(headers)?,
            ChecksumHeaders::OfObject => None,
        };
        let trailer = declared_trailer(headers)?;
        match payload {
            Payload::Chunked { trailer: true, .. } => {}
            Payload::Chunked { trailer: false, .. } | Payload::Sha256(_) | Payload::Unsigned => {
                if trailer.is_some() {
                    return Err(AuthError::UnexpectedTrailer);
                }
            }
        }
        if checksum.is_some() && trailer.is_some() {
            return Err(AuthError::SeveralChecksums);
        }
        let content_md5 = match headers.get(CONTENT_MD5) {
            Some(value) => Some(
                ChecksumAlgorithm::Md5.decode(value.as_bytes()).ok_or(AuthError::InvalidDigest)?,
            ),
            None => None,
        };
        Ok(Self { payload, decoded_length, content_md5, checksum, trailer })
    }

    /// The number of bytes that the decoded body will have; `None` when the client does not say
    /// (`Transfer-Encoding: chunked` around a body that is not aws-chunked).
    #[must_use]
    pub fn decoded_length(&self) -> Option<u64> {
        self.decoded_length
    }
}

fn length(headers: &HeaderMap, name: &HeaderName) -> Result<Option<u64>, AuthError> {
    match headers.get(name) {
        None => Ok(None),
        Some(value) => value
            .to_str()
            .ok()
            .and_then(parse_decimal)
            .map(Some)
            .ok_or_else(|| AuthError::InvalidLength(name.clone())),
    }
}

/// `Content-Length`. An HTTP/1 request with neither that nor `Transfer-Encoding` has no body.
fn plain_length(parts: &Parts) -> Result<Option<u64>, AuthError> {
    let declared = length(&parts.headers, &header::CONTENT_LENGTH)?;
    let http1 = [Version::HTTP_09, Version::HTTP_10, Version::HTTP_11].contains(&parts.version);
    let no_body = http1 && !parts.headers.contains_key(header::TRANSFER_ENCODING);
    Ok(declared.or(no_body.then_some(0)))
}

fn checksum_header(headers: &HeaderMap) -> Result<Option<(ChecksumAlgorithm, Vec<u8>)>, AuthError> {
    let mut found = None;
    for (name, value) in headers {
        let Some(algorithm) = ChecksumAlgorithm::of_header(name) else { continue };
        let value = algorithm
            .decode(value.as_bytes())
            .ok_or_else(|| AuthError::InvalidChecksum(name.clone()))?;
        if found.replace((algorithm, value)).is_some() {
            return Err(AuthError::SeveralChecksums);
        }
    }
    Ok(found)
}

/// The one checksum that `x-amz-trailer` announces. S3 defines no other trailers.
fn declared_trailer(headers: &HeaderMap) -> Result<Option<ChecksumAlgorithm>, AuthError> {
    let mut found = None;
    for value in headers.get_all(TRAILER) {
        let names = value.to_str().map_err(|_| AuthError::UnsupportedTrailer)?;
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let algorithm = HeaderName::from_bytes(name.as_bytes())
                .ok()
                .and_then(|name| ChecksumAlgorithm::of_header(&name))
                .ok_or(AuthError::UnsupportedTrailer)?;
            if found.replace(algorithm).is_some() {
                return Err(AuthError::SeveralChecksums);
            }
        }
    }
    Ok(found)
}

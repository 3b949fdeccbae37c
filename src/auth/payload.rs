//! What `x-amz-content-sha256` says about a body, and the headers of aws-chunked framing.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::error::AuthError;

pub(super) const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
pub(super) const DECODED_LENGTH: HeaderName =
    HeaderName::from_static("x-amz-decoded-content-length");
pub(super) const TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");

/// `x-amz-content-sha256` of a body that is not hashed.
pub(super) const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// The content coding that S3 invented for chunks with signatures and trailers.
const AWS_CHUNKED: &str = "aws-chunked";

/// How a body is protected and framed.
#[derive(Clone, Debug)]
pub enum Payload {
    /// The SHA-256 of the whole body is known from the head.
    Sha256([u8; 32]),
    /// No hash (`UNSIGNED-PAYLOAD`, or presigned): checksums and the length are all there is.
    Unsigned,
    /// aws-chunked framing.
    Chunked {
        /// What is done about the signatures of chunks.
        signatures: ChunkSignatures,
        /// Whether a trailer follows the last chunk.
        trailer: bool,
    },
}

/// The signatures inside an aws-chunked body.
#[derive(Clone, Debug)]
pub enum ChunkSignatures {
    /// The framing has none (`STREAMING-UNSIGNED-PAYLOAD-TRAILER`).
    Absent,
    /// The framing has them, nobody here can check them: authentication is off.
    Ignored,
    /// They chain from the signature of the request.
    Verified(ChunkSeed),
}

/// What the signatures of chunks are computed with. Prints as nothing.
#[derive(Clone)]
pub struct ChunkSeed {
    /// The derived key, good for one day, region and service.
    pub(super) signing_key: Vec<u8>,
    /// `X-Amz-Date`.
    pub(super) date: String,
    /// The credential scope.
    pub(super) scope: String,
    /// The signature of the request, which the first chunk's builds on.
    pub(super) signature: String,
}

impl fmt::Debug for ChunkSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChunkSeed")
    }
}

/// A value of `x-amz-content-sha256`, before it is known whether signatures can be checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Declared {
    Sha256([u8; 32]),
    Unsigned,
    StreamingSigned { trailer: bool },
    StreamingUnsignedTrailer,
}

impl Declared {
    pub(super) fn parse(value: &str) -> Result<Self, AuthError> {
        match value {
            UNSIGNED_PAYLOAD => Ok(Self::Unsigned),
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => Ok(Self::StreamingUnsignedTrailer),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => Ok(Self::StreamingSigned { trailer: false }),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => {
                Ok(Self::StreamingSigned { trailer: true })
            }
            "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"
            | "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER" => Err(AuthError::PayloadV4a),
            hash => {
                let mut sha256 = [0; 32];
                hex::decode_to_slice(hash, &mut sha256)
                    .map_err(|_| AuthError::InvalidContentSha256)?;
                Ok(Self::Sha256(sha256))
            }
        }
    }

    /// `seed` is what chunk signatures are checked with; `None` where authentication is off.
    pub(super) fn into_payload(self, seed: Option<ChunkSeed>) -> Payload {
        match self {
            Self::Sha256(hash) => Payload::Sha256(hash),
            Self::Unsigned => Payload::Unsigned,
            Self::StreamingUnsignedTrailer => {
                Payload::Chunked { signatures: ChunkSignatures::Absent, trailer: true }
            }
            Self::StreamingSigned { trailer } => Payload::Chunked {
                signatures: seed.map_or(ChunkSignatures::Ignored, ChunkSignatures::Verified),
                trailer,
            },
        }
    }
}

/// Removes what describes aws-chunked framing from the headers of a request whose body has been
/// decoded: `x-amz-decoded-content-length`, `x-amz-trailer`, and `aws-chunked` in
/// `Content-Encoding`, where other codings (`gzip`) stay. The caller sets `Content-Length`.
pub fn remove_chunked_framing(headers: &mut HeaderMap) {
    headers.remove(DECODED_LENGTH);
    headers.remove(TRAILER);
    let is_framed =
        |value: &HeaderValue| codings(value).any(|c| c.eq_ignore_ascii_case(AWS_CHUNKED));
    if !headers.get_all(header::CONTENT_ENCODING).iter().any(is_framed) {
        return;
    }
    let kept: Vec<String> = headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .flat_map(codings)
        .filter(|coding| !coding.eq_ignore_ascii_case(AWS_CHUNKED))
        .map(str::to_owned)
        .collect();
    headers.remove(header::CONTENT_ENCODING);
    if !kept.is_empty()
        && let Ok(value) = HeaderValue::from_str(&kept.join(","))
    {
        headers.insert(header::CONTENT_ENCODING, value);
    }
}

/// The codings that a `Content-Encoding` value lists.
fn codings(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or("").split(',').map(str::trim).filter(|coding| !coding.is_empty())
}

/// A decimal number without sign or space; leading zeros are fine.
pub(super) fn parse_decimal(text: &str) -> Option<u64> {
    let digits_only = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits_only.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_content_sha256() {
        let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert!(matches!(Declared::parse(hash), Ok(Declared::Sha256(h)) if h[0] == 0xe3));
        assert_eq!(Declared::parse("UNSIGNED-PAYLOAD"), Ok(Declared::Unsigned));
        assert_eq!(
            Declared::parse("STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
            Ok(Declared::StreamingUnsignedTrailer)
        );
        for (suffix, trailer) in [("", false), ("-TRAILER", true)] {
            assert_eq!(
                Declared::parse(&format!("STREAMING-AWS4-HMAC-SHA256-PAYLOAD{suffix}")),
                Ok(Declared::StreamingSigned { trailer })
            );
            assert_eq!(
                Declared::parse(&format!("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD{suffix}")),
                Err(AuthError::PayloadV4a)
            );
        }
        for bad in ["", "unsigned-payload", &hash[1..], "STREAMING-", &format!("{hash}00")] {
            assert_eq!(Declared::parse(bad), Err(AuthError::InvalidContentSha256), "{bad}");
        }
    }

    #[test]
    fn only_the_framing_is_removed() {
        let cases: [(&[&str], Option<&str>); 5] = [
            (&["aws-chunked"], None),
            (&["gzip,aws-chunked"], Some("gzip")),
            (&["AWS-chunked , gzip, br"], Some("gzip,br")),
            (&["gzip", "aws-chunked"], Some("gzip")),
            (&["x-odd , gzip"], Some("x-odd , gzip")),
        ];
        for (sent, left) in cases {
            let mut headers = HeaderMap::new();
            for value in sent {
                headers.append(header::CONTENT_ENCODING, value.parse().unwrap());
            }
            headers.insert(DECODED_LENGTH, HeaderValue::from_static("5"));
            headers.insert(TRAILER, HeaderValue::from_static("x-amz-checksum-crc32"));
            headers.insert("x-amz-meta-a", HeaderValue::from_static("1"));
            remove_chunked_framing(&mut headers);
            let found = headers.get(header::CONTENT_ENCODING).map(|v| v.to_str().unwrap());
            assert_eq!(found, left, "for {sent:?}");
            assert_eq!(headers.len(), 1 + usize::from(left.is_some()));
        }
    }

    #[test]
    fn decimals() {
        assert_eq!(parse_decimal("007"), Some(7));
        assert_eq!(parse_decimal("18446744073709551615"), Some(u64::MAX));
        for bad in ["", "+1", "-1", " 1", "1 ", "0x1", "1.0", "18446744073709551616"] {
            assert_eq!(parse_decimal(bad), None, "{bad:?}");
        }
    }
}

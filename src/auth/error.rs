//! Why a request was not let in: one variant per cause, each with S3's code and status.
//!
//! Decided from the head of a request alone; what is wrong with a body is a
//! [`BodyError`](super::BodyError). No variant holds a secret: the string to sign consists of a
//! date, a scope and a hash. The canonical request is left out on purpose (AWS shows it), because
//! it contains the values of session tokens.

use std::time::SystemTime;

use http::{HeaderName, StatusCode};

use super::amz_date::iso8601;
use super::verify::SKEW_MAX;

/// Why the head of a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// No signature at all.
    #[error("Access Denied: the request is not signed")]
    Anonymous,
    /// A signature in the header and one in the query.
    #[error(
        "Only one auth mechanism allowed: the Authorization header or a signed query, not both"
    )]
    TwoMechanisms,
    /// A browser's form that claims to be signed as a whole.
    #[error(
        "Only one auth mechanism allowed: a multipart/form-data POST is signed by the policy among \
         its fields, not by the Authorization header or the query"
    )]
    SignedForm,
    /// Signature Version 2. boto3 still presigns with it in us-east-1. The message is for whoever
    /// holds the client's settings, and has no other way to learn which of them it is.
    #[error(
        "Signature Version 2 is not supported; sign with AWS4-HMAC-SHA256 (boto3: \
         Config(signature_version='s3v4'); aws-cli: aws configure set \
         default.s3.signature_version s3v4; s3cmd: signature_v2 = False; rclone: v2_auth = false; \
         s3fs: -o sigv4)"
    )]
    SignatureV2,
    /// SigV4A, the asymmetric form for multi-Region access points.
    #[error("AWS4-ECDSA-P256-SHA256 (SigV4A) is not supported; sign with AWS4-HMAC-SHA256")]
    SignatureV4a,
    /// An `Authorization` header of another kind, such as `Bearer`.
    #[error("Unsupported Authorization Type; sign with AWS4-HMAC-SHA256")]
    UnsupportedAuthorization,
    /// The `Authorization` header cannot be read.
    #[error("The authorization header is malformed; {0}")]
    MalformedHeader(&'static str),
    /// The signature parameters of a presigned request cannot be read.
    #[error("The query string is not a valid signature; {0}")]
    MalformedQuery(&'static str),
    /// Neither `X-Amz-Date` nor `Date` is a time.
    #[error("AWS authentication requires a valid Date or x-amz-date header")]
    InvalidDate,
    /// The access key id is not one of ours.
    #[error("The AWS Access Key Id you provided does not exist in our records.")]
    UnknownAccessKey {
        /// The id that was given.
        access_key_id: String,
    },
    /// The header form, signed more than fifteen minutes ago or ahead.
    #[error("The difference between the request time and the current time is too large.")]
    TimeTooSkewed {
        /// When the client says it signed.
        signed_at: SystemTime,
        /// The time here.
        now: SystemTime,
    },
    /// A presigned request after its end.
    #[error("Request has expired")]
    Expired {
        /// `X-Amz-Expires`, in seconds.
        expires_seconds: u64,
        /// When it ended.
        expired_at: SystemTime,
        /// The time here.
        now: SystemTime,
    },
    /// A presigned request more than fifteen minutes before its beginning.
    #[error("Request is not valid yet")]
    NotYetValid {
        /// When it begins.
        signed_at: SystemTime,
        /// The time here.
        now: SystemTime,
    },
    /// Headers that have to be signed are not: whoever stands in between could have added them.
    #[error("There were headers present in the request which were not signed")]
    HeadersNotSigned(Vec<HeaderName>),
    /// A header that can have one meaning only was sent more than once.
    #[error("The header {0} was sent more than once")]
    RepeatedHeader(HeaderName),
    /// Two values for the same thing, such as a session token in a header and another in the query.
    #[error("{0}")]
    Contradiction(&'static str),
    /// The signature is not the one that the secret gives.
    #[error(
        "The request signature we calculated does not match the signature you provided. Check \
         your key and signing method."
    )]
    SignatureMismatch {
        /// The id that was given.
        access_key_id: String,
        /// The string to sign as computed here.
        string_to_sign: String,
        /// The signature that was given.
        signature_provided: String,
    },
    /// The path or the query has a `%` that encodes nothing.
    #[error("Couldn't parse the specified URI.")]
    InvalidUri,
    /// No `Host` header and no `:authority`.
    #[error("Missing required header for this request: host")]
    MissingHost,
    /// The header form needs `x-amz-content-sha256`.
    #[error("Missing required header for this request: x-amz-content-sha256")]
    MissingContentSha256,
    /// A value of `x-amz-content-sha256` that S3 does not know.
    #[error(
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a STREAMING- value or a sha256 in \
         hexadecimal"
    )]
    InvalidContentSha256,
    /// A payload signed with SigV4A.
    #[error("Payloads signed with AWS4-ECDSA-P256-SHA256 are not supported")]
    PayloadV4a,
    /// An aws-chunked body without `x-amz-decoded-content-length`.
    #[error("You must provide the x-amz-decoded-content-length HTTP header.")]
    MissingDecodedLength,
    /// A length header that is not a decimal number.
    #[error("The value of {0} is not a decimal number of bytes")]
    InvalidLength(HeaderName),
    /// A trailer that is not a checksum which can be verified here.
    #[error("The value specified in the x-amz-trailer header is not supported")]
    UnsupportedTrailer,
    /// `x-amz-trailer` with a body that has none.
    #[error("x-amz-trailer was sent with a body that has no trailer")]
    UnexpectedTrailer,
    /// More than one checksum.
    #[error("Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")]
    SeveralChecksums,
    /// A checksum header that is not base64 of the right length.
    #[error("Value for {0} header is invalid.")]
    InvalidChecksum(HeaderName),
    /// `Content-MD5` is not base64 of 16 bytes.
    #[error("The Content-MD5 you specified is not valid.")]
    InvalidDigest,
}

impl AuthError {
    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Anonymous
            | Self::InvalidDate
            | Self::UnknownAccessKey { .. }
            | Self::TimeTooSkewed { .. }
            | Self::Expired { .. }
            | Self::NotYetValid { .. }
            | Self::HeadersNotSigned(_)
            | Self::SignatureMismatch { .. } => StatusCode::FORBIDDEN,
            Self::MissingDecodedLength => StatusCode::LENGTH_REQUIRED,
            Self::SignatureV4a | Self::PayloadV4a => StatusCode::NOT_IMPLEMENTED,
            Self::TwoMechanisms
            | Self::SignedForm
            | Self::SignatureV2
            | Self::UnsupportedAuthorization
            | Self::MalformedHeader(_)
            | Self::MalformedQuery(_)
            | Self::RepeatedHeader(_)
            | Self::Contradiction(_)
            | Self::InvalidUri
            | Self::MissingHost
            | Self::MissingContentSha256
            | Self::InvalidContentSha256
            | Self::InvalidLength(_)
            | Self::UnsupportedTrailer
            | Self::UnexpectedTrailer
            | Self::SeveralChecksums
            | Self::InvalidChecksum(_)
            | Self::InvalidDigest => StatusCode::BAD_REQUEST,
        }
    }

    /// The S3 error code, one of those in the S3 API reference.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Anonymous
            | Self::InvalidDate
            | Self::Expired { .. }
            | Self::NotYetValid { .. }
            | Self::HeadersNotSigned(_) => "AccessDenied",
            Self::TwoMechanisms
            | Self::SignedForm
            | Self::UnsupportedAuthorization
            | Self::InvalidContentSha256
            | Self::InvalidLength(_) => "InvalidArgument",
            Self::MalformedHeader(_) => "AuthorizationHeaderMalformed",
            Self::MalformedQuery(_) => "AuthorizationQueryParametersError",
            Self::UnknownAccessKey { .. } => "InvalidAccessKeyId",
            Self::TimeTooSkewed { .. } => "RequestTimeTooSkewed",
            Self::SignatureMismatch { .. } => "SignatureDoesNotMatch",
            Self::InvalidUri => "InvalidURI",
            Self::SignatureV4a | Self::PayloadV4a => "NotImplemented",
            Self::MissingDecodedLength => "MissingContentLength",
            Self::InvalidDigest => "InvalidDigest",
            Self::SignatureV2
            | Self::RepeatedHeader(_)
            | Self::Contradiction(_)
            | Self::MissingHost
            | Self::MissingContentSha256
            | Self::UnsupportedTrailer
            | Self::UnexpectedTrailer
            | Self::SeveralChecksums
            | Self::InvalidChecksum(_) => "InvalidRequest",
        }
    }

    /// Further elements of the error document, beside `Code` and `Message`, as AWS names them.
    #[must_use]
    pub fn elements(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::UnknownAccessKey { access_key_id } => {
                vec![("AWSAccessKeyId", access_key_id.clone())]
            }
            Self::TimeTooSkewed { signed_at, now } => vec![
                ("RequestTime", iso8601(*signed_at)),
                ("ServerTime", iso8601(*now)),
                ("MaxAllowedSkewMilliseconds", SKEW_MAX.as_millis().to_string()),
            ],
            Self::Expired { expires_seconds, expired_at, now } => vec![
                ("X-Amz-Expires", expires_seconds.to_string()),
                ("Expires", iso8601(*expired_at)),
                ("ServerTime", iso8601(*now)),
            ],
            Self::NotYetValid { signed_at, now } => {
                vec![("RequestTime", iso8601(*signed_at)), ("ServerTime", iso8601(*now))]
            }
            Self::HeadersNotSigned(names) => {
                let names: Vec<&str> = names.iter().map(HeaderName::as_str).collect();
                vec![("HeadersNotSigned", names.join(", "))]
            }
            Self::SignatureMismatch { access_key_id, string_to_sign, signature_provided } => vec![
                ("AWSAccessKeyId", access_key_id.clone()),
                ("StringToSign", string_to_sign.clone()),
                ("SignatureProvided", signature_provided.clone()),
            ],
            Self::UnsupportedAuthorization => vec![("ArgumentName", "Authorization".to_owned())],
            Self::InvalidContentSha256 => {
                vec![("ArgumentName", "x-amz-content-sha256".to_owned())]
            }
            Self::InvalidLength(name) => vec![("ArgumentName", name.as_str().to_owned())],
            Self::Anonymous
            | Self::TwoMechanisms
            | Self::SignedForm
            | Self::SignatureV2
            | Self::SignatureV4a
            | Self::MalformedHeader(_)
            | Self::MalformedQuery(_)
            | Self::InvalidDate
            | Self::RepeatedHeader(_)
            | Self::Contradiction(_)
            | Self::InvalidUri
            | Self::MissingHost
            | Self::MissingContentSha256
            | Self::PayloadV4a
            | Self::MissingDecodedLength
            | Self::UnsupportedTrailer
            | Self::UnexpectedTrailer
            | Self::SeveralChecksums
            | Self::InvalidChecksum(_)
            | Self::InvalidDigest => Vec::new(),
        }
    }
}

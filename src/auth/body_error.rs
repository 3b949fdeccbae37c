//! Why a body was refused, each cause with S3's code and status.

use std::error::Error;
use std::sync::Arc;

use http::{HeaderName, StatusCode};

/// Why a body was refused. The store has not got the whole of it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The signature of a chunk or of the trailer is not the one that the secret gives.
    #[error(
        "The chunk signature we calculated does not match the signature you provided. Check your \
         key and signing method."
    )]
    SignatureMismatch,
    /// The body does not hash to `x-amz-content-sha256`.
    #[error("The provided 'x-amz-content-sha256' header does not match what was computed.")]
    ContentSha256Mismatch {
        /// What the client said, in hexadecimal.
        client: String,
        /// What arrived, in hexadecimal.
        computed: String,
    },
    /// The body has another checksum than the header or trailer of this name says.
    #[error("The {0} you specified did not match the calculated checksum.")]
    BadDigest(HeaderName),
    /// Fewer bytes than announced.
    #[error("The request body terminated unexpectedly: {received} of {expected} bytes arrived")]
    Incomplete {
        /// The announced length of the decoded body.
        expected: u64,
        /// How many of its bytes arrived.
        received: u64,
    },
    /// The framing ends before its last chunk or its trailer.
    #[error("The request body terminated unexpectedly, inside its aws-chunked framing")]
    IncompleteFraming,
    /// More bytes than announced.
    #[error("The request body is longer than the {expected} bytes announced for it")]
    TooLong {
        /// The announced length of the decoded body.
        expected: u64,
    },
    /// A chunk's first line does not start with a size.
    #[error("The size of a chunk is invalid: {0}")]
    InvalidChunkSize(&'static str),
    /// The framing is not aws-chunked.
    #[error("The aws-chunked framing of the request body is invalid: {0}")]
    InvalidFraming(&'static str),
    /// The trailer is not what `x-amz-trailer` announced, or not a trailer.
    #[error("The request contained trailing data that was not well-formed: {0}")]
    MalformedTrailer(&'static str),
    /// The body was to be buffered and does not fit.
    #[error("The request body is larger than the {bytes_max} bytes that are buffered here")]
    TooLargeToBuffer {
        /// The limit, in bytes.
        bytes_max: usize,
    },
    /// The client went away, or its connection broke.
    #[error("The request body could not be read")]
    Client(#[source] Arc<dyn Error + Send + Sync>),
}

impl BodyError {
    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::SignatureMismatch => StatusCode::FORBIDDEN,
            Self::TooLargeToBuffer { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::ContentSha256Mismatch { .. }
            | Self::BadDigest(_)
            | Self::Incomplete { .. }
            | Self::IncompleteFraming
            | Self::TooLong { .. }
            | Self::InvalidChunkSize(_)
            | Self::InvalidFraming(_)
            | Self::MalformedTrailer(_)
            | Self::Client(_) => StatusCode::BAD_REQUEST,
        }
    }

    /// The S3 error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::SignatureMismatch => "SignatureDoesNotMatch",
            Self::ContentSha256Mismatch { .. } => "XAmzContentSHA256Mismatch",
            Self::BadDigest(_) => "BadDigest",
            Self::Incomplete { .. } | Self::IncompleteFraming | Self::Client(_) => "IncompleteBody",
            Self::InvalidChunkSize(_) => "InvalidChunkSizeError",
            Self::TooLong { .. } | Self::InvalidFraming(_) => "InvalidRequest",
            Self::MalformedTrailer(_) => "MalformedTrailerError",
            Self::TooLargeToBuffer { .. } => "EntityTooLarge",
        }
    }

    /// Further elements of the error document, beside `Code` and `Message`, as AWS names them.
    #[must_use]
    pub fn elements(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::ContentSha256Mismatch { client, computed } => vec![
                ("ClientComputedContentSHA256", client.clone()),
                ("S3ComputedContentSHA256", computed.clone()),
            ],
            Self::SignatureMismatch
            | Self::BadDigest(_)
            | Self::Incomplete { .. }
            | Self::IncompleteFraming
            | Self::TooLong { .. }
            | Self::InvalidChunkSize(_)
            | Self::InvalidFraming(_)
            | Self::MalformedTrailer(_)
            | Self::TooLargeToBuffer { .. }
            | Self::Client(_) => Vec::new(),
        }
    }
}

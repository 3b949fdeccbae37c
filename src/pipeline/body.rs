//! Request bodies: held in memory when they are small, streamed when they are not.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::HeaderName;
use http::request::Parts;
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use sha2::{Digest as _, Sha256};

use super::{Understood, respond};
use crate::auth::{
    BodyChecks, BodyError, ChecksumAlgorithm, ChecksumHeaders, Payload, PayloadHash, Verified,
    VerifiedBody,
};
use crate::listener::{self, RequestBody};
use crate::s3::{Operation, S3Error};
use crate::upstream::{BoxError, Framed, OutBody, PutBody, announce, full};

/// The body of a request: on its way, or in memory because it came inside of another one.
pub(super) type ClientBody = UnsyncBoxBody<Bytes, listener::BodyError>;

/// A body that is on its way.
pub(super) fn arriving(body: RequestBody) -> ClientBody {
    body.boxed_unsync()
}

/// A body that is there.
pub(super) fn in_memory(bytes: Bytes) -> ClientBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A body, ready for the store.
pub(super) enum Prepared {
    /// All of it, verified.
    Buffered(PutBody),
    /// Its length and what can be said of it beforehand. It is verified while it passes.
    Streamed(Box<VerifiedBody<ClientBody>>, u64, PayloadHash),
}

const SDK_CHECKSUM_ALGORITHM: HeaderName = HeaderName::from_static("x-amz-sdk-checksum-algorithm");

/// Reads what the head of a request promises of its body. Nothing of the body is touched.
pub(super) fn wrap(
    request: &Understood,
    body: ClientBody,
) -> Result<VerifiedBody<ClientBody>, S3Error> {
    // There the header is the checksum of the whole object, and the body a list of parts.
    let checksums = if request.operation == Operation::CompleteMultipartUpload {
        ChecksumHeaders::OfObject
    } else {
        ChecksumHeaders::OfBody
    };
    let checks = BodyChecks::new(&request.parts, request.verified.payload.clone(), checksums)
        .map_err(respond::unauthenticated)?;
    Ok(VerifiedBody::new(body, checks))
}

/// The same of a request to the proxy itself.
pub(super) fn wrap_own(
    parts: &Parts,
    verified: &Verified,
    body: ClientBody,
) -> Result<VerifiedBody<ClientBody>, S3Error> {
    let checks = BodyChecks::new(parts, verified.payload.clone(), ChecksumHeaders::OfBody)
        .map_err(respond::unauthenticated)?;
    Ok(VerifiedBody::new(body, checks))
}

/// Takes a body in, or gets ready to stream it; `headers` (those for the store) are made to say
/// what is true of it. `keeps_trailer`: a checksum in the trailer of a stream will go on.
pub(super) async fn prepare(
    request: &Understood,
    body: VerifiedBody<ClientBody>,
    headers: &mut HeaderMap,
    buffer_bytes_max: usize,
    time_max: Duration,
    keeps_trailer: bool,
) -> Result<Prepared, S3Error> {
    if let Some(length) = body.decoded_length().filter(|length| *length > buffer_bytes_max as u64) {
        let says_checksum = headers.keys().any(|name| name.as_str().starts_with("x-amz-checksum-"));
        let promises_trailer = keeps_trailer && body.trailer().is_some();
        if !says_checksum && !promises_trailer {
            // Its trailer is verified here and not passed on, so that the header would promise
            // the store a checksum that does not come.
            headers.remove(SDK_CHECKSUM_ALGORITHM);
        }
        let payload = match request.verified.payload {
            Payload::Sha256(hash) => PayloadHash::Sha256(hash),
            Payload::Unsigned | Payload::Chunked { .. } => PayloadHash::Unsigned,
        };
        return Ok(Prepared::Streamed(Box::new(body), length, payload));
    }
    let buffered = tokio::time::timeout(time_max, body.buffer(buffer_bytes_max))
        .await
        .map_err(|_| respond::body_timeout(time_max))?
        .map_err(|error| {
            // Only a body of unknown length is found to be too large while it is read.
            if matches!(error, BodyError::TooLargeToBuffer { .. }) {
                respond::missing_length()
            } else {
                respond::invalid_body(&error)
            }
        })?;
    for (name, value) in buffered.checksums {
        headers.insert(name, value);
    }
    let sha256 = Sha256::digest(&buffered.data).into();
    Ok(Prepared::Buffered(PutBody { data: buffered.data, sha256 }))
}

/// The largest body that is a message about objects: the list of 10,000 parts, with checksums.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Takes in a body that is a message about objects, and not an object's bytes.
pub(super) async fn message(
    body: VerifiedBody<ClientBody>,
    headers: &mut HeaderMap,
    time_max: Duration,
) -> Result<Bytes, S3Error> {
    let buffered = tokio::time::timeout(time_max, body.buffer(MESSAGE_BYTES_MAX))
        .await
        .map_err(|_| respond::body_timeout(time_max))?
        .map_err(|error| {
            if matches!(error, BodyError::TooLargeToBuffer { .. }) {
                respond::message_too_large()
            } else {
                respond::invalid_body(&error)
            }
        })?;
    for (name, value) in buffered.checksums {
        headers.insert(name, value);
    }
    Ok(buffered.data)
}

impl Prepared {
    /// As a body of a request that is sent once; `headers` are made to say what is true of it. The
    /// checksum in the trailer of a body that streams goes on in a trailer if `forward` has it.
    pub(super) fn into_out_body(
        self,
        forward: Option<ChecksumAlgorithm>,
        headers: &mut HeaderMap,
    ) -> (OutBody, u64, PayloadHash) {
        match self {
            Self::Buffered(body) if body.data.is_empty() => {
                (full(Bytes::new()), 0, PayloadHash::Empty)
            }
            Self::Buffered(body) => {
                let length = body.data.len() as u64;
                (full(body.data), length, PayloadHash::Sha256(body.sha256))
            }
            Self::Streamed(body, length, payload) => {
                let Some(trailer) = forward else {
                    return (body.map_err(Into::into).boxed_unsync(), length, payload);
                };
                announce(headers, trailer, length);
                let outcome = body.outcome();
                let framed = Framed::new(body, outcome, trailer, length);
                let length = framed.encoded_length();
                (framed.boxed_unsync(), length, PayloadHash::StreamingUnsignedTrailer)
            }
        }
    }
}

/// The body of a 304, whose `Content-Length` is that of the object: hyper drops the header when it
/// is told at once that there is no body, and sends none with this status anyway.
pub(super) struct Unsent;

impl Body for Unsent {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(None)
    }
}

//! The body of a signed request, held to the SHA-256 that was signed.

use crate::devstore::errors::sha256_mismatch;
use bytes::Bytes;
use http::{HeaderMap, header};
use s3s::{Body, S3Result, StdError};
use sha2::{Digest as _, Sha256};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// What a signature says of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signed {
    /// `UNSIGNED-PAYLOAD`.
    Nothing,
    /// Its SHA-256.
    Sha256([u8; 32]),
}

/// The body, which fails at its end when it is not what was signed.
///
/// # Errors
///
/// `XAmzContentSHA256Mismatch` for a body that is empty and is not to be. (What Cloud Storage calls
/// this is not known.)
pub(super) fn checked(signed: Signed, headers: &HeaderMap, body: Body) -> S3Result<Body> {
    let expected = match signed {
        Signed::Nothing => return Ok(body),
        Signed::Sha256(expected) => expected,
    };
    let length = headers.get(header::CONTENT_LENGTH).map(http::HeaderValue::as_bytes);
    let empty = match length {
        Some(length) => length == b"0",
        None => !headers.contains_key(header::TRANSFER_ENCODING),
    };
    // Nobody reads an empty body to its end.
    if empty && Sha256::digest(b"").as_slice() != expected {
        return Err(sha256_mismatch());
    }
    Ok(Body::http_body_unsync(Checked { inner: body, hasher: Some(Sha256::new()), expected }))
}

/// The text is how `ingest` knows it again.
#[derive(Debug, thiserror::Error)]
#[error("Sha256Mismatch")]
struct Mismatch;

struct Checked {
    inner: Body,
    /// `None` once the end was reached.
    hasher: Option<Sha256>,
    expected: [u8; 32],
}

impl http_body::Body for Checked {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, StdError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx)).transpose()?;
        match frame {
            Some(frame) => {
                if let (Some(hasher), Some(data)) = (&mut self.hasher, frame.data_ref()) {
                    hasher.update(data);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            None => {
                let hasher = self.hasher.take();
                let right =
                    hasher.is_none_or(|hasher| hasher.finalize().as_slice() == self.expected);
                Poll::Ready(if right { None } else { Some(Err(Box::new(Mismatch))) })
            }
        }
    }

    // Not the end before the hash has been compared, whatever the inner body knows.
    fn is_end_stream(&self) -> bool {
        self.hasher.is_none()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}

//! aws-chunked framing towards the store: how a checksum that is known only at the end of a body
//! reaches it.
//!
//! A client that sends its checksum in a trailer expects the store to keep it: Amazon S3 wants it
//! for every part of an upload that was created with a checksum algorithm. The chunks are not
//! signed (`STREAMING-UNSIGNED-PAYLOAD-TRAILER`), and all but the last are of one size, so that the
//! length is known beforehand. The end is written only after the body has been verified, so that
//! a wrong body is never complete on the store.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};

use super::BoxError;
use crate::auth::{BodyOutcome, ChecksumAlgorithm};

/// The size of every chunk but the last: that of the AWS SDKs.
const CHUNK_BYTES: usize = 64 * 1024;

const AWS_CHUNKED: &str = "aws-chunked";
const DECODED_LENGTH: HeaderName = HeaderName::from_static("x-amz-decoded-content-length");
const TRAILER: HeaderName = HeaderName::from_static("x-amz-trailer");

/// A body in chunks, with its checksum in the trailer.
pub struct Framed<B> {
    inner: B,
    outcome: BodyOutcome,
    trailer: ChecksumAlgorithm,
    /// What does not fill a chunk yet.
    pending: BytesMut,
    ended: bool,
    /// How many bytes are to come.
    left: u64,
}

/// The body ended without its checksum. A broken invariant: it is verified against one.
#[derive(Debug, thiserror::Error)]
#[error("a body that was verified has no checksum for its trailer")]
struct NoChecksum;

impl<B> Framed<B> {
    /// Frames `inner`, of which there are `length` bytes, and whose `outcome` will have the
    /// checksum.
    pub fn new(inner: B, outcome: BodyOutcome, trailer: ChecksumAlgorithm, length: u64) -> Self {
        let (pending, left) = (BytesMut::new(), encoded_length(trailer, length));
        Self { inner, outcome, trailer, pending, ended: false, left }
    }

    /// The length of the body with its frame.
    #[must_use]
    pub fn encoded_length(&self) -> u64 {
        self.left
    }

    fn give(&mut self, bytes: BytesMut) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.left = self.left.saturating_sub(bytes.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(bytes.freeze()))))
    }

    /// The last chunk, the empty one and the trailer.
    fn end(&mut self) -> Result<BytesMut, BoxError> {
        let name = self.trailer.header();
        let checksums = self.outcome.get().and_then(|outcome| outcome.as_ref().ok());
        let checksum = checksums.and_then(|all| all.iter().find(|(found, _)| *found == name));
        let (_, value) = checksum.ok_or(NoChecksum)?;
        let mut bytes = BytesMut::new();
        if !self.pending.is_empty() {
            push_chunk(&mut bytes, &self.pending);
            self.pending.clear();
        }
        bytes.extend_from_slice(b"0\r\n");
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b":");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n\r\n");
        Ok(bytes)
    }
}

/// Says in the head of a request how its body is framed.
pub fn announce(headers: &mut HeaderMap, trailer: ChecksumAlgorithm, length: u64) {
    headers.insert(DECODED_LENGTH, HeaderValue::from(length));
    let name = HeaderValue::from_str(trailer.header().as_str());
    headers.insert(TRAILER, name.expect("the name of a header can be a value"));
    // One line: not every server looks at a second.
    let mut coding = Vec::new();
    for other in headers.get_all(header::CONTENT_ENCODING) {
        coding.extend_from_slice(other.as_bytes());
        coding.push(b',');
    }
    coding.extend_from_slice(AWS_CHUNKED.as_bytes());
    let coding = HeaderValue::from_bytes(&coding).expect("values and commas make a value");
    headers.insert(header::CONTENT_ENCODING, coding);
}

fn push_chunk(bytes: &mut BytesMut, data: &[u8]) {
    bytes.reserve(data.len() + 32);
    bytes.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\r\n");
}

/// The length of so many bytes with their frame.
fn encoded_length(trailer: ChecksumAlgorithm, length: u64) -> u64 {
    let chunk = |size: u64| size + format!("{size:x}").len() as u64 + 4;
    let (full, rest) = (length / CHUNK_BYTES as u64, length % CHUNK_BYTES as u64);
    let last = if rest == 0 { 0 } else { chunk(rest) };
    let end = "0\r\n:\r\n\r\n".len() + trailer.header().as_str().len() + trailer.text_len();
    full * chunk(CHUNK_BYTES as u64) + last + end as u64
}

impl<B> Body for Framed<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if self.pending.len() >= CHUNK_BYTES {
                let data = self.pending.split_to(CHUNK_BYTES);
                let mut bytes = BytesMut::new();
                push_chunk(&mut bytes, &data);
                return self.give(bytes);
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.pending.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {
                    self.ended = true;
                    return match self.end() {
                        Ok(bytes) => self.give(bytes),
                        Err(error) => Poll::Ready(Some(Err(error))),
                    };
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.pending.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::Request;
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;
    use crate::auth::{BodyChecks, ChecksumHeaders, Verified, VerifiedBody};

    /// What a request with this body and this CRC-32 in its trailer becomes for the store.
    async fn framed(data: &[u8], crc32: &str, piece: usize) -> Result<Bytes, String> {
        let head = Request::put("/bucket/k")
            .header("host", "h")
            .header("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
            .header("x-amz-decoded-content-length", data.len())
            .header("x-amz-trailer", "x-amz-checksum-crc32");
        let (parts, ()) = head.body(()).unwrap().into_parts();
        let payload = Verified::unauthenticated(&parts).unwrap().payload;
        let mut sent = Vec::new();
        for chunk in data.chunks(1000) {
            sent.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            sent.extend_from_slice(chunk);
            sent.extend_from_slice(b"\r\n");
        }
        sent.extend_from_slice(format!("0\r\nx-amz-checksum-crc32:{crc32}\r\n\r\n").as_bytes());
        let frames: Vec<Result<_, Infallible>> = sent
            .chunks(piece)
            .map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece))))
            .collect();
        let checks = BodyChecks::new(&parts, payload, ChecksumHeaders::OfBody).unwrap();
        let body = VerifiedBody::new(StreamBody::new(futures_util::stream::iter(frames)), checks);
        let (outcome, trailer) = (body.outcome(), body.trailer().unwrap());
        let framed = Framed::new(body, outcome, trailer, data.len() as u64);
        let length = framed.encoded_length();
        let bytes = framed.collect().await.map_err(|error| error.to_string())?.to_bytes();
        assert_eq!(bytes.len() as u64, length, "what Content-Length has said");
        Ok(bytes)
    }

    #[tokio::test]
    async fn the_checksum_of_a_body_follows_it() {
        for piece in [7, 500, 100_000] {
            let small = framed(b"hello", "NhCmhg==", piece).await.unwrap();
            assert_eq!(small, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n");
            let large = framed(&[0; 150_000], "mHiF3Q==", piece).await.unwrap();
            assert!(large.starts_with(b"10000\r\n\0"), "{piece}");
            assert!(large[65_536 + 9..].starts_with(b"10000\r\n\0"), "{piece}");
            assert!(large[2 * (65_536 + 9)..].starts_with(b"49f0\r\n\0"), "{piece}");
        }
    }

    #[tokio::test]
    async fn a_body_that_is_not_what_was_promised_has_no_end() {
        let error = framed(b"hello", "NhCmhQ==", 100).await.unwrap_err();
        assert!(error.contains("x-amz-checksum-crc32"), "{error}");
    }
}

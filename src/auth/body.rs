//! A body that is decoded and verified while it passes.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use sha2::{Digest, Sha256};

use super::body_checks::BodyChecks;
use super::body_error::BodyError;
use super::checksum::{ChecksumAlgorithm, Running};
use super::chunked::ChunkDecoder;
use super::payload::Payload;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Checksums of a verified body, each as the header that states it.
type Checksums = Vec<(HeaderName, HeaderValue)>;

/// Decodes and verifies a body while it passes.
///
/// Yields the *decoded* bytes, in memory that is bounded by one frame of the inner body, and
/// **does not yield the last frame until everything has been verified**: payload hash, chunk
/// signatures, trailer signature, checksums in headers and trailer, `Content-MD5`, and the length.
/// Forwarded with `Content-Length: decoded_length()`, a wrong body is never complete on the store,
/// so the store does not commit it.
///
/// # The empty body
///
/// A body of zero bytes has nothing to hold back: a store commits it when it has read the head.
/// **Read a body with `decoded_length() == Some(0)` to its end before sending anything**;
/// [`buffer`](Self::buffer) does that.
///
/// # What the caller does
///
/// Takes the framing out of the head with [`remove_chunked_framing`](super::remove_chunked_framing)
/// and sets `Content-Length`; a store would otherwise try to decode once more.
///
/// Nothing is polled before the first `poll_frame`: hyper sends `100 Continue` only then.
pub struct VerifiedBody<B> {
    inner: B,
    /// What has been read and not yet decoded.
    input: Bytes,
    decoder: Decoder,
    tally: Option<Tally>,
    /// The newest decoded piece, until there is a newer one or all is verified.
    held: Option<Bytes>,
    decoded_length: Option<u64>,
    yielded: u64,
    outcome: BodyOutcome,
}

enum Decoder {
    Plain,
    Chunked(Box<ChunkDecoder>),
}

/// What has become of a body, for whoever gave the body itself away to be sent.
#[derive(Clone, Debug, Default)]
pub struct BodyOutcome(Arc<OnceLock<Result<Checksums, BodyError>>>);

impl BodyOutcome {
    /// `None` while the body is on its way, or when it was dropped before its end. `Some(Ok)` when
    /// all of it was verified, with the checksums that it was verified against, ready to be put
    /// into the head of a request for the same bytes. `Some(Err)` when it was refused.
    #[must_use]
    pub fn get(&self) -> Option<&Result<Vec<(HeaderName, HeaderValue)>, BodyError>> {
        self.0.get()
    }
}

impl<B> VerifiedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// Wraps `inner`, which has to keep what `checks` promises.
    #[must_use]
    pub fn new(inner: B, checks: BodyChecks) -> Self {
        let decoded_length = checks.decoded_length;
        let (decoder, tally) = Tally::new(checks);
        Self {
            inner,
            input: Bytes::new(),
            decoder,
            tally: Some(tally),
            held: None,
            decoded_length,
            yielded: 0,
            outcome: BodyOutcome::default(),
        }
    }

    /// The length of the decoded body in bytes; `None` when the client does not say.
    #[must_use]
    pub fn decoded_length(&self) -> Option<u64> {
        self.decoded_length
    }

    /// The checksum that is to come in the trailer; `None` when there is none, and after the end.
    #[must_use]
    pub fn trailer(&self) -> Option<ChecksumAlgorithm> {
        self.tally.as_ref()?.trailer.as_ref().map(|(algorithm, _)| *algorithm)
    }

    /// A handle that tells how the body ended, also after the body has been given away.
    #[must_use]
    pub fn outcome(&self) -> BodyOutcome {
        self.outcome.clone()
    }

    /// The checksums that the body was verified against; `None` before its end.
    #[must_use]
    pub fn checksums(&self) -> Option<&[(HeaderName, HeaderValue)]> {
        self.outcome.get().and_then(|outcome| outcome.as_deref().ok())
    }

    /// Reads the whole body into memory. All of it is verified when this returns `Ok`.
    ///
    /// # Errors
    ///
    /// [`BodyError::TooLargeToBuffer`] as soon as there are more than `bytes_max` bytes (at once,
    /// when the client has announced more), or what is wrong with the body.
    pub async fn buffer(mut self, bytes_max: usize) -> Result<BufferedBody, BodyError> {
        let too_large = BodyError::TooLargeToBuffer { bytes_max };
        if self.decoded_length.is_some_and(|length| length > bytes_max as u64) {
            return Err(too_large);
        }
        // At its final size from the start: to grow would take up to twice as much.
        let length = self.decoded_length.and_then(|length| usize::try_from(length).ok());
        let mut data = BytesMut::with_capacity(length.unwrap_or_default());
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut self).poll_frame(cx)).await
        {
            let Ok(piece) = frame?.into_data() else { continue };
            if data.len() + piece.len() > bytes_max {
                return Err(too_large);
            }
            data.extend_from_slice(&piece);
        }
        let checksums = self.checksums().map(<[_]>::to_vec).unwrap_or_default();
        Ok(BufferedBody { data: data.freeze(), checksums })
    }

    /// The next piece for whoever reads; `None` at the verified end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            let Some(tally) = &mut self.tally else { return Poll::Ready(Ok(None)) };
            if let Some(piece) = self.decoder.next(&mut self.input)? {
                tally.add(&piece)?;
                if let Some(earlier) = self.held.replace(piece) {
                    return Poll::Ready(Ok(Some(earlier)));
                }
                continue;
            }
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                // Trailers of HTTP itself are not S3's: they are not signed, and go no further.
                Some(Ok(frame)) => self.input = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    return Poll::Ready(Err(BodyError::Client(Arc::from(error.into()))));
                }
                None => {
                    let checksums = self.finish()?;
                    // The only place that says so; a body that failed has no tally either.
                    let _first = self.outcome.0.set(Ok(checksums));
                    return Poll::Ready(Ok(self.held.take()));
                }
            }
        }
    }

    /// Verifies all that can only be verified at the end.
    fn finish(&mut self) -> Result<Checksums, BodyError> {
        let decoder = std::mem::replace(&mut self.decoder, Decoder::Plain);
        let trailers = match decoder {
            Decoder::Plain => Vec::new(),
            Decoder::Chunked(decoder) => decoder.finish()?,
        };
        match self.tally.take() {
            Some(tally) => tally.finish(trailers),
            None => Ok(Vec::new()),
        }
    }
}

/// A body that was read whole, and verified.
#[derive(Debug, Clone)]
pub struct BufferedBody {
    /// The decoded bytes.
    pub data: Bytes,
    /// The checksums that they were verified against, as headers.
    pub checksums: Vec<(HeaderName, HeaderValue)>,
}

impl<B> Body for VerifiedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match ready!(self.poll_piece(cx)) {
            Ok(Some(piece)) => {
                self.yielded += piece.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Ok(None) => Poll::Ready(None),
            Err(error) => {
                // What was held is never given out, now or later.
                self.tally = None;
                self.held = None;
                self.input = Bytes::new();
                let _first = self.outcome.0.set(Err(error.clone()));
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.tally.is_none() && self.held.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.decoded_length {
            Some(length) => SizeHint::with_exact(length - self.yielded.min(length)),
            None => SizeHint::default(),
        }
    }
}

impl Decoder {
    fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, BodyError> {
        match self {
            Self::Plain if input.is_empty() => Ok(None),
            Self::Plain => Ok(Some(std::mem::take(input))),
            Self::Chunked(decoder) => decoder.next(input),
        }
    }
}

/// What is counted and hashed of the decoded bytes.
struct Tally {
    received: u64,
    length: Option<u64>,
    sha256: Option<([u8; 32], Sha256)>,
    content_md5: Option<(Vec<u8>, Running)>,
    checksum: Option<(ChecksumAlgorithm, Vec<u8>, Running)>,
    trailer: Option<(ChecksumAlgorithm, Running)>,
}

impl Tally {
    fn new(checks: BodyChecks) -> (Decoder, Self) {
        let (decoder, sha256) = match checks.payload {
            Payload::Sha256(expected) => (Decoder::Plain, Some((expected, Sha256::new()))),
            Payload::Unsigned => (Decoder::Plain, None),
            Payload::Chunked { signatures, trailer } => {
                (Decoder::Chunked(Box::new(ChunkDecoder::new(signatures, trailer))), None)
            }
        };
        let tally = Self {
            received: 0,
            length: checks.decoded_length,
            sha256,
            content_md5: checks.content_md5.map(|md5| (md5, ChecksumAlgorithm::Md5.start())),
            checksum: checks
                .checksum
                .map(|(algorithm, value)| (algorithm, value, algorithm.start())),
            trailer: checks.trailer.map(|algorithm| (algorithm, algorithm.start())),
        };
        (decoder, tally)
    }

    fn add(&mut self, piece: &[u8]) -> Result<(), BodyError> {
        self.received += piece.len() as u64;
        if let Some(expected) = self.length.filter(|&length| self.received > length) {
            return Err(BodyError::TooLong { expected });
        }
        if let Some((_, hash)) = &mut self.sha256 {
            hash.update(piece);
        }
        if let Some((_, running)) = &mut self.content_md5 {
            running.update(piece);
        }
        if let Some((_, _, running)) = &mut self.checksum {
            running.update(piece);
        }
        if let Some((_, running)) = &mut self.trailer {
            running.update(piece);
        }
        Ok(())
    }

    fn finish(self, trailers: Vec<(HeaderName, HeaderValue)>) -> Result<Checksums, BodyError> {
        if let Some(expected) = self.length.filter(|&length| self.received < length) {
            return Err(BodyError::Incomplete { expected, received: self.received });
        }
        if let Some((expected, hash)) = self.sha256 {
            let computed: [u8; 32] = hash.finalize().into();
            if computed != expected {
                let (client, computed) = (hex::encode(expected), hex::encode(computed));
                return Err(BodyError::ContentSha256Mismatch { client, computed });
            }
        }
        if let Some((expected, running)) = self.content_md5
            && !running.matches(&expected)
        {
            return Err(BodyError::BadDigest(HeaderName::from_static("content-md5")));
        }
        let mut checksums = Vec::new();
        if let Some((algorithm, expected, running)) = self.checksum {
            checksums.push(verified(algorithm, &expected, running)?);
        }
        match (self.trailer, trailers.as_slice()) {
            (None, []) => {}
            (None, _) => return Err(BodyError::MalformedTrailer("it was not announced")),
            (Some((algorithm, running)), [(name, value)]) if *name == algorithm.header() => {
                let expected = algorithm
                    .decode(value.as_bytes())
                    .ok_or(BodyError::MalformedTrailer("the checksum is not base64"))?;
                checksums.push(verified(algorithm, &expected, running)?);
            }
            (Some(_), _) => {
                return Err(BodyError::MalformedTrailer("it is not what x-amz-trailer announced"));
            }
        }
        Ok(checksums)
    }
}

fn verified(
    algorithm: ChecksumAlgorithm,
    expected: &[u8],
    running: Running,
) -> Result<(HeaderName, HeaderValue), BodyError> {
    if running.matches(expected) {
        Ok((algorithm.header(), ChecksumAlgorithm::encode(expected)))
    } else {
        Err(BodyError::BadDigest(algorithm.header()))
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;

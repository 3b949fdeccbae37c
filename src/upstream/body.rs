//! Bodies on their way to the store: watched for progress, and held back before their last bytes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use md5::{Digest as _, Md5};
use tokio::sync::oneshot;

use crate::clock;
use crate::fence::{Forms, Tag};

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body for the store.
pub type OutBody = UnsyncBoxBody<Bytes, BoxError>;

/// A body of these bytes.
#[must_use]
pub fn full(bytes: Bytes) -> OutBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// The tags that these bytes leave behind, in both forms (F4).
#[must_use]
pub fn forms_of(bytes: &[u8]) -> Forms {
    forms_of_digest(Md5::digest(bytes).as_slice())
}

/// S3's ETags without SSE-KMS: the MD5 of the bytes, and for a multipart upload of one part the
/// MD5 of that MD5, with the number of parts.
fn forms_of_digest(md5: &[u8]) -> Forms {
    Forms {
        plain: Tag::Version(hex::encode(md5)),
        one_part: Tag::Version(format!("{}-1", hex::encode(Md5::digest(md5)))),
    }
}

/// When the store was last given something to do, as far as the proxy knows. While it is the
/// client, or the fence, that is waited for, no time runs.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<Mutex<Option<Instant>>>);

impl Progress {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(clock::monotonic()))))
    }

    pub(super) fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

/// Reports its progress.
pub(super) struct Watched {
    inner: OutBody,
    progress: Progress,
}

impl Watched {
    pub(super) fn new(inner: OutBody, progress: Progress) -> Self {
        Self { inner, progress }
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        self.progress.set(polled.is_ready().then(clock::monotonic));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The fence has not let the last bytes through.
#[derive(Debug, thiserror::Error)]
#[error("the fence did not admit the write; its last bytes were held back")]
struct NotAdmitted;

/// A body whose last bytes wait for the fence: the store cannot commit what is not complete.
pub(super) struct Gated<B> {
    inner: B,
    held: Option<Bytes>,
    md5: Md5,
    received: Option<oneshot::Sender<Forms>>,
    gate: oneshot::Receiver<()>,
}

/// The two ends that the driver of a [`Gated`] body keeps.
pub(super) struct Gate {
    /// Tells what the bytes leave behind, when they are all there.
    pub(super) received: oneshot::Receiver<Forms>,
    /// Lets the last bytes through. Dropped, it cuts the body off.
    pub(super) open: oneshot::Sender<()>,
}

impl<B> Gated<B> {
    pub(super) fn new(inner: B) -> (Self, Gate) {
        let (received, received_seen) = oneshot::channel();
        let (open, gate) = oneshot::channel();
        let received = Some(received);
        let body = Self { inner, held: None, md5: Md5::new(), received, gate };
        (body, Gate { received: received_seen, open })
    }
}

impl<B> Body for Gated<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while self.received.is_some() {
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if data.is_empty() {
                        continue;
                    }
                    self.md5.update(&data);
                    if let Some(previous) = self.held.replace(data) {
                        return Poll::Ready(Some(Ok(Frame::data(previous))));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => {
                    let forms = forms_of_digest(self.md5.finalize_reset().as_slice());
                    // If nobody waits for it any more, the gate is shut as well.
                    let _ = self.received.take().map(|received| received.send(forms));
                }
            }
        }
        let Some(held) = self.held.take() else { return Poll::Ready(None) };
        match Pin::new(&mut self.gate).poll(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Some(Ok(Frame::data(held)))),
            Poll::Ready(Err(_)) => Poll::Ready(Some(Err(NotAdmitted.into()))),
            Poll::Pending => {
                self.held = Some(held);
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.received.is_none() && self.held.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let inner = self.inner.size_hint();
        let held = self.held.as_ref().map_or(0, |held| held.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + held);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;

    use super::*;

    type Pieces =
        StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, BoxError>>>>;

    fn pieces(data: &[&'static str]) -> Pieces {
        let frames: Vec<_> = data
            .iter()
            .map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))))
            .collect();
        StreamBody::new(futures_util::stream::iter(frames))
    }

    #[tokio::test]
    async fn the_last_bytes_wait_for_the_gate() {
        let (mut body, gate) = Gated::new(pieces(&["ab", "", "cd", "e"]));
        let mut next = async || body.frame().await.map(|frame| frame.unwrap().into_data().unwrap());
        assert_eq!(next().await.unwrap(), "ab");
        assert_eq!(next().await.unwrap(), "cd");
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(20), next()).await;
        assert!(waiting.is_err(), "the last piece must not pass");
        assert_eq!(gate.received.await.unwrap(), forms_of(b"abcde"));
        gate.open.send(()).unwrap();
        assert_eq!(next().await.unwrap(), "e");
        assert_eq!(next().await, None);
    }

    #[tokio::test]
    async fn a_gate_that_is_dropped_cuts_the_body_off() {
        let (mut body, gate) = Gated::new(pieces(&["ab", "c"]));
        drop(gate.open);
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.unwrap().is_err());
    }

    #[test]
    fn the_two_forms_leave_different_tags() {
        let forms = forms_of(b"");
        assert_eq!(forms.plain, Tag::Version("d41d8cd98f00b204e9800998ecf8427e".into()));
        assert_eq!(forms.one_part, Tag::Version("59adb24ef3cdbe0297f05b395827453f-1".into()));
    }
}

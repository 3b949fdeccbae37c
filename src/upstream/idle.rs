//! A limit on how long a body of the store may pause.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::BoxError;
use super::expect::OverOnDrop;

/// A body that ends with an error when nothing of it has come for too long: a connection cut in
/// mid-body is a cut connection for the client, never a clean end.
#[derive(Debug)]
pub struct IdleLimit {
    inner: Incoming,
    timeout: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    unwanted: Option<OverOnDrop>,
}

impl IdleLimit {
    pub(super) fn new(inner: Incoming, timeout: Duration) -> Self {
        Self { inner, timeout, sleep: None, unwanted: None }
    }

    /// The same, and the connection with the body that the store did not want goes with it.
    pub(super) fn without_body(self, unwanted: Option<OverOnDrop>) -> Self {
        Self { unwanted, ..self }
    }

    /// Whether the store has answered without asking for the body of the request.
    pub(crate) fn is_without_body(&self) -> bool {
        self.unwanted.is_some()
    }
}

impl Body for IdleLimit {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            self.sleep = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let timeout = self.timeout;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(sleep.as_mut().poll(cx));
        let seconds = timeout.as_secs();
        Poll::Ready(Some(Err(format!("the store sent nothing for {seconds} s").into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

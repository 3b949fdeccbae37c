//! Bodies as the listener hands them on: counted, and with a limit on pauses.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use prometheus::IntCounter;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

/// The body of a request. Polling it makes the client send: it is what `100 Continue` waits for.
#[derive(Debug)]
pub struct RequestBody {
    body: Incoming,
    ended: bool,
    idle_timeout: Duration,
    idle: Option<Pin<Box<Sleep>>>,
    received_bytes: IntCounter,
    unread: Unread,
}

/// Why a body did not arrive as a whole.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The client stopped sending.
    #[error("nothing of the body arrived for {} seconds", .0.as_secs())]
    Idle(Duration),
    /// The connection broke, or the client broke HTTP.
    #[error("the body broke off")]
    Broken(#[source] hyper::Error),
}

/// Whether the current request's body was left unread; shared between it and its connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Unread(Arc<AtomicBool>);

impl Unread {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, unread: bool) {
        self.0.store(unread, Ordering::Release);
    }
}

impl RequestBody {
    pub(super) fn new(
        body: Incoming,
        idle_timeout: Duration,
        received_bytes: IntCounter,
        unread: Unread,
    ) -> Self {
        // The request before this one on the connection does not matter any more.
        unread.set(false);
        let ended = body.is_end_stream();
        Self { body, ended, idle_timeout, idle: None, received_bytes, unread }
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let timeout = self.idle_timeout;
        let idle = self.idle.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(idle.as_mut().poll(cx));
        Poll::Ready(BodyError::Idle(timeout))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.idle = None;
                self.ended = self.body.is_end_stream();
                if let Some(data) = frame.data_ref() {
                    self.received_bytes.inc_by(data.len() as u64);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(BodyError::Broken(error)))),
            Poll::Ready(None) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => self.poll_idle(cx).map(|error| Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.ended {
            self.unread.set(true);
        }
    }
}

/// The body of an answer. The request it answers is in flight as long as this lives.
pub(super) struct ResponseBody<B> {
    pub(super) body: B,
    pub(super) sent_bytes: IntCounter,
    pub(super) in_flight: Option<InFlight>,
}

/// One request being worked on.
pub(super) struct InFlight {
    pub(super) gauge: prometheus::IntGauge,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl InFlight {
    pub(super) fn new(gauge: prometheus::IntGauge, permit: OwnedSemaphorePermit) -> Self {
        gauge.inc();
        Self { gauge, _permit: permit }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.sent_bytes.inc_by(data.len() as u64);
                }
            }
            Some(Err(_)) | None => self.in_flight = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

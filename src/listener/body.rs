//! Bodies as the listener hands them on: counted, and with a limit on pauses.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use prometheus::IntCounter;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::Limits;
use super::pace::Pace;

/// The body of a request. Polling it makes the client send: it is what `100 Continue` waits for.
#[derive(Debug)]
pub struct RequestBody {
    /// Taken on the way out.
    body: Option<Incoming>,
    ended: bool,
    idle_timeout: Duration,
    idle: Option<Pin<Box<Sleep>>>,
    time_max: Duration,
    /// Runs from the first time that the body is asked for.
    late: Option<Pin<Box<Sleep>>>,
    received_bytes: IntCounter,
    unread: Unread,
    /// What becomes of the rest when the handler does not want it; nothing where the connection
    /// sees to that.
    rest: Option<Discard>,
}

/// Why a body did not arrive as a whole.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The client stopped sending.
    #[error("nothing of the body arrived for {} seconds", .0.as_secs())]
    Idle(Duration),
    /// The client kept sending, but too little.
    #[error("the body did not arrive within {} seconds", .0.as_secs())]
    Late(Duration),
    /// The connection broke, or the client broke HTTP.
    #[error("the body broke off")]
    Broken(#[source] hyper::Error),
}

/// Whether a request's body was left unread; shared between the request and its connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Unread(Arc<AtomicBool>);

impl Unread {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn forget(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl RequestBody {
    pub(super) fn new(
        body: Incoming,
        limits: &Limits,
        received_bytes: IntCounter,
        unread: Unread,
        rest: Option<Discard>,
    ) -> Self {
        Self {
            ended: body.is_end_stream(),
            body: Some(body),
            idle_timeout: limits.body_idle_timeout,
            idle: None,
            time_max: limits.request_timeout,
            late: None,
            received_bytes,
            unread,
            rest,
        }
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<BodyError> {
        let time_max = self.time_max;
        let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(time_max)));
        ready!(late.as_mut().poll(cx));
        Poll::Ready(BodyError::Late(time_max))
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
        if !self.ended
            && let Poll::Ready(error) = self.poll_late(cx)
        {
            return Poll::Ready(Some(Err(error)));
        }
        let body = self.body.as_mut().expect("only Drop takes it");
        let polled = Pin::new(&mut *body).poll_frame(cx);
        let ended = body.is_end_stream();
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                self.ended = ended;
                self.idle = None;
                if let Some(data) = frame.data_ref() {
                    self.received_bytes.inc_by(data.len() as u64);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.rest = None;
                Poll::Ready(Some(Err(BodyError::Broken(error))))
            }
            Poll::Ready(None) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => {
                let error = ready!(self.poll_idle(cx));
                // Nothing is on its way that would have to be thrown away.
                self.rest = None;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.unread.set();
        if let (Some(body), Some(rest), Ok(runtime)) =
            (self.body.take(), self.rest, tokio::runtime::Handle::try_current())
        {
            runtime.spawn(rest.of(body));
        }
    }
}

/// How what is left of a body on HTTP/2 is read and thrown away, which is what the lingering close
/// is on HTTP/1.
///
/// To drop it at once would reset its stream. What the client has on its way by then comes in on a
/// stream that h2 may have forgotten, and of such frames it takes about a thousand before it ends
/// the connection, with all other requests on it. Many large uploads that are refused are enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discard {
    bytes_max: u64,
    time_max: Duration,
}

impl Discard {
    pub(super) fn new(limits: &Limits) -> Self {
        Self { bytes_max: limits.refusal_drain_bytes_max, time_max: limits.refusal_drain_max }
    }

    async fn of(self, mut body: Incoming) {
        let discarded = tokio::time::timeout(self.time_max, async {
            let mut left = self.bytes_max;
            while left > 0
                && let Some(Ok(frame)) = body.frame().await
            {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len) as u64);
            }
        });
        if discarded.await.is_err() {
            tracing::debug!("the client went on sending after its answer; cut off");
        }
    }
}

/// The largest piece of an answer that is handed to HTTP/2 at once: what one frame holds.
const PIECE_BYTES: usize = 16 * 1024;

/// The body of an answer. The request it answers is in flight as long as this lives.
pub(super) struct ResponseBody<B> {
    body: B,
    /// Of HTTP/2, which keeps whole pieces until the client makes room: there they are small.
    pace: Option<Pace>,
    rest: Option<Bytes>,
    left_out: bool,
    sent_bytes: IntCounter,
    in_flight: Option<InFlight>,
}

/// One request being worked on.
pub(super) struct InFlight {
    gauge: prometheus::IntGauge,
    _permit: OwnedSemaphorePermit,
    _on_connection: Option<OwnedSemaphorePermit>,
}

impl InFlight {
    pub(super) fn new(
        gauge: prometheus::IntGauge,
        permit: OwnedSemaphorePermit,
        on_connection: Option<OwnedSemaphorePermit>,
    ) -> Self {
        gauge.inc();
        Self { gauge, _permit: permit, _on_connection: on_connection }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl<B> ResponseBody<B> {
    pub(super) fn new(
        body: B,
        pace: Option<Pace>,
        sent_bytes: IntCounter,
        in_flight: Option<InFlight>,
    ) -> Self {
        Self { body, pace, rest: None, left_out: false, sent_bytes, in_flight }
    }

    /// Sends none of it: the answer is one to HEAD.
    pub(super) fn leave_out(&mut self) {
        self.left_out = true;
    }
}

impl<B: Body<Data = Bytes> + Unpin> ResponseBody<B> {
    /// `data`, or as much of it as is sent at once.
    fn piece(&mut self, mut data: Bytes) -> Frame<Bytes> {
        if let Some(pace) = &self.pace {
            pace.handed();
            if data.len() > PIECE_BYTES {
                self.rest = Some(data.split_off(PIECE_BYTES));
            }
        }
        self.sent_bytes.inc_by(data.len() as u64);
        Frame::data(data)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(pace) = &self.pace {
            pace.asked();
        }
        if let Some(rest) = self.rest.take() {
            return Poll::Ready(Some(Ok(self.piece(rest))));
        }
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(frame)) => Some(Ok(match frame.into_data() {
                Ok(data) => self.piece(data),
                Err(trailers) => trailers,
            })),
            end @ (Some(Err(_)) | None) => {
                self.in_flight = None;
                end
            }
        };
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.left_out || (self.rest.is_none() && self.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.len() as u64);
        let mut hint = self.body.size_hint();
        // The larger bound first, so that neither is ever above it.
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

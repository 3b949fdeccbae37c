//! `Expect: 100-continue` towards the store: the body waits until the store asks for it.
//!
//! A store that refuses a request from its head is heard before a byte of the body is asked of the
//! client. One that does not know the expectation is waited for no longer than [`WAIT_MAX`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;

use super::{BoxError, OutBody};

/// How long the store may think about the expectation, as long as the SDKs wait themselves.
const WAIT_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The store has said nothing yet.
    Waiting,
    /// It wants the body.
    Wanted,
    /// It has answered without it.
    Answered,
    /// Its answer has been read to the end; the connection has to go.
    Over,
}

/// The store's answer to an expectation. Dropped, it ends a connection whose body is not wanted.
#[derive(Clone, Debug)]
pub(super) struct Expectation(Arc<watch::Sender<State>>);

/// Ends the connection together with the answer that it is kept with.
#[derive(Debug)]
pub(super) struct OverOnDrop(Expectation);

/// A body that waits for it.
struct Awaiting {
    wanted: Pin<Box<dyn Future<Output = bool> + Send>>,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    body: Option<OutBody>,
    begun: bool,
}

/// The store has answered without the body.
#[derive(Debug, thiserror::Error)]
#[error("the store did not want the body")]
struct NotWanted;

impl Expectation {
    /// Lets the body of `request` wait for the store.
    pub(super) fn on(request: Request<OutBody>) -> (Request<OutBody>, Self) {
        let expectation = Self(Arc::new(watch::Sender::new(State::Waiting)));
        let mut request = request.map(|body| expectation.awaited_by(body));
        let asked = expectation.clone();
        hyper::ext::on_informational(&mut request, move |interim| {
            if interim.status() == StatusCode::CONTINUE {
                asked.becomes(State::Wanted);
            }
        });
        (request, expectation)
    }

    /// The store has answered: if it has not asked for the body by now, it never will.
    pub(super) fn answered(self) -> Option<OverOnDrop> {
        self.becomes(State::Answered);
        let unwanted = *self.0.borrow() == State::Answered;
        unwanted.then(|| OverOnDrop(self))
    }

    fn becomes(&self, next: State) {
        self.0.send_if_modified(|state| {
            let changes = *state == State::Waiting || next == State::Over;
            if changes {
                *state = next;
            }
            changes
        });
    }

    fn awaited_by(&self, body: OutBody) -> OutBody {
        let (mut asked, mut ended) = (self.0.subscribe(), self.0.subscribe());
        let expectation = self.clone();
        let wanted = async move {
            let heard = asked.wait_for(|state| *state != State::Waiting);
            if tokio::time::timeout(WAIT_MAX, heard).await.is_err() {
                expectation.becomes(State::Wanted);
            }
            *expectation.0.borrow() == State::Wanted
        };
        let over = async move {
            // The sender lives as long as the future before this one.
            let _ended = ended.wait_for(|state| *state == State::Over).await;
        };
        let (wanted, over) = (Box::pin(wanted), Box::pin(over));
        let awaiting = Awaiting { wanted, over, body: Some(body), begun: false };
        http_body_util::BodyExt::boxed_unsync(awaiting)
    }
}

impl Drop for OverOnDrop {
    fn drop(&mut self) {
        self.0.becomes(State::Over);
    }
}

impl Body for Awaiting {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if !self.begun && self.body.is_some() {
            if ready!(self.wanted.as_mut().poll(cx)) {
                self.begun = true;
            } else {
                // The client's connection learns that nobody will read it.
                self.body = None;
            }
        }
        if let Some(body) = &mut self.body {
            return Pin::new(body).poll_frame(cx);
        }
        // An error would end the connection, and with it the answer that is being read.
        ready!(self.over.as_mut().poll(cx));
        Poll::Ready(Some(Err(NotWanted.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

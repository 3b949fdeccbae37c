//! Whether the client of an HTTP/2 stream takes what it is sent.
//!
//! On HTTP/1 a client that stops reading is seen at its socket (`stall.rs`). On HTTP/2 it can go on
//! reading the socket and leave one stream's window closed for ever. hyper waits for a window as
//! long as it takes, and asks the body of the answer for the next piece once there is one. So a
//! piece that has been handed out, with no question for the next, is a client that takes nothing.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Sleep;

tokio::task_local! {
    /// Set while hyper runs the stream, which is where the answer's body is made.
    static CURRENT: Pace;
}

/// How far one stream's answer has been handed out. Only the stream's own task uses it.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace(Arc<Pieces>);

#[derive(Debug, Default)]
struct Pieces {
    asked: AtomicU64,
    /// The question that the last piece answered.
    handed: AtomicU64,
}

impl Pace {
    /// That of the HTTP/2 stream which is being run; `None` on HTTP/1.
    pub(super) fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// The next piece is asked for: the one before it is on its way.
    pub(super) fn asked(&self) {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// A piece has been handed out.
    pub(super) fn handed(&self) {
        self.0.handed.store(self.0.asked.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The piece that the client has not made room for.
    fn waiting(&self) -> Option<u64> {
        let handed = self.0.handed.load(Ordering::Relaxed);
        (handed > 0 && handed == self.0.asked.load(Ordering::Relaxed)).then_some(handed)
    }
}

/// Runs a stream to its end, or until its client has not taken a piece for so long. Dropping it
/// resets it.
pub(super) async fn watch(stream: impl Future<Output = ()>, stall_timeout: Duration) {
    let pace = Pace::default();
    let mut stream = pin!(CURRENT.scope(pace.clone(), stream));
    let mut stalled: Option<(u64, Pin<Box<Sleep>>)> = None;
    std::future::poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(waiting) = pace.waiting() else {
            stalled = None;
            return Poll::Pending;
        };
        let timer = match stalled.take() {
            Some((piece, timer)) if piece == waiting => timer,
            Some(_) | None => Box::pin(tokio::time::sleep(stall_timeout)),
        };
        let (_, timer) = stalled.insert((waiting, timer));
        let late = timer.as_mut().poll(cx);
        if late.is_ready() {
            tracing::debug!("the client does not take its answer");
        }
        late
    })
    .await;
}

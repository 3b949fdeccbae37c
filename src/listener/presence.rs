//! Whether the client of a request is still there, for handlers that do nothing but wait for others.

use tokio::sync::watch;

use super::Phase;
use super::connection::reached;

/// An extension of every request.
#[derive(Clone, Debug)]
pub struct ClientPresence {
    present: watch::Receiver<()>,
    phase: watch::Receiver<Phase>,
}

/// The client is there as long as this is.
pub(super) type Present = watch::Sender<()>;

impl ClientPresence {
    pub(super) fn new(phase: watch::Receiver<Phase>) -> (Present, Self) {
        let (present, presence) = watch::channel(());
        (present, Self { present: presence, phase })
    }

    /// Whether the client has gone away, or the server is coming to its end, so that it had better
    /// ask another.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.present.has_changed().is_err() || *self.phase.borrow() >= Phase::Draining
    }

    /// Waits until that is so.
    pub async fn gone(mut self) {
        let left = async { while self.present.changed().await.is_ok() {} };
        tokio::select! {
            () = left => {}
            () = reached(&mut self.phase, Phase::Draining) => {}
        }
    }
}

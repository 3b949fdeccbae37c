//! Accepts connections, speaks HTTP/1.1 and HTTP/2 with them, over TLS or not, and ends them well.
//!
//! ```text
//!   accept ──► connection ──► http1, http2 ──► exchange ──► Handler ──► answer ──► linger, close
//!   (permit)   (TLS, which    (hyper, time-    (host,       (a task of its own;    (an early answer
//!               version)       outs, stalls)    target)      RequestBody counts)    is not reset)
//! ```
//!
//! What a handler can rely on:
//!
//! - **It decides before the body.** Nothing of the body is read, and no `100 Continue` is sent,
//!   until the handler polls the [`RequestBody`].
//! - **It may answer early.** When it drops the body unread, the answer says `Connection: close`,
//!   the write side is closed after it, and what the client still sends is read and thrown away
//!   within [`Limits::refusal_drain_bytes_max`] and `…_seconds_max` (`drain.rs`). A client that is
//!   in the middle of an upload gets the answer, not a reset. On HTTP/2 the
//!   connection goes on, and what comes on the stream is thrown away within the same limits;
//!   beyond them the stream is reset, with `NO_ERROR` (RFC 9113, 8.1).
//! - **It runs to its end.** It is a task of its own and goes on when its client disconnects: a
//!   fenced write that has been sent has to be settled whoever is still listening. Only the end of
//!   a drain cuts it. Who only waits can ask its [`ClientPresence`] whether anybody is still there.
//! - **Its request is well-formed**: one `Host` (on HTTP/2 that is `:authority`), a target in
//!   origin form or in absolute form for that host (`target.rs` tells which bytes a target can
//!   have). The path and query are the bytes the client sent.
//! - **A panic ends one request**, with [`Refusal::Failed`], not the process.
//! - **Its client is not for ever**: each wait for it has a limit in [`Limits`], whichever version
//!   of HTTP it speaks.
//!
//! Every request carries a [`RequestId`] and its [`ClientAddress`] as extensions.
//!
//! On HTTP/2 there is no `100 Continue`: hyper cannot send one there. The few clients that wait
//! for it go on after a time-out of their own.
//!
//! It reads no certificate files (see [`Tls`]), limits no handler's own time, and does not know
//! S3: the answers to what it refuses are the handler's, too.

mod body;
mod connection;
mod drain;
mod exchange;
mod handler;
mod http1;
mod http2;
mod lent;
mod pace;
mod presence;
mod rewind;
mod signals;
mod stall;
mod target;
mod tls;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};

pub use self::body::{BodyError, RequestBody};
pub use self::handler::{ClientAddress, Handler, Refusal, RequestId};
pub use self::presence::ClientPresence;
pub use self::signals::termination;
pub use self::tls::Tls;
use crate::telemetry::Traffic;

/// A pause after a failed accept, which is nearly always "too many open files": going on at once
/// would be a busy loop until some connection ends.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// What clients may take. Times are the longest pauses without progress unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Request line and headers; 8192 at least.
    pub header_bytes_max: usize,
    /// Clients at a time; more wait in the listen queue.
    pub connections_max: usize,
    /// Requests at a time; more are refused with [`Refusal::Busy`].
    pub requests_in_flight_max: usize,
    /// For a complete request head, idle time on a kept connection included.
    pub header_timeout: Duration,
    /// Of a client that sends a body or takes an answer.
    pub body_idle_timeout: Duration,
    /// For a whole body, from when the handler first asks for it.
    pub request_timeout: Duration,
    /// Requests at a time on one HTTP/2 connection.
    pub http2_streams_max: u32,
    /// What a client may send of one body on HTTP/2 before the handler takes it.
    pub http2_window_bytes: u32,
    /// What is read and thrown away after an early answer.
    pub refusal_drain_bytes_max: u64,
    /// How long that may take.
    pub refusal_drain_max: Duration,
    /// How long requests in flight may take once the listener stops.
    pub drain_max: Duration,
}

/// How a listener ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every request was answered.
    Completely,
    /// The time was up; what was left has been cut off.
    Cut,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Phase {
    Serving,
    Draining,
    Cut,
}

/// A bound port.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    traffic: Traffic,
    tls: Option<Tls>,
}

/// What the connections of one listener have in common.
struct Shared<H> {
    handler: H,
    limits: Limits,
    traffic: Traffic,
    in_flight: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
    /// Held by every connection and every handler; the drain is over when all are gone.
    _alive: mpsc::Sender<Infallible>,
}

impl Listener {
    /// Binds `address`; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound.
    pub async fn bind(address: SocketAddr, limits: Limits, traffic: Traffic) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, limits, traffic, tls: None })
    }

    /// Speaks TLS with every client.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// The address that was bound.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready, then drains: no new connections, idle ones are closed, the
    /// others end after the request they are at, and after [`Limits::drain_max`] they are cut.
    pub async fn serve<H: Handler>(self, handler: H, stop: impl Future<Output = ()>) -> Drained {
        let (phase, phase_seen) = watch::channel(Phase::Serving);
        let (alive, mut all_gone) = mpsc::channel(1);
        let shared = Arc::new(Shared {
            handler,
            limits: self.limits,
            traffic: self.traffic.clone(),
            in_flight: Arc::new(Semaphore::new(self.limits.requests_in_flight_max)),
            phase: phase_seen,
            _alive: alive,
        });
        tokio::select! {
            () = self.accept_all(&shared) => {}
            () = stop => {}
        }
        // Closes the port, so that clients and load balancers turn elsewhere at once.
        drop(self.listener);
        drop(shared);
        phase.send_replace(Phase::Draining);
        let drained = match tokio::time::timeout(self.limits.drain_max, all_gone.recv()).await {
            Ok(_) => Drained::Completely,
            Err(_) => Drained::Cut,
        };
        phase.send_replace(Phase::Cut);
        drained
    }

    async fn accept_all<H: Handler>(&self, shared: &Arc<Shared<H>>) {
        let places = Arc::new(Semaphore::new(self.limits.connections_max));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let (stream, client) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                    continue;
                }
            };
            set_no_delay(&stream);
            let (tls, shared) = (self.tls.clone(), Arc::clone(shared));
            tokio::spawn(async move {
                connection::serve(stream, client, tls, shared).await;
                drop(place);
            });
        }
    }
}

/// Answers are written in few, complete pieces; waiting to fill packets only delays them.
fn set_no_delay(stream: &TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
}

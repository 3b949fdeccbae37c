//! An HTTP/2 connection: many requests at a time, each a stream.
//!
//! What hyper and h2 do by themselves: the limit on streams, windows and header lists (431), the
//! limits on resets (CVE-2023-44487) and on CONTINUATION frames, GOAWAY at a graceful shutdown.
//! What is done here:
//!
//! - **A connection without a request is closed** after the time that HTTP/1 gives for a request
//!   head. That ends a client that never completes its HEADERS frame, too: nothing else can come
//!   in on its connection, so that the requests on it run out.
//! - **A client that does not take an answer** loses that stream (`pace.rs`), or the connection,
//!   where it takes nothing at all (`stall.rs`).
//! - **A request that is reset goes on in its handler**, and counts towards the connection's
//!   streams for so long: who resets streams gets no more work done at a time than who waits.
//! - **Windows are for streams.** The connection's is as large as all of its streams' together, so
//!   that bodies nobody reads yet, because their requests wait for another, cannot keep that
//!   other's body from arriving. Memory is bounded by the requests that may be in flight.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, watch};

use super::body::Unread;
use super::connection::reached;
use super::exchange::{Peer, answer};
use super::lent::Lent;
use super::rewind::Rewind;
use super::{Handler, Phase, Shared, drain, pace};

/// What is kept of one answer until the client takes it. What is left of it when the handler has
/// ended has no more time than [`Streams::idle_for`] gives, which is why this is not much.
const SEND_BUFFER_BYTES: usize = 128 * 1024;

/// The largest window that HTTP/2 knows.
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Serves `stream` until either side ends it.
pub(super) async fn until_closed<S, H>(
    stream: Rewind<S>,
    client: SocketAddr,
    shared: &Arc<Shared<H>>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let limits = shared.limits;
    let unread = Unread::default();
    let places = Arc::new(Semaphore::new(limits.http2_streams_max as usize));
    let service = service_fn(|request| {
        let (unread, places) = (unread.clone(), Some(Arc::clone(&places)));
        Box::pin(answer(request, Peer { client, unread, places }, Arc::clone(shared)))
    });
    let streams = Streams::new(limits.body_idle_timeout);
    let all_windows = limits.http2_window_bytes.saturating_mul(limits.http2_streams_max);
    let (lent, back) = Lent::new(stream);
    let mut connection = Box::pin(
        http2::Builder::new(streams.clone())
            .max_concurrent_streams(limits.http2_streams_max)
            .initial_stream_window_size(limits.http2_window_bytes)
            .initial_connection_window_size(all_windows.min(WINDOW_BYTES_MAX))
            .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .serve_connection(TokioIo::new(lent), service),
    );
    let mut phase = shared.phase.clone();
    let ended = tokio::select! {
        ended = &mut connection => Some(ended),
        () = reached(&mut phase, Phase::Draining) => None,
        () = streams.idle_for(limits.header_timeout) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = &mut connection => ended,
                // The client does not take the rest of an answer, or does not answer at all.
                () = streams.idle_for(limits.body_idle_timeout) => Ok(()),
            }
        }
    };
    drop(connection);
    let broke = ended.is_err();
    if let Err(error) = ended {
        tracing::debug!(%client, error = &error as &dyn std::error::Error, "connection ended");
    }
    if let Ok(stream) = back.await {
        // The last thing that was said, an answer or why the connection ends, is not to be lost.
        let bytes_max = if unread.get() || broke { limits.refusal_drain_bytes_max } else { 0 };
        drain::linger(stream.into_inner(), bytes_max, limits.refusal_drain_max).await;
    }
}

/// The streams of one connection. hyper hands each of them over to be run, with its request and
/// its answer.
#[derive(Clone)]
struct Streams {
    count: Arc<watch::Sender<Count>>,
    stall_timeout: Duration,
}

#[derive(Clone, Copy, Default)]
struct Count {
    open: usize,
    /// Ever. A stream that has come and gone shows here.
    begun: u64,
}

impl Streams {
    fn new(stall_timeout: Duration) -> Self {
        Self { count: Arc::new(watch::Sender::new(Count::default())), stall_timeout }
    }

    /// Resolves once there has been no stream for so long.
    async fn idle_for(&self, time: Duration) {
        let mut count = self.count.subscribe();
        loop {
            // There is a sender: `self`.
            let Ok(begun) = count.wait_for(|count| count.open == 0).await.map(|count| count.begun)
            else {
                return;
            };
            let next = count.wait_for(|count| count.begun != begun);
            if tokio::time::timeout(time, next).await.is_err() {
                return;
            }
        }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let open = Open::new(Arc::clone(&self.count));
        let stall_timeout = self.stall_timeout;
        tokio::spawn(async move {
            pace::watch(stream, stall_timeout).await;
            drop(open);
        });
    }
}

/// One stream in the count.
struct Open(Arc<watch::Sender<Count>>);

impl Open {
    fn new(count: Arc<watch::Sender<Count>>) -> Self {
        count.send_modify(|count| {
            count.open += 1;
            count.begun += 1;
        });
        Self(count)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|count| count.open -= 1);
    }
}

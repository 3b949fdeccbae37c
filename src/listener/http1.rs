//! An HTTP/1.1 connection: one request after the other, and a lingering close.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::body::Unread;
use super::connection::reached;
use super::exchange::{Peer, answer};
use super::rewind::Rewind;
use super::{Handler, Phase, Shared, drain};

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
    let service = service_fn(|request| {
        // The request before this one on the connection does not matter any more.
        unread.forget();
        let peer = Peer { client, unread: unread.clone(), places: None };
        Box::pin(answer(request, peer, Arc::clone(shared)))
    });
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes_max)
        .serve_connection(TokioIo::new(stream), service);
    let mut phase = shared.phase.clone();
    let mut draining = false;
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break ended,
            () = reached(&mut phase, Phase::Draining), if !draining => {
                draining = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    let stream = connection.into_parts().io.into_inner().into_inner();
    // hyper has answered what it could not parse (400, 414, 431), and more may be on its way.
    let unparsed = ended.as_ref().is_err_and(hyper::Error::is_parse);
    if let Err(error) = ended {
        tracing::debug!(%client, error = &error as &dyn std::error::Error, "connection ended");
    }
    let bytes_max = if unread.get() || unparsed { limits.refusal_drain_bytes_max } else { 0 };
    drain::linger(stream, bytes_max, limits.refusal_drain_max).await;
}

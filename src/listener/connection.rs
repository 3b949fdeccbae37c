//! One connection: TLS if there is to be TLS, then the version of HTTP that the client speaks.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use prometheus::IntGauge;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::rewind::{Rewind, Version};
use super::stall::StallGuard;
use super::tls::{NoTls, Tls};
use super::{Handler, Limits, Phase, Shared, drain, http1, http2};

/// Serves `stream` until either side ends it, or the drain's time is up.
pub(super) async fn serve<H: Handler>(
    stream: TcpStream,
    client: SocketAddr,
    tls: Option<Tls>,
    shared: Arc<Shared<H>>,
) {
    let _connected = Connected::new(shared.traffic.connections.clone());
    let mut cut = shared.phase.clone();
    // Below TLS, where every byte that a client takes is seen.
    let stream = StallGuard::new(stream, shared.limits.body_idle_timeout);
    tokio::select! {
        () = secure(stream, client, tls, &shared) => {}
        () = reached(&mut cut, Phase::Cut) => {}
    }
}

async fn secure<S, H>(stream: S, client: SocketAddr, tls: Option<Tls>, shared: &Arc<Shared<H>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let Some(tls) = tls else { return speak(stream, client, shared).await };
    let mut phase = shared.phase.clone();
    let stream = tokio::select! {
        biased;
        stream = tls.accept(stream) => stream,
        () = reached(&mut phase, Phase::Draining) => return,
    };
    match stream {
        Ok(stream) => speak(stream, client, shared).await,
        Err(NoTls::Plain(stream)) => refuse_plain(stream, client, shared.limits).await,
        Err(NoTls::Failed(error)) => {
            tracing::debug!(%client, %error, "TLS could not be agreed on");
        }
    }
}

/// Tells a client that speaks HTTP in the clear to a port of TLS what is wrong. An alert of TLS,
/// which is what rustls would send, is a broken connection to it.
async fn refuse_plain<S>(mut stream: S, client: SocketAddr, limits: Limits)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    const ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
        content-type: text/plain\r\ncontent-length: 35\r\n\r\n\
        This port speaks TLS; use https://\n";
    tracing::debug!(%client, "HTTP in the clear where TLS is spoken");
    if stream.write_all(ANSWER).await.is_ok() {
        drain::linger(stream, limits.refusal_drain_bytes_max, limits.refusal_drain_max).await;
    }
}

/// The first bytes decide, over TLS as well: ALPN says which versions there are, and a client that
/// agrees to one and speaks the other is understood all the same.
async fn speak<S, H>(stream: S, client: SocketAddr, shared: &Arc<Shared<H>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let mut phase = shared.phase.clone();
    let first = tokio::time::timeout(shared.limits.header_timeout, Rewind::begin(stream));
    let first = tokio::select! {
        biased;
        first = first => first.unwrap_or_else(|late| Err(io::Error::from(late))),
        // It has not asked for anything.
        () = reached(&mut phase, Phase::Draining) => return,
    };
    match first {
        Ok((Version::Http1, stream)) => http1::until_closed(stream, client, shared).await,
        Ok((Version::Http2, stream)) => http2::until_closed(stream, client, shared).await,
        Err(error) => tracing::debug!(%client, %error, "the client asked for nothing"),
    }
}

/// Resolves once the listener is in `phase` or past it, also when it is gone.
pub(super) async fn reached(current: &mut watch::Receiver<Phase>, phase: Phase) {
    // An error means that the listener has been dropped in the middle of serving: the same end.
    let _ended = current.wait_for(|current| *current >= phase).await;
}

/// One client in the gauge.
struct Connected(IntGauge);

impl Connected {
    fn new(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

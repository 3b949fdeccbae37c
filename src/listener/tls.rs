//! TLS on a listener's connections.
//!
//! What is sent as certificate, and what is asked of clients, is one `rustls::ServerConfig`, and
//! can be replaced while connections are served: those that are open keep theirs. Where it comes
//! from is `server/certificates.rs`'s concern.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::rewind::Rewind;

/// The versions of HTTP that clients are offered by ALPN, the better one first.
const VERSIONS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The server's side of TLS. Clones share what it is.
#[derive(Clone)]
pub struct Tls {
    current: Arc<watch::Sender<Arc<ServerConfig>>>,
    handshake_timeout: Duration,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("handshake_timeout", &self.handshake_timeout).finish()
    }
}

impl Tls {
    /// Handshakes by `config`, each in this time at most.
    #[must_use]
    pub fn new(config: ServerConfig, handshake_timeout: Duration) -> Self {
        Self { current: Arc::new(watch::Sender::new(offering_http(config))), handshake_timeout }
    }

    /// Handshakes by another `config` from now on.
    pub fn replace(&self, config: ServerConfig) {
        self.current.send_replace(offering_http(config));
    }

    pub(super) async fn accept<S>(&self, stream: S) -> Result<TlsStream<Rewind<S>>, NoTls<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = Arc::clone(&self.current.borrow());
        let handshake = async {
            let (first, stream) = Rewind::peek(stream).await?;
            // A method begins with a letter, and no record of TLS does.
            if first.is_ascii_alphabetic() {
                return Err(NoTls::Plain(stream.into_inner()));
            }
            Ok(TlsAcceptor::from(config).accept(stream).await?)
        };
        tokio::time::timeout(self.handshake_timeout, handshake).await.map_err(io::Error::from)?
    }
}

/// Why there is no TLS with a client.
pub(super) enum NoTls<S> {
    /// The client speaks HTTP in the clear. The stream is past a byte of that.
    Plain(S),
    /// It is too slow, has gone, or agrees to nothing.
    Failed(io::Error),
}

impl<S> From<io::Error> for NoTls<S> {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

fn offering_http(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.alpn_protocols = VERSIONS.iter().map(|version| version.to_vec()).collect();
    Arc::new(config)
}

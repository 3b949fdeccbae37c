//! The proxy's certificate: read from files, and read again when they change.
//!
//! The contents are compared, not the times: a file that is replaced by renaming another over it,
//! or by turning a symbolic link elsewhere (as Kubernetes does it), may have any time. A
//! certificate and its key are two files and cannot change as one, so that a pair which does not
//! fit is what is seen for a moment of every renewal: what cannot be used is logged, what was in
//! use stays in use, and the next look finds the rest.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};

use super::pem;
use crate::config::TlsConfig;
use crate::listener::Tls;

/// Why there is no TLS with clients, though there should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// One of the files.
    #[error("{setting} {}: {reason}", .path.display())]
    File {
        /// The setting that names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// They do not fit together, or cannot be used.
    #[error("the certificate in tls.certificate_file and the key in tls.key_file: {0}")]
    Pair(String),
}

/// The files, and what has been made of them.
#[derive(Debug)]
pub struct Certificates {
    files: Files,
    reload_interval: Duration,
    tls: Tls,
    /// What was found at the last look, so that each state is tried and logged once.
    seen: Result<[u8; 32], CertificateError>,
}

#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// The contents of the files. Holds a private key: has no `Debug`.
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Certificates {
    /// Reads the files; `None` where the settings name none.
    ///
    /// # Errors
    ///
    /// [`CertificateError`].
    pub async fn load(config: &TlsConfig) -> Result<Option<Self>, CertificateError> {
        let (Some(certificate), Some(key)) = (&config.certificate_file, &config.key_file) else {
            return Ok(None);
        };
        let files = Files {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: config.client_ca_file.clone(),
        };
        let contents = files.read().await?;
        let server = files.server_config(&contents)?;
        tracing::info!(
            certificate = %files.certificate.display(),
            client_certificates = if files.client_ca.is_some() { "required" } else { "none" },
            "TLS with clients"
        );
        Ok(Some(Self {
            files,
            reload_interval: config.reload_seconds.duration(),
            tls: Tls::new(server, config.handshake_timeout_seconds.duration()),
            seen: Ok(contents.digest()),
        }))
    }

    /// What the listener needs. It follows the files as long as [`watch`](Self::watch) runs.
    #[must_use]
    pub fn tls(&self) -> Tls {
        self.tls.clone()
    }

    /// Looks at the files in intervals, and at every SIGHUP. Never ends.
    pub async fn watch(mut self) -> Infallible {
        let mut hangups = Hangups::listen();
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.reload_interval) => {}
                () = hangups.next() => tracing::info!(signal = "SIGHUP", "looking at certificates"),
            }
            self.look().await;
        }
    }

    /// Takes what the files hold, if that is something else than before and can be used.
    async fn look(&mut self) {
        let read = self.files.read().await;
        let found = read.as_ref().map(Contents::digest).map_err(Clone::clone);
        if found == self.seen {
            return;
        }
        self.seen = found;
        match read.and_then(|contents| self.files.server_config(&contents)) {
            Ok(server) => {
                self.tls.replace(server);
                let path = self.files.certificate.display();
                tracing::info!(certificate = %path, "the certificate has been replaced");
            }
            Err(error) => {
                tracing::error!(%error, "the new certificate cannot be used; the old one stays");
            }
        }
    }
}

impl Files {
    async fn read(&self) -> Result<Contents, CertificateError> {
        Ok(Contents {
            certificate: read("tls.certificate_file", &self.certificate).await?,
            key: read("tls.key_file", &self.key).await?,
            client_ca: match &self.client_ca {
                Some(path) => Some(read("tls.client_ca_file", path).await?),
                None => None,
            },
        })
    }

    fn server_config(&self, contents: &Contents) -> Result<ServerConfig, CertificateError> {
        let chain = pem::certificates(&contents.certificate)
            .map_err(|reason| wrong("tls.certificate_file", &self.certificate, reason))?;
        let key = pem::private_key(&contents.key)
            .map_err(|reason| wrong("tls.key_file", &self.key, reason))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pair = |error: rustls::Error| CertificateError::Pair(error.to_string());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(pair)?;
        let builder = match (&self.client_ca, &contents.client_ca) {
            (Some(path), Some(authorities)) => {
                let wrong = |reason| wrong("tls.client_ca_file", path, reason);
                let roots = Arc::new(roots(authorities).map_err(wrong)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                    .build()
                    .map_err(|error| wrong(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
            (None, _) | (_, None) => builder.with_no_client_auth(),
        };
        builder.with_single_cert(chain, key).map_err(pair)
    }
}

impl Contents {
    fn digest(&self) -> [u8; 32] {
        let mut all = Sha256::new();
        let client_ca = self.client_ca.as_deref().unwrap_or_default();
        for file in [&self.certificate[..], &self.key, client_ca] {
            all.update(Sha256::digest(file));
        }
        all.finalize().into()
    }
}

async fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, CertificateError> {
    tokio::fs::read(path).await.map_err(|error| wrong(setting, path, error.to_string()))
}

fn wrong(setting: &'static str, path: &Path, reason: String) -> CertificateError {
    CertificateError::File { setting, path: path.to_owned(), reason }
}

fn roots(authorities: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for authority in pem::certificates(authorities)? {
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// SIGHUP, where there is one.
struct Hangups {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangups {
    #[cfg(unix)]
    fn listen() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let signal = signal(SignalKind::hangup())
            .inspect_err(|error| tracing::warn!(%error, "SIGHUP cannot be waited for"));
        Self { signal: signal.ok() }
    }

    #[cfg(not(unix))]
    fn listen() -> Self {
        Self {}
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}

//! Connections and credentials for the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Region, RequestChecksumCalculation, ResponseChecksumValidation,
};
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::RootCertStore;

use super::google::{GoogleTokens, TOKEN_SECONDS_MAX};
use super::pem;
use crate::config::{self, BackendConfig, BackendUrl, FenceConfig};
use crate::upstream::{
    Addressing, Dialect, Edge, Identity, Upstream, UpstreamConfig, sdk_client_behind,
};

/// For how long the signature of a DELETE is good, in seconds. Short, because nothing else is
/// admitted on a key whose exclusive DELETE is left behind until it has expired (F9).
pub const BODILESS_SIGNATURE_SECONDS: u32 = 60;

/// How long the store may take to carry out a DELETE whose signature it has found to be good, in
/// seconds. A body's stall bound, which is longer, covers the same for a PUT.
pub const EXECUTION_SECONDS_MAX: u32 = 60;

/// How much older an operation may be than the OAuth token of a request of it, in seconds: one that
/// has been going on for longer is not sent any more. Of a request without a body, and of one with.
const OLDER_THAN_TOKEN_SECONDS: (u32, u64) = (60, 900);

/// For how long a request to the store is good, in seconds (F9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Of a request without a body, counted from its signature, its execution included.
    pub bodiless: u64,
    /// Of a request with a body, until it is refused.
    pub signature: u64,
}

impl Lifetimes {
    /// Those that a configuration makes. A signature ends by itself; an OAuth token is good for an
    /// hour, and so is what was sent with it.
    #[must_use]
    pub fn of(backend: &BackendConfig, fence: &FenceConfig) -> Self {
        let signature = fence.signature_lifetime_seconds.duration().as_secs();
        match backend.google_credentials {
            config::GoogleCredentials::Hmac => Self {
                bodiless: (BODILESS_SIGNATURE_SECONDS + EXECUTION_SECONDS_MAX).into(),
                signature,
            },
            config::GoogleCredentials::Oauth => {
                let (bodiless, seconds) = token_bounds();
                Self {
                    bodiless: (bodiless + EXECUTION_SECONDS_MAX).into(),
                    signature: signature.max(seconds),
                }
            }
        }
    }
}

/// How long after the moment that an operation is signed for its token may be good.
fn token_bounds() -> (u32, u64) {
    let (bodiless, other) = OLDER_THAN_TOKEN_SECONDS;
    (TOKEN_SECONDS_MAX + bodiless, u64::from(TOKEN_SECONDS_MAX) + other)
}

/// Why the client for the store cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file of certificate authorities.
    #[error("backend.ca_file {path}: {reason}")]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// OAuth.
    #[error("there is no OAuth token for the store: {0}")]
    Token(String),
}

/// The certificate authorities to trust: the system's, and those of the file.
#[derive(Debug, Default)]
struct Authorities {
    pem: Option<Vec<u8>>,
}

impl Authorities {
    fn read(path: Option<&Path>) -> Result<Self, StoreError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let wrong = |reason: String| StoreError::CaFile { path: path.to_owned(), reason };
        let pem = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        pem::certificates(&pem).map_err(wrong)?;
        Ok(Self { pem: Some(pem) })
    }

    fn roots(&self) -> Result<RootCertStore, StoreError> {
        let mut roots = RootCertStore::empty();
        // A certificate of the system's that cannot be read is one that nothing relies on.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(pem) = &self.pem {
            for authority in pem::certificates(pem).map_err(StoreError::Tls)? {
                roots.add(authority).map_err(|error| StoreError::Tls(error.to_string()))?;
            }
        }
        Ok(roots)
    }
}

/// The HTTP client of the AWS SDK, with the same TLS as the proxy's own.
///
/// # Errors
///
/// [`StoreError`].
pub fn sdk_http_client(ca_file: Option<&Path>) -> Result<SharedHttpClient, StoreError> {
    let authorities = Authorities::read(ca_file)?;
    let mut trust = TrustStore::empty().with_native_roots(true);
    if let Some(pem) = authorities.pem {
        trust = trust.with_pem_certificate(pem);
    }
    let context = TlsContext::builder()
        .with_trust_store(trust)
        .build()
        .map_err(|error| StoreError::Tls(error.to_string()))?;
    Ok(aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .tls_context(context)
        .build_https())
}

/// The SDK's client for the ledger. It does not retry: a conditional PUT that landed
/// and is sent again is refused by its own success.
#[must_use]
pub fn sdk_client(
    url: &BackendUrl,
    backend: &BackendConfig,
    http: SharedHttpClient,
    credentials: SharedCredentialsProvider,
    timeout: Duration,
) -> aws_sdk_s3::Client {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(backend.connect_timeout_seconds.duration())
        .operation_timeout(timeout)
        .build();
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(format!("{}://{}", url.scheme(), url.authority()))
        .region(Region::new(backend.region.clone()))
        .force_path_style(backend.addressing == config::Addressing::Path)
        .credentials_provider(credentials)
        .http_client(http)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        // Older stores do not know the SDK's checksums.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .build();
    aws_sdk_s3::Client::from_conf(config)
}

/// The edge to the store, with the first OAuth token if that is what it shows.
///
/// # Errors
///
/// [`StoreError`].
pub async fn edge(
    backend: &BackendConfig,
    credentials: SharedCredentialsProvider,
) -> Result<Arc<Edge>, StoreError> {
    let identity = match backend.google_credentials {
        config::GoogleCredentials::Hmac => Identity::Keys(credentials),
        config::GoogleCredentials::Oauth => {
            let file = backend.google_service_account_file.as_deref();
            let tokens = GoogleTokens::begin(file).await.map_err(StoreError::Token)?;
            let (bodiless_seconds, seconds) = token_bounds();
            Identity::Tokens { source: Arc::new(tokens), bodiless_seconds, seconds }
        }
    };
    Ok(Arc::new(match backend.dialect {
        config::Dialect::S3 => Edge::new(Dialect::S3, backend.region.as_str(), identity),
        // Google's buckets are where they are whatever the signature says.
        config::Dialect::Gcs => Edge::new(Dialect::Gcs, "auto", identity),
    }))
}

/// The SDK's client behind the edge. With OAuth the SDK has no pair to sign with, and what it signs
/// is not what is sent.
#[must_use]
pub fn ledger_client(
    url: &BackendUrl,
    backend: &BackendConfig,
    http: SharedHttpClient,
    credentials: SharedCredentialsProvider,
    edge: &Arc<Edge>,
    timeout: Duration,
) -> aws_sdk_s3::Client {
    let credentials = match backend.google_credentials {
        config::GoogleCredentials::Hmac => credentials,
        config::GoogleCredentials::Oauth => SharedCredentialsProvider::new(
            aws_credential_types::Credentials::new("none", "none", None, None, "oauth"),
        ),
    };
    let http = sdk_client_behind(edge, addressing(backend), http);
    sdk_client(url, backend, http, credentials, timeout)
}

fn addressing(backend: &BackendConfig) -> Addressing {
    match backend.addressing {
        config::Addressing::Path => Addressing::Path,
        config::Addressing::Virtual => Addressing::Virtual,
    }
}

/// The proxy's own client.
///
/// # Errors
///
/// [`StoreError`].
pub fn upstream(
    url: &BackendUrl,
    backend: &BackendConfig,
    edge: Arc<Edge>,
    signature_seconds: u64,
    assembly_max: Duration,
) -> Result<Arc<Upstream>, StoreError> {
    let roots = Authorities::read(backend.ca_file.as_deref())?.roots()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(backend.connect_timeout_seconds.duration()));
    let connector: HttpsConnector<HttpConnector> = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    let config = UpstreamConfig {
        scheme: url.scheme().clone(),
        authority: url.authority().clone(),
        addressing: addressing(backend),
        response_timeout: backend.response_timeout_seconds.duration(),
        assembly_timeout: backend.response_timeout_seconds.duration().max(assembly_max),
        idle_body_timeout: backend.idle_body_timeout_seconds.duration(),
        pool_idle: backend.pool_idle_seconds.duration(),
        pool_idle_connections_max: backend.pool_idle_connections_max.as_usize(),
        // Whether Google takes aws-chunked bodies is not known.
        takes_trailers: backend.checksum_trailers == config::ChecksumTrailers::Forward
            && backend.dialect == config::Dialect::S3,
        bodiless_signature_seconds: BODILESS_SIGNATURE_SECONDS,
        signature_seconds,
    };
    Ok(Arc::new(Upstream::new(connector, edge, config)))
}

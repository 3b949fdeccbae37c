//! The proxy as a whole: assembled, examined, served, drained.

pub mod certificates;
pub mod examine;
mod examiner;
mod google;
pub(crate) mod pem;
mod plan;
mod secret_file;
pub mod settings;
pub mod store;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use tokio::task::JoinHandle;

use self::certificates::{CertificateError, Certificates};
use self::examine::Shelf;
use self::examiner::{Examiner, Found};
pub use self::plan::PlanError;
use self::store::StoreError;
use crate::admin::{self, Admin, AdminGate, AdminTokens, Readiness};
use crate::auth::{AccessKeyId, CredentialsError, KeyRing, SecretKey};
use crate::config::{AuthMode, BackendUrl, Config, GoogleCredentials};
use crate::doctor::ExaminationError;
use crate::fence::Rules;
use crate::ledger::{Ledger, LedgerBucketError, ObjectLedger, ObjectLedgerConfig};
use crate::listener::{Drained, Listener};
use crate::pipeline::{Authentication, Proxy};
use crate::s3::EtagQuotes;
use crate::telemetry::Metrics;
use crate::upstream::error_chain;

/// The store to put the proxy in front of.
#[derive(Clone, Debug)]
pub struct Store {
    /// Where it answers.
    pub url: BackendUrl,
    /// The proxy's credentials there.
    pub credentials: SharedCredentialsProvider,
    /// The SDK's HTTP client.
    pub http: SharedHttpClient,
}

/// Why the proxy does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error("{address} cannot be listened on: {reason}; --listen and --admin choose others")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        reason: std::io::Error,
    },
    /// TLS with clients.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// There are no credentials for the store.
    #[error(
        "there are no credentials for the store: {0}; they come from the environment \
         (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), a profile, web identity or instance metadata"
    )]
    NoCredentials(String),
    /// The clients' credentials.
    #[error("{origin}: {reason}")]
    ClientCredentials {
        /// Where they come from.
        origin: String,
        /// What is wrong with them.
        reason: String,
    },
    /// The tokens of the admin API.
    #[error("admin.token_file {path}: {reason}", path = .path.display())]
    AdminTokens {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The client for the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger bucket is not there.
    #[error(
        "the ledger bucket {bucket:?} does not exist. Create it (aws s3api create-bucket --bucket \
         {bucket}), or start with --create-ledger"
    )]
    LedgerMissing {
        /// Its name.
        bucket: String,
    },
    /// The ledger bucket cannot be used.
    #[error("{0}")]
    Ledger(String),
    /// The store cannot be fenced on (F11), or not as the configuration says.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The store could not be examined.
    #[error(transparent)]
    Examination(#[from] ExaminationError),
}

/// A proxy that is ready to serve.
#[derive(Debug)]
pub struct Server {
    data: Listener,
    certificates: Option<Certificates>,
    admin_address: SocketAddr,
    admin: JoinHandle<()>,
    assembled: Assembled,
    readiness: Readiness,
}

/// A proxy, and who looks after its store.
#[derive(Debug)]
struct Assembled {
    proxy: Proxy,
    examiner: Examiner,
    found: Found,
}

impl Server {
    /// Binds both listeners, checks the ledger bucket, and finds out how the store is fenced on.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub async fn start(config: &Config, store: Store) -> Result<Self, StartError> {
        Self::start_with(config, store, Rules::ALL).await
    }

    /// The same with other rules. For tests that show what a rule prevents.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    #[doc(hidden)]
    pub async fn start_with(
        config: &Config,
        store: Store,
        rules: Rules,
    ) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new());
        let readiness = Readiness::new(config.ledger.bucket.as_str());
        let admin_api = admin_gate(config)?;
        let certificates = Certificates::load(&config.tls).await?;
        let data = bind(config.listen, config.listener_limits(), metrics.traffic()).await?;
        let data = match &certificates {
            Some(certificates) => data.with_tls(certificates.tls()),
            None => data,
        };
        let admin_listener =
            bind(config.admin_listen, admin::LIMITS, crate::telemetry::Traffic::unregistered())
                .await?;
        let admin_address = admin_listener.local_addr();
        let admin_handler =
            Admin::new(Arc::clone(&metrics), readiness.clone()).with_api(admin_api.clone());
        let admin = tokio::spawn(async move {
            admin_listener.serve(admin_handler, std::future::pending()).await;
        });
        let assembled = assemble(config, store, rules, metrics, readiness.clone()).await;
        match assembled {
            Ok(assembled) => {
                admin_api.open(Arc::new(assembled.proxy.clone()));
                Ok(Self { data, certificates, admin_address, admin, assembled, readiness })
            }
            Err(error) => {
                admin.abort();
                Err(error)
            }
        }
    }

    /// Where clients connect.
    #[must_use]
    pub fn data_address(&self) -> SocketAddr {
        self.data.local_addr()
    }

    /// Where `/metrics`, `/livez` and `/readyz` are.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// Serves until `stop` is ready, then finishes what is in flight and withdraws what is
    /// settled.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Drained {
        let readiness = self.readiness;
        let Assembled { proxy, examiner, found } = self.assembled;
        let watched = proxy.clone();
        let watch = tokio::spawn(async move {
            tokio::join!(watched.watch_ledger(), examiner.watch(&watched, &found));
        });
        let renewal = self.certificates.map(|certificates| tokio::spawn(certificates.watch()));
        let drained = self
            .data
            .serve(proxy.clone(), async {
                stop.await;
                readiness.set_draining();
            })
            .await;
        watch.abort();
        if let Some(renewal) = renewal {
            renewal.abort();
        }
        proxy.settle_all().await;
        self.admin.abort();
        drained
    }
}

async fn bind(
    address: SocketAddr,
    limits: crate::listener::Limits,
    traffic: crate::telemetry::Traffic,
) -> Result<Listener, StartError> {
    Listener::bind(address, limits, traffic)
        .await
        .map_err(|reason| StartError::Bind { address, reason })
}

async fn assemble(
    config: &Config,
    store: Store,
    rules: Rules,
    metrics: Arc<Metrics>,
    readiness: Readiness,
) -> Result<Assembled, StartError> {
    let authentication = authentication(config, &store.credentials).await?;
    let timeout = config.ledger.timeout_seconds.duration();
    let edge = store::edge(&config.backend, store.credentials.clone()).await?;
    let client = store::ledger_client(
        &store.url,
        &config.backend,
        store.http,
        store.credentials,
        &edge,
        timeout,
    );
    let bucket = config.ledger.bucket.as_str();
    let prefix = config.ledger.prefix.as_str();
    let ledger = |quotes: EtagQuotes| {
        ObjectLedger::new(
            client.clone(),
            ObjectLedgerConfig {
                bucket: bucket.into(),
                prefix: prefix.into(),
                quotes,
                region: config.backend.region.clone(),
            },
        )
    };
    ledger(EtagQuotes::Quoted).ensure_bucket(config.ledger.create).await.map_err(|error| {
        match error {
            LedgerBucketError::Missing(bucket) => StartError::LedgerMissing { bucket },
            LedgerBucketError::Unusable { .. } => StartError::Ledger(error.to_string()),
        }
    })?;
    let upstream = || {
        store::upstream(
            &store.url,
            &config.backend,
            Arc::clone(&edge),
            store::Lifetimes::of(&config.backend, &config.fence).signature,
            config.fence.assembly_seconds_max.duration(),
        )
    };
    let examiner = Examiner {
        config: config.clone(),
        // A client of its own: no connection that a race has upset is handed to a request.
        upstream: upstream()?,
        shelf: Shelf::new(client.clone(), config),
        identity: examine::identity(config, &store.url),
        metrics: Arc::clone(&metrics),
        readiness: readiness.clone(),
    };
    let found = examiner.at_start().await?;
    let ledger: Arc<dyn Ledger> = Arc::new(ledger(found.plan.etag_quotes));
    let settings = settings::settings(config, authentication, &found, rules);
    let proxy = Proxy::new(settings, upstream()?, ledger, metrics, readiness);
    Ok(Assembled { proxy, examiner, found })
}

/// Whose requests are taken: by default those that are signed with the store's own pair. That is
/// asked for in any case where the store is shown one, so that its lack shows at once.
async fn authentication(
    config: &Config,
    provider: &SharedCredentialsProvider,
) -> Result<Authentication, StartError> {
    let credentials = match config.backend.google_credentials {
        GoogleCredentials::Oauth => None,
        GoogleCredentials::Hmac => {
            let provided = provider.provide_credentials().await;
            Some(provided.map_err(|error| StartError::NoCredentials(error_chain(&error)))?)
        }
    };
    let wrong = |reason: String| StartError::ClientCredentials {
        origin: "the store's credentials".into(),
        reason,
    };
    match (config.auth.mode, &config.auth.credentials_file, credentials) {
        (AuthMode::None, _, _) => Ok(Authentication::None),
        (AuthMode::Sigv4, Some(path), _) => key_ring(path).map(Authentication::SigV4),
        (AuthMode::Sigv4, None, Some(credentials)) => {
            let wrong = |error: CredentialsError| wrong(error.to_string());
            let id = AccessKeyId::new(credentials.access_key_id()).map_err(wrong)?;
            let secret = SecretKey::new(credentials.secret_access_key()).map_err(wrong)?;
            Ok(Authentication::SigV4(KeyRing::single(id, secret)))
        }
        (AuthMode::Sigv4, None, None) => Err(wrong(
            "clients need keys of their own with google_credentials = \"oauth\"; see \
             auth.credentials_file"
                .to_owned(),
        )),
    }
}

fn key_ring(path: &Path) -> Result<KeyRing, StartError> {
    let wrong = |reason: String| StartError::ClientCredentials {
        origin: format!("auth.credentials_file {}", path.display()),
        reason,
    };
    let text = secret_file::read(path).map_err(|error| wrong(error.to_string()))?;
    KeyRing::parse_file(&text).map_err(|error| wrong(error.to_string()))
}

/// The admin API: off without a token file.
fn admin_gate(config: &Config) -> Result<AdminGate, StartError> {
    let Some(path) = &config.admin.token_file else { return Ok(AdminGate::default()) };
    let wrong = |reason: String| StartError::AdminTokens { path: path.clone(), reason };
    let text = secret_file::read(path).map_err(|error| wrong(error.to_string()))?;
    let tokens = AdminTokens::parse_file(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(AdminGate::new(tokens))
}

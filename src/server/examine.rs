//! Examining the store of a configuration, and keeping what was found in the ledger bucket.
//!
//! Kept are the last full examination and the last quick one, in one object. Proxies and doctors
//! overwrite each other's: what is kept is evidence, and the last word is as good as another.

use std::time::Duration;

use aws_sdk_s3::error::{DisplayErrorContext, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use serde::{Deserialize, Serialize};

use super::Store;
use super::store::{self, StoreError};
use crate::config::{self, BackendConfig, BackendUrl, Config, TrustedBackend};
use crate::doctor::report::{Depth, Dialect, FORMAT, Operation, Report, StoreIdentity};
use crate::doctor::verdict::Trust;
use crate::doctor::{Examination, ExaminationError, Progress, SCRATCH_PREFIX, Versioned};
use crate::s3::EtagQuotes;
use crate::upstream::Upstream;

/// The key, behind the ledger's prefix, under which findings are kept.
const KEPT: &str = "examinations.json";

/// How an examination is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bucket to write scratch objects to.
    pub bucket: String,
    /// How thoroughly.
    pub depth: Depth,
    /// Requests at the same time in a race.
    pub writers: usize,
    /// Rounds of a race.
    pub rounds: usize,
    /// A bucket that keeps versions.
    pub versioned: Versioned,
    /// How long the checks may take in one bucket.
    pub time_max: Duration,
}

/// Why there is no examination, or why it could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum ExamineError {
    /// The client for the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store.
    #[error(transparent)]
    Examination(#[from] ExaminationError),
    /// The ledger bucket.
    #[error("what was found cannot be kept in the ledger bucket {bucket:?}: {reason}")]
    NotKept {
        /// Its name.
        bucket: String,
        /// What the store said.
        reason: String,
    },
}

/// Examines the store.
///
/// # Errors
///
/// [`ExamineError`].
pub async fn examine(
    config: &Config,
    store: &Store,
    options: Options,
    progress: &dyn Progress,
) -> Result<Report, ExamineError> {
    let edge = store::edge(&config.backend, store.credentials.clone()).await?;
    let upstream = store::upstream(
        &store.url,
        &config.backend,
        edge,
        store::Lifetimes::of(&config.backend, &config.fence).signature,
        config.fence.assembly_seconds_max.duration(),
    )?;
    let identity = identity(config, &store.url);
    Ok(examine_by(&upstream, identity, &config.backend, options, SCRATCH_PREFIX, progress).await?)
}

pub(super) async fn examine_by(
    upstream: &Upstream,
    store: StoreIdentity,
    backend: &BackendConfig,
    options: Options,
    prefix: &str,
    progress: &dyn Progress,
) -> Result<Report, ExaminationError> {
    let examination = Examination {
        upstream,
        store,
        bucket: &options.bucket,
        prefix,
        depth: options.depth,
        writers: options.writers,
        rounds: options.rounds,
        time_max: options.time_max,
        versioned: options.versioned,
        quotes: quotes(backend),
        signs: backend.google_credentials == config::GoogleCredentials::Hmac,
        trust: trust(backend),
        progress,
    };
    examination.run().await
}

/// Which store it is, as far as the configuration says so.
pub(super) fn identity(config: &Config, url: &BackendUrl) -> StoreIdentity {
    StoreIdentity {
        url: format!("{}://{}", url.scheme(), url.authority()),
        region: config.backend.region.clone(),
        dialect: match config.backend.dialect {
            config::Dialect::S3 => Dialect::S3,
            config::Dialect::Gcs => Dialect::Gcs,
        },
        server: None,
    }
}

/// How ETags are written, if the configuration says so.
pub(super) fn quotes(backend: &BackendConfig) -> Option<EtagQuotes> {
    match backend.etag_quotes {
        config::EtagQuotes::Auto => None,
        config::EtagQuotes::Quoted => Some(EtagQuotes::Quoted),
        config::EtagQuotes::Bare => Some(EtagQuotes::Bare),
    }
}

/// What an operator takes for granted.
#[must_use]
pub fn trust(backend: &BackendConfig) -> Trust {
    let mut trust = Trust::none();
    for trusted in &backend.unsafe_trust_backend {
        match trusted {
            TrustedBackend::Put => trust.operations.push(Operation::Put),
            TrustedBackend::Complete => trust.operations.push(Operation::Complete),
            TrustedBackend::Copy => trust.operations.push(Operation::Copy),
            TrustedBackend::Delete => trust.operations.push(Operation::Delete),
            TrustedBackend::Expiry => trust.expiry = true,
            TrustedBackend::Exclusion => trust.exclusion = true,
            TrustedBackend::Tags => trust.tags = true,
            TrustedBackend::Versions => trust.versions = true,
        }
    }
    trust
}

/// What is kept in the ledger bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The last full examination.
    pub full: Option<Report>,
    /// The last quick one.
    pub quick: Option<Report>,
}

impl Kept {
    /// Without what was found of another store, or by other rules.
    #[must_use]
    pub fn of(self, store: &StoreIdentity) -> Self {
        let same = |report: &Report| report.format == FORMAT && report.store == *store;
        Self { full: self.full.filter(same), quick: self.quick.filter(same) }
    }

    /// With a report in the place of the one like it.
    #[must_use]
    pub fn with(mut self, report: Report) -> Self {
        match report.depth {
            Depth::Full => self.full = Some(report),
            Depth::Quick => self.quick = Some(report),
        }
        self
    }
}

/// Where findings are kept.
#[derive(Clone, Debug)]
pub struct Shelf {
    client: aws_sdk_s3::Client,
    bucket: String,
    key: String,
}

impl Shelf {
    /// In this ledger bucket.
    #[must_use]
    pub fn new(client: aws_sdk_s3::Client, config: &Config) -> Self {
        let bucket = config.ledger.bucket.as_str().to_owned();
        Self { client, bucket, key: format!("{}{KEPT}", config.ledger.prefix.as_str()) }
    }

    /// What is there. What cannot be read is as good as nothing: the store is examined anew.
    pub async fn look(&self) -> Kept {
        let request = self.client.get_object().bucket(&self.bucket).key(&self.key);
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => {
                if !is_missing(&error) {
                    let error = DisplayErrorContext(error).to_string();
                    tracing::warn!(error, "kept examinations of the store cannot be read");
                }
                return Kept::default();
            }
        };
        let bytes = match answer.body.collect().await {
            Ok(bytes) => bytes.into_bytes(),
            Err(error) => {
                tracing::warn!(%error, "kept examinations of the store cannot be read");
                return Kept::default();
            }
        };
        serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::info!(%error, "kept examinations of the store are of another version");
            Kept::default()
        })
    }

    /// Puts a report with what is there of the same store.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub async fn keep(&self, report: Report) -> Result<(), ExamineError> {
        self.put(&self.look().await.of(&report.store).with(report)).await
    }

    /// Puts what is to be there.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub async fn put(&self, kept: &Kept) -> Result<(), ExamineError> {
        let not_kept =
            |reason: String| ExamineError::NotKept { bucket: self.bucket.clone(), reason };
        let json = serde_json::to_vec_pretty(kept).map_err(|error| not_kept(error.to_string()))?;
        let request = self.client.put_object().bucket(&self.bucket).key(&self.key);
        let request = request.content_type("application/json").body(ByteStream::from(json));
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) => Err(not_kept(DisplayErrorContext(error).to_string())),
        }
    }
}

/// Keeps a report in the configuration's ledger bucket.
///
/// # Errors
///
/// [`ExamineError`].
pub async fn save(config: &Config, store: &Store, report: &Report) -> Result<(), ExamineError> {
    let timeout = config.ledger.timeout_seconds.duration();
    let (http, credentials) = (store.http.clone(), store.credentials.clone());
    let backend = &config.backend;
    let edge = store::edge(backend, credentials.clone()).await?;
    let client = store::ledger_client(&store.url, backend, http, credentials, &edge, timeout);
    Shelf::new(client, config).keep(report.clone()).await
}

fn is_missing(error: &SdkError<GetObjectError, HttpResponse>) -> bool {
    error.raw_response().is_some_and(|response| response.status().as_u16() == 404)
}

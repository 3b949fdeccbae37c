//! `[backend]`: the store behind the proxy, and how it is reached.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::names::BackendUrl;
use super::values::{Count, Seconds, optional};

/// Settings of the store. Its credentials are not among them: they come by the AWS SDK's usual
/// chain (environment, profile, web identity, instance metadata).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackendConfig {
    /// Where the store answers. `serve` needs it; `dev` brings its own store.
    #[serde(with = "optional")]
    pub url: Option<BackendUrl>,
    /// What the store speaks.
    pub dialect: Dialect,
    /// What the proxy shows to Google Cloud Storage.
    pub google_credentials: GoogleCredentials,
    /// The service account that OAuth tokens are asked for. Not set: the file that
    /// `GOOGLE_APPLICATION_CREDENTIALS` names, or the metadata server.
    #[serde(with = "optional")]
    pub google_service_account_file: Option<PathBuf>,
    /// The region that requests to the store are signed for.
    pub region: String,
    /// Where the bucket goes in requests to the store.
    pub addressing: Addressing,
    /// The longest wait for a TCP and TLS connection.
    pub connect_timeout_seconds: Seconds<1, 600>,
    /// The longest wait between the last byte of a request and the head of its answer.
    pub response_timeout_seconds: Seconds<1, 3600>,
    /// The longest pause within a body, in either direction.
    pub idle_body_timeout_seconds: Seconds<1, 3600>,
    /// How long an idle connection is kept. Below 30 s by default: some stores close theirs then.
    pub pool_idle_seconds: Seconds<0, 3600>,
    /// How many idle connections are kept.
    pub pool_idle_connections_max: Count<0, 65_536>,
    /// How the store wants ETags in preconditions.
    pub etag_quotes: EtagQuotes,
    /// Whether the store's DELETE honours If-Match.
    pub conditional_delete: ConditionalDelete,
    /// Whether the store's CompleteMultipartUpload honours If-Match, races included.
    pub conditional_complete: ConditionalComplete,
    /// Whether the store's CopyObject honours If-Match on its destination, races included.
    pub conditional_copy: ConditionalCopy,
    /// What is done about keys that the store folds into one.
    pub key_aliasing: KeyAliasing,
    /// What becomes of a checksum that comes in the trailer of a body that streams.
    pub checksum_trailers: ChecksumTrailers,
    /// How long what was found out about the store is good for. 0: as long as it is the same store.
    pub recheck_seconds: Seconds<0, 31_536_000>,
    /// What is taken for granted, whatever the doctor finds.
    pub unsafe_trust_backend: Vec<TrustedBackend>,
    /// A PEM file of certificate authorities to trust besides the system's.
    #[serde(with = "optional")]
    pub ca_file: Option<PathBuf>,
}

impl Default for BackendConfig {
    fn default() -> Self {
        Self {
            url: None,
            dialect: Dialect::S3,
            google_credentials: GoogleCredentials::Hmac,
            google_service_account_file: None,
            region: "us-east-1".to_owned(),
            addressing: Addressing::Path,
            connect_timeout_seconds: Seconds::new(5),
            response_timeout_seconds: Seconds::new(60),
            idle_body_timeout_seconds: Seconds::new(60),
            pool_idle_seconds: Seconds::new(20),
            pool_idle_connections_max: Count::new(64),
            etag_quotes: EtagQuotes::Auto,
            conditional_delete: ConditionalDelete::Auto,
            conditional_complete: ConditionalComplete::Auto,
            conditional_copy: ConditionalCopy::Auto,
            key_aliasing: KeyAliasing::Refuse,
            checksum_trailers: ChecksumTrailers::Forward,
            recheck_seconds: Seconds::new(86_400),
            unsafe_trust_backend: Vec::new(),
            ca_file: None,
        }
    }
}

/// What the store speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// S3.
    S3,
    /// The XML API of Google Cloud Storage, whose preconditions are generations.
    Gcs,
}

/// What the proxy shows to Google Cloud Storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoogleCredentials {
    /// An HMAC key, which comes by the AWS SDK's chain (`AWS_ACCESS_KEY_ID` and so on).
    Hmac,
    /// OAuth tokens of a service account, by its key file or the metadata server.
    Oauth,
}

/// Where the bucket goes in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Addressing {
    /// `https://host/bucket/key`; every store understands it.
    Path,
    /// `https://bucket.host/key`; what AWS wants for buckets of today.
    Virtual,
}

/// How ETags are written in `If-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EtagQuotes {
    /// As it is found at start.
    Auto,
    /// `"9b2c…"`, as HTTP has it.
    Quoted,
    /// `9b2c…`; Ceph RGW 16 matches nothing else.
    Bare,
}

/// What fencing a DELETE can rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionalDelete {
    /// As it is found at start.
    Auto,
    /// DELETE carries If-Match; what is found at start must confirm it.
    Conditional,
    /// DELETE is an exclusive operation (F8): MinIO and Ceph ignore If-Match on it.
    Exclusive,
}

/// What fencing a CopyObject can rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionalCopy {
    /// As a full examination by `fencepost doctor --save` found it; without one, exclusive.
    Auto,
    /// Copy is an exclusive operation (F8): safe on every store.
    Exclusive,
    /// Copy carries If-Match or If-None-Match. For stores known to be atomic in it.
    Conditional,
}

/// What is done about `a//b` and `/a/b` where the store takes them for `a/b` (which is found at start).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyAliasing {
    /// Writes of such keys are refused.
    Refuse,
    /// All spellings of a key share its fence.
    CollapseSlashes,
}

/// What becomes of a checksum in a trailer, once the proxy has verified it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChecksumTrailers {
    /// It goes on in a trailer: Amazon S3 keeps it, and wants it for the parts of an upload that
    /// was created with a checksum algorithm.
    Forward,
    /// It stays here: Ceph RGW 16 does not know trailers.
    Drop,
}

/// What fencing a CompleteMultipartUpload can rest on.
///
/// SeaweedFS honours the condition in sequence and breaks it in most races, so that the few rounds
/// of a start-up cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionalComplete {
    /// As a full examination by `fencepost doctor --save` found it; without one, exclusive.
    Auto,
    /// Complete is an exclusive operation (F8): safe on every store.
    Exclusive,
    /// Complete carries If-Match or If-None-Match. For stores known to be atomic, such as AWS.
    Conditional,
}

/// What is taken for granted about a store, whatever the doctor finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrustedBackend {
    /// That conditions on PutObject are sound: the ledger and every fence rest on them.
    Put,
    /// That conditions on CompleteMultipartUpload are.
    Complete,
    /// That conditions on CopyObject are.
    Copy,
    /// That conditions on DeleteObject are.
    Delete,
    /// That requests are refused once their signature is too old (F9).
    Expiry,
    /// That what is sent without a condition is not undone by a PUT that expects the state before.
    Exclusion,
    /// That buckets that keep versions are like those that do not, where nobody has tried.
    Versions,
    /// That the tags of buckets with `tags = "unique"` never repeat.
    Tags,
}

//! The typed configuration, and where it comes from.
//!
//! Every setting has one name, `section.key`, and four places it can come from. The first that
//! has it wins:
//!
//! 1. a command line flag (`--backend URL`, or for any setting `--set backend.url=URL`),
//! 2. a variable, `FENCEPOST_` and the name in capitals: `FENCEPOST_BACKEND_URL`,
//! 3. the TOML file named by `--config` or `FENCEPOST_CONFIG`,
//! 4. the default, which `config/fencepost.toml` shows.
//!
//! ```text
//!   flags ──┐
//!   env   ──┼─► Given { key, value, origin } ─► known? ─► its type ─► overlay ─► validate ─► Config
//!   file  ──┘                        │            │                      │
//!                                    └────────────┴──── all problems ────┴──► ConfigError
//! ```
//!
//! The file's shape, the names of the variables and the keys that are known all follow from the
//! structs below (`schema` asks their `Deserialize` for the fields), so a new setting is one
//! field with a default. Nothing outside of this module reads the environment, and nothing binds
//! or connects before [`Config::load`] has returned. It opens no file that a setting names and
//! holds no secret: settings name credential files, they do not contain credentials.

mod admin;
mod auth;
mod backend;
mod environment;
mod fence;
mod file;
pub mod flags;
mod ledger;
mod limits;
mod load;
mod names;
mod problem;
mod schema;
mod tls;
mod validate;
mod values;

use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

pub use self::admin::AdminConfig;
pub use self::auth::{AuthConfig, AuthMode, TokenSignature};
pub use self::backend::{
    Addressing, BackendConfig, ChecksumTrailers, ConditionalComplete, ConditionalCopy,
    ConditionalDelete, Dialect, EtagQuotes, GoogleCredentials, KeyAliasing, TrustedBackend,
};
pub use self::environment::{CLIENT_VARIABLES, Environment};
pub use self::fence::{
    BucketOperations, BucketRule, Compare, FenceConfig, FenceMode, ScopePer, ScopeRule,
    StaleStatus, Tags,
};
pub use self::file::ConfigFile;
pub use self::ledger::LedgerConfig;
pub use self::limits::LimitsConfig;
pub use self::load::{Purpose, Sources};
pub use self::names::{
    AmzHeaderName, BackendUrl, BucketName, HostSuffix, LogFilter, NotABackendUrl,
};
pub use self::problem::{ConfigError, Origin, Problem};
pub use self::schema::{Kind, Setting, settings};
pub use self::tls::TlsConfig;
pub use self::values::{Count, Milliseconds, Seconds};
use crate::listener;
pub use crate::telemetry::LogFormat;

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where clients connect.
    #[serde(deserialize_with = "values::from_text")]
    pub listen: SocketAddr,
    /// Where `/metrics`, `/livez`, `/readyz` and the admin API are served.
    #[serde(deserialize_with = "values::from_text")]
    pub admin_listen: SocketAddr,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Which events are logged.
    pub log_level: LogFilter,
    /// Domains under which buckets are host names. `localhost` always is one.
    pub host_suffixes: Vec<HostSuffix>,
    /// How long requests in flight may take to finish after SIGTERM, before they are cut.
    pub drain_seconds_max: Seconds<0, 3600>,
    /// TLS with clients.
    pub tls: TlsConfig,
    /// The store.
    pub backend: BackendConfig,
    /// Clients' signatures.
    pub auth: AuthConfig,
    /// The admin API.
    pub admin: AdminConfig,
    /// The records.
    pub ledger: LedgerConfig,
    /// The protocol, and the defaults of every bucket.
    pub fence: FenceConfig,
    /// Limits.
    pub limits: LimitsConfig,
    /// Buckets that differ from the defaults.
    #[serde(rename = "bucket", skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<BucketRule>,
    /// Prefixes that differ from their buckets.
    #[serde(rename = "scope", skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<ScopeRule>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 9000).into(),
            admin_listen: (Ipv4Addr::LOCALHOST, 9001).into(),
            log_format: LogFormat::Text,
            log_level: LogFilter::default(),
            host_suffixes: Vec::new(),
            drain_seconds_max: Seconds::new(30),
            tls: TlsConfig::default(),
            backend: BackendConfig::default(),
            auth: AuthConfig::default(),
            admin: AdminConfig::default(),
            ledger: LedgerConfig::default(),
            fence: FenceConfig::default(),
            limits: LimitsConfig::default(),
            buckets: Vec::new(),
            scopes: Vec::new(),
        }
    }
}

impl Config {
    /// The configuration as a TOML document that `--config` reads back to the same values.
    /// There are no secrets in it.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("every setting can be written as TOML")
    }

    /// The limits of the data listener.
    #[must_use]
    pub fn listener_limits(&self) -> listener::Limits {
        let limits = &self.limits;
        listener::Limits {
            header_bytes_max: limits.header_bytes_max.as_usize(),
            connections_max: limits.connections_max.as_usize(),
            requests_in_flight_max: limits.requests_in_flight_max.as_usize(),
            header_timeout: limits.header_timeout_seconds.duration(),
            body_idle_timeout: limits.body_idle_timeout_seconds.duration(),
            request_timeout: limits.request_timeout_seconds.duration(),
            http2_streams_max: limits.http2_streams_max.as_u32(),
            http2_window_bytes: limits.http2_window_bytes.as_u32(),
            refusal_drain_bytes_max: limits.refusal_drain_bytes_max.get(),
            refusal_drain_max: limits.refusal_drain_seconds_max.duration(),
            drain_max: self.drain_seconds_max.duration(),
        }
    }

    /// The store's URL, for commands that cannot do without.
    ///
    /// # Errors
    ///
    /// When it is not set; says how to set it.
    pub fn required_backend_url(&self) -> Result<&BackendUrl, ConfigError> {
        self.backend.url.as_ref().ok_or_else(|| validate::backend_url_missing().into())
    }
}

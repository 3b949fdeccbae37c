//! The command line flags that are settings.
//!
//! A flag is another way to write a setting and is checked like one, so clap is told of texts
//! only. Commands and their own arguments (`demo`, `config check`) belong to the binary.

use std::path::PathBuf;

use clap::Args;

use super::environment::Environment;
use super::file::ConfigFile;
use super::load::Sources;
use super::problem::ConfigError;

/// The variable that names the configuration file.
pub(super) const CONFIG: &str = "FENCEPOST_CONFIG";

/// A setting given by a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagSetting {
    /// The flag, for messages: `--backend`.
    pub flag: String,
    /// The setting.
    pub key: String,
    /// Its value as it was written.
    pub text: String,
}

/// Flags of every command that runs a proxy.
#[derive(Args, Clone, Debug, Default)]
pub struct CommonFlags {
    /// Address for clients [default: 127.0.0.1:9000]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Address for /metrics, /livez and /readyz [default: 127.0.0.1:9001]
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Configuration file in TOML; config/fencepost.toml shows every setting
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What a write without a token means: if-fenced, require or off [default: if-fenced]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<String>,
    /// Whether clients have to sign: sigv4 or none [default: sigv4]
    #[arg(long, value_name = "MODE")]
    pub auth: Option<String>,
    /// Permit --auth none on an address that other machines can reach
    #[arg(long)]
    pub allow_unauthenticated: bool,
    /// File with the key pairs that clients may sign with [default: the backend's pair]
    #[arg(long, value_name = "FILE")]
    pub credentials_file: Option<String>,
    /// Bucket that holds the records of the fence [default: fencepost-ledger]
    #[arg(long, value_name = "BUCKET")]
    pub ledger_bucket: Option<String>,
    /// How log lines look: text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Which events are logged: error, warn, info, debug, trace, or target=level,… [default: info]
    #[arg(long, value_name = "FILTER")]
    pub log_level: Option<String>,
    /// Any setting, as section.key=value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub set: Vec<(String, String)>,
    /// Print the effective configuration as TOML, and end
    #[arg(long)]
    pub print_config: bool,
}

/// Flags of `serve` alone.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeFlags {
    /// URL of the store: http or https, its host and perhaps a port
    #[arg(long, value_name = "URL")]
    pub backend: Option<String>,
    /// What the store speaks: s3, or gcs for Google Cloud Storage [default: s3]
    #[arg(long, value_name = "DIALECT")]
    pub dialect: Option<String>,
    /// Region that requests to the store are signed for [default: us-east-1]
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// Create the ledger bucket if it is missing
    #[arg(long)]
    pub create_ledger: bool,
    /// The flags of every command.
    #[command(flatten)]
    pub common: CommonFlags,
}

impl CommonFlags {
    /// The settings among the flags. Named flags come after `--set`, so they win.
    #[must_use]
    pub fn settings(&self) -> Vec<FlagSetting> {
        let set = self.set.iter().map(|(key, text)| FlagSetting {
            flag: "--set".to_owned(),
            key: key.clone(),
            text: text.clone(),
        });
        let named = [
            ("--listen", "listen", &self.listen),
            ("--admin", "admin_listen", &self.admin),
            ("--mode", "fence.mode", &self.mode),
            ("--auth", "auth.mode", &self.auth),
            ("--credentials-file", "auth.credentials_file", &self.credentials_file),
            ("--ledger-bucket", "ledger.bucket", &self.ledger_bucket),
            ("--log-format", "log_format", &self.log_format),
            ("--log-level", "log_level", &self.log_level),
        ];
        let named = named.into_iter().filter_map(|(flag, key, text)| given(flag, key, text));
        let allow = self
            .allow_unauthenticated
            .then(|| switched_on("--allow-unauthenticated", "auth.allow_none_beyond_loopback"));
        set.chain(named).chain(allow).collect()
    }

    /// The settings of these flags, `more` of a command's own, the environment and the file that
    /// `--config` or `FENCEPOST_CONFIG` names.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn sources(
        &self,
        more: Vec<FlagSetting>,
        environment: Environment,
    ) -> Result<Sources, ConfigError> {
        let named = environment.get(CONFIG).filter(|name| !name.is_empty()).map(PathBuf::from);
        let file = match self.config.clone().or(named) {
            Some(path) => Some(ConfigFile::read(&path)?),
            None => None,
        };
        let mut flags = self.settings();
        flags.extend(more);
        Ok(Sources { file, environment, flags })
    }
}

impl ServeFlags {
    /// All sources of `serve`'s configuration.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn sources(&self, environment: Environment) -> Result<Sources, ConfigError> {
        let own = [
            given("--backend", "backend.url", &self.backend),
            given("--dialect", "backend.dialect", &self.dialect),
            given("--region", "backend.region", &self.region),
            self.create_ledger.then(|| switched_on("--create-ledger", "ledger.create")),
        ];
        self.common.sources(own.into_iter().flatten().collect(), environment)
    }
}

/// Flags of `doctor`.
#[derive(Args, Clone, Debug)]
pub struct DoctorFlags {
    /// URL of the store: http or https, its host and perhaps a port
    #[arg(long, value_name = "URL")]
    pub backend: Option<String>,
    /// What the store speaks: s3, or gcs for Google Cloud Storage [default: s3]
    #[arg(long, value_name = "DIALECT")]
    pub dialect: Option<String>,
    /// Bucket to write scratch objects to, the data's or another like it
    #[arg(long, value_name = "BUCKET")]
    pub bucket: String,
    /// Region that requests are signed for [default: us-east-1]
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// Where the bucket goes in requests: path or virtual [default: path]
    #[arg(long, value_name = "STYLE")]
    pub addressing: Option<String>,
    /// Bucket that keeps versions, to try that, too
    #[arg(long, value_name = "BUCKET")]
    pub versioned_bucket: Option<String>,
    /// Make a bucket that keeps versions for the examination, and remove it afterwards
    #[arg(long, conflicts_with = "versioned_bucket")]
    pub create_scratch_bucket: bool,
    /// Requests at the same time in a race; some stores punish contention
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub writers: u8,
    /// Rounds of a race
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// Seconds that the checks may take in one bucket
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub time_max: u64,
    /// Only what serve does at its start
    #[arg(long)]
    pub quick: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Keep the result in the ledger bucket, for serve to plan by
    #[arg(long)]
    pub save: bool,
    /// Bucket that holds the records of the fence, for --save [default: fencepost-ledger]
    #[arg(long, value_name = "BUCKET")]
    pub ledger_bucket: Option<String>,
    /// Configuration file in TOML; what it says of the store counts
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Any setting, as section.key=value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub set: Vec<(String, String)>,
}

impl DoctorFlags {
    /// All sources of the configuration.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn sources(&self, environment: Environment) -> Result<Sources, ConfigError> {
        let common = CommonFlags {
            config: self.config.clone(),
            set: self.set.clone(),
            ledger_bucket: self.ledger_bucket.clone(),
            // It has no clients.
            auth: Some("none".to_owned()),
            // Its log is for what goes wrong: the report is on standard output.
            log_level: Some("warn".to_owned()),
            ..CommonFlags::default()
        };
        let own = [
            given("--backend", "backend.url", &self.backend),
            given("--dialect", "backend.dialect", &self.dialect),
            given("--region", "backend.region", &self.region),
            given("--addressing", "backend.addressing", &self.addressing),
        ];
        common.sources(own.into_iter().flatten().collect(), environment)
    }
}

fn given(flag: &str, key: &str, text: &Option<String>) -> Option<FlagSetting> {
    let text = text.clone()?;
    Some(FlagSetting { flag: flag.to_owned(), key: key.to_owned(), text })
}

fn switched_on(flag: &str, key: &str) -> FlagSetting {
    FlagSetting { flag: flag.to_owned(), key: key.to_owned(), text: "true".to_owned() }
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as section.key=value".to_owned()),
    }
}

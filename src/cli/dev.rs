//! `fencepost dev`: the proxy and an embedded store in one process.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fencepost::config::Config;
use fencepost::config::flags::CommonFlags;

use super::Failure;

/// Flags of `dev`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DevFlags {
    /// Keep the objects in this directory [default: in memory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Which store the embedded one behaves like
    #[arg(long, value_enum, default_value_t = Profile::Aws)]
    pub(crate) profile: Profile,
    #[command(flatten)]
    pub(crate) common: CommonFlags,
}

/// What the embedded store behaves like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Amazon S3: conditional writes, ETags that repeat
    Aws,
    /// Amazon S3 with SSE-KMS: every write has an ETag of its own
    AwsUniqueTags,
    /// MinIO: DELETE ignores If-Match
    Minio,
    /// A store that ignores conditions; the proxy refuses it
    Liar,
    /// A store that checks conditions, then acts; the proxy refuses it
    Racy,
}

/// Runs until a signal ends it. The configuration has been checked and the log is set up;
/// `backend.url` is not needed.
pub(crate) async fn run(config: Config, flags: DevFlags) -> Result<(), Failure> {
    let place = flags.data.map_or_else(|| "memory".to_owned(), |dir| dir.display().to_string());
    let (profile, listen) = (flags.profile, config.listen);
    Err(format!("the {profile:?} store in {place} on {listen} is not assembled in this build")
        .into())
}

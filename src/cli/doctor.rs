//! `fencepost doctor`: which operations of a store can be fenced, found out by trying.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use fencepost::config::flags::DoctorFlags;
use fencepost::config::{Config, Environment, Purpose};
use fencepost::doctor::report::{Check, Depth, Versioning};
use fencepost::doctor::{Progress, Unwatched, Versioned, render};
use fencepost::server::examine;
use fencepost::telemetry;

use super::{Failure, print, print_error, serve};

pub(super) const HELP: &str = "\
Scratch objects are written under fencepost-doctor/ in the bucket, and removed afterwards.
Credentials are found as the AWS SDKs find them.

Exit codes:
   0  a fence on this store is safe
   1  it is not: the last line says why
   2  the command line or the configuration is wrong; nothing was begun
  69  the store cannot be reached, or the bucket is not there
  77  the credentials are missing, wrong or not enough

Examples:
  fencepost doctor --backend http://127.0.0.1:8333 --bucket scratch
  fencepost doctor --backend https://s3.eu-central-1.amazonaws.com --region eu-central-1 \\
      --bucket data --versioned-bucket data-with-versions --save
  fencepost doctor --backend https://minio.example --bucket scratch --json | jq .buckets[].verdicts";

/// Exit code 0 if a fence is safe, else 1.
pub(crate) async fn run(flags: DoctorFlags) -> Result<ExitCode, Failure> {
    let config = Config::load(&flags.sources(Environment::of_process())?, Purpose::Serve)?;
    telemetry::log::init(config.log_format, config.log_level.as_str())?;
    let store = serve::store_of(&config).await?;
    // A person sees how far it is; where nobody looks, nothing is shown.
    let watched = io::stderr().is_terminal() && !flags.quiet;
    let progress: Box<dyn Progress> = if watched { Box::new(Lines) } else { Box::new(Unwatched) };
    let options = examine::Options {
        bucket: flags.bucket.clone(),
        depth: if flags.quick { Depth::Quick } else { Depth::Full },
        writers: flags.writers.into(),
        rounds: flags.rounds.into(),
        versioned: match (&flags.versioned_bucket, flags.create_scratch_bucket) {
            (Some(bucket), _) => Versioned::In(bucket.clone()),
            (None, true) => Versioned::Scratch,
            (None, false) => Versioned::No,
        },
        time_max: Duration::from_secs(flags.time_max),
    };
    let report = examine::examine(&config, &store, options, progress.as_ref()).await?;
    drop(progress);
    if flags.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&report)?));
    } else {
        print(&render::text(&report));
    }
    if flags.save {
        examine::save(&config, &store, &report).await?;
        let bucket = config.ledger.bucket.as_str();
        print_error(&format!("kept in {bucket}: serve plans by it from its next start"));
    }
    Ok(ExitCode::from(u8::from(!report.safe)))
}

/// One line on standard error, written over and over: the check that has ended.
#[derive(Debug)]
struct Lines;

impl Lines {
    fn show(text: &str) {
        // Back to the start of the line, and nothing left of what was there.
        let _gone = write!(io::stderr(), "\r\x1b[2K{text}");
    }
}

impl Progress for Lines {
    fn entered(&self, bucket: &str, versioning: Versioning) {
        let versions = if versioning.keeps_versions() { ", which keeps versions" } else { "" };
        Self::show(&format!("examining {bucket}{versions}"));
    }

    fn checked(&self, check: &Check) {
        Self::show(&format!("{} {}", check.id, check.outcome.word()));
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        Self::show("");
    }
}

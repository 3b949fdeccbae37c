//! `fencepost claim`: shuts every older token out of a scope.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fencepost::client::Location;
use fencepost::fence::Token;

use super::remote::{self, ProxyFlags, after, print_json};
use super::{Failure, print};

pub(crate) const HELP: &str = "\
Examples:
  fencepost claim s3://warehouse/tables/orders/ --token 42
  fencepost claim s3://warehouse/state --token \"$FENCE_TOKEN\" --wait 30s

Once it has returned, no write with a lower token takes effect in the scope, through whichever
proxy it comes and however late. So the state that is read afterwards is the last one of the holder
before. It may be repeated.";

/// Flags of `claim`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClaimFlags {
    /// The scope: s3://BUCKET/KEY, or s3://BUCKET/PREFIX/ for a prefix
    #[arg(value_name = "S3-URL", value_parser = remote::location())]
    location: Location,
    /// The fencing token that the lock came with
    #[arg(long, value_name = "N", value_parser = remote::token)]
    token: Token,
    /// How long to wait for older writes that are on their way
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = remote::duration)]
    wait: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    proxy: ProxyFlags,
}

/// Claims.
pub(crate) async fn run(flags: ClaimFlags) -> Result<ExitCode, Failure> {
    let until = after(flags.wait);
    let proxy = flags.proxy.connect().await?;
    let claimed = proxy.client.claim(&flags.location, flags.token, until).await?;
    if flags.json {
        print_json(&claimed.json);
    } else {
        print(&format!("{} is claimed with token {}\n", claimed.value.scope, claimed.value.token));
    }
    Ok(ExitCode::SUCCESS)
}

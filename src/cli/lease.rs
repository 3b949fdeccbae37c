//! `fencepost lease`: a lock whose token is the fence's own.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use fencepost::client::{Acquire, LeaseState, Location};

#[cfg(unix)]
use super::lease_run;
use super::remote::{self, PATIENCE, ProxyFlags, after, print_json};
use super::table::{columns, when};
use super::{Failure, exit, print};

/// What can be done with a lease.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum LeaseCommand {
    /// Run a command while holding a lease, with its fencing token in the environment
    #[cfg(unix)]
    #[command(after_help = lease_run::HELP)]
    Run(Box<lease_run::RunFlags>),
    /// Say who has the lease of a scope
    #[command(after_help = SHOW_HELP)]
    Show(ShowFlags),
    /// Acquire a lease, and print it as JSON; for scripts that renew and release it themselves
    #[command(after_help = ACQUIRE_HELP)]
    Acquire(AcquireFlags),
    /// Prolong a lease, and print it as JSON
    #[command(after_help = exit::HELP)]
    Renew(RenewFlags),
    /// Give a lease back
    #[command(after_help = exit::HELP)]
    Release(ReleaseFlags),
}

const SHOW_HELP: &str = "\
Examples:
  fencepost lease show s3://warehouse/tables/orders/
  fencepost lease show s3://warehouse/tables/orders/ --json | jq -r .lease.holder

Who has a lease now may have lost it when you read this: it is for people and for monitoring, not
for deciding whether to write.";

const ACQUIRE_HELP: &str = "\
Example:
  lease=$(fencepost lease acquire s3://warehouse/tables/orders/ --ttl 5m) || exit
  id=$(jq -r .id <<<\"$lease\") token=$(jq -r .token <<<\"$lease\")
  AWS_SESSION_TOKEN=fence:$token aws s3 sync out/ s3://warehouse/tables/orders/
  fencepost lease release s3://warehouse/tables/orders/ --id \"$id\"

`fencepost lease run` does all of this, and renews. A script that goes on after its lease has ended
does no harm as long as it writes with the token: the fence refuses what comes too late.";

/// Flags of `lease show`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ShowFlags {
    /// The scope: s3://BUCKET/KEY, or s3://BUCKET/PREFIX/ for a prefix
    #[arg(value_name = "S3-URL", value_parser = remote::location())]
    location: Location,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    proxy: ProxyFlags,
}

/// What `lease run` and `lease acquire` ask for.
#[derive(Args, Clone, Debug)]
pub(crate) struct LeaseFlags {
    /// The scope: s3://BUCKET/KEY, or s3://BUCKET/PREFIX/ for a prefix
    #[arg(value_name = "S3-URL", value_parser = remote::location())]
    pub(super) location: Location,
    /// How long the lease lasts unless it is renewed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = remote::ttl)]
    pub(super) ttl: Duration,
    /// How long to wait for somebody else's lease to end
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = remote::duration)]
    pub(super) wait: Duration,
    /// Who has it, for people [default: HOST:PROCESS]
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    #[command(flatten)]
    pub(super) proxy: ProxyFlags,
}

impl LeaseFlags {
    /// A request with an id of its own.
    pub(super) fn asked(&self) -> Acquire {
        Acquire::new(self.ttl.as_secs(), self.holder.clone().unwrap_or_else(this_process))
    }
}

/// Flags of `lease acquire`.
#[derive(Args, Clone, Debug)]
pub(crate) struct AcquireFlags {
    #[command(flatten)]
    lease: LeaseFlags,
}

/// Flags of `lease renew`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RenewFlags {
    /// The scope, as it was acquired
    #[arg(value_name = "S3-URL", value_parser = remote::location())]
    location: Location,
    /// The id that `lease acquire` has printed
    #[arg(long, value_name = "ID")]
    id: String,
    /// How long it lasts from now on [default: as it was acquired]
    #[arg(long, value_name = "TIME", value_parser = remote::ttl)]
    ttl: Option<Duration>,
    #[command(flatten)]
    proxy: ProxyFlags,
}

/// Flags of `lease release`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReleaseFlags {
    /// The scope, as it was acquired
    #[arg(value_name = "S3-URL", value_parser = remote::location())]
    location: Location,
    /// The id that `lease acquire` has printed
    #[arg(long, value_name = "ID")]
    id: String,
    #[command(flatten)]
    proxy: ProxyFlags,
}

/// Carries it out.
pub(crate) async fn run(command: LeaseCommand) -> Result<ExitCode, Failure> {
    match command {
        #[cfg(unix)]
        LeaseCommand::Run(flags) => lease_run::run(*flags).await,
        LeaseCommand::Show(flags) => show(flags).await,
        LeaseCommand::Acquire(flags) => acquire(flags.lease).await,
        LeaseCommand::Renew(flags) => renew(flags).await,
        LeaseCommand::Release(flags) => release(flags).await,
    }
}

async fn show(flags: ShowFlags) -> Result<ExitCode, Failure> {
    let proxy = flags.proxy.connect().await?;
    let state = proxy.client.lease_state(&flags.location, after(PATIENCE)).await?;
    if flags.json {
        print_json(&state.json);
    } else {
        print(&described(&state.value));
    }
    Ok(ExitCode::SUCCESS)
}

fn described(state: &LeaseState) -> String {
    let row = |name: &str, text: String| vec![name.to_owned(), text];
    let token = state.token.map_or_else(|| "none yet".to_owned(), |token| token.to_string());
    let mut rows = vec![row("scope", state.scope.clone()), row("highest token", token)];
    match &state.lease {
        None => rows.push(row("lease", "free".to_owned())),
        Some(lease) => {
            let state_of = if lease.expired { "was last held by" } else { "held by" };
            rows.push(row("lease", format!("{state_of} {}", lease.holder)));
            rows.push(row("  token", lease.token.to_string()));
            if let Some(acquired_at) = lease.acquired_at {
                rows.push(row("  acquired", when(acquired_at, state.store_time)));
            }
            let ends = if lease.expired { "  ended" } else { "  ends" };
            rows.push(row(ends, when(lease.expires_at, state.store_time)));
        }
    }
    columns(&rows)
}

async fn acquire(flags: LeaseFlags) -> Result<ExitCode, Failure> {
    let until = after(flags.wait);
    let proxy = flags.proxy.connect().await?;
    let acquired = proxy.client.acquire(&flags.location, &flags.asked(), until).await?;
    print_json(&acquired.grant.json);
    Ok(ExitCode::SUCCESS)
}

async fn renew(flags: RenewFlags) -> Result<ExitCode, Failure> {
    let proxy = flags.proxy.connect().await?;
    let ttl = flags.ttl.map(|ttl| ttl.as_secs());
    let until = after(PATIENCE);
    let grant = proxy.client.renew_until(&flags.location, &flags.id, ttl, until).await?;
    print_json(&grant.json);
    Ok(ExitCode::SUCCESS)
}

async fn release(flags: ReleaseFlags) -> Result<ExitCode, Failure> {
    let proxy = flags.proxy.connect().await?;
    let released = proxy.client.release(&flags.location, &flags.id, PATIENCE).await?;
    print_json(&released.json);
    Ok(ExitCode::SUCCESS)
}

/// `host:pid`.
fn this_process() -> String {
    let id = std::process::id();
    #[cfg(unix)]
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let host = "process".to_owned();
    format!("{host}:{id}")
}

#[cfg(test)]
mod tests {
    use fencepost::client::HeldLease;

    use super::*;

    #[test]
    fn a_lease_is_described_for_people() {
        let mut state = LeaseState {
            scope: "s3://b/p/*".to_owned(),
            token: Some(43),
            lease: Some(HeldLease {
                token: 43,
                holder: "h:1".to_owned(),
                acquired_at: Some(1_700_000_000),
                expires_at: 1_700_000_030,
                expired: false,
            }),
            store_time: Some(1_700_000_010),
        };
        let text = "scope          s3://b/p/*\nhighest token  43\nlease          held by h:1\n  token        \
                    43\n  acquired     2023-11-14T22:13:20Z (10 s ago)\n  ends         \
                    2023-11-14T22:13:50Z (in 20 s)\n";
        assert_eq!(described(&state), text);
        state.lease = None;
        state.token = None;
        let text = "scope          s3://b/p/*\nhighest token  none yet\nlease          free\n";
        assert_eq!(described(&state), text);
    }
}

//! `fencepost demo`: the race of a stale lock holder, without and with the proxy.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::Args;
use fencepost::config::{Environment, FenceMode};
use fencepost::demo::{self, Options, Outcome};
use fencepost::listener;

use super::{Failure, block_on};

/// Flags of `demo`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoFlags {
    /// Take the fence away, to see that the demo would notice
    #[arg(long, hide = true)]
    without_fence: bool,
}

/// Plays it. The exit code is 0 only when every outcome was the right one.
pub(crate) fn run(flags: &DemoFlags) -> Result<ExitCode, Failure> {
    let colour = io::stdout().is_terminal() && !Environment::of_process().no_color();
    // The workers are this very program, started again.
    let mut options = Options::new(std::env::current_exe()?, colour);
    if flags.without_fence {
        options.mode = FenceMode::Off;
    }
    let outcome = block_on(play(&options))?;
    Ok(if outcome.wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whatever ends the play early drops it, and with it the workers.
async fn play(options: &Options) -> Result<Outcome, Failure> {
    let stop = listener::termination()?;
    tokio::select! {
        outcome = demo::play(options, io::stdout()) => Ok(outcome?),
        () = stop => Err("the demo was ended by a signal; nothing is left running".into()),
    }
}

/// Is a worker, until its standard input ends.
pub(crate) fn work(name: &str) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(demo::work(name))?;
    Ok(ExitCode::SUCCESS)
}

//! The commands, and what they print.
//!
//! Standard output holds what a command was asked for, standard error holds log lines and what
//! went wrong. Exit codes: 0 done, 1 failed, 2 the command line or the configuration is wrong and
//! nothing was begun; those of the commands that talk to a proxy are in `exit.rs`.

mod admin;
mod check;
#[cfg(unix)]
mod child;
mod claim;
#[cfg(feature = "embedded-store")]
mod demo;
#[cfg(feature = "embedded-store")]
mod dev;
mod doctor;
mod exit;
mod explain;
mod healthcheck;
mod lease;
#[cfg(unix)]
mod lease_run;
mod policy;
mod remote;
mod serve;
mod table;

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fencepost::config::flags::{CommonFlags, DoctorFlags, ServeFlags};
use fencepost::config::{Config, Environment, Purpose, Sources};
use fencepost::telemetry;

/// Why a command failed; its sources are printed, too.
type Failure = Box<dyn Error + Send + Sync>;

#[cfg(feature = "embedded-store")]
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (with the embedded store)");
#[cfg(not(feature = "embedded-store"))]
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (without the embedded store)");

/// A fencing-enforcing proxy for S3 storage: a stale lock holder's write gets 409 and changes
/// nothing.
#[derive(Parser, Debug)]
#[command(name = "fencepost", version = VERSION)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run the proxy in front of a store
    Serve(Box<ServeFlags>),
    /// Run the proxy in front of an embedded store, to try it out or to test against
    #[cfg(feature = "embedded-store")]
    Dev(Box<dev::DevFlags>),
    /// Play the race of a stale lock holder, without and with the proxy
    #[cfg(feature = "embedded-store")]
    Demo(demo::DemoFlags),
    /// Be one of the demo's workers
    #[cfg(feature = "embedded-store")]
    #[command(name = fencepost::demo::WORKER_COMMAND, hide = true)]
    DemoWorker {
        /// The worker's name
        name: String,
    },
    /// Find out by trying which operations of a store can be fenced
    #[command(after_help = doctor::HELP)]
    Doctor(Box<DoctorFlags>),
    /// Shut every older token out of a scope
    #[command(after_help = claim::HELP)]
    Claim(Box<claim::ClaimFlags>),
    /// Locks whose tokens the proxy hands out
    Lease {
        #[command(subcommand)]
        command: lease::LeaseCommand,
    },
    /// Work on scopes without a proxy
    Scope {
        #[command(subcommand)]
        command: explain::ScopeCommand,
    },
    /// List the scopes that have a record, over the admin port
    #[command(after_help = admin::SCOPES_HELP)]
    Scopes(Box<admin::ScopesFlags>),
    /// Show what is known of a scope, over the admin port
    #[command(after_help = admin::INSPECT_HELP)]
    Inspect(Box<admin::InspectFlags>),
    /// Set the highest token of a scope, over the admin port
    #[command(after_help = admin::RESET_HELP)]
    Reset(Box<admin::ResetFlags>),
    /// Print the policies that keep other writers out of the buckets
    #[command(after_help = policy::HELP)]
    Policy(Box<policy::PolicyFlags>),
    /// Work on configuration files
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Ask a running proxy whether it is ready; exit code 0 or 1, for containers
    Healthcheck(healthcheck::HealthcheckFlags),
}

#[derive(Subcommand, Debug)]
enum ConfigCommand {
    /// Say everything that is wrong with a file
    Check {
        /// The file
        file: PathBuf,
    },
}

/// Runs the command of this process.
pub(crate) fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(flags) => serve(&flags),
        #[cfg(feature = "embedded-store")]
        Command::Dev(flags) => dev(&flags),
        #[cfg(feature = "embedded-store")]
        Command::Demo(flags) => demo::run(&flags),
        #[cfg(feature = "embedded-store")]
        Command::DemoWorker { name } => demo::work(&name),
        Command::Doctor(flags) => block_on(doctor::run(*flags)),
        Command::Claim(flags) => block_on(claim::run(*flags)),
        Command::Lease { command } => block_on(lease::run(command)),
        Command::Scope { command } => explain::run(&command),
        Command::Scopes(flags) => block_on(admin::scopes(*flags)),
        Command::Inspect(flags) => block_on(admin::inspect(*flags)),
        Command::Reset(flags) => block_on(admin::reset(*flags)),
        Command::Policy(flags) => policy::run(*flags),
        Command::Config { command: ConfigCommand::Check { file } } => check::run(&file),
        Command::Healthcheck(flags) => healthcheck::run(&flags),
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            let failure: &(dyn Error + 'static) = failure.as_ref();
            let (text, advice) = (with_sources(failure), exit::advice(failure));
            print_error(&format!("{text}\n{advice}"));
            ExitCode::from(exit::code(failure))
        }
    }
}

fn serve(flags: &ServeFlags) -> Result<ExitCode, Failure> {
    let sources = flags.sources(Environment::of_process())?;
    match configure(&flags.common, &sources, Purpose::Serve)? {
        Some(config) => run_async(serve::run(config)),
        None => Ok(ExitCode::SUCCESS),
    }
}

#[cfg(feature = "embedded-store")]
fn dev(flags: &dev::DevFlags) -> Result<ExitCode, Failure> {
    let sources = flags.common.sources(Vec::new(), Environment::of_process())?;
    match configure(&flags.common, &sources, Purpose::Other)? {
        Some(config) => run_async(dev::run(config, flags.clone())),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Loads the configuration and sets up the log; `None` when printing it was all that was asked.
fn configure(
    flags: &CommonFlags,
    sources: &Sources,
    purpose: Purpose,
) -> Result<Option<Config>, Failure> {
    let config = Config::load(sources, purpose)?;
    if flags.print_config {
        print(&config.to_toml());
        return Ok(None);
    }
    telemetry::log::init(config.log_format, config.log_level.as_str())?;
    Ok(Some(config))
}

fn run_async(command: impl Future<Output = Result<(), Failure>>) -> Result<ExitCode, Failure> {
    block_on(command)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs to the end on this thread, and what is spawned on others.
fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(command)
}

/// Writes to standard output. A reader that has gone (`… | head`) is no error.
fn print(text: &str) {
    let _gone = io::stdout().write_all(text.as_bytes());
}

/// Writes one message to standard error, with the name of the program before it.
fn print_error(message: &dyn Display) {
    let text = message.to_string();
    let mut lines = text.lines();
    let mut stderr = io::stderr().lock();
    let _gone = writeln!(stderr, "fencepost: {}", lines.next().unwrap_or_default());
    for line in lines {
        let _gone = writeln!(stderr, "           {line}");
    }
}

fn with_sources(failure: &(dyn Error + 'static)) -> String {
    let mut text = failure.to_string();
    let mut source = failure.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

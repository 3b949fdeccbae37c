//! The race of a stale lock holder, played with real processes.
//!
//! ```text
//!             this process                                      two workers
//!   ┌────────────────────────────────────┐         ┌──────────────────────────────┐
//!   │ acts ── what happens when          │ orders  │ A and B: the same program    │
//!   │   │     and what must come of it   ├────────►│ started again. They ask for  │
//!   │   ├── timeline, which is printed   │ reports │ the lock, look at their      │
//!   │   ├── lock service (a lease, and a │◄────────┤ lease, and write with the    │
//!   │   │     number that rises)         │◄────────┤ AWS SDK                      │
//!   │   └── stage: embedded store and    │  TCP    │                              │
//!   │         two proxies in front of it │◄────────┤                              │
//!   └────────────────────────────────────┘   S3    └──────────────────────────────┘
//! ```
//!
//! Nothing is pretended: the lease runs out by the clock, a paused worker is a process stopped with
//! SIGSTOP, the requests are signed and go over TCP, and the lock service knows nothing of the
//! fence. What is arranged is *when* things happen: the workers act on orders, and a request that
//! is "held in the network" is one that the embedded store has received and not yet looked at
//! ([`devstore::Effect::Hold`](crate::devstore::Effect::Hold)).
//!
//! Everything lives in memory and on free loopback ports. The workers end with this process, see
//! `process`. Neither configuration nor environment is looked at, so that the demo is the same
//! everywhere.

mod acts;
mod lock;
mod process;
mod race;
mod stage;
mod timeline;
mod wire;
mod worker;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

pub use self::worker::work;
use crate::config::FenceMode;
use crate::fence::Rules;
use crate::server::StartError;

/// The hidden command by which the program becomes a worker; its one argument is the worker's name.
pub const WORKER_COMMAND: &str = "demo-worker";

/// The longest the demo may take. It takes about ten seconds, most of them leases running out.
const PLAY_MAX: Duration = Duration::from_secs(25);

/// What the demo is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program to start as a worker: one that calls [`work`] for [`WORKER_COMMAND`].
    pub program: PathBuf,
    /// Whether the timeline is coloured.
    pub colour: bool,
    /// What a write without a token means; [`FenceMode::Off`] takes the fence away.
    #[doc(hidden)]
    pub mode: FenceMode,
    /// The rules in force. For tests that show what a rule prevents.
    #[doc(hidden)]
    pub rules: Rules,
}

impl Options {
    /// The demo as people see it.
    #[must_use]
    pub fn new(program: PathBuf, colour: bool) -> Self {
        Self { program, colour, mode: FenceMode::IfFenced, rules: Rules::ALL }
    }
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How many outcomes were looked at.
    pub checks: u32,
    /// How many of them were not the right ones.
    pub wrong: u32,
}

/// Why the demo could not be played to its end. What was wrong with an *outcome* is no error.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Something of the operating system's.
    #[error("{doing}")]
    Io {
        /// What was being done.
        doing: String,
        /// What went wrong.
        source: io::Error,
    },
    /// A proxy does not start.
    #[error("a proxy does not start")]
    Start(#[from] StartError),
    /// A worker did something that is not in the play.
    #[error("worker {name}: {what}")]
    Worker {
        /// `A` or `B`.
        name: &'static str,
        /// What it did.
        what: String,
    },
    /// What a proxy says of itself cannot be read.
    #[error("http://{address}/metrics: {what}")]
    Metrics {
        /// The admin listener.
        address: std::net::SocketAddr,
        /// What is wrong.
        what: String,
    },
    /// The lock service has gone.
    #[error("the lock service has ended")]
    Lock,
    /// A's lease ran out before A could be paused.
    #[error("A's lease ran out before A was paused; is the machine very busy?")]
    LeaseOver,
    /// The write that was to be held up was not.
    #[error("A's write was answered {0} before it could be held up")]
    NotHeld(String),
    /// It takes longer than it may.
    #[error("the demo did not end within {} s; is the machine very busy?", PLAY_MAX.as_secs())]
    TimedOut,
}

impl DemoError {
    fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |source| Self::Io { doing, source }
    }
}

/// Plays the demo, and writes what happens to `out` as it happens.
///
/// The workers are children of the calling thread's process and are killed when the future is
/// dropped. On Linux they are killed with the *thread* that polls it, too: poll it on one that
/// lives as long as the process does.
///
/// # Errors
///
/// [`DemoError`], when it could not be played to its end.
pub async fn play<W: Write + Send>(options: &Options, out: W) -> Result<Outcome, DemoError> {
    tokio::time::timeout(PLAY_MAX, acts::play(options, out))
        .await
        .unwrap_or(Err(DemoError::TimedOut))
}

/// The arguments that make the program a worker.
fn worker_arguments(name: &str) -> [OsString; 2] {
    [WORKER_COMMAND.into(), name.into()]
}

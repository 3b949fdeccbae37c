//! Soaks of whole scopes: worker processes and proxy processes that are stopped (SIGSTOP), woken and
//! killed at any moment, over the embedded store and over SeaweedFS.
//!
//! [`claims`]: whatever is stopped where, nothing with a lower token changes a key of a prefix once a
//! claim has returned; and the same harness shows it happening where every key has a fence of its
//! own. [`leases`]: contenders for one lease never get tokens, nor make writes, out of order.
//! [`throughput`]: how many writes one scope takes, and how they share swaps.
//!
//! Short unless `FENCEPOST_TEST_SOAK=full`. What was counted is printed: `-- --nocapture`.

#![cfg(all(target_os = "linux", feature = "embedded-store"))]
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

#[path = "../support/mod.rs"]
mod support;

mod claims;
mod client;
mod contender;
mod lease_judge;
mod leases;
mod process;
mod talk;
mod throughput;
mod watch;
mod writer;
mod writes;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencepost::clock;
use fencepost::config::Environment;
use tokio::sync::RwLock;

/// What is measured is measured alone; the soaks may run side by side.
static ALONE: RwLock<()> = RwLock::const_new(());

/// Proxies say where they listen, and else what goes wrong.
const LOG: &str = "log_level = \"warn,fencepost::cli=info\"\n";

/// Whether the long forms are asked for.
fn is_full() -> bool {
    match Environment::of_process().get("FENCEPOST_TEST_SOAK") {
        Some("full") => true,
        Some(other) => panic!("FENCEPOST_TEST_SOAK is {other:?}, and can be \"full\""),
        None => false,
    }
}

/// A moment that processes of one machine can compare: nanoseconds since the Unix epoch.
fn moment() -> u64 {
    nanoseconds(clock::now())
}

fn nanoseconds(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

/// A random time between two.
fn between(dice: &mut support::Generator, min_ms: usize, max_ms: usize) -> Duration {
    Duration::from_millis((min_ms + dice.below(max_ms - min_ms)) as u64)
}

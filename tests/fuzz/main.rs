//! Everything that reads what a client sends, held to its properties on made-up input.
//!
//! Inputs are random bytes and, more often, valid ones that have been damaged (`inputs.rs`). Seeds
//! are the same in every run, and what fails is shown with its seed and its input;
//! `FENCEPOST_TEST_FUZZ_SECONDS` makes every test go on with further seeds for so long.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

#[path = "../support/mod.rs"]
mod support;

mod chunked;
mod documents;
mod forms;
mod heads;
mod inputs;
mod ledger;
mod targets;
mod tokens;

use std::fmt::Debug;
use std::time::Duration;

use fencepost::clock;
use fencepost::config::Environment;
use support::Generator;

/// How many inputs are tried when nobody says how long.
const CASES: u64 = 20_000;

/// Tries a property on made-up inputs, so many of them, and on until the time is up.
fn hold<T: Debug>(cases: u64, input: impl Fn(&mut Generator) -> T, property: impl Fn(&T)) {
    let seconds = Environment::of_process().get("FENCEPOST_TEST_FUZZ_SECONDS").map(str::to_owned);
    let budget = Duration::from_secs(seconds.map_or(0, |text| text.parse().unwrap()));
    let began = clock::monotonic();
    let mut seed = 0;
    while seed < cases || began.elapsed() < budget {
        let shown = Shown(seed, input(&mut Generator(seed)));
        property(&shown.1);
        seed += 1;
    }
    println!("{seed} inputs");
}

/// An input that is printed when its property does not hold.
struct Shown<T: Debug>(u64, T);

impl<T: Debug> Drop for Shown<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("seed {}: {:?}", self.0, self.1);
        }
    }
}

//! PUT and DELETE through the proxy, over TCP: rules F1–F13 end to end.
//!
//! The proxy, the store and the clients run in one process; the store's faults park, lose and
//! refuse requests, its clock can be moved, and its history says what really happened.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../support/mod.rs"]
mod support;

/// A test over each of the real stores that may be beside it, in the backend's own buckets.
macro_rules! on_real_stores {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            use crate::support::Backend;

            #[tokio::test]
            async fn on_seaweedfs() {
                let Some(backend) = Backend::seaweedfs().await else { return };
                super::$test(&backend).await;
            }

            #[tokio::test]
            async fn on_ministack() {
                let Some(backend) = Backend::ministack().await else { return };
                super::$test(&backend).await;
            }

            #[tokio::test]
            async fn on_ceph() {
                let Some(backend) = Backend::ceph().await else { return };
                super::$test(&backend).await;
            }
        }
    )+};
}

mod aba;
mod administration;
mod basics;
mod concurrency;
mod conditions;
mod copies;
mod cost;
mod crash;
mod exclusive;
mod large;
mod leases;
mod ledger_down;
mod lifecycle;
mod many;
mod off;
mod outcomes;
mod post_object;
mod real;
mod scopes;
mod table;
mod touches;
mod unfenced;
mod unsupported;
mod uploads;

use fencepost::devstore::{Change, ChangeKind, Effect, Profile, Rule};
use http::Method;
use support::{Backend, DATA};

/// The data bucket's tags never repeat.
const UNIQUE: &str = "[[bucket]]\nname = \"data\"\ntags = \"unique\"\n";

/// The store speaks Google's dialect.
const GCS: &str = "backend.dialect = \"gcs\"\n";

/// Whether tags never repeat under this setting.
fn is_unique(regime: &str) -> bool {
    [UNIQUE, GCS].contains(&regime)
}

/// Every store that a proxy starts in front of, with the setting that goes with it.
const REGIMES: [(Profile, &str); 5] = [
    (Profile::Aws, ""),
    (Profile::AwsKms, UNIQUE),
    // The safe assumption holds there as well.
    (Profile::AwsKms, ""),
    (Profile::Minio, ""),
    // Generations: every bucket's tags are unique.
    (Profile::Gcs, GCS),
];

/// Waits for nobody, and withdraws nothing by itself: for a proxy that is alone, or new.
const AT_ONCE: &str =
    "fence.contention_wait_seconds_max = 0\nfence.settle_delay_milliseconds = 60000\n";

/// Waits long enough, and withdraws nothing by itself.
const PATIENT: &str = "fence.settle_delay_milliseconds = 60000\n";

/// Refuses soon, and withdraws nothing by itself.
const IMPATIENT: &str =
    "fence.contention_wait_seconds_max = 1\nfence.settle_delay_milliseconds = 60000\n";

/// Refuses soon, and withdraws at once.
const TIDY: &str = "fence.contention_wait_seconds_max = 1\nfence.settle_delay_milliseconds = 0\n";

/// Runs a test on every one of them at the same time: most of it is waiting.
async fn on_every_store(test: impl AsyncFn(Profile, &'static str)) {
    futures_util::future::join_all(REGIMES.map(|(profile, settings)| test(profile, settings)))
        .await;
}

/// A fault that strikes the next write of this kind to a data object.
fn on_data(effect: Effect, method: Method) -> Rule {
    Rule::new(effect).method(method).bucket(DATA)
}

/// The token stamped on what a PUT wrote.
fn stamped(change: &Change) -> Option<u64> {
    change.metadata.get("fencepost-token").map(|token| token.parse().unwrap())
}

/// The tokens of a key's PUTs, in the order in which the store made them.
fn tokens(backend: &Backend, key: &str) -> Vec<u64> {
    let puts = backend.history(key).into_iter().filter(|change| change.kind == ChangeKind::Put);
    puts.map(|change| stamped(&change).unwrap_or_default()).collect()
}

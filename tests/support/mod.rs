//! What the Rust tests share: a store, proxies in front of it in the same process, and clients.
//!
//! Everything goes over real TCP on loopback, on ports that the system picks. [`Backend`] is the
//! store: embedded, with its faults and its history, or the SeaweedFS that
//! `tests/support/seaweedfs.py` starts. [`Proxy`] is one `fencepost::server::Server`. [`S3`] signs
//! requests itself (with aws-sigv4, not with the code under test) and sends them as they are, so
//! that a test sees every status, header and byte; [`Backend::sdk`] is the client that users have.

#![allow(dead_code, unused_imports, reason = "every test crate uses its own part of this")]
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod authority;
mod backend;
mod detour;
mod form;
mod proxy;
mod random;
mod real_stores;
pub(crate) mod s3;
mod scripted;
mod streaming;

pub(crate) use authority::Authority;
pub(crate) use backend::{Backend, DATA, LEDGER};
pub(crate) use detour::Detour;
pub(crate) use form::Form;
pub(crate) use proxy::Proxy;
pub(crate) use random::Generator;
pub(crate) use real_stores::hammer_seconds;
pub(crate) use s3::{Answer, OutBody, Payload, S3};
pub(crate) use scripted::{Caller, Received, Scripted, Wire, header};
pub(crate) use streaming::{Feed, feed, signed_chunks, unsigned_chunks_with_crc32};

use std::time::Duration;

/// Long enough for any machine, short enough to end a test that hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for something that has to happen, and not for ever.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: nothing within {} s", PATIENCE.as_secs()),
    }
}

/// Asks again and again until the answer is yes.
pub(crate) async fn until(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    soon(what, async {
        while !ask().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

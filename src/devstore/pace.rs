//! The limit on writes of one key, for profiles that have one.

use super::profile::TooFast;
use crate::clock;
use s3s::S3Result;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many keys are remembered before those whose time is up are forgotten.
const KEYS_REMEMBERED: usize = 10_000;

/// When keys were last written.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    too_fast: TooFast,
    written: Mutex<HashMap<(String, String), Instant>>,
}

impl Pace {
    /// At most one write of a key in every `interval`; zero for no limit.
    pub(super) fn new(interval: Duration, too_fast: TooFast) -> Self {
        Self { interval, too_fast, written: Mutex::default() }
    }

    /// Whether a write of a key may be made now.
    ///
    /// # Errors
    ///
    /// What the store calls this.
    pub(super) fn admit(&self, bucket: &str, key: &str) -> S3Result<()> {
        if self.interval.is_zero() {
            return Ok(());
        }
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        match written.get(&(bucket.to_owned(), key.to_owned())) {
            Some(at) if at.elapsed() < self.interval => Err(self.too_fast.error()),
            Some(_) | None => Ok(()),
        }
    }

    /// That a key has been written now.
    pub(super) fn note(&self, bucket: &str, key: &str) {
        if self.interval.is_zero() {
            return;
        }
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.len() >= KEYS_REMEMBERED {
            written.retain(|_, at| at.elapsed() < self.interval);
        }
        written.insert((bucket.to_owned(), key.to_owned()), clock::monotonic());
    }
}

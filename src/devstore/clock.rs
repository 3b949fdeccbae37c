//! The store's clock: the machine's, shifted by a test.
//!
//! It stamps `Date`, `Last-Modified` and the history, and judges the age of signatures. It does not
//! drive time-outs; those are durations.

use crate::clock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

/// A wall clock with an offset that can be changed while the store runs.
#[derive(Debug, Default)]
pub(super) struct StoreClock {
    offset_ms: AtomicI64,
}

impl StoreClock {
    pub(super) fn new(offset_ms: i64) -> Self {
        Self { offset_ms: AtomicI64::new(offset_ms) }
    }

    pub(super) fn set_offset_ms(&self, offset_ms: i64) {
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }

    /// The time as the store sees it.
    pub(super) fn now(&self) -> SystemTime {
        let offset_ms = self.offset_ms.load(Ordering::Relaxed);
        let offset = Duration::from_millis(offset_ms.unsigned_abs());
        let now = clock::now();
        let shifted = if offset_ms < 0 { now.checked_sub(offset) } else { now.checked_add(offset) };
        shifted.unwrap_or(now)
    }
}

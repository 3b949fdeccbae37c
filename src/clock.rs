//! The one home of time and randomness.
//!
//! Everything else is handed a time or an id, so that it can be tested, modelled and replayed.
//! This module does *not* judge whether an intent has expired: that is done with the store's own
//! clock, never with this one (F9).

use std::time::{Instant, SystemTime};

/// The wall clock.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one caller")]
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// The monotonic clock, for durations.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one caller")]
pub fn monotonic() -> Instant {
    Instant::now()
}

/// 128 random bits from the operating system.
///
/// # Panics
///
/// When the operating system has no randomness to give; nothing can be fenced without it.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one caller")]
pub fn random_u128() -> u128 {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).expect("the operating system provides randomness");
    u128::from_le_bytes(bytes)
}

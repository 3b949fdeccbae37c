//! Pauses between repetitions, and for how long there are any.

use std::time::{Duration, Instant};

use super::{ClientError, Code};
use crate::clock;

/// The first pause is somewhere below this, and the bound doubles with each.
const PAUSE_FIRST: Duration = Duration::from_millis(200);

/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// Which failures a request may be sent again after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// After any that may pass: done twice it is the same as done once.
    Always,
    /// After those that certainly changed nothing.
    Unchanged,
}

/// Pauses that grow, each drawn anew, so that clients which failed together do not come back
/// together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    bound: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { bound: PAUSE_FIRST }
    }

    /// The next pause: between half of the bound and the bound.
    pub(super) fn next(&mut self) -> Duration {
        let bound = self.bound;
        self.bound = (bound * 2).min(PAUSE_MAX);
        let fraction = clock::random_u128() % 1000;
        let fraction = u32::try_from(fraction).expect("a remainder of 1000 is below it");
        bound / 2 + bound * fraction / 2000
    }
}

/// Calls `attempt` until it succeeds, until what it fails with is final, or until `until`. It is
/// called once at least.
pub(super) async fn repeated<T>(
    repeat: Repeat,
    until: Instant,
    mut attempt: impl AsyncFnMut() -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let mut backoff = Backoff::new();
    loop {
        let error = match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let left = until.saturating_duration_since(clock::monotonic());
        if left.is_zero() || !error.may_be_repeated(repeat) {
            return Err(error);
        }
        if matches!(error.code(), Some(Code::LeaseHeld | Code::Barrier)) {
            // The proxy has waited already, and is well.
            backoff = Backoff::new();
        }
        tokio::time::sleep(backoff.next().min(left)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_stay_below_their_bound() {
        let mut backoff = Backoff::new();
        let mut bound = PAUSE_FIRST;
        for _ in 0..10 {
            let pause = backoff.next();
            assert!(pause >= bound / 2 && pause <= bound, "{pause:?} of {bound:?}");
            bound = (bound * 2).min(PAUSE_MAX);
        }
        assert_eq!(bound, PAUSE_MAX);
    }

    #[tokio::test]
    async fn a_failure_is_repeated_until_the_time_is_up() {
        let unreachable = || ClientError::Unreachable { url: String::new(), reason: String::new() };
        let until = clock::monotonic() + Duration::from_secs(5);
        let mut calls = 0;
        let answer = repeated(Repeat::Unchanged, until, async || {
            calls += 1;
            if calls < 3 { Err(unreachable()) } else { Ok(calls) }
        });
        assert_eq!(answer.await, Ok(3));

        let mut calls = 0;
        let failed: Result<(), _> = repeated(Repeat::Always, clock::monotonic(), async || {
            calls += 1;
            Err(unreachable())
        })
        .await;
        assert_eq!((failed, calls), (Err(unreachable()), 1), "no time, one attempt");
    }
}

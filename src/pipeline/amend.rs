//! Changes of a record that no operation on an object asks for: leases, and resets by hand.

use std::time::Duration;

use super::Proxy;
use super::driver::jittered;
use super::scopes::Slot;
use crate::fence::{Record, Snapshot, Swap};
use crate::ledger::{Scope, SwapOutcome};

/// The pause after a lost swap.
const PAUSE: Duration = Duration::from_millis(20);

/// How long it waits for the proxy's own operations at least.
const PATIENCE_MIN: Duration = Duration::from_secs(5);

/// Why a record was not changed.
#[derive(Debug)]
pub(super) enum NotAmended<E> {
    /// It must not be.
    No(E),
    /// The ledger could not be asked, or its answer was lost.
    Unavailable,
    /// Others were faster, time and again.
    LostRaces,
}

impl Proxy {
    /// Loads the record and replaces it by what `change` makes of it, if anything.
    ///
    /// # Errors
    ///
    /// What `change` says, or that the record could not be swapped.
    pub(super) async fn amend<T: Send, E: Send>(
        &self,
        scope: &Scope,
        slot: &Slot,
        change: impl Fn(&Snapshot) -> Result<(Option<Record>, T), E> + Send + Sync,
    ) -> Result<T, NotAmended<E>> {
        let patience = self.0.settings.contention_wait_max.max(PATIENCE_MIN);
        for round in 0..=self.0.settings.protocol.rounds_max {
            if round > 0 {
                tokio::time::sleep(jittered(PAUSE)).await;
            }
            let amended = if scope.holds_many() {
                let many = slot.many();
                let turn = tokio::time::timeout(patience, many.turn.lock()).await;
                let Ok(_turn) = turn else { return Err(NotAmended::LostRaces) };
                let (amended, now) = self.amend_once(scope, slot, &change).await?;
                many.with_memory(|memory| memory.follow(now));
                amended
            } else {
                // A write may hold the place for as long as the store takes; the swap alone decides,
                // and the write will have guessed wrong.
                let (amended, now) = self.amend_once(scope, slot, &change).await?;
                if let Ok(mut memory) = slot.memory.try_lock() {
                    memory.follow(now);
                }
                amended
            };
            if let Some(result) = amended {
                return Ok(result);
            }
        }
        Err(NotAmended::LostRaces)
    }

    /// One try; without a result when the swap was lost. With the record as it is now, if known.
    async fn amend_once<T: Send, E: Send>(
        &self,
        scope: &Scope,
        slot: &Slot,
        change: &(impl Fn(&Snapshot) -> Result<(Option<Record>, T), E> + Send + Sync),
    ) -> Result<(Option<T>, Option<Snapshot>), NotAmended<E>> {
        let snapshot = self.load(scope).await.map_err(|_| NotAmended::Unavailable)?;
        slot.note(&snapshot);
        let (next, result) = change(&snapshot).map_err(NotAmended::No)?;
        let Some(next) = next else { return Ok((Some(result), Some(snapshot))) };
        let swap = Swap { base: snapshot.version, next };
        match self.swap(scope, &swap).await {
            Ok(SwapOutcome::Swapped(version)) => {
                let now = Snapshot { record: Some(swap.next), version, time: snapshot.time };
                slot.note(&now);
                Ok((Some(result), Some(now)))
            }
            Ok(SwapOutcome::Lost) => Ok((None, None)),
            Err(_) => Err(NotAmended::Unavailable),
        }
    }
}

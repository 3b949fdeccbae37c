//! Taking settled intents out of the record (F6).
//!
//! It is done a little later, so that the next write's swap can carry it along, and at the latest
//! when the proxy stops. If it is not done at all the intent stays until it expires (F9).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Proxy;
use super::scopes::Slot;
use crate::fence::Memory;
use crate::ledger::{Scope, SwapOutcome};

/// How often one withdrawal begins anew when others change the record at the same time.
const ROUNDS_MAX: u32 = 4;

/// How long the end of the process waits for a ledger that does not answer.
const SETTLE_ALL_MAX: Duration = Duration::from_secs(10);

impl Proxy {
    /// Sees to it that the scope's settled intents are withdrawn soon.
    pub(super) fn settle_later(&self, scope: &Scope, slot: &Arc<Slot>) {
        if slot.settling.swap(true, Ordering::AcqRel) {
            return;
        }
        let (proxy, scope, slot) = (self.clone(), scope.clone(), Arc::clone(slot));
        tokio::spawn(async move {
            tokio::time::sleep(proxy.0.settings.settle_delay).await;
            slot.settling.store(false, Ordering::Release);
            proxy.withdraw(&scope, &slot).await;
        });
    }

    /// The same for what an operation has settled that did not get the place in its scope.
    pub(super) fn settle_when_free(&self, scope: &Scope, slot: &Arc<Slot>, settled: Memory) {
        let (proxy, scope, slot) = (self.clone(), scope.clone(), Arc::clone(slot));
        tokio::spawn(async move {
            slot.memory.lock().await.absorb(&settled);
            proxy.settle_later(&scope, &slot);
        });
    }

    /// Withdraws everything that is settled, as far as it can be done soon. For the end of the
    /// process.
    pub async fn settle_all(&self) {
        let all = async {
            for (scope, slot) in self.0.scopes.all() {
                self.withdraw(&scope, &slot).await;
            }
        };
        if tokio::time::timeout(SETTLE_ALL_MAX, all).await.is_err() {
            tracing::warn!("some settled intents stay in the ledger until they expire");
        }
    }

    async fn withdraw(&self, scope: &Scope, slot: &Slot) {
        if scope.holds_many() {
            return self.withdraw_shared(scope, slot).await;
        }
        let mut memory = slot.memory.lock().await;
        for _ in 0..ROUNDS_MAX {
            if !memory.owes_withdrawal() {
                return;
            }
            let Some(swap) = memory.withdrawal() else {
                match self.load(scope).await {
                    Ok(snapshot) => memory.loaded(snapshot),
                    Err(_) => return,
                }
                if memory.withdrawal().is_none() {
                    memory.withdrawn();
                    return;
                }
                continue;
            };
            match self.swap(scope, &swap).await {
                Ok(SwapOutcome::Swapped(version)) => memory.swapped(swap.next, version),
                Ok(SwapOutcome::Lost) => memory.forget_record(),
                Err(_) => {
                    memory.forget_record();
                    return;
                }
            }
        }
    }

    /// The same in a scope of many keys, where others go on meanwhile: what they settle, a later
    /// swap takes out.
    async fn withdraw_shared(&self, scope: &Scope, slot: &Slot) {
        let many = slot.many();
        let _turn = many.turn.lock().await;
        for _ in 0..ROUNDS_MAX {
            let (owes, swap) =
                many.with_memory(|memory| (memory.owes_withdrawal(), memory.withdrawal()));
            if !owes {
                return;
            }
            let Some(swap) = swap else {
                let Ok(snapshot) = self.load_shared(scope, slot).await else { return };
                let nothing_left = many.with_memory(|memory| {
                    memory.drop_withdrawn(&snapshot);
                    memory.withdrawal().is_none()
                });
                if nothing_left {
                    return;
                }
                continue;
            };
            let swapped = self.swap(scope, &swap).await;
            many.with_memory(|memory| match &swapped {
                Ok(SwapOutcome::Swapped(version)) => memory.swapped(swap.next, version.clone()),
                Ok(SwapOutcome::Lost) | Err(_) => memory.forget_record(),
            });
            if swapped.is_err() {
                return;
            }
        }
    }
}

//! Group commit: writes that arrive together in a scope of many keys share one compare-and-swap.
//!
//! Whoever has the turn takes in all that wait and swaps once for them; meanwhile the next ones
//! gather. Who enters, and what the record becomes, is decided by [`Attempt::join`].

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Proxy;
use super::driver::jittered;
use super::scopes::{Many, Slot};
use crate::fence::{Attempt, Outcome, Snapshot, Swap};
use crate::ledger::{LedgerUnavailable, Scope, SwapOutcome};

/// The pause after a lost swap.
const PAUSE: Duration = Duration::from_millis(20);

/// An operation that waits for its swap.
#[derive(Debug)]
pub(super) struct Ticket {
    attempt: Attempt,
    reply: oneshot::Sender<(Attempt, Outcome)>,
}

impl Proxy {
    /// Enters the operation together with whoever else waits. `None`: whoever swapped for it has
    /// come to grief.
    pub(super) async fn swap_together(
        &self,
        scope: &Scope,
        slot: &Arc<Slot>,
        attempt: Attempt,
    ) -> Option<(Attempt, Outcome)> {
        let (reply, answer) = oneshot::channel();
        if slot.many().wait(Ticket { attempt, reply }) {
            let (proxy, scope, slot) = (self.clone(), scope.clone(), Arc::clone(slot));
            // A task of its own: the others must not suffer when this request's client goes away.
            tokio::spawn(async move { proxy.commit_all(&scope, &slot).await });
        }
        answer.await.ok()
    }

    /// Swaps for those who wait until nobody does. Between two swaps the turn is free, so that what
    /// is exclusive, and leases, come in between.
    async fn commit_all(&self, scope: &Scope, slot: &Arc<Slot>) {
        let many = slot.many();
        let _serving = many.serving();
        loop {
            let _turn = many.turn.lock().await;
            let Some(waiting) = many.all_waiting() else { return };
            self.commit(scope, slot, waiting).await;
        }
    }

    /// Swaps the record once for all of them, beginning anew where another proxy was faster.
    async fn commit(&self, scope: &Scope, slot: &Arc<Slot>, mut waiting: Vec<Ticket>) {
        let many = slot.many();
        let mut remembered = many.remembered();
        for _ in 0..=self.0.settings.protocol.rounds_max {
            let fresh = remembered.is_none();
            let loaded = match remembered.take() {
                Some(snapshot) => Ok(snapshot),
                None => self.load_shared(scope, slot).await,
            };
            let Ok(snapshot) = loaded else {
                return answer_all(self, scope, slot, waiting, &Outcome::LedgerFailed);
            };
            let (next, joined, left) = fold(many, &snapshot, waiting);
            if !fresh && (!left.is_empty() || next == snapshot) {
                // A remembered record admits nobody, and is no ground for turning anybody away.
                waiting = joined.into_iter().chain(left).collect();
                continue;
            }
            answer_all(self, scope, slot, left, &Outcome::Loaded(snapshot.clone()));
            if joined.is_empty() || next == snapshot {
                return answer_all(self, scope, slot, joined, &Outcome::SwappedTogether(snapshot));
            }
            let Some(record) = next.record.clone() else { return };
            let swap = Swap { base: snapshot.version, next: record };
            match self.swap(scope, &swap).await {
                Ok(SwapOutcome::Swapped(version)) => {
                    let now = Snapshot { version: version.clone(), ..next };
                    slot.note(&now);
                    many.with_memory(|memory| memory.swapped(swap.next, version));
                    self.0.metrics.group_committed(joined.len());
                    return answer_all(self, scope, slot, joined, &Outcome::SwappedTogether(now));
                }
                Ok(SwapOutcome::Lost) => {
                    many.with_memory(crate::fence::Memory::forget_record);
                    waiting = joined;
                    tokio::time::sleep(jittered(PAUSE)).await;
                }
                Err(_) => {
                    many.with_memory(crate::fence::Memory::forget_record);
                    return answer_all(self, scope, slot, joined, &Outcome::LedgerFailed);
                }
            }
        }
        answer_all(self, scope, slot, waiting, &Outcome::SwapLost);
    }

    /// Loads the record for all that share the scope.
    pub(super) async fn load_shared(
        &self,
        scope: &Scope,
        slot: &Slot,
    ) -> Result<Snapshot, LedgerUnavailable> {
        let snapshot = self.load(scope).await?;
        slot.note(&snapshot);
        slot.many().loaded(snapshot.clone());
        Ok(snapshot)
    }
}

/// The record as all that can enter would leave it; those, and the others.
fn fold(
    many: &Many,
    snapshot: &Snapshot,
    waiting: Vec<Ticket>,
) -> (Snapshot, Vec<Ticket>, Vec<Ticket>) {
    let mut next = many.with_memory(|memory| memory.without_settled(snapshot));
    let (mut joined, mut left) = (Vec::new(), Vec::new());
    for mut ticket in waiting {
        match ticket.attempt.join(&next) {
            Some(record) => {
                next.record = Some(record);
                joined.push(ticket);
            }
            None => left.push(ticket),
        }
    }
    (next, joined, left)
}

fn answer_all(
    proxy: &Proxy,
    scope: &Scope,
    slot: &Arc<Slot>,
    tickets: Vec<Ticket>,
    outcome: &Outcome,
) {
    for Ticket { attempt, reply } in tickets {
        let Err((mut attempt, _)) = reply.send((attempt, outcome.clone())) else { continue };
        // Its client has gone away; what it has registered is never sent.
        attempt.abandon();
        let memory = attempt.into_memory();
        slot.many().with_memory(|shared| shared.absorb(&memory));
        proxy.settle_later(scope, slot);
    }
}

//! F5: the operation goes on when every open intent with a lower token in the scope is dead.
//!
//! No lower intent can come any more, because the operation's token is in the record. Each key is
//! looked at once: where no lower intent expects the tag that is there, none ever takes effect,
//! because whatever changes the tag from now on avoids those that they expect (F4), and lower
//! operations are not admitted. So the keys need not be looked at in the same moment, and what was
//! found holds for good.
//!
//! It is passed *before* the operation's own request is sent, so that nothing has changed when it
//! cannot be.

use super::super::admission::{self, Refusal};
use super::super::effect::{Effect, Outcome, Verdict};
use super::super::memory::Cleared;
use super::super::permit::Terms;
use super::super::{Change, Contention, Intent, KeyId, Snapshot, Tag};
use super::{After, Attempt, Phase};

/// What comes after the barrier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Then {
    Send(Terms),
    Finish(Verdict),
}

impl Attempt {
    /// Goes on if nothing lower is open, by the record as the operation has entered it.
    pub(super) fn barrier(&mut self, then: Then) -> Effect {
        let Some(snapshot) = &self.memory.snapshot else { return self.reload(then) };
        if self.memory.has_cleared(self.operation.token, snapshot.resets()) {
            return self.pass(then);
        }
        let lower = admission::lower_elsewhere(
            &self.protocol,
            &self.operation,
            snapshot,
            &self.memory.settled,
        );
        let mut keys: Vec<KeyId> = lower.map(|intent| intent.key.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return self.cleared(then);
        }
        self.phase = Phase::Looking(then);
        Effect::Look(keys)
    }

    pub(super) fn advance_looking(&mut self, then: Then, outcome: Outcome) -> Effect {
        if let Outcome::Looked(found) = outcome {
            return self.looked(then, &found);
        }
        if outcome == Outcome::ObserveFailed {
            return self.give_up(&then, Verdict::Unavailable);
        }
        self.broken()
    }

    pub(super) fn advance_reloading(&mut self, then: Then, outcome: Outcome) -> Effect {
        if let Outcome::Loaded(snapshot) = outcome {
            return self.reloaded(then, snapshot);
        }
        if outcome == Outcome::LedgerFailed {
            return self.give_up(&then, Verdict::Unavailable);
        }
        self.broken()
    }

    pub(super) fn advance_barred(&mut self, then: Then, outcome: &Outcome) -> Effect {
        if *outcome == Outcome::Paused {
            return self.reload(then);
        }
        if *outcome == Outcome::OutOfPatience {
            let barred = std::mem::take(&mut self.barred);
            return self.give_up(&then, Verdict::Barred(barred));
        }
        self.broken()
    }

    /// The keys of the lower intents were looked at.
    fn looked(&mut self, then: Then, found: &[(KeyId, Tag)]) -> Effect {
        let Some(snapshot) = &self.memory.snapshot else { return self.reload(then) };
        let may_land = |intent: &&Intent| {
            let mut tags = found.iter().filter(|(key, _)| *key == intent.key).map(|(_, tag)| tag);
            tags.next().is_none_or(|tag| intent.takes_effect_on(tag))
        };
        self.barred = admission::lower_elsewhere(
            &self.protocol,
            &self.operation,
            snapshot,
            &self.memory.settled,
        )
        .filter(may_land)
        .cloned()
        .collect();
        if self.barred.is_empty() {
            return self.cleared(then);
        }
        self.pause(After::Barrier(then), Contention::LowerOpen)
    }

    fn reload(&mut self, then: Then) -> Effect {
        self.phase = Phase::Reloading(then);
        Effect::Load
    }

    /// The record has been loaded anew after a wait. A newer token may have come.
    fn reloaded(&mut self, then: Then, snapshot: Snapshot) -> Effect {
        let refusal = admission::refusing(&self.protocol, &snapshot, &self.operation);
        let resets = self.memory.snapshot.as_ref().map_or(0, Snapshot::resets);
        let reset = snapshot.resets() != resets;
        self.memory.loaded(snapshot);
        match refusal {
            // A person has set the record back: what the operation has entered is not there any more.
            None if reset => {
                self.never_sent(&then);
                self.start_over()
            }
            None => self.barrier(then),
            Some(refusal) => {
                self.never_sent(&then);
                self.refuse(refusal)
            }
        }
    }

    /// What the barrier stood before does not happen; nothing was sent.
    fn give_up(&mut self, then: &Then, verdict: Verdict) -> Effect {
        self.never_sent(then);
        self.finish(verdict)
    }

    pub(super) fn refuse(&mut self, refusal: Refusal) -> Effect {
        self.finish(refusal.into())
    }

    fn never_sent(&mut self, then: &Then) {
        match then {
            Then::Send(Terms { intent: Some(id), .. }) => self.memory.settle(*id),
            Then::Send(Terms { intent: None, .. }) | Then::Finish(_) => {}
        }
    }

    fn cleared(&mut self, then: Then) -> Effect {
        let lower_here = |intent: &Intent| {
            intent.key == self.operation.key && intent.token < self.operation.token
        };
        let all_keys = self.operation.change == Change::Claim
            || self.memory.snapshot.as_ref().is_some_and(|snapshot| {
                !admission::open(snapshot, &self.memory.settled).any(lower_here)
            });
        if all_keys {
            self.remember_cleared();
        }
        self.pass(then)
    }

    /// Every key has been looked at, the operation's own included, or it has changed that itself.
    pub(super) fn remember_cleared(&mut self) {
        if let Some(snapshot) = &self.memory.snapshot {
            let cleared = Cleared { resets: snapshot.resets(), token: self.operation.token };
            self.memory.cleared = self.memory.cleared.max(Some(cleared));
        }
    }

    fn pass(&mut self, then: Then) -> Effect {
        match then {
            Then::Send(terms) => self.send(terms),
            Then::Finish(verdict) => self.finish(verdict),
        }
    }
}

//! Entering together: operations of one proxy that wait for their swap of one scope's record share
//! it (group commit).
//!
//! Each is admitted by the record as the one before it would leave it, and one compare-and-swap
//! registers them all. If it is lost, none has entered.

use super::super::admission::{self, Admission, Entry};
use super::super::effect::{Effect, Outcome};
use super::super::permit::Terms;
use super::super::{Keys, Record, Snapshot, Swap};
use super::{Attempt, Phase};

impl Attempt {
    /// Whether the operation waits for a swap that it may share. What is exclusive may not: it
    /// has looked at its object under the very record that it swaps.
    #[must_use]
    pub fn may_join(&self) -> bool {
        let waits = matches!(self.phase, Phase::Swapping(..));
        waits && self.protocol.keys == Keys::Many && !self.is_exclusive()
    }

    /// What `record` becomes when the operation enters it, which may be what it is. `None`: it does
    /// not enter by this record. To be asked only of one that [may join](Self::may_join).
    ///
    /// `snapshot` is the record as the ledger has it, or as those that enter before would leave it.
    pub fn join(&mut self, snapshot: &Snapshot) -> Option<Record> {
        let Phase::Swapping(_, terms) = &self.phase else { return None };
        // A stream was seen alive when its own record was loaded, which may be later.
        let own = self.memory.snapshot.as_ref().and_then(|own| own.time);
        let snapshot = Snapshot { time: snapshot.time.max(own), ..snapshot.clone() };
        let (next, terms) = match terms {
            None => {
                let (protocol, settled) = (&self.protocol, &self.memory.settled);
                match admission::enter(protocol, &self.operation, &snapshot, settled) {
                    Entry::Refused(_) => return None,
                    Entry::Clear(next) => (next.or_else(|| snapshot.record.clone())?, None),
                }
            }
            Some(terms) => {
                let expects = terms.expects.clone();
                match self.admission(&expects, &snapshot) {
                    Admission::Clear { next: Some(next), terms } => (next, Some(terms)),
                    Admission::Clear { next: None, .. }
                    | Admission::Refused(_)
                    | Admission::Contended(_) => return None,
                }
            }
        };
        let swap = Swap { base: snapshot.version, next: next.clone() };
        self.phase = Phase::Swapping(swap, terms);
        Some(next)
    }

    /// The operation gives up while it waits for its swap: what it would have sent is never sent.
    pub fn abandon(&mut self) {
        // The swap may be one whose answer was lost.
        self.memory.doubted = true;
        if let Phase::Swapping(_, Some(Terms { intent: Some(id), .. })) = &self.phase {
            let id = *id;
            self.memory.settle(id);
        }
    }

    /// What has come of the swap.
    pub(super) fn advance_swapping(
        &mut self,
        swap: Swap,
        terms: Option<Terms>,
        outcome: Outcome,
    ) -> Effect {
        if let Outcome::Swapped(version) = outcome {
            return self.swapped(swap, terms, version);
        }
        if let Outcome::SwappedTogether(snapshot) = outcome {
            return self.swapped_together(terms, snapshot);
        }
        if let Outcome::Loaded(snapshot) = outcome {
            // It could not enter with the others: by the newest record, it may not at all.
            self.memory.loaded(snapshot);
            self.record_fresh = true;
            return self.proceed();
        }
        if outcome == Outcome::SwapLost {
            return self.swap_lost();
        }
        if outcome == Outcome::LedgerFailed {
            return self.swap_failed(terms);
        }
        self.broken()
    }

    /// The ledger took the record of the whole group.
    fn swapped_together(&mut self, terms: Option<Terms>, snapshot: Snapshot) -> Effect {
        if let Some(record) = snapshot.record {
            self.memory.swapped(record, snapshot.version);
        }
        self.entered(terms)
    }
}

//! What one proxy remembers of a scope between two operations.
//!
//! It saves requests and carries settled intents to the next swap. It never admits on its own
//! (F12): a remembered record refuses, or guesses the next compare-and-swap, which the ledger
//! then judges; a remembered tag guesses the next precondition, which the store then judges.

use super::admission;
use super::{Bearer, IntentId, Operation, Protocol, Record, RecordVersion, Snapshot, Tag, Token};

/// How many settled intents are carried along at most. What is dropped beyond stays in the record
/// until it expires (F9), which costs space and is safe.
const SETTLED_MAX: usize = 10_000;

/// The run of writes under which the record need not be asked again (unique tags only).
///
/// A write under the tag that this proxy's last write with the same token left behind proves by
/// its own `If-Match` that nothing has happened since.
///
/// It does not see an exclusive intent that another holder of the *same* token has opened
/// meanwhile (F8). That breaks no promise between tokens; a delete whose outcome was reported as
/// unknown may then still follow a write of its own token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    pub(super) token: Token,
    pub(super) bearer: Bearer,
    pub(super) tag: String,
    /// Whether an open intent with a lower token expects `absent`, so that a delete must not
    /// leave it (F4). It can only become false later, never true: F1 keeps lower tokens out.
    pub(super) absent_expected: bool,
}

/// That the barrier has been passed (F5): every intent with a lower token is dead or settled, and no
/// new one can come. That holds for good, or until a person resets the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Cleared {
    pub(super) resets: u64,
    pub(super) token: Token,
}

/// What is remembered of one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    pub(super) snapshot: Option<Snapshot>,
    pub(super) tag: Option<Tag>,
    pub(super) chain: Option<Chain>,
    pub(super) settled: Vec<IntentId>,
    /// The answer to a swap was lost, and no other has taken its place since: it may yet land, with
    /// an intent that is settled already.
    pub(super) doubted: bool,
    pub(super) cleared: Option<Cleared>,
}

/// A compare-and-swap for the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Swap {
    /// The version that the record must have.
    pub base: RecordVersion,
    /// What it becomes.
    pub next: Record,
}

impl Memory {
    /// The highest token remembered, which may be lower than the record's.
    #[must_use]
    pub fn highest(&self) -> Option<Token> {
        self.snapshot.as_ref().and_then(Snapshot::highest)
    }

    /// Whether a settled intent waits to be taken out of the record.
    #[must_use]
    pub fn owes_withdrawal(&self) -> bool {
        !self.settled.is_empty()
    }

    /// The swap that takes the settled intents out of the record, by what is remembered of it.
    /// `None`: load the record first, or there is nothing to take out.
    #[must_use]
    pub fn withdrawal(&self) -> Option<Swap> {
        let snapshot = self.snapshot.as_ref()?;
        let next = self.without_settled(snapshot).record?;
        // The same record again is another version, on which the lost swap cannot land.
        (self.doubted || next.intents.len() < snapshot.intents().len())
            .then(|| Swap { base: snapshot.version.clone(), next })
    }

    /// The ledger answered a load.
    pub fn loaded(&mut self, snapshot: Snapshot) {
        self.snapshot = Some(snapshot);
    }

    /// The record was loaded for another reason; what is remembered already is newer.
    pub fn offer(&mut self, snapshot: Snapshot) {
        self.snapshot.get_or_insert(snapshot);
    }

    /// The ledger took `next`, which is now at `version`. What was settled and is not in it is
    /// done with: a swap whose answer was lost can no longer land, because its base is gone. What
    /// was settled while `next` was on its way is still to be withdrawn.
    pub fn swapped(&mut self, next: Record, version: RecordVersion) {
        let time = self.snapshot.as_ref().and_then(|snapshot| snapshot.time);
        self.doubted = false;
        self.settled.retain(|id| next.intents.iter().any(|intent| intent.id == *id));
        self.snapshot = Some(Snapshot { record: Some(next), version, time });
    }

    /// The record was changed otherwise than by an operation, or could not be.
    pub fn follow(&mut self, now: Option<Snapshot>) {
        self.chain = None;
        self.snapshot = now;
    }

    /// The remembered record is not the ledger's any more.
    pub fn forget_record(&mut self) {
        self.snapshot = None;
    }

    /// Every settled intent that the loaded record does not hold needs no withdrawal.
    pub fn withdrawn(&mut self) {
        if !self.doubted {
            self.settled.clear();
        }
    }

    /// Forgets the settled intents that this record, which the ledger has just shown, does not hold.
    pub fn drop_withdrawn(&mut self, snapshot: &Snapshot) {
        if self.doubted {
            return;
        }
        let intents = snapshot.intents();
        self.settled.retain(|id| intents.iter().any(|intent| intent.id == *id));
    }

    /// Whether what is remembered of the record shuts the operation out (F12).
    #[must_use]
    pub fn refuses(&self, protocol: &Protocol, operation: &Operation) -> bool {
        let refusing = |snapshot| admission::refusing(protocol, snapshot, operation);
        self.snapshot.as_ref().and_then(refusing).is_some()
    }

    /// What is remembered of the record.
    #[must_use]
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// The record without what is settled, as the next swap is going to leave it.
    #[must_use]
    pub fn without_settled(&self, snapshot: &Snapshot) -> Snapshot {
        let mut snapshot = snapshot.clone();
        if let Some(record) = &mut snapshot.record {
            record.intents.retain(|intent| !self.settled.contains(&intent.id));
        }
        snapshot
    }

    /// Takes over what another run of the same scope has settled, and the barrier it has passed.
    pub fn absorb(&mut self, other: &Self) {
        for id in &other.settled {
            self.settle(*id);
        }
        self.doubted |= other.doubted;
        self.cleared = self.cleared.max(other.cleared);
    }

    /// Drops the chain, which asks nobody whether a person has reset the record.
    pub fn forget_chain(&mut self) {
        self.chain = None;
    }

    /// What another run of the scope may begin with, on a key whose tag was seen to be `tag`.
    #[must_use]
    pub fn for_key(&self, tag: Option<Tag>) -> Self {
        Self { tag, chain: None, doubted: false, ..self.clone() }
    }

    /// The tag that the object is remembered to have.
    #[must_use]
    pub fn tag(&self) -> Option<&Tag> {
        self.tag.as_ref()
    }

    /// Whether the barrier below `token` was passed, after as many resets.
    pub(super) fn has_cleared(&self, token: Token, resets: u64) -> bool {
        self.cleared.is_some_and(|cleared| cleared.resets == resets && cleared.token >= token)
    }

    /// The outcome of every copy of the intent's request is known (F6).
    pub(super) fn settle(&mut self, id: IntentId) {
        if !self.settled.contains(&id) {
            if self.settled.len() >= SETTLED_MAX {
                self.settled.remove(0);
            }
            self.settled.push(id);
        }
    }

    /// Nothing is known of the object any more.
    pub(super) fn forget_object(&mut self) {
        self.tag = None;
        self.chain = None;
    }
}

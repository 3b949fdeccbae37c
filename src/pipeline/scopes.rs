//! What this proxy remembers of each scope, and who of its own operations waits for whom in it.
//!
//! Writes to one object are serialised within a proxy: they would only make each other lose (on
//! SeaweedFS the loser of a conditional PUT waits for seconds). In a scope of many keys those to one
//! key are, and all of them share their swaps of the record (`group`). The map is bounded; what is
//! thrown out costs requests, never safety (F12).

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex as StdMutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};

use super::group::Ticket;
use crate::clock;
use crate::fence::{Bearer, Compare, KeyId, Memory, Mismatch, Refusal, Snapshot, Tag, Token};
use crate::ledger::{Binding, Scope, Upload};
use crate::s3::Bucket;

/// For how long a remembered record refuses without being asked for again. Tokens only rise, but for
/// a person's reset, which every proxy has to notice.
pub(super) const HINT_LIFE: Duration = Duration::from_secs(5);

/// For how long a chain of writes goes on without asking the record: a holder that was overtaken must
/// not keep the next one out by being the faster one, time and again.
const CHAIN_LIFE: Duration = Duration::from_secs(1);

/// The newest that is known of a scope's record.
#[derive(Clone, Debug)]
struct Note {
    token: Token,
    bearer: Bearer,
    resets: u64,
    seen_at: Instant,
}

impl Note {
    fn age(&self) -> Duration {
        clock::monotonic().saturating_duration_since(self.seen_at)
    }
}

/// One scope.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Of one object. Held across the network: it is the one lock of which the protocol wants that.
    pub(super) memory: Mutex<Memory>,
    /// Of many keys.
    many: OnceLock<Box<Many>>,
    note: StdMutex<Option<Note>>,
    /// A withdrawal is on its way.
    pub(super) settling: AtomicBool,
    /// Wakes up those who wait for the scope's lease.
    pub(super) lease_released: Notify,
    /// What was seen last by those who wait for it, and when.
    pub(super) lease_look: Mutex<Option<(Instant, Snapshot)>>,
}

/// What a scope of many keys has in common.
#[derive(Debug, Default)]
pub(super) struct Many {
    /// Held across the network by whoever swaps the record.
    pub(super) turn: Mutex<()>,
    memory: StdMutex<Memory>,
    waiting: StdMutex<Waiting>,
    loaded_at: StdMutex<Option<Instant>>,
    /// The keys that operations of this proxy are on.
    keys: StdMutex<HashMap<KeyId, Arc<Mutex<()>>>>,
}

/// Who waits for a swap.
#[derive(Debug, Default)]
struct Waiting {
    tickets: Vec<Ticket>,
    /// Somebody swaps for them.
    served: bool,
}

/// Whoever swaps for those who wait.
#[derive(Debug)]
pub(super) struct Serving<'a>(&'a Many);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).served = false;
    }
}

/// The one place on a key.
#[derive(Debug)]
pub(super) struct KeyGuard<'a> {
    many: &'a Many,
    key: KeyId,
    held: Option<OwnedMutexGuard<()>>,
}

impl Drop for KeyGuard<'_> {
    fn drop(&mut self) {
        self.held = None;
        let mut keys = self.many.keys.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever waits for it has another handle, which was taken under this lock.
        if keys.get(&self.key).is_some_and(|place| Arc::strong_count(place) == 1) {
            keys.remove(&self.key);
        }
    }
}

impl Many {
    /// Waits until no other operation of this proxy is on the key.
    pub(super) async fn take_key(&self, key: &KeyId) -> KeyGuard<'_> {
        // Made first, so that a wait that is given up cleans up after itself.
        let mut guard = KeyGuard { many: self, key: key.clone(), held: None };
        let place = {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(keys.entry(key.clone()).or_default())
        };
        guard.held = Some(place.lock_owned().await);
        guard
    }

    /// Works on what is remembered; not across the network.
    pub(super) fn with_memory<T>(&self, work: impl FnOnce(&mut Memory) -> T) -> T {
        work(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits with the others; whether somebody has to begin to swap for them.
    pub(super) fn wait(&self, ticket: Ticket) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.tickets.push(ticket);
        !std::mem::replace(&mut waiting.served, true)
    }

    /// Whoever holds this swaps for those who wait, until nobody does.
    pub(super) fn serving(&self) -> Serving<'_> {
        Serving(self)
    }

    /// All that wait; `None` when nobody does, and the next one has to begin.
    pub(super) fn all_waiting(&self) -> Option<Vec<Ticket>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::mem::take(&mut waiting.tickets);
        waiting.served = !all.is_empty();
        waiting.served.then_some(all)
    }

    /// The ledger has shown the record.
    pub(super) fn loaded(&self, snapshot: Snapshot) {
        *self.loaded_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock::monotonic());
        self.with_memory(|memory| memory.loaded(snapshot));
    }

    /// The remembered record, as long as the store's time in it is not too old to see by it which
    /// intents have expired.
    pub(super) fn remembered(&self) -> Option<Snapshot> {
        let loaded_at = *self.loaded_at.lock().unwrap_or_else(PoisonError::into_inner);
        let age = clock::monotonic().saturating_duration_since(loaded_at?);
        let snapshot = self.with_memory(|memory| memory.snapshot().cloned());
        snapshot.filter(|_| age < HINT_LIFE)
    }
}

impl Slot {
    /// What it is of a scope of many keys.
    pub(super) fn many(&self) -> &Many {
        self.many.get_or_init(Box::default)
    }

    /// F12: why the token is shut out, if what is remembered proves that it is.
    pub(super) fn refusing(
        &self,
        token: Token,
        bearer: &Bearer,
        compare: Compare,
    ) -> Option<Refusal> {
        let note = self.young_note()?;
        match note.bearer.admits(note.token, bearer, token) {
            Err(mismatch @ (Mismatch::Lock(_) | Mismatch::Holder(_))) => {
                Some(Refusal::Mismatched(mismatch))
            }
            Ok(()) => {
                compare.refuses(token, note.token).then_some(Refusal::Stale { highest: note.token })
            }
        }
    }

    /// The highest token seen, if that was a short time ago.
    pub(super) fn highest(&self) -> Option<Token> {
        self.young_note().map(|note| note.token)
    }

    /// Whether a token has been seen a short time ago.
    pub(super) fn is_known(&self) -> bool {
        self.young_note().is_some()
    }

    fn young_note(&self) -> Option<Note> {
        let note = self.note.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        (note.age() < HINT_LIFE).then_some(note)
    }

    /// Whether the record was seen so lately that a chain may go on without asking for it.
    pub(super) fn may_chain(&self) -> bool {
        self.young_note().is_some_and(|note| note.age() < CHAIN_LIFE)
    }

    /// Whether the record is known to have been reset since it was like this.
    pub(super) fn has_been_reset_since(&self, snapshot: &Snapshot) -> bool {
        let note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        note.as_ref().is_some_and(|note| note.resets > snapshot.resets())
    }

    /// Takes note of a record that the ledger has just shown, or has just taken.
    pub(super) fn note(&self, snapshot: &Snapshot) {
        let Some(record) = &snapshot.record else { return };
        let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        let version = (record.resets.count, record.token);
        if note.as_ref().is_none_or(|note| (note.resets, note.token) <= version) {
            *note = Some(Note {
                token: record.token,
                bearer: record.bearer.clone(),
                resets: record.resets.count,
                seen_at: clock::monotonic(),
            });
        }
    }

    /// Wakes up those who wait for the scope's lease. What one of them is looking at just now may be
    /// older; they look again soon.
    pub(super) fn announce_release(&self) {
        if let Ok(mut look) = self.lease_look.try_lock() {
            *look = None;
        }
        self.lease_released.notify_waiters();
    }

    /// Whether nobody waits here, and no withdrawal is owed.
    fn is_idle(&self) -> bool {
        let one = self.memory.try_lock().is_ok_and(|memory| !memory.owes_withdrawal());
        one && self.many.get().is_none_or(|many| !many.with_memory(|m| m.owes_withdrawal()))
    }
}

/// The scopes that are remembered.
#[derive(Debug)]
pub(super) struct Scopes {
    slots: DashMap<Scope, Arc<Slot>>,
    /// The tags of objects in scopes of many keys.
    tags: DashMap<(Bucket, KeyId), Tag>,
    entries_max: usize,
}

impl Scopes {
    pub(super) fn new(entries_max: usize) -> Self {
        Self { slots: DashMap::new(), tags: DashMap::new(), entries_max }
    }

    /// What an operation on one key of many begins with.
    pub(super) fn memory_for(&self, many: &Many, bucket: &Bucket, key: &KeyId) -> Memory {
        let tag = self.tags.remove(&(bucket.clone(), key.clone())).map(|(_, tag)| tag);
        many.with_memory(|memory| memory.for_key(tag))
    }

    /// What an operation on one key of many has learnt.
    pub(super) fn take_back(&self, many: &Many, bucket: &Bucket, key: KeyId, learnt: &Memory) {
        if let Some(tag) = learnt.tag() {
            if self.tags.len() >= self.entries_max {
                // They can all be asked for again.
                self.tags.clear();
            }
            self.tags.insert((bucket.clone(), key), tag.clone());
        }
        many.with_memory(|memory| memory.absorb(learnt));
    }

    /// The slot of a scope, made if there is none.
    pub(super) fn slot(&self, scope: &Scope) -> Arc<Slot> {
        if let Some(slot) = self.slots.get(scope) {
            return Arc::clone(&slot);
        }
        if self.slots.len() >= self.entries_max {
            self.make_room();
        }
        Arc::clone(&self.slots.entry(scope.clone()).or_default())
    }

    /// Throws out an eighth of the slots: any that nobody uses and that owe no withdrawal.
    fn make_room(&self) {
        let mut excess = self.entries_max / 8 + 1;
        self.slots.retain(|_, slot| {
            let idle = Arc::strong_count(slot) == 1 && slot.is_idle();
            let remove = idle && excess > 0;
            excess -= usize::from(remove);
            !remove
        });
    }

    /// The slots that may owe a withdrawal.
    pub(super) fn all(&self) -> Vec<(Scope, Arc<Slot>)> {
        self.slots.iter().map(|entry| (entry.key().clone(), Arc::clone(entry.value()))).collect()
    }
}

/// What is remembered of multipart uploads. A binding never changes. That there is none is not
/// remembered: a listing may show an upload before its binding is written.
#[derive(Debug)]
pub(super) struct Bindings {
    known: DashMap<Upload, Binding>,
    entries_max: usize,
}

impl Bindings {
    pub(super) fn new(entries_max: usize) -> Self {
        Self { known: DashMap::new(), entries_max }
    }

    pub(super) fn get(&self, upload: &Upload) -> Option<Binding> {
        self.known.get(upload).map(|known| *known)
    }

    pub(super) fn note(&self, upload: Upload, binding: Binding) {
        if self.known.len() >= self.entries_max {
            // They can all be asked for again.
            self.known.clear();
        }
        self.known.insert(upload, binding);
    }

    pub(super) fn forget(&self, upload: &Upload) {
        self.known.remove(upload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::{Record, RecordVersion, Resets};
    use crate::s3::ObjectKey;

    fn scope(number: usize) -> Scope {
        let key = ObjectKey::new(number.to_string()).unwrap();
        Scope::object(Bucket::new("b"), key)
    }

    #[test]
    fn the_map_is_bounded_and_keeps_what_is_in_use() {
        let scopes = Scopes::new(16);
        let used = scopes.slot(&scope(0));
        for number in 1..100 {
            scopes.slot(&scope(number));
        }
        assert!(scopes.slots.len() <= 16, "{}", scopes.slots.len());
        assert!(Arc::ptr_eq(&used, &scopes.slot(&scope(0))));
    }

    #[test]
    fn a_note_goes_back_by_a_reset_alone() {
        let slot = Slot::default();
        let token = |value| Token::new(value).unwrap();
        let note = |value, count| {
            let resets = Resets { count, last: None };
            let record = Some(Record { resets, ..Record::new(token(value), Vec::new()) });
            slot.note(&Snapshot { record, version: RecordVersion::Absent, time: None });
            slot.highest().map(Token::get)
        };
        assert_eq!(note(7, 0), Some(7));
        assert_eq!(note(6, 0), Some(7), "an answer that was overtaken");
        assert_eq!(note(3, 1), Some(3));
        assert_eq!(note(9, 0), Some(3), "from before the reset");
        let refused = slot.refusing(token(2), &Bearer::default(), Compare::AtLeast);
        assert_eq!(refused, Some(Refusal::Stale { highest: token(3) }));
    }
}

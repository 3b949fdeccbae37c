//! What this proxy remembers of each scope, and the one writer at a time that it lets into it.
//!
//! Writes to one scope are serialised within a proxy: they would only make each other lose (on
//! SeaweedFS the loser of a conditional PUT waits for seconds). The map is bounded; what is thrown
//! out costs requests, never safety (F12).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dashmap::DashMap;
use tokio::sync::Mutex;

use crate::fence::{Compare, Memory, Token};
use crate::ledger::{Binding, Scope, Upload};

/// One scope.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Held across the network: it is the one lock of which the protocol wants that.
    pub(super) memory: Mutex<Memory>,
    /// The highest token seen, 0 for none. It may be lower than the record's, never higher.
    highest: AtomicU64,
    /// A withdrawal is on its way.
    pub(super) settling: AtomicBool,
}

impl Slot {
    /// F12: the token that proves `token` to be too old, if one is remembered.
    pub(super) fn refusing(&self, token: Token, compare: Compare) -> Option<Token> {
        let highest = self.highest()?;
        compare.refuses(token, highest).then_some(highest)
    }

    /// The highest token seen.
    pub(super) fn highest(&self) -> Option<Token> {
        Token::new(self.highest.load(Ordering::Acquire))
    }

    /// Whether a token has been seen.
    pub(super) fn is_known(&self) -> bool {
        self.highest().is_some()
    }

    /// Takes note of a record's token.
    pub(super) fn note(&self, highest: Option<Token>) {
        if let Some(token) = highest {
            self.highest.fetch_max(token.get(), Ordering::AcqRel);
        }
    }
}

/// The scopes that are remembered.
#[derive(Debug)]
pub(super) struct Scopes {
    slots: DashMap<Scope, Arc<Slot>>,
    entries_max: usize,
}

impl Scopes {
    pub(super) fn new(entries_max: usize) -> Self {
        Self { slots: DashMap::new(), entries_max }
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
            let idle = Arc::strong_count(slot) == 1
                && slot.memory.try_lock().is_ok_and(|memory| !memory.owes_withdrawal());
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
    use crate::s3::{Bucket, ObjectKey};

    fn scope(number: usize) -> Scope {
        let key = ObjectKey::new(number.to_string()).unwrap();
        Scope { bucket: Bucket::new("b"), key }
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
}

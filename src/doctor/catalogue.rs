//! The checks, and what each of them is needed for.

use super::report::Operation;

/// A check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in reports.
    pub id: &'static str,
    /// What passes, in words.
    pub says: &'static str,
    /// What needs it.
    pub need: Need,
    /// Whether a start-up waits for it.
    pub quick: bool,
}

/// What a check is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Any fencing at all.
    Fence,
    /// That an operation works, in whatever way it is fenced.
    Works(Operation),
    /// That an operation is fenced by its own precondition.
    Condition(Operation),
    /// That an operation without a condition is not undone by a PUT that had one (F8).
    Exclusion(Operation),
    /// That intents can expire (F9).
    Expiry,
    /// Nothing: it is good to know.
    Nothing,
}

const fn entry(id: &'static str, says: &'static str, need: Need, quick: bool) -> Entry {
    Entry { id, says, need, quick }
}

/// All of them, in the order in which they are made.
pub const CATALOGUE: &[Entry] = &{
    use Need::{Condition, Exclusion, Expiry, Fence, Nothing, Works};
    use Operation::{Complete, Copy, Delete, DeleteObjects, Put};
    [
        entry("read.absent", "HEAD of a key that is not there is 404", Fence, true),
        entry("read.after-write", "what was written is read at once", Fence, true),
        entry("read.list", "listings show what was written", Nothing, false),
        entry("put.create.free", "If-None-Match: * on a free key writes", Condition(Put), true),
        entry(
            "put.create.taken",
            "If-None-Match: * on a taken key is refused",
            Condition(Put),
            true,
        ),
        entry("put.create.deleted", "… on a deleted key writes", Condition(Put), true),
        entry("put.swap.right", "If-Match with the object's tag writes", Condition(Put), true),
        entry("put.swap.stale", "If-Match with an older tag is refused", Condition(Put), true),
        entry("put.swap.absent", "If-Match on a free key is refused", Condition(Put), true),
        entry("put.swap.star", "If-Match: *", Nothing, false),
        entry("put.swap.empty", "an empty If-Match", Nothing, false),
        entry("put.create.quoted-star", "If-None-Match: \"*\"", Nothing, false),
        entry("put.swap.star-absent", "If-Match: * on a free key", Nothing, false),
        entry(
            "put.create.overtaken",
            "a create that is overtaken half-way loses",
            Condition(Put),
            true,
        ),
        entry(
            "put.swap.overtaken",
            "a swap that is overtaken half-way loses",
            Condition(Put),
            true,
        ),
        entry(
            "put.swap.deleted-under",
            "a swap does not bring a deleted object back",
            Condition(Put),
            false,
        ),
        entry("put.create.race", "of creates at the same time one wins", Condition(Put), true),
        entry("put.swap.race", "of swaps at the same time one wins", Condition(Put), true),
        entry("delete.plain", "DELETE works", Works(Delete), true),
        entry("delete.swap.stale", "DELETE with an older tag is refused", Condition(Delete), true),
        entry("delete.swap.right", "DELETE with the object's tag works", Condition(Delete), true),
        entry(
            "delete.swap.race",
            "of DELETE and PUT of one version one wins",
            Condition(Delete),
            true,
        ),
        entry(
            "delete.plain.race",
            "a DELETE is not undone by a PUT that expects the state before",
            Exclusion(Delete),
            false,
        ),
        entry("delete.swap.absent", "DELETE with a tag on a free key", Nothing, false),
        entry("delete.swap.star", "DELETE with If-Match: *", Nothing, false),
        entry(
            "delete-objects.tags",
            "DeleteObjects honours an ETag a key",
            Condition(DeleteObjects),
            false,
        ),
        entry("complete.plain", "Complete works", Works(Complete), true),
        entry(
            "complete.plain.race",
            "a Complete is not overwritten by such a PUT",
            Exclusion(Complete),
            false,
        ),
        entry(
            "complete.create.free",
            "Complete with If-None-Match: * on a free key works",
            Condition(Complete),
            false,
        ),
        entry("complete.create.taken", "… on a taken key is refused", Condition(Complete), false),
        entry(
            "complete.swap.right",
            "Complete with the object's tag works",
            Condition(Complete),
            false,
        ),
        entry(
            "complete.swap.stale",
            "Complete with an older tag is refused",
            Condition(Complete),
            false,
        ),
        entry(
            "complete.swap.absent",
            "Complete with a tag on a free key is refused",
            Condition(Complete),
            false,
        ),
        entry(
            "complete.swap.overwritten",
            "Complete of an upload older than the object",
            Nothing,
            false,
        ),
        entry("complete.twice", "Complete of an upload that is complete", Nothing, false),
        entry(
            "complete.create.race",
            "of creating Completes at the same time one wins",
            Condition(Complete),
            false,
        ),
        entry(
            "complete.swap.race",
            "of swapping Completes at the same time one wins",
            Condition(Complete),
            false,
        ),
        entry("copy.plain", "Copy works", Works(Copy), true),
        entry(
            "copy.source.stale",
            "Copy from an older tag of its source is refused",
            Nothing,
            true,
        ),
        entry("copy.plain.race", "a Copy is not overwritten by such a PUT", Exclusion(Copy), false),
        entry(
            "copy.create.free",
            "Copy with If-None-Match: * on a free key works",
            Condition(Copy),
            false,
        ),
        entry("copy.create.taken", "… on a taken key is refused", Condition(Copy), false),
        entry("copy.swap.right", "Copy with the object's tag works", Condition(Copy), false),
        entry("copy.swap.stale", "Copy with an older tag is refused", Condition(Copy), false),
        entry(
            "copy.swap.absent",
            "Copy with a tag on a free key is refused",
            Condition(Copy),
            false,
        ),
        entry(
            "copy.create.race",
            "of creating Copies at the same time one wins",
            Condition(Copy),
            false,
        ),
        entry(
            "copy.swap.race",
            "of swapping Copies at the same time one wins",
            Condition(Copy),
            false,
        ),
        entry("tags.same-bytes", "tags are unique, or the MD5 of the bytes", Fence, true),
        entry(
            "tags.one-part",
            "a one-part upload leaves the other tag that it should",
            Nothing,
            true,
        ),
        entry("tags.rewrite", "other metadata and the tag", Nothing, false),
        entry("keys.double-slash", "a//b and a/b", Nothing, true),
        entry("keys.leading-slash", "/a and a", Nothing, true),
        entry("keys.case", "A and a", Nothing, true),
        entry("keys.unicode", "é in one code point and in two", Nothing, true),
        entry("keys.dot-segment", "a/./b and a/b", Nothing, true),
        entry("signature.too-old", "a signature of 20 minutes ago is refused", Expiry, true),
        entry("signature.expired", "an expired signature in the query is refused", Expiry, true),
        entry("signature.wrong", "a wrong signature", Nothing, false),
        entry("clock", "the store's clock", Nothing, true),
    ]
};

/// The entry of a check.
#[must_use]
pub fn entry_of(id: &str) -> Option<&'static Entry> {
    CATALOGUE.iter().find(|entry| entry.id == id)
}

/// Where a check stands among them.
#[must_use]
pub fn position_of(id: &str) -> usize {
    CATALOGUE.iter().position(|entry| entry.id == id).unwrap_or(CATALOGUE.len())
}

//! Which record may follow which: the decisions of F1, F2, F4, F8 and F9, as pure functions.
//!
//! Nothing here waits, counts or retries; that is [`Attempt`](super::Attempt)'s part.

use super::permit::{Form, Terms};
use super::{
    Action, Assembly, Change, Contents, Enforcement, Forms, Intent, IntentId, Keys, Mismatch,
    Operation, Protocol, Record, Snapshot, StoreTime, Tag, Tags, Token,
};

/// Why an operation has to wait, though its token is good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contention {
    /// An exclusive intent is open on the key (F8), or any intent is and the operation, itself
    /// exclusive, carries a condition of its client's.
    ExclusiveOpen,
    /// Whatever form the operation takes, it would leave a tag that an open intent with a lower
    /// token expects (F4).
    TagExpected,
    /// An open intent with a lower token may still take effect (F5).
    LowerOpen,
    /// The record holds as many intents as it may.
    RecordFull,
    /// Another writer was faster, time and again.
    LostRaces,
}

/// The answer to "may this operation act on an object with this tag, by this record?".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "it lives for one call")]
pub(super) enum Admission {
    /// Not with this token.
    Refused(Refusal),
    /// Not now.
    Contended(Contention),
    /// Yes, on these terms; first the record has to become `next`, if it is given.
    Clear {
        /// The record to swap in (F2). `None`: the record may stay as it is.
        next: Option<Record>,
        /// What to send.
        terms: Terms,
    },
}

/// Why a token does not enter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It is too old (F1).
    Stale {
        /// The record's token.
        highest: Token,
    },
    /// It is of another lock, or of another holder.
    Mismatched(Mismatch),
}

/// The answer to "may this token enter, with nothing to write?".
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Entry {
    /// No.
    Refused(Refusal),
    /// Yes; first the record has to become this, if it is given.
    Clear(Option<Record>),
}

/// What a PUT has to choose its form from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    /// The tags that its bytes leave behind, once they are known.
    pub(super) forms: Option<&'a Forms>,
    /// The form that a stream was begun in and cannot change.
    pub(super) begun: Option<Form>,
}

/// F1: why the record shuts the operation out, if it does. Any record that ever was is proof,
/// because tokens only rise (F12).
pub(super) fn refusing(
    protocol: &Protocol,
    snapshot: &Snapshot,
    operation: &Operation,
) -> Option<Refusal> {
    let record = snapshot.record.as_ref()?;
    let (token, highest) = (operation.token, record.token);
    match record.bearer.admits(highest, &operation.bearer, token) {
        Err(mismatch) => Some(Refusal::Mismatched(mismatch)),
        Ok(()) => protocol.compare.refuses(token, highest).then_some(Refusal::Stale { highest }),
    }
}

/// The record after the operation has entered it with these intents.
fn entered(operation: &Operation, snapshot: &Snapshot, intents: Vec<Intent>) -> Record {
    let token = operation.token;
    let Some(record) = &snapshot.record else {
        return Record { bearer: operation.bearer.clone(), ..Record::new(token, intents) };
    };
    let bearer = record.bearer.after(record.token, &operation.bearer, token);
    Record { token, bearer, intents, ..record.clone() }
}

/// Whether the record holds already all that the operation's entry would leave of its token.
pub(super) fn has_entered(operation: &Operation, snapshot: &Snapshot) -> bool {
    snapshot.record.as_ref().is_some_and(|record| {
        let bearer = record.bearer.after(record.token, &operation.bearer, operation.token);
        record.token == operation.token && record.bearer == bearer
    })
}

/// The intents of `snapshot` that are still open: without those that this proxy knows to be
/// settled (F6), and without those whose requests the store cannot accept any more (F9).
pub(super) fn open<'a>(
    snapshot: &'a Snapshot,
    settled: &'a [IntentId],
) -> impl Iterator<Item = &'a Intent> {
    let expired = move |expires_at: StoreTime| snapshot.time.is_some_and(|now| now > expires_at);
    snapshot
        .intents()
        .iter()
        .filter(move |intent| !settled.contains(&intent.id) && !expired(intent.expires_at))
}

/// Whether an open intent with a lower token would take effect on `tag`: then F4 must avoid
/// leaving that tag, and F5 must wait where it is the current one.
pub(super) fn lower_takes_effect(
    operation: &Operation,
    snapshot: &Snapshot,
    settled: &[IntentId],
    tag: &Tag,
) -> bool {
    open(snapshot, settled).any(|intent| lower_on(operation, intent, tag))
}

/// F5: the open intents with a lower token that the operation's own effect says nothing of: those
/// on other keys; where it has no effect of its own, all of them.
pub(super) fn lower_elsewhere<'a>(
    protocol: &Protocol,
    operation: &'a Operation,
    snapshot: &'a Snapshot,
    settled: &'a [IntentId],
) -> impl Iterator<Item = &'a Intent> {
    let matters = protocol.rules.barrier;
    let everywhere = operation.change == Change::Claim;
    open(snapshot, settled).filter(move |intent| {
        let elsewhere = everywhere || intent.key != operation.key;
        matters && elsewhere && intent.token < operation.token
    })
}

fn lower_on(operation: &Operation, intent: &Intent, tag: &Tag) -> bool {
    intent.key == operation.key && intent.token < operation.token && intent.takes_effect_on(tag)
}

/// Decides on an operation that writes nothing: the token alone enters.
pub(super) fn enter(
    protocol: &Protocol,
    operation: &Operation,
    snapshot: &Snapshot,
    settled: &[IntentId],
) -> Entry {
    if let Some(refusal) = refusing(protocol, snapshot, operation) {
        return Entry::Refused(refusal);
    }
    if has_entered(operation, snapshot) {
        return Entry::Clear(None);
    }
    let intents = open(snapshot, settled).cloned().collect();
    Entry::Clear(Some(entered(operation, snapshot, intents)))
}

/// Decides on an operation that changes an object with the tag `tag`.
///
/// `id` is the name of the intent to register.
pub(super) fn admit(
    protocol: &Protocol,
    operation: &Operation,
    choice: Choice<'_>,
    id: IntentId,
    tag: &Tag,
    snapshot: &Snapshot,
    settled: &[IntentId],
) -> Admission {
    if let Some(refusal) = refusing(protocol, snapshot, operation) {
        return Admission::Refused(refusal);
    }
    let exclusive_open = open(snapshot, settled)
        .any(|intent| intent.key == operation.key && intent.action == Action::Exclusive);
    if exclusive_open {
        return Admission::Contended(Contention::ExclusiveOpen);
    }
    // The store will not judge the client's condition: nobody may change what it was judged on.
    let unjudged = operation.is_exclusive(protocol) && !operation.condition.is_none();
    let changes = |intent: &Intent| intent.key == operation.key && intent.takes_effect_on(tag);
    if unjudged && open(snapshot, settled).any(changes) {
        return Admission::Contended(Contention::ExclusiveOpen);
    }
    // It may bring any tag back, so that F4 has nothing to compare.
    let lower = |intent: &Intent| intent.key == operation.key && intent.token < operation.token;
    if protocol.rules.avoid
        && leaves_any_tag(protocol, operation)
        && open(snapshot, settled).any(lower)
    {
        return Admission::Contended(Contention::LowerOpen);
    }
    // F6 keeps the dead: an intent counts, whatever the tag is now.
    let kept = |intent: &&Intent| {
        protocol.rules.keep_dead || intent.key != operation.key || intent.takes_effect_on(tag)
    };
    let avoided = |leaves: &Tag| {
        protocol.rules.avoid
            && open(snapshot, settled)
                .filter(kept)
                .any(|intent| lower_on(operation, intent, leaves))
    };
    let Some(mut terms) = choose(protocol, operation, choice, tag, avoided) else {
        return Admission::Contended(Contention::TagExpected);
    };
    if let (Some(Form::OnePart), Some(now)) = (choice.begun, snapshot.time) {
        // The upload may have taken longer than a signature lives; what completes it is signed
        // anew, with the store's own time, and expires accordingly.
        terms.signed_at = terms.signed_at.max(now.0);
    }

    // Where a scope holds many keys, whoever enters next has to find every write on record: its own
    // write says nothing of the other keys (F5).
    let announced = terms.exclusive
        || protocol.tags == Tags::Repeat
        || protocol.keys == Keys::Many
        || *tag == Tag::Absent;
    if !announced && has_entered(operation, snapshot) {
        return Admission::Clear { next: None, terms };
    }
    let mut intents: Vec<Intent> = open(snapshot, settled).filter(kept).cloned().collect();
    if announced && protocol.rules.register {
        if intents.len() >= protocol.intents_max {
            merge(&mut intents, id);
        }
        if intents.len() >= protocol.intents_max {
            return Admission::Contended(Contention::RecordFull);
        }
        terms.intent = Some(id);
        intents.push(Intent {
            id,
            token: operation.token,
            key: operation.key.clone(),
            action: if terms.exclusive {
                Action::Exclusive
            } else {
                Action::Conditional { expects: tag.clone() }
            },
            registered_at: snapshot.time,
            expires_at: expiry(protocol, operation, &terms, snapshot),
        });
    }
    Admission::Clear { next: Some(entered(operation, snapshot, intents)), terms }
}

/// Whether nobody can tell beforehand which tag the operation leaves. A tag that never repeats is
/// none that anybody expects.
fn leaves_any_tag(protocol: &Protocol, operation: &Operation) -> bool {
    match &operation.change {
        Change::Put(_) | Change::Delete | Change::Claim => false,
        Change::Assemble(assembly) => assembly.leaves.is_none() && protocol.tags == Tags::Repeat,
        // A store that does not know the sub-resource may take a touch for a plain write.
        Change::Touch | Change::DeleteVersion => true,
    }
}

/// The first of the copies that no request stands for, but several intents made into one.
const MERGED_COPY_MIN: u32 = 1 << 31;

/// Makes room in a record that is full: intents on one key that expect the same tag become one.
///
/// A store that answers nobody for a minute leaves one intent for every try, all alike. The merged
/// one has the lowest token and the latest expiry among them, so that F4 and F5 do what they would
/// have done for any of them. Nobody knows its name, so nobody can settle it: it goes when it
/// expires (F9).
fn merge(intents: &mut Vec<Intent>, admitted: IntentId) {
    let mut merged: Vec<Intent> = Vec::with_capacity(intents.len());
    for intent in intents.drain(..) {
        let alike = merged.iter().position(|other| {
            other.action != Action::Exclusive
                && other.action == intent.action
                && other.key == intent.key
        });
        match alike {
            None => merged.push(intent),
            Some(at) => {
                let copy = MERGED_COPY_MIN
                    .saturating_add(u32::try_from(at).expect("a record holds few intents"));
                let other = &mut merged[at];
                other.id = IntentId { operation: admitted.operation, copy };
                other.token = other.token.min(intent.token);
                other.expires_at = other.expires_at.max(intent.expires_at);
            }
        }
    }
    *intents = merged;
}

/// The form in which an operation avoids the tags that lower intents expect (F4), or `None`.
fn choose(
    protocol: &Protocol,
    operation: &Operation,
    choice: Choice<'_>,
    tag: &Tag,
    avoided: impl Fn(&Tag) -> bool,
) -> Option<Terms> {
    let terms = |form, exclusive, leaves: Option<&Tag>| Terms {
        operation: operation.id,
        token: operation.token,
        intent: None,
        expects: tag.clone(),
        exclusive,
        form,
        leaves: leaves.cloned(),
        signed_at: operation.signed_at,
    };
    let exclusive = operation.is_exclusive(protocol);
    match &operation.change {
        Change::Delete => {
            (!avoided(&Tag::Absent)).then(|| terms(Form::Plain, exclusive, Some(&Tag::Absent)))
        }
        // Where tags are unique the intents of ordinary writes are not recorded, so that nobody
        // knows which of them may still take effect on a tag that stays or comes back.
        Change::Touch | Change::DeleteVersion
            if protocol.tags == Tags::Unique && protocol.keys == Keys::One =>
        {
            None
        }
        // F5: it leaves the tag that is there, so whatever expects that has to be over first.
        Change::Touch => (!avoided(tag)).then(|| terms(Form::Plain, true, Some(tag))),
        Change::DeleteVersion => Some(terms(Form::Plain, true, None)),
        // F14: it rewrites the object onto itself, so that its tag changes after the token has
        // entered. Elsewhere it has nothing to send.
        Change::Claim => (protocol.tags == Tags::Unique && protocol.keys == Keys::One)
            .then(|| terms(Form::Plain, true, None)),
        // Where tags are unique nobody knows the new one beforehand, and nobody can expect it.
        Change::Assemble(_) if protocol.tags == Tags::Unique => {
            Some(terms(Form::Plain, exclusive, None))
        }
        Change::Assemble(Assembly { leaves, .. }) => {
            let avoided = leaves.as_ref().is_some_and(avoided);
            (!avoided).then(|| terms(Form::Plain, exclusive, leaves.as_ref()))
        }
        Change::Put(_) if protocol.tags == Tags::Unique => Some(terms(Form::Plain, false, None)),
        Change::Put(_) => {
            // Nobody admits a stream before its end; refusing is the safe answer.
            let forms = choice.forms?;
            let free = |form: Form| choice.begun.is_none_or(|begun| begun == form);
            if free(Form::Plain) && !avoided(&forms.plain) {
                return Some(terms(Form::Plain, false, Some(&forms.plain)));
            }
            let exclusive = protocol.complete == Enforcement::Exclusive;
            // Without a precondition the client's own condition could not be kept either.
            let keeps_condition = !exclusive || operation.condition.is_none();
            let may = protocol.one_part && free(Form::OnePart) && keeps_condition;
            (may && !avoided(&forms.one_part))
                .then(|| terms(Form::OnePart, exclusive, Some(&forms.one_part)))
        }
    }
}

/// When the store has certainly stopped accepting the operation's request (F9).
///
/// The store compares the signature's time with its own clock, so the first term needs no
/// assumption about the proxy's clock. The body of a stream was still being sent when the record
/// was loaded; it was alive at that moment, and is cut off one stall later at the latest. Who does
/// not know that moment cannot tell when: such an intent stays until it is settled.
fn expiry(
    protocol: &Protocol,
    operation: &Operation,
    terms: &Terms,
    snapshot: &Snapshot,
) -> StoreTime {
    let (lifetime, seen_alive, stall) = match (&operation.change, terms.form) {
        (Change::Delete | Change::DeleteVersion, _) => (protocol.bodiless_life_seconds, 0, 0),
        (Change::Touch, _) => (protocol.bodiless_life_seconds, 0, protocol.body_stall_seconds),
        (Change::Assemble(_) | Change::Claim, _) => {
            let executes = protocol.body_stall_seconds.saturating_add(protocol.assembly_seconds);
            (protocol.bodiless_life_seconds, 0, executes)
        }
        (Change::Put(Contents::Streamed), Form::Plain) => {
            let seen_alive = snapshot.time.map_or(u64::MAX, |time| time.0);
            (protocol.signature_seconds, seen_alive, protocol.body_stall_seconds)
        }
        (Change::Put(_), _) => (protocol.signature_seconds, 0, protocol.body_stall_seconds),
    };
    let signature_ends = terms.signed_at.saturating_add(lifetime);
    StoreTime(signature_ends.max(seen_alive).saturating_add(stall))
}

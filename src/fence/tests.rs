//! The protocol step by step: each rule by its number, and the whole transition table as a
//! reviewed snapshot (`transitions.txt`).
//!
//! What follows from the steps is searched by `tests/model.rs`.

use super::*;

mod barrier;
mod exclusive;
mod leases;
mod machine;
mod table;

const PROTOCOL: Protocol = Protocol {
    tags: Tags::Repeat,
    keys: Keys::One,
    delete: Enforcement::Conditional,
    complete: Enforcement::Conditional,
    one_part: true,
    compare: Compare::AtLeast,
    intents_max: 4,
    rounds_max: 2,
    read_backs_max: 2,
    signature_seconds: 900,
    bodiless_life_seconds: 30,
    body_stall_seconds: 60,
    assembly_seconds: 90,
    rules: Rules::ALL,
};
const UNIQUE: Protocol = Protocol { tags: Tags::Unique, ..PROTOCOL };
const MANY: Protocol = Protocol { keys: Keys::Many, ..PROTOCOL };
const EXCLUSIVE: Protocol =
    Protocol { delete: Enforcement::Exclusive, complete: Enforcement::Exclusive, ..PROTOCOL };

/// The moment at which every operation here is signed.
const SIGNED_AT: u64 = 1_000;

fn token(value: u64) -> Token {
    Token::new(value).unwrap()
}

fn key() -> KeyId {
    KeyId::new("k")
}

fn version(tag: &str) -> Tag {
    Tag::Version(tag.to_owned())
}

fn forms(content: &str) -> Forms {
    Forms { plain: version(content), one_part: version(&format!("{content}-1")) }
}

fn operation(id: u128, holder: u64, change: Change) -> Operation {
    Operation {
        id: OperationId::new(id),
        stamp: OperationId::new(id),
        token: token(holder),
        bearer: Bearer::default(),
        key: key(),
        change,
        condition: ClientCondition::default(),
        signed_at: SIGNED_AT,
    }
}

fn put(holder: u64, content: &str) -> Operation {
    operation(1, holder, Change::Put(Contents::Buffered(forms(content))))
}

fn stream(holder: u64) -> Operation {
    operation(1, holder, Change::Put(Contents::Streamed))
}

fn delete(holder: u64) -> Operation {
    operation(1, holder, Change::Delete)
}

fn assemble(holder: u64) -> Operation {
    let leaves = Some(version("Y-2"));
    let assembly = Assembly { leaves, enforcement: Enforcement::Exclusive, of_upload: true };
    operation(1, holder, Change::Assemble(assembly))
}

fn touch(holder: u64) -> Operation {
    operation(1, holder, Change::Touch)
}

fn claim(holder: u64) -> Operation {
    operation(1, holder, Change::Claim)
}

/// An intent of another operation, which expires at 2000.
fn intent(id: u128, holder: u64, action: Action) -> Intent {
    Intent {
        id: IntentId { operation: OperationId::new(id), copy: 0 },
        token: token(holder),
        key: key(),
        action,
        registered_at: None,
        expires_at: StoreTime(2_000),
    }
}

fn expecting(tag: Tag) -> Action {
    Action::Conditional { expects: tag }
}

/// The record as the ledger answers it at second 1000.
fn snapshot(holder: u64, intents: Vec<Intent>) -> Snapshot {
    Snapshot {
        record: Some(Record::new(token(holder), intents)),
        version: RecordVersion::Tag("v1".into()),
        time: Some(StoreTime(SIGNED_AT)),
    }
}

fn no_record() -> Snapshot {
    Snapshot { record: None, version: RecordVersion::Absent, time: Some(StoreTime(SIGNED_AT)) }
}

fn seen(tag: Tag) -> Outcome {
    Outcome::Observed { tag, stamp: None }
}

fn seen_own(tag: Tag) -> Outcome {
    Outcome::Observed { tag, stamp: Some(OperationId::new(1)) }
}

fn swapped() -> Outcome {
    Outcome::Swapped(RecordVersion::Tag("v2".into()))
}

/// Starts the operation and reports the outcomes; the attempt, and the effect of the last.
fn drive(
    protocol: Protocol,
    operation: Operation,
    memory: Memory,
    outcomes: impl IntoIterator<Item = Outcome>,
) -> (Attempt, Effect) {
    let mut attempt = Attempt::new(protocol, operation, memory);
    let mut effect = attempt.advance(Outcome::Start);
    for outcome in outcomes {
        effect = attempt.advance(outcome);
    }
    (attempt, effect)
}

/// The effect alone, of an operation whose proxy remembers nothing.
fn effect(
    protocol: Protocol,
    operation: Operation,
    outcomes: impl IntoIterator<Item = Outcome>,
) -> Effect {
    drive(protocol, operation, Memory::default(), outcomes).1
}

/// What the swap asks the ledger for.
fn next_record(effect: Effect) -> Record {
    let Effect::Swap(swap) = effect else { panic!("not a swap: {effect:?}") };
    swap.next
}

/// The terms of the permit.
fn terms(effect: &Effect) -> Terms {
    if let Effect::Begin(permit) = effect {
        return permit.terms().clone();
    }
    let Effect::Send(permit) = effect else { panic!("no permit: {effect:?}") };
    permit.terms().clone()
}

fn finish(verdict: Verdict) -> Effect {
    Effect::Finish(verdict)
}

fn contended(why: Contention) -> Effect {
    finish(Verdict::Contended(why))
}

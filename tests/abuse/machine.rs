//! The state machine, driven by hand through what no model has yet: a reset by hand.

use fencepost::fence::{
    Action, Attempt, Bearer, Change, ClientCondition, Compare, Contents, Effect, Enforcement,
    Forms, Intent, IntentId, KeyId, Keys, Memory, Operation, OperationId, Outcome, Protocol,
    Record, RecordVersion, Rules, Snapshot, StoreTime, Tag, Tags, Token, Verdict,
};

const MANY: Protocol = Protocol {
    tags: Tags::Repeat,
    keys: Keys::Many,
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

fn tag(text: &str) -> Tag {
    Tag::Version(text.to_owned())
}

fn operation(id: u128, token: u64, change: Change) -> Operation {
    Operation {
        id: OperationId::new(id),
        stamp: OperationId::new(id),
        token: Token::new(token).unwrap(),
        bearer: Bearer::default(),
        key: KeyId::new("k"),
        change,
        condition: ClientCondition::default(),
        signed_at: 1_000,
    }
}

fn snapshot(token: u64, resets: u64, intents: Vec<Intent>) -> Snapshot {
    let mut record = Record::new(Token::new(token).unwrap(), intents);
    record.resets.count = resets;
    let version = RecordVersion::Tag(format!("{token}-{resets}"));
    Snapshot { record: Some(record), version, time: Some(StoreTime(1_000)) }
}

fn put_of_42() -> Operation {
    let forms = Forms { plain: tag("Y"), one_part: tag("Y-1") };
    operation(1, 42, Change::Put(Contents::Buffered(forms)))
}

/// What it has to wait for, on another key.
fn intent_of_33() -> Intent {
    Intent {
        id: IntentId { operation: OperationId::new(9), copy: 0 },
        token: Token::new(33).unwrap(),
        key: KeyId::new("other"),
        action: Action::Conditional { expects: tag("O") },
        registered_at: None,
        expires_at: StoreTime(2_000),
    }
}

/// A write with token 42 waits at the barrier; the record is reset to 30 meanwhile.
#[test]
fn a_reset_while_an_operation_waits_at_the_barrier_starts_it_over() {
    let (put, lower) = (put_of_42(), intent_of_33());
    let mut attempt = Attempt::new(MANY, put, Memory::default());
    for outcome in [
        Outcome::Start,
        Outcome::Observed { tag: tag("X"), stamp: None },
        Outcome::Loaded(snapshot(33, 0, vec![lower])),
        Outcome::Swapped(RecordVersion::Tag("mine".into())),
        Outcome::Looked(vec![(KeyId::new("other"), tag("O"))]),
    ] {
        attempt.advance(outcome);
    }
    assert_eq!(attempt.advance(Outcome::Paused), Effect::Load);
    let reset = snapshot(30, 1, Vec::new());
    let effect = attempt.advance(Outcome::Loaded(reset.clone()));
    println!("after the reset: {effect:?}");
    let sent = matches!(effect, Effect::Send(_));
    if sent {
        attempt.advance(Outcome::Applied(tag("Y")));
    }

    // The record says 30; a claim of 42 has to enter it before it is acknowledged.
    let mut memory = attempt.into_memory().for_key(None);
    // As after any lost swap.
    memory.forget_record();
    let mut claim = Attempt::new(MANY, operation(2, 42, Change::Claim), memory);
    let mut effect = claim.advance(Outcome::Start);
    for _ in 0..2 {
        println!("machine claim: {effect:?}");
        if effect == Effect::Load {
            effect = claim.advance(Outcome::Loaded(reset.clone()));
        }
    }
    let acknowledged = effect == Effect::Finish(Verdict::Claimed);
    println!("machine: {effect:?}");
    assert!(!acknowledged, "acknowledged with 42 while the record holds 30");
    assert!(!sent, "sent with 42 while the record holds 30");
}

/// As above, and then the outcome of its request is never known: its intent has to stay (F7).
#[test]
fn an_operation_that_starts_over_after_a_reset_keeps_its_intent_when_its_outcome_is_unknown() {
    let (put, lower) = (put_of_42(), intent_of_33());
    let mut attempt = Attempt::new(MANY, put, Memory::default());
    let mut effect = attempt.advance(Outcome::Start);
    let (mut swaps, mut reset, mut registered) = (0, false, Vec::new());
    for _ in 0..40 {
        println!("start over: {effect:?}");
        effect = match effect {
            Effect::Observe => attempt.advance(Outcome::Observed { tag: tag("X"), stamp: None }),
            Effect::Load if reset || swaps == 0 => {
                attempt.advance(Outcome::Loaded(snapshot(33, 0, vec![lower.clone()])))
            }
            Effect::Load => {
                reset = true;
                // The reset makes what is open older than whatever comes.
                let mut own: Vec<Intent> = std::mem::take(&mut registered);
                for intent in &mut own {
                    intent.token = Token::new(29).unwrap();
                }
                let own = own.into_iter().filter(|intent: &Intent| intent.key == KeyId::new("k"));
                attempt.advance(Outcome::Loaded(snapshot(30, 1, own.collect())))
            }
            Effect::Look(keys) => {
                let found = keys.into_iter().map(|key| (key, tag("O"))).collect();
                attempt.advance(Outcome::Looked(found))
            }
            Effect::Swap(swap) => {
                swaps += 1;
                registered.clone_from(&swap.next.intents);
                attempt.advance(Outcome::Swapped(RecordVersion::Tag(format!("s{swaps}"))))
            }
            Effect::Send(_) => attempt.advance(Outcome::Unknown),
            Effect::Pause if reset => attempt.advance(Outcome::OutOfPatience),
            Effect::Pause => attempt.advance(Outcome::Paused),
            Effect::Finish(ref verdict) => {
                assert_eq!(*verdict, Verdict::OutcomeUnknown);
                break;
            }
            Effect::Begin(_) => unreachable!("it does not stream"),
        };
    }
    let memory = attempt.into_memory();
    let known = memory.snapshot().unwrap();
    let left = memory.without_settled(known);
    assert_eq!(known.intents().len(), 1);
    assert_eq!(left.intents().len(), 1, "the live intent is taken for settled");
}

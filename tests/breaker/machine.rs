//! The state machine, driven by hand through what no model has yet: a reset by hand.

use fencepost::fence::{
    Action, Attempt, Bearer, Change, ClientCondition, Compare, Contents, Effect, Enforcement, Forms,
    Intent, IntentId, KeyId, Keys, Memory, Operation, OperationId, Outcome, Protocol, Record,
    RecordVersion, Rules, Snapshot, StoreTime, Tag, Tags, Token, Verdict,
};

const MANY: Protocol = Protocol {
    tags: Tags::Repeat,
    keys: Keys::Many,
    delete: Enforcement::Conditional,
    complete: Enforcement::Conditional,
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

/// A write with token 42 waits at the barrier; the record is reset to 30 meanwhile.
#[test]
fn a_reset_while_an_operation_waits_at_the_barrier_starts_it_over() {
    let forms = Forms { plain: tag("Y"), one_part: tag("Y-1") };
    let put = operation(1, 42, Change::Put(Contents::Buffered(forms)));
    let lower = Intent {
        id: IntentId { operation: OperationId::new(9), copy: 0 },
        token: Token::new(33).unwrap(),
        key: KeyId::new("other"),
        action: Action::Conditional { expects: tag("O") },
        registered_at: None,
        expires_at: StoreTime(2_000),
    };
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

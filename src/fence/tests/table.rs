//! The transition table, illegal pairs included: every phase with every outcome.
//!
//! A change of the machine shows up as a change of `transitions.txt`, which is to be reviewed.

use super::*;

/// An attempt in each phase, by its name.
fn phases() -> Vec<(&'static str, Attempt)> {
    let fresh = |operation| Attempt::new(PROTOCOL, operation, Memory::default());
    let at = |protocol, operation, outcomes: &[Outcome]| {
        drive(protocol, operation, Memory::default(), outcomes.to_vec()).0
    };
    let x = || seen(version("X"));
    let sending = [x(), Outcome::Loaded(no_record()), swapped()];
    let sending_and = |more: &[Outcome]| at(PROTOCOL, put(34, "Y"), &[&sending, more].concat());
    let absent = [seen(Tag::Absent), Outcome::Loaded(no_record()), swapped()];
    let exclusive =
        [Outcome::Loaded(no_record()), x(), swapped(), Outcome::Unknown, seen(Tag::Absent)];
    let assembling = [Outcome::Loaded(no_record()), x(), swapped()];
    let other = Intent { key: KeyId::new("other"), ..intent(9, 33, expecting(version("X"))) };
    let lower = Outcome::Loaded(snapshot(33, vec![other]));
    let among_many = [x(), lower.clone(), swapped()];
    let live = [looked("X")];
    let claiming = [lower, swapped()];
    vec![
        ("fresh", fresh(put(34, "Y"))),
        ("observing, to expect", at(PROTOCOL, put(34, "Y"), &[])),
        ("loading", at(PROTOCOL, put(34, "Y"), &sending[..1])),
        ("swapping", at(PROTOCOL, put(34, "Y"), &sending[..2])),
        ("sending", sending_and(&[])),
        ("observing, after a refusal", sending_and(&[Outcome::Refused])),
        ("observing, after no answer", sending_and(&[Outcome::Unknown])),
        ("pausing, to look again", sending_and(&[Outcome::Unknown, x()])),
        (
            "pausing, to start over",
            at(PROTOCOL, put(34, "Y"), &[&sending[..2], &[Outcome::SwapLost]].concat()),
        ),
        ("streaming", at(PROTOCOL, stream(34), &[Outcome::Loaded(no_record()), x()])),
        ("swapping, to enter", at(PROTOCOL, delete(34), &absent[..2])),
        ("observing, to confirm", at(PROTOCOL, delete(34), &absent)),
        ("vouching", at(EXCLUSIVE, delete(34), &exclusive)),
        ("sending an assembly", at(PROTOCOL, assemble(34), &assembling)),
        (
            "observing, after an upload was gone",
            at(PROTOCOL, assemble(34), &[&assembling[..], &[Outcome::Consumed]].concat()),
        ),
        ("sending a touch", at(PROTOCOL, touch(34), &assembling)),
        ("looking at other keys", at(MANY, put(34, "Y"), &among_many)),
        ("pausing at the barrier", at(MANY, put(34, "Y"), &[&among_many[..], &live].concat())),
        (
            "reloading at the barrier",
            at(MANY, put(34, "Y"), &[&among_many[..], &live, &[Outcome::Paused]].concat()),
        ),
        ("swapping, to claim", at(MANY, claim(34), &claiming[..1])),
        ("looking, to claim", at(MANY, claim(34), &claiming)),
        ("finished", sending_and(&[Outcome::Rejected])),
    ]
}

fn looked(tag: &str) -> Outcome {
    Outcome::Looked(vec![(KeyId::new("other"), version(tag))])
}

fn outcomes() -> Vec<(&'static str, Outcome)> {
    let own = Intent {
        id: IntentId { operation: OperationId::new(1), copy: 0 },
        ..intent(1, 34, Action::Exclusive)
    };
    vec![
        ("Start", Outcome::Start),
        ("Observed X", seen(version("X"))),
        ("Observed absent", seen(Tag::Absent)),
        ("Observed own", seen_own(version("Y"))),
        ("ObserveFailed", Outcome::ObserveFailed),
        ("Loaded 33", Outcome::Loaded(snapshot(33, Vec::new()))),
        ("Loaded 34 with own", Outcome::Loaded(snapshot(34, vec![own]))),
        ("Loaded 35", Outcome::Loaded(snapshot(35, Vec::new()))),
        ("Looked X", looked("X")),
        ("Looked Y", looked("Y")),
        ("Swapped", swapped()),
        ("SwappedTogether", Outcome::SwappedTogether(snapshot(34, Vec::new()))),
        ("SwapLost", Outcome::SwapLost),
        ("LedgerFailed", Outcome::LedgerFailed),
        ("Received", Outcome::Received(forms("Y"))),
        ("BodyFailed", Outcome::BodyFailed),
        ("Applied Y", Outcome::Applied(version("Y"))),
        ("Refused", Outcome::Refused),
        ("Rejected", Outcome::Rejected),
        ("Consumed", Outcome::Consumed),
        ("Done", Outcome::Done),
        ("Unknown", Outcome::Unknown),
        ("Paused", Outcome::Paused),
        ("OutOfPatience", Outcome::OutOfPatience),
    ]
}

fn words(effect: &Effect) -> String {
    match effect {
        Effect::Observe | Effect::Load | Effect::Pause => format!("{effect:?}"),
        Effect::Look(keys) => format!("Look at {} keys", keys.len()),
        Effect::Begin(permit) => format!("Begin {:?}", permit.terms().form),
        Effect::Send(permit) => format!("Send {:?}", permit.terms().form),
        Effect::Swap(swap) => {
            format!("Swap to {} with {} intents", swap.next.token, swap.next.intents.len())
        }
        Effect::Finish(verdict) => format!("Finish {verdict:?}"),
    }
}

/// Which of an attempt's phases a table line is about, and the pairs that cannot happen in one line.
fn table() -> String {
    let mut text = String::new();
    for (phase, attempt) in phases() {
        text += &format!("{phase}\n");
        let mut impossible = Vec::new();
        for (name, outcome) in outcomes() {
            let effect = attempt.clone().advance(outcome);
            if effect == Effect::Finish(Verdict::Broken) {
                impossible.push(name);
            } else {
                text += &format!("    {name:<20} {}\n", words(&effect));
            }
        }
        text += &format!("    Broken: {}\n\n", impossible.join(", "));
    }
    text
}

#[test]
fn every_phase_with_every_outcome() {
    let table = table();
    let reviewed = include_str!("../transitions.txt");
    assert!(table == reviewed, "src/fence/transitions.txt should be:\n{table}");
}

//! Operations for which the store enforces no precondition (F8), and how a delete among them is
//! recognised (F10).

use super::*;

#[test]
fn f8_while_an_exclusive_intent_is_open_nothing_else_is_admitted() {
    for holder in [33, 34] {
        for operation in [put(34, "Y"), delete(34)] {
            let open = vec![intent(10, holder, Action::Exclusive)];
            let outcomes = [
                seen(version("X")),
                Outcome::Loaded(snapshot(holder, open)),
                Outcome::OutOfPatience,
            ];
            assert_eq!(effect(PROTOCOL, operation, outcomes), contended(Contention::ExclusiveOpen));
        }
    }
}

#[test]
fn f8_an_exclusive_delete_passes_lower_intents_that_it_kills() {
    let run = |tag, last| {
        let open = vec![intent(10, 33, expecting(tag))];
        effect(
            EXCLUSIVE,
            delete(34),
            [Outcome::Loaded(snapshot(33, open)), seen(version("X")), last],
        )
    };
    let send = run(version("X"), swapped());
    assert!(terms(&send).exclusive);
    // It would leave what the lower one expects.
    assert_eq!(run(Tag::Absent, Outcome::OutOfPatience), contended(Contention::TagExpected));
}

#[test]
fn f8_an_exclusive_request_keeps_its_clients_condition() {
    let mut conditional = delete(34);
    conditional.condition.if_match = Some(ClientMatch::Version("X".into()));
    let open = vec![intent(10, 33, expecting(version("X")))];
    let outcomes =
        [Outcome::Loaded(snapshot(33, open)), seen(version("X")), Outcome::OutOfPatience];
    assert_eq!(effect(EXCLUSIVE, conditional, outcomes), contended(Contention::ExclusiveOpen));

    let mut create = put(34, "Y");
    create.condition.if_none_match_any = true;
    let outcomes = [
        seen(Tag::Absent),
        Outcome::Loaded(snapshot(33, vec![intent(10, 33, expecting(version("Y")))])),
        Outcome::OutOfPatience,
    ];
    assert_eq!(effect(EXCLUSIVE, create, outcomes), contended(Contention::TagExpected));
}

/// An exclusive delete that got no answer and then sees no object.
fn absent_after_no_answer(record: Snapshot) -> Effect {
    let outcomes = [
        Outcome::Loaded(no_record()),
        seen(version("X")),
        swapped(),
        Outcome::Unknown,
        seen(Tag::Absent),
        Outcome::Loaded(record),
    ];
    effect(EXCLUSIVE, delete(34), outcomes)
}

#[test]
fn f10_absence_is_an_exclusive_deletes_success_while_its_intent_is_in_the_record() {
    let own = intent(1, 34, Action::Exclusive);
    assert_eq!(
        absent_after_no_answer(snapshot(34, vec![own])),
        finish(Verdict::Applied { tag: Tag::Absent, recognised: true })
    );
}

/// Regression: the intent had expired, another delete was admitted, and its work was claimed.
#[test]
fn f10_absence_proves_nothing_once_the_intent_has_expired() {
    assert_eq!(absent_after_no_answer(snapshot(35, Vec::new())), finish(Verdict::OutcomeUnknown));
}

/// Regression: the object was looked at, then another delete ran and was settled, then the record
/// was read. The delete that got no answer took the absence for its own work.
#[test]
fn f10_an_exclusive_delete_looks_at_the_object_after_the_record() {
    assert_eq!(effect(EXCLUSIVE, delete(34), []), Effect::Load);
    assert_eq!(effect(EXCLUSIVE, delete(34), [Outcome::Loaded(no_record())]), Effect::Observe);
    // A tag from memory is older than the record.
    let outcomes = [Outcome::Loaded(no_record()), seen(version("X")), swapped(), Outcome::Rejected];
    let (attempt, _) = drive(EXCLUSIVE, delete(34), Memory::default(), outcomes);
    let (_, effect) = drive(EXCLUSIVE, delete(34), attempt.into_memory(), []);
    assert_eq!(effect, Effect::Observe);
}

#[test]
fn f9_what_is_not_a_put_expires_by_its_short_signature_and_the_work_that_it_is() {
    let expiry = |operation| {
        let outcomes = [Outcome::Loaded(no_record()), seen(version("X"))];
        next_record(effect(EXCLUSIVE, operation, outcomes)).intents[0].expires_at.0 - SIGNED_AT
    };
    assert_eq!(expiry(delete(34)), 30);
    assert_eq!(expiry(operation(1, 34, Change::DeleteVersion)), 30);
    assert_eq!(expiry(touch(34)), 30 + 60);
    assert_eq!(expiry(assemble(34)), 30 + 60 + 90);
}

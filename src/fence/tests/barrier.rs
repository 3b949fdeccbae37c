//! F5 and F14: the barrier over many keys, claims, and entering together.

use super::*;

fn other(id: u128, holder: u64, expects: Tag) -> Intent {
    Intent { key: KeyId::new("other"), ..intent(id, holder, expecting(expects)) }
}

fn looked(tag: Tag) -> Outcome {
    Outcome::Looked(vec![(KeyId::new("other"), tag)])
}

/// An attempt to write "Y" with token 34, which has entered a record with this intent.
fn entered(open: Intent) -> (Attempt, Effect) {
    let outcomes = [seen(version("X")), Outcome::Loaded(snapshot(33, vec![open])), swapped()];
    drive(MANY, put(34, "Y"), Memory::default(), outcomes)
}

#[test]
fn f5_a_write_is_not_sent_while_a_lower_intent_on_another_key_may_land() {
    let (mut attempt, effect) = entered(other(9, 33, version("O")));
    assert_eq!(effect, Effect::Look(vec![KeyId::new("other")]));
    assert_eq!(attempt.advance(looked(version("O"))), Effect::Pause);
    assert_eq!(attempt.advance(Outcome::Paused), Effect::Load);
    // It has landed and was settled.
    let own = Intent { key: key(), ..intent(1, 34, expecting(version("X"))) };
    let effect = attempt.advance(Outcome::Loaded(snapshot(34, vec![own])));
    assert!(matches!(effect, Effect::Send(_)), "{effect:?}");
}

#[test]
fn f5_what_expects_another_tag_is_dead() {
    let (mut attempt, _) = entered(other(9, 33, version("O")));
    let effect = attempt.advance(looked(version("P")));
    assert!(matches!(effect, Effect::Send(_)), "{effect:?}");
}

#[test]
fn f5_what_is_exclusive_is_never_dead() {
    let exclusive = Intent { action: Action::Exclusive, ..other(9, 33, Tag::Absent) };
    let (mut attempt, _) = entered(exclusive);
    assert_eq!(attempt.advance(looked(version("P"))), Effect::Pause);
}

#[test]
fn f5_an_equal_token_is_not_waited_for() {
    let (_, effect) = entered(other(9, 34, version("O")));
    assert!(matches!(effect, Effect::Send(_)), "{effect:?}");
}

#[test]
fn f5_patience_ends_with_the_list_and_nothing_sent() {
    let open = other(9, 33, version("O"));
    let (mut attempt, _) = entered(open.clone());
    attempt.advance(looked(version("O")));
    assert_eq!(attempt.advance(Outcome::OutOfPatience), finish(Verdict::Barred(vec![open])));
    assert!(
        attempt.into_memory().owes_withdrawal(),
        "its own intent is settled: it was never sent"
    );
}

#[test]
fn f5_a_newer_token_that_comes_meanwhile_refuses() {
    let (mut attempt, _) = entered(other(9, 33, version("O")));
    attempt.advance(looked(version("O")));
    attempt.advance(Outcome::Paused);
    let effect = attempt.advance(Outcome::Loaded(snapshot(35, vec![])));
    assert_eq!(effect, finish(Verdict::Stale { highest: token(35) }));
    assert!(attempt.into_memory().owes_withdrawal());
}

#[test]
fn f5_is_passed_once_for_a_token() {
    let (mut attempt, _) = entered(other(9, 33, version("O")));
    attempt.advance(looked(version("P")));
    let done = attempt.advance(Outcome::Applied(version("Y")));
    assert!(matches!(done, Effect::Finish(Verdict::Applied { .. })));
    let memory = attempt.into_memory().for_key(Some(version("Y")));
    let (_, effect) = drive(MANY, put(34, "Z"), memory.clone(), [swapped()]);
    assert!(matches!(effect, Effect::Send(_)), "{effect:?}");
    let (_, effect) = drive(MANY, put(35, "Z"), memory, [swapped()]);
    assert!(matches!(effect, Effect::Look(_)), "a newer token has to pass it, too: {effect:?}");
}

/// What was looked at were the other keys. While the write has not landed, its own key is open.
#[test]
fn f5_is_not_passed_for_the_own_key_by_looking_at_others() {
    let own_key = intent(8, 33, expecting(version("X")));
    let record = snapshot(33, vec![own_key, other(9, 33, version("O"))]);
    let outcomes = [seen(version("X")), Outcome::Loaded(record), swapped(), looked(version("P"))];
    let (mut attempt, _) = drive(MANY, put(34, "Y"), Memory::default(), outcomes);
    attempt.advance(Outcome::Rejected);
    let memory = attempt.into_memory().for_key(None);
    let elsewhere = Operation { key: KeyId::new("third"), ..put(34, "Z") };
    let (_, effect) = drive(MANY, elsewhere, memory, [seen(Tag::Absent), swapped()]);
    let Effect::Look(keys) = effect else { panic!("{effect:?}") };
    assert!(keys.contains(&key()));
}

#[test]
fn f14_a_claim_enters_and_waits_for_every_key() {
    let open = vec![intent(8, 33, expecting(version("X"))), other(9, 33, version("O"))];
    let outcomes = [Outcome::Loaded(snapshot(33, open)), swapped()];
    let (mut attempt, effect) = drive(MANY, claim(34), Memory::default(), outcomes);
    assert_eq!(effect, Effect::Look(vec![key(), KeyId::new("other")]));
    let both = vec![(key(), version("Y")), (KeyId::new("other"), Tag::Absent)];
    assert_eq!(attempt.advance(Outcome::Looked(both)), finish(Verdict::Claimed));
    let memory = attempt.into_memory();
    let again = drive(MANY, claim(34), memory, [Outcome::Loaded(snapshot(34, vec![]))]).1;
    assert_eq!(again, finish(Verdict::Claimed));
}

#[test]
fn f14_a_claim_of_a_token_that_has_entered_asks_the_ledger() {
    let (mut attempt, effect) = drive(MANY, claim(34), Memory::default(), []);
    assert_eq!(effect, Effect::Load);
    let effect = attempt.advance(Outcome::Loaded(snapshot(34, vec![])));
    assert_eq!(effect, finish(Verdict::Claimed));
    let (_, effect) = drive(MANY, claim(33), attempt.into_memory(), []);
    assert_eq!(effect, finish(Verdict::Stale { highest: token(34) }));
}

#[test]
fn f14_where_tags_are_unique_a_claim_changes_the_tag() {
    let outcomes = [Outcome::Loaded(snapshot(33, vec![])), seen(version("X")), swapped()];
    let (mut attempt, effect) = drive(UNIQUE, claim(34), Memory::default(), outcomes);
    assert_eq!(terms(&effect).expects, version("X"));
    let effect = attempt.advance(Outcome::Applied(version("u2")));
    assert!(matches!(effect, Effect::Finish(Verdict::Applied { .. })), "{effect:?}");
    let absent = [Outcome::Loaded(snapshot(33, vec![])), seen(Tag::Absent), swapped()];
    let (mut attempt, effect) = drive(UNIQUE, claim(34), Memory::default(), absent);
    assert_eq!(effect, Effect::Observe);
    assert_eq!(attempt.advance(seen(Tag::Absent)), finish(Verdict::Claimed));
}

#[test]
fn every_write_is_announced_among_many_keys_even_where_tags_are_unique() {
    let protocol = Protocol { tags: Tags::Unique, ..MANY };
    let outcomes = [seen(version("X")), Outcome::Loaded(snapshot(34, vec![]))];
    let record = next_record(effect(protocol, put(34, "Y"), outcomes));
    assert_eq!(record.intents.len(), 1);
}

/// Two operations on their way into the record, as `snapshot` would have them.
fn two() -> [Attempt; 2] {
    let one = drive(
        MANY,
        put(34, "Y"),
        Memory::default(),
        [seen(version("X")), Outcome::Loaded(snapshot(33, vec![]))],
    );
    let mut elsewhere = Operation { key: KeyId::new("other"), ..put(34, "Z") };
    elsewhere.id = OperationId::new(2);
    let outcomes = [seen(Tag::Absent), Outcome::Loaded(snapshot(33, vec![]))];
    let other = drive(MANY, elsewhere, Memory::default(), outcomes);
    [one.0, other.0]
}

#[test]
fn operations_enter_together_and_each_is_sent() {
    let [mut one, mut other] = two();
    assert!(one.may_join() && other.may_join());
    let mut state = snapshot(33, vec![]);
    for attempt in [&mut one, &mut other] {
        state.record = Some(attempt.join(&state).unwrap());
    }
    let record = state.record.clone().unwrap();
    assert_eq!((record.token, record.intents.len()), (token(34), 2));
    state.version = RecordVersion::Tag("v2".into());
    for attempt in [&mut one, &mut other] {
        let effect = attempt.advance(Outcome::SwappedTogether(state.clone()));
        assert!(matches!(effect, Effect::Send(_)), "{effect:?}");
    }
    assert_eq!(one.into_memory().snapshot(), Some(&state), "what the other registered is known");
}

#[test]
fn who_does_not_enter_with_the_others_is_judged_by_the_newest_record() {
    let [mut one, _] = two();
    let newer = snapshot(35, vec![]);
    assert_eq!(one.join(&newer), None);
    assert_eq!(one.advance(Outcome::Loaded(newer)), finish(Verdict::Stale { highest: token(35) }));
    let [mut one, mut other] = two();
    let equal = snapshot(34, vec![intent(9, 34, expecting(version("X")))]);
    assert!(other.join(&equal).is_some());
    let exclusive = snapshot(34, vec![intent(9, 34, Action::Exclusive)]);
    assert_eq!(one.join(&exclusive), None);
}

#[test]
fn what_is_exclusive_enters_alone() {
    let outcomes = [Outcome::Loaded(snapshot(33, vec![])), seen(version("X"))];
    let (attempt, effect) = drive(MANY, touch(34), Memory::default(), outcomes);
    assert!(matches!(effect, Effect::Swap(_)));
    assert!(!attempt.may_join());
    let outcomes = [seen(version("X")), Outcome::Loaded(snapshot(33, vec![]))];
    assert!(!drive(PROTOCOL, put(34, "Y"), Memory::default(), outcomes).0.may_join());
}

#[test]
fn the_bearer_is_recorded_with_its_token() {
    let named = |name: &str, holder: u64| Operation {
        bearer: Bearer { lock: None, holder: Some(name.into()) },
        ..put(holder, "Y")
    };
    let outcomes = [seen(version("X")), Outcome::Loaded(snapshot(33, vec![]))];
    let record = next_record(effect(PROTOCOL, named("a", 34), outcomes));
    assert_eq!(record.bearer.holder.as_deref(), Some("a"));
    let taken = Snapshot { record: Some(record), ..snapshot(34, vec![]) };
    let loaded = || [seen(version("X")), Outcome::Loaded(taken.clone())];
    assert_eq!(
        effect(PROTOCOL, named("b", 34), loaded()),
        finish(Verdict::Mismatched(Mismatch::Holder(token(34))))
    );
    let newer = next_record(effect(PROTOCOL, named("b", 35), loaded()));
    assert_eq!(newer.bearer.holder.as_deref(), Some("b"));
    assert!(matches!(effect(PROTOCOL, put(34, "Y"), loaded()), Effect::Swap(_)));
}

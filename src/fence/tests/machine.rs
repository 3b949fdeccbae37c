//! Each rule on its own.

use super::*;

/// What the proxy remembers after a load.
fn remembering(snapshot: Snapshot) -> Memory {
    let mut memory = Memory::default();
    memory.loaded(snapshot);
    memory
}

#[test]
fn f1_a_lower_token_is_refused_and_an_equal_one_is_not() {
    let highest = token(35);
    let load = |holder| {
        effect(
            PROTOCOL,
            put(holder, "Y"),
            [seen(version("X")), Outcome::Loaded(snapshot(35, Vec::new()))],
        )
    };
    assert_eq!(load(34), finish(Verdict::Stale { highest }));
    assert_eq!(next_record(load(35)).token, highest);
    assert_eq!(next_record(load(36)).token, token(36));
}

#[test]
fn f1_strictly_greater_refuses_others_and_not_itself() {
    let strict = Protocol { compare: Compare::StrictlyGreater, ..PROTOCOL };
    let x = || seen(version("X"));
    let loaded = |holder| Outcome::Loaded(snapshot(holder, Vec::new()));
    assert_eq!(
        effect(strict, put(34, "Y"), [x(), loaded(34)]),
        finish(Verdict::Stale { highest: token(34) })
    );
    // It enters, is refused by the store, and finds the record at its own token.
    let entered = [x(), loaded(33), swapped(), Outcome::Refused, x()];
    assert_eq!(next_record(effect(strict, put(34, "Y"), entered)).token, token(34));
}

#[test]
fn f1_strictly_greater_has_no_chain() {
    let outcomes = [
        seen(version("u1")),
        Outcome::Loaded(no_record()),
        swapped(),
        Outcome::Applied(version("u2")),
    ];
    let strict = Protocol { compare: Compare::StrictlyGreater, ..UNIQUE };
    for (protocol, expected) in [(strict, "Observe"), (UNIQUE, "Send")] {
        let (attempt, _) = drive(protocol, put(34, "Y"), Memory::default(), outcomes.clone());
        let mut memory = attempt.into_memory();
        memory.forget_record();
        let (_, effect) = drive(protocol, put(34, "X"), memory, []);
        assert!(format!("{effect:?}").starts_with(expected), "{effect:?}");
    }
}

#[test]
fn f2_nothing_is_sent_before_the_intent_is_in_the_record() {
    let swap = effect(
        PROTOCOL,
        put(34, "Y"),
        [seen(version("X")), Outcome::Loaded(snapshot(33, Vec::new()))],
    );
    let record = next_record(swap);
    assert_eq!(record.token, token(34));
    let [own] = &record.intents[..] else { panic!("{record:?}") };
    assert_eq!((own.token, &own.action), (token(34), &expecting(version("X"))));
}

#[test]
fn f3_the_request_carries_the_precondition_of_its_intent() {
    for (tag, precondition) in [
        (version("X"), Precondition::IfMatch("X".into())),
        (Tag::Absent, Precondition::IfNoneMatchAny),
    ] {
        let send =
            effect(PROTOCOL, put(34, "Y"), [seen(tag), Outcome::Loaded(no_record()), swapped()]);
        assert_eq!(terms(&send).precondition(), precondition);
    }
}

#[test]
fn f4_the_form_avoids_what_lower_intents_expect() {
    let send = |lower: &[&str]| {
        let intents =
            lower.iter().zip(10..).map(|(tag, id)| intent(id, 33, expecting(version(tag))));
        effect(
            PROTOCOL,
            put(34, "Y"),
            [seen(version("X")), Outcome::Loaded(snapshot(33, intents.collect())), swapped()],
        )
    };
    assert_eq!(terms(&send(&[])).form, Form::Plain);
    assert_eq!(terms(&send(&["X"])).form, Form::Plain);
    assert_eq!(terms(&send(&["Y"])).form, Form::OnePart);
    assert_eq!(terms(&send(&["Y"])).leaves, Some(version("Y-1")));

    let both =
        vec![intent(10, 33, expecting(version("Y"))), intent(11, 33, expecting(version("Y-1")))];
    let outcomes =
        [seen(version("X")), Outcome::Loaded(snapshot(33, both)), Outcome::OutOfPatience];
    assert_eq!(effect(PROTOCOL, put(34, "Y"), outcomes), contended(Contention::TagExpected));
}

#[test]
fn f4_equal_tokens_are_not_avoided() {
    let equal = vec![intent(10, 34, expecting(version("Y")))];
    let outcomes = [seen(version("X")), Outcome::Loaded(snapshot(34, equal)), swapped()];
    assert_eq!(terms(&effect(PROTOCOL, put(34, "Y"), outcomes)).form, Form::Plain);
}

#[test]
fn f4_a_stream_chooses_its_form_before_its_bytes_are_known() {
    let begin = |protocol, tags: &[Tag]| {
        let intents = tags.iter().zip(10..).map(|(tag, id)| intent(id, 33, expecting(tag.clone())));
        let loaded = Outcome::Loaded(snapshot(33, intents.collect()));
        terms(&effect(protocol, stream(34), [loaded, seen(version("X"))])).form
    };
    assert_eq!(begin(PROTOCOL, &[]), Form::Plain);
    assert_eq!(begin(PROTOCOL, &[Tag::Absent, version("Z-1")]), Form::Plain);
    assert_eq!(begin(PROTOCOL, &[version("Z")]), Form::OnePart);
    assert_eq!(begin(UNIQUE, &[version("Z")]), Form::Plain);
}

#[test]
fn f4_a_stream_that_cannot_keep_its_form_is_cut_off() {
    let lower = vec![intent(10, 33, expecting(version("Y")))];
    let outcomes = [
        Outcome::Loaded(no_record()),
        seen(version("X")),
        Outcome::Received(forms("Y")),
        Outcome::Loaded(snapshot(33, lower)),
        Outcome::OutOfPatience,
    ];
    assert_eq!(effect(PROTOCOL, stream(34), outcomes), contended(Contention::TagExpected));
}

#[test]
fn f5_a_delete_of_what_is_absent_waits_for_lower_intents() {
    let run = |action, last: Outcome| {
        let outcomes = [
            seen(Tag::Absent),
            Outcome::Loaded(snapshot(33, vec![intent(10, 33, action)])),
            swapped(),
            last,
        ];
        effect(PROTOCOL, delete(34), outcomes)
    };
    assert_eq!(run(expecting(Tag::Absent), seen(Tag::Absent)), Effect::Pause);
    assert_eq!(run(Action::Exclusive, seen(Tag::Absent)), Effect::Pause);
    // Dead: it expects an object.
    assert_eq!(run(expecting(version("X")), seen(Tag::Absent)), finish(Verdict::AlreadyAbsent));
    // It has come into being: a real delete after all.
    assert!(matches!(run(expecting(version("Z")), seen(version("X"))), Effect::Swap(_)));
}

#[test]
fn f6_a_dead_intent_stays_and_a_settled_one_is_taken_out() {
    let dead = intent(10, 33, expecting(version("Z")));
    let outcomes = [
        seen(version("X")),
        Outcome::Loaded(snapshot(33, vec![dead.clone()])),
        swapped(),
        Outcome::Applied(version("Y")),
    ];
    let (attempt, effect) = drive(PROTOCOL, put(34, "Y"), Memory::default(), outcomes);
    assert_eq!(effect, finish(Verdict::Applied { tag: version("Y"), recognised: false }));
    let mut memory = attempt.into_memory();
    assert!(memory.owes_withdrawal());
    let swap = memory.withdrawal().expect("the record is remembered");
    assert_eq!(swap.next, Record::new(token(34), vec![dead]));
    assert_eq!(swap.base, RecordVersion::Tag("v2".into()));
    memory.swapped(swap.next, RecordVersion::Tag("v3".into()));
    assert!(!memory.owes_withdrawal());
    assert_eq!(memory.withdrawal(), None);
}

#[test]
fn f6_what_is_settled_while_a_withdrawal_is_on_its_way_is_still_owed() {
    let both = vec![intent(10, 33, expecting(Tag::Absent)), intent(11, 33, expecting(Tag::Absent))];
    let mut memory = remembering(snapshot(33, both.clone()));
    memory.settle(both[0].id);
    let swap = memory.withdrawal().expect("one is settled");
    memory.settle(both[1].id);
    memory.swapped(swap.next, RecordVersion::Tag("v2".into()));
    let left = memory.withdrawal().expect("the other is owed");
    assert_eq!(left.next.intents, []);
}

#[test]
fn f6_the_swap_that_was_lost_may_have_landed_and_its_intent_is_settled() {
    let outcomes = [seen(version("X")), Outcome::Loaded(no_record()), Outcome::LedgerFailed];
    let (attempt, effect) = drive(PROTOCOL, put(34, "Y"), Memory::default(), outcomes);
    assert_eq!(effect, finish(Verdict::Unavailable));
    assert!(attempt.into_memory().owes_withdrawal());
}

#[test]
fn f7_an_unknown_intent_stays_and_is_never_called_refused() {
    let looks = [seen(version("X")), Outcome::Paused, Outcome::ObserveFailed];
    let outcomes = [seen(version("X")), Outcome::Loaded(no_record()), swapped(), Outcome::Unknown];
    let (attempt, effect) =
        drive(PROTOCOL, put(34, "Y"), Memory::default(), outcomes.into_iter().chain(looks));
    assert_eq!(effect, finish(Verdict::OutcomeUnknown));
    assert!(!attempt.into_memory().owes_withdrawal());
}

#[test]
fn f9_an_intent_expires_when_the_store_has_stopped_taking_its_request() {
    let expires = |protocol, operation, outcomes: &[Outcome]| {
        next_record(effect(protocol, operation, outcomes.to_vec())).intents[0].expires_at.0
    };
    let buffered = [seen(version("X")), Outcome::Loaded(no_record())];
    assert_eq!(expires(PROTOCOL, put(34, "Y"), &buffered), SIGNED_AT + 900 + 60);
    assert_eq!(expires(PROTOCOL, delete(34), &buffered), SIGNED_AT + 30);

    let streamed = |time: Option<u64>, lower: &[Intent]| {
        let at = |time: Option<u64>| {
            Outcome::Loaded(Snapshot { time: time.map(StoreTime), ..snapshot(33, lower.to_vec()) })
        };
        [at(Some(SIGNED_AT)), seen(version("X")), Outcome::Received(forms("Y")), at(time)]
    };
    let last = |outcomes: &[Outcome]| {
        let record = next_record(effect(PROTOCOL, stream(34), outcomes.to_vec()));
        record.intents.last().expect("its own").expires_at.0
    };
    assert_eq!(last(&streamed(Some(1_100), &[])), SIGNED_AT + 900 + 60);
    assert_eq!(last(&streamed(Some(5_000), &[])), 5_000 + 60);
    assert_eq!(last(&streamed(None, &[])), u64::MAX);
    // In the other form what completes the upload is signed anew.
    let avoids =
        Intent { expires_at: StoreTime(u64::MAX), ..intent(10, 33, expecting(version("Z"))) };
    assert_eq!(last(&streamed(Some(5_000), std::slice::from_ref(&avoids))), 5_000 + 900 + 60);
    let send = effect(
        PROTOCOL,
        stream(34),
        streamed(Some(5_000), &[avoids]).into_iter().chain([swapped()]),
    );
    assert_eq!((terms(&send).form, terms(&send).signed_at), (Form::OnePart, 5_000));
}

#[test]
fn f9_an_intent_is_open_up_to_its_last_second_and_without_a_clock() {
    let left = |time| {
        let mut loaded = snapshot(33, vec![intent(10, 33, expecting(version("Z")))]);
        loaded.time = time;
        let swap = effect(PROTOCOL, put(34, "Y"), [seen(version("X")), Outcome::Loaded(loaded)]);
        next_record(swap).intents.len() - 1
    };
    assert_eq!(left(Some(StoreTime(2_000))), 1);
    assert_eq!(left(Some(StoreTime(2_001))), 0);
    assert_eq!(left(None), 1);
}

#[test]
fn f10_its_own_stamp_is_success_whatever_the_answer_was() {
    for answer in [Outcome::Unknown, Outcome::Refused] {
        let outcomes = [
            seen(version("X")),
            Outcome::Loaded(no_record()),
            swapped(),
            answer,
            seen_own(version("Y")),
        ];
        let (attempt, effect) = drive(PROTOCOL, put(34, "Y"), Memory::default(), outcomes);
        assert_eq!(effect, finish(Verdict::Applied { tag: version("Y"), recognised: true }));
        assert!(attempt.into_memory().owes_withdrawal());
    }
}

/// Regression: a refusal that might be the operation's own success was called "nothing changed".
#[test]
fn f10_a_refusal_that_cannot_be_looked_into_is_an_unknown_outcome() {
    let outcomes = [
        seen(version("X")),
        Outcome::Loaded(no_record()),
        swapped(),
        Outcome::Refused,
        Outcome::ObserveFailed,
    ];
    assert_eq!(effect(PROTOCOL, put(34, "Y"), outcomes), finish(Verdict::OutcomeUnknown));
}

#[test]
fn f11_without_the_ledger_nothing_is_sent() {
    let outcomes = [seen(version("X")), Outcome::LedgerFailed];
    assert_eq!(effect(PROTOCOL, put(34, "Y"), outcomes), finish(Verdict::Unavailable));
}

#[test]
fn f12_a_remembered_record_refuses_at_once_and_never_admits() {
    let newer = remembering(snapshot(35, Vec::new()));
    let (_, effect) = drive(PROTOCOL, put(34, "Y"), newer, []);
    assert_eq!(effect, finish(Verdict::Stale { highest: token(35) }));

    // It guesses the swap; the ledger judges it.
    let same = remembering(snapshot(34, Vec::new()));
    let (_, effect) = drive(PROTOCOL, put(34, "Y"), same.clone(), [seen(version("X"))]);
    assert!(matches!(effect, Effect::Swap(_)));
    // Where tags are unique nothing needs to be swapped, so it is loaded again.
    let (_, effect) = drive(UNIQUE, put(34, "Y"), same.clone(), [seen(version("u1"))]);
    assert_eq!(effect, Effect::Load);
    // And so it is for a delete of what is absent.
    let (_, effect) = drive(PROTOCOL, delete(34), same, [seen(Tag::Absent)]);
    assert_eq!(effect, Effect::Load);
}

#[test]
fn f12_a_contention_by_a_remembered_record_is_looked_into_before_waiting() {
    let open = remembering(snapshot(33, vec![intent(10, 33, Action::Exclusive)]));
    let (_, effect) = drive(PROTOCOL, put(34, "Y"), open, [seen(version("X"))]);
    assert_eq!(effect, Effect::Load);
}

#[test]
fn a_chain_costs_one_request_a_write() {
    let outcomes = [
        seen(version("u1")),
        Outcome::Loaded(snapshot(34, Vec::new())),
        Outcome::Applied(version("u2")),
    ];
    let (attempt, _) = drive(UNIQUE, put(34, "Y"), Memory::default(), outcomes);
    let (attempt, send) = drive(UNIQUE, put(34, "X"), attempt.into_memory(), []);
    assert_eq!((terms(&send).expects, terms(&send).intent), (version("u2"), None));
    // Any answer but success ends it.
    let mut broken = attempt.clone();
    assert_eq!(broken.advance(Outcome::Refused), Effect::Observe);
    let (_, effect) = drive(UNIQUE, put(34, "X"), broken.into_memory(), []);
    assert_eq!(effect, Effect::Observe);
    // Another token has its own chain to begin.
    let (_, effect) = drive(UNIQUE, put(35, "X"), attempt.into_memory(), []);
    assert_eq!(effect, Effect::Observe);
}

#[test]
fn a_full_record_admits_nobody() {
    let tags = ["V", "W", "X", "Z"].map(version);
    let four = tags.into_iter().zip(10..).map(|(tag, id)| intent(id, 33, expecting(tag)));
    let outcomes =
        [seen(version("X")), Outcome::Loaded(snapshot(33, four.collect())), Outcome::OutOfPatience];
    assert_eq!(effect(PROTOCOL, put(34, "Y"), outcomes), contended(Contention::RecordFull));
}

/// Regression: a store that answered nobody for a minute left 64 intents, all alike, and for
/// twenty minutes nobody could write the key.
#[test]
fn a_record_full_of_the_same_intent_makes_room() {
    let mut four: Vec<Intent> =
        (10..14).map(|id| intent(id, 33, expecting(version("Z")))).collect();
    four[1].token = token(31);
    four[2].expires_at = StoreTime(9_000);
    let mut attempt = Attempt::new(PROTOCOL, put(34, "Y"), Memory::default());
    let mut last = attempt.advance(Outcome::Start);
    for outcome in [seen(version("X")), Outcome::Loaded(snapshot(33, four.clone()))] {
        last = attempt.advance(outcome);
    }
    let Effect::Swap(swap) = last else { panic!("it is admitted: {last:?}") };
    let [merged, own] = swap.next.intents.as_slice() else { panic!("{:?}", swap.next) };
    assert_eq!((merged.token, merged.expires_at), (token(31), StoreTime(9_000)));
    assert_eq!(merged.action, expecting(version("Z")));
    assert!(four.iter().all(|intent| intent.id != merged.id), "nobody may settle it by name");
    assert_ne!(merged.id, own.id);
}

/// Regression: refused writes were tried again without end.
#[test]
fn rounds_max_bounds_refused_writes() {
    let mut attempt = Attempt::new(PROTOCOL, put(34, "Y"), Memory::default());
    let mut effect = attempt.advance(Outcome::Start);
    let mut sent = 0;
    for _ in 0..100 {
        effect = attempt.advance(match effect {
            Effect::Observe => seen(version("X")),
            Effect::Load => Outcome::Loaded(no_record()),
            Effect::Swap(_) => swapped(),
            Effect::Send(_) => {
                sent += 1;
                Outcome::Refused
            }
            Effect::Pause => Outcome::Paused,
            Effect::Begin(_) => panic!("there is no stream"),
            Effect::Look(_) => panic!("there are no other keys"),
            Effect::Finish(verdict) => {
                assert_eq!(verdict, Verdict::Contended(Contention::LostRaces));
                assert_eq!(sent, PROTOCOL.rounds_max + 1);
                return;
            }
        });
    }
    panic!("it goes on and on");
}

#[test]
fn a_tag_that_was_not_foretold_is_checked_against_lower_intents() {
    let open = vec![intent(10, 33, expecting(version("Z")))];
    let outcomes = [
        seen(version("X")),
        Outcome::Loaded(snapshot(33, open)),
        swapped(),
        Outcome::Applied(version("Z")),
    ];
    assert_eq!(effect(PROTOCOL, put(34, "Y"), outcomes), finish(Verdict::OutcomeUnknown));
}

#[test]
fn the_clients_own_condition_is_judged_on_what_is_seen() {
    let mut create = put(34, "Y");
    create.condition.if_none_match_any = true;
    assert_eq!(
        effect(PROTOCOL, create, [seen(version("X")), Outcome::Loaded(snapshot(34, vec![]))]),
        finish(Verdict::ConditionFailed(ConditionFailure::IfNoneMatch))
    );
    let mut update = put(34, "Y");
    update.condition.if_match = Some(ClientMatch::Version("W".into()));
    for (tag, failure) in
        [(version("X"), ConditionFailure::IfMatch), (Tag::Absent, ConditionFailure::NoSuchKey)]
    {
        assert_eq!(
            effect(
                PROTOCOL,
                update.clone(),
                [seen(tag.clone()), Outcome::Loaded(snapshot(34, vec![]))]
            ),
            finish(Verdict::ConditionFailed(failure))
        );
        let newer = Outcome::Loaded(snapshot(35, vec![]));
        assert_eq!(
            effect(PROTOCOL, update.clone(), [seen(tag), newer]),
            finish(Verdict::Stale { highest: token(35) }),
            "that a newer holder has written comes first (F1)"
        );
    }
}

//! Scopes of two keys: the barrier (F5), claims (F14), and operations that enter together.

use super::*;

fn two_keys(protocol: Protocol, faults: Faults, starts: Vec<Start>) -> Setting {
    Setting { keys: 2, ..setting(protocol, faults, starts) }
}

/// A holder writes the first key; the next one writes the second, or claims, or both.
fn handovers() -> Vec<Start> {
    let mut starts = Vec::new();
    for object in [None, Some("X")] {
        for first in ASKS {
            for second in [PUT_X, Ask::Delete, Ask::Touch, CLAIM] {
                starts.push((object, vec![on(0, 33, first), on(1, 34, second)]));
            }
        }
    }
    starts
}

#[test]
fn without_the_barrier_a_late_write_lands_on_a_key_that_the_new_holder_has_not_touched() {
    let write = vec![(Some("X"), vec![on(0, 33, PUT_Y), on(1, 34, PUT_Y)])];
    let claim = vec![(Some("X"), vec![on(0, 33, PUT_Y), on(0, 34, CLAIM)])];
    for (name, protocol) in [("repeat", MANY), ("unique", UNIQUE_MANY)] {
        for (what, starts) in [("write", &write), ("claim", &claim)] {
            breaks(
                &format!("F5 off, tags {name}, {what}"),
                &[Rule::Barrier],
                Violation::StaleWriteLanded,
                two_keys(protocol, NONE, starts.clone()),
            );
        }
    }
}

/// What the barrier found dead must not come alive again.
#[test]
fn without_keeping_dead_intents_a_claim_does_not_last() {
    let clients = vec![on(0, 33, PUT_Y), on(0, 34, PUT_Y), on(0, 34, CLAIM), on(0, 34, PUT_X)];
    let starts = vec![(Some("X"), clients)];
    let mut setting = two_keys(MANY, NONE, starts);
    setting.proxies = 1;
    setting.pauses = 0;
    breaks("F6 off, many keys", &[Rule::KeepDead], Violation::StaleWriteLanded, setting);
}

#[test]
fn without_avoiding_what_is_dead_comes_alive() {
    let clients = vec![on(0, 33, PUT_Y), on(0, 34, PUT_Y), on(0, 34, PUT_X)];
    let mut setting = two_keys(MANY, NONE, vec![(Some("X"), clients)]);
    setting.proxies = 1;
    breaks("F4 off, many keys", &[Rule::Avoid], Violation::StaleWriteLanded, setting);
}

#[test]
fn a_handover_between_two_keys() {
    let faults = Faults { timeouts: 1, swaps_lost: 1, crashes: 1, ..NONE };
    let exclusive = Enforcement::Exclusive;
    let all_exclusive = Protocol { delete: exclusive, complete: exclusive, ..MANY };
    for protocol in [MANY, UNIQUE_MANY, all_exclusive] {
        let name = format!("two keys, tags {:?}, DELETE {:?}", protocol.tags, protocol.delete);
        let shown = ["looks at other keys", "claimed", "two may enter together"];
        holds(&name, two_keys(protocol, faults, handovers()), &shown);
    }
}

#[test]
fn a_handover_while_ledger_and_store_fail_and_time_passes() {
    let starts: Vec<Start> = [None, Some("X")]
        .into_iter()
        .flat_map(|object| {
            [PUT_X, CLAIM].map(|second| (object, vec![on(0, 33, PUT_Y), on(1, 34, second)]))
        })
        .collect();
    let faults = Faults { timeouts: 1, outages: 1, swaps_lost: 1, ticks: 3, ..NONE };
    for protocol in [MANY, UNIQUE_MANY] {
        let name = format!("two keys and time, tags {:?}", protocol.tags);
        let shown = ["looks at other keys", "claimed", "signature too old"];
        holds(&name, two_keys(protocol, faults, starts.clone()), &shown);
    }
}

#[test]
fn three_operations_on_two_keys() {
    let x = |clients: Vec<Client>| (Some("X"), clients);
    let starts = vec![
        // Both keys of the old holder.
        x(vec![on(0, 33, PUT_Y), on(1, 33, PUT_Y), on(0, 34, CLAIM)]),
        x(vec![on(0, 33, PUT_Y), on(1, 33, Ask::Delete), on(1, 34, PUT_X)]),
        // The new one claims, then writes.
        x(vec![on(0, 33, PUT_Y), on(0, 34, CLAIM), on(0, 34, PUT_X)]),
        x(vec![on(0, 33, PUT_X), on(1, 34, PUT_Y), on(0, 34, PUT_X)]),
        // A chain of holders.
        x(vec![on(0, 33, PUT_Y), on(1, 34, PUT_Y), on(0, 35, CLAIM)]),
        x(vec![on(0, 33, PUT_X), on(0, 34, PUT_Y), on(1, 35, PUT_Y)]),
        (None, vec![on(0, 33, PUT_Y), on(1, 34, PUT_Y), on(0, 34, Ask::Delete)]),
        // What leaves the tag, or brings one back.
        x(vec![on(0, 33, PUT_Y), on(1, 34, Ask::Touch), on(0, 34, Ask::Touch)]),
        x(vec![on(0, 33, PUT_Y), on(0, 34, PUT_Y), on(0, 34, Ask::DeleteVersion)]),
    ];
    for protocol in [MANY, UNIQUE_MANY] {
        for start in starts.clone() {
            let name = format!("threes on two keys, tags {:?}, {start:?}", protocol.tags);
            let mut setting = two_keys(protocol, TIMEOUT, vec![start]);
            setting.pauses = 0;
            quiet(&name, setting);
        }
    }
}

/// Claims where one object is the scope: with unique tags they change its tag.
#[test]
fn claims_of_one_object() {
    let faults = Faults { timeouts: 1, swaps_lost: 1, crashes: 1, ..NONE };
    let starts = every(&[(33, &ASKS), (34, &[CLAIM])]);
    for protocol in [PROTOCOL, UNIQUE] {
        let name = format!("claims of one object, tags {:?}", protocol.tags);
        holds(&name, setting(protocol, faults, starts.clone()), &["claimed"]);
    }
    // The old holder goes on by its chain, which no record knows of.
    let starts = vec![
        (Some("X"), clients(&[(33, PUT_X), (33, PUT_Y), (34, CLAIM)])),
        (None, clients(&[(33, PUT_X), (33, PUT_Y), (34, CLAIM)])),
        (Some("X"), clients(&[(33, PUT_X), (33, Ask::Delete), (34, CLAIM)])),
    ];
    holds("claims against chains", setting(UNIQUE, TIMEOUT, starts), &["chain", "claimed"]);
}

#[expect(clippy::panic, reason = "the trace is the message")]
fn quiet(name: &str, mut setting: Setting) {
    let found = search(&mut setting, STATES_MAX);
    println!("{name}: {} states\n    {:?}", found.states, setting.seen);
    if let Some((start, actions)) = &found.violation {
        panic!("{name}:\n{}", trace::trace(&setting, start, actions));
    }
    assert!(setting.seen.contains_key("all applied"), "{name}: never all applied");
}

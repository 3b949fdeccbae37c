//! The protocol, searched exhaustively: two proxies, two or three operations, and every order in
//! which requests, answers and faults can happen.
//!
//! The proxies run the code of `src/fence` itself. A search ends when no state is left, so a green
//! run means: within these worlds there is no way to break the promise. The other half of the
//! proof is that the same worlds show the violation when a rule is switched off.
//!
//! `FENCEPOST_TEST_MODEL=full` searches larger worlds too; they take about an hour.

#![expect(clippy::print_stdout, reason = "the size of each search is part of its result")]

#[path = "model/crowds.rs"]
mod crowds;
#[path = "model/dice.rs"]
mod dice;
#[path = "model/keys.rs"]
mod keys;
#[path = "model/others.rs"]
mod others;
#[path = "model/proxies.rs"]
mod proxies;
#[path = "model/search.rs"]
mod search;
#[path = "model/steps.rs"]
mod steps;
#[path = "model/store.rs"]
mod store;
#[path = "model/trace.rs"]
mod trace;
#[path = "model/uploads.rs"]
mod uploads;
#[path = "model/world.rs"]
mod world;

use dice::Dice;
use fencepost::clock;
use fencepost::fence::{
    ClientCondition, ClientMatch, Compare, Enforcement, Keys, Protocol, Rule, Rules, Tags,
};
use search::{Space, search};
use std::collections::BTreeMap;
use world::{Ask, Client, Faults, Setting, Violation};

/// Far above every default search; only a full run comes near it.
const STATES_MAX: usize = 60_000_000;

const PROTOCOL: Protocol = Protocol {
    tags: Tags::Repeat,
    keys: Keys::One,
    delete: Enforcement::Conditional,
    complete: Enforcement::Conditional,
    one_part: true,
    compare: Compare::AtLeast,
    intents_max: 8,
    rounds_max: 1,
    read_backs_max: 1,
    signature_seconds: 1,
    bodiless_life_seconds: 1,
    body_stall_seconds: 1,
    assembly_seconds: 1,
    rules: Rules::ALL,
};

const UNIQUE: Protocol = Protocol { tags: Tags::Unique, ..PROTOCOL };
const MANY: Protocol = Protocol { keys: Keys::Many, ..PROTOCOL };
const UNIQUE_MANY: Protocol = Protocol { keys: Keys::Many, ..UNIQUE };

const NONE: Faults = Faults {
    timeouts: 0,
    swaps_lost: 0,
    outages: 0,
    crashes: 0,
    ticks: 0,
    retries: 0,
    broken_bodies: 0,
    resets: 0,
};

const TIMEOUT: Faults = Faults { timeouts: 1, ..NONE };

const PUT_X: Ask = Ask::Put("X");
const PUT_Y: Ask = Ask::Put("Y");
const ASKS: [Ask; 3] = [PUT_X, PUT_Y, Ask::Delete];

const COMPLETE_X: Ask = Ask::Complete("X");
const COMPLETE_Y: Ask = Ask::Complete("Y");
const CLAIM: Ask = Ask::Claim;
const UNFORETOLD: Ask = Ask::CompleteUnforetold("X");

/// An object's first content, and the clients.
type Start = (Option<&'static str>, Vec<Client>);

fn client(token: u64, ask: Ask) -> Client {
    Client { token, key: 0, ask, condition: ClientCondition::default(), upload: None }
}

/// One that asks for another key than the first.
fn on(key: usize, token: u64, ask: Ask) -> Client {
    Client { key, ..client(token, ask) }
}

fn clients(asks: &[(u64, Ask)]) -> Vec<Client> {
    asks.iter().map(|&(token, ask)| client(token, ask)).collect()
}

/// Every combination of the asks for clients with these tokens, on no object and on "X".
fn every(tokens: &[(u64, &[Ask])]) -> Vec<Start> {
    let mut all: Vec<Vec<Client>> = vec![Vec::new()];
    for (token, asks) in tokens {
        let with = |before: &Vec<Client>| {
            let before = before.clone();
            asks.iter().map(move |ask| [before.clone(), vec![client(*token, *ask)]].concat())
        };
        all = all.iter().flat_map(with).collect::<Vec<_>>();
    }
    let objects = [None, Some("X")];
    objects
        .into_iter()
        .flat_map(|object| all.iter().map(move |asks| (object, asks.clone())))
        .collect()
}

fn pairs() -> Vec<Start> {
    every(&[(33, &ASKS), (34, &ASKS)])
}

fn setting(protocol: Protocol, faults: Faults, starts: Vec<Start>) -> Setting {
    let assembles = Enforcement::Exclusive;
    Setting {
        protocol,
        faults,
        proxies: 2,
        keys: 1,
        assembles,
        idempotent: false,
        pauses: 1,
        shared: false,
        starts,
        seen: BTreeMap::new(),
    }
}

/// Searches all of it; nothing may be violated, and each of `shown` must have happened, because a
/// world in which it never happens proves nothing about it.
#[expect(clippy::panic, reason = "the trace is the message")]
fn holds(name: &str, mut setting: Setting, shown: &[&str]) {
    let began = clock::monotonic();
    let found = search(&mut setting, STATES_MAX);
    println!(
        "{name}: {} states, {} steps, depth {}, {:.1?}\n    {:?}",
        found.states,
        found.steps,
        found.depth,
        began.elapsed(),
        setting.seen
    );
    if let Some((start, actions)) = &found.violation {
        panic!("{name}:\n{}", trace::trace(&setting, start, actions));
    }
    for what in ["all applied", "refused"].iter().chain(shown) {
        assert!(setting.seen.contains_key(what), "{name}: never {what}");
    }
}

/// The protocol without some rules: a shortest way to the violation, which must exist.
#[expect(clippy::panic, reason = "a helper of tests")]
fn breaks(name: &str, rules: &[Rule], violation: Violation, mut setting: Setting) {
    setting.protocol.rules = rules.iter().fold(Rules::ALL, |rules, rule| rules.without(*rule));
    let found = search(&mut setting, STATES_MAX);
    let Some((start, actions)) = &found.violation else {
        panic!("{name}: nothing is violated in {} states", found.states)
    };
    let trace = trace::trace(&setting, start, actions);
    println!("{name}: {} steps, found after {} states\n{trace}", actions.len(), found.states);
    assert!(trace.ends_with(&format!("violated: Some({violation:?})\n")), "another violation");

    setting.protocol.rules = Rules::ALL;
    setting.seen.clear();
    let found = search(&mut setting, STATES_MAX);
    assert!(found.violation.is_none(), "{name}: and so it is with all rules");
    println!("    with all rules: {} states, no violation", found.states);
}

fn full(name: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "a switch of the test, not of the proxy")]
    let full = std::env::var("FENCEPOST_TEST_MODEL").is_ok_and(|value| value == "full");
    if !full {
        println!("{name}: skipped, it takes about an hour; FENCEPOST_TEST_MODEL=full searches it");
    }
    full
}

#[test]
fn without_registering_a_late_write_lands() {
    breaks(
        "F2 off",
        &[Rule::Register],
        Violation::StaleWriteLanded,
        setting(PROTOCOL, TIMEOUT, pairs()),
    );
}

#[test]
fn without_avoiding_a_late_write_lands() {
    breaks(
        "F4 off",
        &[Rule::Avoid],
        Violation::StaleWriteLanded,
        setting(PROTOCOL, TIMEOUT, pairs()),
    );
}

#[test]
fn without_keeping_dead_intents_a_late_write_lands() {
    // The first write of 34 kills the intent of 33; the second brings the tag back that it expects.
    let starts = vec![(Some("X"), clients(&[(33, PUT_Y), (34, PUT_Y), (34, PUT_X)]))];
    breaks(
        "F6 off",
        &[Rule::KeepDead],
        Violation::StaleWriteLanded,
        setting(PROTOCOL, NONE, starts),
    );
}

#[test]
fn without_keeping_unknown_intents_a_late_write_lands() {
    breaks(
        "F7 off",
        &[Rule::KeepUnknown],
        Violation::StaleWriteLanded,
        setting(PROTOCOL, TIMEOUT, pairs()),
    );
}

#[test]
fn with_a_precondition_alone_a_late_write_lands() {
    breaks(
        "If-Match only",
        &[Rule::Register, Rule::Avoid, Rule::KeepDead, Rule::KeepUnknown],
        Violation::StaleWriteLanded,
        setting(PROTOCOL, TIMEOUT, pairs()),
    );
}

#[test]
fn with_the_tag_learnt_after_the_record_a_stale_write_lands() {
    let starts = vec![(Some("X"), clients(&[(33, PUT_X), (33, PUT_Y), (34, PUT_X)]))];
    breaks(
        "unique tags, record first",
        &[Rule::TagBeforeRecord],
        Violation::StaleWriteLanded,
        setting(UNIQUE, NONE, starts),
    );
}

const COMMON: Faults = Faults { timeouts: 1, swaps_lost: 1, crashes: 1, ..NONE };

#[test]
fn two_operations_on_every_kind_of_store() {
    use Enforcement::{Conditional, Exclusive};
    for (delete, complete, shown) in [
        (Conditional, Conditional, &["one-part form"][..]),
        (Exclusive, Conditional, &["one-part form", "exclusive"]),
        (Conditional, Exclusive, &["exclusive one-part form"]),
        (Exclusive, Exclusive, &["exclusive one-part form", "already absent"]),
    ] {
        let protocol = Protocol { delete, complete, ..PROTOCOL };
        let name = format!("pairs, tags repeat, DELETE {delete:?}, Complete {complete:?}");
        holds(&name, setting(protocol, COMMON, pairs()), shown);
    }
    for (delete, shown) in
        [(Conditional, &["no intent"][..]), (Exclusive, &["no intent", "exclusive"])]
    {
        let name = format!("pairs, tags unique, DELETE {delete:?}");
        holds(&name, setting(Protocol { delete, ..UNIQUE }, COMMON, pairs()), shown);
    }
}

#[test]
fn two_operations_and_clients_that_ask_again() {
    let faults = Faults { timeouts: 2, retries: 1, ..NONE };
    let shown = ["asked again", "outcome unknown", "write on its way, sender gone"];
    let exclusive = Enforcement::Exclusive;
    let all_exclusive = Protocol { delete: exclusive, complete: exclusive, ..PROTOCOL };
    holds("pairs asked again, tags repeat", setting(PROTOCOL, faults, pairs()), &shown);
    holds("pairs asked again, exclusive", setting(all_exclusive, faults, pairs()), &shown);
    holds("pairs asked again, tags unique", setting(UNIQUE, faults, pairs()), &shown);
}

#[test]
fn two_operations_while_ledger_and_store_fail() {
    let faults = Faults { timeouts: 1, outages: 1, swaps_lost: 1, ..NONE };
    for protocol in [PROTOCOL, UNIQUE, Protocol { delete: Enforcement::Exclusive, ..PROTOCOL }] {
        let name =
            format!("pairs, outages, tags {:?}, DELETE {:?}", protocol.tags, protocol.delete);
        holds(&name, setting(protocol, faults, pairs()), &["outcome unknown"]);
    }
}

#[test]
fn two_operations_while_time_passes() {
    // A signature, a stall, and one second more.
    let faults = Faults { timeouts: 1, crashes: 1, ticks: 3, ..NONE };
    let streams: [Ask; 2] = [Ask::Stream("X"), Ask::Delete];
    let starts = every(&[(33, &streams), (34, &[PUT_X, Ask::Delete])]);
    for protocol in [PROTOCOL, Protocol { delete: Enforcement::Exclusive, ..UNIQUE }] {
        let name = format!("pairs and time, tags {:?}", protocol.tags);
        holds(&name, setting(protocol, faults, starts.clone()), &["signature too old"]);
    }
}

#[test]
fn streams() {
    let faults = Faults { timeouts: 1, swaps_lost: 1, broken_bodies: 1, ..NONE };
    let streams: [Ask; 2] = [Ask::Stream("X"), Ask::Stream("Y")];
    let starts = [
        every(&[(33, &streams), (34, &[PUT_X, Ask::Delete])]),
        every(&[(33, &[PUT_X, Ask::Delete]), (34, &streams)]),
    ]
    .concat();
    for protocol in [PROTOCOL, UNIQUE, Protocol { complete: Enforcement::Exclusive, ..PROTOCOL }] {
        let name = format!("streams, tags {:?}, Complete {:?}", protocol.tags, protocol.complete);
        holds(&name, setting(protocol, faults, starts.clone()), &["outcome unknown"]);
    }
}

#[test]
fn strictly_greater() {
    let starts = every(&[(33, &ASKS), (33, &[PUT_X, Ask::Delete]), (34, &[PUT_X])]);
    for protocol in [PROTOCOL, UNIQUE] {
        let protocol = Protocol { compare: Compare::StrictlyGreater, ..protocol };
        let mut setting = setting(protocol, TIMEOUT, starts.clone());
        setting.pauses = 0;
        let name = format!("strictly greater, tags {:?}", protocol.tags);
        let began = clock::monotonic();
        let found = search(&mut setting, STATES_MAX);
        println!("{name}: {} states, {:.1?}", found.states, began.elapsed());
        if let Some((start, actions)) = &found.violation {
            panic!("{name}:\n{}", trace::trace(&setting, start, actions));
        }
    }
}

#[test]
fn clients_with_conditions_of_their_own() {
    let if_match =
        ClientCondition { if_match: Some(ClientMatch::Version("X".into())), ..Default::default() };
    let if_none_match = ClientCondition { if_none_match_any: true, ..Default::default() };
    let mut starts = Vec::new();
    let conditional = [PUT_X, Ask::Delete, COMPLETE_Y, Ask::Touch];
    for (object, mut asks) in every(&[(33, &ASKS), (33, &conditional)]) {
        let on_nothing = object.is_none() && !matches!(asks[1].ask, Ask::Delete | Ask::Touch);
        asks[1].condition = if !on_nothing { if_match.clone() } else { if_none_match.clone() };
        starts.push((object, asks));
    }
    let faults = Faults { timeouts: 1, crashes: 1, ..NONE };
    let exclusive = Enforcement::Exclusive;
    for protocol in [PROTOCOL, Protocol { delete: exclusive, complete: exclusive, ..PROTOCOL }] {
        let name = format!("conditions, DELETE and Complete {:?}", protocol.delete);
        holds(&name, setting(protocol, faults, starts.clone()), &[]);
    }
}

#[test]
fn three_operations() {
    let on_x = |asks: &[(u64, Ask)]| (Some("X"), clients(asks));
    let repeat = vec![
        on_x(&[(33, PUT_Y), (34, PUT_Y), (35, PUT_X)]),
        on_x(&[(33, PUT_X), (34, PUT_X), (35, PUT_X)]),
        on_x(&[(33, PUT_Y), (34, Ask::Delete), (35, PUT_X)]),
        on_x(&[(33, Ask::Delete), (34, PUT_Y), (34, PUT_X)]),
        (None, clients(&[(33, PUT_X), (34, PUT_Y), (35, Ask::Delete)])),
        (None, clients(&[(33, PUT_X), (34, Ask::Delete), (34, Ask::Delete)])),
    ];
    holds("threes, tags repeat", setting(PROTOCOL, TIMEOUT, repeat.clone()), &["one-part form"]);
    let exclusive =
        Protocol { delete: Enforcement::Exclusive, complete: Enforcement::Exclusive, ..PROTOCOL };
    holds("threes, exclusive", setting(exclusive, TIMEOUT, repeat), &["exclusive"]);
}

#[test]
fn three_operations_and_chains() {
    let starts = [
        (Some("X"), clients(&[(33, PUT_X), (33, PUT_Y), (34, PUT_X)])),
        (Some("X"), clients(&[(33, PUT_X), (33, Ask::Delete), (34, PUT_X)])),
        (Some("X"), clients(&[(33, PUT_X), (33, PUT_Y), (34, Ask::Delete)])),
        (None, clients(&[(33, PUT_X), (33, PUT_Y), (34, Ask::Delete)])),
        (None, clients(&[(33, PUT_X), (34, PUT_Y), (34, Ask::Delete)])),
    ];
    for delete in [Enforcement::Conditional, Enforcement::Exclusive] {
        let name = format!("threes, tags unique, DELETE {delete:?}");
        let protocol = Protocol { delete, ..UNIQUE };
        holds(&name, setting(protocol, TIMEOUT, starts.to_vec()), &["chain"]);
    }
}

/// Walks through worlds too large to search: three proxies, six operations, every fault. The walk
/// is the same in every run. Gives the steps taken and the schedules with an acknowledgement.
///
/// # Errors
///
/// The trace of the first violation.
fn walk(rules: Rules, schedules: usize) -> Result<(usize, usize), String> {
    let asks = [
        PUT_X,
        PUT_Y,
        Ask::Delete,
        Ask::Stream("X"),
        Ask::Stream("Y"),
        COMPLETE_Y,
        UNFORETOLD,
        Ask::Touch,
        Ask::DeleteVersion,
    ];
    let faults = Faults {
        timeouts: 3,
        swaps_lost: 1,
        outages: 1,
        crashes: 1,
        ticks: 4,
        retries: 2,
        broken_bodies: 1,
        resets: 0,
    };
    let exclusive = Enforcement::Exclusive;
    let all_exclusive = Protocol { delete: exclusive, complete: exclusive, ..PROTOCOL };
    let protocols = [PROTOCOL, UNIQUE, all_exclusive, Protocol { delete: exclusive, ..UNIQUE }];
    let mut dice = Dice(1);
    let mut below = move |bound: usize| dice.below(bound);
    let (mut steps, mut acknowledged) = (0, 0);
    for schedule in 0..schedules {
        let mut protocol = protocols[schedule % protocols.len()];
        protocol.rules = rules;
        let mut token = 33;
        let mut next = |_| {
            token += u64::from(below(2) == 0);
            client(token, asks[below(asks.len())])
        };
        let six = (0..6).map(&mut next).collect();
        let object = if below(2) == 0 { None } else { Some("X") };
        let mut setting = setting(protocol, faults, vec![(object, six)]);
        setting.proxies = 3;
        let start = setting.starts().remove(0);
        let (mut world, mut taken, mut actions) = (start.clone(), Vec::new(), Vec::new());
        loop {
            actions.clear();
            setting.actions(&world, &mut actions);
            if actions.is_empty() {
                break;
            }
            let action = actions[below(actions.len())];
            taken.push(action);
            world = setting.step(&world, &action);
            if setting.is_violation(&world) {
                let trace = trace::trace(&setting, &start, &taken);
                return Err(format!("schedule {schedule}:\n{trace}"));
            }
        }
        steps += taken.len();
        acknowledged += usize::from(world.acknowledged > 0);
    }
    Ok((steps, acknowledged))
}

#[test]
fn random_schedules() {
    const SCHEDULES: usize = 20_000;
    let (steps, acknowledged) =
        walk(Rules::ALL, SCHEDULES).unwrap_or_else(|trace| panic!("{trace}"));
    println!("{SCHEDULES} random schedules, {steps} steps, {acknowledged} with an acknowledgement");
    assert!(acknowledged > SCHEDULES / 2);
    for rule in [Rule::Register, Rule::Avoid, Rule::KeepUnknown] {
        let trace = walk(Rules::ALL.without(rule), SCHEDULES).expect_err("a violation is met");
        let schedule = trace.lines().next().unwrap_or_default();
        println!("without {rule:?}: violated in {schedule}");
    }
}

#[test]
fn larger_worlds() {
    if !full("every three operations under a time-out") {
        return;
    }
    let exclusive = Enforcement::Exclusive;
    let all_exclusive = Protocol { delete: exclusive, complete: exclusive, ..PROTOCOL };
    for protocol in [PROTOCOL, UNIQUE, all_exclusive, Protocol { delete: exclusive, ..UNIQUE }] {
        for tokens in [[33, 34, 35], [33, 33, 34], [33, 34, 34]] {
            for start in every(&tokens.map(|token| (token, &ASKS[..]))) {
                let name = format!("{:?} {:?} {start:?}", protocol.tags, protocol.delete);
                let mut setting = setting(protocol, TIMEOUT, vec![start]);
                let found = search(&mut setting, STATES_MAX);
                println!("{name}: {} states", found.states);
                if let Some((start, actions)) = &found.violation {
                    panic!("{name}:\n{}", trace::trace(&setting, start, actions));
                }
            }
        }
    }
}

//! Scopes of several keys as the driver runs them: the operations of one proxy begin with copies of
//! what it knows and give back what they have learnt. Walks through worlds of three keys and three
//! proxies, with records that are soon full, and searches of two.

use super::*;

/// What a walk came by.
#[derive(Debug, Default)]
struct Came {
    steps: usize,
    acknowledged: usize,
    claimed: usize,
    together: usize,
    merged: usize,
    refused: usize,
}

const ASKS_OF_CROWDS: [Ask; 13] = [
    PUT_X,
    PUT_Y,
    PUT_X,
    Ask::Delete,
    Ask::Stream("X"),
    Ask::Stream("Y"),
    COMPLETE_X,
    COMPLETE_Y,
    UNFORETOLD,
    Ask::Touch,
    Ask::DeleteVersion,
    CLAIM,
    CLAIM,
];

/// A world of this schedule.
fn crowd(dice: &mut Dice, rules: Rules, schedule: usize, resets: u8) -> Setting {
    let exclusive = Enforcement::Exclusive;
    let protocols = [
        MANY,
        UNIQUE_MANY,
        Protocol { delete: exclusive, complete: exclusive, ..MANY },
        Protocol { delete: exclusive, ..UNIQUE_MANY },
        Protocol { complete: exclusive, ..MANY },
    ];
    let protocol = Protocol {
        rules,
        intents_max: [2, 3, 4, 8][dice.below(4)],
        ..protocols[schedule % protocols.len()]
    };
    let keys = 1 + dice.below(3);
    let mut token = 33;
    let mut next = |_| {
        token += u64::from(dice.below(3) == 0);
        on(dice.below(keys), token, ASKS_OF_CROWDS[dice.below(ASKS_OF_CROWDS.len())])
    };
    let all: Vec<Client> = (0..8).map(&mut next).collect();
    let all = all[..4 + dice.below(5)].to_vec();
    let object = if dice.below(3) == 0 { None } else { Some("X") };
    let faults = Faults {
        timeouts: dice.few(4),
        swaps_lost: dice.few(3),
        outages: dice.few(2),
        crashes: dice.few(2),
        ticks: dice.few(5),
        retries: dice.few(3),
        broken_bodies: dice.few(2),
        resets,
    };
    Setting {
        keys,
        proxies: 1 + dice.below(3),
        shared: true,
        pauses: dice.few(4),
        idempotent: dice.below(2) == 0,
        assembles: [exclusive, Enforcement::Conditional][dice.below(2)],
        ..setting(protocol, faults, vec![(object, all)])
    }
}

/// # Errors
///
/// The trace of the first violation.
fn walk(rules: Rules, schedules: usize, seed: u64, resets: u8) -> Result<Came, String> {
    let mut dice = Dice(seed);
    let mut came = Came::default();
    for schedule in 0..schedules {
        let mut setting = crowd(&mut dice, rules, schedule, resets);
        let start = setting.starts().remove(0);
        let (mut world, mut taken, mut actions) = (start.clone(), Vec::new(), Vec::new());
        loop {
            actions.clear();
            setting.actions(&world, &mut actions);
            if actions.is_empty() {
                break;
            }
            // Starts are taken first now and then, so that many run at a time.
            let starts = actions.iter().position(|a| matches!(a, world::Action::Start(..)));
            let action = match starts {
                Some(at) if dice.below(2) == 0 => actions[at + dice.below(actions.len() - at)],
                Some(_) | None => actions[dice.below(actions.len())],
            };
            if let world::Action::Together(proxy) = action {
                came.together += usize::from(Setting::group(&world, proxy).len() > 1);
            }
            // Not before something has happened.
            if matches!(action, world::Action::Reset) && dice.below(3) > 0 {
                continue;
            }
            taken.push(action);
            world = setting.step(&world, &action);
            if let Some(record) = &*world.record {
                came.merged += usize::from(record.intents.iter().any(|i| i.id.copy >= 1 << 31));
            }
            if setting.is_violation(&world) {
                let trace = trace::trace(&setting, &start, &taken);
                return Err(format!("schedule {schedule}:\n{trace}"));
            }
        }
        came.steps += taken.len();
        came.acknowledged += usize::from(world.acknowledged > 0);
        setting.visit(&world);
        came.claimed += usize::from(setting.seen.contains_key("claimed"));
        came.refused += usize::from(setting.seen.contains_key("refused"));
    }
    Ok(came)
}

fn seeds() -> (u64, usize) {
    #[expect(clippy::disallowed_methods, reason = "switches of the test, not of the proxy")]
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    let seed = number("FENCEPOST_TEST_SEED").unwrap_or(1);
    let schedules = number("FENCEPOST_TEST_SCHEDULES").unwrap_or(20_000);
    (seed, usize::try_from(schedules).expect("it fits"))
}

#[test]
fn random_crowds() {
    let (seed, schedules) = seeds();
    let came = walk(Rules::ALL, schedules, seed, 0).unwrap_or_else(|trace| panic!("{trace}"));
    println!("{schedules} random crowds from seed {seed}: {came:?}");
    assert!(came.acknowledged > schedules / 2);
    assert!(came.claimed > 0 && came.merged > 0 && came.together > 0);
}

#[test]
fn random_crowds_meet_a_violation_without_a_rule() {
    for rule in [Rule::Register, Rule::Avoid, Rule::Barrier, Rule::KeepDead, Rule::KeepUnknown] {
        let trace = walk(Rules::ALL.without(rule), 60_000, 1, 0).expect_err("a violation is met");
        println!("without {rule:?}: violated in {}", trace.lines().next().unwrap_or_default());
    }
}

/// A person sets the token back while operations are under way.
#[test]
fn random_crowds_and_a_reset() {
    let (seed, schedules) = seeds();
    let came = walk(Rules::ALL, schedules, seed, 1).unwrap_or_else(|trace| panic!("{trace}"));
    println!("{schedules} random crowds with a reset from seed {seed}: {came:?}");
    assert!(came.acknowledged > schedules / 50);
}

/// What waits at the barrier while the record is reset, and what its proxy remembers of it.
#[test]
fn a_reset_while_somebody_waits_at_the_barrier() {
    let x = |clients: Vec<Client>| (Some("X"), clients);
    let starts = vec![
        x(vec![on(0, 33, PUT_Y), on(1, 35, PUT_Y), on(0, 34, CLAIM)]),
        x(vec![on(0, 33, PUT_Y), on(1, 35, PUT_Y), on(1, 36, CLAIM)]),
    ];
    for start in starts {
        let name = format!("reset, {start:?}");
        let faults = Faults { resets: 1, ..TIMEOUT };
        let mut setting = Setting { pauses: 1, proxies: 1, ..two_keys(MANY, faults, vec![start]) };
        let found = search(&mut setting, STATES_MAX);
        println!("{name}: {} states", found.states);
        if let Some((start, actions)) = &found.violation {
            panic!("{name}:\n{}", trace::trace(&setting, start, actions));
        }
    }
}

fn two_keys(protocol: Protocol, faults: Faults, starts: Vec<Start>) -> Setting {
    Setting { keys: 2, shared: true, pauses: 0, ..setting(protocol, faults, starts) }
}

#[test]
fn threes_with_shared_memory() {
    let x = |clients: Vec<Client>| (Some("X"), clients);
    let starts = [
        x(vec![on(0, 33, PUT_Y), on(0, 34, CLAIM), on(1, 34, CLAIM)]),
        x(vec![on(0, 33, PUT_Y), on(1, 34, PUT_Y), on(0, 34, CLAIM)]),
        x(vec![on(0, 33, PUT_X), on(1, 33, PUT_X), on(1, 34, PUT_X)]),
        x(vec![on(0, 33, PUT_X), on(0, 34, CLAIM), on(0, 34, PUT_X)]),
        x(vec![on(0, 33, Ask::Delete), on(0, 34, PUT_X), on(1, 34, CLAIM)]),
        (None, vec![on(0, 33, PUT_X), on(0, 34, Ask::Delete), on(1, 34, PUT_X)]),
    ];
    let few = if full("more threes with shared memory") { starts.len() } else { 2 };
    let starts = &starts[..few];
    let exclusive = Enforcement::Exclusive;
    for protocol in [MANY, UNIQUE_MANY, Protocol { delete: exclusive, complete: exclusive, ..MANY }]
    {
        for start in starts.iter().cloned() {
            let name = format!("shared, {:?} {:?} {start:?}", protocol.tags, protocol.delete);
            let mut setting = two_keys(protocol, TIMEOUT, vec![start]);
            let found = search(&mut setting, STATES_MAX);
            println!("{name}: {} states", found.states);
            if let Some((start, actions)) = &found.violation {
                panic!("{name}:\n{}", trace::trace(&setting, start, actions));
            }
        }
    }
}

/// A record that is full at once: intents that are alike become one.
#[test]
fn full_records() {
    let x = |clients: Vec<Client>| (Some("X"), clients);
    let starts = vec![
        x(vec![on(0, 33, PUT_Y), on(0, 34, PUT_Y), on(0, 35, PUT_X)]),
        x(vec![on(0, 33, PUT_Y), on(0, 33, PUT_X), on(1, 34, PUT_Y)]),
        x(vec![on(0, 33, PUT_Y), on(0, 33, PUT_Y), on(0, 34, CLAIM)]),
    ];
    for protocol in [MANY, UNIQUE_MANY] {
        for intents_max in [1, 2] {
            for start in starts.clone() {
                let name = format!("full at {intents_max}, {:?} {start:?}", protocol.tags);
                let protocol = Protocol { intents_max, ..protocol };
                let mut setting = two_keys(protocol, TIMEOUT, vec![start]);
                let found = search(&mut setting, STATES_MAX);
                println!("{name}: {} states", found.states);
                if let Some((start, actions)) = &found.violation {
                    panic!("{name}:\n{}", trace::trace(&setting, start, actions));
                }
            }
        }
    }
}

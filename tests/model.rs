//! The protocol, searched exhaustively: two proxies, two or three operations, and every order in
//! which requests, answers and faults can happen.
//!
//! The proxies run the code of `src/fence` itself. `FENCEPOST_MODEL=full` searches larger worlds
//! too, which take minutes.

#[path = "model/search.rs"]
mod search;
#[path = "model/world.rs"]
mod world;

use fencepost::fence::{ClientCondition, Compare, Enforcement, Protocol, Rule, Rules, Tags};
use search::{Space, search};
use std::collections::BTreeMap;
use world::{Ask, Client, Faults, Setting};

const PROTOCOL: Protocol = Protocol {
    tags: Tags::Repeat,
    delete: Enforcement::Conditional,
    complete: Enforcement::Conditional,
    compare: Compare::AtLeast,
    intents_max: 8,
    rounds_max: 1,
    read_backs_max: 1,
    signature_seconds: 1,
    bodiless_signature_seconds: 1,
    body_stall_seconds: 1,
    rules: Rules::ALL,
};

const NO_FAULTS: Faults = Faults {
    timeouts: 0,
    swaps_lost: 0,
    outages: 0,
    crashes: 0,
    ticks: 0,
    retries: 0,
    broken_bodies: 0,
};

fn client(token: u64, ask: Ask) -> Client {
    Client { token, ask, condition: ClientCondition::default() }
}

/// Every combination of `asks` for clients with these tokens, on an absent object and on "X".
fn every(tokens: &[u64], asks: &[Ask]) -> Vec<(Option<&'static str>, Vec<Client>)> {
    let mut all: Vec<Vec<Client>> = vec![Vec::new()];
    for &token in tokens {
        all = all
            .iter()
            .flat_map(|before| {
                asks.iter().map(|&ask| {
                    let mut clients = before.clone();
                    clients.push(client(token, ask));
                    clients
                })
            })
            .collect();
    }
    [None, Some("X")]
        .into_iter()
        .flat_map(|object| all.iter().map(move |clients| (object, clients.clone())))
        .collect()
}

const ASKS: [Ask; 3] = [Ask::Put("X"), Ask::Put("Y"), Ask::Delete];

fn setting(
    protocol: Protocol,
    faults: Faults,
    starts: Vec<(Option<&'static str>, Vec<Client>)>,
) -> Setting {
    Setting { protocol, faults, pauses: 1, starts, seen: BTreeMap::new() }
}

fn run(name: &str, mut setting: Setting) -> bool {
    let began = std::time::Instant::now();
    let found = search(&mut setting, 60_000_000);
    println!(
        "{name}: {} states, {} steps, depth {}, {:.1?}; {:?}",
        found.states,
        found.steps,
        found.depth,
        began.elapsed(),
        setting.seen
    );
    let Some((start, actions)) = found.violation else { return true };
    let mut world = start;
    println!("  clients {}", world.clients());
    println!("  {}", world.line());
    for action in &actions {
        world = setting.step(&world, action);
        println!("  {action:?}\n      {}", world.line());
    }
    println!("  {:?}", world.violation);
    false
}

#[test]
fn sizes() {
    let t1 = Faults { timeouts: 1, ..NO_FAULTS };
    run("triples R none", setting(PROTOCOL, NO_FAULTS, every(&[33, 34, 35], &ASKS)));
    run(
        "triples R t1 one",
        setting(
            PROTOCOL,
            t1,
            vec![(
                Some("X"),
                vec![
                    client(33, Ask::Put("X")),
                    client(34, Ask::Put("Y")),
                    client(35, Ask::Put("X")),
                ],
            )],
        ),
    );
    run(
        "triples R t1 one same",
        setting(
            PROTOCOL,
            t1,
            vec![(
                Some("X"),
                vec![
                    client(33, Ask::Put("X")),
                    client(34, Ask::Put("Y")),
                    client(34, Ask::Put("X")),
                ],
            )],
        ),
    );
}
#[test]
fn sizes_unique() {
    let t1 = Faults { timeouts: 1, ..NO_FAULTS };
    run(
        "pairs t1 r1 s1 c1",
        setting(
            PROTOCOL,
            Faults {
                timeouts: 1,
                swaps_lost: 1,
                outages: 0,
                crashes: 1,
                ticks: 0,
                retries: 1,
                broken_bodies: 0,
            },
            every(&[33, 34], &ASKS),
        ),
    );
    run(
        "pairs t2 r1",
        setting(
            PROTOCOL,
            Faults {
                timeouts: 2,
                swaps_lost: 0,
                outages: 0,
                crashes: 0,
                ticks: 0,
                retries: 1,
                broken_bodies: 0,
            },
            every(&[33, 34], &ASKS),
        ),
    );
    run(
        "triples U t1 one",
        setting(
            Protocol { tags: Tags::Unique, ..PROTOCOL },
            t1,
            vec![(
                Some("X"),
                vec![
                    client(33, Ask::Put("X")),
                    client(33, Ask::Put("Y")),
                    client(34, Ask::Put("X")),
                ],
            )],
        ),
    );
}

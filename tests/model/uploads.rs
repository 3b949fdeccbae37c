//! Uploads that several clients complete, stores that answer a second completion like the first, and
//! assemblies whose tag nobody foretold.

use super::*;

fn on_x(asks: &[(u64, Ask)]) -> Start {
    (Some("X"), clients(asks))
}

fn assembling(protocol: Protocol, assembles: Enforcement, starts: Vec<Start>) -> Setting {
    Setting { assembles, pauses: 0, ..setting(protocol, TIMEOUT, starts) }
}

const BOTH: [Enforcement; 2] = [Enforcement::Exclusive, Enforcement::Conditional];

/// That its own answer is honest is not enough: another operation with its token has been
/// acknowledged, and the tag that comes back lets a lower write land.
#[test]
fn an_unforetold_tag_does_not_come_back_under_a_token_that_was_acknowledged() {
    let starts = vec![on_x(&[(33, PUT_Y), (34, PUT_Y), (34, UNFORETOLD)])];
    for assembles in BOTH {
        let name = format!("unforetold, {assembles:?}");
        holds(&name, assembling(PROTOCOL, assembles, starts.clone()), &[]);
    }
    breaks(
        "F4 off, unforetold",
        &[Rule::Avoid],
        Violation::StaleWriteLanded,
        assembling(PROTOCOL, Enforcement::Exclusive, starts),
    );
}

#[test]
fn foretold_assemblies_among_threes() {
    let starts = vec![
        on_x(&[(33, PUT_Y), (34, COMPLETE_Y), (34, PUT_X)]),
        on_x(&[(33, COMPLETE_Y), (34, PUT_Y), (34, PUT_X)]),
        on_x(&[(33, PUT_Y), (34, PUT_X), (34, Ask::DeleteVersion)]),
    ];
    for assembles in BOTH {
        let name = format!("threes with assemblies, {assembles:?}");
        holds(&name, assembling(PROTOCOL, assembles, starts.clone()), &["upload completed"]);
    }
}

/// The stamp is the upload's: whoever completes it finds its own stamp on what another has made.
#[test]
fn one_upload_completed_under_two_tokens() {
    for protocol in [PROTOCOL, UNIQUE] {
        for (assembles, idempotent) in
            [(BOTH[0], false), (BOTH[0], true), (BOTH[1], false), (BOTH[1], true)]
        {
            for (first, second) in [(33, 34), (33, 33)] {
                let mut start = on_x(&[(first, COMPLETE_Y), (33, PUT_X), (second, COMPLETE_Y)]);
                start.1[2].upload = Some(0);
                let name = format!(
                    "one upload, tags {:?}, {assembles:?}, asked by {first} and {second}, the store \
                     answers twice: {idempotent}",
                    protocol.tags
                );
                let setting = Setting {
                    idempotent,
                    faults: NONE,
                    ..assembling(protocol, assembles, vec![start])
                };
                nothing_breaks(&name, setting);
            }
        }
    }
}

/// As `holds`, where not everybody can succeed: with unique tags an upload is completed once.
#[expect(clippy::panic, reason = "the trace is the message")]
fn nothing_breaks(name: &str, mut setting: Setting) {
    let found = search(&mut setting, STATES_MAX);
    println!("{name}: {} states, depth {}\n    {:?}", found.states, found.depth, setting.seen);
    if let Some((start, actions)) = &found.violation {
        panic!("{name}:\n{}", trace::trace(&setting, start, actions));
    }
    for what in ["upload completed", "refused"] {
        assert!(setting.seen.contains_key(what), "{name}: never {what}");
    }
}

#[test]
fn a_second_completion_that_changes_nothing_acknowledges_nothing() {
    let asks = [(33, COMPLETE_Y), (33, PUT_X), (33, PUT_Y), (34, COMPLETE_Y)];
    let mut start = (None, clients(&asks));
    start.1[3].upload = Some(0);
    let setting = Setting {
        idempotent: true,
        faults: NONE,
        proxies: 1,
        ..assembling(PROTOCOL, Enforcement::Exclusive, vec![start])
    };
    holds("a store that answers twice", setting, &["outcome unknown"]);
}

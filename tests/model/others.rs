//! Operations that no precondition of the store's guards: uploads that are completed, changes that
//! leave the tag as it is, deletions of versions.

use super::*;

const OTHERS: [Ask; 4] = [COMPLETE_X, UNFORETOLD, Ask::Touch, Ask::DeleteVersion];

/// Each of the operations without a precondition beside each other one, in both orders.
fn pairs_of_others() -> Vec<Start> {
    let older = every(&[(33, &OTHERS), (34, &[PUT_X, PUT_Y, Ask::Delete, COMPLETE_X])]);
    let newer = every(&[(33, &[PUT_X, PUT_Y, Ask::Delete]), (34, &OTHERS)]);
    let both = every(&[(33, &OTHERS), (34, &[UNFORETOLD, Ask::Touch, Ask::DeleteVersion])]);
    [older, newer, both].concat()
}

#[test]
fn operations_without_a_precondition() {
    let exclusive = Enforcement::Exclusive;
    let all_exclusive = Protocol { delete: exclusive, complete: exclusive, ..PROTOCOL };
    let faults = Faults { timeouts: 1, swaps_lost: 1, ..NONE };
    for protocol in [PROTOCOL, all_exclusive, UNIQUE] {
        for assembles in [Enforcement::Exclusive, Enforcement::Conditional] {
            let name = format!(
                "others, tags {:?}, DELETE {:?}, assembly {assembles:?}",
                protocol.tags, protocol.delete
            );
            let mut setting = setting(protocol, faults, pairs_of_others());
            setting.assembles = assembles;
            holds(&name, setting, &["upload completed", "outcome unknown"]);
        }
    }
}

#[test]
fn operations_without_a_precondition_asked_again_and_crashed() {
    let faults = Faults { timeouts: 1, crashes: 1, retries: 1, ..NONE };
    for assembles in [Enforcement::Exclusive, Enforcement::Conditional] {
        let starts = every(&[(33, &[COMPLETE_X, UNFORETOLD]), (34, &[PUT_X, Ask::Delete])]);
        let mut setting = setting(PROTOCOL, faults, starts);
        setting.assembles = assembles;
        holds(&format!("uploads asked again, {assembles:?}"), setting, &["asked again"]);
    }
}

#[test]
fn what_leaves_the_tag_or_brings_one_back_waits_for_lower_intents() {
    // 33's PUT of Y is still on its way and expects X; 34 wants to touch X, or to bring it back.
    let on_x = |asks: &[(u64, Ask)]| (Some("X"), clients(asks));
    let starts = vec![
        on_x(&[(33, PUT_Y), (34, Ask::Touch)]),
        on_x(&[(33, PUT_Y), (34, PUT_Y), (34, Ask::DeleteVersion)]),
    ];
    for start in starts {
        let name = format!("F4 off, {start:?}");
        breaks(
            &name,
            &[Rule::Avoid],
            Violation::StaleWriteLanded,
            setting(PROTOCOL, TIMEOUT, vec![start]),
        );
    }
}

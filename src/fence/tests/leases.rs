//! Leases and resets: which record may follow which.

use super::lease::{self, Acquire, Acquired, LeaseId, NoLease};
use super::reset::{NoReset, Order, reset};
use super::*;

fn order(to: u64, force: bool) -> Order {
    Order { to: token(to), force, by: "ops".into(), reason: "restored".into() }
}

#[test]
fn a_reset_goes_down_by_force_alone_and_makes_what_is_open_older() {
    let open = vec![intent(1, 42, expecting(version("X"))), intent(2, 20, Action::Exclusive)];
    let before = snapshot(42, open);
    assert_eq!(reset(&before, &order(30, false)), Err(NoReset::WouldLower(token(42))));
    let after = reset(&before, &order(30, true)).unwrap();
    assert_eq!((after.token, after.resets.count), (token(30), 1));
    let tokens: Vec<u64> = after.intents.iter().map(|intent| intent.token.get()).collect();
    assert_eq!(tokens, [29, 20], "who comes with 30 waits for both");
    assert_eq!(after.intents[0].id, before.intents()[0].id, "it is still settled by its name");
    let last = after.resets.last.as_deref().unwrap();
    assert_eq!((last.from, last.to), (token(42), token(30)));
    assert_eq!(reset(&before, &order(50, false)).unwrap().token, token(50));
    assert_eq!(reset(&before, &order(1, true)), Err(NoReset::OperationsOpen));
    assert_eq!(reset(&snapshot(42, vec![]), &order(1, true)).unwrap().token, token(1));
    assert_eq!(reset(&no_record(), &order(1, true)), Err(NoReset::NoRecord));
}

#[test]
fn what_was_passed_before_a_reset_has_to_be_passed_again() {
    let outcomes = [Outcome::Loaded(snapshot(41, vec![])), swapped()];
    let (attempt, effect) = drive(MANY, claim(42), Memory::default(), outcomes);
    assert_eq!(effect, finish(Verdict::Claimed));
    let other = Intent { key: KeyId::new("other"), ..intent(9, 35, expecting(version("O"))) };
    let mut after = reset(&snapshot(42, vec![other]), &order(30, true)).unwrap();
    after.token = token(42);
    let now = Outcome::Loaded(Snapshot { record: Some(after), ..snapshot(42, vec![]) });
    let memory = attempt.into_memory();
    let (_, effect) = drive(MANY, claim(42), memory, [now]);
    assert!(matches!(effect, Effect::Look(_)), "{effect:?}");
}

fn ask(id: u128) -> Acquire {
    Acquire { id: LeaseId(id), holder: "h".into(), ttl_seconds: 30 }
}

/// The record after an acquisition, and its token.
fn acquired(snapshot: &Snapshot, id: u128) -> (Snapshot, u64) {
    let Ok(Acquired::Next(record, lease)) = lease::acquire(snapshot, &ask(id)) else {
        panic!("not acquired")
    };
    let next = Snapshot { record: Some(record), ..snapshot.clone() };
    (next, lease.token.get())
}

fn later(snapshot: &Snapshot, seconds: u64) -> Snapshot {
    Snapshot { time: Some(StoreTime(SIGNED_AT + seconds)), ..snapshot.clone() }
}

#[test]
fn tokens_of_leases_rise_by_whatever_way_a_lease_has_ended() {
    let (first, token_1) = acquired(&snapshot(40, vec![]), 1);
    assert_eq!(token_1, 41);
    let held = lease::acquire(&first, &ask(2));
    assert!(matches!(held, Err(NoLease::Held(..))));
    assert!(matches!(lease::acquire(&first, &ask(1)), Ok(Acquired::Already(_))));
    assert!(matches!(lease::acquire(&later(&first, 30), &ask(2)), Err(NoLease::Held(..))));
    let (expired, token_2) = acquired(&later(&first, 31), 2);
    assert_eq!(token_2, 42);
    let (released, _) = lease::release(&expired, LeaseId(2)).unwrap();
    let released = Snapshot { record: Some(released), ..expired };
    let (third, token_3) = acquired(&released, 3);
    assert_eq!(token_3, 43);
    let back = reset(&third, &order(10, true)).unwrap();
    assert_eq!(back.leasing.lease, None, "nobody has it any more");
    let (_, token_4) = acquired(&Snapshot { record: Some(back), ..third }, 4);
    assert_eq!(token_4, 44, "not even a reset brings a number back");
}

#[test]
fn a_lease_is_renewed_and_released_by_its_own_id_while_it_stands() {
    let (held, _) = acquired(&no_record(), 1);
    let (_, renewed) = lease::renew(&later(&held, 20), LeaseId(1), None).unwrap();
    assert_eq!(renewed.expires_at, StoreTime(SIGNED_AT + 50));
    for (at, id) in [(31, 1), (0, 2)] {
        assert_eq!(lease::renew(&later(&held, at), LeaseId(id), None), Err(NoLease::Lost));
    }
    assert_eq!(lease::release(&held, LeaseId(2)), Err(NoLease::Lost));
    let (next, _) = acquired(&later(&held, 31), 2);
    assert_eq!(lease::release(&next, LeaseId(1)), Err(NoLease::Lost), "a late one frees nobody's");
    let mut overtaken = next.clone();
    overtaken.record.as_mut().unwrap().token = token(99);
    assert_eq!(lease::renew(&overtaken, LeaseId(2), None), Err(NoLease::Lost));
    let timeless = Snapshot { time: None, ..held };
    assert_eq!(lease::acquire(&timeless, &ask(3)), Err(NoLease::TimeUnknown));
    let last = snapshot(u64::MAX, vec![]);
    assert_eq!(lease::acquire(&last, &ask(1)), Err(NoLease::Exhausted));
}

//! Records of the ledger, as they are written and as something has damaged them.

use fencepost::fence::{
    Action, Intent, IntentId, KeyId, Lease, LeaseId, Lock, LockMode, OperationId, Record, Reset,
    StoreTime, Tag, Token,
};
use fencepost::ledger::{Scope, decode, encode};
use fencepost::s3::{Bucket, ObjectKey};

use super::inputs::{bytes, damaged};
use super::support::Generator;
use super::{CASES, hold};

fn scope(key: &[u8]) -> Scope {
    Scope::object(Bucket::new("bucket"), ObjectKey::new(key).unwrap())
}

fn token(random: &mut Generator) -> Token {
    let value = random.next() >> random.below(64);
    Token::new(value.max(1)).unwrap()
}

fn intent(random: &mut Generator) -> Intent {
    let action = match random.below(3) {
        0 => Action::Conditional { expects: Tag::Absent },
        1 => {
            let graphic = |byte: u8| char::from(b'!' + byte % 94);
            let tag = bytes(random, 40).into_iter().map(graphic).collect();
            Action::Conditional { expects: Tag::Version(tag) }
        }
        _ => Action::Exclusive,
    };
    let operation = u128::from(random.next()) << 64 | u128::from(random.next());
    Intent {
        id: IntentId {
            operation: OperationId::new(operation),
            copy: u32::try_from(random.below(9)).unwrap(),
        },
        token: token(random),
        key: KeyId::new(bytes(random, 20)),
        action,
        registered_at: (random.below(2) == 0).then(|| StoreTime(random.next())),
        expires_at: StoreTime(random.next()),
    }
}

fn record(random: &mut Generator) -> Record {
    let intents = (0..random.below(4)).map(|_| intent(random)).collect();
    let name = |random: &mut Generator| String::from_utf8_lossy(&bytes(random, 20)).into_owned();
    let mut record = Record::new(token(random), intents);
    if random.below(2) == 0 {
        let mode = if random.below(2) == 0 { LockMode::Exclusive } else { LockMode::Shared };
        record.bearer.lock = Some(Lock { name: name(random), mode });
        record.bearer.holder = Some(name(random));
        record.leasing.issued = Some(token(random));
    }
    if random.below(2) == 0 {
        record.leasing.lease = Some(Box::new(Lease {
            id: LeaseId(u128::from(random.next()) << 64 | u128::from(random.next())),
            holder: name(random),
            token: token(random),
            ttl_seconds: random.next(),
            acquired_at: StoreTime(random.next()),
            expires_at: StoreTime(random.next()),
        }));
        record.resets.count = random.next();
        record.resets.last = Some(Box::new(Reset {
            by: name(random),
            reason: name(random),
            from: token(random),
            to: token(random),
            at: StoreTime(random.next()),
        }));
    }
    record
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let input = |random: &mut Generator| {
        ([bytes(random, 20), vec![b'k']].concat(), record(random), u128::from(random.next()))
    };
    hold(CASES / 4, input, |(key, record, nonce)| {
        let written = encode(&scope(key), record, *nonce);
        assert_eq!(decode(&scope(key), &written).unwrap(), (record.clone(), *nonce));
        let other = [key, &b"x"[..]].concat();
        assert!(decode(&scope(&other), &written).is_err(), "it is another scope's");
    });
}

/// A damaged record is an error or a record; what is read of it can be written and read again.
#[test]
fn a_damaged_record_is_not_half_a_record() {
    let scope = scope(b"a/\xff%2F+");
    let intent = |copy, action| Intent {
        id: IntentId { operation: OperationId::new(7), copy },
        token: Token::new(41).unwrap(),
        key: KeyId::new(&b"a/\xff%2F+"[..]),
        action,
        registered_at: (copy > 0).then_some(StoreTime(1_795_000_000)),
        expires_at: StoreTime(1_796_000_000),
    };
    let expects = |tag| Action::Conditional { expects: tag };
    let intents = vec![
        intent(0, expects(Tag::Absent)),
        intent(1, expects(Tag::Version("0123-1".into()))),
        intent(2, Action::Exclusive),
    ];
    let token = Token::new(42).unwrap();
    let corpus = [vec![], intents].map(|intents| encode(&scope, &Record::new(token, intents), 99));
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    let input =
        |random: &mut Generator| String::from_utf8_lossy(&damaged(random, &corpus)).into_owned();
    hold(CASES, input, |text| {
        let Ok((record, nonce)) = decode(&scope, text.as_bytes()) else { return };
        let again = encode(&scope, &record, nonce);
        assert_eq!(decode(&scope, &again).unwrap(), (record, nonce));
    });
}

//! What every ledger must do; run on the memory implementation, on the object implementation over
//! the embedded store, and over every real store.

use std::sync::Arc;

use super::{Binding, Ledger, Scope, SwapOutcome, Upload};
use crate::clock;
use crate::fence::{
    Action, Intent, IntentId, KeyId, OperationId, Record, RecordVersion, StoreTime, Tag, Token,
};
use crate::s3::{Bucket, ObjectKey};

/// How many writers race for one swap. SeaweedFS makes the losers wait for seconds.
const RACERS: u64 = 4;

/// Runs the whole suite. Scopes are random, so that it can be run on a bucket in use.
///
/// # Panics
///
/// When the ledger does something else.
pub async fn all(ledger: Arc<dyn Ledger>) {
    a_record_is_created_read_and_replaced(&*ledger).await;
    a_swap_from_another_version_is_lost(&*ledger).await;
    a_version_never_comes_back(&*ledger).await;
    scopes_do_not_touch_each_other(&*ledger).await;
    the_clock_is_told(&*ledger).await;
    uploads_are_bound_each_for_itself(&*ledger).await;
    scopes_are_listed_page_by_page(&*ledger).await;
    one_of_many_swaps_lands(&ledger).await;
}

fn scope(key: &[u8]) -> Scope {
    let mut key = key.to_vec();
    key.extend_from_slice(format!("{:032x}", clock::random_u128()).as_bytes());
    let key = ObjectKey::new(key).expect("it is not empty");
    Scope::object(Bucket::new("conformance"), key)
}

fn token(value: u64) -> Token {
    Token::new(value).expect("it is not zero")
}

fn record(value: u64) -> Record {
    Record::new(token(value), Vec::new())
}

fn swapped(outcome: SwapOutcome) -> RecordVersion {
    match outcome {
        SwapOutcome::Swapped(version) => version,
        SwapOutcome::Lost => unreachable!("a swap from the current version must land"),
    }
}

async fn a_record_is_created_read_and_replaced(ledger: &dyn Ledger) {
    let scope = scope(b"odd key \xff/../+%2F");
    let nothing = ledger.load(&scope).await.expect("load");
    assert_eq!((nothing.record, nothing.version), (None, RecordVersion::Absent));

    let mut first = record(u64::MAX);
    first.intents.push(Intent {
        id: IntentId { operation: OperationId::new(u128::MAX), copy: 3 },
        token: token(1),
        key: KeyId::new(scope.bytes()),
        action: Action::Conditional { expects: Tag::Version("etag-1".into()) },
        registered_at: None,
        expires_at: StoreTime(u64::MAX),
    });
    let version =
        swapped(ledger.swap(&scope, &RecordVersion::Absent, &first).await.expect("create"));
    let loaded = ledger.load(&scope).await.expect("load");
    assert_eq!((loaded.record, &loaded.version), (Some(first), &version));

    let second = record(8);
    let version = swapped(ledger.swap(&scope, &version, &second).await.expect("replace"));
    let loaded = ledger.load(&scope).await.expect("load");
    assert_eq!((loaded.record, loaded.version), (Some(second), version));
}

async fn a_swap_from_another_version_is_lost(ledger: &dyn Ledger) {
    let scope = scope(b"lost");
    let absent = RecordVersion::Absent;
    let stranger = RecordVersion::Tag("0123456789abcdef0123456789abcdef".into());
    let lost = ledger.swap(&scope, &stranger, &record(1)).await.expect("swap on nothing");
    assert_eq!(lost, SwapOutcome::Lost, "there is no record of that version");

    let first = swapped(ledger.swap(&scope, &absent, &record(1)).await.expect("create"));
    assert_eq!(ledger.swap(&scope, &absent, &record(9)).await.expect("swap"), SwapOutcome::Lost);
    let second = swapped(ledger.swap(&scope, &first, &record(2)).await.expect("replace"));
    assert_eq!(ledger.swap(&scope, &first, &record(9)).await.expect("swap"), SwapOutcome::Lost);
    let loaded = ledger.load(&scope).await.expect("load");
    assert_eq!((loaded.record, loaded.version), (Some(record(2)), second));
}

async fn a_version_never_comes_back(ledger: &dyn Ledger) {
    let scope = scope(b"nonce");
    let mut seen = vec![RecordVersion::Absent];
    for value in [1, 2, 1, 1] {
        let last = seen.last().expect("it is never empty");
        let version = swapped(ledger.swap(&scope, last, &record(value)).await.expect("swap"));
        assert!(!seen.contains(&version), "the same record must not have the same version");
        seen.push(version);
    }
}

async fn scopes_do_not_touch_each_other(ledger: &dyn Ledger) {
    let one = scope(b"one");
    let mut other = one.clone();
    other.bucket = Bucket::new("conformance-2");
    ledger.swap(&one, &RecordVersion::Absent, &record(1)).await.expect("create");
    assert_eq!(ledger.load(&other).await.expect("load").record, None);
}

async fn the_clock_is_told(ledger: &dyn Ledger) {
    let time = ledger.load(&scope(b"time")).await.expect("load").time;
    assert!(time.is_some_and(|time| time.0 > 1_700_000_000), "F9 needs the store's clock");
}

async fn uploads_are_bound_each_for_itself(ledger: &dyn Ledger) {
    let scope = scope(b"upload \xff/../+%2F");
    let upload = |id: &str| Upload {
        bucket: scope.bucket.clone(),
        key: ObjectKey::new(scope.bytes()).expect("it is not empty"),
        id: id.to_owned(),
    };
    let bound = |value| Binding { token: token(value), stamp: OperationId::new(value.into()) };
    assert_eq!(ledger.binding(&upload("a")).await.expect("look"), None);
    ledger.bind(&upload("a"), &bound(7)).await.expect("bind");
    ledger.bind(&upload("b/+="), &bound(8)).await.expect("bind");
    assert_eq!(ledger.binding(&upload("a")).await.expect("look"), Some(bound(7)));
    assert_eq!(ledger.binding(&upload("b/+=")).await.expect("look"), Some(bound(8)));
    ledger.unbind(&upload("a")).await.expect("unbind");
    ledger.unbind(&upload("never")).await.expect("there is nothing to forget");
    assert_eq!(ledger.binding(&upload("a")).await.expect("look"), None);
    assert_eq!(ledger.binding(&upload("b/+=")).await.expect("look"), Some(bound(8)));
    assert_eq!(ledger.load(&scope).await.expect("load").record, None, "a binding is no record");
}

async fn scopes_are_listed_page_by_page(ledger: &dyn Ledger) {
    let bucket = Bucket::new(format!("conformance-{:016x}", clock::random_u128() >> 64));
    let mut scopes: Vec<Scope> = [&b"a"[..], b"b/\xff", b"c+%2F"]
        .into_iter()
        .flat_map(|name| {
            let key = ObjectKey::new(name).expect("it is not empty");
            [Scope::object(bucket.clone(), key), Scope::prefix(bucket.clone(), name)]
        })
        .collect();
    for scope in &scopes {
        swapped(ledger.swap(scope, &RecordVersion::Absent, &record(7)).await.expect("create"));
    }
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..4 {
        let page = ledger.scopes(Some(&bucket), after.as_deref(), 2).await.expect("list");
        assert!(page.scopes.len() <= 2);
        assert!(page.scopes.iter().all(|(_, found)| found.record == Some(record(7))));
        found.extend(page.scopes.into_iter().map(|(scope, _)| scope));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(after, None, "the last page says that it is the last");
    found.sort_unstable();
    scopes.sort_unstable();
    assert_eq!(found, scopes);
    let all = ledger.scopes(None, None, 1000).await.expect("list");
    assert!(
        all.next.is_some()
            || scopes.iter().all(|scope| all.scopes.iter().any(|(found, _)| found == scope))
    );
}

async fn one_of_many_swaps_lands(ledger: &Arc<dyn Ledger>) {
    let scope = scope(b"race");
    let mut base = RecordVersion::Absent;
    for round in 0..3 {
        let racers: Vec<_> = (1..=RACERS)
            .map(|racer| {
                let (ledger, scope, base) = (Arc::clone(ledger), scope.clone(), base.clone());
                tokio::spawn(async move {
                    let next = record(round * RACERS + racer);
                    (next.clone(), ledger.swap(&scope, &base, &next).await)
                })
            })
            .collect();
        let mut winners = Vec::new();
        for racer in racers {
            match racer.await.expect("the task does not panic") {
                (next, Ok(SwapOutcome::Swapped(version))) => winners.push((next, version)),
                (_, Ok(SwapOutcome::Lost) | Err(_)) => {}
            }
        }
        assert_eq!(winners.len(), 1, "round {round}: one swap lands");
        let loaded = ledger.load(&scope).await.expect("load");
        let (record, version) = winners.remove(0);
        assert_eq!((loaded.record, &loaded.version), (Some(record), &version));
        base = version;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::MemoryLedger;

    #[tokio::test]
    async fn the_memory_ledger_conforms() {
        all(Arc::new(MemoryLedger::default())).await;
    }
}

//! The judges of claims: one that reads what a store shows, over and over, and one that reads the
//! embedded store's own history.
//!
//! The first lists all keys at once. A body's length tells the token that wrote it, and no two
//! writes have the same body, so that another ETag is another write. What changes between two
//! listings, both begun after the claim of *t* had returned, to a body of less than *t* was written
//! after it. A key that is gone was deleted by somebody, and is looked up in the log at the end.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fencepost::devstore::{Change, ChangeKind};
use http::Method;

use crate::support::S3;
use crate::talk::{Begun, Told, Write};
use crate::writes::BODY_BYTES_MIN;
use crate::{moment, nanoseconds};

/// How long it rests between two listings.
const REST: Duration = Duration::from_millis(30);

/// What a listing shows of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    token: u64,
    etag: String,
}

/// A key that was there, and then was not, while claims up to `floor` had returned.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    key: String,
    floor: u64,
    from: u64,
    to: u64,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) listings: u64,
    pub(crate) changes: u64,
    pub(crate) wrong: Vec<String>,
    pub(crate) gone: Vec<Gone>,
}

/// Watches until it is over, and once after that.
pub(crate) async fn watch(
    store: S3,
    prefix: String,
    floor: &AtomicU64,
    over: &AtomicBool,
) -> Watched {
    let mut watched = Watched::default();
    let mut before: Option<(u64, u64, BTreeMap<String, Seen>)> = None;
    loop {
        let last = over.load(Ordering::SeqCst);
        let (floor_now, from) = (floor.load(Ordering::SeqCst), moment());
        let now = list(&store, &prefix).await;
        watched.listings += 1;
        if let Some((floor, from, before)) = &before {
            watched.compare(before, &now, *floor, *from);
        }
        before = Some((floor_now, from, now));
        if last {
            return watched;
        }
        tokio::time::sleep(REST).await;
    }
}

impl Watched {
    fn compare(
        &mut self,
        before: &BTreeMap<String, Seen>,
        now: &BTreeMap<String, Seen>,
        floor: u64,
        from: u64,
    ) {
        for (key, seen) in now.iter().filter(|(key, seen)| before.get(*key) != Some(*seen)) {
            self.changes += 1;
            if seen.token < floor {
                let was = before.get(key).map(|seen| seen.token);
                self.wrong.push(format!("{key}: {was:?} became {} after {floor}", seen.token));
            }
        }
        for key in before.keys().filter(|key| !now.contains_key(*key)) {
            self.changes += 1;
            self.gone.push(Gone { key: key.clone(), floor, from, to: moment() });
        }
    }
}

async fn list(store: &S3, prefix: &str) -> BTreeMap<String, Seen> {
    let prefix = prefix.replace('/', "%2F");
    let target = format!("/{}?list-type=2&max-keys=1000&prefix={prefix}", store.bucket());
    let answer = store.send(Method::GET, &target, Bytes::new()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.element("IsTruncated"), Some("false"), "there are 1,000 keys at most");
    let text = std::str::from_utf8(&answer.body).unwrap();
    let entries = text.split("<Contents>").skip(1).map(|entry| {
        let element = |name: &str| {
            let (_, rest) = entry.split_once(&format!("<{name}>")).unwrap();
            rest.split_once('<').unwrap().0.to_owned()
        };
        let size: usize = element("Size").parse().unwrap();
        let token = (size - BODY_BYTES_MIN) as u64;
        (element("Key"), Seen { token, etag: element("ETag") })
    });
    entries.collect()
}

/// Keys that nobody may have deleted.
pub(crate) fn unexplained(gone: &[Gone], log: &[Write]) -> Vec<String> {
    let mut deletes: HashMap<&str, Vec<&Write>> = HashMap::new();
    for write in log.iter().filter(|write| write.deletes) {
        deletes.entry(&write.key).or_default().push(write);
    }
    let explained = |gone: &Gone| {
        let of_key = deletes.get(gone.key.as_str()).map_or(&[][..], Vec::as_slice);
        of_key.iter().any(|write| {
            let made = matches!(write.told, Told::Done | Told::Unknown);
            let ended = write.told == Told::Done && write.answered < gone.from;
            made && write.token >= gone.floor && write.invoked <= gone.to && !ended
        })
    };
    let unexplained = gone.iter().filter(|gone| !explained(gone));
    unexplained
        .map(|gone| format!("{} was deleted by nobody who may: {gone:?}", gone.key))
        .collect()
}

/// Answers that contradict a claim: a write that began after it had returned was made.
pub(crate) fn acknowledged_late(begun: &[Begun], log: &[Write]) -> Vec<String> {
    let late = log.iter().filter(|write| write.told == Told::Done).filter_map(|write| {
        let floor = floor_at(begun, write.invoked);
        (write.token < floor).then(|| format!("after {floor} was told done: {write:?}"))
    });
    late.collect()
}

fn floor_at(begun: &[Begun], moment: u64) -> u64 {
    let before = begun.iter().filter(|begun| begun.returned < moment);
    before.map(|begun| begun.token).max().unwrap_or_default()
}

/// What a store's history shows that must not be.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// Changes by a lower token than that of a claim which had returned.
    pub(crate) late: Vec<String>,
    /// Changes of a key by a lower token than that of its last write.
    pub(crate) backwards: Vec<String>,
    /// Writes that were made more or less often than their clients were told.
    pub(crate) miscounted: Vec<String>,
}

impl Judged {
    pub(crate) fn all(self) -> Vec<String> {
        [self.late, self.backwards, self.miscounted].concat()
    }
}

/// Judges by the store's own history.
pub(crate) fn judge_history(history: &[Change], begun: &[Begun], log: &[Write]) -> Judged {
    let mut judged = Judged::default();
    let mut times_made: HashMap<u64, u32> = HashMap::new();
    let mut newest: HashMap<&str, u64> = HashMap::new();
    let mut deletes: HashMap<&str, Vec<&Write>> = HashMap::new();
    for write in log.iter().filter(|write| write.deletes) {
        deletes.entry(&write.key).or_default().push(write);
    }
    for change in history {
        let (key, at) = (change.key.as_str(), nanoseconds(change.time));
        let floor = floor_at(begun, at);
        let number = |name: &str| change.metadata.get(name).and_then(|text| text.parse().ok());
        match change.kind {
            ChangeKind::Put => {
                // What was there from the start has neither.
                let token = number("fencepost-token").unwrap_or_default();
                if let Some(id) = number("op") {
                    *times_made.entry(id).or_default() += 1;
                }
                if token < floor {
                    judged.late.push(format!("{key}: PUT of {token} after {floor}"));
                }
                let newest = newest.entry(key).or_default();
                if token < *newest {
                    judged.backwards.push(format!("{key}: PUT of {token} after that of {newest}"));
                }
                *newest = token.max(*newest);
            }
            ChangeKind::Delete | ChangeKind::DeleteVersion => {
                let of_key = deletes.get(key).map_or(&[][..], Vec::as_slice);
                if !of_key.iter().any(|write| write.token >= floor && write.may_act_at(at)) {
                    judged.late.push(format!("{key}: DELETE by nobody who may, after {floor}"));
                }
            }
            ChangeKind::Tagging => judged.late.push(format!("{key}: nobody tags")),
        }
    }
    for write in log.iter().filter(|write| !write.deletes) {
        let made = times_made.get(&write.id).copied().unwrap_or_default();
        let right = match write.told {
            Told::Done => made == 1,
            Told::Stale | Told::Busy => made == 0,
            Told::Unknown => made <= 1,
        };
        if !right {
            judged.miscounted.push(format!("{write:?} was made {made} times"));
        }
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(token: u64, returned: u64) -> Begun {
        Begun { token, invoked: returned, returned, barred: 0, repeated: 0 }
    }

    fn write(token: u64, deletes: bool, invoked: u64, told: Told) -> Write {
        let (key, answered) = ("k".to_owned(), invoked + 10);
        Write { key, token, id: token, deletes, invoked, answered, told }
    }

    fn shown(token: u64, etag: &str) -> BTreeMap<String, Seen> {
        BTreeMap::from([("k".to_owned(), Seen { token, etag: etag.to_owned() })])
    }

    #[test]
    fn a_lower_token_in_a_later_listing_is_found() {
        let mut watched = Watched::default();
        // The claim of 6 had returned before the first of the two began.
        watched.compare(&shown(5, "a"), &shown(5, "a"), 6, 0);
        watched.compare(&shown(5, "a"), &shown(6, "b"), 6, 0);
        assert_eq!((watched.changes, watched.wrong.len()), (1, 0));
        watched.compare(&shown(5, "a"), &shown(5, "c"), 6, 0);
        watched.compare(&BTreeMap::new(), &shown(5, "a"), 6, 0);
        assert_eq!(watched.wrong.len(), 2);
        // It had not: the older holder may still write.
        watched.compare(&shown(5, "a"), &shown(5, "c"), 5, 0);
        assert_eq!(watched.wrong.len(), 2);
    }

    #[test]
    fn a_key_that_is_gone_wants_an_explanation() {
        let gone = [Gone { key: "k".into(), floor: 6, from: 100, to: 200 }];
        let found = |write| unexplained(&gone, &[write]).len();
        assert_eq!(found(write(6, true, 150, Told::Done)), 0);
        assert_eq!(found(write(6, true, 150, Told::Unknown)), 0);
        assert_eq!(found(write(5, true, 150, Told::Unknown)), 1, "of a lower token");
        assert_eq!(found(write(6, true, 150, Told::Stale)), 1, "it was refused");
        assert_eq!(found(write(6, true, 50, Told::Done)), 1, "it had ended");
        assert_eq!(found(write(6, true, 250, Told::Done)), 1, "it had not begun");
        assert_eq!(found(write(6, false, 150, Told::Done)), 1, "it is no delete");
    }

    #[test]
    fn a_write_that_is_told_done_too_late_is_found() {
        let claims = [begun(5, 100), begun(6, 200)];
        let late = |write| acknowledged_late(&claims, &[write]).len();
        assert_eq!(late(write(5, false, 150, Told::Done)), 0);
        assert_eq!(late(write(5, false, 250, Told::Done)), 1);
        assert_eq!(late(write(5, false, 250, Told::Stale)), 0);
        assert_eq!(late(write(6, false, 250, Told::Done)), 0);
    }
}

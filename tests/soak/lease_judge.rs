//! The judge of leases: what must hold between all acquisitions, writes, renewals and releases.

use std::collections::HashMap;

use fencepost::devstore::{Change, ChangeKind};

use crate::talk::{Acquired, Keeping, Kept, Read, Told, Write};

/// All that the contenders reported.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) acquired: Vec<Acquired>,
    pub(crate) writes: Vec<Write>,
    pub(crate) reads: Vec<Read>,
    pub(crate) kept: Vec<Keeping>,
    pub(crate) odd: Vec<String>,
}

impl Log {
    /// Everything that must not be.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let mut acquired: Vec<_> = self.acquired.iter().collect();
        acquired.sort_by_key(|acquired| acquired.token);
        let mut wrong = self.odd.clone();
        wrong.extend(handed_out_twice(&acquired));
        wrong.extend(out_of_turn(&acquired));
        wrong.extend(self.held_at_once(&acquired));
        wrong.extend(self.kept_late());
        wrong.extend(self.done_late());
        wrong.extend(self.read_back_wrong());
        wrong
    }

    /// Two leases at a time: the next one was handed out before the last second of the one before
    /// was over, and its holder had not asked to release it. A late release that freed a newer lease
    /// would show here.
    fn held_at_once(&self, by_token: &[&Acquired]) -> Vec<String> {
        let mut ends: HashMap<u64, (u64, Option<u64>)> = HashMap::new();
        for keeping in &self.kept {
            let (renewed, released) = ends.entry(keeping.token).or_default();
            if let Kept::Renewed(until) = keeping.kept {
                *renewed = until.max(*renewed);
            }
            if keeping.releases && keeping.kept != Kept::Lost {
                *released = Some(keeping.invoked);
            }
        }
        let pairs = by_token.windows(2).filter_map(|pair| {
            let (one, next) = (pair[0], pair[1]);
            let (renewed, released) = ends.get(&one.token).copied().unwrap_or_default();
            let until = one.expires_at.max(renewed);
            let free = released.is_some_and(|released| released < next.returned);
            let overlap = !free && next.store_time <= until;
            overlap.then(|| format!("held until {until}, and handed out again: {one:?}, {next:?}"))
        });
        pairs.collect()
    }

    /// A renewal or release that succeeded though a newer lease had been acquired before.
    fn kept_late(&self) -> Vec<String> {
        let succeeded = |keeping: &&Keeping| match keeping.kept {
            Kept::Renewed(_) | Kept::Released => true,
            Kept::Lost | Kept::Unknown => false,
        };
        let late = self.kept.iter().filter(succeeded).filter_map(|keeping| {
            let newer = self.newest_before(keeping.invoked);
            (newer > keeping.token).then(|| format!("after {newer} was acquired: {keeping:?}"))
        });
        late.collect()
    }

    /// A write that was done though it began after a newer lease had been acquired.
    fn done_late(&self) -> Vec<String> {
        let done = self.writes.iter().filter(|write| write.told == Told::Done);
        let late = done.filter_map(|write| {
            let newer = self.newest_before(write.invoked);
            (newer > write.token).then(|| format!("after {newer} was acquired: {write:?}"))
        });
        late.collect()
    }

    fn newest_before(&self, moment: u64) -> u64 {
        let before = self.acquired.iter().filter(|acquired| acquired.returned < moment);
        before.map(|acquired| acquired.token).max().unwrap_or_default()
    }

    /// A read that shows an older holder's write than one that had been done before.
    fn read_back_wrong(&self) -> Vec<String> {
        let mut done: HashMap<&str, Vec<&Write>> = HashMap::new();
        for write in self.writes.iter().filter(|write| write.told == Told::Done) {
            done.entry(&write.key).or_default().push(write);
        }
        let wrong = self.reads.iter().filter_map(|read| {
            let of_key = done.get(read.key.as_str()).map_or(&[][..], Vec::as_slice);
            let before = of_key.iter().filter(|write| write.answered < read.invoked);
            let newest = before.map(|write| write.token).max().unwrap_or_default();
            (read.token < newest).then(|| format!("after {newest} was done: {read:?}"))
        });
        wrong.collect()
    }
}

fn handed_out_twice(by_token: &[&Acquired]) -> Vec<String> {
    let twice = by_token.windows(2).filter(|pair| pair[0].token == pair[1].token);
    twice.map(|pair| format!("one token, two leases: {:?}, {:?}", pair[0], pair[1])).collect()
}

/// Who was answered before another asked has the lower token, and the store's time agrees.
fn out_of_turn(by_token: &[&Acquired]) -> Vec<String> {
    let mut wrong = Vec::new();
    // Of those with a lower token, the one that asked last, and the latest of the store's times.
    let mut last: Option<&Acquired> = None;
    for acquired in by_token {
        if let Some(last) = last
            && acquired.returned < last.invoked
        {
            wrong.push(format!("acquired before, with a higher token: {acquired:?}, {last:?}"));
        }
        if last.is_none_or(|last| last.invoked < acquired.invoked) {
            last = Some(acquired);
        }
    }
    let backwards = by_token
        .windows(2)
        .filter(|pair| pair[0].expires_at - pair[0].ttl_seconds > pair[1].store_time);
    wrong.extend(backwards.map(|pair| format!("the store's time: {:?}, {:?}", pair[0], pair[1])));
    wrong
}

/// The tokens of a key's writes, in the order in which the store made them, where they go back.
pub(crate) fn history_goes_back(history: &[Change]) -> Vec<String> {
    let mut highest: HashMap<&str, u64> = HashMap::new();
    let mut wrong = Vec::new();
    for change in history {
        let token =
            change.metadata.get("fencepost-token").and_then(|text| text.parse::<u64>().ok());
        let Some(token) = token.filter(|_| change.kind == ChangeKind::Put) else {
            wrong.push(format!("nobody but the holders changes anything: {change:?}"));
            continue;
        };
        // In one scope no write goes back, whichever key it is to.
        let highest = highest.entry(&change.bucket).or_default();
        if token < *highest {
            wrong.push(format!("{} after {highest}: {change:?}", token));
        }
        *highest = token.max(*highest);
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lease from one second to another, which is answered in its first.
    fn lease(worker: u64, token: u64, from: u64, to: u64) -> Acquired {
        let id = format!("{token:032x}");
        let (invoked, returned) = (from * 1_000, from * 1_000 + 10);
        Acquired {
            worker,
            id,
            token,
            ttl_seconds: to - from,
            invoked,
            returned,
            store_time: from,
            expires_at: to,
            repeated: 0,
            barred: 0,
        }
    }

    fn keeping(token: u64, invoked: u64, releases: bool, kept: Kept) -> Keeping {
        Keeping { token, releases, invoked, answered: invoked + 10, kept }
    }

    fn done(token: u64, invoked: u64) -> Write {
        let (key, answered, told) = ("k".to_owned(), invoked + 10, Told::Done);
        Write { key, token, id: token, deletes: false, invoked, answered, told }
    }

    fn log(acquired: Vec<Acquired>) -> Log {
        Log { acquired, ..Log::default() }
    }

    /// The one thing that is wrong.
    #[track_caller]
    fn wrong(log: &Log) -> String {
        let wrong = log.wrong();
        assert_eq!(wrong.len(), 1, "{wrong:#?}");
        wrong[0].clone()
    }

    #[test]
    fn what_is_in_order_passes() {
        let mut log = log(vec![lease(1, 5, 10, 12), lease(2, 6, 11, 13), lease(1, 8, 14, 15)]);
        log.kept = vec![keeping(5, 10_900, true, Kept::Released)];
        log.writes = vec![done(5, 10_500), done(6, 11_500), done(8, 14_500)];
        log.reads = vec![Read { key: "k".into(), invoked: 12_000, token: 6 }];
        assert_eq!(log.wrong(), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_is_found() {
        let twice = log(vec![lease(1, 5, 10, 12), Acquired { token: 5, ..lease(2, 6, 13, 14) }]);
        assert!(wrong(&twice).starts_with("one token, two leases"));
        let mut together = log(vec![lease(1, 5, 10, 12), lease(2, 6, 12, 14)]);
        assert!(wrong(&together).starts_with("held until 12"));
        // A late release by the holder before that, taken for its own.
        together.acquired.insert(0, lease(3, 4, 5, 6));
        together.kept = vec![keeping(4, 11_000, true, Kept::Lost)];
        assert!(wrong(&together).starts_with("held until 12"));
        let mut renewed = log(vec![lease(1, 5, 10, 12), lease(2, 6, 13, 14)]);
        renewed.kept = vec![keeping(5, 11_000, false, Kept::Renewed(13))];
        assert!(wrong(&renewed).starts_with("held until 13"));
        let mut late = log(vec![lease(1, 5, 10, 12), lease(2, 6, 13, 14)]);
        late.kept = vec![keeping(5, 13_500, true, Kept::Released)];
        assert!(wrong(&late).starts_with("after 6 was acquired: Keeping"));
        late.kept.clear();
        late.writes = vec![done(5, 13_500)];
        assert!(wrong(&late).starts_with("after 6 was acquired: Write"));
        late.writes = vec![done(6, 13_500)];
        late.reads = vec![Read { key: "k".into(), invoked: 13_600, token: 5 }];
        assert!(wrong(&late).starts_with("after 6 was done"));
    }

    #[test]
    fn tokens_that_do_not_rise_are_found() {
        // The lower token is acquired later: by the store's time, and by that of the clients.
        let swapped = log(vec![lease(1, 6, 10, 11), lease(2, 5, 14, 15)]);
        let wrong = swapped.wrong();
        assert!(wrong.iter().any(|line| line.starts_with("acquired before")), "{wrong:?}");
        assert!(wrong.iter().any(|line| line.starts_with("the store's time")), "{wrong:?}");
    }
}

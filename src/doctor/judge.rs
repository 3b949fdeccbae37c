//! What an answer, and what is there afterwards, say of a check.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::bench::{Bench, Draft, Reply, Silence, State, When};
use super::report::Outcome;

/// How a check ended, and what the store did.
pub(super) type Judged = Result<(Outcome, String), Silence>;

pub(super) fn passed(evidence: impl Into<String>) -> (Outcome, String) {
    (Outcome::Passed, evidence.into())
}

pub(super) fn failed(evidence: impl Into<String>) -> (Outcome, String) {
    (Outcome::Failed, evidence.into())
}

pub(super) fn unclear(evidence: impl Into<String>) -> (Outcome, String) {
    (Outcome::Unclear, evidence.into())
}

pub(super) fn noted(evidence: impl Into<String>) -> (Outcome, String) {
    (Outcome::Noted, evidence.into())
}

/// The request had to be done, and to leave `body`.
pub(super) async fn must_apply(bench: &Bench<'_>, key: &str, body: &str, reply: &Reply) -> Judged {
    if !reply.done() {
        return Ok(failed(reply.said()));
    }
    match bench.state(key).await? {
        State::Present { body: found, .. } if found == body.as_bytes() => Ok(passed(reply.said())),
        State::Present { .. } => Ok(failed(format!("{}, and other bytes are there", reply.said()))),
        State::Absent => Ok(failed(format!("{}, and there is no object", reply.said()))),
    }
}

/// The request had to be refused, and to leave what was there.
pub(super) async fn must_refuse(
    bench: &Bench<'_>,
    key: &str,
    before: &State,
    reply: &Reply,
) -> Judged {
    let after = bench.state(key).await?;
    let said = reply.said();
    let verb = match (&after, before) {
        (State::Absent, State::Present { .. }) => "the object is gone",
        (State::Present { .. }, State::Absent) => "an object was created",
        (State::Present { .. }, State::Present { .. }) => "the object was overwritten",
        (State::Absent, State::Absent) => "nothing changed",
    };
    Ok(match (after == *before, reply.done(), reply.refused()) {
        (false, _, _) => failed(format!("{said}, {verb}")),
        (true, true, _) => failed(format!("{said}, as if it had been done")),
        (true, false, true) => passed(format!("{said}, unchanged")),
        (true, false, false) => unclear(format!("{said}, unchanged")),
    })
}

/// A race: each round, requests at the same time of which one may win.
pub(super) struct Race<'a> {
    /// The key of a round.
    pub(super) key: String,
    /// The requests, with the bytes that each would leave (`None`: no object).
    pub(super) racers: Vec<(Draft, Option<&'a str>)>,
}

/// Races of conditional PUTs with a request that has no condition: whatever comes first, what the
/// store has carried out without a condition must not be overwritten by a PUT that expects the
/// state before. The proxy sends such requests where a condition is not sound (F8).
#[derive(Debug, Default)]
pub(super) struct Precedence {
    rounds: usize,
    overwritten: usize,
    refused: BTreeMap<String, usize>,
}

impl Precedence {
    /// Runs one round: `unconditional` leaves `leaves`, and the PUTs expect `tag`.
    pub(super) async fn run(
        &mut self,
        bench: &Bench<'_>,
        (key, tag): (&str, &str),
        unconditional: Draft,
        leaves: Option<&str>,
    ) -> Result<(), Silence> {
        bench.be_patient().await;
        let when = When::Tag(tag);
        let swaps = (1..bench.writers.max(2)).map(|_| bench.put_draft(key, "swapped", &when));
        let swaps = join_all(swaps.map(|draft| bench.send_once(draft)));
        let again = unconditional.again();
        let (_, reply) = tokio::join!(swaps, bench.send_once(unconditional));
        let mut reply = reply?;
        if reply.throttled() {
            // Where a key is written once a second there is no race: the last word is this one's.
            reply = bench.send(again).await?;
        }
        self.rounds += 1;
        if !reply.done() {
            *self.refused.entry(reply.said()).or_default() += 1;
            return Ok(());
        }
        let found = match bench.state(key).await? {
            State::Absent => None,
            State::Present { body, .. } => Some(body),
        };
        self.overwritten += usize::from(found.as_deref() != leaves.map(str::as_bytes));
        Ok(())
    }

    pub(super) fn judged(&self) -> (Outcome, String) {
        let Self { rounds, overwritten, refused } = self;
        let done = rounds - refused.values().sum::<usize>();
        match (overwritten, done) {
            (0, 0) => unclear(format!("it was never carried out: {refused:?}")),
            (0, _) => passed(format!("{done} rounds")),
            (_, _) => failed(format!(
                "a PUT that expects the state before overwrote it in {overwritten} of {done} rounds"
            )),
        }
    }
}

/// How a race went, over all its rounds.
#[derive(Debug, Default)]
pub(super) struct Tally {
    rounds: usize,
    void: usize,
    twice: usize,
    other: usize,
    losers: BTreeMap<String, usize>,
}

impl Tally {
    /// Runs one round.
    pub(super) async fn run(&mut self, bench: &Bench<'_>, race: Race<'_>) -> Result<(), Silence> {
        let Race { key, racers } = race;
        bench.be_patient().await;
        let (drafts, bodies): (Vec<_>, Vec<_>) = racers.into_iter().unzip();
        let replies = join_all(drafts.into_iter().map(|draft| bench.send_once(draft))).await;
        self.rounds += 1;
        let mut winners = Vec::new();
        for (reply, body) in replies.iter().zip(bodies) {
            match reply {
                Ok(reply) if reply.done() => winners.push(body),
                Ok(reply) => *self.losers.entry(reply.said()).or_default() += 1,
                Err(_) => *self.losers.entry("no answer".to_owned()).or_default() += 1,
            }
        }
        match winners.as_slice() {
            [] => self.void += 1,
            [winner] => {
                let found = match bench.state(&key).await? {
                    State::Absent => None,
                    State::Present { body, .. } => Some(body),
                };
                if found.as_deref() != winner.map(str::as_bytes) {
                    self.other += 1;
                }
            }
            _ => self.twice += 1,
        }
        Ok(())
    }

    /// What it comes to. A store may answer anything to a loser (Ceph: 500), so that only successes
    /// count.
    pub(super) fn judged(&self) -> (Outcome, String) {
        let losers: Vec<String> =
            self.losers.iter().map(|(said, count)| format!("{said} x{count}")).collect();
        let losers = if losers.is_empty() { "none".to_owned() } else { losers.join(", ") };
        let rounds = self.rounds;
        if self.twice > 0 {
            return failed(format!("several winners in {} of {rounds} rounds", self.twice));
        }
        if self.other > 0 {
            let other = self.other;
            return failed(format!("not the winner's state in {other} of {rounds} rounds"));
        }
        if self.void == self.rounds {
            return unclear(format!("no winner in {rounds} rounds; losers: {losers}"));
        }
        passed(format!("one winner in {} rounds; losers: {losers}", rounds - self.void))
    }
}

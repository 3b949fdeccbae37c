//! What a soak and its worker processes say to each other: one JSON value a line.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::support::S3;

/// What a process is, told in its environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// `fencepost` itself, with these arguments.
    Program(Vec<String>),
    /// A holder of tokens that it is given ([`crate::writer`]).
    Writer(Site),
    /// A contender for a lease ([`crate::contender`]).
    Contender(Site),
}

/// What a worker has to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Site {
    /// Its number.
    pub(crate) worker: u64,
    /// The proxies, of which it takes any.
    pub(crate) proxies: Vec<SocketAddr>,
    pub(crate) access_key_id: String,
    pub(crate) secret_access_key: String,
    pub(crate) bucket: String,
    /// The scope's keys begin so.
    pub(crate) prefix: String,
    /// How many keys there are.
    pub(crate) keys: usize,
    pub(crate) seed: u64,
}

impl Site {
    pub(crate) fn client(&self, proxy: usize) -> S3 {
        let (id, secret) = (&self.access_key_id, &self.secret_access_key);
        S3::new(self.proxies[proxy], id, secret, &self.bucket)
    }

    pub(crate) fn key(&self, number: usize) -> String {
        format!("{}{number:04}", self.prefix)
    }
}

/// What a worker is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The lock is its own.
    Hold { token: u64, claim: bool },
    /// The lock has been another's for a while.
    Lost,
    /// It ends when it has finished what it is at.
    End,
}

/// What a client was told of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Told {
    /// It is done.
    Done,
    /// It was not made, because of a newer token.
    Stale,
    /// It was not made; try again.
    Busy,
    /// Nobody knows.
    Unknown,
}

/// One write as its client saw it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Write {
    pub(crate) key: String,
    pub(crate) token: u64,
    /// What was written as `x-amz-meta-op`; a delete has no place for it.
    pub(crate) id: u64,
    pub(crate) deletes: bool,
    pub(crate) invoked: u64,
    pub(crate) answered: u64,
    pub(crate) told: Told,
}

impl Write {
    /// Whether it may have changed something at that moment.
    pub(crate) fn may_act_at(&self, moment: u64) -> bool {
        let unsettled = match self.told {
            Told::Done => self.answered >= moment,
            Told::Unknown => true,
            Told::Stale | Told::Busy => false,
        };
        self.invoked <= moment && unsettled
    }
}

/// A token that a worker has begun to write with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Begun {
    pub(crate) token: u64,
    /// When its claim was asked for first, and when it returned.
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
    /// How often it was answered `FenceBarrier`.
    pub(crate) barred: u64,
    /// How often it was not answered, or otherwise.
    pub(crate) repeated: u64,
}

/// A lease that was acquired.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Acquired {
    pub(crate) worker: u64,
    pub(crate) id: String,
    pub(crate) token: u64,
    pub(crate) ttl_seconds: u64,
    pub(crate) invoked: u64,
    pub(crate) returned: u64,
    /// By the store's clock.
    pub(crate) store_time: u64,
    pub(crate) expires_at: u64,
    pub(crate) repeated: u64,
    pub(crate) barred: u64,
}

/// What became of a lease in its holder's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kept {
    /// Renewed until then, by the store's clock.
    Renewed(u64),
    Released,
    Lost,
    Unknown,
}

/// A renewal or a release.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Keeping {
    pub(crate) token: u64,
    pub(crate) releases: bool,
    pub(crate) invoked: u64,
    pub(crate) answered: u64,
    pub(crate) kept: Kept,
}

/// A read of an object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Read {
    pub(crate) key: String,
    pub(crate) invoked: u64,
    /// The token that wrote it.
    pub(crate) token: u64,
}

/// What a worker reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    Begun(Begun),
    Wrote(Write),
    Read(Read),
    Acquired(Acquired),
    Kept(Keeping),
    /// It is at rest.
    Ended,
    /// An answer that has no place here.
    Odd(String),
}

/// What a line with a report begins with: the test runner prints lines, too.
const MARK: &str = "@report ";

pub(crate) fn report(report: &Report) {
    println!("{MARK}{}", serde_json::to_string(report).unwrap());
}

/// The orders that come on standard input; it ends with the test. A thread reads them, because the
/// `tokio` of this crate cannot.
pub(crate) fn orders() -> mpsc::UnboundedReceiver<Order> {
    let (give, orders) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lines().map_while(Result::ok);
        let mut orders = lines.map(|line| serde_json::from_str(&line).unwrap());
        while let Some(order) = orders.next()
            && give.send(order).is_ok()
        {}
    });
    orders
}

/// The report in a line, if there is one.
pub(crate) fn parse(line: &str) -> Option<Report> {
    let (_, text) = line.split_once(MARK)?;
    Some(serde_json::from_str(text).unwrap())
}

/// How long a client waits for an answer: sometimes so short that it has gone away by the time that
/// a stopped proxy wakes up.
pub(crate) fn patience(dice: &mut crate::support::Generator) -> Duration {
    if dice.one_in(3) { Duration::from_millis(400) } else { Duration::from_secs(15) }
}

//! The world around the fence: an object store, a ledger, two proxies and their clients, and what
//! can go wrong between them.
//!
//! The proxies run `src/fence` itself. What the driver does in one go is one step here; everything
//! that others could see in between is a step of its own. A request and its answer are one step:
//! an answer that comes late or never is covered by the sender's time-out, because a waiting
//! sender does nothing that others could see. A request that was sent can arrive at any later
//! time, or never, until the store refuses its signature (F9).

use super::search::Part;
use fencepost::fence::{
    Attempt, ClientCondition, Enforcement, Forms, KeyId, Memory, OperationId, Protocol, Record,
    RecordVersion, Snapshot, StoreTime, Swap, Tag, Terms, Token, reset::Order,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    /// Write these bytes, held in memory.
    Put(&'static str),
    /// Write these bytes, streamed.
    Stream(&'static str),
    /// Delete the object.
    Delete,
    /// Complete an upload of these bytes, whose tag is known beforehand.
    Complete(&'static str),
    /// Complete an upload of these bytes, whose tag nobody knows beforehand.
    CompleteUnforetold(&'static str),
    /// Change what belongs to the object and leave its tag.
    Touch,
    /// Delete the newest version, which brings the one before it back.
    DeleteVersion,
    /// Claim the scope.
    Claim,
}

/// A client's operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) token: u64,
    /// The number of the object's key; of no meaning to a claim on many keys.
    pub(crate) key: usize,
    pub(crate) ask: Ask,
    pub(crate) condition: ClientCondition,
    /// The client whose upload it completes, if not its own.
    pub(crate) upload: Option<usize>,
}

/// How often each kind of fault may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Faults {
    /// The sender of a write gives up; its request may arrive at any later time.
    pub(crate) timeouts: u8,
    /// The answer to a swap is lost; the swap has landed, or lands later, or never.
    pub(crate) swaps_lost: u8,
    /// The ledger or the store cannot be asked.
    pub(crate) outages: u8,
    /// A proxy dies with everything it knows; what it has sent stays on its way.
    pub(crate) crashes: u8,
    /// The store's clock goes on by one second.
    pub(crate) ticks: u8,
    /// A client that knows no outcome asks again, as a new operation.
    pub(crate) retries: u8,
    /// A client's body breaks off.
    pub(crate) broken_bodies: u8,
    /// A person sets the record's token back to the first one.
    pub(crate) resets: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// Client `.0` sends its operation to proxy `.1`.
    Start(usize, usize),
    /// The proxy's next request that changes no object is answered.
    Ask(usize),
    /// The same, but it is lost; a swap may land later.
    AskInVain(usize),
    /// All of this proxy's operations that wait for their swap and may share it enter together.
    Together(usize),
    /// The same, but the answer to the swap is lost.
    TogetherInVain(usize),
    /// The body of a stream breaks off.
    BodyBreaks(usize),
    /// The write arrives at the store.
    Arrive(usize),
    /// The sender of the write gives up.
    TimeOut(usize),
    /// The swap whose answer was lost lands.
    LateSwap(usize),
    /// The proxy takes settled intents out of the record.
    Withdraw(usize),
    Crash(usize),
    Tick,
    /// Client `.0` asks again, through proxy `.1`.
    Retry(usize, usize),
    /// A person resets the record.
    Reset,
}

/// A property that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Violation {
    /// P1: a lower token took effect after a higher one was acknowledged.
    StaleWriteLanded,
    /// P2: acknowledged as applied, and not applied exactly once.
    NotExactlyOnce,
    /// P3: refused, and applied all the same.
    RefusedYetApplied,
    /// P4: the record's token went down.
    TokenWentDown,
    /// P6: applied to an object that the client's own condition excludes.
    ConditionBroken,
    /// P7: with strictly-greater, two operations with one token took effect.
    TokenUsedTwice,
    /// Acknowledged, though a lower token had overwritten it by then.
    AcknowledgedThoughOverwritten,
    /// The machine called its driver's report impossible.
    Broken,
}

/// How an operation ended, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Applied,
    AlreadyAbsent,
    Claimed,
    Refused,
    /// Unknown, or the proxy died.
    Unknown,
    /// Unknown, and asked again.
    Retried,
}

/// What a running operation waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    Observe,
    Load,
    /// Looking at keys: those left, and what was found so far.
    Look(Vec<KeyId>, Vec<(KeyId, Tag)>),
    Body,
    Swap(Swap),
    Answer,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Ready,
    Running { proxy: usize, attempt: Box<Attempt>, wait: Wait, pauses: u8 },
    Over(End),
}

/// A write on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flight {
    pub(crate) terms: Terms,
    /// The last second in which the store takes it.
    pub(crate) deadline: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub(crate) client: Rc<Client>,
    pub(crate) phase: Phase,
    pub(crate) flight: Option<Flight>,
    pub(crate) late_swap: Option<Swap>,
    pub(crate) applied: u8,
    /// When the store last saw a stream's body move; none if it did not take the request.
    pub(crate) stream: Option<u64>,
    /// Its write was sent without asking anybody first.
    pub(crate) chained: bool,
    /// How many resets there had been when it began, and when its request was announced last.
    pub(crate) began: u8,
    pub(crate) entered: u8,
    /// The run that it asks again for; its own number if it is the first. They share an upload.
    pub(crate) first: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    pub(crate) tag: Tag,
    pub(crate) stamp: Option<OperationId>,
    /// What it was before.
    pub(crate) previous: Tag,
}

/// A state of the world.
#[derive(Clone, Debug, Hash)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) objects: Vec<Part<Object>>,
    /// Counts writes, to number unique tags.
    pub(crate) writes: u16,
    pub(crate) record: Part<Option<Record>>,
    pub(crate) version: u16,
    pub(crate) proxies: Vec<Part<Memory>>,
    /// Which key each proxy remembers the tag of.
    pub(crate) tag_keys: Vec<usize>,
    /// The tags that each proxy remembers, by key, where what it knows is shared.
    pub(crate) tags: Vec<Part<BTreeMap<usize, Tag>>>,
    /// The proxies are alike: each comes into play after the one before it.
    pub(crate) proxies_used: usize,
    pub(crate) runs: Vec<Part<Run>>,
    pub(crate) acknowledged: u64,
    /// How many resets there have been.
    pub(crate) resets: u8,
    pub(crate) faults: Faults,
    pub(crate) violation: Option<Violation>,
    /// Token and upload of the write that took effect last, on each key.
    pub(crate) last: Vec<Option<(u64, usize)>>,
}

/// A world to search, and where its searches start.
pub(crate) struct Setting {
    pub(crate) protocol: Protocol,
    pub(crate) faults: Faults,
    /// How many proxies there are.
    pub(crate) proxies: usize,
    /// How many keys the scope has.
    pub(crate) keys: usize,
    /// Whether the store enforces a condition on the completion of an upload.
    pub(crate) assembles: Enforcement,
    /// Whether a second completion of an upload is answered like the first (AWS).
    pub(crate) idempotent: bool,
    /// How often an operation may pause before it runs out of patience.
    pub(crate) pauses: u8,
    /// Whether the operations of one proxy share what it knows, as the driver has it in a scope of
    /// many keys: each begins with a copy, and only what it has settled, and the barrier that it
    /// has passed, is taken over at its end.
    pub(crate) shared: bool,
    /// Initial contents, and the clients.
    pub(crate) starts: Vec<(Option<&'static str>, Vec<Client>)>,
    /// How many states show what; a model in which something never happens proves nothing of it.
    pub(crate) seen: BTreeMap<&'static str, u64>,
}

pub(crate) fn forms(content: &str) -> Forms {
    Forms {
        plain: Tag::Version(content.to_owned()),
        one_part: Tag::Version(format!("{content}-1")),
    }
}

/// What an upload of these bytes leaves: the tag of a one-part form, which others may expect.
pub(crate) fn assembled(content: &str) -> Tag {
    forms(content).one_part
}

/// Where the numbers of uploads begin.
pub(crate) const UPLOADS: usize = 1000;

/// The key of this number.
pub(crate) fn key(number: usize) -> KeyId {
    KeyId::new(format!("k{number}"))
}

pub(crate) fn id(number: usize) -> OperationId {
    OperationId::new(number as u128 + 1)
}

impl World {
    pub(crate) fn edit(&mut self, number: usize, change: impl FnOnce(&mut Run)) {
        let mut run = (*self.runs[number]).clone();
        change(&mut run);
        self.runs[number] = Part::new(run);
    }

    /// Like `edit`, without copying the phase that is replaced.
    pub(crate) fn set_phase(&mut self, number: usize, phase: Phase) {
        let run = &self.runs[number];
        self.runs[number] = Part::new(Run {
            client: Rc::clone(&run.client),
            phase,
            flight: run.flight.clone(),
            late_swap: run.late_swap.clone(),
            applied: run.applied,
            stream: run.stream,
            chained: run.chained,
            began: run.began,
            entered: run.entered,
            first: run.first,
        });
    }

    pub(crate) fn blame(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            record: (*self.record).clone(),
            version: version(self.version),
            time: Some(StoreTime(self.now)),
        }
    }

    /// A person sets the token back to the first one; what was acknowledged before counts no more.
    pub(crate) fn reset(&mut self) {
        let order = Order {
            to: Token::new(33).expect("it is not zero"),
            force: true,
            by: String::new(),
            reason: String::new(),
        };
        let next = fencepost::fence::reset::reset(&self.snapshot(), &order);
        self.record = Part::new(Some(next.expect("there is a record")));
        self.version += 1;
        self.resets += 1;
        self.acknowledged = 0;
        self.last.fill(None);
    }

    /// The ledger's compare-and-swap.
    pub(crate) fn swap(&mut self, swap: &Swap) -> Option<RecordVersion> {
        if swap.base != version(self.version) {
            return None;
        }
        if self.record.as_ref().is_some_and(|record| swap.next.token < record.token) {
            self.blame(Violation::TokenWentDown);
        }
        self.record = Part::new(Some(swap.next.clone()));
        self.version += 1;
        Some(version(self.version))
    }
}

pub(crate) fn version(number: u16) -> RecordVersion {
    if number == 0 { RecordVersion::Absent } else { RecordVersion::Tag(number.to_string()) }
}

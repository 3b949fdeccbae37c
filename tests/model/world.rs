//! The world around the fence: an object store, a ledger, two proxies and their clients, and what
//! can go wrong between them.
//!
//! The proxies run `src/fence` itself. What the driver does in one go is one step here; everything
//! that others could see in between is a step of its own. A request and its answer are one step:
//! an answer that comes late or never is covered by the sender's time-out, because a waiting
//! sender does nothing that others could see. A request that was sent can arrive at any later
//! time, or never, until the store refuses its signature (F9).

use super::search::{Part, Space};
use fencepost::fence::{
    Attempt, Change, ClientCondition, Compare, Contents, Effect, Enforcement, Form, Forms, KeyId,
    Memory, Operation, OperationId, Outcome, Protocol, Record, RecordVersion, Snapshot, StoreTime,
    Swap, Tag, Tags, Terms, Token, Verdict,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Write these bytes, held in memory.
    Put(&'static str),
    /// Write these bytes, streamed.
    Stream(&'static str),
    /// Delete the object.
    Delete,
}

/// A client's operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    pub token: u64,
    pub ask: Ask,
    pub condition: ClientCondition,
}

/// How often each kind of fault may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// The sender of a write gives up; its request may arrive at any later time.
    pub timeouts: u8,
    /// The answer to a swap is lost; the swap has landed, or lands later, or never.
    pub swaps_lost: u8,
    /// The ledger or the store cannot be asked.
    pub outages: u8,
    /// A proxy dies with everything it knows; what it has sent stays on its way.
    pub crashes: u8,
    /// The store's clock goes on by one second.
    pub ticks: u8,
    /// A client that knows no outcome asks again, as a new operation.
    pub retries: u8,
    /// A client's body breaks off.
    pub broken_bodies: u8,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Client `.0` sends its operation to proxy `.1`.
    Start(usize, usize),
    /// The proxy's next request that changes no object is answered.
    Ask(usize),
    /// The same, but it is lost; a swap may land later.
    AskInVain(usize),
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
}

/// A property that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Violation {
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
    /// The machine called its driver's report impossible.
    Broken,
}

/// How an operation ended, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Applied,
    AlreadyAbsent,
    Refused,
    /// Unknown, or the proxy died.
    Unknown,
    /// Unknown, and asked again.
    Retried,
}

/// What a running operation waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Wait {
    Observe,
    Load,
    Body(Terms),
    Swap(Swap),
    Answer,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Ready,
    Running { proxy: usize, attempt: Box<Attempt>, wait: Wait, pauses: u8 },
    Over(End),
}

/// A write on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flight {
    terms: Terms,
    /// The last second in which the store takes it.
    deadline: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run {
    client: Rc<Client>,
    phase: Phase,
    flight: Option<Flight>,
    late_swap: Option<Swap>,
    applied: u8,
    /// A stream's first bytes were accepted, and its last but those held back came at this time.
    stream: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Object {
    tag: Tag,
    stamp: Option<OperationId>,
}

/// A state of the world.
#[derive(Clone, Debug, Hash)]
pub struct World {
    now: u64,
    object: Part<Object>,
    /// Counts writes, to number unique tags.
    writes: u16,
    record: Part<Option<Record>>,
    version: u16,
    proxies: [Part<Memory>; 2],
    second_proxy_used: bool,
    runs: Vec<Part<Run>>,
    acknowledged: u64,
    faults: Faults,
    pub violation: Option<Violation>,
}

/// A world to search, and where its searches start.
pub struct Setting {
    pub protocol: Protocol,
    pub faults: Faults,
    /// How often an operation may pause before it runs out of patience.
    pub pauses: u8,
    /// Initial contents, and the clients.
    pub starts: Vec<(Option<&'static str>, Vec<Client>)>,
    /// How many states show what; a model in which something never happens proves nothing of it.
    pub seen: BTreeMap<&'static str, u64>,
}

fn forms(content: &str) -> Forms {
    Forms {
        plain: Tag::Version(content.to_owned()),
        one_part: Tag::Version(format!("{content}-1")),
    }
}

fn id(number: usize) -> OperationId {
    OperationId::new(number as u128 + 1)
}

impl World {
    fn edit(&mut self, number: usize, change: impl FnOnce(&mut Run)) {
        let mut run = (*self.runs[number]).clone();
        change(&mut run);
        self.runs[number] = Part::new(run);
    }

    /// Like `edit`, without copying the phase that is replaced.
    fn set_phase(&mut self, number: usize, phase: Phase) {
        let run = &self.runs[number];
        self.runs[number] = Part::new(Run {
            client: Rc::clone(&run.client),
            phase,
            flight: run.flight.clone(),
            late_swap: run.late_swap.clone(),
            applied: run.applied,
            stream: run.stream,
        });
    }

    fn blame(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            record: (*self.record).clone(),
            version: version(self.version),
            time: Some(StoreTime(self.now)),
        }
    }

    /// The ledger's compare-and-swap.
    fn swap(&mut self, swap: &Swap) -> Option<RecordVersion> {
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

fn version(number: u16) -> RecordVersion {
    if number == 0 { RecordVersion::Absent } else { RecordVersion::Tag(number.to_string()) }
}

impl Setting {
    /// Whether the store would let the write pass now.
    fn passes(&self, world: &World, run: &Run, flight: &Flight) -> bool {
        let enforced = match run.client.ask {
            Ask::Delete => self.protocol.delete,
            Ask::Put(_) | Ask::Stream(_) => match flight.terms.form {
                Form::Plain => Enforcement::Conditional,
                Form::OnePart => self.protocol.complete,
            },
        };
        world.now <= flight.deadline
            && match enforced {
                Enforcement::Conditional => flight.terms.expects == world.object.tag,
                Enforcement::Exclusive => true,
            }
    }

    /// The store takes the write in; the properties are judged here.
    fn commit(&self, world: &mut World, number: usize) -> Tag {
        let run = world.runs[number].clone();
        let flight = run.flight.as_ref().expect("it is on its way");
        let tag = match run.client.ask {
            Ask::Delete => Tag::Absent,
            Ask::Put(content) | Ask::Stream(content) => {
                match (self.protocol.tags, flight.terms.form) {
                    (Tags::Unique, _) => Tag::Version(format!("u{}", world.writes + 1)),
                    (Tags::Repeat, Form::Plain) => forms(content).plain,
                    (Tags::Repeat, Form::OnePart) => forms(content).one_part,
                }
            }
        };
        let changes = world.object.tag != Tag::Absent || tag != Tag::Absent;
        if changes && run.client.token < world.acknowledged {
            world.blame(Violation::StaleWriteLanded);
        }
        if run.client.condition.check(&world.object.tag).is_err() {
            world.blame(Violation::ConditionBroken);
        }
        let used = |other: &Part<Run>| other.applied > 0 && other.client.token == run.client.token;
        if self.protocol.compare == Compare::StrictlyGreater && world.runs.iter().any(used) {
            world.blame(Violation::TokenUsedTwice);
        }
        match run.phase {
            Phase::Over(End::Refused | End::AlreadyAbsent) => {
                world.blame(Violation::RefusedYetApplied);
            }
            Phase::Over(End::Applied) => world.blame(Violation::NotExactlyOnce),
            Phase::Ready | Phase::Running { .. } | Phase::Over(End::Unknown | End::Retried) => {}
        }
        world.writes += u16::from(self.protocol.tags == Tags::Unique);
        let stamp = (tag != Tag::Absent).then(|| id(number));
        world.object = Part::new(Object { tag: tag.clone(), stamp });
        world.edit(number, |run| {
            run.applied += 1;
            run.flight = None;
        });
        tag
    }

    fn start(&self, world: &mut World, number: usize, proxy: usize) {
        let client = world.runs[number].client.clone();
        let operation = Operation {
            id: id(number),
            token: Token::new(client.token).expect("tokens are not zero"),
            key: KeyId::new("k"),
            change: match client.ask {
                Ask::Put(content) => Change::Put(Contents::Buffered(forms(content))),
                Ask::Stream(_) => Change::Put(Contents::Streamed),
                Ask::Delete => Change::Delete,
            },
            condition: client.condition.clone(),
            signed_at: world.now,
        };
        world.second_proxy_used |= proxy == 1;
        let memory = (*world.proxies[proxy]).clone();
        let attempt = Box::new(Attempt::new(self.protocol, operation, memory));
        self.go_on(world, number, proxy, attempt, self.pauses, Outcome::Start);
    }

    /// Hands the outcome to the machine and does what it says, up to what takes a request.
    fn go_on(
        &self,
        world: &mut World,
        number: usize,
        proxy: usize,
        mut attempt: Box<Attempt>,
        mut pauses: u8,
        mut outcome: Outcome,
    ) {
        let wait = loop {
            match attempt.advance(outcome) {
                Effect::Observe => break Wait::Observe,
                Effect::Load => break Wait::Load,
                Effect::Begin(permit) => break Wait::Body(permit.terms().clone()),
                Effect::Swap(swap) => break Wait::Swap(swap),
                Effect::Send(permit) => {
                    let flight = self.flight(&world.runs[number], permit.terms());
                    world.edit(number, |run| run.flight = Some(flight));
                    break Wait::Answer;
                }
                Effect::Pause if pauses == 0 => outcome = Outcome::OutOfPatience,
                Effect::Pause => {
                    pauses -= 1;
                    outcome = Outcome::Paused;
                }
                Effect::Finish(verdict) => {
                    self.finish(world, number, &verdict);
                    let mut memory = attempt.into_memory();
                    memory.absorb(&world.proxies[proxy]);
                    world.proxies[proxy] = Part::new(memory);
                    return;
                }
            }
        };
        world.set_phase(number, Phase::Running { proxy, attempt, wait, pauses });
    }

    /// Until when the store takes the request: the store's side of F9.
    fn flight(&self, run: &Run, terms: &Terms) -> Flight {
        let protocol = &self.protocol;
        let deadline = match (run.client.ask, terms.form, run.stream) {
            (Ask::Delete, _, _) => terms.signed_at + protocol.bodiless_signature_seconds,
            (Ask::Stream(_), Form::Plain, Some(alive)) => {
                alive.max(terms.signed_at + protocol.signature_seconds)
                    + protocol.body_stall_seconds
            }
            (Ask::Put(_) | Ask::Stream(_), _, _) => {
                terms.signed_at + protocol.signature_seconds + protocol.body_stall_seconds
            }
        };
        Flight { terms: terms.clone(), deadline }
    }

    fn finish(&self, world: &mut World, number: usize, verdict: &Verdict) {
        let end = match verdict {
            Verdict::Applied { .. } => End::Applied,
            Verdict::AlreadyAbsent => End::AlreadyAbsent,
            Verdict::Stale { .. }
            | Verdict::ConditionFailed(_)
            | Verdict::Rejected
            | Verdict::BodyFailed
            | Verdict::Contended(_)
            | Verdict::Unavailable => End::Refused,
            Verdict::OutcomeUnknown => End::Unknown,
            Verdict::Broken => {
                world.blame(Violation::Broken);
                End::Unknown
            }
        };
        let run = world.runs[number].clone();
        match end {
            End::Applied if run.applied != 1 => world.blame(Violation::NotExactlyOnce),
            End::Refused | End::AlreadyAbsent if run.applied != 0 => {
                world.blame(Violation::RefusedYetApplied);
            }
            End::Applied | End::AlreadyAbsent => {
                world.acknowledged = world.acknowledged.max(run.client.token);
            }
            End::Refused | End::Unknown | End::Retried => {}
        }
        world.set_phase(number, Phase::Over(end));
    }

    /// The running operation's parts.
    fn running(world: &World, number: usize) -> (usize, Box<Attempt>, Wait, u8) {
        match &world.runs[number].phase {
            Phase::Running { proxy, attempt, wait, pauses } => {
                (*proxy, attempt.clone(), wait.clone(), *pauses)
            }
            Phase::Ready | Phase::Over(_) => unreachable!("only running operations ask"),
        }
    }

    fn ask(&self, world: &mut World, number: usize) {
        let (proxy, attempt, wait, pauses) = Self::running(world, number);
        let outcome = match wait {
            Wait::Observe => {
                Outcome::Observed { tag: world.object.tag.clone(), stamp: world.object.stamp }
            }
            Wait::Load => Outcome::Loaded(world.snapshot()),
            Wait::Body(terms) => {
                if world.now > terms.signed_at + self.protocol.signature_seconds {
                    Outcome::Rejected
                } else {
                    let now = world.now;
                    world.edit(number, |run| run.stream = Some(now));
                    let (Ask::Stream(content) | Ask::Put(content)) = world.runs[number].client.ask
                    else {
                        unreachable!("a delete has no body");
                    };
                    Outcome::Received(forms(content))
                }
            }
            Wait::Swap(swap) => match world.swap(&swap) {
                Some(version) => Outcome::Swapped(version),
                None => Outcome::SwapLost,
            },
            Wait::Answer => unreachable!("a write is answered when it arrives"),
        };
        self.go_on(world, number, proxy, attempt, pauses, outcome);
    }

    fn ask_in_vain(&self, world: &mut World, number: usize) {
        let (proxy, attempt, wait, pauses) = Self::running(world, number);
        let outcome = match wait {
            Wait::Observe => Outcome::ObserveFailed,
            Wait::Load => Outcome::LedgerFailed,
            Wait::Body(_) => Outcome::BodyFailed,
            Wait::Swap(swap) => {
                world.edit(number, |run| run.late_swap = Some(swap));
                Outcome::LedgerFailed
            }
            Wait::Answer => Outcome::Unknown,
        };
        self.go_on(world, number, proxy, attempt, pauses, outcome);
    }

    fn arrive(&self, world: &mut World, number: usize) {
        let run = world.runs[number].clone();
        let flight = run.flight.clone().expect("it is on its way");
        let passes = self.passes(world, &run, &flight);
        let outcome = if passes {
            Outcome::Applied(self.commit(world, number))
        } else {
            world.edit(number, |run| run.flight = None);
            if world.now > flight.deadline { Outcome::Rejected } else { Outcome::Refused }
        };
        if let Phase::Running { wait: Wait::Answer, .. } = run.phase {
            let (proxy, attempt, _, pauses) = Self::running(world, number);
            self.go_on(world, number, proxy, attempt, pauses, outcome);
        }
    }

    fn withdraw(world: &mut World, proxy: usize) {
        let mut memory = (*world.proxies[proxy]).clone();
        match memory.withdrawal() {
            Some(swap) => match world.swap(&swap) {
                Some(version) => memory.swapped(swap.next, version),
                None => memory.forget_record(),
            },
            None if memory.highest().is_none() => memory.loaded(world.snapshot()),
            None => memory.withdrawn(),
        }
        world.proxies[proxy] = Part::new(memory);
    }

    fn crash(world: &mut World, proxy: usize) {
        world.proxies[proxy] = Part::new(Memory::default());
        for number in 0..world.runs.len() {
            let wait = match &world.runs[number].phase {
                Phase::Running { proxy: at, wait, .. } if *at == proxy => wait.clone(),
                Phase::Ready | Phase::Running { .. } | Phase::Over(_) => continue,
            };
            world.edit(number, |run| {
                run.phase = Phase::Over(End::Unknown);
                if let Wait::Swap(swap) = wait {
                    run.late_swap = Some(swap);
                }
            });
        }
    }

    /// Forgets what can no longer matter, so that states differing in nothing else are one.
    fn tidy(&self, world: &mut World) {
        for number in 0..world.runs.len() {
            let run = &world.runs[number];
            let gone = |swap: &Swap| swap.base != version(world.version);
            let swap_gone = run.late_swap.as_ref().is_some_and(gone);
            let waiting = matches!(run.phase, Phase::Running { .. });
            let never = |flight: &Flight| {
                let tag_gone = self.protocol.tags == Tags::Unique
                    && flight.terms.expects != Tag::Absent
                    && flight.terms.expects != world.object.tag
                    && !flight.terms.exclusive;
                !waiting && (world.now > flight.deadline || tag_gone)
            };
            let flight_gone = run.flight.as_ref().is_some_and(never);
            if swap_gone || flight_gone {
                world.edit(number, |run| {
                    run.late_swap = run.late_swap.take().filter(|_| !swap_gone);
                    run.flight = run.flight.take().filter(|_| !flight_gone);
                });
            }
        }
    }

    fn actions_of_run(&self, world: &World, number: usize, into: &mut Vec<Action>) {
        let run = &world.runs[number];
        let faults = &world.faults;
        // The proxies are alike: the second comes into play after the first.
        let fresh = world.runs.iter().all(|run| run.phase == Phase::Ready);
        let proxies = if fresh { 1 } else { 2 };
        match &run.phase {
            Phase::Ready => into.extend((0..proxies).map(|proxy| Action::Start(number, proxy))),
            Phase::Running { wait: Wait::Answer, .. } => {
                into.push(Action::Arrive(number));
                if faults.timeouts > 0 {
                    into.push(Action::TimeOut(number));
                }
            }
            Phase::Running { wait, .. } => {
                into.push(Action::Ask(number));
                let (can_fail, action) = match wait {
                    Wait::Observe | Wait::Load => (faults.outages, Action::AskInVain(number)),
                    Wait::Swap(_) => (faults.swaps_lost, Action::AskInVain(number)),
                    Wait::Body(_) => (faults.broken_bodies, Action::BodyBreaks(number)),
                    Wait::Answer => (0, Action::TimeOut(number)),
                };
                if can_fail > 0 {
                    into.push(action);
                }
            }
            Phase::Over(End::Unknown) if faults.retries > 0 => {
                into.extend((0..2).map(|proxy| Action::Retry(number, proxy)));
            }
            Phase::Over(_) => {}
        }
        if let (Phase::Over(_), Some(flight)) = (&run.phase, &run.flight)
            && self.passes(world, run, flight)
        {
            into.push(Action::Arrive(number));
        }
        // A read-back is under way while the request still is.
        if let (Phase::Running { wait, .. }, Some(flight)) = (&run.phase, &run.flight)
            && *wait != Wait::Answer
            && self.passes(world, run, flight)
        {
            into.push(Action::Arrive(number));
        }
        if run.late_swap.is_some() {
            into.push(Action::LateSwap(number));
        }
    }

    fn count(&mut self, what: &'static str, is_so: bool) {
        if is_so {
            *self.seen.entry(what).or_default() += 1;
        }
    }
}

impl Space for Setting {
    type State = World;
    type Action = Action;

    fn starts(&self) -> Vec<World> {
        let start = |(content, clients): &(Option<&'static str>, Vec<Client>)| World {
            now: 1,
            object: Part::new(Object {
                tag: content.map_or(Tag::Absent, |content| forms(content).plain),
                stamp: None,
            }),
            writes: 0,
            record: Part::new(None),
            version: 0,
            proxies: [Part::new(Memory::default()), Part::new(Memory::default())],
            second_proxy_used: false,
            runs: clients
                .iter()
                .map(|client| {
                    Part::new(Run {
                        client: Rc::new(client.clone()),
                        phase: Phase::Ready,
                        flight: None,
                        late_swap: None,
                        applied: 0,
                        stream: None,
                    })
                })
                .collect(),
            acknowledged: 0,
            faults: self.faults,
            violation: None,
        };
        self.starts.iter().map(start).collect()
    }

    fn actions(&self, world: &World, into: &mut Vec<Action>) {
        for number in 0..world.runs.len() {
            self.actions_of_run(world, number, into);
        }
        for proxy in 0..2 {
            if world.proxies[proxy].owes_withdrawal() {
                into.push(Action::Withdraw(proxy));
            }
            if world.faults.crashes > 0 && (proxy == 0 || world.second_proxy_used) {
                into.push(Action::Crash(proxy));
            }
        }
        if world.faults.ticks > 0 {
            into.push(Action::Tick);
        }
    }

    fn step(&self, world: &World, action: &Action) -> World {
        let mut next = world.clone();
        match *action {
            Action::Start(number, proxy) => self.start(&mut next, number, proxy),
            Action::Ask(number) => self.ask(&mut next, number),
            Action::AskInVain(number) => {
                let (_, _, wait, _) = Self::running(&next, number);
                match wait {
                    Wait::Swap(_) => next.faults.swaps_lost -= 1,
                    Wait::Observe | Wait::Load | Wait::Body(_) | Wait::Answer => {
                        next.faults.outages -= 1;
                    }
                }
                self.ask_in_vain(&mut next, number);
            }
            Action::BodyBreaks(number) => {
                next.faults.broken_bodies -= 1;
                self.ask_in_vain(&mut next, number);
            }
            Action::TimeOut(number) => {
                next.faults.timeouts -= 1;
                self.ask_in_vain(&mut next, number);
            }
            Action::Arrive(number) => self.arrive(&mut next, number),
            Action::LateSwap(number) => {
                let swap = next.runs[number].late_swap.clone().expect("it is on its way");
                next.swap(&swap);
                next.edit(number, |run| run.late_swap = None);
            }
            Action::Withdraw(proxy) => Self::withdraw(&mut next, proxy),
            Action::Crash(proxy) => {
                next.faults.crashes -= 1;
                Self::crash(&mut next, proxy);
            }
            Action::Tick => {
                next.faults.ticks -= 1;
                next.now += 1;
            }
            Action::Retry(number, proxy) => {
                next.faults.retries -= 1;
                next.set_phase(number, Phase::Over(End::Retried));
                let again = Run {
                    client: Rc::clone(&next.runs[number].client),
                    phase: Phase::Ready,
                    flight: None,
                    late_swap: None,
                    applied: 0,
                    stream: None,
                };
                next.runs.push(Part::new(again));
                let last = next.runs.len() - 1;
                self.start(&mut next, last, proxy);
            }
        }
        self.tidy(&mut next);
        next
    }

    fn is_violation(&self, world: &World) -> bool {
        world.violation.is_some()
    }

    fn visit(&mut self, world: &World) {
        let over = |end: End| world.runs.iter().any(|run| run.phase == Phase::Over(end));
        let all_applied = world.runs.iter().all(|run| run.phase == Phase::Over(End::Applied));
        self.count("all applied", all_applied);
        self.count("already absent", over(End::AlreadyAbsent));
        self.count("refused", over(End::Refused));
        self.count("outcome unknown", over(End::Unknown));
        self.count("asked again", over(End::Retried));
        for run in &world.runs {
            let Some(flight) = &run.flight else { continue };
            self.count("one-part form", flight.terms.form == Form::OnePart);
            self.count("exclusive", flight.terms.exclusive);
            self.count("no intent", flight.terms.intent.is_none());
            self.count("write on its way, sender gone", matches!(run.phase, Phase::Over(_)));
        }
    }
}

impl World {
    /// One line on the state, for a trace.
    pub fn line(&self) -> String {
        let record = self.record.as_ref().map_or_else(
            || "none".to_owned(),
            |record| {
                let intents: Vec<String> = record
                    .intents
                    .iter()
                    .map(|intent| format!("{}:{:?}", intent.token, intent.action))
                    .collect();
                format!("{} {intents:?}", record.token)
            },
        );
        let on_way: Vec<String> = self
            .runs
            .iter()
            .filter_map(|run| run.flight.as_ref())
            .map(|flight| format!("{} if {:?}", flight.terms.token, flight.terms.expects))
            .collect();
        format!(
            "t={} object {:?}, record {record}, acknowledged {}, on the way {on_way:?}",
            self.now, self.object.tag, self.acknowledged
        )
    }

    /// The clients, for a trace.
    pub fn clients(&self) -> String {
        let one = |(number, run): (usize, &Part<Run>)| {
            format!("{number}: {:?} with token {}", run.client.ask, run.client.token)
        };
        self.runs.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
    }
}

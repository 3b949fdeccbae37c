//! The proxies: the driver that carries out what the fence says, and what happens when a proxy
//! withdraws intents or dies.

use super::search::Part;
use super::world::{
    Ask, End, Phase, Setting, UPLOADS, Violation, Wait, World, assembled, forms, id, key,
};
use fencepost::fence::{
    Assembly, Attempt, Bearer, Change, Contents, Effect, Memory, Operation, Outcome, Snapshot,
    Swap, Tag, Token, Verdict,
};
use std::collections::BTreeMap;

/// An operation that waits for its swap: its number, itself, and the pauses that it has left.
type Waiting = (usize, Box<Attempt>, u8);

impl Setting {
    pub(crate) fn start(&self, world: &mut World, number: usize, proxy: usize) {
        let client = world.runs[number].client.clone();
        let operation = Operation {
            id: id(number),
            // What an upload makes is stamped with the upload's own, whoever completes it.
            stamp: match client.ask {
                Ask::Complete(_) | Ask::CompleteUnforetold(_) => {
                    id(world.runs[number].first + UPLOADS)
                }
                Ask::Put(_)
                | Ask::Stream(_)
                | Ask::Delete
                | Ask::Touch
                | Ask::DeleteVersion
                | Ask::Claim => id(number),
            },
            token: Token::new(client.token).expect("tokens are not zero"),
            bearer: Bearer::default(),
            key: key(client.key),
            change: match client.ask {
                Ask::Put(content) => Change::Put(Contents::Buffered(forms(content))),
                Ask::Stream(_) => Change::Put(Contents::Streamed),
                Ask::Delete => Change::Delete,
                Ask::Complete(content) => self.assembly(Some(assembled(content))),
                Ask::CompleteUnforetold(_) => self.assembly(None),
                Ask::Touch => Change::Touch,
                Ask::DeleteVersion => Change::DeleteVersion,
                Ask::Claim => Change::Claim,
            },
            condition: client.condition.clone(),
            signed_at: world.now,
        };
        world.proxies_used = world.proxies_used.max(proxy + 1);
        let resets = world.resets;
        world.edit(number, |run| run.began = resets);
        let mut memory = (*world.proxies[proxy]).clone();
        if self.shared {
            let mut tags = (*world.tags[proxy]).clone();
            let tag = if client.ask == Ask::Claim { None } else { tags.remove(&client.key) };
            world.tags[proxy] = Part::new(tags);
            memory = memory.for_key(tag);
        } else if world.tag_keys[proxy] != client.key {
            memory = memory.for_key(None);
        }
        let attempt = Box::new(Attempt::new(self.protocol, operation, memory));
        self.go_on(world, number, proxy, attempt, self.pauses, Outcome::Start);
    }

    fn assembly(&self, leaves: Option<Tag>) -> Change {
        Change::Assemble(Assembly { leaves, enforcement: self.assembles, of_upload: true })
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
                Effect::Look(keys) => break Wait::Look(keys, Vec::new()),
                Effect::Begin(permit) => {
                    let now = world.now;
                    let too_old = now > permit.terms().signed_at + self.protocol.signature_seconds;
                    world.edit(number, |run| run.stream = (!too_old).then_some(now));
                    break Wait::Body;
                }
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
                    self.take_back(world, number, proxy, attempt.into_memory());
                    return;
                }
            }
        };
        world.set_phase(number, Phase::Running { proxy, attempt, wait, pauses });
    }

    /// What the operation has learnt becomes the proxy's.
    fn take_back(&self, world: &mut World, number: usize, proxy: usize, mut learnt: Memory) {
        let key = world.runs[number].client.key;
        if self.shared {
            if let Some(tag) = learnt.tag() {
                let mut tags = (*world.tags[proxy]).clone();
                tags.insert(key, tag.clone());
                world.tags[proxy] = Part::new(tags);
            }
            Self::remember(world, proxy, |memory| memory.absorb(&learnt));
        } else {
            learnt.absorb(&world.proxies[proxy]);
            world.proxies[proxy] = Part::new(learnt);
            world.tag_keys[proxy] = key;
        }
    }

    fn remember(world: &mut World, proxy: usize, change: impl FnOnce(&mut Memory)) {
        let mut memory = (*world.proxies[proxy]).clone();
        change(&mut memory);
        world.proxies[proxy] = Part::new(memory);
    }

    fn finish(&self, world: &mut World, number: usize, verdict: &Verdict) {
        let end = match verdict {
            Verdict::Applied { .. } | Verdict::Done => End::Applied,
            Verdict::AlreadyAbsent => End::AlreadyAbsent,
            Verdict::Claimed => End::Claimed,
            Verdict::Stale { .. }
            | Verdict::Mismatched(_)
            | Verdict::Barred(_)
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
        // An upload that was completed by an earlier try of the same client is its success.
        let applied: u8 = match run.client.ask {
            Ask::Complete(_) | Ask::CompleteUnforetold(_) => {
                let tries = world.runs.iter().filter(|other| other.first == run.first);
                tries.map(|other| other.applied).sum()
            }
            Ask::Put(_)
            | Ask::Stream(_)
            | Ask::Delete
            | Ask::Touch
            | Ask::DeleteVersion
            | Ask::Claim => run.applied,
        };
        match end {
            End::Applied if applied != 1 => world.blame(Violation::NotExactlyOnce),
            End::Applied
                if world.last[run.client.key].is_some_and(|(token, first)| {
                    token < run.client.token && first != run.first
                }) =>
            {
                world.blame(Violation::AcknowledgedThoughOverwritten);
            }
            End::Refused | End::AlreadyAbsent | End::Claimed if run.applied != 0 => {
                world.blame(Violation::RefusedYetApplied);
            }
            // What began before a reset is of the time before it.
            End::Applied | End::AlreadyAbsent | End::Claimed if run.began != world.resets => {}
            End::Applied | End::AlreadyAbsent | End::Claimed => {
                world.acknowledged = world.acknowledged.max(run.client.token);
            }
            End::Refused | End::Unknown | End::Retried => {}
        }
        world.set_phase(number, Phase::Over(end));
    }

    /// The running operation's parts.
    pub(crate) fn running(world: &World, number: usize) -> (usize, Box<Attempt>, Wait, u8) {
        match &world.runs[number].phase {
            Phase::Running { proxy, attempt, wait, pauses } => {
                (*proxy, attempt.clone(), wait.clone(), *pauses)
            }
            Phase::Ready | Phase::Over(_) => unreachable!("only running operations ask"),
        }
    }

    pub(crate) fn ask(&self, world: &mut World, number: usize) {
        let (proxy, attempt, wait, pauses) = Self::running(world, number);
        let object = &world.objects[world.runs[number].client.key];
        let outcome = match wait {
            Wait::Observe => Outcome::Observed { tag: object.tag.clone(), stamp: object.stamp },
            // One key a step: the others may change in between.
            Wait::Look(mut left, mut found) => {
                let next = left.remove(0);
                let at = (0..self.keys).find(|number| key(*number) == next);
                let tag = world.objects[at.expect("it is one of the keys")].tag.clone();
                found.push((next, tag));
                if !left.is_empty() {
                    let wait = Wait::Look(left, found);
                    world.set_phase(number, Phase::Running { proxy, attempt, wait, pauses });
                    return;
                }
                Outcome::Looked(found)
            }
            Wait::Load => Outcome::Loaded(world.snapshot()),
            // It was moving all the time, however long it took.
            Wait::Body => match (world.runs[number].stream, world.runs[number].client.ask) {
                (Some(_), Ask::Stream(content)) => {
                    let now = world.now;
                    world.edit(number, |run| run.stream = Some(now));
                    Outcome::Received(forms(content))
                }
                (
                    Some(_) | None,
                    Ask::Stream(_)
                    | Ask::Put(_)
                    | Ask::Delete
                    | Ask::Complete(_)
                    | Ask::CompleteUnforetold(_)
                    | Ask::Touch
                    | Ask::DeleteVersion
                    | Ask::Claim,
                ) => Outcome::Rejected,
            },
            Wait::Swap(swap) => {
                let version = world.swap(&swap);
                if version.is_some() {
                    let resets = world.resets;
                    world.edit(number, |run| run.entered = resets);
                }
                if self.shared {
                    Self::remember(world, proxy, |memory| match &version {
                        Some(version) => memory.swapped(swap.next, version.clone()),
                        None => memory.forget_record(),
                    });
                }
                version.map_or(Outcome::SwapLost, Outcome::Swapped)
            }
            Wait::Answer => unreachable!("a write is answered when it arrives"),
        };
        self.go_on(world, number, proxy, attempt, pauses, outcome);
    }

    /// The operations of a proxy that wait for a swap that they may share.
    pub(crate) fn group(world: &World, proxy: usize) -> Vec<usize> {
        let waits = |number: &usize| match &world.runs[*number].phase {
            Phase::Running { proxy: at, attempt, wait: Wait::Swap(_), .. } => {
                *at == proxy && attempt.may_join()
            }
            Phase::Ready | Phase::Running { .. } | Phase::Over(_) => false,
        };
        (0..world.runs.len()).filter(waits).collect()
    }

    /// One swap for all of them, from the newest record, as the driver does it.
    pub(crate) fn together(&self, world: &mut World, proxy: usize, answered: bool) {
        let mut loaded = world.snapshot();
        let remembered = world.proxies[proxy].snapshot().cloned().filter(|_| self.shared);
        // One that is not the ledger's any more only loses its swap.
        if let Some(known) = remembered.filter(|known| known.version == loaded.version) {
            loaded = known;
        }
        let (mut state, mut joined, mut left) = Self::fold(world, proxy, &loaded);
        if self.shared && !left.is_empty() {
            loaded = world.snapshot();
            Self::remember(world, proxy, |memory| memory.loaded(loaded.clone()));
            (state, joined, left) = Self::fold(world, proxy, &loaded);
        }
        if let Some(next) = state.record.clone().filter(|_| !joined.is_empty()) {
            let swap = Swap { base: loaded.version.clone(), next };
            if answered {
                state.version = world.swap(&swap).expect("it was loaded just now");
            } else {
                world.edit(joined[0].0, |run| run.late_swap = Some(swap.clone()));
            }
            if self.shared {
                Self::remember(world, proxy, |memory| match answered {
                    true => memory.swapped(swap.next, state.version.clone()),
                    false => memory.forget_record(),
                });
            }
        }
        for (number, attempt, pauses) in joined {
            let resets = world.resets;
            world.edit(number, |run| run.entered = resets);
            let outcome = match answered {
                true => Outcome::SwappedTogether(state.clone()),
                false => Outcome::LedgerFailed,
            };
            self.go_on(world, number, proxy, attempt, pauses, outcome);
        }
        for (number, attempt, pauses) in left {
            self.go_on(world, number, proxy, attempt, pauses, Outcome::Loaded(loaded.clone()));
        }
    }

    /// The record as all that may enter would leave it; those, and the others.
    fn fold(
        world: &World,
        proxy: usize,
        loaded: &Snapshot,
    ) -> (Snapshot, Vec<Waiting>, Vec<Waiting>) {
        let mut state = world.proxies[proxy].without_settled(loaded);
        let (mut joined, mut left) = (Vec::new(), Vec::new());
        for number in Self::group(world, proxy) {
            let (_, mut attempt, _, pauses) = Self::running(world, number);
            match attempt.join(&state) {
                Some(record) => {
                    state.record = Some(record);
                    joined.push((number, attempt, pauses));
                }
                None => left.push((number, attempt, pauses)),
            }
        }
        (state, joined, left)
    }

    pub(crate) fn ask_in_vain(&self, world: &mut World, number: usize) {
        let (proxy, attempt, wait, pauses) = Self::running(world, number);
        let outcome = match wait {
            Wait::Observe | Wait::Look(..) => Outcome::ObserveFailed,
            Wait::Load => Outcome::LedgerFailed,
            Wait::Body => Outcome::BodyFailed,
            Wait::Swap(swap) => {
                world.edit(number, |run| run.late_swap = Some(swap));
                if self.shared {
                    Self::remember(world, proxy, Memory::forget_record);
                }
                Outcome::LedgerFailed
            }
            Wait::Answer => Outcome::Unknown,
        };
        self.go_on(world, number, proxy, attempt, pauses, outcome);
    }

    pub(crate) fn arrive(&self, world: &mut World, number: usize) {
        let run = world.runs[number].clone();
        let flight = run.flight.clone().expect("it is on its way");
        let passes = self.passes(world, &run, &flight);
        let outcome = if passes {
            let tag = self.commit(world, number);
            match run.client.ask {
                Ask::Touch | Ask::DeleteVersion => Outcome::Done,
                Ask::Put(_)
                | Ask::Stream(_)
                | Ask::Delete
                | Ask::Complete(_)
                | Ask::CompleteUnforetold(_)
                | Ask::Claim => Outcome::Applied(tag),
            }
        } else {
            world.edit(number, |run| run.flight = None);
            if world.now > flight.deadline {
                Outcome::Rejected
            } else if Self::is_consumed(world, &run) && self.idempotent {
                match run.client.ask {
                    Ask::CompleteUnforetold(content) => Outcome::Applied(forms(content).plain),
                    Ask::Complete(content) => Outcome::Applied(assembled(content)),
                    Ask::Put(_)
                    | Ask::Stream(_)
                    | Ask::Delete
                    | Ask::Touch
                    | Ask::DeleteVersion
                    | Ask::Claim => Outcome::Consumed,
                }
            } else if Self::is_consumed(world, &run) {
                Outcome::Consumed
            } else {
                Outcome::Refused
            }
        };
        if let Phase::Running { wait: Wait::Answer, .. } = run.phase {
            let (proxy, attempt, _, pauses) = Self::running(world, number);
            self.go_on(world, number, proxy, attempt, pauses, outcome);
        }
    }

    pub(crate) fn withdraw(&self, world: &mut World, proxy: usize) {
        let mut memory = (*world.proxies[proxy]).clone();
        if self.shared && memory.withdrawal().is_none() {
            memory.loaded(world.snapshot());
            memory.drop_withdrawn(&world.snapshot());
            world.proxies[proxy] = Part::new(memory);
            return;
        }
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

    pub(crate) fn crash(world: &mut World, proxy: usize) {
        world.proxies[proxy] = Part::new(Memory::default());
        world.tags[proxy] = Part::new(BTreeMap::new());
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
}

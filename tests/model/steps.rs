//! Which steps a state allows, and what they lead to.

use super::search::{Part, Space};
use super::world::{
    Action, Ask, Client, End, Flight, Object, Phase, Run, Setting, Wait, World, forms, version,
};
use fencepost::fence::{Form, Memory, Swap, Tag, Tags};
use std::collections::BTreeMap;
use std::rc::Rc;

impl Setting {
    fn actions_of_run(&self, world: &World, number: usize, into: &mut Vec<Action>) {
        let run = &world.runs[number];
        let faults = &world.faults;
        let proxies = self.proxies.min(world.proxies_used + 1);
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
                    Wait::Observe | Wait::Load | Wait::Look(..) => {
                        (faults.outages, Action::AskInVain(number))
                    }
                    Wait::Swap(_) => (faults.swaps_lost, Action::AskInVain(number)),
                    Wait::Body => (faults.broken_bodies, Action::BodyBreaks(number)),
                    Wait::Answer => (0, Action::TimeOut(number)),
                };
                if can_fail > 0 {
                    into.push(action);
                }
            }
            Phase::Over(End::Unknown) if faults.retries > 0 => {
                into.extend((0..proxies).map(|proxy| Action::Retry(number, proxy)));
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

    /// Forgets what can no longer matter, so that states differing in nothing else are one.
    pub(crate) fn tidy(&self, world: &mut World) {
        for number in 0..world.runs.len() {
            let run = &world.runs[number];
            let gone = |swap: &Swap| swap.base != version(world.version);
            let swap_gone = run.late_swap.as_ref().is_some_and(gone);
            let waiting = matches!(run.phase, Phase::Running { .. });
            let never = |flight: &Flight| {
                let tag_gone = self.protocol.tags == Tags::Unique
                    && flight.terms.expects != Tag::Absent
                    && flight.terms.expects != world.objects[run.client.key].tag
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

    /// The client asks again, as a new operation.
    fn retry(&self, world: &mut World, number: usize, proxy: usize) {
        world.faults.retries -= 1;
        world.set_phase(number, Phase::Over(End::Retried));
        let again = Run {
            client: Rc::clone(&world.runs[number].client),
            phase: Phase::Ready,
            flight: None,
            late_swap: None,
            applied: 0,
            stream: None,
            chained: false,
            began: 0,
            entered: 0,
            first: world.runs[number].first,
        };
        world.runs.push(Part::new(again));
        let last = world.runs.len() - 1;
        self.start(world, last, proxy);
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
            objects: vec![
                Part::new(Object {
                    tag: content.map_or(Tag::Absent, |content| forms(content).plain),
                    stamp: None,
                    previous: Tag::Absent,
                });
                self.keys
            ],
            writes: 0,
            record: Part::new(None),
            version: 0,
            proxies: vec![Part::new(Memory::default()); self.proxies],
            tag_keys: vec![0; self.proxies],
            tags: vec![Part::new(BTreeMap::new()); self.proxies],
            proxies_used: 0,
            runs: clients
                .iter()
                .enumerate()
                .map(|(first, client)| {
                    Part::new(Run {
                        client: Rc::new(client.clone()),
                        phase: Phase::Ready,
                        flight: None,
                        late_swap: None,
                        applied: 0,
                        stream: None,
                        chained: false,
                        began: 0,
                        entered: 0,
                        first: client.upload.unwrap_or(first),
                    })
                })
                .collect(),
            acknowledged: 0,
            resets: 0,
            faults: self.faults,
            violation: None,
            last: vec![None; self.keys],
        };
        self.starts.iter().map(start).collect()
    }

    fn actions(&self, world: &World, into: &mut Vec<Action>) {
        for number in 0..world.runs.len() {
            self.actions_of_run(world, number, into);
        }
        for proxy in 0..world.proxies_used {
            if !Self::group(world, proxy).is_empty() {
                into.push(Action::Together(proxy));
                if world.faults.swaps_lost > 0 {
                    into.push(Action::TogetherInVain(proxy));
                }
            }
            if world.proxies[proxy].owes_withdrawal() {
                into.push(Action::Withdraw(proxy));
            }
            if world.faults.crashes > 0 {
                into.push(Action::Crash(proxy));
            }
        }
        if world.faults.ticks > 0 {
            into.push(Action::Tick);
        }
        if world.faults.resets > 0 && world.record.is_some() {
            into.push(Action::Reset);
        }
    }

    fn step(&self, world: &World, action: &Action) -> World {
        let mut next = world.clone();
        match *action {
            Action::Start(number, proxy) => {
                self.start(&mut next, number, proxy);
                next.edit(number, |run| run.chained = run.flight.is_some());
            }
            Action::Ask(number) => self.ask(&mut next, number),
            Action::AskInVain(number) => {
                let (_, _, wait, _) = Self::running(&next, number);
                match wait {
                    Wait::Swap(_) => next.faults.swaps_lost -= 1,
                    Wait::Observe | Wait::Load | Wait::Look(..) | Wait::Body | Wait::Answer => {
                        next.faults.outages -= 1;
                    }
                }
                self.ask_in_vain(&mut next, number);
            }
            Action::Together(proxy) => self.together(&mut next, proxy, true),
            Action::TogetherInVain(proxy) => {
                next.faults.swaps_lost -= 1;
                self.together(&mut next, proxy, false);
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
            Action::Withdraw(proxy) => self.withdraw(&mut next, proxy),
            Action::Crash(proxy) => {
                next.faults.crashes -= 1;
                Self::crash(&mut next, proxy);
            }
            Action::Tick => {
                next.faults.ticks -= 1;
                next.now += 1;
            }
            Action::Reset => {
                next.faults.resets -= 1;
                next.reset();
            }
            Action::Retry(number, proxy) => self.retry(&mut next, number, proxy),
        }
        self.tidy(&mut next);
        next
    }

    fn is_violation(&self, world: &World) -> bool {
        world.violation.is_some()
    }

    fn visit(&mut self, world: &World) {
        let over = |end: End| world.runs.iter().any(|run| run.phase == Phase::Over(end));
        let done = |end| matches!(end, End::Applied | End::Claimed);
        let all_applied =
            world.runs.iter().all(|run| matches!(run.phase, Phase::Over(end) if done(end)));
        self.count("all applied", all_applied);
        self.count("already absent", over(End::AlreadyAbsent));
        self.count("claimed", over(End::Claimed));
        self.count("refused", over(End::Refused));
        let looks =
            |run: &Part<Run>| matches!(run.phase, Phase::Running { wait: Wait::Look(..), .. });
        self.count("looks at other keys", world.runs.iter().any(looks));
        let groups = (0..world.proxies_used).map(|proxy| Self::group(world, proxy).len());
        self.count("two may enter together", groups.max() >= Some(2));
        self.count("outcome unknown", over(End::Unknown));
        self.count("asked again", over(End::Retried));
        for run in &world.runs {
            let Some(flight) = &run.flight else { continue };
            self.count("one-part form", flight.terms.form == Form::OnePart);
            self.count("exclusive", flight.terms.exclusive);
            self.count("upload completed", matches!(run.client.ask, Ask::Complete(_)));
            self.count("touch", run.client.ask == Ask::Touch);
            let one_part = flight.terms.form == Form::OnePart;
            self.count("exclusive one-part form", one_part && flight.terms.exclusive);
            self.count("chain", run.chained);
            self.count("signature too old", world.now > flight.deadline);
            self.count("no intent", flight.terms.intent.is_none());
            self.count("write on its way, sender gone", matches!(run.phase, Phase::Over(_)));
        }
    }
}

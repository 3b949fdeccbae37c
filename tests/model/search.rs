//! Breadth-first search over every reachable state, so that the first trace found is a shortest.
//!
//! A visited state is remembered by a 64-bit fingerprint: among ten million states the chance that
//! two share one is about three in a million. States themselves live only while they are on the
//! frontier. It does *not* know what is searched: that is `world`.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// A shared value with its hash beside it: a step changes few of a state's parts, and only those
/// are copied and hashed anew.
#[derive(Debug)]
pub(crate) struct Part<T>(Rc<(u64, T)>);

impl<T: Hash> Part<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Rc::new((fingerprint(&value), value)))
    }
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Hash for Part<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.0);
    }
}

impl<T> std::ops::Deref for Part<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.1
    }
}

/// Something with states and steps.
pub(crate) trait Space {
    type State: Hash + Clone;
    type Action: Clone;
    fn starts(&self) -> Vec<Self::State>;
    fn actions(&self, state: &Self::State, into: &mut Vec<Self::Action>);
    fn step(&self, state: &Self::State, action: &Self::Action) -> Self::State;
    /// Whether the search has found what must not be.
    fn is_violation(&self, state: &Self::State) -> bool;
    /// Called once for every state.
    fn visit(&mut self, state: &Self::State);
}

/// What a search found.
#[derive(Debug)]
pub(crate) struct Found<S, A> {
    /// Different states.
    pub(crate) states: usize,
    /// Steps taken, those into known states included.
    pub(crate) steps: u64,
    /// The longest of the shortest ways to a state.
    pub(crate) depth: usize,
    /// The start and the actions of a shortest way to a violation.
    pub(crate) violation: Option<(S, Vec<A>)>,
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("fingerprints are u64");
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

fn fingerprint(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Where a state was reached from: the index of its parent, and which of its actions led here.
type Origin = (u32, u16);

/// Searches until a violation is found or no state is left.
///
/// # Panics
///
/// When there are more than `states_max` states: a configuration that outgrows its time limit
/// must be noticed, not cut short.
pub(crate) fn search<M: Space>(space: &mut M, states_max: usize) -> Found<M::State, M::Action> {
    let starts = space.starts();
    let mut seen: HashSet<u64, BuildHasherDefault<AsItIs>> = HashSet::default();
    let mut origins: Vec<Origin> = Vec::new();
    let mut frontier: Vec<(u32, M::State)> = Vec::new();
    for (number, state) in starts.iter().enumerate() {
        if seen.insert(fingerprint(state)) {
            let number = u16::try_from(number).expect("there are few starts");
            frontier.push((index(&origins), state.clone()));
            origins.push((u32::MAX, number));
        }
    }
    let (mut steps, mut depth) = (0, 0);
    let mut actions = Vec::new();
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (at, state) in frontier.drain(..) {
            space.visit(&state);
            if space.is_violation(&state) {
                let violation = Some(way(space, &starts, &origins, at));
                return Found { states: seen.len(), steps, depth, violation };
            }
            actions.clear();
            space.actions(&state, &mut actions);
            for (number, action) in actions.iter().enumerate() {
                steps += 1;
                let reached = space.step(&state, action);
                if seen.insert(fingerprint(&reached)) {
                    let number = u16::try_from(number).expect("a state has few actions");
                    next.push((index(&origins), reached));
                    origins.push((at, number));
                }
            }
        }
        assert!(seen.len() <= states_max, "more than {states_max} states: {}", seen.len());
        depth += usize::from(!next.is_empty());
        frontier = next;
    }
    Found { states: seen.len(), steps, depth, violation: None }
}

fn index(origins: &[Origin]) -> u32 {
    u32::try_from(origins.len()).expect("states_max is below 2^32")
}

/// The way to a state, found by walking back and then taking the same steps again.
fn way<M: Space>(
    space: &M,
    starts: &[M::State],
    origins: &[Origin],
    mut at: u32,
) -> (M::State, Vec<M::Action>) {
    let mut numbers = Vec::new();
    loop {
        let (parent, number) = origins[at as usize];
        numbers.push(usize::from(number));
        if parent == u32::MAX {
            break;
        }
        at = parent;
    }
    numbers.reverse();
    let start = starts[numbers[0]].clone();
    let mut state = start.clone();
    let mut taken = Vec::new();
    for &number in &numbers[1..] {
        let mut actions = Vec::new();
        space.actions(&state, &mut actions);
        state = space.step(&state, &actions[number]);
        taken.push(actions.swap_remove(number));
    }
    (start, taken)
}

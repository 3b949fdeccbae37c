//! Workers that take a prefix of 1,000 keys from each other with rising tokens, while workers and
//! proxies are stopped with requests in flight.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost::clock;
use fencepost::devstore::Profile;
use futures_util::StreamExt as _;

use crate::process::{Program, Setup, Worker, site};
use crate::support::{Backend, Generator};
use crate::talk::{Begun, Order, Report, Role, Site, Told, Write};
use crate::watch::{self, Watched};
use crate::writes::body;
use crate::{ALONE, LOG, between, is_full};

const PREFIX: &str = "job/";
const KEYS: usize = 1_000;
const PROXIES: usize = 3;
const WORKERS: usize = 3;

/// After this, a claim is taken for one that never returns.
const CLAIM_MAX: Duration = Duration::from_secs(60);

/// What one fence protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Per {
    Prefix,
    Object,
}

impl Per {
    fn settings(self, bucket: &str) -> String {
        let per = match self {
            Self::Prefix => "prefix",
            Self::Object => "object",
        };
        // Time enough for a store on which the loser of a race waits.
        format!(
            "{LOG}\
             [ledger]\ntimeout_seconds = 30\n\
             [fence]\nintents_max = 500\ncontention_wait_seconds_max = 5\n\
             [[scope]]\nbucket = \"{bucket}\"\nprefix = \"{PREFIX}\"\nmode = \"require\"\n\
             per = \"{per}\"\n"
        )
    }
}

/// What the workers have reported.
#[derive(Default)]
struct Heard {
    writes: Vec<Write>,
    odd: Vec<String>,
}

#[derive(Default)]
struct Pauses {
    workers: u64,
    proxies: u64,
}

struct Soak {
    per: Per,
    programs: Vec<Program>,
    workers: Vec<Worker>,
    dice: Generator,
    floor: Arc<AtomicU64>,
    heard: Arc<Mutex<Heard>>,
    begun: Vec<Begun>,
    pauses: Pauses,
    stopped_proxy: Option<(usize, Instant)>,
}

/// How it ended.
struct Outcome {
    heard: Heard,
    begun: Vec<Begun>,
    watched: Watched,
    pauses: Pauses,
    troubles: Vec<String>,
}

impl Soak {
    async fn start(backend: &Backend, per: Per) -> Self {
        fill(backend).await;
        let setup = Setup::new(backend, &per.settings(&backend.bucket));
        let starts = (0..PROXIES).map(|_| Program::start(&setup));
        let programs = futures_util::future::join_all(starts).await;
        let site = site(&setup, backend, &programs, PREFIX, KEYS);
        let heard = Arc::<Mutex<Heard>>::default();
        let worker = |number: usize| {
            let (worker, seed) = (1 + number as u64, site.seed + number as u64);
            let heard = Arc::clone(&heard);
            let role = Role::Writer(Site { worker, seed, ..site.clone() });
            Worker::start(&role, move |report| {
                let mut heard = heard.lock().unwrap();
                if let Report::Wrote(write) = report {
                    heard.writes.push(write);
                } else {
                    heard.odd.push(format!("{report:?}"));
                }
            })
        };
        let workers = (0..WORKERS).map(worker).collect();
        Self {
            per,
            programs,
            workers,
            dice: Generator(site.seed),
            floor: Arc::default(),
            heard,
            begun: Vec::new(),
            pauses: Pauses::default(),
            stopped_proxy: None,
        }
    }

    /// The lock goes from one to the next, over and over.
    async fn play(&mut self, length: Duration) {
        let end = clock::monotonic() + length;
        let mut holder = 0;
        self.begin(holder, 1).await;
        for token in 2.. {
            if clock::monotonic() >= end {
                break;
            }
            self.rest(200, 600).await;
            let next = (holder + 1 + self.dice.below(WORKERS - 1)) % WORKERS;
            self.hand_over(holder, next, token).await;
            holder = next;
        }
        self.wake_proxy();
        self.end(holder).await;
    }

    /// One loses the lock without knowing it, and finds out late.
    async fn hand_over(&mut self, old: usize, new: usize, token: u64) {
        let stops = self.dice.below(4);
        let stops_worker = stops != 0;
        if stops == 0 || !self.dice.one_in(4) {
            self.stop_proxy();
        }
        if stops_worker {
            self.workers[old].stop();
            self.pauses.workers += 1;
        }
        let gap = between(&mut self.dice, 0, 150);
        tokio::time::sleep(gap).await;
        self.begin(new, token).await;
        // The new holder reads and writes what it will; then the old one comes back.
        self.rest(50, 300).await;
        if stops_worker {
            self.workers[old].wake();
        }
        self.rest(200, 500).await;
        self.wake_proxy();
        self.end(old).await;
    }

    async fn begin(&mut self, worker: usize, token: u64) {
        let claim = self.per == Per::Prefix;
        self.workers[worker].tell(&Order::Hold { token, claim }).await;
        let begun = tokio::time::timeout(CLAIM_MAX, async {
            loop {
                let wakes = self.stopped_proxy.map(|(_, at)| at.into());
                tokio::select! {
                    report = self.workers[worker].next() => return report,
                    () = at(wakes) => self.wake_proxy(),
                }
            }
        });
        let report = begun.await.expect("a claim did not return");
        let Report::Begun(begun) = report else { panic!("{report:?} instead of a beginning") };
        assert_eq!(begun.token, token);
        self.floor.store(token, Ordering::SeqCst);
        self.begun.push(begun);
    }

    async fn end(&mut self, worker: usize) {
        self.workers[worker].tell(&Order::Lost).await;
        let report = self.workers[worker].next().await;
        assert!(matches!(report, Report::Ended), "{report:?}");
    }

    /// Time passes; a stopped proxy may wake up in it, and another may be stopped.
    async fn rest(&mut self, min_ms: usize, max_ms: usize) {
        let until = clock::monotonic() + between(&mut self.dice, min_ms, max_ms);
        if self.dice.one_in(4) {
            self.stop_proxy();
        }
        while let Some((_, wakes)) = self.stopped_proxy
            && wakes < until
        {
            tokio::time::sleep_until(wakes.into()).await;
            self.wake_proxy();
        }
        tokio::time::sleep_until(until.into()).await;
    }

    fn stop_proxy(&mut self) {
        if self.stopped_proxy.is_none() {
            let proxy = self.dice.below(PROXIES);
            self.programs[proxy].stop();
            self.pauses.proxies += 1;
            let wakes = clock::monotonic() + between(&mut self.dice, 100, 1_500);
            self.stopped_proxy = Some((proxy, wakes));
        }
    }

    fn wake_proxy(&mut self) {
        if let Some((proxy, _)) = self.stopped_proxy.take() {
            self.programs[proxy].wake();
        }
    }

    fn outcome(self, watched: Watched) -> Outcome {
        let heard = std::mem::take(&mut *self.heard.lock().unwrap());
        let troubles = self.programs.iter().flat_map(Program::troubles).collect();
        Outcome { heard, begun: self.begun, watched, pauses: self.pauses, troubles }
    }
}

async fn at(moment: Option<tokio::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Most of the keys are there from the start, written past the proxies.
async fn fill(backend: &Backend) {
    let there = (0..KEYS).filter(|number| number % 8 != 0);
    let puts = there.map(|number| {
        let store = backend.direct();
        let key = format!("{PREFIX}{number:04}");
        async move { store.put(&key, body(0, number as u64)).await.short() }
    });
    let puts = futures_util::stream::iter(puts.collect::<Vec<_>>()).buffer_unordered(8);
    puts.for_each(|short| async move { assert_eq!(short, "200") }).await;
}

async fn soak(backend: &Backend, per: Per, length: Duration) -> Outcome {
    let mut soak = Soak::start(backend, per).await;
    let over = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn({
        let (store, over, floor) = (backend.direct(), Arc::clone(&over), Arc::clone(&soak.floor));
        async move { watch::watch(store, PREFIX.into(), &floor, &over).await }
    });
    soak.play(length).await;
    over.store(true, Ordering::SeqCst);
    let watched = watching.await.unwrap();
    let outcome = soak.outcome(watched);
    outcome.print(per);
    outcome
}

impl Outcome {
    fn count(&self, told: Told) -> usize {
        self.heard.writes.iter().filter(|write| write.told == told).count()
    }

    fn print(&self, per: Per) {
        let mut waits: Vec<_> =
            self.begun.iter().map(|begun| (begun.returned - begun.invoked) / 1_000_000).collect();
        waits.sort_unstable();
        let sum = |of: &dyn Fn(&Begun) -> u64| self.begun.iter().map(of).sum::<u64>();
        println!(
            "{per:?}: {} terms, {} workers and {} proxies stopped; begun after {} ms (median) to \
             {} ms, {} times barred, {} times repeated",
            self.begun.len(),
            self.pauses.workers,
            self.pauses.proxies,
            waits[waits.len() / 2],
            waits[waits.len() - 1],
            sum(&|begun| begun.barred),
            sum(&|begun| begun.repeated),
        );
        println!(
            "{per:?}: writes: {} done, {} stale (409), {} busy (503), {} unknown; {} listings, {} \
             changes seen; {} violations seen",
            self.count(Told::Done),
            self.count(Told::Stale),
            self.count(Told::Busy),
            self.count(Told::Unknown),
            self.watched.listings,
            self.watched.changes,
            self.watched.wrong.len(),
        );
        for trouble in self.troubles.iter().take(5) {
            println!("{per:?}: {trouble}");
        }
    }

    /// Everything that must not be.
    fn wrong(&self, backend: &Backend) -> Vec<String> {
        let log = &self.heard.writes;
        let mut wrong = self.watched.wrong.clone();
        wrong.extend(self.heard.odd.clone());
        wrong.extend(watch::unexplained(&self.watched.gone, log));
        wrong.extend(watch::acknowledged_late(&self.begun, log));
        if let Some(history) = backend.whole_history() {
            wrong.extend(watch::judge_history(&history, &self.begun, log).all());
        }
        wrong
    }

    fn assert_it_did_soak(&self) {
        let stopped = self.pauses.workers.min(self.pauses.proxies);
        assert!(self.begun.len() >= 5 && stopped >= 3, "too few terms and pauses");
        assert!(self.count(Told::Done) >= 50, "too few writes");
        assert!(self.watched.changes >= 20, "the reader saw nothing");
    }
}

fn length() -> Duration {
    Duration::from_secs(if is_full() { 300 } else { 20 })
}

/// Slow enough that a proxy which is stopped is often stopped between the record and the object.
async fn slow_embedded_store() -> Backend {
    let backend = Backend::embedded(Profile::Aws).await;
    backend.faults().set_latency(Duration::from_millis(8));
    backend
}

async fn nothing_lower_after_a_claim(backend: Backend) {
    let _others_may_run = ALONE.read().await;
    let outcome = soak(&backend, Per::Prefix, length()).await;
    let wrong = outcome.wrong(&backend);
    assert!(wrong.is_empty(), "{} violations:\n{}", wrong.len(), wrong.join("\n"));
    outcome.assert_it_did_soak();
    assert!(outcome.count(Told::Stale) > 0, "no old holder was refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_lower_lands_after_a_claim_over_the_embedded_store() {
    nothing_lower_after_a_claim(slow_embedded_store().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_lower_lands_after_a_claim_over_seaweedfs() {
    let Some(backend) = Backend::seaweedfs().await else { return };
    nothing_lower_after_a_claim(backend).await;
}

/// The same harness, and a fence for each key: the old holder goes on with keys that the new one
/// has not touched, and the judges see it.
async fn a_fence_per_object_lets_it_happen(backend: Backend) {
    let _others_may_run = ALONE.read().await;
    let outcome = soak(&backend, Per::Object, Duration::from_secs(8)).await;
    assert!(!outcome.watched.wrong.is_empty(), "the reader saw no write of an older holder");
    let late = watch::acknowledged_late(&outcome.begun, &outcome.heard.writes);
    assert!(!late.is_empty(), "no older holder was told done");
    println!("Object: {} writes of older holders told done, as in {}", late.len(), late[0]);
    if let Some(history) = backend.whole_history() {
        let judged = watch::judge_history(&history, &outcome.begun, &outcome.heard.writes);
        assert!(!judged.late.is_empty(), "nor did the history show one");
        println!("Object: {} of them in the history", judged.late.len());
        // What such a fence promises, it keeps: each key by itself is safe.
        assert_eq!((judged.backwards, judged.miscounted), (Vec::new(), Vec::new()));
    }
    assert_eq!(outcome.heard.odd, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_per_object_lets_it_happen_over_the_embedded_store() {
    a_fence_per_object_lets_it_happen(slow_embedded_store().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_per_object_lets_it_happen_over_seaweedfs() {
    let Some(backend) = Backend::seaweedfs().await else { return };
    a_fence_per_object_lets_it_happen(backend).await;
}

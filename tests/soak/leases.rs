//! Eight contenders for one lease, through three proxies that are killed (`kill -9`) and started
//! again, or stopped for a while, with holders that are stopped past the end of their lease.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost::clock;
use fencepost::devstore::Profile;
use tokio::sync::mpsc;

use crate::contender::STATE;
use crate::lease_judge::{self, Log};
use crate::process::{Program, Setup, Worker, site};
use crate::support::{Backend, Generator, S3};
use crate::talk::{Kept, Order, Report, Role, Site, Told};
use crate::{ALONE, LOG, between, is_full};

const PREFIX: &str = "lease/";
const PROXIES: usize = 3;
const WORKERS: usize = 8;

/// How much of it there is.
struct Plan {
    acquisitions: usize,
    longest: Duration,
    /// One acquisition in so many ends in a stop.
    one_stop_in: usize,
    harm_ms: (usize, usize),
}

fn plan() -> Plan {
    if is_full() {
        let longest = Duration::from_secs(3_600);
        Plan { acquisitions: 10_000, longest, one_stop_in: 80, harm_ms: (2_000, 8_000) }
    } else {
        let longest = Duration::from_secs(32);
        Plan { acquisitions: 400, longest, one_stop_in: 25, harm_ms: (1_000, 3_000) }
    }
}

/// What a proxy that was killed leaves behind stands in the way for 20 seconds; by then a store on
/// loopback has long done what it was sent.
fn settings(bucket: &str) -> String {
    format!(
        "{LOG}\
         [ledger]\ntimeout_seconds = 30\n\
         [fence]\nintents_max = 500\ncontention_wait_seconds_max = 1\nsignature_lifetime_seconds = 15\n\
         body_stall_seconds = 5\n\
         [[scope]]\nbucket = \"{bucket}\"\nprefix = \"{PREFIX}\"\nmode = \"require\"\n\
         per = \"prefix\"\n"
    )
}

/// What the contenders reported, and who is to be stopped.
#[derive(Default)]
struct Heard {
    log: Log,
    to_stop: Vec<(usize, u64)>,
}

impl Heard {
    fn hear(&mut self, worker: usize, one_stop_in: usize, report: Report) {
        match report {
            Report::Acquired(acquired) => {
                let ttl_seconds = acquired.ttl_seconds;
                self.log.acquired.push(acquired);
                if self.log.acquired.len().is_multiple_of(one_stop_in) {
                    self.to_stop.push((worker, ttl_seconds));
                }
            }
            Report::Wrote(write) => self.log.writes.push(write),
            Report::Read(read) => self.log.reads.push(read),
            Report::Kept(keeping) => self.log.kept.push(keeping),
            Report::Odd(odd) => self.log.odd.push(odd),
            Report::Begun(_) | Report::Ended => {}
        }
    }
}

/// What was done to proxies.
#[derive(Clone, Copy, Debug, Default)]
struct Harm {
    killed: usize,
    stopped: usize,
}

/// A proxy is to be stopped, now and for so long.
type Wish = (Instant, Duration);

/// Stops holders that have just got the lease, until it has run out for certain; every other one
/// together with a proxy, which may have a write of its own in hand.
async fn stop_holders(
    workers: Arc<tokio::sync::Mutex<Vec<Worker>>>,
    heard: Arc<Mutex<Heard>>,
    wish: mpsc::UnboundedSender<Wish>,
    mut dice: Generator,
    over: Arc<AtomicBool>,
) -> usize {
    let mut stops = 0;
    while !over.load(Ordering::SeqCst) {
        let next = heard.lock().unwrap().to_stop.pop();
        if let Some((worker, ttl_seconds)) = next {
            let until_over = Duration::from_millis(ttl_seconds * 1_000 + 2_200);
            tokio::time::sleep(between(&mut dice, 0, 30)).await;
            if stops % 2 == 0 {
                let longer = until_over + Duration::from_millis(1_500);
                // Nobody harms proxies any more when it is over.
                let _ = wish.send((clock::monotonic(), longer));
            }
            workers.lock().await[worker].stop();
            stops += 1;
            tokio::time::sleep(until_over).await;
            workers.lock().await[worker].wake();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stops
}

/// Kills proxies, or stops them for a while, one after the other.
async fn harm_proxies(
    mut programs: Vec<Program>,
    mut wishes: mpsc::UnboundedReceiver<Wish>,
    mut dice: Generator,
    (min_ms, max_ms): (usize, usize),
    over: Arc<AtomicBool>,
) -> (Vec<Program>, Harm) {
    let mut harm = Harm::default();
    while !over.load(Ordering::SeqCst) {
        let rest = between(&mut dice, min_ms, max_ms);
        let wish = tokio::time::timeout(rest, wishes.recv()).await.ok().flatten();
        let stop = match wish {
            Some((at, _)) if at.elapsed() > Duration::from_millis(50) => continue,
            Some((_, length)) => Some(length),
            None => dice.one_in(3).then(|| between(&mut dice, 200, 1_200)),
        };
        let victim = dice.below(programs.len());
        if let Some(length) = stop {
            programs[victim].stop();
            tokio::time::sleep(length).await;
            programs[victim].wake();
            harm.stopped += 1;
        } else {
            programs[victim].replace(between(&mut dice, 0, 500)).await;
            harm.killed += 1;
        }
    }
    (programs, harm)
}

/// Reads the object that all write, over and over: its token never goes down.
async fn watch(store: S3, over: Arc<AtomicBool>) -> (usize, Vec<String>) {
    let (mut reads, mut highest, mut wrong) = (0, 0, Vec::new());
    loop {
        let last = over.load(Ordering::SeqCst);
        let head = store.head(&format!("{PREFIX}{STATE}")).await;
        if head.status == 200 {
            let token: u64 = head.header("x-amz-meta-fencepost-token").parse().unwrap();
            if token < highest {
                wrong.push(format!("{token} is there after {highest} was"));
            }
            highest = token.max(highest);
            reads += 1;
        }
        if last {
            return (reads, wrong);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

struct Outcome {
    log: Log,
    wrong: Vec<String>,
    stops: usize,
    harm: Harm,
    took: Duration,
    reads: usize,
}

async fn soak(backend: &Backend, plan: &Plan) -> Outcome {
    let setup = Setup::new(backend, &settings(&backend.bucket));
    let programs = futures_util::future::join_all((0..PROXIES).map(|_| Program::start(&setup)));
    let programs = programs.await;
    let site = site(&setup, backend, &programs, PREFIX, 100);
    let mut dice = Generator(site.seed);
    let (heard, done) = (Arc::<Mutex<Heard>>::default(), Arc::new(AtomicUsize::new(0)));
    let one_stop_in = plan.one_stop_in;
    let started = clock::monotonic();
    let worker = |number: usize| {
        let (worker, seed) = (1 + number as u64, dice.next());
        let (heard, done) = (Arc::clone(&heard), Arc::clone(&done));
        Worker::start(&Role::Contender(Site { worker, seed, ..site.clone() }), move |report| {
            let mut heard = heard.lock().unwrap();
            heard.hear(number, one_stop_in, report);
            done.store(heard.log.acquired.len(), Ordering::SeqCst);
        })
    };
    let workers: Vec<_> = (0..WORKERS).map(worker).collect();
    let workers = Arc::new(tokio::sync::Mutex::new(workers));
    let over = Arc::new(AtomicBool::new(false));
    let (wish, wishes) = mpsc::unbounded_channel();
    let luck = Generator(dice.next());
    let stopping =
        tokio::spawn(stop_holders(workers.clone(), heard.clone(), wish, luck, over.clone()));
    let luck = Generator(dice.next());
    let harming = tokio::spawn(harm_proxies(programs, wishes, luck, plan.harm_ms, over.clone()));
    let watching = tokio::spawn(watch(backend.direct(), Arc::clone(&over)));
    while done.load(Ordering::SeqCst) < plan.acquisitions && started.elapsed() < plan.longest {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = started.elapsed();
    over.store(true, Ordering::SeqCst);
    let (stops, (programs, harm)) = (stopping.await.unwrap(), harming.await.unwrap());
    let mut workers = workers.lock().await;
    for worker in workers.iter_mut() {
        worker.tell(&Order::End).await;
    }
    for worker in workers.iter_mut() {
        assert!(matches!(worker.next().await, Report::Ended));
    }
    let (reads, seen_wrong) = watching.await.unwrap();
    for trouble in programs.iter().flat_map(Program::troubles).take(5) {
        println!("leases: {trouble}");
    }
    let log = std::mem::take(&mut heard.lock().unwrap().log);
    let mut wrong = log.wrong();
    wrong.extend(seen_wrong);
    if let Some(history) = backend.whole_history() {
        wrong.extend(lease_judge::history_goes_back(&history));
    }
    Outcome { log, wrong, stops, harm, took, reads }
}

impl Outcome {
    fn print(&self) {
        let (log, seconds) = (&self.log, self.took.as_secs_f64());
        let (barred, repeated) = log
            .acquired
            .iter()
            .fold((0, 0), |(barred, repeated), one| (barred + one.barred, repeated + one.repeated));
        println!(
            "leases: {} acquisitions by {WORKERS} contenders in {seconds:.0} s, {:.1} a second; \
             {} holders stopped; {} proxies killed, {} stopped; {barred} times barred, {repeated} \
             repeated",
            log.acquired.len(),
            log.acquired.len() as f64 / seconds,
            self.stops,
            self.harm.killed,
            self.harm.stopped,
        );
        let told = |told| log.writes.iter().filter(|write| write.told == told).count();
        let kept = |of: fn(&Kept) -> bool| log.kept.iter().filter(|kept| of(&kept.kept)).count();
        println!(
            "leases: writes: {} done, {} stale (409), {} busy (503), {} unknown; {} renewals, {} \
             releases, {} found their lease lost, {} unknown; {} reads, {} violations",
            told(Told::Done),
            told(Told::Stale),
            told(Told::Busy),
            told(Told::Unknown),
            kept(|kept| matches!(kept, Kept::Renewed(_))),
            kept(|kept| *kept == Kept::Released),
            kept(|kept| *kept == Kept::Lost),
            kept(|kept| *kept == Kept::Unknown),
            log.reads.len() + self.reads,
            self.wrong.len(),
        );
    }

    fn lost(&self) -> usize {
        self.log.kept.iter().filter(|keeping| keeping.kept == Kept::Lost).count()
    }
}

async fn tokens_rise_with_acquisitions(backend: Backend) {
    let _others_may_run = ALONE.read().await;
    let plan = plan();
    let outcome = soak(&backend, &plan).await;
    outcome.print();
    let wrong = &outcome.wrong;
    assert!(wrong.is_empty(), "{} violations:\n{}", wrong.len(), wrong.join("\n"));
    let enough = if is_full() { plan.acquisitions } else { 40 };
    assert!(outcome.log.acquired.len() >= enough, "too few acquisitions");
    assert!(outcome.harm.killed >= 1 && outcome.stops >= 1, "too few kills and stops");
    assert!(outcome.lost() >= 1, "no stopped holder has found its lease lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_with_acquisitions_over_the_embedded_store() {
    let backend = Backend::embedded(Profile::Aws).await;
    backend.faults().set_latency(Duration::from_millis(2));
    tokens_rise_with_acquisitions(backend).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_with_acquisitions_over_seaweedfs() {
    let Some(backend) = Backend::seaweedfs().await else { return };
    tokens_rise_with_acquisitions(backend).await;
}

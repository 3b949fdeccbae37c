//! Two workers hammer on one key with rising tokens, through two proxies, while requests are
//! delayed and answers lost; the store's own history is the judge.
//!
//! The contents come from a small set, so that ETags come back; deletes are mixed in. What must
//! never be seen: a change by a lower token after a higher one was acknowledged, a refused write
//! that was made, an acknowledged one that was not, or one that was made twice. The judge itself is
//! put to the test with the rules switched off.
//!
//! Every store gets a few seconds; `FENCEPOST_TEST_HAMMER_SECONDS` makes them more.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests")]

mod support;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use fencepost::clock;
use fencepost::devstore::{Change, ChangeKind, Effect, Profile, Rule};
use fencepost::fence::{self, Rules};
use http::Method;
use support::{Backend, Detour, LEDGER, Proxy, hammer_seconds, soon};

const UNIQUE: &str = "[[bucket]]\nname = \"data\"\ntags = \"unique\"\n";

const SETTINGS: &str =
    "fence.contention_wait_seconds_max = 2\nfence.settle_delay_milliseconds = 20\n";

/// Every rule off: what is left is a compare with the record and `If-Match`.
const IF_MATCH_ONLY: Rules = Rules::ALL
    .without(fence::Rule::Register)
    .without(fence::Rule::Avoid)
    .without(fence::Rule::KeepDead)
    .without(fence::Rule::KeepUnknown)
    .without(fence::Rule::TagBeforeRecord);

/// How long one key is hammered on. An intent whose outcome stays unknown stays in the record, so
/// that a key that has seen many lost answers admits less and less.
const KEY_TIME: Duration = Duration::from_millis(500);

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It is done.
    Done,
    /// It is not, and never will be.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// One operation as its client saw it.
#[derive(Clone, Debug)]
struct Operation {
    key: String,
    token: u64,
    /// What was written under `x-amz-meta-op`; a delete has no place for it.
    id: u64,
    deletes: bool,
    invoked: SystemTime,
    answered: SystemTime,
    told: Told,
}

impl Operation {
    /// Whether it may have changed something at `time`.
    fn may_act_at(&self, time: SystemTime) -> bool {
        let unsettled = match self.told {
            Told::Done => self.answered >= time,
            Told::Unknown => true,
            Told::Refused => false,
        };
        self.invoked <= time && unsettled
    }
}

type Log = Arc<Mutex<Vec<Operation>>>;

/// The same numbers for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Counts tokens and operations, and says when it is over.
#[derive(Default)]
struct Shared {
    token: AtomicU64,
    operation: AtomicU64,
    over: AtomicBool,
    log: Log,
}

/// One operation through a proxy.
async fn operate(
    proxy: &Proxy,
    shared: &Shared,
    key: &str,
    token: u64,
    body: Option<&str>,
) -> Told {
    let id = shared.operation.fetch_add(1, Ordering::SeqCst);
    let client = proxy.token(token).with("x-amz-meta-op", &id.to_string());
    let invoked = clock::now();
    let answer = match body {
        Some(body) => client.put(key, body.to_owned()).await,
        None => client.delete(key).await,
    };
    let answered = clock::now();
    let told = match &*answer.short() {
        "200" | "204" => Told::Done,
        "409 StaleFenceToken" | "503 FenceContended" | "503 FenceUnavailable" => Told::Refused,
        // Of the first steps of the one-part form, which change no object; passed on as it is.
        "500 InternalError" => Told::Refused,
        "503 FenceOutcomeUnknown" => Told::Unknown,
        other => panic!("token {token}: {other}: {answer:?}"),
    };
    let (key, deletes) = (key.to_owned(), body.is_none());
    let operation = Operation { key, token, id, deletes, invoked, answered, told };
    shared.log.lock().unwrap().push(operation);
    told
}

/// Takes a new token, writes with it a few times, takes the next: while the other worker does the
/// same, so that either is the stale one again and again.
async fn work(proxy: Arc<Proxy>, shared: Arc<Shared>, key: String, mut dice: Dice) {
    const CONTENTS: [&str; 3] = ["idle", "busy", ""];
    while !shared.over.load(Ordering::SeqCst) {
        let token = shared.token.fetch_add(1, Ordering::SeqCst) + 1;
        for _ in 0..=dice.below(4) {
            let body = match dice.below(10) {
                0..3 => None,
                other => Some(CONTENTS[usize::try_from(other % 3).unwrap()]),
            };
            operate(&proxy, &shared, &key, token, body).await;
        }
    }
}

/// Delays requests and loses answers, here and there.
async fn disturb(backend: Arc<Backend>, shared: Arc<Shared>, mut dice: Dice) {
    while !shared.over.load(Ordering::SeqCst) {
        let effect = match dice.below(6) {
            0..4 => Effect::Delay(Duration::from_millis(dice.below(120))),
            4 => Effect::LoseAnswer,
            _ => Effect::ExecuteThenStatus(500, "InternalError"),
        };
        let method = if dice.below(3) == 0 { Method::DELETE } else { Method::PUT };
        let rule = Rule::new(effect).method(method);
        let rule = if dice.below(3) == 0 { rule.bucket(LEDGER) } else { rule.bucket("data") };
        backend.faults().add(rule);
        tokio::time::sleep(Duration::from_millis(10 + dice.below(40))).await;
    }
}

/// Everything in the history that must not be there.
fn violations(history: &[Change], log: &[Operation]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut times_made: HashMap<u64, u32> = HashMap::new();
    for change in history {
        let ours = || log.iter().filter(|operation| operation.key == change.key);
        let acknowledged = ours()
            .filter(|operation| operation.told == Told::Done && operation.answered < change.time)
            .map(|operation| operation.token)
            .max()
            .unwrap_or_default();
        let text = |name: &str| change.metadata.get(name).and_then(|text| text.parse::<u64>().ok());
        match change.kind {
            ChangeKind::Put => {
                let token = text("fencepost-token").unwrap();
                *times_made.entry(text("op").unwrap()).or_default() += 1;
                if token < acknowledged {
                    let at = change.sequence;
                    wrong.push(format!("{at}: PUT of {token} after {acknowledged} was told done"));
                }
            }
            ChangeKind::Delete | ChangeKind::DeleteVersion => {
                let explained = ours().any(|operation| {
                    operation.deletes
                        && operation.token >= acknowledged
                        && operation.may_act_at(change.time)
                });
                if !explained {
                    let at = change.sequence;
                    wrong.push(format!("{at}: DELETE by nobody who may, after {acknowledged}"));
                }
            }
            ChangeKind::Tagging => wrong.push("nobody tags".into()),
        }
    }
    for operation in log.iter().filter(|operation| !operation.deletes) {
        let made = times_made.get(&operation.id).copied().unwrap_or_default();
        let right = match operation.told {
            Told::Done => made == 1,
            Told::Refused => made == 0,
            Told::Unknown => made <= 1,
        };
        if !right {
            wrong.push(format!("{operation:?} was made {made} times"));
        }
    }
    wrong
}

/// Hammers on an embedded store for as long as it is told, and judges.
async fn hammer(profile: Profile, settings: &str) {
    let backend = Arc::new(Backend::embedded(profile).await);
    let settings = format!("{SETTINGS}{settings}");
    let proxies =
        [Arc::new(backend.proxy(&settings).await), Arc::new(backend.proxy(&settings).await)];
    let seed = clock::random_u128() as u64;
    println!("{profile}: seed {seed:#x}");
    let mut dice = Dice(seed);
    let log = Log::default();
    let end = clock::monotonic() + Duration::from_secs(hammer_seconds().unwrap_or(3));
    let mut round = 0;
    while clock::monotonic() < end {
        let key = format!("k{round}");
        round += 1;
        let shared = Arc::new(Shared { log: Arc::clone(&log), ..Shared::default() });
        shared.operation.store(round << 32, Ordering::SeqCst);
        let mut tasks: Vec<_> = proxies
            .iter()
            .map(|proxy| {
                let worker =
                    work(Arc::clone(proxy), shared.clone(), key.clone(), Dice(dice.next()));
                tokio::spawn(worker)
            })
            .collect();
        let disturber = disturb(Arc::clone(&backend), shared.clone(), Dice(dice.next()));
        tasks.push(tokio::spawn(disturber));
        tokio::time::sleep(KEY_TIME).await;
        shared.over.store(true, Ordering::SeqCst);
        for task in tasks {
            soon("a worker", task).await.unwrap();
        }
        backend.faults().clear();
    }
    let log = log.lock().unwrap().clone();
    let history: Vec<_> =
        backend.store().history().into_iter().filter(|change| change.bucket == "data").collect();
    let told = |told| log.iter().filter(|operation| operation.told == told).count();
    let deletes = history.iter().filter(|change| change.kind == ChangeKind::Delete).count();
    let etags: HashSet<_> = history.iter().filter_map(|change| change.etag.as_ref()).collect();
    println!(
        "{profile}: {} done, {} refused, {} unknown; {} changes, {deletes} deletes, {} tags",
        told(Told::Done),
        told(Told::Refused),
        told(Told::Unknown),
        history.len(),
        etags.len()
    );
    assert!(told(Told::Done) > 20 && told(Told::Refused) > 5 && deletes > 3, "it did hammer");
    let wrong = violations(&history, &log);
    assert!(wrong.is_empty(), "seed {seed:#x}:\n{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_store_like_amazon_s3() {
    hammer(Profile::Aws, "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_store_whose_tags_are_unique() {
    hammer(Profile::AwsKms, UNIQUE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_store_like_minio() {
    hammer(Profile::Minio, "").await;
}

/// The write that `If-Match` alone does not stop, in the same words, before the same judge.
async fn directed(rules: Rules) -> Vec<String> {
    let backend = Backend::embedded(Profile::Aws).await;
    let older = Arc::new(backend.proxy_with(SETTINGS, rules).await);
    let newer = backend.proxy_with(SETTINGS, rules).await;
    let shared = Arc::new(Shared::default());
    assert_eq!(operate(&older, &shared, "k", 10, Some("idle")).await, Told::Done);
    let parked = Rule::new(Effect::Hold).method(Method::PUT).bucket("data");
    let parked = backend.faults().add(parked);
    let late = tokio::spawn({
        let (older, shared) = (Arc::clone(&older), Arc::clone(&shared));
        async move { operate(&older, &shared, "k", 11, Some("late")).await }
    });
    soon("a parked request", parked.wait_parked(1)).await;
    for body in ["busy", "idle"] {
        assert_eq!(operate(&newer, &shared, "k", 12, Some(body)).await, Told::Done);
    }
    parked.release();
    soon("its answer", late).await.unwrap();
    let log = shared.log.lock().unwrap().clone();
    violations(&backend.history("k"), &log)
}

#[tokio::test]
async fn the_judge_finds_what_if_match_alone_lets_through() {
    let wrong = directed(IF_MATCH_ONLY).await;
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].ends_with("PUT of 11 after 12 was told done"), "{wrong:?}");
    assert_eq!(directed(Rules::ALL).await, Vec::<String>::new());
}

/// Reads what the real store shows, over and over, and compares it with what has been
/// acknowledged before.
async fn watch(backend: Arc<Backend>, shared: Arc<Shared>, key: String) -> (u64, Vec<String>) {
    let (mut reads, mut wrong) = (0, Vec::new());
    loop {
        let last = shared.over.load(Ordering::SeqCst);
        let log = |ours: &dyn Fn(&Operation) -> bool| {
            let log = shared.log.lock().unwrap();
            log.iter().filter(|operation| ours(operation)).map(|op| op.token).max()
        };
        let floor = log(&|operation| operation.told == Told::Done).unwrap_or_default();
        let head = backend.direct().head(&key).await;
        reads += 1;
        match head.status {
            200 => {
                let token: u64 = head.header("x-amz-meta-fencepost-token").parse().unwrap();
                if token < floor {
                    wrong.push(format!("{token} is there after {floor} was told done"));
                }
            }
            // A delete that is on its way has no line in the log yet; at the end all have.
            404 if last => {
                let deletes =
                    log(&|operation| operation.deletes && operation.told != Told::Refused);
                if deletes.unwrap_or_default() < floor {
                    wrong.push(format!("nothing is there after {floor} was told done"));
                }
            }
            404 => {}
            other => panic!("HEAD was answered {other}"),
        }
        if last {
            return (reads, wrong);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Two writers and one reader: the loser of a race waits for seconds there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_seaweedfs() {
    let Some(backend) = Backend::seaweedfs().await else { return };
    let backend = Arc::new(backend);
    let settings = "ledger.timeout_seconds = 30\nfence.contention_wait_seconds_max = 20\n";
    let proxies =
        [Arc::new(backend.proxy(settings).await), Arc::new(backend.proxy(settings).await)];
    let shared = Arc::new(Shared::default());
    let mut dice = Dice(clock::random_u128() as u64);
    let workers: Vec<_> = proxies
        .iter()
        .map(|proxy| {
            let dice = Dice(dice.next());
            tokio::spawn(work(Arc::clone(proxy), shared.clone(), "k".into(), dice))
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(10)).await;
    let watcher = tokio::spawn(watch(Arc::clone(&backend), shared.clone(), "k".into()));
    tokio::time::sleep(Duration::from_secs(hammer_seconds().unwrap_or(5))).await;
    shared.over.store(true, Ordering::SeqCst);
    for worker in workers {
        soon("a worker", worker).await.unwrap();
    }
    let (reads, mut wrong) = soon("the reader", watcher).await.unwrap();
    // Once more, when everybody has been answered.
    wrong.extend(watch(Arc::clone(&backend), shared.clone(), "k".into()).await.1);
    let log = shared.log.lock().unwrap().clone();
    let done = log.iter().filter(|operation| operation.told == Told::Done).count();
    println!("seaweedfs: {done} of {} done, {reads} reads", log.len());
    assert!(done > 5 && reads > 5, "it did hammer");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// On a real store as well the delayed packet lands where there is `If-Match` alone.
#[tokio::test]
async fn on_seaweedfs_if_match_alone_lets_a_delayed_packet_through() {
    let Some(backend) = Backend::seaweedfs().await else { return };
    let path = format!("/{}/k", backend.bucket);
    let detour = Detour::to(&backend.endpoint, Method::PUT, &path).await;
    let settings = "ledger.timeout_seconds = 30\n";
    let older = backend.by_way_of(detour.endpoint()).proxy_with(settings, IF_MATCH_ONLY).await;
    let newer = backend.proxy_with(settings, IF_MATCH_ONLY).await;
    assert_eq!(older.token(10).put("k", "idle").await.short(), "200");
    detour.arm();
    let client = older.token(11);
    let late = tokio::spawn(async move { client.put("k", "late").await });
    detour.held().await;
    for body in ["busy", "idle"] {
        assert_eq!(newer.token(12).put("k", body).await.short(), "200");
    }
    detour.release().await;
    soon("its answer", late).await.unwrap();
    let now = backend.direct().head("k").await;
    assert_eq!(now.header("x-amz-meta-fencepost-token"), "11", "the newer holder's is gone");
}

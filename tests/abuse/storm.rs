//! Many holders one after the other, through several proxies of which one dies, on a store that
//! delays, loses and refuses: what is acknowledged holds on every key.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fencepost::clock;
use fencepost::devstore::{ChangeKind, Effect, Profile, Rule};
use http::Method;

use super::support::{Backend, DATA, Generator, LEDGER, S3};
use super::{SCOPES, UNIQUE, claim};

const KEYS: usize = 6;

/// Nothing is under way for longer than a few seconds here, so that what is left behind expires soon.
const SETTINGS: &str = "fence.contention_wait_seconds_max = 3\nfence.settle_delay_milliseconds = 20\n\
    fence.signature_lifetime_seconds = 4\nfence.body_stall_seconds = 4\nledger.timeout_seconds = 2\n\
    backend.response_timeout_seconds = 2\nfence.intents_max = 12\nlimits.body_buffer_bytes_max = 1024\n";

#[derive(Default)]
struct Log {
    /// Token, and the newest change at the moment of its acknowledgement.
    acknowledged: Vec<(u64, u64)>,
    /// What became of each write, by its number.
    answers: BTreeMap<u64, String>,
    counts: BTreeMap<String, u64>,
}

fn newest(backend: &Backend) -> u64 {
    backend.store().history().last().map_or(0, |change| change.sequence)
}

/// The answer in short; `gone` where the proxy is.
async fn sent(client: S3, method: Method, path: &str, body: String) -> String {
    let path = path.to_owned();
    // A client whose connection is refused panics.
    let answer = tokio::spawn(async move { client.try_send(method, &path, body).await }).await;
    answer.ok().and_then(Result::ok).map_or("gone".into(), |answer| answer.short())
}

async fn worker(
    backend: Arc<Backend>,
    clients: Vec<S3>,
    seed: u64,
    token: Arc<AtomicU64>,
    number: Arc<AtomicU64>,
    log: Arc<Mutex<Log>>,
    until: Instant,
) {
    let mut random = Generator(seed);
    while clock::monotonic() < until {
        let current = token.load(Ordering::Relaxed);
        // Some are late, and some do not know it.
        let mine = match random.below(6) {
            0 => current.saturating_sub(1).max(1),
            1 => current.saturating_sub(2).max(1),
            _ => current,
        };
        let client = &clients[random.below(clients.len())];
        let client = client.clone().session(&format!("fence:{mine}"));
        let key = format!("jobs/{}", random.below(KEYS));
        let op = number.fetch_add(1, Ordering::Relaxed);
        let stamped = client.clone().with("x-amz-meta-op", &op.to_string());
        let (what, path) = (random.below(10), client.path(&key));
        let answer = match what {
            0 => sent(client, Method::PUT, "/_fence/claim/data/jobs/", String::new()).await,
            1 => sent(client, Method::DELETE, &path, String::new()).await,
            // Bytes that come back, and bytes that stream.
            2..=5 => {
                let body = format!("{}", random.below(2));
                sent(stamped, Method::PUT, &path, body).await
            }
            6 => {
                let body = "s".repeat(2000 + random.below(2));
                sent(stamped, Method::PUT, &path, body).await
            }
            _ => {
                let body = format!("own {op}");
                sent(stamped, Method::PUT, &path, body).await
            }
        };
        let seen = newest(&backend);
        let mut log = log.lock().unwrap();
        if matches!(answer.as_str(), "200" | "204") {
            log.acknowledged.push((mine, seen));
        }
        if what >= 2 {
            log.answers.insert(op, answer.clone());
        }
        *log.counts.entry(answer).or_default() += 1;
    }
}

async fn storm(profile: Profile, more: &str, seed: u64, seconds: u64) {
    let backend = Arc::new(Backend::embedded(profile).await);
    let settings = format!("{SETTINGS}{more}{SCOPES}");
    let mut proxies = Vec::new();
    for _ in 0..3 {
        proxies.push(backend.proxy(&settings).await);
    }
    let clients: Vec<S3> = proxies.iter().map(super::Proxy::plain).collect();
    let (token, number) = (Arc::new(AtomicU64::new(3)), Arc::new(AtomicU64::new(1)));
    let log = Arc::new(Mutex::new(Log::default()));
    let until = clock::monotonic() + Duration::from_secs(seconds);
    let workers: Vec<_> = (0..12)
        .map(|worker_number| {
            tokio::spawn(worker(
                Arc::clone(&backend),
                clients.clone(),
                seed * 1000 + worker_number,
                Arc::clone(&token),
                Arc::clone(&number),
                Arc::clone(&log),
                until,
            ))
        })
        .collect();
    let mut random = Generator(seed);
    while clock::monotonic() < until {
        tokio::time::sleep(Duration::from_millis(60 + random.below(200) as u64)).await;
        if random.below(2) == 0 {
            token.fetch_add(1, Ordering::Relaxed);
        }
        let bucket = if random.below(3) == 0 { LEDGER } else { DATA };
        let effect = match random.below(8) {
            0 | 1 => Effect::LoseAnswer,
            2 => Effect::CutBefore,
            3 => Effect::Status(500, "InternalError"),
            4 => Effect::ExecuteThenStatus(500, "InternalError"),
            5 => Effect::Delay(Duration::from_millis(2500)),
            _ => Effect::Delay(Duration::from_millis(100 + random.below(900) as u64)),
        };
        let method = if random.below(5) == 0 { Method::DELETE } else { Method::PUT };
        backend.faults().add(Rule::new(effect).method(method).bucket(bucket));
        if random.below(20) == 0 && proxies.len() > 2 {
            proxies.remove(0).kill().await;
        }
    }
    for worker in workers {
        worker.await.unwrap();
    }
    backend.faults().clear();
    tokio::time::sleep(Duration::from_secs(3)).await;
    {
        let log = log.lock().unwrap();
        println!("storm {profile} {seed}: {:?}", log.counts);
        judge(&backend, &log);
    }
    // What was left behind has expired.
    let last = token.load(Ordering::Relaxed) + 1;
    let began = clock::monotonic();
    let proxy = proxies.last().unwrap();
    while began.elapsed() < Duration::from_secs(140) {
        let claimed = claim(&proxy.token(last), "jobs/").await.status;
        if claimed == 200 {
            println!("storm {profile} {seed}: claimed after {:?}", began.elapsed());
            return;
        }
    }
    assert!(began.elapsed() < Duration::from_secs(60), "the scope stays barred");
}

fn judge(backend: &Backend, log: &Log) {
    let puts: Vec<_> = backend
        .store()
        .history()
        .into_iter()
        .filter(|change| change.bucket == DATA && change.kind == ChangeKind::Put)
        .collect();
    let mut applied: BTreeMap<u64, u64> = BTreeMap::new();
    for put in &puts {
        let token: u64 = put.metadata["fencepost-token"].parse().unwrap();
        let newer =
            log.acknowledged.iter().find(|(other, seen)| *other > token && *seen < put.sequence);
        assert!(newer.is_none(), "stale: {put:?} took effect after {newer:?} was acknowledged");
        if let Some(op) = put.metadata.get("op") {
            *applied.entry(op.parse().unwrap()).or_default() += 1;
        }
    }
    for (op, answer) in &log.answers {
        let times = applied.get(op).copied().unwrap_or(0);
        let unknown = answer.contains("FenceOutcomeUnknown") || answer == "gone";
        match answer.as_str() {
            "200" => assert_eq!(times, 1, "write {op} was acknowledged"),
            _ if unknown => assert!(times <= 1, "write {op}: {answer}"),
            _ => assert_eq!(times, 0, "write {op} was answered {answer}"),
        }
    }
}

fn seconds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a switch of the test, not of the proxy")]
    let text = std::env::var("FENCEPOST_TEST_STORM_SECONDS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(5)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_where_tags_repeat() {
    for seed in 1..=2 {
        storm(Profile::Aws, "", seed, seconds()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_where_tags_are_unique() {
    for seed in 1..=2 {
        storm(Profile::AwsKms, UNIQUE, seed, seconds()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_where_deletes_are_exclusive() {
    storm(Profile::Minio, "", 3, seconds()).await;
}

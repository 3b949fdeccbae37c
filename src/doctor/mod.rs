//! Which operations of a store can be fenced, found out by trying (F11).
//!
//! Many stores accept a conditional header and ignore it, or look at it before they take the write
//! and not when they make it. So each operation is tried with a condition that must fail as well
//! as with one that holds, with a body that another write overtakes half-way, and in races of
//! requests of which one alone may win. What counts is what is there afterwards, not what the
//! store says.
//!
//! A race that several have won proves that a store is unsound; one that was not proves nothing,
//! and the more rounds it has the less of nothing it is. Two things are not tried at all: how long
//! a store waits for a body that has stopped arriving (F9's second assumption), because that takes
//! minutes, and whether it does tomorrow what it does today.
//!
//! `bench` sends, `judge` says what an answer means, `puts` and the like are the checks of the
//! [`catalogue`], [`verdict`] is the pure step from checks to verdicts, [`report`] what comes out.

mod bench;
pub mod catalogue;
mod completes;
mod copies;
mod deletes;
pub mod in_bucket;
mod judge;
mod keys;
mod puts;
mod reads;
pub mod render;
pub mod report;
mod scratch;
mod signatures;
mod tags;
pub mod verdict;

use std::time::Duration;

use self::bench::Bench;
use self::catalogue::position_of;
use self::report::{
    BucketReport, Check, Depth, FORMAT, Facts, Operation, Outcome, Plan, Quotes, Report,
    StoreIdentity, Versioning,
};
use self::verdict::{Trust, verdicts};
use crate::clock;
use crate::s3::EtagQuotes;
use crate::upstream::Upstream;

/// What the scratch keys begin with in a bucket of the user's.
pub const SCRATCH_PREFIX: &str = "fencepost-doctor/";

/// Who wants to know how far an examination is.
pub trait Progress: Send + Sync {
    /// A bucket's turn.
    fn entered(&self, bucket: &str, versioning: Versioning);

    /// A check has ended.
    fn checked(&self, check: &Check);
}

/// Nobody does.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl Progress for Unwatched {
    fn entered(&self, _bucket: &str, _versioning: Versioning) {}

    fn checked(&self, _check: &Check) {}
}

/// Where objects in a bucket that keeps versions are tried, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Versioned {
    /// Nowhere.
    No,
    /// In this bucket.
    In(String),
    /// In a bucket that is made for it and removed afterwards.
    Scratch,
}

/// What is examined, and how.
pub struct Examination<'a> {
    /// The client for the store.
    pub upstream: &'a Upstream,
    /// Which store it is; what its `Server` header says is found out.
    pub store: StoreIdentity,
    /// The bucket to write scratch objects to.
    pub bucket: &'a str,
    /// What the scratch keys begin with.
    pub prefix: &'a str,
    /// How thoroughly.
    pub depth: Depth,
    /// Requests at the same time in a race.
    pub writers: usize,
    /// Rounds of a race.
    pub rounds: usize,
    /// How long the checks may take in one bucket. What has not been tried by then has not passed.
    pub time_max: Duration,
    /// Where versions are kept.
    pub versioned: Versioned,
    /// How ETags are written, if that is not to be found out.
    pub quotes: Option<EtagQuotes>,
    /// Whether requests are signed. OAuth's tokens run out by themselves.
    pub signs: bool,
    /// What is taken for granted.
    pub trust: Trust,
    /// Who watches.
    pub progress: &'a dyn Progress,
}

impl std::fmt::Debug for Examination<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Examination").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

/// Why a store could not be examined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExaminationError {
    /// There was no answer.
    #[error("the store does not answer: {0}")]
    Silent(String),
    /// The bucket is not there.
    #[error("there is no bucket {0:?}; the doctor writes scratch objects to one, and creates none")]
    NoSuchBucket(String),
    /// The credentials are not enough to look at the bucket.
    #[error("the store refuses these credentials: {0}")]
    Denied(String),
    /// Something else.
    #[error("the bucket {bucket:?} cannot be used: {reason}")]
    Unusable {
        /// Its name.
        bucket: String,
        /// What the store said.
        reason: String,
    },
}

/// What was found in one bucket.
struct Examined {
    report: BucketReport,
    facts: Facts,
    server: Option<String>,
    began_at: u64,
    remarks: Vec<String>,
}

impl Examination<'_> {
    /// Tries everything, and removes what it has written.
    ///
    /// # Errors
    ///
    /// When there is nothing to try: no store, no bucket.
    pub async fn run(self) -> Result<Report, ExaminationError> {
        let began = clock::monotonic();
        let first = self.examine(self.bench(self.bucket)).await?;
        let (mut buckets, mut remarks) = (vec![first.report], first.remarks);
        match self.in_versioned().await {
            Ok(Some(second)) => {
                buckets.push(second.report);
                remarks.extend(second.remarks);
            }
            Ok(None) => {}
            Err(why) => remarks.push(why),
        }
        if !buckets.iter().any(|bucket| bucket.versioning.keeps_versions()) {
            remarks.push("no bucket that keeps versions was tried".to_owned());
        }
        let put = |bucket: &BucketReport| bucket.verdicts.get(&Operation::Put).cloned();
        let safe = put(&buckets[0]).is_some_and(|verdict| verdict.plan == Plan::Conditional);
        for bucket in buckets.iter().skip(1) {
            if let Some(verdict) = put(bucket).filter(|verdict| verdict.plan == Plan::Refused) {
                let because = verdict.because;
                remarks.push(format!(
                    "nothing can be fenced in buckets that keep versions, and serve refuses to: \
                     {because}"
                ));
            }
        }
        Ok(Report {
            format: FORMAT,
            fencepost: env!("CARGO_PKG_VERSION").to_owned(),
            store: StoreIdentity { server: first.server, ..self.store.clone() },
            depth: self.depth,
            writers: self.writers,
            rounds: self.rounds,
            began_at: first.began_at,
            took_milliseconds: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            safe,
            remarks,
            facts: first.facts,
            buckets,
        })
    }

    fn bench(&self, bucket: &str) -> Bench<'_> {
        let races = (self.writers, self.rounds);
        Bench::new(self.upstream, bucket, self.prefix, races, self.progress)
    }

    async fn in_versioned(&self) -> Result<Option<Examined>, String> {
        let name = match &self.versioned {
            Versioned::No => return Ok(None),
            Versioned::In(name) => name.clone(),
            Versioned::Scratch => {
                let name: String = self.bucket.chars().take(40).collect();
                let suffix = format!("{:016x}", clock::random_u128() >> 64);
                format!("{}-doctor-{suffix}", name.trim_end_matches('-'))
            }
        };
        let made = self.versioned == Versioned::Scratch;
        let bench = self.bench(&name);
        if made {
            scratch::create_versioned(&bench).await.map_err(|silence| silence.0)?;
        }
        let examined = self.examine(bench).await;
        let removed = match made {
            true => scratch::remove_bucket(&self.bench(&name)).await,
            false => Ok(()),
        };
        let mut examined = examined.map_err(|error| error.to_string())?;
        if let Err(silence) = removed {
            examined.remarks.push(format!("{name}: {}", silence.0));
        }
        if !examined.report.versioning.keeps_versions() {
            return Err(format!("{name} keeps no versions"));
        }
        Ok(Some(examined))
    }

    async fn examine(&self, bench: Bench<'_>) -> Result<Examined, ExaminationError> {
        let name = bench.bucket.to_string();
        let there = scratch::look(&bench).await;
        let there = there.map_err(|silence| ExaminationError::Silent(silence.0))?;
        match there.status() {
            200..=299 => {}
            404 => return Err(ExaminationError::NoSuchBucket(name)),
            401 | 403 => return Err(ExaminationError::Denied(there.said())),
            _ => {
                let reason = there.said();
                return Err(ExaminationError::Unusable { bucket: name, reason });
            }
        }
        let server = there.answer.headers.get("server");
        let server = server.and_then(|server| server.to_str().ok()).map(str::to_owned);
        let began_at = Bench::time_of(&there).unwrap_or_else(clock::now);
        let began_at = began_at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
        let versioning = scratch::versioning(&bench).await;
        self.progress.entered(&name, versioning);
        let mut facts = Facts::default();
        let tried = tokio::time::timeout(self.time_max, self.try_all(&bench, &mut facts)).await;
        let mut remarks = Vec::new();
        if tried.is_err() {
            let seconds = self.time_max.as_secs();
            remarks.push(format!("{name}: the checks were cut off after {seconds} s"));
        }
        if bench.was_throttled() {
            remarks.push(format!("{name}: the store limits how often a key is written (429)"));
        }
        let left = scratch::clean_up(&bench, versioning).await;
        if left > 0 {
            let prefix = &bench.prefix;
            remarks.push(format!("{name}: {left} scratch objects under {prefix} were left behind"));
        }
        facts.forbidden = bench.forbidden();
        let mut checks = bench.checks();
        checks.sort_by_key(|check| position_of(&check.id));
        facts.pins_copy_source = pins_copy_source(&checks);
        let verdicts = verdicts(&checks, self.depth, &self.trust);
        let report = BucketReport { bucket: name, versioning, checks, verdicts };
        Ok(Examined { report, facts, server, began_at, remarks })
    }

    async fn try_all(&self, bench: &Bench<'_>, facts: &mut Facts) {
        let (dialect, depth) = (self.store.dialect, self.depth);
        reads::run(bench, depth).await;
        puts::run(bench, dialect, depth, self.quotes).await;
        facts.etag_quotes = bench.learnt_quotes().map(Quotes::from);
        match depth {
            // A start-up does not wait for one after the other.
            Depth::Quick => {
                let (skew, tags, aliases, (), (), ()) = tokio::join!(
                    signatures::run(bench, depth, self.signs),
                    tags::run(bench, depth),
                    keys::run(bench),
                    deletes::run(bench, dialect, depth),
                    completes::run(bench, depth),
                    copies::run(bench, depth),
                );
                (facts.clock_skew_seconds, facts.tags, facts.aliases) = (skew, tags, aliases);
            }
            Depth::Full => {
                facts.clock_skew_seconds = signatures::run(bench, depth, self.signs).await;
                facts.tags = tags::run(bench, depth).await;
                facts.aliases = keys::run(bench).await;
                deletes::run(bench, dialect, depth).await;
                completes::run(bench, depth).await;
                copies::run(bench, depth).await;
            }
        }
    }
}

fn pins_copy_source(checks: &[Check]) -> Option<bool> {
    let pin = checks.iter().find(|check| check.id == "copy.source.stale")?;
    match pin.outcome {
        Outcome::Passed => Some(true),
        Outcome::Failed => Some(false),
        Outcome::Noted | Outcome::Unclear => None,
    }
}

//! Finds out at start how the store is fenced on, and again on a schedule.
//!
//! What was found is kept in the ledger bucket, so that a restart does not examine a store that
//! was examined an hour ago, and a full examination counts for all proxies. A store that turns out
//! to do less than it did is not fenced on any more until it does it again, or the proxy is
//! started anew and plans anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::StartError;
use super::examine::{self, Kept, Options, Shelf};
use super::plan::{Known, PlanError, aliases, plan};
use crate::admin::{Probe, Readiness};
use crate::clock;
use crate::config::Config;
use crate::doctor::in_bucket::server_name;
use crate::doctor::report::{Depth, Report, StoreIdentity};
use crate::doctor::{ExaminationError, Unwatched, Versioned};
use crate::fence::Enforcement;
use crate::pipeline::{Aliases, BucketPlan, Planned, Proxy, Slashes, StorePlan};
use crate::s3::{Bucket, EtagQuotes};
use crate::telemetry::Metrics;
use crate::upstream::Upstream;

/// How long the checks of a start-up may take.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Requests at the same time in a race, and its rounds. A store that checks and then acts has two
/// winners nearly always.
const RACES: (usize, usize) = (3, 3);

/// When a store that could not be examined, or is not trusted any more, is examined again.
const AGAIN: Duration = Duration::from_secs(60);

/// Examines one store for one proxy.
#[derive(Debug)]
pub(super) struct Examiner {
    pub(super) config: Config,
    pub(super) upstream: Arc<Upstream>,
    pub(super) shelf: Shelf,
    pub(super) identity: StoreIdentity,
    pub(super) metrics: Arc<Metrics>,
    pub(super) readiness: Readiness,
}

/// What a proxy goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) plan: StorePlan,
    pub(super) aliases: Aliases,
    /// When the latest examination began, by the store's clock, in seconds.
    examined_at: u64,
}

impl Examiner {
    /// What is kept, if it is young enough, or a new examination.
    pub(super) async fn at_start(&self) -> Result<Found, StartError> {
        let found = match self.kept().await {
            Some((kept, latest)) => self.judge(&kept, &latest),
            None => match self.examine().await {
                Ok((kept, latest)) => self.judge(&kept, &latest),
                Err(error) => return Err(self.failed(error.into())),
            },
        };
        let found = found.map_err(|error| self.failed(error.into()))?;
        self.announce(&found);
        Ok(found)
    }

    fn failed(&self, error: StartError) -> StartError {
        self.readiness.set_probe(Probe::Failed { error: error.to_string() });
        error
    }

    async fn identity(&self) -> Result<StoreIdentity, ExaminationError> {
        let bucket = Bucket::new(self.config.ledger.bucket.as_str());
        let server = server_name(&self.upstream, &bucket).await;
        let server = server.map_err(|error| ExaminationError::Silent(error.to_string()))?;
        Ok(StoreIdentity { server, ..self.identity.clone() })
    }

    /// What is kept of this store, and the latest of it, if that is of this ledger bucket and good
    /// for a while yet.
    async fn kept(&self) -> Option<(Kept, Report)> {
        let kept = self.shelf.look().await.of(&self.identity().await.ok()?);
        let latest = kept.quick.clone()?;
        let bucket = self.config.ledger.bucket.as_str();
        let of_ledger = latest.buckets.first().is_some_and(|report| report.bucket == bucket);
        let quotes = examine::quotes(&self.config.backend);
        let same_quotes = quotes
            .is_none_or(|quotes| latest.facts.etag_quotes.map(EtagQuotes::from) == Some(quotes));
        let life = self.config.backend.recheck_seconds.duration().as_secs();
        let young = life == 0 || age_of(latest.began_at) < life;
        // What failed is tried again: the store may have been mended.
        (of_ledger && same_quotes && young && latest.safe).then_some((kept, latest))
    }

    async fn examine(&self) -> Result<(Kept, Report), ExaminationError> {
        let options = Options {
            bucket: self.config.ledger.bucket.as_str().to_owned(),
            depth: Depth::Quick,
            writers: RACES.0,
            rounds: RACES.1,
            versioned: Versioned::No,
            time_max: TIME_MAX,
        };
        let prefix = format!("{}doctor/", self.config.ledger.prefix.as_str());
        let (store, backend) = (self.identity.clone(), &self.config.backend);
        let report =
            examine::examine_by(&self.upstream, store, backend, options, &prefix, &Unwatched)
                .await?;
        let kept = self.shelf.look().await.of(&report.store);
        // What is unsafe is not kept: the store may be mended.
        if report.safe
            && let Err(error) = self.shelf.put(&kept.clone().with(report.clone())).await
        {
            tracing::warn!(%error, "the store is going to be examined at every start");
        }
        Ok((kept, report))
    }

    fn judge(&self, kept: &Kept, latest: &Report) -> Result<Found, PlanError> {
        let plan = plan(&self.config.backend, &Known::of(kept, latest))?;
        let aliases = aliases(&self.config.backend, &latest.facts.aliases);
        Ok(Found { plan, aliases, examined_at: latest.began_at })
    }

    fn announce(&self, found: &Found) {
        let trusted = examine::trust(&self.config.backend).names();
        let findings = found.named();
        tracing::info!(findings = %listed(&findings), "the store can be fenced on");
        if !trusted.is_empty() {
            tracing::warn!(
                trusted = %trusted.join(", "),
                "unsafe_trust_backend: these are taken for granted, whatever was found"
            );
        }
        self.metrics.examined(found.examined_at, &trusted);
        self.readiness.set_unsafe_trust(&trusted);
        self.readiness.set_probe(Probe::Passed { findings });
    }

    /// Examines again and again, as often as the configuration says. Never ends.
    pub(super) async fn watch(&self, proxy: &Proxy, used: &Found) {
        let life = self.config.backend.recheck_seconds.duration();
        if life.is_zero() {
            return std::future::pending().await;
        }
        let age = Duration::from_secs(age_of(used.examined_at));
        let mut pause = life.saturating_sub(age).max(Duration::from_secs(1));
        loop {
            tokio::time::sleep(pause).await;
            pause = match self.look_again(used).await {
                Ok(found) => {
                    proxy.distrust(None);
                    self.announce(&found);
                    life
                }
                Err(Again::Unknown(why)) => {
                    tracing::warn!(why, "the store could not be examined again");
                    AGAIN.min(life)
                }
                Err(Again::Worse(why)) => {
                    tracing::error!(
                        why,
                        "the store does less than it did: nothing is fenced on it"
                    );
                    proxy.distrust(Some(&why));
                    self.readiness.set_probe(Probe::Failed { error: why });
                    AGAIN.min(life)
                }
            };
        }
    }

    async fn look_again(&self, used: &Found) -> Result<Found, Again> {
        let (kept, latest) =
            self.examine().await.map_err(|error| Again::Unknown(error.to_string()))?;
        let found = self.judge(&kept, &latest).map_err(|error| match error {
            PlanError::Unclear(_) => Again::Unknown(error.to_string()),
            PlanError::Unsound(_) | PlanError::Contradicted { .. } => {
                Again::Worse(error.to_string())
            }
        })?;
        match used.is_kept_by(&found) {
            true => Ok(found),
            false => Err(Again::Worse(format!(
                "({}) is now ({})",
                listed(&used.named()),
                listed(&found.named())
            ))),
        }
    }
}

/// Why a store is not fenced on as before.
enum Again {
    Unknown(String),
    Worse(String),
}

impl Found {
    /// For people: `/readyz` and the log.
    fn named(&self) -> BTreeMap<String, String> {
        let StorePlan { unversioned, versioned, etag_quotes, .. } = &self.plan;
        let versioned = versioned.as_ref().map_or_else(
            || "each bucket is tried before its first write".to_owned(),
            |plan| format!("put {}, delete {}", word(&plan.put), word(&plan.delete)),
        );
        let quotes = match etag_quotes {
            EtagQuotes::Quoted => "quoted",
            EtagQuotes::Bare => "bare",
        };
        let slashes = if self.aliases.slashes == Slashes::Kept { "kept" } else { "merged" };
        [
            ("put", word(&unversioned.put)),
            ("delete", word(&unversioned.delete)),
            ("complete", word(&unversioned.complete)),
            ("copy", word(&unversioned.copy)),
            ("with_versions", &versioned),
            ("etags", quotes),
            ("slashes", slashes),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
    }

    /// Whether everything that is relied on is still there.
    fn is_kept_by(&self, other: &Self) -> bool {
        let versioned = match (&self.plan.versioned, &other.plan.versioned) {
            (Some(mine), Some(theirs)) => kept(mine, theirs),
            // A full examination of another version does not count any more.
            (Some(mine), None) => kept(mine, &BucketPlan::cautious()),
            (None, _) => true,
        };
        versioned
            && kept(&self.plan.unversioned, &other.plan.unversioned)
            && self.aliases == other.aliases
            && self.plan.etag_quotes == other.plan.etag_quotes
            && (!self.plan.pins_copy_source || other.plan.pins_copy_source)
    }
}

fn kept(mine: &BucketPlan, theirs: &BucketPlan) -> bool {
    let rank = |planned: &Planned| match planned {
        Planned::By(Enforcement::Conditional) => 0,
        Planned::By(Enforcement::Exclusive) => 1,
        Planned::Refused(_) => 2,
    };
    let operations =
        |plan: &BucketPlan| [&plan.put, &plan.delete, &plan.complete, &plan.copy].map(rank);
    operations(mine).iter().zip(operations(theirs)).all(|(mine, theirs)| theirs <= *mine)
}

fn word(planned: &Planned) -> &'static str {
    match planned {
        Planned::By(Enforcement::Conditional) => "conditional",
        Planned::By(Enforcement::Exclusive) => "exclusive",
        Planned::Refused(_) => "refused",
    }
}

fn listed(findings: &BTreeMap<String, String>) -> String {
    let listed: Vec<String> =
        findings.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    listed.join(", ")
}

/// By this machine's clock: an examination is good for a day, give or take a minute.
fn age_of(began_at: u64) -> u64 {
    let now = clock::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    now.saturating_sub(began_at)
}

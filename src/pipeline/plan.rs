//! How each operation is fenced: by its own precondition, exclusively, or not at all.
//!
//! What is known of the store was found out in one bucket. Before the first fenced write to a
//! bucket it is asked whether it keeps versions, and where that, or the configuration, makes
//! another thing of it, it is tried there. The answer is good for a while, because versioning can be
//! switched on.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use dashmap::DashMap;

use super::{Proxy, Settings, respond};
use crate::clock;
use crate::doctor::in_bucket::{BucketError, Wanted, try_bucket, versioning_of};
use crate::doctor::report::{Operation, Versioning};
use crate::fence::{Enforcement, Keys, Protocol, Tags};
use crate::policy::Place;
use crate::s3::{Bucket, EtagQuotes, S3Error, Write};

/// How long what is known of a bucket is good for.
const KNOWN_LIFE: Duration = Duration::from_secs(600);

/// How long a bucket that cannot be fenced in is not tried again.
const UNSOUND_LIFE: Duration = Duration::from_secs(60);

/// How many buckets are known. One more, and all are asked anew.
const BUCKETS_MAX: usize = 10_000;

/// How the store is fenced on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePlan {
    /// How the store wants ETags.
    pub etag_quotes: EtagQuotes,
    /// Whether a copy from a version that is no longer there is refused, so that what a copy leaves
    /// is known beforehand.
    pub pins_copy_source: bool,
    /// In buckets that keep no versions.
    pub unversioned: BucketPlan,
    /// In buckets that keep versions. `None`: nobody has tried.
    pub versioned: Option<BucketPlan>,
    /// Whether tags are taken to be unique where the configuration says so, without a look.
    pub trusts_tags: bool,
    /// Whether buckets that keep versions are taken to be like the others, if nobody has tried.
    pub trusts_versions: bool,
}

/// How operations are fenced in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlan {
    /// PutObject: conditional, or refused.
    pub put: Planned,
    /// DeleteObject.
    pub delete: Planned,
    /// CompleteMultipartUpload.
    pub complete: Planned,
    /// CopyObject.
    pub copy: Planned,
}

/// How an operation is fenced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    /// In this way.
    By(Enforcement),
    /// In none, for this reason.
    Refused(Arc<str>),
}

impl Planned {
    /// Conditional only if it was found to be so.
    pub(super) fn enforcement(&self) -> Enforcement {
        match self {
            Self::By(enforcement) => *enforcement,
            Self::Refused(_) => Enforcement::Exclusive,
        }
    }
}

impl BucketPlan {
    /// Where conditions on PUT hold, and nothing else is known of buckets that keep versions. What
    /// is sent without a condition may not even be safe from a PUT that has one (SeaweedFS 4.48
    /// lets such a PUT land on a DELETE, and on a Complete).
    #[must_use]
    pub fn cautious() -> Self {
        let why = "the bucket keeps versions, and nobody has examined this store with one that \
                   does: fencepost doctor --versioned-bucket BUCKET --save does so";
        let refused = Planned::Refused(why.into());
        Self {
            put: Planned::By(Enforcement::Conditional),
            delete: refused.clone(),
            complete: refused.clone(),
            copy: refused,
        }
    }

    /// Refuses what cannot be fenced.
    pub(super) fn refuse(&self, write: Write) -> Result<(), S3Error> {
        let (planned, operation) = match write {
            Write::Put => (&self.put, Operation::Put),
            Write::Delete => (&self.delete, Operation::Delete),
            Write::Complete => (&self.complete, Operation::Complete),
            Write::Copy => (&self.copy, Operation::Copy),
            // One at a time whatever the store, and when everything lower is over.
            Write::Touch | Write::DeleteVersion => return Ok(()),
        };
        match planned {
            Planned::By(_) => Ok(()),
            Planned::Refused(why) => Err(respond::not_fenceable(operation.api_name(), why)),
        }
    }
}

/// What is known of the buckets.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    known: DashMap<Bucket, (Known, Instant)>,
    /// Why the store is no longer trusted.
    distrust: RwLock<Option<Arc<str>>>,
}

#[derive(Clone, Debug)]
enum Known {
    Plan(Arc<BucketPlan>),
    Unsound(Arc<str>),
}

impl Buckets {
    fn get(&self, bucket: &Bucket) -> Option<Known> {
        let found = self.known.get(bucket)?;
        let (known, since) = found.value();
        let life = match known {
            Known::Plan(_) => KNOWN_LIFE,
            Known::Unsound(_) => UNSOUND_LIFE,
        };
        (clock::monotonic().duration_since(*since) < life).then(|| known.clone())
    }

    fn note(&self, bucket: &Bucket, known: Known) {
        if self.known.len() >= BUCKETS_MAX {
            self.known.clear();
        }
        self.known.insert(bucket.clone(), (known, clock::monotonic()));
    }
}

/// The protocol as it is for a scope.
pub(super) fn protocol_of(settings: &Settings, place: &Place, plan: &BucketPlan) -> Protocol {
    let (keys, intents_max) = if place.scope.holds_many() {
        (Keys::Many, settings.scope_intents_max)
    } else {
        (Keys::One, settings.protocol.intents_max)
    };
    Protocol {
        tags: settings.policy.tags_of(&place.scope.bucket),
        keys,
        intents_max,
        compare: place.fencing.compare,
        delete: plan.delete.enforcement(),
        complete: plan.complete.enforcement(),
        one_part: matches!(plan.complete, Planned::By(_)),
        ..settings.protocol
    }
}

impl Proxy {
    /// Fences nothing any more, or again: what the store does has changed.
    pub fn distrust(&self, why: Option<&str>) {
        let mut distrust = self.0.buckets.distrust.write().unwrap_or_else(PoisonError::into_inner);
        *distrust = why.map(Arc::from);
        self.0.buckets.known.clear();
    }

    /// How operations are fenced in a bucket.
    ///
    /// # Errors
    ///
    /// When nothing can be fenced there, or it cannot be found out now.
    pub(super) async fn plan_in(&self, bucket: &Bucket) -> Result<Arc<BucketPlan>, S3Error> {
        let distrust =
            self.0.buckets.distrust.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(why) = distrust {
            return Err(respond::store_not_trusted(&why));
        }
        let known = match self.0.buckets.get(bucket) {
            Some(known) => known,
            None => {
                let Some(known) = self.look_into(bucket).await? else {
                    return Ok(Arc::new(self.0.settings.plan.unversioned.clone()));
                };
                self.0.buckets.note(bucket, known.clone());
                known
            }
        };
        match known {
            Known::Plan(plan) => Ok(plan),
            Known::Unsound(why) => Err(respond::bucket_not_fenceable(bucket, &why)),
        }
    }

    /// `None`: there is no such bucket, now.
    async fn look_into(&self, bucket: &Bucket) -> Result<Option<Known>, S3Error> {
        let plan = &self.0.settings.plan;
        let claimed = self.0.settings.policy.tags_of(bucket) == Tags::Unique;
        let unique_tags = claimed && !plan.trusts_tags;
        let alike = match &plan.versioned {
            Some(versioned) => *versioned == plan.unversioned,
            None => plan.trusts_versions,
        };
        if alike && !unique_tags {
            return Ok(Some(Known::Plan(Arc::new(plan.unversioned.clone()))));
        }
        let said = versioning_of(&self.0.upstream, bucket).await;
        // Who writes to a bucket that is not there is told so by the store.
        let Some(said) = said else { return Ok(None) };
        let answered = said != Versioning::Unknown;
        let untried = plan.versioned.is_none() && !plan.trusts_versions;
        let conditions = untried && (!answered || said.keeps_versions());
        let mut keeps_versions = said.keeps_versions();
        // What a bucket does not say shows by a scratch object, which gets a version there.
        if conditions || unique_tags || !answered {
            let wanted = Wanted { quotes: plan.etag_quotes, conditions, unique_tags };
            match try_bucket(&self.0.upstream, bucket, wanted).await {
                Ok(found) => keeps_versions = keeps_versions || found.keeps_versions(),
                Err(BucketError::Unsound(why)) => {
                    tracing::error!(%bucket, why, "nothing can be fenced in this bucket");
                    return Ok(Some(Known::Unsound(why.into())));
                }
                Err(BucketError::Silent(why)) => {
                    tracing::warn!(%bucket, why, "the bucket could not be looked at");
                    return Err(respond::unavailable());
                }
            }
        }
        let found = match (keeps_versions, &plan.versioned) {
            (true, None) if plan.trusts_versions => plan.unversioned.clone(),
            (false, _) => plan.unversioned.clone(),
            (true, Some(versioned)) => versioned.clone(),
            (true, None) => BucketPlan::cautious(),
        };
        if let Planned::Refused(why) = &found.put {
            tracing::error!(%bucket, %why, "nothing can be fenced in this bucket");
            return Ok(Some(Known::Unsound(Arc::clone(why))));
        }
        Ok(Some(Known::Plan(Arc::new(found))))
    }
}

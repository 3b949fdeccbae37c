//! From what was found out about the store to how each operation is fenced.
//!
//! PUT and DELETE go by the latest examination. Whether a condition on Complete or Copy holds takes
//! more rounds of a race than a start-up has time for, so that these are conditional only by a
//! full examination of the same store (`fencepost doctor --save`), or because the configuration
//! says so.

use std::collections::BTreeMap;

use super::examine::{Kept, trust};
use crate::config::{
    BackendConfig, ConditionalComplete, ConditionalCopy, ConditionalDelete, Dialect, KeyAliasing,
};
use crate::doctor::report::{Alias, BucketReport, Operation, Plan, Report, Verdict};
use crate::doctor::verdict::{FAILS, Trust, UNTRIED, verdicts};
use crate::fence::Enforcement;
use crate::pipeline::{Aliases, BucketPlan, Planned, Slashes, StorePlan};
use crate::s3::EtagQuotes;

/// Why the store cannot be fenced on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// It does not do what the fence needs.
    #[error("this store cannot be fenced on: PutObject: {0}")]
    Unsound(String),
    /// It could not be judged.
    #[error("the store could not be examined: PutObject: {0}")]
    Unclear(String),
    /// A setting says otherwise.
    #[error("{setting} = \"conditional\" is set, but {found}")]
    Contradicted {
        /// The setting.
        setting: &'static str,
        /// What was found.
        found: String,
    },
}

/// The word of the configuration on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Auto,
    Conditional,
    Exclusive,
}

/// What is known: the latest examination, and the last full one of the same store.
#[derive(Debug)]
pub(super) struct Known<'a> {
    pub(super) latest: &'a Report,
    pub(super) full: Option<&'a Report>,
}

impl<'a> Known<'a> {
    pub(super) fn of(kept: &'a Kept, latest: &'a Report) -> Self {
        Self { latest, full: kept.full.as_ref() }
    }

    /// What was found in buckets of a kind, the newest first. Where versions are kept nothing but a
    /// full examination counts; else the ledger's bucket does, whatever it is.
    fn buckets(&self, keep_versions: bool) -> impl Iterator<Item = (&'a Report, &'a BucketReport)> {
        let ledger = self.latest.buckets.first().filter(|_| !keep_versions);
        let ledger = ledger.map(|bucket| (self.latest, bucket));
        let full = self.full.and_then(|report| {
            let mut buckets = report.buckets.iter();
            let of_kind =
                buckets.find(|bucket| bucket.versioning.keeps_versions() == keep_versions);
            of_kind.map(|bucket| (report, bucket))
        });
        ledger.into_iter().chain(full)
    }
}

/// How the store is fenced on.
///
/// # Errors
///
/// [`PlanError`].
pub(super) fn plan(backend: &BackendConfig, known: &Known<'_>) -> Result<StorePlan, PlanError> {
    let trust = trust(backend);
    let unversioned = in_buckets(backend, known, &trust, false)?;
    let unversioned = unversioned.ok_or_else(|| PlanError::Unclear("nothing was tried".into()))?;
    if let Planned::Refused(why) = &unversioned.put {
        let judged = why.contains(FAILS) || why.contains("(F9)");
        let why = why.to_string();
        return Err(if judged { PlanError::Unsound(why) } else { PlanError::Unclear(why) });
    }
    let versioned = in_buckets(backend, known, &trust, true)?;
    let facts = &known.latest.facts;
    Ok(StorePlan {
        etag_quotes: facts.etag_quotes.map_or(EtagQuotes::Quoted, EtagQuotes::from),
        pins_copy_source: facts.pins_copy_source == Some(true),
        unversioned,
        versioned,
        // Google's generations are what makes them unique, not the bucket.
        trusts_tags: trust.tags || backend.dialect == Dialect::Gcs,
        trusts_versions: trust.versions,
    })
}

/// `None`: no such bucket was examined.
fn in_buckets(
    backend: &BackendConfig,
    known: &Known<'_>,
    trust: &Trust,
    keep_versions: bool,
) -> Result<Option<BucketPlan>, PlanError> {
    let found: Vec<Verdicts> = known
        .buckets(keep_versions)
        .map(|(report, bucket)| verdicts(&bucket.checks, report.depth, trust))
        .collect();
    // The newest first. A full one counts for what a start-up does not try.
    let (Some(latest), Some(oldest)) = (found.first(), found.last()) else { return Ok(None) };
    let worst = |operation| {
        let worst = found.iter().map(|verdicts| verdict(verdicts, operation));
        worst.max_by_key(|verdict| verdict.plan).unwrap_or_else(|| verdict(latest, operation))
    };
    let delete = match backend.conditional_delete {
        ConditionalDelete::Auto => Word::Auto,
        ConditionalDelete::Conditional => Word::Conditional,
        ConditionalDelete::Exclusive => Word::Exclusive,
    };
    let complete = match backend.conditional_complete {
        ConditionalComplete::Auto => Word::Auto,
        ConditionalComplete::Conditional => Word::Conditional,
        ConditionalComplete::Exclusive => Word::Exclusive,
    };
    let copy = match backend.conditional_copy {
        ConditionalCopy::Auto => Word::Auto,
        ConditionalCopy::Conditional => Word::Conditional,
        ConditionalCopy::Exclusive => Word::Exclusive,
    };
    // A setting speaks of all buckets: where versions are kept it asks for no more than was found.
    let strict = !keep_versions;
    let settle = |verdict, word, setting| settle(verdict, word, setting, strict);
    Ok(Some(BucketPlan {
        put: settle(worst(Operation::Put), Word::Auto, "")?,
        delete: settle(worst(Operation::Delete), delete, "backend.conditional_delete")?,
        complete: settle(
            verdict(oldest, Operation::Complete),
            complete,
            "backend.conditional_complete",
        )?,
        copy: settle(verdict(oldest, Operation::Copy), copy, "backend.conditional_copy")?,
    }))
}

type Verdicts = BTreeMap<Operation, Verdict>;

fn verdict(verdicts: &Verdicts, operation: Operation) -> Verdict {
    let nothing = Verdict { plan: Plan::Refused, because: "it was not tried".to_owned() };
    verdicts.get(&operation).cloned().unwrap_or(nothing)
}

/// What a verdict and the word of the configuration come to.
fn settle(
    Verdict { plan, because }: Verdict,
    word: Word,
    setting: &'static str,
    strict: bool,
) -> Result<Planned, PlanError> {
    match (plan, word) {
        (Plan::Refused, _) => Ok(Planned::Refused(because.into())),
        (Plan::Conditional, Word::Auto | Word::Conditional) => {
            Ok(Planned::By(Enforcement::Conditional))
        }
        // Where a start-up has no time to judge, the configuration's word is taken.
        (Plan::Exclusive, Word::Conditional) if because.ends_with(UNTRIED) => {
            Ok(Planned::By(Enforcement::Conditional))
        }
        (Plan::Exclusive, Word::Conditional) if strict => {
            Err(PlanError::Contradicted { setting, found: because })
        }
        (Plan::Conditional | Plan::Exclusive, _) => Ok(Planned::By(Enforcement::Exclusive)),
    }
}

/// What is done about keys that the store takes for others.
pub(super) fn aliases(backend: &BackendConfig, found: &[Alias]) -> Aliases {
    let folds = found
        .iter()
        .any(|alias| matches!(alias, Alias::DoubleSlash | Alias::LeadingSlash | Alias::DotSegment));
    Aliases {
        slashes: match (folds, backend.key_aliasing) {
            (false, _) => Slashes::Kept,
            (true, KeyAliasing::Refuse) => Slashes::Refused,
            (true, KeyAliasing::CollapseSlashes) => Slashes::Collapsed,
        },
        folds_case: found.contains(&Alias::Case),
        normalizes: found.contains(&Alias::UnicodeNormalForm),
    }
}

//! What an examination found: the checks with their evidence, the facts, and the verdicts.
//!
//! The JSON of `fencepost doctor --json`, of the result that is kept in the ledger bucket, and the
//! source of `docs/stores.md`. Its shape is versioned ([`FORMAT`]).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::s3::EtagQuotes;

/// The version of the shape of [`Report`], and of what the checks mean.
pub const FORMAT: u32 = 1;

/// A whole examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of Fencepost that examined.
    pub fencepost: String,
    /// What was examined.
    pub store: StoreIdentity,
    /// How thoroughly.
    pub depth: Depth,
    /// Requests at the same time in a race.
    pub writers: usize,
    /// Rounds of a race.
    pub rounds: usize,
    /// When it began, by the store's clock, in seconds since the Unix epoch.
    pub began_at: u64,
    /// How long it took, in milliseconds.
    pub took_milliseconds: u64,
    /// Whether a fence on this store keeps its promise.
    pub safe: bool,
    /// Why not, and what was not tried. Sentences for people.
    pub remarks: Vec<String>,
    /// What the proxy has to know about the store.
    pub facts: Facts,
    /// The buckets that were used, the unversioned one first.
    pub buckets: Vec<BucketReport>,
}

/// Which store it is, as far as it says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreIdentity {
    /// Scheme, host and port.
    pub url: String,
    /// The region that was signed for.
    pub region: String,
    /// The dialect that it was spoken to in.
    pub dialect: Dialect,
    /// The `Server` header of its answers.
    pub server: Option<String>,
}

/// The dialect that a store is spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Amazon's.
    S3,
    /// Google's: preconditions on generations.
    Gcs,
}

/// How thoroughly a store was examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// What a start-up can wait for.
    Quick,
    /// Everything.
    Full,
}

/// What was found in one bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketReport {
    /// Its name.
    pub bucket: String,
    /// Whether it keeps versions.
    pub versioning: Versioning,
    /// What was tried, in this order.
    pub checks: Vec<Check>,
    /// What follows, by operation.
    pub verdicts: BTreeMap<Operation, Verdict>,
}

/// A bucket's versioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Versioning {
    /// Never switched on.
    Off,
    /// On.
    Enabled,
    /// Was on.
    Suspended,
    /// The store does not say.
    Unknown,
}

impl Versioning {
    /// Whether a DELETE may leave a marker and older versions behind.
    #[must_use]
    pub fn keeps_versions(self) -> bool {
        match self {
            Self::Enabled | Self::Suspended => true,
            Self::Off | Self::Unknown => false,
        }
    }
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name, stable: `put.swap.stale`. The catalogue is in [`catalogue`](super::catalogue).
    pub id: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What the store did, in a few words: `412 PreconditionFailed, unchanged`.
    pub evidence: String,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// As the fence needs it.
    Passed,
    /// Not so.
    Failed,
    /// There is nothing to pass: what the store does, for whom it concerns.
    Noted,
    /// It could not be tried, or not judged.
    Unclear,
}

impl Outcome {
    /// For people: what is wrong stands out.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::Noted => "noted",
            Self::Unclear => "unclear",
        }
    }
}

/// What a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// PutObject. The ledger needs it, too.
    Put,
    /// CompleteMultipartUpload.
    Complete,
    /// CopyObject.
    Copy,
    /// DeleteObject.
    Delete,
    /// DeleteObjects. The proxy sends one DeleteObject a key in its place.
    DeleteObjects,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Put, Self::Complete, Self::Copy, Self::Delete, Self::DeleteObjects];

    /// Its name in settings, JSON and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Complete => "complete",
            Self::Copy => "copy",
            Self::Delete => "delete",
            Self::DeleteObjects => "delete-objects",
        }
    }

    /// Its name in the S3 API.
    #[must_use]
    pub fn api_name(self) -> &'static str {
        match self {
            Self::Put => "PutObject",
            Self::Complete => "CompleteMultipartUpload",
            Self::Copy => "CopyObject",
            Self::Delete => "DeleteObject",
            Self::DeleteObjects => "DeleteObjects",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How an operation can be fenced, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// How.
    pub plan: Plan,
    /// Why: the checks that decided, with what the store did. One line.
    pub because: String,
}

/// How an operation can be fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// By its own precondition (F3).
    Conditional,
    /// One at a time, announced in the record (F8).
    Exclusive,
    /// Not at all.
    Refused,
}

impl Plan {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Conditional => "conditional",
            Self::Exclusive => "exclusive",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the proxy has to know about a store, beside the verdicts. `None` or empty: not found out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// How it wants ETags in preconditions.
    pub etag_quotes: Option<Quotes>,
    /// Whether the tag of an object can come back.
    pub tags: Option<TagsFound>,
    /// Whether a copy from a version that is no longer there is refused. If not, nobody can say
    /// beforehand what a copy leaves.
    pub pins_copy_source: Option<bool>,
    /// Spellings of keys that it takes for one: [`Alias`].
    pub aliases: Vec<Alias>,
    /// Its clock less that of this machine, in seconds.
    pub clock_skew_seconds: Option<i64>,
    /// What the credentials may not do.
    pub forbidden: Vec<String>,
}

/// How ETags are written in `If-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quotes {
    /// `"9b2c…"`.
    Quoted,
    /// `9b2c…`.
    Bare,
}

impl From<EtagQuotes> for Quotes {
    fn from(quotes: EtagQuotes) -> Self {
        match quotes {
            EtagQuotes::Quoted => Self::Quoted,
            EtagQuotes::Bare => Self::Bare,
        }
    }
}

impl From<Quotes> for EtagQuotes {
    fn from(quotes: Quotes) -> Self {
        match quotes {
            Quotes::Quoted => Self::Quoted,
            Quotes::Bare => Self::Bare,
        }
    }
}

/// Whether tags repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TagsFound {
    /// The same bytes have the same tag.
    Repeat,
    /// Every write that was tried left another tag.
    Unique,
}

/// Keys that a store takes for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alias {
    /// `a//b` is `a/b`.
    DoubleSlash,
    /// `/a` is `a`.
    LeadingSlash,
    /// `A` is `a`.
    Case,
    /// `é` in one code point is `é` in two.
    UnicodeNormalForm,
    /// `a/./b` is `a/b`.
    DotSegment,
}

impl Alias {
    /// In words.
    #[must_use]
    pub fn described(self) -> &'static str {
        match self {
            Self::DoubleSlash => "a//b is taken for a/b",
            Self::LeadingSlash => "/a is taken for a",
            Self::Case => "A is taken for a",
            Self::UnicodeNormalForm => "the Unicode normal forms of a name are taken for one",
            Self::DotSegment => "a/./b is taken for a/b",
        }
    }
}

//! `[fence]`, `[[bucket]]` and `[[scope]]`: what is fenced, and how strictly.

use std::fmt;

use serde::de::{self, Deserializer, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::names::{AmzHeaderName, BucketName};
use super::values::{Count, Milliseconds, Seconds};
use crate::policy::Per;

/// Settings of the fence protocol, and the defaults of every bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FenceConfig {
    /// What a write without a token means, where no `[[bucket]]` or `[[scope]]` says otherwise.
    pub mode: FenceMode,
    /// How a token is compared with the highest one seen (F1).
    pub compare: Compare,
    /// The status of a refusal because of a stale token.
    pub stale_status: StaleStatus,
    /// How often an operation begins anew after losing a swap or a precondition.
    pub attempts_max: Count<1, 1000>,
    /// How long an operation may wait for others on its scope before it is answered 503.
    pub contention_wait_seconds_max: Seconds<0, 600>,
    /// How many open intents the record of one object may hold; beyond it writes are answered 503.
    pub intents_max: Count<1, 10_000>,
    /// The same of a scope of many keys.
    pub scope_intents_max: Count<1, 10_000>,
    /// The store cuts off a body that has stopped arriving within this time (F9). An assumption
    /// about the store, not a timeout of the proxy.
    pub body_stall_seconds: Seconds<1, 86_400>,
    /// The store has carried out a copy, or the completion of a multipart upload, within this time
    /// (F9). An assumption about the store.
    pub assembly_seconds_max: Seconds<1, 86_400>,
    /// The store refuses a signed request that is older than this (F9). An assumption about the
    /// store: AWS, MinIO and Ceph use 15 minutes.
    pub signature_lifetime_seconds: Seconds<1, 604_800>,
    /// How long the removal of a settled intent may wait, so that the next swap can carry it.
    pub settle_delay_milliseconds: Milliseconds<0, 60_000>,
    /// Whether a bucket that holds fenced objects may be deleted, and its settings changed.
    pub bucket_operations: BucketOperations,
    /// `x-amz-*` headers that fenced writes may carry though this version does not know them.
    pub allowed_headers: Vec<AmzHeaderName>,
}

impl Default for FenceConfig {
    fn default() -> Self {
        Self {
            mode: FenceMode::IfFenced,
            compare: Compare::AtLeast,
            stale_status: StaleStatus::Conflict,
            attempts_max: Count::new(8),
            contention_wait_seconds_max: Seconds::new(10),
            intents_max: Count::new(64),
            scope_intents_max: Count::new(1024),
            body_stall_seconds: Seconds::new(300),
            assembly_seconds_max: Seconds::new(600),
            signature_lifetime_seconds: Seconds::new(900),
            settle_delay_milliseconds: Milliseconds::new(200),
            bucket_operations: BucketOperations::Deny,
            allowed_headers: Vec::new(),
        }
    }
}

/// What a write without a token means (F13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FenceMode {
    /// It passes until its scope has seen a token; from then on it is refused.
    IfFenced,
    /// It is refused.
    Require,
    /// It passes: nothing is fenced.
    Off,
}

/// How a token is compared with the highest one seen (F1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// The same token may write again: one holder writes many times.
    AtLeast,
    /// Every write needs a token of its own.
    StrictlyGreater,
}

/// Whether operations on a bucket as a whole pass where any object in it is fenced: DeleteBucket,
/// and every change of its lifecycle, replication, versioning, policy and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BucketOperations {
    /// They pass. They can destroy or change objects behind the fence.
    Allow,
    /// They are refused.
    Deny,
}

/// Whether a data object's version tag can come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tags {
    /// The same bytes get the same ETag. Always safe to assume.
    Repeat,
    /// Every write gets an ETag of its own: SSE-KMS, S3 Express, MinIO with `--no-compat`.
    Unique,
}

/// The HTTP status of a refusal because of a stale token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleStatus {
    /// 409 Conflict.
    Conflict,
    /// 412 Precondition Failed, for clients that retry every 409 (OpenDAL, object_store's
    /// `PutMode::Update`).
    PreconditionFailed,
}

impl StaleStatus {
    /// 409 or 412.
    #[must_use]
    pub const fn as_u16(self) -> u16 {
        match self {
            Self::Conflict => 409,
            Self::PreconditionFailed => 412,
        }
    }
}

impl Serialize for StaleStatus {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_u16(self.as_u16())
    }
}

impl<'de> Deserialize<'de> for StaleStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOfTwo;
        impl Visitor<'_> for OneOfTwo {
            type Value = StaleStatus;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("409 or 412")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<StaleStatus, E> {
                match value {
                    409 => Ok(StaleStatus::Conflict),
                    412 => Ok(StaleStatus::PreconditionFailed),
                    other => Err(E::invalid_value(Unexpected::Unsigned(other), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<StaleStatus, E> {
                match u64::try_from(value) {
                    Ok(value) => self.visit_u64(value),
                    Err(_) => Err(E::invalid_value(Unexpected::Signed(value), &self)),
                }
            }
        }
        deserializer.deserialize_u16(OneOfTwo)
    }
}

/// One `[[bucket]]`: what is particular about a data bucket. A bucket without an entry is fenced
/// with the defaults of `[fence]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketRule {
    /// The bucket.
    pub name: BucketName,
    /// Whether its objects' tags can come back.
    #[serde(default = "repeat")]
    pub tags: Tags,
    /// Overrides `fence.mode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<FenceMode>,
    /// Overrides `fence.compare`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Compare>,
    /// Overrides `fence.bucket_operations`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket_operations: Option<BucketOperations>,
}

/// One `[[scope]]`: the objects of a bucket under a prefix. The longest prefix that fits a key
/// decides; what it leaves open is the bucket's, then that of `[fence]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScopeRule {
    /// The bucket.
    pub bucket: BucketName,
    /// What the keys begin with, byte for byte. Empty: all of them.
    #[serde(default)]
    pub prefix: String,
    /// Which of these objects share one fence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<ScopePer>,
    /// Overrides the mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<FenceMode>,
    /// Overrides the comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compare: Option<Compare>,
}

/// Which of the objects under a prefix share one fence: `object`, `prefix` or `depth:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopePer(pub Per);

impl Serialize for ScopePer {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ScopePer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

const fn repeat() -> Tags {
    Tags::Repeat
}

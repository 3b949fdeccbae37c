//! What a proxy asks of a bucket before it fences the first write there: the store has been
//! examined in the ledger bucket, and a data bucket may be another thing. It may keep versions
//! (Ceph RGW 16 ignores `If-None-Match: *` then), and its tags may not be what the configuration
//! says.

use super::bench::{Bench, Silence, When};
use super::judge::must_refuse;
use super::report::{Outcome, Versioning};
use super::scratch;
use super::{SCRATCH_PREFIX, Unwatched};
use crate::s3::{Bucket, EtagQuotes};
use crate::upstream::Upstream;

/// What has to hold in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// How the store wants ETags.
    pub quotes: EtagQuotes,
    /// Conditions on PUT, though versions are kept.
    pub conditions: bool,
    /// That no tag repeats.
    pub unique_tags: bool,
}

/// Why a bucket was not found out about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// There was no answer.
    #[error("the bucket could not be looked at: {0}")]
    Silent(String),
    /// What has to hold does not.
    #[error("{0}")]
    Unsound(String),
}

impl From<Silence> for BucketError {
    fn from(silence: Silence) -> Self {
        Self::Silent(silence.0)
    }
}

/// Whether the bucket keeps versions, as it says itself. `None`: there is no such bucket.
pub async fn versioning_of(upstream: &Upstream, bucket: &Bucket) -> Option<Versioning> {
    scratch::asked(&Bench::new(upstream, bucket.as_str(), "", (2, 1), &Unwatched)).await
}

/// What the store says that it is: its `Server` header.
///
/// # Errors
///
/// When it does not answer.
pub async fn server_name(
    upstream: &Upstream,
    bucket: &Bucket,
) -> Result<Option<String>, BucketError> {
    let bench = Bench::new(upstream, bucket.as_str(), "", (2, 1), &Unwatched);
    let reply = scratch::look(&bench).await?;
    let server = reply.answer.headers.get("server");
    Ok(server.and_then(|server| server.to_str().ok()).map(str::to_owned))
}

/// Tries it, with a scratch object. Answers whether the bucket keeps versions.
///
/// # Errors
///
/// [`BucketError`].
pub async fn try_bucket(
    upstream: &Upstream,
    bucket: &Bucket,
    wanted: Wanted,
) -> Result<Versioning, BucketError> {
    let bench = Bench::new(upstream, bucket.as_str(), SCRATCH_PREFIX, (2, 1), &Unwatched);
    bench.learn_quotes(wanted.quotes);
    let key = bench.key("in-bucket");
    let first = bench.put(&key, "1", &When::Always).await;
    let shows_versions =
        |reply: &super::bench::Reply| reply.answer.headers.contains_key("x-amz-version-id");
    let versioning = match &first {
        Ok(reply) if shows_versions(reply) => Versioning::Enabled,
        Ok(_) | Err(_) => Versioning::Off,
    };
    let tried = match first {
        Ok(reply) if reply.done() => try_on(&bench, &key, wanted, reply.tag).await,
        Ok(reply) => Err(BucketError::Silent(format!("a PUT was answered {}", reply.said()))),
        Err(silence) => Err(silence.into()),
    };
    let left = scratch::clean_up(&bench, versioning).await;
    if left > 0 {
        let prefix = &bench.prefix;
        tracing::warn!(%bucket, prefix, "scratch objects were left behind");
    }
    tried.map(|()| versioning)
}

async fn try_on(
    bench: &Bench<'_>,
    key: &str,
    wanted: Wanted,
    tag: Option<String>,
) -> Result<(), BucketError> {
    let first = tag.ok_or_else(|| BucketError::Silent("a PUT left no ETag".to_owned()))?;
    if wanted.unique_tags && bench.given(key, "1").await? == first {
        return Err(BucketError::Unsound(
            "two writes of the same bytes left the same tag, so that tags repeat in this bucket; \
             tags = \"unique\" is wrong for it"
                .to_owned(),
        ));
    }
    if !wanted.conditions {
        return Ok(());
    }
    bench.given(key, "2").await?;
    let before = bench.state(key).await?;
    for (when, name) in [(When::Absent, "If-None-Match: *"), (When::Tag(&first), "If-Match")] {
        let reply = bench.put(key, "3", &when).await?;
        let (outcome, evidence) = must_refuse(bench, key, &before, &reply).await?;
        if outcome != Outcome::Passed {
            return Err(BucketError::Unsound(format!(
                "PutObject with {name} was answered {evidence}, in this bucket, which keeps \
                 versions"
            )));
        }
    }
    Ok(())
}

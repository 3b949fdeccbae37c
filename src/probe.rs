//! Whether the store enforces what the fence rests on, found out by trying (F11).
//!
//! Many stores accept a conditional header and ignore it, or look at it before they take the write
//! and not when they make it. So each operation is tried with a condition that must fail as well
//! as with one that holds, with a body that another write overtakes half-way, and in a race of
//! requests of which one alone may win. Everything happens in the ledger bucket under a scratch
//! prefix; no data bucket is touched.
//!
//! A race that was won once proves that a store is unsound; one that was not proves nothing. It
//! does *not* find out whether a data bucket's tags repeat: that is a setting.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::oneshot;

use crate::clock;
use crate::config::{self, BackendConfig};
use crate::fence::{Enforcement, Tag};
use crate::s3::{EtagQuotes, strip_quotes};
use crate::upstream::forms_of;

/// How long the probe may take.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How long the first half of an overtaken body is given to arrive.
const HALF_BODY_PAUSE: Duration = Duration::from_millis(150);

/// How often each race is run. A store that checks and then acts has two winners nearly always.
const RACE_ROUNDS: usize = 3;

/// The scratch objects: one for each thing that is tried, one for each round of a race.
const KEYS: [&str; 15] =
    ["a", "b", "c", "d", "e0", "e1", "e2", "f0", "f1", "f2", "g0", "g1", "g2", "k0", "k1"];

/// An ETag that no object has.
const FOREIGN_ETAG: &str = "00000000000000000000000000000000";

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// How the store wants ETags in `If-Match`.
    pub etag_quotes: EtagQuotes,
    /// Whether DELETE honours `If-Match`.
    pub delete: Enforcement,
    /// Whether the store takes the key `a//b` for `a/b`, as SeaweedFS does. Two spellings of one
    /// object would have two fences.
    pub merges_slashes: bool,
}

impl Findings {
    /// For people: `/readyz` and the log.
    #[must_use]
    pub fn named(&self) -> BTreeMap<String, String> {
        let quotes = match self.etag_quotes {
            EtagQuotes::Quoted => "quoted",
            EtagQuotes::Bare => "bare",
        };
        let delete = match self.delete {
            Enforcement::Conditional => "conditional",
            Enforcement::Exclusive => "exclusive",
        };
        let slashes = if self.merges_slashes { "merged" } else { "kept" };
        [("put", "conditional"), ("delete", delete), ("etags", quotes), ("slashes", slashes)]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

/// Why the store cannot be fenced on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// It does not do what the fence needs.
    #[error("this store cannot be fenced on: {operation} {failure}")]
    Unsound {
        /// The operation that failed.
        operation: &'static str,
        /// What it did.
        failure: &'static str,
    },
    /// It could not be tried.
    #[error("the store could not be probed: {operation}: {reason}")]
    Failed {
        /// The operation that failed.
        operation: &'static str,
        /// What the store said.
        reason: String,
    },
    /// A setting says otherwise.
    #[error("{setting} is set, but the probe found that {found}")]
    Contradicted {
        /// The setting.
        setting: &'static str,
        /// What was found.
        found: &'static str,
    },
    /// It took too long.
    #[error("the store could not be probed within {} seconds", TIME_MAX.as_secs())]
    TimedOut,
}

/// What a conditional request came to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tried {
    Done(Option<String>),
    Refused,
}

struct Scratch<'a> {
    client: &'a Client,
    bucket: &'a str,
    prefix: String,
}

/// Tries the store.
///
/// # Errors
///
/// [`ProbeError`].
pub async fn run(
    client: &Client,
    bucket: &str,
    prefix: &str,
    backend: &BackendConfig,
) -> Result<Findings, ProbeError> {
    let prefix = format!("{prefix}probe/{:032x}/", clock::random_u128());
    let scratch = Scratch { client, bucket, prefix };
    let findings = tokio::time::timeout(TIME_MAX, scratch.try_all(backend))
        .await
        .unwrap_or(Err(ProbeError::TimedOut));
    scratch.clean_up().await;
    findings
}

const HEAD: &str = "HeadObject";
const CREATE: &str = "PutObject with If-None-Match: *";
const SWAP: &str = "PutObject with If-Match";
const DELETE: &str = "DeleteObject with If-Match";

/// What a store does that cannot be used at all.
const UNUSABLE: &str = "was refused on a free key, or answered without an ETag";

/// What a store does that checks a condition, and then acts.
const RACED: &str = "let two requests win that were made at the same time: the store checks the \
                     condition before it acts, and others get in between";

/// How many requests of a race have won. A store may answer anything to a loser (Ceph: 500), so
/// that only success counts.
fn winners(racers: &[Result<Tried, ProbeError>]) -> usize {
    racers.iter().filter(|racer| matches!(racer, Ok(Tried::Done(_)))).count()
}

fn unsound(operation: &'static str, failure: &'static str) -> ProbeError {
    ProbeError::Unsound { operation, failure }
}

impl Scratch<'_> {
    async fn try_all(&self, backend: &BackendConfig) -> Result<Findings, ProbeError> {
        self.look_for_nothing().await?;
        let first = self.created("a").await?;
        if self.create("a", "2").await? != Tried::Refused {
            return Err(unsound(CREATE, "overwrote an object: the store ignores the condition"));
        }
        for quotes in [EtagQuotes::Quoted, EtagQuotes::Bare] {
            if self.swap("a", FOREIGN_ETAG, quotes, "3").await? != Tried::Refused {
                let failure = "overwrote an object that has another ETag: the store ignores the \
                               condition";
                return Err(unsound(SWAP, failure));
            }
        }
        let etag_quotes = self.learn_quotes("a", &first, backend.etag_quotes).await?;
        let (swap, create) = tokio::join!(self.overtake_swap(etag_quotes), self.overtake_create());
        swap.and(create)?;
        self.race_creates().await?;
        self.race_swaps(etag_quotes).await?;
        let delete = self.learn_delete(etag_quotes, backend.conditional_delete).await?;
        self.look_at_tags().await?;
        let merges_slashes = self.learn_slashes().await?;
        Ok(Findings { etag_quotes, delete, merges_slashes })
    }

    /// On AWS, who may not list a bucket is told 403 of a key that is not there, and the fence
    /// could never see that an object is absent.
    async fn look_for_nothing(&self) -> Result<(), ProbeError> {
        let request = self.client.head_object().bucket(self.bucket).key(self.key("a"));
        match request.send().await {
            Ok(_) => Err(unsound(HEAD, "found an object that nobody has written")),
            Err(error) if status(&error) == Some(404) => Ok(()),
            Err(error) if status(&error) == Some(403) => {
                let reason = "the store answers 403 for a key that is not there; the proxy needs \
                              s3:GetObject and s3:ListBucket on the ledger bucket and on every \
                              fenced one";
                Err(failed(HEAD, reason.into()))
            }
            Err(error) => Err(failed(HEAD, DisplayErrorContext(error).to_string())),
        }
    }

    async fn learn_quotes(
        &self,
        key: &str,
        etag: &str,
        setting: config::EtagQuotes,
    ) -> Result<EtagQuotes, ProbeError> {
        let candidates: &[EtagQuotes] = match setting {
            config::EtagQuotes::Auto => &[EtagQuotes::Quoted, EtagQuotes::Bare],
            config::EtagQuotes::Quoted => &[EtagQuotes::Quoted],
            config::EtagQuotes::Bare => &[EtagQuotes::Bare],
        };
        for quotes in candidates {
            if let Tried::Done(_) = self.swap(key, etag, *quotes, "4").await? {
                return Ok(*quotes);
            }
        }
        Err(unsound(SWAP, "was refused with the object's own ETag"))
    }

    /// A body that another write overtakes half-way must not replace what that one wrote.
    async fn overtake_swap(&self, quotes: EtagQuotes) -> Result<(), ProbeError> {
        let etag = self.created("b").await?;
        let (body, rest) = half_body();
        let slow = self.client.put_object().bucket(self.bucket).key(self.key("b"));
        let slow = slow.if_match(quotes.write(&etag)).content_length(2).body(body);
        let slow = tokio::spawn(slow.send());
        tokio::time::sleep(HALF_BODY_PAUSE).await;
        let overtaking = self.swap("b", &etag, quotes, "overtaking").await?;
        // If the slow request has ended already there is nobody to take the rest.
        let _ = rest.send(());
        let slow = slow.await.map_err(|error| failed(SWAP, error.to_string()))?;
        let slow = tried(SWAP, slow.map(|answer| answer.e_tag))?;
        if matches!(overtaking, Tried::Done(_)) && matches!(slow, Tried::Done(_)) {
            let failure = "let a request overwrite what another one had written while its body \
                           was on the way: the store checks the condition too early";
            return Err(unsound(SWAP, failure));
        }
        Ok(())
    }

    async fn overtake_create(&self) -> Result<(), ProbeError> {
        let (body, rest) = half_body();
        let slow = self.client.put_object().bucket(self.bucket).key(self.key("c"));
        let slow = tokio::spawn(slow.if_none_match("*").content_length(2).body(body).send());
        tokio::time::sleep(HALF_BODY_PAUSE).await;
        let overtaking = self.create("c", "overtaking").await?;
        let _ = rest.send(());
        let slow = slow.await.map_err(|error| failed(CREATE, error.to_string()))?;
        let slow = tried(CREATE, slow.map(|answer| answer.e_tag))?;
        if matches!(overtaking, Tried::Done(_)) && matches!(slow, Tried::Done(_)) {
            let failure = "let a request overwrite what another one had created while its body \
                           was on the way: the store checks the condition too early";
            return Err(unsound(CREATE, failure));
        }
        Ok(())
    }

    /// Of three that create one key at the same time, one may succeed.
    async fn race_creates(&self) -> Result<(), ProbeError> {
        for round in 0..RACE_ROUNDS {
            let key = format!("e{round}");
            let (one, two, three) = tokio::join!(
                self.create(&key, "1"),
                self.create(&key, "2"),
                self.create(&key, "3")
            );
            if winners(&[one, two, three]) > 1 {
                return Err(unsound(CREATE, RACED));
            }
        }
        Ok(())
    }

    /// Of three that replace one version at the same time, one may succeed.
    async fn race_swaps(&self, quotes: EtagQuotes) -> Result<(), ProbeError> {
        for round in 0..RACE_ROUNDS {
            let key = format!("f{round}");
            let etag = self.created(&key).await?;
            let (one, two, three) = tokio::join!(
                self.swap(&key, &etag, quotes, "2"),
                self.swap(&key, &etag, quotes, "3"),
                self.swap(&key, &etag, quotes, "4")
            );
            if winners(&[one, two, three]) > 1 {
                return Err(unsound(SWAP, RACED));
            }
        }
        Ok(())
    }

    /// Whether a DELETE and a PUT of the same version never both succeed.
    async fn delete_survives_races(&self, quotes: EtagQuotes) -> Result<bool, ProbeError> {
        for round in 0..RACE_ROUNDS {
            let key = format!("g{round}");
            let etag = self.created(&key).await?;
            let (swap, delete) =
                tokio::join!(self.swap(&key, &etag, quotes, "2"), self.delete(&key, &etag, quotes));
            if winners(&[swap]) + winners(&[delete.map(|done| done.unwrap_or(Tried::Refused))]) > 1
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The ETag of a new scratch object.
    async fn created(&self, key: &str) -> Result<String, ProbeError> {
        match self.create(key, "1").await? {
            Tried::Done(Some(etag)) => Ok(etag),
            Tried::Done(None) | Tried::Refused => Err(unsound(CREATE, UNUSABLE)),
        }
    }

    /// A store that ignores the condition of DELETE can be fenced all the same, exclusively (F8).
    async fn learn_delete(
        &self,
        quotes: EtagQuotes,
        setting: config::ConditionalDelete,
    ) -> Result<Enforcement, ProbeError> {
        if setting == config::ConditionalDelete::Exclusive {
            return Ok(Enforcement::Exclusive);
        }
        let etag = self.created("d").await?;
        let refuses_wrong = self.delete("d", FOREIGN_ETAG, quotes).await? == Some(Tried::Refused);
        let sound = refuses_wrong
            && matches!(self.delete("d", &etag, quotes).await?, Some(Tried::Done(_)))
            && self.delete_survives_races(quotes).await?;
        match (sound, setting) {
            (true, _) => Ok(Enforcement::Conditional),
            (false, config::ConditionalDelete::Conditional) => Err(ProbeError::Contradicted {
                setting: "backend.conditional_delete = \"conditional\"",
                found: "the store's DELETE does not honour If-Match",
            }),
            (false, config::ConditionalDelete::Auto | config::ConditionalDelete::Exclusive) => {
                Ok(Enforcement::Exclusive)
            }
        }
    }

    /// Where ETags repeat, the fence has to foretell them (F4): they have to be what S3's are.
    async fn look_at_tags(&self) -> Result<(), ProbeError> {
        let (one, other) = (self.created("k0").await?, self.created("k1").await?);
        // Both were written with the body "1".
        let foretold = forms_of(b"1").plain == Tag::Version(strip_quotes(&one).to_owned());
        if one == other && !foretold {
            let failure = "leaves ETags that repeat and are not the MD5 of the bytes";
            return Err(unsound("PutObject", failure));
        }
        Ok(())
    }

    /// Whether the store takes `a//b` or `/a` for another key. One that refuses such keys (MinIO
    /// does the former) does not.
    async fn learn_slashes(&self) -> Result<bool, ProbeError> {
        let doubled = self.is_alias(&self.key("h//i"), &self.key("h/i")).await?;
        let leading = self.is_alias(&format!("/{}", self.key("j")), &self.key("j")).await?;
        Ok(doubled || leading)
    }

    /// Writes under one spelling and looks under the other.
    async fn is_alias(&self, written: &str, looked_at: &str) -> Result<bool, ProbeError> {
        let put = self.client.put_object().bucket(self.bucket).key(written);
        match put.body(ByteStream::from_static(b"1")).send().await {
            Ok(_) => {}
            // Nobody who may write under the prefix alone can reach it by that spelling.
            Err(error) if matches!(status(&error), Some(400 | 403)) => return Ok(false),
            Err(error) => return Err(failed(CREATE, DisplayErrorContext(error).to_string())),
        }
        let head = self.client.head_object().bucket(self.bucket).key(looked_at).send().await;
        let delete = self.client.delete_object().bucket(self.bucket).key(written).send().await;
        if let Err(error) = delete {
            let error = DisplayErrorContext(error).to_string();
            tracing::warn!(key = written, error, "a probe's object was left behind");
        }
        match head {
            Ok(_) => Ok(true),
            Err(error) if status(&error) == Some(404) => Ok(false),
            Err(error) => Err(failed(HEAD, DisplayErrorContext(error).to_string())),
        }
    }

    async fn create(&self, key: &str, body: &'static str) -> Result<Tried, ProbeError> {
        let request = self.client.put_object().bucket(self.bucket).key(self.key(key));
        let request = request.if_none_match("*").body(ByteStream::from_static(body.as_bytes()));
        tried(CREATE, request.send().await.map(|answer| answer.e_tag))
    }

    async fn swap(
        &self,
        key: &str,
        etag: &str,
        quotes: EtagQuotes,
        body: &'static str,
    ) -> Result<Tried, ProbeError> {
        let request = self.client.put_object().bucket(self.bucket).key(self.key(key));
        let request = request.if_match(quotes.write(etag));
        let request = request.body(ByteStream::from_static(body.as_bytes()));
        tried(SWAP, request.send().await.map(|answer| answer.e_tag))
    }

    /// `None`: the store does not know conditions on DELETE.
    async fn delete(
        &self,
        key: &str,
        etag: &str,
        quotes: EtagQuotes,
    ) -> Result<Option<Tried>, ProbeError> {
        let request = self.client.delete_object().bucket(self.bucket).key(self.key(key));
        match request.if_match(quotes.write(etag)).send().await {
            Ok(_) => Ok(Some(Tried::Done(None))),
            Err(error) if status(&error) == Some(501) => Ok(None),
            Err(error) => tried(DELETE, Err(error)).map(Some),
        }
    }

    async fn clean_up(&self) {
        for key in KEYS {
            let request = self.client.delete_object().bucket(self.bucket).key(self.key(key));
            if let Err(error) = request.send().await {
                let error = DisplayErrorContext(error).to_string();
                tracing::warn!(key = self.key(key), error, "a probe's object was left behind");
            }
        }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

fn failed(operation: &'static str, reason: String) -> ProbeError {
    ProbeError::Failed { operation, reason }
}

fn status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}

/// What the answer to a conditional request says: done, or refused because of its condition.
fn tried<E>(
    operation: &'static str,
    answer: Result<Option<String>, SdkError<E, HttpResponse>>,
) -> Result<Tried, ProbeError>
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    match answer {
        Ok(etag) => Ok(Tried::Done(etag.map(|etag| strip_quotes(&etag).to_owned()))),
        Err(error) => match (status(&error), error.code()) {
            (Some(412 | 409), _) | (Some(404), Some("NoSuchKey")) => Ok(Tried::Refused),
            (_, _) => Err(failed(operation, DisplayErrorContext(error).to_string())),
        },
    }
}

/// A body of two bytes, the second of which comes when it is told to.
fn half_body() -> (ByteStream, oneshot::Sender<()>) {
    let (rest, wait) = oneshot::channel();
    let frame = |byte: &'static [u8]| {
        Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(byte)))
    };
    let second = async move {
        // A sender that is gone is as good as one that has sent.
        let _ = wait.await;
        frame(b"2")
    };
    let first = futures_util::stream::iter([frame(b"1")]);
    let frames = futures_util::StreamExt::chain(first, futures_util::stream::once(second));
    (ByteStream::from_body_1_x(StreamBody::new(frames)), rest)
}

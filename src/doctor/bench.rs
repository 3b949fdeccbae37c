//! The bench that a bucket is examined on: scratch keys, requests, and what they came to.
//!
//! Requests go through the client of `serve`, in the form in which the fence sends them, so that
//! what was tried is what will be sent. Nothing outside the scratch prefix is written, but for the
//! few keys that differ from one under it in a leading slash.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use super::Progress;
use super::report::{Check, Outcome};
use crate::auth::PayloadHash;
use crate::clock;
use crate::fence::{Tag, UnfencedPermit};
use crate::s3::{Bucket, EtagQuotes, ObjectKey, percent_encode_key};
use crate::upstream::{Answer, BoxError, OutBody, Route, Signing, Trial, Upstream, full};

/// How long one request may take. SeaweedFS keeps the loser of a contended PUT for seconds.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(20);

/// How long is waited after a store has said "not so fast", and how often. R2 takes one write a
/// second to a key.
const THROTTLE_PAUSE: Duration = Duration::from_millis(1100);
const THROTTLED_MAX: usize = 8;

/// Nothing can be concluded: there was no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Silence(pub(super) String);

/// What is asked of the state of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum When<'a> {
    /// Nothing.
    #[default]
    Always,
    /// `If-None-Match: *`.
    Absent,
    /// `If-Match` with this tag.
    Tag(&'a str),
    /// A condition as it stands: name and value.
    Raw(HeaderName, &'a str),
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) answer: Answer,
    /// The tag in its head.
    pub(super) tag: Option<String>,
}

impl Reply {
    pub(super) fn status(&self) -> u16 {
        self.answer.status.as_u16()
    }

    /// Whether the store says that it has done it. A success may carry an error inside.
    pub(super) fn done(&self) -> bool {
        self.answer.status.is_success()
            && self.answer.element("Error").is_none()
            && self.answer.code().is_none()
    }

    /// Whether the store says that it has not done it, and will not.
    pub(super) fn refused(&self) -> bool {
        !self.done() && (300..500).contains(&self.status()) && !self.throttled()
            || self.status() == 501
            || self.status() == 200 && !self.done()
    }

    pub(super) fn throttled(&self) -> bool {
        self.status() == 429
    }

    /// In a few words.
    pub(super) fn said(&self) -> String {
        match self.answer.code() {
            Some(code) => format!("{} {code}", self.status()),
            None => self.status().to_string(),
        }
    }
}

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Present { tag: String, body: Bytes, token: Option<String> },
}

/// A bucket, and what has been written there.
pub(super) struct Bench<'a> {
    upstream: &'a Upstream,
    pub(super) bucket: Bucket,
    pub(super) prefix: String,
    pub(super) progress: &'a dyn Progress,
    pub(super) writers: usize,
    pub(super) rounds: usize,
    quotes: OnceLock<EtagQuotes>,
    written: Mutex<BTreeSet<String>>,
    uploads: Mutex<BTreeSet<(String, String)>>,
    throttled: AtomicBool,
    forbidden: Mutex<BTreeSet<String>>,
    checks: Mutex<Vec<Check>>,
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

/// A request being put together.
pub(super) struct Draft {
    method: Method,
    key: Option<String>,
    query: Option<String>,
    headers: HeaderMap,
    body: Bytes,
    signing: Option<Signing>,
}

impl Draft {
    pub(super) fn new(method: Method, key: impl Into<String>) -> Self {
        Self {
            method,
            key: Some(key.into()),
            query: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            signing: None,
        }
    }

    /// A request to the bucket itself.
    pub(super) fn to_bucket(method: Method, query: impl Into<String>) -> Self {
        Self { key: None, query: Some(query.into()), ..Self::new(method, "") }
    }

    pub(super) fn query(mut self, query: impl Into<String>) -> Self {
        self.query = Some(query.into());
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    pub(super) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub(super) fn signed(mut self, signing: Signing) -> Self {
        self.signing = Some(signing);
        self
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        upstream: &'a Upstream,
        bucket: &str,
        prefix: &str,
        (writers, rounds): (usize, usize),
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            upstream,
            bucket: Bucket::new(bucket),
            prefix: format!("{prefix}{:032x}/", clock::random_u128()),
            progress,
            writers,
            rounds,
            quotes: OnceLock::new(),
            written: Mutex::default(),
            uploads: Mutex::default(),
            throttled: AtomicBool::new(false),
            forbidden: Mutex::default(),
            checks: Mutex::default(),
        }
    }

    /// The scratch key of this name.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// How ETags are written; quoted until it is learnt otherwise.
    pub(super) fn quotes(&self) -> EtagQuotes {
        self.quotes.get().copied().unwrap_or(EtagQuotes::Quoted)
    }

    pub(super) fn learnt_quotes(&self) -> Option<EtagQuotes> {
        self.quotes.get().copied()
    }

    pub(super) fn learn_quotes(&self, quotes: EtagQuotes) {
        // Learnt once: what comes first holds.
        let _known = self.quotes.set(quotes);
    }

    /// Whether the store has asked for patience.
    pub(super) fn was_throttled(&self) -> bool {
        self.throttled.load(Ordering::Relaxed)
    }

    /// Where a key may be written once a second, a race begins a second after what it begins from.
    pub(super) async fn be_patient(&self) {
        if self.was_throttled() {
            tokio::time::sleep(THROTTLE_PAUSE).await;
        }
    }

    /// Adds a condition to a request.
    pub(super) fn when(&self, mut draft: Draft, when: &When<'_>) -> Draft {
        let (name, value) = match when {
            When::Always => return draft,
            When::Absent => (header::IF_NONE_MATCH, "*".to_owned()),
            When::Tag(tag) => (header::IF_MATCH, self.quotes().write(tag)),
            When::Raw(name, value) => (name.clone(), (*value).to_owned()),
        };
        if let Ok(value) = HeaderValue::from_str(&value) {
            draft.headers.insert(name, value);
        }
        draft
    }

    /// Sends, and again while the store asks for patience.
    pub(super) async fn send(&self, draft: Draft) -> Result<Reply, Silence> {
        let mut throttled = 0;
        loop {
            let again = draft.again();
            let reply = self.send_once(again).await?;
            if !reply.throttled() || throttled == THROTTLED_MAX {
                return Ok(reply);
            }
            throttled += 1;
            tokio::time::sleep(THROTTLE_PAUSE).await;
        }
    }

    /// Sends, whatever the answer: for races.
    pub(super) async fn send_once(&self, draft: Draft) -> Result<Reply, Silence> {
        let payload = PayloadHash::Sha256(Sha256::digest(&draft.body).into());
        let (length, body) = (draft.body.len(), full(draft.body.clone()));
        self.transmit(draft, body, length, payload).await
    }

    async fn transmit(
        &self,
        draft: Draft,
        body: OutBody,
        length: usize,
        payload: PayloadHash,
    ) -> Result<Reply, Silence> {
        let Draft { method, key, query, mut headers, signing, .. } = draft;
        if length > 0 || matches!(method, Method::PUT | Method::POST) {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        if method == Method::PUT || method == Method::POST {
            self.note(key.as_deref());
        }
        // A signature that is meant to be refused says nothing of permissions.
        let expected = signing.is_none();
        let what = described(&method, key.is_some(), query.as_deref());
        let trial = Trial {
            route: self.route(key.as_deref(), query)?,
            method,
            headers,
            body,
            payload,
            signing: signing.unwrap_or_else(|| Signing::Header(clock::now())),
            timeout: REQUEST_TIME_MAX,
        };
        let permit = UnfencedPermit::for_examination();
        let answer = self.upstream.examine(permit, trial).await;
        let answer = answer.map_err(|error| Silence(error.to_string()))?;
        let tag = match self.upstream.tag_of(&answer.headers) {
            Some(Tag::Version(tag)) => Some(tag),
            Some(Tag::Absent) | None => None,
        };
        let reply = Reply { answer, tag };
        if reply.throttled() {
            self.throttled.store(true, Ordering::Relaxed);
        }
        if expected && reply.status() == 403 {
            self.note_forbidden(&what, &reply);
        }
        Ok(reply)
    }

    fn route(&self, key: Option<&str>, query: Option<String>) -> Result<Route, Silence> {
        let Some(key) = key else {
            let path = format!("/{}", self.bucket);
            return Ok(Route { bucket: Some(self.bucket.clone()), path, query });
        };
        // Keys are not only those that the proxy would take.
        let path = format!("/{}/{}", self.bucket, percent_encode_key(key.as_bytes()));
        ObjectKey::new(key.as_bytes()).ok_or_else(|| Silence("no key".to_owned()))?;
        Ok(Route { bucket: Some(self.bucket.clone()), path, query })
    }

    fn note(&self, key: Option<&str>) {
        let Some(key) = key else { return };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.insert(key.to_owned());
    }

    /// The keys that were written.
    pub(super) fn written(&self) -> Vec<String> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.iter().cloned().collect()
    }

    pub(super) fn note_upload(&self, key: &str, id: &str) {
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        uploads.insert((key.to_owned(), id.to_owned()));
    }

    /// The uploads that were created: key and id.
    pub(super) fn uploads(&self) -> Vec<(String, String)> {
        let uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        uploads.iter().cloned().collect()
    }

    fn note_forbidden(&self, what: &str, reply: &Reply) {
        let mut forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        forbidden.insert(format!("{what} ({})", reply.said()));
    }

    /// What was answered 403.
    pub(super) fn forbidden(&self) -> Vec<String> {
        let forbidden = self.forbidden.lock().unwrap_or_else(PoisonError::into_inner);
        forbidden.iter().cloned().collect()
    }

    /// Puts a check on record.
    pub(super) fn note_check(&self, id: &str, judged: Result<(Outcome, String), Silence>) {
        let (outcome, evidence) = judged.unwrap_or_else(|silence| (Outcome::Unclear, silence.0));
        let check = Check { id: id.to_owned(), outcome, evidence };
        self.progress.checked(&check);
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).push(check);
    }

    /// What is on record.
    pub(super) fn checks(&self) -> Vec<Check> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a few bytes.
    pub(super) async fn put(
        &self,
        key: &str,
        body: &str,
        when: &When<'_>,
    ) -> Result<Reply, Silence> {
        self.send(self.put_draft(key, body, when)).await
    }

    pub(super) fn put_draft(&self, key: &str, body: &str, when: &When<'_>) -> Draft {
        let draft = Draft::new(Method::PUT, key).body(body.to_owned());
        self.when(draft.header("content-type", "text/plain"), when)
    }

    /// Writes unconditionally, and says what tag the object has now.
    pub(super) async fn given(&self, key: &str, body: &str) -> Result<String, Silence> {
        let reply = self.put(key, body, &When::Always).await?;
        match reply.tag.clone() {
            Some(tag) if reply.done() => Ok(tag),
            Some(_) | None => Err(Silence(format!("a plain PUT was answered {}", reply.said()))),
        }
    }

    pub(super) async fn delete(&self, key: &str, when: &When<'_>) -> Result<Reply, Silence> {
        self.send(self.when(Draft::new(Method::DELETE, key), when)).await
    }

    pub(super) async fn head(&self, key: &str) -> Result<Reply, Silence> {
        self.send(Draft::new(Method::HEAD, key)).await
    }

    /// What is there now.
    pub(super) async fn state(&self, key: &str) -> Result<State, Silence> {
        let reply = self.send(Draft::new(Method::GET, key)).await?;
        match (reply.answer.status, reply.tag) {
            (StatusCode::NOT_FOUND, _) => Ok(State::Absent),
            (StatusCode::OK, Some(tag)) => {
                let token = reply.answer.headers.get("x-amz-meta-doctor");
                let token = token.and_then(|value| value.to_str().ok()).map(str::to_owned);
                Ok(State::Present { tag, body: reply.answer.body, token })
            }
            (status, _) => Err(Silence(format!("a GET was answered {status}"))),
        }
    }

    /// The time by the store's clock, if its answers say it.
    pub(super) fn time_of(reply: &Reply) -> Option<SystemTime> {
        let date = reply.answer.headers.get(header::DATE)?.to_str().ok()?;
        httpdate::parse_http_date(date).ok()
    }

    /// A PUT of two bytes, the second of which is sent when `rest` is.
    pub(super) async fn put_slowly(
        &self,
        key: &str,
        when: &When<'_>,
        rest: oneshot::Receiver<()>,
    ) -> Result<Reply, Silence> {
        let draft = self.when(Draft::new(Method::PUT, key), when);
        let payload = PayloadHash::Sha256(Sha256::digest(b"12").into());
        self.transmit(draft, half_body(rest), 2, payload).await
    }
}

impl Draft {
    /// The same request once more.
    pub(super) fn again(&self) -> Self {
        Self {
            method: self.method.clone(),
            key: self.key.clone(),
            query: self.query.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
            signing: self.signing,
        }
    }
}

/// A body of two bytes, the second of which comes when it is told to.
fn half_body(rest: oneshot::Receiver<()>) -> OutBody {
    let frame = |byte: &'static [u8]| Ok::<_, BoxError>(Frame::data(Bytes::from_static(byte)));
    let second = async move {
        // A sender that is gone is as good as one that has sent.
        let _ = rest.await;
        frame(b"2")
    };
    let first = futures_util::stream::iter([frame(b"1")]);
    let frames = futures_util::StreamExt::chain(first, futures_util::stream::once(second));
    StreamBody::new(frames).boxed_unsync()
}

/// A request in a few words: `PUT ?versioning of the bucket`.
fn described(method: &Method, of_object: bool, query: Option<&str>) -> String {
    let name = query.and_then(|query| query.split(['=', '&']).next()).unwrap_or_default();
    let name = if name.is_empty() { String::new() } else { format!(" ?{name}") };
    format!("{method}{name} of {}", if of_object { "an object" } else { "the bucket" })
}

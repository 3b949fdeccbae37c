//! Faults that can be switched on while the store runs: a slow store, lost answers, cut
//! connections, wrong statuses, and requests that arrive late.
//!
//! A [`Rule`] names requests and what happens to them, once, n times or for good. The first rule
//! that matches a request is the only one that acts on it. Rules match what the request line says,
//! before its signature is looked at.

use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: the rule's [`RuleHandle`] counts and waits.
    Observe,
    /// Execute it, then close the connection without an answer.
    LoseAnswer,
    /// Receive its body, then close the connection without executing it.
    CutBefore,
    /// Execute it, and close the connection in the middle of the answer's body.
    CutBody,
    /// Receive its body and answer this status and S3 code without executing it.
    Status(u16, &'static str),
    /// Execute it, then answer this status and S3 code all the same.
    ExecuteThenStatus(u16, &'static str),
    /// Receive it whole, and execute it this much later: a packet in a queue. It is executed even
    /// when its client has gone away meanwhile; its signature is judged when it is executed.
    Delay(Duration),
    /// As [`Delay`](Self::Delay), until [`RuleHandle::release`] or
    /// [`RuleHandle::release_one`].
    Hold,
}

/// Which requests a fault strikes, and how often. Every part that is not given matches anything.
#[derive(Clone, Debug)]
pub struct Rule {
    effect: Effect,
    method: Option<Method>,
    bucket: Option<String>,
    key_prefix: Option<String>,
    query: Option<String>,
    header: Option<(String, String)>,
    times: u64,
}

impl Rule {
    /// A rule that strikes the next request, whatever it is.
    #[must_use]
    pub fn new(effect: Effect) -> Self {
        Self {
            effect,
            method: None,
            bucket: None,
            key_prefix: None,
            query: None,
            header: None,
            times: 1,
        }
    }

    /// Only requests with this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only requests to this bucket (path style).
    #[must_use]
    pub fn bucket(mut self, bucket: &str) -> Self {
        self.bucket = Some(bucket.to_owned());
        self
    }

    /// Only requests whose key, decoded, begins so. A request to a bucket has the empty key.
    #[must_use]
    pub fn key_prefix(mut self, prefix: &str) -> Self {
        self.key_prefix = Some(prefix.to_owned());
        self
    }

    /// Only requests whose raw query contains this text, such as `uploadId=`.
    #[must_use]
    pub fn query(mut self, text: &str) -> Self {
        self.query = Some(text.to_owned());
        self
    }

    /// Only requests with this header whose value contains this text (empty for any value).
    #[must_use]
    pub fn header(mut self, name: &str, text: &str) -> Self {
        self.header = Some((name.to_owned(), text.to_owned()));
        self
    }

    /// Strikes this many requests; once unless told otherwise.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Strikes every request until it is removed.
    #[must_use]
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }

    fn matches(&self, parts: &Parts) -> bool {
        let path = parts.uri.path();
        let path = path.strip_prefix('/').unwrap_or(path);
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let key = percent_decode_str(key).decode_utf8_lossy();
        let query = parts.uri.query().unwrap_or_default();
        let header = |(name, text): &(String, String)| {
            let value = parts.headers.get(name).map(http::HeaderValue::as_bytes);
            value.is_some_and(|value| String::from_utf8_lossy(value).contains(text.as_str()))
        };
        self.method.as_ref().is_none_or(|method| parts.method == *method)
            && self.bucket.as_ref().is_none_or(|wanted| bucket == wanted)
            && self.key_prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix.as_str()))
            && self.query.as_ref().is_none_or(|text| query.contains(text.as_str()))
            && self.header.as_ref().is_none_or(header)
    }
}

/// The faults of a running store. Cloning gives another handle to the same ones.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    rules: Mutex<Vec<Arc<State>>>,
    latency_ms: AtomicU64,
}

impl Faults {
    /// Adds a rule behind the ones that are there. The handle may be dropped; the rule stays.
    pub fn add(&self, rule: Rule) -> RuleHandle {
        let state = Arc::new(State {
            left: AtomicU64::new(rule.times),
            rule,
            removed: AtomicBool::new(false),
            gate: Semaphore::new(0),
            counts: watch::Sender::new(Counts::default()),
        });
        self.lock().push(state.clone());
        RuleHandle { state }
    }

    /// Holds every request back this long before executing it; zero switches it off. Milliseconds
    /// count, less does not.
    pub fn set_latency(&self, latency: Duration) {
        let ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
        self.inner.latency_ms.store(ms, Ordering::Relaxed);
    }

    pub(super) fn latency(&self) -> Duration {
        Duration::from_millis(self.inner.latency_ms.load(Ordering::Relaxed))
    }

    /// Removes every rule, releases what is held and sets the latency to zero.
    pub fn clear(&self) {
        self.set_latency(Duration::ZERO);
        self.lock().drain(..).for_each(|state| state.remove());
    }

    /// The rule that strikes this request, already counted.
    pub(super) fn strike(&self, parts: &Parts) -> Option<Strike> {
        let mut rules = self.lock();
        rules.retain(|state| !state.removed.load(Ordering::SeqCst));
        let state = rules.iter().find(|state| state.rule.matches(parts) && state.take())?.clone();
        Some(Strike { state })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<State>>> {
        self.inner.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    hits: u64,
    parked: u64,
    finished: u64,
}

#[derive(Debug)]
struct State {
    rule: Rule,
    left: AtomicU64,
    removed: AtomicBool,
    /// Closed when everything is released.
    gate: Semaphore,
    counts: watch::Sender<Counts>,
}

impl State {
    /// Uses up one of the rule's times.
    fn take(&self) -> bool {
        let less = |left: u64| match left {
            0 => None,
            u64::MAX => Some(left),
            _ => Some(left - 1),
        };
        let taken = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        if taken {
            self.counts.send_modify(|counts| counts.hits += 1);
        }
        taken
    }

    fn remove(&self) {
        self.removed.store(true, Ordering::SeqCst);
        self.gate.close();
    }
}

/// A rule acting on one request.
pub(super) struct Strike {
    state: Arc<State>,
}

impl Strike {
    pub(super) fn effect(&self) -> &Effect {
        &self.state.rule.effect
    }

    /// [`Effect::Hold`]: waits for the release.
    pub(super) async fn park(&self) {
        self.state.counts.send_modify(|counts| counts.parked += 1);
        if let Ok(permit) = self.state.gate.acquire().await {
            permit.forget();
        }
        self.state.counts.send_modify(|counts| counts.parked -= 1);
    }
}

impl Drop for Strike {
    fn drop(&mut self) {
        self.state.counts.send_modify(|counts| counts.finished += 1);
    }
}

/// A hold on a rule that was added: what it has done, and how to end it.
#[derive(Clone, Debug)]
pub struct RuleHandle {
    state: Arc<State>,
}

impl RuleHandle {
    /// How many requests the rule has struck.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.state.counts.borrow().hits
    }

    /// How many requests are held right now, each with its body received.
    #[must_use]
    pub fn parked(&self) -> u64 {
        self.state.counts.borrow().parked
    }

    /// How many struck requests the store is done with.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.state.counts.borrow().finished
    }

    /// Waits until the rule has struck `n` requests since it was added.
    pub async fn wait_hits(&self, n: u64) {
        self.wait(|counts| counts.hits >= n).await;
    }

    /// Waits until `n` requests are held at the same time.
    pub async fn wait_parked(&self, n: u64) {
        self.wait(|counts| counts.parked >= n).await;
    }

    /// Waits until the store is done with `n` struck requests since the rule was added: executed,
    /// if they are executed at all, whether or not anyone heard the answer.
    pub async fn wait_finished(&self, n: u64) {
        self.wait(|counts| counts.finished >= n).await;
    }

    async fn wait(&self, done: impl FnMut(&Counts) -> bool) {
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = self.state.counts.subscribe().wait_for(done).await;
    }

    /// Lets the request that has been held longest go on.
    pub fn release_one(&self) {
        self.state.gate.add_permits(1);
    }

    /// Ends the rule and lets everything it holds go on.
    pub fn release(&self) {
        self.state.remove();
    }

    /// Ends the rule; the same as [`release`](Self::release).
    pub fn remove(&self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: Method, uri: &str) -> Parts {
        let request = http::Request::builder().method(method).uri(uri);
        request.header("if-match", "\"abc\"").body(()).unwrap().into_parts().0
    }

    #[test]
    fn every_given_part_must_match() {
        let rule = Rule::new(Effect::LoseAnswer)
            .method(Method::PUT)
            .bucket("b")
            .key_prefix("a b/")
            .query("partNumber=")
            .header("If-Match", "abc");
        let put = |uri: &str| rule.matches(&parts(Method::PUT, uri));
        assert!(put("/b/a%20b/c?partNumber=1&uploadId=x"));
        assert!(!put("/b/a%20b/c?uploadId=x"));
        assert!(!put("/b/a%20c?partNumber=1"));
        assert!(!put("/c/a%20b/c?partNumber=1"));
        assert!(!rule.matches(&parts(Method::GET, "/b/a%20b/c?partNumber=1")));
        assert!(!rule.clone().header("x-other", "").matches(&parts(Method::PUT, "/b/a%20b/")));
        assert!(Rule::new(Effect::CutBefore).matches(&parts(Method::GET, "/")));
    }

    #[test]
    fn a_rule_strikes_as_often_as_it_says() {
        let faults = Faults::default();
        let twice = faults.add(Rule::new(Effect::LoseAnswer).times(2));
        let always = faults.add(Rule::new(Effect::CutBefore).always());
        let request = parts(Method::GET, "/");
        let effects: Vec<_> =
            (0..4).map(|_| faults.strike(&request).unwrap().effect().clone()).collect();
        use Effect::{CutBefore, LoseAnswer};
        assert_eq!(effects, [LoseAnswer, LoseAnswer, CutBefore, CutBefore]);
        assert_eq!((twice.hits(), twice.finished(), always.hits()), (2, 2, 2));
        always.remove();
        assert!(faults.strike(&request).is_none());
    }

    #[tokio::test]
    async fn a_hold_lets_go_one_by_one_or_all() {
        let faults = Faults::default();
        let hold = faults.add(Rule::new(Effect::Hold).always());
        let request = parts(Method::GET, "/");
        for _ in 0..3 {
            let strike = faults.strike(&request).unwrap();
            tokio::spawn(async move { strike.park().await });
        }
        hold.wait_parked(3).await;
        hold.release_one();
        hold.wait_finished(1).await;
        assert_eq!(hold.parked(), 2);
        hold.release();
        hold.wait_finished(3).await;
        assert!(faults.strike(&request).is_none());
    }
}

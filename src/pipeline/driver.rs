//! Carries out what the fence's state machine asks for. It decides nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, Method};
use tokio::sync::MutexGuard;

use super::body::ClientBody;
use super::scopes::{KeyGuard, Slot};
use super::{Proxy, respond};
use crate::auth::{BodyOutcome, PayloadHash, VerifiedBody};
use crate::clock;
use crate::fence::{
    Attempt, Change, Contention, Effect, KeyId, Memory, Operation, Outcome, Protocol, Snapshot,
    StreamPermit, Swap, Tag, Verdict, WritePermit,
};
use crate::ledger::{LedgerUnavailable, Scope, SwapOutcome};
use crate::s3::{ObjectKey, S3Error};
use crate::telemetry::{LedgerOperation, LedgerResult};
use crate::upstream::{BodyEnd, HeldWrite, PutBody, Route, SendError, WriteAnswer, WriteRequest};

/// The first pause after a lost race; every further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// How long a swap with others is waited for at least.
const SWAP_WAIT_MIN: Duration = Duration::from_secs(1);

/// How many keys are looked at at a time.
const LOOKS_IN_FLIGHT_MAX: usize = 16;

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The bytes of a write.
pub(super) enum Bytes {
    /// They are no object's: a message about it, or nothing. They can be sent again.
    Message(Method, bytes::Bytes),
    /// They can be sent again.
    Buffered(PutBody),
    /// They can be sent once.
    Streamed(Box<VerifiedBody<ClientBody>>, PayloadHash),
    /// They have been sent but for the last, or have gone away.
    Begun(Option<HeldWrite>),
    /// They are the object's own: it is rewritten onto itself.
    Own,
}

/// What became of a write, for the answer to its client.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The store's last answer to the write.
    pub(super) answer: Option<WriteAnswer>,
    /// What HEAD showed last.
    pub(super) observed: Option<HeaderMap>,
    /// What was wrong with the client's body.
    pub(super) body_error: Option<S3Error>,
    /// What the ledger or the store said when it could not be asked.
    pub(super) trouble: Option<String>,
}

/// Runs one [`Attempt`].
pub(super) struct Driver<'a> {
    pub(super) proxy: &'a Proxy,
    pub(super) scope: &'a Scope,
    pub(super) slot: &'a Arc<Slot>,
    pub(super) request: WriteRequest,
    pub(super) change: Change,
    pub(super) bytes: Bytes,
    /// The one place in the scope; a stream takes it when its bytes are there.
    pub(super) guard: Option<MutexGuard<'a, Memory>>,
    /// In a scope of many keys, the one place on the key.
    pub(super) key_guard: Option<KeyGuard<'a>>,
    /// The operation is exclusive, in a scope of many keys.
    pub(super) takes_turn: bool,
    /// The leave to swap the record of a scope of many keys.
    pub(super) turn: Option<MutexGuard<'a, ()>>,
    pub(super) deadline: Instant,
    pub(super) pauses: u32,
    pub(super) findings: Findings,
}

impl Driver<'_> {
    /// The same as in a scope of one object, but that only the key is held, and that what is
    /// remembered is shared with those that are on other keys.
    pub(super) async fn run_among_many(
        mut self,
        protocol: Protocol,
        operation: Operation,
        loaded: Option<Snapshot>,
        streamed: bool,
    ) -> (Verdict, Findings) {
        let slot = self.slot;
        let many = slot.many();
        let key = operation.key.clone();
        if !streamed && operation.change != Change::Claim {
            let wait = self.deadline.saturating_duration_since(clock::monotonic());
            let Ok(guard) = tokio::time::timeout(wait, many.take_key(&key)).await else {
                return (Verdict::Contended(Contention::LostRaces), self.findings);
            };
            self.key_guard = Some(guard);
        }
        let (scopes, bucket) = (&self.proxy.0.scopes, &self.scope.bucket);
        let mut memory = scopes.memory_for(many, bucket, &key);
        self.refresh(&protocol, &operation, &mut memory, loaded);
        let attempt = Attempt::new(protocol, operation, memory);
        let (verdict, memory) = self.drive(attempt).await;
        let owes = memory.owes_withdrawal();
        scopes.take_back(many, bucket, key, &memory);
        if owes {
            self.proxy.settle_later(self.scope, slot);
        }
        (verdict, self.findings)
    }

    /// Takes over a record that has just been loaded, and drops one that would refuse the operation
    /// but has not been asked for lately: a person may have reset it.
    pub(super) fn refresh(
        &self,
        protocol: &Protocol,
        operation: &Operation,
        memory: &mut Memory,
        loaded: Option<Snapshot>,
    ) {
        if !self.slot.may_chain() {
            memory.forget_chain();
        }
        let before_a_reset = |snapshot: &Snapshot| self.slot.has_been_reset_since(snapshot);
        let outdated = memory.snapshot().is_some_and(before_a_reset);
        if outdated || (memory.refuses(protocol, operation) && !self.slot.is_known()) {
            memory.forget_record();
        }
        if let Some(snapshot) = loaded {
            if memory.refuses(protocol, operation) {
                memory.loaded(snapshot);
            } else {
                memory.offer(snapshot);
            }
        }
    }

    /// One outcome in, one effect out, to the end.
    pub(super) async fn drive(&mut self, mut attempt: Attempt) -> (Verdict, Memory) {
        let mut effect = attempt.advance(Outcome::Start);
        loop {
            let outcome = match effect {
                Effect::Observe => self.observe().await,
                Effect::Load => self.load().await,
                Effect::Look(keys) => self.look(keys).await,
                Effect::Begin(permit) => self.begin(permit).await,
                Effect::Swap(_) if attempt.may_join() => {
                    let wait = self.deadline.saturating_duration_since(clock::monotonic());
                    let together = self.proxy.swap_together(self.scope, self.slot, attempt);
                    // Whoever does not wait for the answer has not entered: what was registered for
                    // it is settled by those who swap.
                    let together = tokio::time::timeout(wait.max(SWAP_WAIT_MIN), together).await;
                    let Some((same, outcome)) = together.ok().flatten() else {
                        self.findings.trouble = Some("the swap was given up".into());
                        self.give_up_stream().await;
                        return (Verdict::Unavailable, Memory::default());
                    };
                    attempt = same;
                    outcome
                }
                Effect::Swap(swap) => self.swap(swap).await,
                Effect::Send(permit) => self.send(permit).await,
                Effect::Pause => self.pause().await,
                Effect::Finish(verdict) => {
                    self.turn = None;
                    self.give_up_stream().await;
                    return (verdict, attempt.into_memory());
                }
            };
            effect = attempt.advance(outcome);
        }
    }

    /// What is exclusive looks at its object under the record that it then swaps, so that nobody
    /// else of this proxy swaps it in between.
    ///
    /// `false`: others have kept it for too long.
    async fn take_turn(&mut self) -> bool {
        if self.takes_turn && self.turn.is_none() {
            let wait = self.deadline.saturating_duration_since(clock::monotonic());
            let turn = self.slot.many().turn.lock();
            self.turn = tokio::time::timeout(wait, turn).await.ok();
            if self.turn.is_none() {
                self.findings.trouble = Some("others have the scope's turn".into());
                return false;
            }
        }
        true
    }

    async fn observe(&mut self) -> Outcome {
        if !self.take_turn().await {
            return Outcome::ObserveFailed;
        }
        match self.proxy.0.upstream.observe(&self.request.route_of_object()).await {
            Ok(observed) => {
                self.findings.observed = Some(observed.headers);
                Outcome::Observed { tag: observed.tag, stamp: observed.stamp }
            }
            Err(error) => {
                self.findings.trouble = Some(error.to_string());
                Outcome::ObserveFailed
            }
        }
    }

    /// Asks for the tags of many keys, some of them at a time.
    async fn look(&mut self, keys: Vec<KeyId>) -> Outcome {
        let (proxy, bucket) = (self.proxy, &self.scope.bucket);
        let looks = keys.into_iter().map(|key| async move {
            let Some(object) = ObjectKey::new(key.as_bytes()) else {
                return Err(SendError::Unsent("a record names an object without a key".into()));
            };
            let route = Route::to_object(bucket, &object);
            let observed = proxy.0.upstream.observe(&route).await?;
            Ok((key, observed.tag))
        });
        let looks: Vec<_> = looks.collect();
        let found: Vec<Result<(KeyId, Tag), SendError>> =
            stream::iter(looks).buffered(LOOKS_IN_FLIGHT_MAX).collect().await;
        match found.into_iter().collect() {
            Ok(found) => Outcome::Looked(found),
            Err(error) => {
                self.findings.trouble = Some(error.to_string());
                Outcome::ObserveFailed
            }
        }
    }

    async fn load(&mut self) -> Outcome {
        if !self.take_turn().await {
            return Outcome::LedgerFailed;
        }
        match self.proxy.load(self.scope).await {
            Ok(snapshot) => {
                self.slot.note(&snapshot);
                if self.scope.holds_many() && self.slot.many().remembered().is_none() {
                    self.slot.many().loaded(snapshot.clone());
                }
                Outcome::Loaded(snapshot)
            }
            Err(error) => {
                self.findings.trouble = Some(error.to_string());
                Outcome::LedgerFailed
            }
        }
    }

    async fn swap(&mut self, swap: Swap) -> Outcome {
        if !self.take_turn().await {
            return Outcome::SwapLost;
        }
        let swapped = self.proxy.swap(self.scope, &swap).await;
        if self.scope.holds_many() {
            self.slot.many().with_memory(|memory| match &swapped {
                Ok(SwapOutcome::Swapped(version)) => {
                    memory.swapped(swap.next.clone(), version.clone());
                }
                Ok(SwapOutcome::Lost) | Err(_) => memory.forget_record(),
            });
        }
        match swapped {
            Ok(SwapOutcome::Swapped(version)) => {
                let record = Some(swap.next);
                let now = Snapshot { record, version: version.clone(), time: None };
                self.slot.note(&now);
                Outcome::Swapped(version)
            }
            Ok(SwapOutcome::Lost) => Outcome::SwapLost,
            Err(error) => {
                self.findings.trouble = Some(error.to_string());
                Outcome::LedgerFailed
            }
        }
    }

    async fn begin(&mut self, permit: StreamPermit) -> Outcome {
        let Bytes::Streamed(body, payload) = std::mem::replace(&mut self.bytes, Bytes::Begun(None))
        else {
            return Outcome::BodyFailed;
        };
        let outcome = body.outcome();
        let upstream = &self.proxy.0.upstream;
        let time_max = self.proxy.0.settings.request_body_max;
        let begun = upstream.begin(permit, &self.request, *body, payload, &self.change);
        let Ok(end) = tokio::time::timeout(time_max, begun).await else {
            self.findings.body_error = Some(respond::body_timeout(time_max));
            return Outcome::BodyFailed;
        };
        match end {
            BodyEnd::Held(held, forms) => {
                self.bytes = Bytes::Begun(Some(held));
                // Only from here on is anybody waited for but the client.
                self.deadline = clock::monotonic() + self.proxy.0.settings.contention_wait_max;
                self.take_place().await;
                Outcome::Received(forms)
            }
            BodyEnd::Client => {
                self.findings.body_error = Some(body_error(&outcome));
                Outcome::BodyFailed
            }
            BodyEnd::Store(answer) => {
                let outcome = answer.outcome.clone();
                self.findings.trouble = answer.error.as_ref().map(ToString::to_string);
                self.findings.answer = Some(*answer);
                outcome
            }
        }
    }

    /// Waits for the one place in the scope; goes on without it when that takes too long, because
    /// it spares lost races and is not what safety rests on.
    pub(super) async fn take_place(&mut self) {
        if self.scope.holds_many() {
            return;
        }
        let wait = self.deadline.saturating_duration_since(clock::monotonic());
        self.guard = tokio::time::timeout(wait, self.slot.memory.lock()).await.ok();
    }

    async fn send(&mut self, permit: WritePermit) -> Outcome {
        self.turn = None;
        let upstream = &self.proxy.0.upstream;
        let started = clock::monotonic();
        let answer = match std::mem::replace(&mut self.bytes, Bytes::Begun(None)) {
            Bytes::Message(method, body) => {
                let (again, message) = (method.clone(), body.clone());
                self.bytes = Bytes::Message(method, body);
                upstream.act(permit, &self.request, again, message, &self.change).await
            }
            Bytes::Buffered(body) => {
                let answer = upstream.put(permit, &self.request, &body, &self.change).await;
                self.bytes = Bytes::Buffered(body);
                answer
            }
            Bytes::Own => {
                self.bytes = Bytes::Own;
                match self.proxy.rewriting(&self.request, permit.terms()).await {
                    Ok(request) => {
                        let nothing = bytes::Bytes::new();
                        upstream.act(permit, &request, Method::PUT, nothing, &self.change).await
                    }
                    Err(trouble) => {
                        self.findings.trouble = Some(trouble);
                        return Outcome::Rejected;
                    }
                }
            }
            Bytes::Begun(Some(held)) => upstream.release(permit, held, &self.change).await,
            Bytes::Begun(None) | Bytes::Streamed(..) => {
                self.findings.trouble = Some("the body has gone away".into());
                return Outcome::Rejected;
            }
        };
        let took = clock::monotonic().duration_since(started);
        self.proxy.0.metrics.upstream("FencedWrite", took);
        let outcome = answer.outcome.clone();
        if let Some(error) = &answer.error {
            self.findings.trouble = Some(error.to_string());
        }
        self.findings.answer = Some(answer);
        outcome
    }

    /// Waits twice as long every time, within a random half, so that two proxies do not keep
    /// meeting.
    async fn pause(&mut self) -> Outcome {
        self.turn = None;
        if clock::monotonic() >= self.deadline {
            return Outcome::OutOfPatience;
        }
        let full = PAUSE_MIN.saturating_mul(1 << self.pauses.min(16)).min(PAUSE_MAX);
        self.pauses += 1;
        tokio::time::sleep(jittered(full)).await;
        Outcome::Paused
    }

    async fn give_up_stream(&mut self) {
        if let Bytes::Begun(Some(held)) = std::mem::replace(&mut self.bytes, Bytes::Begun(None)) {
            self.proxy.0.upstream.abandon(held).await;
        }
    }
}

/// Between half of a pause and all of it.
pub(super) fn jittered(full: Duration) -> Duration {
    let nanos = u64::try_from(full.as_nanos()).unwrap_or(u64::MAX);
    let jitter = clock::random_u128() % (u128::from(nanos / 2) + 1);
    Duration::from_nanos(nanos - u64::try_from(jitter).expect("it is at most half of a u64"))
}

fn body_error(outcome: &BodyOutcome) -> S3Error {
    match outcome.get() {
        Some(Err(error)) => respond::invalid_body(error),
        Some(Ok(_)) | None => respond::incomplete_body(),
    }
}

impl Proxy {
    /// Loads a record, and counts it.
    pub(super) async fn load(&self, scope: &Scope) -> Result<Snapshot, LedgerUnavailable> {
        let started = clock::monotonic();
        let loaded = self.0.ledger.load(scope).await;
        let result = if loaded.is_ok() { LedgerResult::Ok } else { LedgerResult::Error };
        self.count(scope, LedgerOperation::Load, result, started, loaded.as_ref().err());
        loaded
    }

    /// Swaps a record, and counts it.
    pub(super) async fn swap(
        &self,
        scope: &Scope,
        swap: &Swap,
    ) -> Result<SwapOutcome, LedgerUnavailable> {
        let started = clock::monotonic();
        let swapped = self.0.ledger.swap(scope, &swap.base, &swap.next).await;
        let result = match &swapped {
            Ok(SwapOutcome::Swapped(_)) => LedgerResult::Ok,
            Ok(SwapOutcome::Lost) => LedgerResult::Conflict,
            Err(_) => LedgerResult::Unknown,
        };
        self.count(scope, LedgerOperation::Swap, result, started, swapped.as_ref().err());
        swapped
    }

    fn count(
        &self,
        scope: &Scope,
        operation: LedgerOperation,
        result: LedgerResult,
        started: Instant,
        error: Option<&LedgerUnavailable>,
    ) {
        self.0.metrics.ledger(operation, result, clock::monotonic().duration_since(started));
        if let Some(error) = error {
            tracing::error!(%scope, operation = operation.as_str(), %error, "the ledger failed");
        }
        self.0.readiness.set_ledger_error(error.map(ToString::to_string));
    }
}

//! Carries out what the fence's state machine asks for. It decides nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use tokio::sync::MutexGuard;

use super::body::ClientBody;
use super::scopes::Slot;
use super::{Proxy, respond};
use crate::auth::{BodyOutcome, PayloadHash, VerifiedBody};
use crate::clock;
use crate::fence::{
    Attempt, Change, Effect, Memory, Outcome, Snapshot, StreamPermit, Swap, Verdict, WritePermit,
};
use crate::ledger::{LedgerUnavailable, Scope, SwapOutcome};
use crate::s3::S3Error;
use crate::telemetry::{LedgerOperation, LedgerResult};
use crate::upstream::{BodyEnd, HeldWrite, PutBody, WriteAnswer, WriteRequest};

/// The first pause after a lost race; every further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(10);

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
    pub(super) deadline: Instant,
    pub(super) pauses: u32,
    pub(super) findings: Findings,
}

impl Driver<'_> {
    /// One outcome in, one effect out, to the end.
    pub(super) async fn drive(&mut self, attempt: &mut Attempt) -> Verdict {
        let mut effect = attempt.advance(Outcome::Start);
        loop {
            let outcome = match effect {
                Effect::Observe => self.observe().await,
                Effect::Load => self.load().await,
                Effect::Begin(permit) => self.begin(permit).await,
                Effect::Swap(swap) => self.swap(&swap).await,
                Effect::Send(permit) => self.send(permit).await,
                Effect::Pause => self.pause().await,
                Effect::Finish(verdict) => {
                    self.give_up_stream().await;
                    return verdict;
                }
            };
            effect = attempt.advance(outcome);
        }
    }

    async fn observe(&mut self) -> Outcome {
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

    async fn load(&mut self) -> Outcome {
        match self.proxy.load(self.scope).await {
            Ok(snapshot) => Outcome::Loaded(snapshot),
            Err(error) => {
                self.findings.trouble = Some(error.to_string());
                Outcome::LedgerFailed
            }
        }
    }

    async fn swap(&mut self, swap: &Swap) -> Outcome {
        match self.proxy.swap(self.scope, swap).await {
            Ok(SwapOutcome::Swapped(version)) => Outcome::Swapped(version),
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
        let wait = self.deadline.saturating_duration_since(clock::monotonic());
        self.guard = tokio::time::timeout(wait, self.slot.memory.lock()).await.ok();
    }

    async fn send(&mut self, permit: WritePermit) -> Outcome {
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
        if clock::monotonic() >= self.deadline {
            return Outcome::OutOfPatience;
        }
        let full = PAUSE_MIN.saturating_mul(1 << self.pauses.min(16)).min(PAUSE_MAX);
        self.pauses += 1;
        let nanos = u64::try_from(full.as_nanos()).expect("half a second in nanoseconds fits");
        let jitter = clock::random_u128() % u128::from(nanos / 2 + 1);
        let jitter = u64::try_from(jitter).expect("it is less than half a second");
        tokio::time::sleep(Duration::from_nanos(nanos - jitter)).await;
        Outcome::Paused
    }

    async fn give_up_stream(&mut self) {
        if let Bytes::Begun(Some(held)) = std::mem::replace(&mut self.bytes, Bytes::Begun(None)) {
            self.proxy.0.upstream.abandon(held).await;
        }
    }
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

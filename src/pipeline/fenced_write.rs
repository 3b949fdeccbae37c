//! A write of one object, with a token.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use http::header::{self, HeaderMap};
use http::{Method, Response, StatusCode};

use super::body::{self, ClientBody, Prepared};
use super::conditions::{client_condition, refuse_unjudged_condition};
use super::driver::{Bytes, Driver, Findings};
use super::plan::{BucketPlan, protocol_of};
use super::scopes::Slot;
use super::{Proxy, ResponseBody, Understood, respond};
use crate::auth::VerifiedBody;
use crate::clock;
use crate::fence::{
    Assembly, Attempt, Bearer, Change, ClientCondition, Contention, Contents, KeyId, Keys, Memory,
    Mismatch, Operation, OperationId, Protocol, Refusal, Snapshot, Tags, Token, Verdict,
};
use crate::ledger::Scope;
use crate::listener::RequestId;
use crate::policy::Place;
use crate::s3::{S3Error, Write, assembled_etag, parse_complete_upload};
use crate::telemetry::Reason;
use crate::upstream::{Dialect, WriteRequest, for_store, forms_of};

/// How many times more often what is exclusive begins anew in a scope of many keys.
const EXCLUSIVE_ROUNDS: u32 = 8;

/// On whose behalf a write is made.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) token: Token,
    pub(super) bearer: Bearer,
    /// What a multipart upload was stamped with when it was created.
    pub(super) stamp: Option<OperationId>,
}

/// Which request a write comes from, for the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) id: RequestId,
    /// The operation's name.
    pub(super) operation: &'static str,
}

/// What is to be done to an object, ready for the fence.
pub(super) struct Deed {
    pub(super) change: Change,
    pub(super) bytes: Bytes,
    pub(super) request: WriteRequest,
    pub(super) condition: ClientCondition,
}

impl Understood {
    pub(super) fn origin(&self) -> Origin {
        Origin { id: self.id, operation: self.operation.name() }
    }
}

impl Proxy {
    /// Fences one write.
    pub(super) async fn fenced_write(
        &self,
        write: Write,
        place: Place,
        holder: Holder,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let plan = self.plan_in(&place.scope.bucket).await?;
        plan.refuse(write)?;
        let protocol = protocol_of(&self.0.settings, &place, &plan);
        let scope = &place.scope;
        self.refuse_headers(&request.parts.headers, protocol.tags)?;
        if unrecorded(&protocol) && matches!(write, Write::Touch | Write::DeleteVersion) {
            return Err(self.unsupported(&request, None));
        }
        let condition = client_condition(&request.parts.headers, self.0.upstream.dialect())?;
        if write == Write::DeleteVersion && !condition.is_none() {
            return Err(respond::conditional_version_delete());
        }
        // Nobody has looked at the encryption that an upload without a binding was created with.
        if protocol.tags == Tags::Unique && write == Write::Complete && holder.stamp.is_none() {
            return Err(self.unsupported(&request, None));
        }
        let slot = self.0.scopes.slot(scope);
        let body = body::wrap(&request, body)?;
        let loaded = match self.refuse_early(&protocol, scope, &slot, &holder, &request).await? {
            Early::Refused(refusal) => {
                return Err(self.refused_early(&place, holder.token, refusal, &request));
            }
            Early::Passed(loaded) => loaded,
        };
        let id = OperationId::new(clock::random_u128());
        let deed = self.deed(write, holder.token, id, &request, body, &plan).await?;
        let deed = Deed { condition, ..deed };
        let operation = self.operation(id, &holder, &place, &deed);
        refuse_unjudged_condition(&protocol, &operation)?;
        let patience = self.0.settings.contention_wait_max;
        let (verdict, findings) =
            self.run(protocol, operation, deed, scope, &slot, loaded, patience).await;
        self.record(scope, holder.token, request.origin(), &verdict, &findings);
        if write == Write::Complete && matches!(verdict, Verdict::Applied { .. }) {
            self.forget_later(&place, &request);
        }
        if write == Write::Copy && pin_failed(&verdict, &findings, &request.parts.headers) {
            return Err(respond::contended(Contention::LostRaces));
        }
        let (status, token) = (self.0.settings.stale_status, holder.token);
        let dialect = self.0.upstream.dialect();
        respond::verdict(verdict, findings, token, &place, status, request.operation, dialect)
    }

    /// The operation, as the fence wants to know it.
    pub(super) fn operation(
        &self,
        id: OperationId,
        holder: &Holder,
        place: &Place,
        deed: &Deed,
    ) -> Operation {
        Operation {
            id,
            stamp: holder.stamp.unwrap_or(id),
            token: holder.token,
            bearer: holder.bearer.clone(),
            key: KeyId::new(place.key.as_bytes()),
            change: deed.change.clone(),
            condition: deed.condition.clone(),
            // Taken before anything is registered: however long the proxy is paused from here on,
            // the store refuses what it sends before the intent expires (F9).
            signed_at: clock::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs()),
        }
    }

    /// Takes the body in, or gets ready to stream it, and learns what the write will leave.
    async fn deed(
        &self,
        write: Write,
        token: Token,
        id: OperationId,
        request: &Understood,
        body: VerifiedBody<ClientBody>,
        plan: &BucketPlan,
    ) -> Result<Deed, S3Error> {
        let settings = &self.0.settings;
        let time_max = settings.request_body_max;
        let mut headers = for_store(request.parts.headers.clone());
        remove_foreign_extensions(&mut headers);
        let method = request.parts.method.clone();
        let (change, bytes) = match write {
            Write::Delete => (Change::Delete, Bytes::Message(Method::DELETE, bytes::Bytes::new())),
            Write::DeleteVersion => {
                (Change::DeleteVersion, Bytes::Message(Method::DELETE, bytes::Bytes::new()))
            }
            Write::Touch => {
                let message = body::message(body, &mut headers, time_max).await?;
                // A restore can be told to write what it finds elsewhere.
                if message.windows(14).any(|part| part == b"OutputLocation") {
                    return Err(self.unsupported(request, None));
                }
                (Change::Touch, Bytes::Message(method, message))
            }
            Write::Complete => {
                let message = body::message(body, &mut headers, time_max).await?;
                let parts = parse_complete_upload(&message).map_err(respond::invalid_document)?;
                let leaves = assembled_etag(&parts).map(crate::fence::Tag::Version);
                let leaves = leaves.filter(|_| self.0.upstream.dialect() == Dialect::S3);
                let enforcement = plan.complete.enforcement();
                let assembly = Assembly { leaves, enforcement, of_upload: true };
                (Change::Assemble(assembly), Bytes::Message(method, message))
            }
            Write::Copy => {
                let message = body::message(body, &mut headers, time_max).await?;
                let assembly =
                    self.prepare_copy(request, &mut headers, token, id, &plan.copy).await?;
                (Change::Assemble(assembly), Bytes::Message(method, message))
            }
            Write::Put => {
                let buffer_max = settings.body_buffer_bytes_max;
                let keeps = self.0.upstream.takes_trailers();
                let prepared =
                    body::prepare(request, body, &mut headers, buffer_max, time_max, keeps).await?;
                match prepared {
                    Prepared::Buffered(body) => {
                        let forms = forms_of(&body.data);
                        (Change::Put(Contents::Buffered(forms)), Bytes::Buffered(body))
                    }
                    Prepared::Streamed(body, _, payload) => {
                        (Change::Put(Contents::Streamed), Bytes::Streamed(body, payload))
                    }
                }
            }
        };
        let route = request.route.clone();
        let write = WriteRequest { route, headers, quotes: settings.plan.etag_quotes };
        Ok(Deed { change, bytes, request: write, condition: ClientCondition::default() })
    }

    /// Refuses a stale token from the head of the request, before its body is touched and before
    /// `100 Continue`. A client that waits for that is worth asking the ledger for.
    async fn refuse_early(
        &self,
        protocol: &Protocol,
        scope: &Scope,
        slot: &Slot,
        holder: &Holder,
        request: &Understood,
    ) -> Result<Early, S3Error> {
        let refusing = || slot.refusing(holder.token, &holder.bearer, protocol.compare);
        if let Some(refusal) = refusing() {
            return Ok(Early::Refused(refusal));
        }
        let waits = request.parts.headers.contains_key(header::EXPECT);
        if !waits && slot.is_known() {
            return Ok(Early::Passed(None));
        }
        let snapshot = self.learn(scope, slot).await?;
        Ok(refusing().map_or(Early::Passed(Some(snapshot)), Early::Refused))
    }

    /// Loads the record, and takes note of its token.
    pub(super) async fn learn(&self, scope: &Scope, slot: &Slot) -> Result<Snapshot, S3Error> {
        let snapshot = self.load(scope).await.map_err(|_| respond::unavailable())?;
        slot.note(&snapshot);
        Ok(snapshot)
    }

    /// Drives the operation through the protocol. A write that is in memory holds the one place in
    /// its scope from here on, or on its key where the scope has many; a stream takes it when its
    /// bytes are there.
    #[expect(clippy::too_many_arguments, reason = "each of them is another thing")]
    pub(super) async fn run(
        &self,
        protocol: Protocol,
        operation: Operation,
        deed: Deed,
        scope: &Scope,
        slot: &Arc<Slot>,
        loaded: Option<Snapshot>,
        patience: Duration,
    ) -> (Verdict, Findings) {
        let deadline = clock::monotonic() + patience;
        let streamed = matches!(deed.bytes, Bytes::Streamed(..));
        let takes_turn = scope.holds_many() && operation.is_exclusive(&protocol);
        let mut driver = Driver {
            proxy: self,
            scope,
            slot,
            request: deed.request,
            change: deed.change,
            bytes: deed.bytes,
            guard: None,
            key_guard: None,
            takes_turn,
            turn: None,
            deadline,
            pauses: 0,
            findings: Findings::default(),
        };
        if scope.holds_many() {
            let mut protocol = protocol;
            if takes_turn {
                // Every write of another proxy, on whatever key, makes it begin anew.
                protocol.rounds_max = protocol.rounds_max.saturating_mul(EXCLUSIVE_ROUNDS);
            }
            return driver.run_among_many(protocol, operation, loaded, streamed).await;
        }
        let mut memory = Memory::default();
        // A claim waits for others, and a stream for its client.
        let is_claim = operation.change == Change::Claim;
        if streamed || is_claim {
            // What this proxy has settled must not be taken for open. If somebody is in the place
            // just now it is, which costs patience.
            if let Ok(settled) = slot.memory.try_lock() {
                memory.absorb(&settled);
            }
        } else {
            let Ok(mut guard) = tokio::time::timeout(patience, slot.memory.lock()).await else {
                let verdict = Verdict::Contended(Contention::LostRaces);
                return (verdict, driver.findings);
            };
            // Taken, not copied: if this task is cut off, nothing half-true stays behind.
            memory = std::mem::take(&mut *guard);
            driver.guard = Some(guard);
        }
        driver.refresh(&protocol, &operation, &mut memory, loaded);
        let attempt = Attempt::new(protocol, operation, memory);
        let (verdict, mut memory) = driver.drive(attempt).await;
        let owes = memory.owes_withdrawal();
        if driver.guard.is_none() && is_claim {
            // It may be a long write's, and the claim is done.
            driver.guard = slot.memory.try_lock().ok();
        } else if driver.guard.is_none() {
            driver.take_place().await;
        }
        match driver.guard.take() {
            Some(mut guard) => {
                memory.absorb(&guard);
                *guard = memory;
                if owes {
                    self.settle_later(scope, slot);
                }
            }
            // What is settled must not be lost: it would stay in the record until it expires.
            None if owes => self.settle_when_free(scope, slot, memory),
            None => {}
        }
        (verdict, driver.findings)
    }

    /// A refusal of a token that was made before the fence was gone into.
    pub(super) fn refused_early(
        &self,
        place: &Place,
        token: Token,
        refusal: Refusal,
        request: &Understood,
    ) -> S3Error {
        let (verdict, findings) = (Verdict::from(refusal), Findings::default());
        self.record(&place.scope, token, request.origin(), &verdict, &findings);
        respond::refusal(verdict, findings, token, place, self.0.settings.stale_status)
    }

    /// Counts and logs the verdict.
    pub(super) fn record(
        &self,
        scope: &Scope,
        token: Token,
        origin: Origin,
        verdict: &Verdict,
        findings: &Findings,
    ) {
        let (metrics, bucket) = (&self.0.metrics, scope.bucket.as_str());
        let Origin { id, operation } = origin;
        let trouble = findings.trouble.as_deref();
        match verdict {
            Verdict::Applied { .. } | Verdict::Done | Verdict::Claimed | Verdict::AlreadyAbsent => {
                metrics.admitted(bucket);
                tracing::debug!(request_id = %id, %scope, operation, %token, ?verdict, "admitted");
            }
            Verdict::Stale { highest } => {
                metrics.rejected(bucket, Reason::Stale);
                tracing::warn!(
                    request_id = %id, %scope, operation, %token, %highest, "refused: stale token"
                );
            }
            Verdict::Mismatched(mismatch) => {
                let reason = match mismatch {
                    Mismatch::Lock(_) => Reason::LockMismatch,
                    Mismatch::Holder(_) => Reason::HolderMismatch,
                };
                metrics.rejected(bucket, reason);
                tracing::warn!(
                    request_id = %id, %scope, operation, %token, reason = reason.as_str(), "refused"
                );
            }
            Verdict::Barred(intents) => {
                metrics.contended(bucket);
                tracing::warn!(
                    request_id = %id, %scope, operation, %token, waits_for = intents.len(),
                    first = ?intents.first(), "contended"
                );
            }
            Verdict::Contended(why) => {
                metrics.contended(bucket);
                tracing::warn!(request_id = %id, %scope, operation, %token, ?why, "contended");
            }
            Verdict::OutcomeUnknown => {
                metrics.outcome_unknown(bucket);
                tracing::warn!(
                    request_id = %id, %scope, operation, %token, trouble, "outcome unknown"
                );
            }
            Verdict::Unavailable => {
                tracing::warn!(request_id = %id, %scope, operation, %token, trouble, "unavailable");
            }
            Verdict::Broken => {
                tracing::error!(request_id = %id, %scope, operation, %token, "broken invariant");
            }
            Verdict::ConditionFailed(_) | Verdict::Rejected | Verdict::BodyFailed => {
                tracing::debug!(
                    request_id = %id, %scope, operation, %token, ?verdict, trouble, "not applied"
                );
            }
        }
    }
}

/// What the head of a fenced write has come to.
enum Early {
    Refused(Refusal),
    /// With the record, if it had to be asked for.
    Passed(Option<Snapshot>),
}

/// Removes what is neither HTTP's nor S3's: some store may have a meaning for it.
fn remove_foreign_extensions(headers: &mut HeaderMap) {
    let is_foreign = |name: &&header::HeaderName| {
        name.as_str().starts_with("x-") && !name.as_str().starts_with("x-amz-")
    };
    let foreign: Vec<header::HeaderName> = headers.keys().filter(is_foreign).cloned().collect();
    for name in foreign {
        headers.remove(name);
    }
}

/// Whether a copy was refused because its source is not what the proxy has looked at any more,
/// though its client asked for no condition.
fn pin_failed(verdict: &Verdict, findings: &Findings, headers: &HeaderMap) -> bool {
    let answer = findings.answer.as_ref().and_then(|answer| answer.answer.as_ref());
    let refused = answer.is_some_and(|answer| answer.status == StatusCode::PRECONDITION_FAILED);
    let asked = headers.keys().any(|name| name.as_str().starts_with("x-amz-copy-source-if-"));
    *verdict == Verdict::Rejected && refused && !asked
}

/// Whether ordinary writes are not on record, because their own tags never come back.
pub(super) fn unrecorded(protocol: &Protocol) -> bool {
    protocol.tags == Tags::Unique && protocol.keys == Keys::One
}

//! PUT and DELETE of one object, with a token.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use http::header::{self, HeaderMap};
use http::{Method, Response};

use super::body::{self, Prepared};
use super::driver::{Bytes, Driver, Findings};
use super::scopes::Slot;
use super::{Proxy, ResponseBody, Understood, respond};
use crate::clock;
use crate::fence::{
    Attempt, Change, ClientCondition, ClientMatch, Contention, Contents, KeyId, Memory, Operation,
    OperationId, Protocol, Snapshot, Tags, Token, Verdict,
};
use crate::ledger::Scope;
use crate::listener::RequestBody;
use crate::policy::Fencing;
use crate::s3::{S3Error, parse_if_match, parse_if_none_match};
use crate::telemetry::Reason;
use crate::upstream::{WriteRequest, for_store, forms_of};

impl Proxy {
    /// Fences one write.
    pub(super) async fn fenced_write(
        &self,
        fencing: Fencing,
        scope: Scope,
        token: Token,
        request: Understood,
        body: RequestBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let settings = &self.0.settings;
        let protocol = Protocol {
            tags: settings.policy.tags_of(&scope.bucket),
            compare: fencing.compare,
            ..settings.protocol
        };
        refuse_encryption(&request.parts.headers, protocol.tags)?;
        let condition = client_condition(&request.parts.headers)?;
        let slot = self.0.scopes.slot(&scope);
        let body = body::wrap(&request, body)?;
        let loaded = match self.refuse_early(&protocol, &scope, &slot, token, &request).await? {
            Early::Stale(highest) => {
                let verdict = Verdict::Stale { highest };
                return self.conclude(&scope, token, &request, verdict, Findings::default());
            }
            Early::Passed(loaded) => loaded,
        };

        let mut headers = for_store(request.parts.headers.clone());
        let (change, bytes) = if request.parts.method == Method::DELETE {
            (Change::Delete, Bytes::None)
        } else {
            let (buffer_max, time_max) =
                (settings.body_buffer_bytes_max, settings.request_body_max);
            match body::prepare(&request, body, &mut headers, buffer_max, time_max).await? {
                Prepared::Buffered(body) => {
                    let forms = forms_of(&body.data);
                    (Change::Put(Contents::Buffered(forms)), Bytes::Buffered(body))
                }
                Prepared::Streamed(body, _, payload) => {
                    (Change::Put(Contents::Streamed), Bytes::Streamed(body, payload))
                }
            }
        };
        let operation = Operation {
            id: OperationId::new(clock::random_u128()),
            token,
            key: KeyId::new(scope.key.as_bytes()),
            change,
            condition,
            // Taken before anything is registered: however long the proxy is paused from here on,
            // the store refuses what it sends before the intent expires (F9).
            signed_at: clock::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs()),
        };
        let write =
            WriteRequest { route: request.route.clone(), headers, quotes: settings.etag_quotes };
        let (verdict, findings) =
            self.run(protocol, operation, write, bytes, &scope, &slot, loaded).await;
        self.conclude(&scope, token, &request, verdict, findings)
    }

    /// Refuses a stale token from the head of the request, before its body is touched and before
    /// `100 Continue`. A client that waits for that is worth asking the ledger for.
    async fn refuse_early(
        &self,
        protocol: &Protocol,
        scope: &Scope,
        slot: &Slot,
        token: Token,
        request: &Understood,
    ) -> Result<Early, S3Error> {
        if let Some(highest) = slot.refusing(token, protocol.compare) {
            return Ok(Early::Stale(highest));
        }
        let waits = request.parts.headers.contains_key(header::EXPECT);
        if !waits && slot.is_known() {
            return Ok(Early::Passed(None));
        }
        let snapshot = self.load(scope).await.map_err(|_| respond::unavailable())?;
        slot.note(snapshot.highest());
        match slot.refusing(token, protocol.compare) {
            Some(highest) => Ok(Early::Stale(highest)),
            None => Ok(Early::Passed(Some(snapshot))),
        }
    }

    /// Drives the operation through the protocol. A buffered write holds the one place in its
    /// scope from here on; a stream takes it when its bytes are there.
    #[expect(clippy::too_many_arguments, reason = "each is a different thing, used once")]
    async fn run(
        &self,
        protocol: Protocol,
        operation: Operation,
        request: WriteRequest,
        bytes: Bytes,
        scope: &Scope,
        slot: &Arc<Slot>,
        loaded: Option<Snapshot>,
    ) -> (Verdict, Findings) {
        let deadline = clock::monotonic() + self.0.settings.contention_wait_max;
        let streamed = matches!(bytes, Bytes::Streamed(..));
        let mut driver = Driver {
            proxy: self,
            scope,
            slot,
            request,
            change: operation.change.clone(),
            bytes,
            guard: None,
            deadline,
            pauses: 0,
            findings: Findings::default(),
        };
        let mut memory = Memory::default();
        if streamed {
            // What this proxy has settled must not be taken for open. If somebody is in the place
            // just now it is, which costs patience.
            if let Ok(settled) = slot.memory.try_lock() {
                memory.absorb(&settled);
            }
        } else {
            let wait = self.0.settings.contention_wait_max;
            let Ok(mut guard) = tokio::time::timeout(wait, slot.memory.lock()).await else {
                let verdict = Verdict::Contended(Contention::LostRaces);
                return (verdict, driver.findings);
            };
            // Taken, not copied: if this task is cut off, nothing half-true stays behind.
            memory = std::mem::take(&mut *guard);
            driver.guard = Some(guard);
        }
        if let Some(snapshot) = loaded {
            memory.offer(snapshot);
        }
        let mut attempt = Attempt::new(protocol, operation, memory);
        let verdict = driver.drive(&mut attempt).await;
        let mut memory = attempt.into_memory();
        slot.note(memory.highest());
        let owes = memory.owes_withdrawal();
        if driver.guard.is_none() {
            driver.take_place().await;
        }
        if let Some(mut guard) = driver.guard.take() {
            memory.absorb(&guard);
            *guard = memory;
        }
        if owes {
            self.settle_later(scope, slot);
        }
        (verdict, driver.findings)
    }

    /// Counts and logs the verdict, and makes it the client's answer.
    fn conclude(
        &self,
        scope: &Scope,
        token: Token,
        request: &Understood,
        verdict: Verdict,
        findings: Findings,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let (metrics, bucket) = (&self.0.metrics, scope.bucket.as_str());
        let (id, operation) = (request.id, request.operation.name());
        let trouble = findings.trouble.as_deref();
        match &verdict {
            Verdict::Applied { recognised, .. } => {
                metrics.admitted(bucket);
                tracing::debug!(request_id = %id, %scope, operation, %token, recognised, "admitted");
            }
            Verdict::AlreadyAbsent => {
                metrics.admitted(bucket);
                tracing::debug!(request_id = %id, %scope, operation, %token, "already absent");
            }
            Verdict::Stale { highest } => {
                metrics.rejected(bucket, Reason::Stale);
                tracing::warn!(
                    request_id = %id, %scope, operation, %token, %highest, "refused: stale token"
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
        let stale_status = self.0.settings.stale_status;
        respond::verdict(verdict, findings, token, scope, stale_status)
    }
}

/// What the head of a fenced write has come to.
enum Early {
    Stale(Token),
    /// With the record, if it had to be asked for.
    Passed(Option<Snapshot>),
}

/// The client's own preconditions.
fn client_condition(headers: &HeaderMap) -> Result<ClientCondition, S3Error> {
    let mut condition = ClientCondition::default();
    if let Some(value) = single(headers, &header::IF_MATCH)? {
        let matched = parse_if_match(value)
            .map_err(|error| respond::invalid_condition(header::IF_MATCH, error))?;
        condition.if_match = Some(matched.map_or(ClientMatch::Any, ClientMatch::Version));
    }
    if let Some(value) = single(headers, &header::IF_NONE_MATCH)? {
        parse_if_none_match(value)
            .map_err(|error| respond::invalid_condition(header::IF_NONE_MATCH, error))?;
        condition.if_none_match_any = true;
    }
    Ok(condition)
}

fn single<'a>(
    headers: &'a HeaderMap,
    name: &header::HeaderName,
) -> Result<Option<&'a str>, S3Error> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    let malformed = || respond::malformed_header(name.clone());
    match (first, second) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(malformed()),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| malformed()),
    }
}

/// Encryption that the fence cannot see through: with SSE-C, HEAD needs the customer's key; where
/// tags are said to be unique, another encryption could bring an earlier tag back.
fn refuse_encryption(headers: &HeaderMap, tags: Tags) -> Result<(), S3Error> {
    const SSE: &str = "x-amz-server-side-encryption";
    const SSE_C: &str = "x-amz-server-side-encryption-customer-algorithm";
    if headers.contains_key(SSE_C) {
        return Err(respond::unsupported_encryption(SSE_C));
    }
    let named = headers.get(SSE).map(|value| value.as_bytes());
    let keeps_tags_unique = named.is_none_or(|value| value.starts_with(b"aws:kms"));
    if tags == Tags::Unique && !keeps_tags_unique {
        return Err(respond::unsupported_encryption(SSE));
    }
    Ok(())
}

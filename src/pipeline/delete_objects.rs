//! DeleteObjects: each key is fenced on its own, and the client gets one answer.
//!
//! Keys that no fence guards go to the store together, as they came if there are no others.

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode, header};

use super::body::ClientBody;
use super::conditions::{client_match, refuse_unjudged_condition};
use super::driver::{Bytes, Findings};
use super::fenced_write::{Deed, Holder, Origin, unrecorded};
use super::plan::protocol_of;
use super::{Proxy, ResponseBody, Understood, body, full_body, respond};
use crate::clock;
use crate::fence::{
    Bearer, Change, ClientCondition, Mode, OperationId, Token, UnfencedPermit, Verdict,
};
use crate::policy::Place;
use crate::s3::{
    Bucket, DeleteObjectsRequest, DeleteOutcome, DeletedObject, ObjectToDelete, Operation, S3Error,
    parse_delete_objects, parse_delete_result, write_delete_objects, write_delete_result,
};
use crate::upstream::{
    Dialect, Route, WriteRequest, content_md5, for_store, query_value, set_length,
};

/// How many keys of one request are worked on at a time.
const KEYS_IN_FLIGHT_MAX: usize = 8;

/// Headers of the request that go with every one of its deletes.
const PASSED_ON: [&str; 4] = [
    "x-amz-bypass-governance-retention",
    "x-amz-expected-bucket-owner",
    "x-amz-mfa",
    "x-amz-request-payer",
];

/// What has come of one key.
enum Progress {
    Over(DeleteOutcome),
    /// Nothing guards it.
    Free(UnfencedPermit),
}

/// What the deletes of one request have in common.
struct Batch<'a> {
    bucket: &'a Bucket,
    token: Option<Token>,
    bearer: Bearer,
    origin: Origin,
    headers: HeaderMap,
}

impl Proxy {
    /// Deletes many objects.
    pub(super) async fn delete_objects(
        &self,
        bucket: &Bucket,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let mut headers = for_store(request.parts.headers.clone());
        let body = body::wrap(&request, body)?;
        let message = body::message(body, &mut headers, self.0.settings.request_body_max).await?;
        let asked = parse_delete_objects(&message).map_err(respond::invalid_document)?;
        let batch = Batch {
            bucket,
            token: request.token,
            bearer: request.bearer.clone(),
            origin: request.origin(),
            headers: passed_on(&headers),
        };
        let batch = &batch;
        let work: Vec<BoxFuture<'_, Progress>> =
            asked.objects.iter().map(|object| self.delete_one(batch, object)).collect();
        let progress: Vec<Progress> =
            stream::iter(work).buffered(KEYS_IN_FLIGHT_MAX).collect().await;
        let mut permits = Vec::new();
        let mut free = Vec::new();
        let mut over = Vec::new();
        for (at, (object, one)) in asked.objects.iter().zip(progress).enumerate() {
            match one {
                Progress::Over(outcome) => {
                    over.push((at, DeletedObject { key: object.key.clone(), outcome }));
                }
                Progress::Free(permit) => {
                    permits.push(permit);
                    free.push((at, object.clone()));
                }
            }
        }
        let Some(permit) = permits.pop() else {
            return Ok(answer(in_order(over), asked.quiet));
        };
        if over.is_empty() {
            // Nothing is fenced: the request goes through as it came.
            let body = message;
            set_length(&mut headers, body.len() as u64);
            let sent =
                self.0.upstream.step(permit, Method::POST, &request.route, headers, body).await;
            return sent.map(respond::store_answer).map_err(|error| {
                tracing::warn!(request_id = %request.id, %bucket, %error, "no answer");
                respond::store_silent()
            });
        }
        over.extend(self.delete_together(permit, batch, &request.route, free).await);
        Ok(answer(in_order(over), asked.quiet))
    }

    /// Boxed, because the compiler cannot see through a stream of these futures that it is `Send`.
    fn delete_one<'a>(
        &'a self,
        batch: &'a Batch<'a>,
        object: &'a ObjectToDelete,
    ) -> BoxFuture<'a, Progress> {
        async move {
            match self.try_delete_one(batch, object).await {
                Ok(progress) => progress,
                Err(error) => Progress::Over(failure(object, &error)),
            }
        }
        .boxed()
    }

    async fn try_delete_one(
        &self,
        batch: &Batch<'_>,
        object: &ObjectToDelete,
    ) -> Result<Progress, S3Error> {
        let place = self.place_of(batch.bucket, &object.key)?;
        let token = match (place.fencing.mode, batch.token) {
            (Mode::IfFenced | Mode::Require, Some(token)) => token,
            (Mode::Off, _) | (Mode::IfFenced | Mode::Require, None) => {
                let permit = self.admit_without_token(&place, batch.origin).await?;
                if object.etag.is_some() && self.0.upstream.dialect() == Dialect::Gcs {
                    return Err(respond::unspeakable_header("If-Match"));
                }
                return Ok(Progress::Free(permit));
            }
        };
        let plan = self.plan_in(batch.bucket).await?;
        plan.refuse(crate::s3::Write::Delete)?;
        let protocol = protocol_of(&self.0.settings, &place, &plan);
        if object.last_modified_time.is_some() || object.size.is_some() {
            return Err(respond::unknown_delete_condition());
        }
        let deed = self.deed_of(batch, object)?;
        if deed.change == Change::DeleteVersion && unrecorded(&protocol) {
            return Err(respond::unsupported(Operation::DeleteObjects, None));
        }
        let slot = self.0.scopes.slot(&place.scope);
        let holder = Holder { token, bearer: batch.bearer.clone(), stamp: None };
        let (verdict, findings) = match slot.refusing(token, &holder.bearer, protocol.compare) {
            Some(refusal) => (refusal.into(), Findings::default()),
            None => {
                let id = OperationId::new(clock::random_u128());
                let operation = self.operation(id, &holder, &place, &deed);
                refuse_unjudged_condition(&protocol, &operation)?;
                let patience = self.0.settings.contention_wait_max;
                self.run(protocol, operation, deed, &place.scope, &slot, None, patience).await
            }
        };
        self.record(&place.scope, token, batch.origin, &verdict, &findings);
        self.outcome(verdict, findings, token, &place, object).map(Progress::Over)
    }

    fn deed_of(&self, batch: &Batch<'_>, object: &ObjectToDelete) -> Result<Deed, S3Error> {
        let dialect = self.0.upstream.dialect();
        let if_match = object.etag.as_deref().map(|etag| client_match(etag, dialect));
        let condition =
            ClientCondition { if_match: if_match.transpose()?, if_none_match_any: false };
        let route = Route::to_object(batch.bucket, &object.key);
        let (change, route) = match &object.version_id {
            None => (Change::Delete, route),
            Some(_) if !condition.is_none() => {
                return Err(respond::conditional_version_delete());
            }
            Some(id) => {
                let query = format!("versionId={}", query_value(id));
                (Change::DeleteVersion, route.with_query(query))
            }
        };
        let headers = batch.headers.clone();
        let request = WriteRequest { route, headers, quotes: self.0.settings.plan.etag_quotes };
        let bytes = Bytes::Message(Method::DELETE, bytes::Bytes::new());
        Ok(Deed { change, bytes, request, condition })
    }

    /// The verdict on one key, as its line of the answer.
    fn outcome(
        &self,
        verdict: Verdict,
        findings: Findings,
        token: Token,
        place: &Place,
        object: &ObjectToDelete,
    ) -> Result<DeleteOutcome, S3Error> {
        let version_id = object.version_id.clone();
        let answer = findings.answer.as_ref().and_then(|answer| answer.answer.clone());
        match (verdict, answer) {
            (Verdict::Applied { .. } | Verdict::Done | Verdict::AlreadyAbsent, answer) => {
                let header = |name: &str| {
                    let value = answer.as_ref()?.headers.get(name)?;
                    value.to_str().ok().map(str::to_owned)
                };
                let delete_marker = header("x-amz-delete-marker");
                let marker = delete_marker.as_ref().and_then(|_| header("x-amz-version-id"));
                Ok(DeleteOutcome::Deleted {
                    version_id,
                    delete_marker,
                    delete_marker_version_id: marker,
                })
            }
            (Verdict::Rejected, Some(answer)) if !answer.status.is_success() => {
                Ok(DeleteOutcome::Failed {
                    code: answer.code().unwrap_or_else(|| "InternalError".into()),
                    message: answer.element("Message").unwrap_or_default(),
                    version_id,
                })
            }
            (verdict, _) => {
                let status = self.0.settings.stale_status;
                Err(respond::refusal(verdict, findings, token, place, status))
            }
        }
    }

    /// The keys that nothing guards, in one request of the proxy's own.
    async fn delete_together(
        &self,
        permit: UnfencedPermit,
        batch: &Batch<'_>,
        route: &Route,
        free: Vec<(usize, ObjectToDelete)>,
    ) -> Vec<(usize, DeletedObject)> {
        let objects = free.iter().map(|(_, object)| object.clone()).collect();
        let request = DeleteObjectsRequest { quiet: false, objects };
        let Some(xml) = write_delete_objects(&request) else {
            return all_failed(free, &respond::internal());
        };
        let mut headers = batch.headers.clone();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/xml"));
        headers.insert(HeaderName::from_static("content-md5"), content_md5(xml.as_bytes()));
        set_length(&mut headers, xml.len() as u64);
        let sent = self.0.upstream.step(permit, Method::POST, route, headers, xml.into()).await;
        let answer = match sent {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(request_id = %batch.origin.id, %error, "no answer");
                return all_failed(free, &respond::store_silent());
            }
        };
        if answer.status != StatusCode::OK {
            let code = answer.code().unwrap_or_else(|| "InternalError".into());
            let message = answer.element("Message").unwrap_or_default();
            let failed = |object: ObjectToDelete| {
                let (code, message) = (code.clone(), message.clone());
                let outcome =
                    DeleteOutcome::Failed { code, message, version_id: object.version_id };
                DeletedObject { key: object.key, outcome }
            };
            return free.into_iter().map(|(at, object)| (at, failed(object))).collect();
        }
        match parse_delete_result(&answer.body) {
            Ok(results) => paired(free, results),
            Err(error) => {
                tracing::warn!(request_id = %batch.origin.id, %error, "the answer is no result");
                all_failed(free, &respond::store_silent())
            }
        }
    }
}

/// The store's results, each with the place of its key. What the store says nothing of has an
/// outcome that is not known.
fn paired(
    free: Vec<(usize, ObjectToDelete)>,
    mut results: Vec<DeletedObject>,
) -> Vec<(usize, DeletedObject)> {
    let version = |result: &DeletedObject| match &result.outcome {
        DeleteOutcome::Deleted { version_id, .. } | DeleteOutcome::Failed { version_id, .. } => {
            version_id.clone()
        }
    };
    let mut pair = |(at, object): (usize, ObjectToDelete)| {
        let same = |result: &DeletedObject| {
            result.key == object.key && version(result) == object.version_id
        };
        match results.iter().position(same) {
            Some(found) => (at, results.remove(found)),
            None => {
                let outcome = failure(&object, &respond::store_silent());
                (at, DeletedObject { key: object.key, outcome })
            }
        }
    };
    free.into_iter().map(&mut pair).collect()
}

fn failure(object: &ObjectToDelete, error: &S3Error) -> DeleteOutcome {
    DeleteOutcome::Failed {
        code: error.code.to_owned(),
        message: error.message.clone(),
        version_id: object.version_id.clone(),
    }
}

fn all_failed(
    objects: Vec<(usize, ObjectToDelete)>,
    error: &S3Error,
) -> Vec<(usize, DeletedObject)> {
    let failed = |(at, object): (usize, ObjectToDelete)| {
        let outcome = failure(&object, error);
        (at, DeletedObject { key: object.key, outcome })
    };
    objects.into_iter().map(failed).collect()
}

fn in_order(mut results: Vec<(usize, DeletedObject)>) -> Vec<DeletedObject> {
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn answer(results: Vec<DeletedObject>, quiet: bool) -> Response<ResponseBody> {
    let mut response = Response::new(full_body(write_delete_result(&results, quiet).into()));
    let xml = header::HeaderValue::from_static("application/xml");
    response.headers_mut().insert(header::CONTENT_TYPE, xml);
    response
}

fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let passed = |name: &HeaderName| PASSED_ON.contains(&name.as_str());
    headers
        .iter()
        .filter(|(name, _)| passed(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

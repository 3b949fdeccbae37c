//! Multipart uploads, up to their completion: no object changes, so nothing is registered. The
//! token is looked at early, and bound to the upload for clients that send it only once.

use std::time::Duration;

use http::{Method, Response};

use super::body::ClientBody;
use super::plan::protocol_of;
use super::scopes::Slot;
use super::{Proxy, ResponseBody, Understood, body, respond};
use crate::clock;
use crate::fence::{
    Mode, OperationId, Refusal, Token, UnfencedPermit, admit_abort_of_own_upload, admit_upload_step,
};
use crate::ledger::{Binding, Upload};
use crate::policy::Place;
use crate::s3::{Operation, Query, S3Error};
use crate::upstream::{for_store, set_length, stamp};

/// Longer ids are nobody's: they would only fill the memory.
const UPLOAD_ID_BYTES_MAX: usize = 1024;

/// How long an upload that is over is remembered, so that a client that lost the answer to its
/// completion and asks again is recognised.
const FORGET_DELAY: Duration = Duration::from_secs(300);

impl Proxy {
    /// CreateMultipartUpload, UploadPart, UploadPartCopy, AbortMultipartUpload.
    pub(super) async fn upload_step(
        &self,
        place: Place,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        if place.fencing.mode == Mode::Off {
            return self.write_without_token(&place, request, body).await;
        }
        if request.operation == Operation::CreateMultipartUpload {
            return match request.token {
                Some(token) => self.create_upload(place, token, request, body).await,
                None => self.write_without_token(&place, request, body).await,
            };
        }
        let binding = self.binding(&place, &request).await?;
        let bound = binding.map(|binding| binding.token);
        let Some(token) = request.token.or(bound) else {
            return self.write_without_token(&place, request, body).await;
        };
        if request.operation == Operation::AbortMultipartUpload && bound == Some(token) {
            self.forget_later(&place, &request);
            return self.pass(admit_abort_of_own_upload(), request, body).await;
        }
        let slot = self.0.scopes.slot(&place.scope);
        if !slot.is_known() {
            self.learn(&place.scope, &slot).await?;
        }
        match self.admit_step(&place, token, &slot, &request) {
            Ok(permit) => self.pass(permit, request, body).await,
            Err(error) => Err(error),
        }
    }

    /// Decides on a step by what is known of the scope.
    fn admit_step(
        &self,
        place: &Place,
        token: Token,
        slot: &Slot,
        request: &Understood,
    ) -> Result<UnfencedPermit, S3Error> {
        let refused = |refusal| self.refused_early(place, token, refusal, request);
        let compare = place.fencing.compare;
        if let Some(refusal @ Refusal::Mismatched(_)) =
            slot.refusing(token, &request.bearer, compare)
        {
            return Err(refused(refusal));
        }
        admit_upload_step(compare, token, slot.highest())
            .map_err(|highest| refused(Refusal::Stale { highest }))
    }

    /// Creates an upload whose object is going to carry the stamp, and binds the token to it.
    async fn create_upload(
        &self,
        place: Place,
        token: Token,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let plan = self.plan_in(&place.scope.bucket).await?;
        plan.refuse(crate::s3::Write::Complete)?;
        let protocol = protocol_of(&self.0.settings, &place, &plan);
        let scope = &place.scope;
        self.refuse_headers(&request.parts.headers, protocol.tags)?;
        let slot = self.0.scopes.slot(scope);
        // The record is asked: what a stale holder uploads would be taken in for nothing.
        self.learn(scope, &slot).await?;
        let permit = self.admit_step(&place, token, &slot, &request)?;
        let binding = Binding { token, stamp: OperationId::new(clock::random_u128()) };
        let mut headers = for_store(request.parts.headers.clone());
        let body = body::wrap(&request, body)?;
        let message = body::message(body, &mut headers, self.0.settings.request_body_max).await?;
        stamp(&mut headers, token, binding.stamp);
        set_length(&mut headers, message.len() as u64);
        let sent = self.0.upstream.step(permit, Method::POST, &request.route, headers, message);
        let answer = sent.await.map_err(|error| {
            tracing::warn!(request_id = %request.id, %scope, %error, "no upload was created");
            respond::unavailable()
        })?;
        let id = answer.element("UploadId").filter(|_| answer.status.is_success());
        if let Some(id) = id {
            let upload = Upload { bucket: scope.bucket.clone(), key: place.key.clone(), id };
            if let Err(error) = self.0.ledger.bind(&upload, &binding).await {
                tracing::error!(request_id = %request.id, %scope, %error, "the ledger failed");
                self.0.upstream.abort_upload(&request.route, &upload.id).await;
                return Err(respond::unavailable());
            }
            self.0.bindings.note(upload, binding);
        }
        Ok(respond::store_answer(answer))
    }

    /// What the upload that the request names was created with.
    pub(super) async fn binding(
        &self,
        place: &Place,
        request: &Understood,
    ) -> Result<Option<Binding>, S3Error> {
        let Some(upload) = upload_of(place, request) else { return Ok(None) };
        if let Some(known) = self.0.bindings.get(&upload) {
            return Ok(Some(known));
        }
        let found = self.0.ledger.binding(&upload).await.map_err(|error| {
            let scope = &place.scope;
            tracing::error!(request_id = %request.id, %scope, %error, "the ledger failed");
            respond::unavailable()
        })?;
        if let Some(binding) = found {
            self.0.bindings.note(upload, binding);
        }
        Ok(found)
    }

    /// Forgets the binding of an upload that is over, a little later.
    pub(super) fn forget_later(&self, place: &Place, request: &Understood) {
        let Some(upload) = upload_of(place, request) else { return };
        let proxy = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(FORGET_DELAY).await;
            proxy.0.bindings.forget(&upload);
            if let Err(error) = proxy.0.ledger.unbind(&upload).await {
                tracing::debug!(%error, "the binding of an upload stays in the ledger");
            }
        });
    }
}

fn upload_of(place: &Place, request: &Understood) -> Option<Upload> {
    let query = Query::new(request.route.query.as_deref().unwrap_or_default());
    let id = String::from_utf8(query.value("uploadId")?).ok()?;
    (id.len() <= UPLOAD_ID_BYTES_MAX).then(|| Upload {
        bucket: place.scope.bucket.clone(),
        key: place.key.clone(),
        id,
    })
}

//! Stages 4 and 5: which scope a request falls in, and what is done with it there.

use http::Response;

use super::body::ClientBody;
use super::fenced_write::{Holder, Origin};
use super::{Proxy, ResponseBody, Understood, respond};
use crate::fence::{Mode, UnfencedPermit, admit_bucket_operation, admit_unfenced, needs_record};
use crate::policy::Place;
use crate::s3::{
    Bucket, Footprint, ObjectKey, Operation, Query, S3Error, Target, Write, overrides_method,
    side_door, unknown_write_header,
};
use crate::telemetry::Reason;

/// What is done about keys that the store takes for spellings of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aliases {
    /// `a//b`, `/a/b` and `a/./b`.
    pub slashes: Slashes,
    /// Whether `A` is `a`: capital letters are refused.
    pub folds_case: bool,
    /// Whether the normal forms of Unicode are one: all but form C are refused.
    pub normalizes: bool,
}

/// What is done about keys that a store may take for paths of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slashes {
    /// Nothing: the store takes them as they are.
    Kept,
    /// Writes of them are refused.
    Refused,
    /// `a//b` and `/a/b` share the fence of `a/b`; what else the store may fold is refused.
    Collapsed,
}

impl Proxy {
    /// Stages 4 and 5.
    pub(super) async fn decide(
        &self,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let footprint = request.operation.footprint();
        let door = side_door(&request.parts.headers).map(str::to_owned);
        // Another method in a header is another operation to whoever honours it.
        let overridden = request.parts.headers.keys().any(|name| overrides_method(name.as_str()));
        if self.asks_for_claim(&request)? {
            if footprint != Footprint::Reads || overridden {
                return Err(self.unsupported(&request, None));
            }
            return self.claim_and_read(request, body).await;
        }
        if footprint == Footprint::Reads && !overridden {
            return self.read(request, body).await;
        }
        let door = door.or_else(|| self.unknown_header(footprint, &request));
        if let Target::Object(bucket, key) = &request.target
            && !self.0.settings.policy.is_off_everywhere(bucket)
        {
            self.place_of(bucket, key)?;
        }
        if footprint != Footprint::Form && self.reaches_nothing_fenced(&request, door.is_some()) {
            return match admit_unfenced(Mode::Off, None) {
                Ok(permit) => self.pass(permit, request, body).await,
                Err(_) => Err(self.unsupported(&request, door.as_deref())),
            };
        }
        if door.is_some() {
            return Err(self.unsupported(&request, door.as_deref()));
        }
        self.decide_by_footprint(footprint, request, body).await
    }

    /// What may reach something fenced.
    async fn decide_by_footprint(
        &self,
        footprint: Footprint,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let query = Query::new(request.route.query.as_deref().unwrap_or_default());
        let alone = request.operation.is_all_of(query);
        match (footprint, request.target.clone()) {
            (Footprint::Object(write), Target::Object(bucket, key)) if alone => {
                self.write(write, self.place_of(&bucket, &key)?, request, body).await
            }
            (Footprint::Upload, Target::Object(bucket, key)) if alone => {
                self.upload_step(self.place_of(&bucket, &key)?, request, body).await
            }
            (Footprint::Objects, Target::Bucket(bucket)) if alone => {
                self.delete_objects(&bucket, request, body).await
            }
            (Footprint::Form, Target::Bucket(bucket)) if alone => {
                self.post_object(&bucket, request, body).await
            }
            (Footprint::CreatesBucket, Target::Bucket(_)) => {
                self.pass(admit_bucket_operation(), request, body).await
            }
            (Footprint::Bucket, Target::Bucket(bucket)) => {
                self.bucket_operation(&bucket, request, body).await
            }
            (
                Footprint::Reads
                | Footprint::Object(_)
                | Footprint::Upload
                | Footprint::Objects
                | Footprint::Form
                | Footprint::CreatesBucket
                | Footprint::Bucket
                | Footprint::Refused,
                _,
            ) => Err(self.unsupported(&request, None)),
        }
    }

    /// The scope that a key belongs to.
    ///
    /// # Errors
    ///
    /// When the store takes the key for another one, which has a fence of its own.
    pub(super) fn place_of(&self, bucket: &Bucket, key: &ObjectKey) -> Result<Place, S3Error> {
        let policy = &self.0.settings.policy;
        let aliases = self.0.settings.aliases;
        let folded = aliases.folds_case && key.has_capitals();
        if folded || aliases.normalizes && !key.is_normalized() {
            return Err(respond::alias_of_another_key());
        }
        let key = match aliases.slashes {
            Slashes::Kept => return Ok(policy.place(bucket, key.clone())),
            Slashes::Refused => Some(key.clone()),
            Slashes::Collapsed => key.with_slashes_collapsed(),
        };
        match key {
            Some(key) if !key.may_be_aliased() => Ok(policy.place(bucket, key)),
            Some(_) | None => Err(respond::alias_of_another_key()),
        }
    }

    /// The first header that may make a write of an object another one.
    fn unknown_header(&self, footprint: Footprint, request: &Understood) -> Option<String> {
        match footprint {
            Footprint::Object(_) | Footprint::Upload | Footprint::Objects | Footprint::Form => {
                let allowed = &self.0.settings.allowed_headers;
                unknown_write_header(&request.parts.headers, allowed).map(str::to_owned)
            }
            Footprint::Reads
            | Footprint::CreatesBucket
            | Footprint::Bucket
            | Footprint::Refused => None,
        }
    }

    /// Changes or deletes a bucket. Some stores delete a bucket with all that is in it (SeaweedFS
    /// does by default), so that its emptiness is looked at first where anything in it is fenced.
    async fn bucket_operation(
        &self,
        bucket: &Bucket,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let policy = &self.0.settings.policy;
        let query = Query::new(request.route.query.as_deref().unwrap_or_default());
        let reaches_others = request.operation.reaches_other_buckets(query);
        if !policy.allows_bucket_operation(bucket, reaches_others) {
            self.refused(&request, None);
            return Err(respond::bucket_operation_denied(request.operation, bucket));
        }
        if request.operation == Operation::DeleteBucket && !policy.is_off_everywhere(bucket) {
            match self.0.upstream.is_empty(bucket).await {
                Ok(true) => {}
                Ok(false) => return Err(respond::bucket_not_empty(bucket)),
                Err(error) => {
                    tracing::warn!(request_id = %request.id, %bucket, %error, "not looked into");
                    return Err(respond::unavailable());
                }
            }
        }
        self.pass(admit_bucket_operation(), request, body).await
    }

    /// A write of one object.
    pub(super) async fn write(
        &self,
        write: Write,
        place: Place,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        if place.fencing.mode == Mode::Off {
            return self.write_without_token(&place, request, body).await;
        }
        let binding = match write {
            Write::Complete => self.binding(&place, &request).await?,
            Write::Put | Write::Delete | Write::Copy | Write::Touch | Write::DeleteVersion => None,
        };
        match request.token.or(binding.map(|binding| binding.token)) {
            None => self.write_without_token(&place, request, body).await,
            Some(token) => {
                let stamp = binding.map(|binding| binding.stamp);
                let holder = Holder { token, bearer: request.bearer.clone(), stamp };
                self.fenced_write(write, place, holder, request, body).await
            }
        }
    }

    /// F13.
    pub(super) async fn write_without_token(
        &self,
        place: &Place,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let permit = self.admit_without_token(place, request.origin()).await?;
        self.pass(permit, request, body).await
    }

    /// Decides on a write without a token, whatever it is.
    pub(super) async fn admit_without_token(
        &self,
        place: &Place,
        origin: Origin,
    ) -> Result<UnfencedPermit, S3Error> {
        let Place { scope, fencing, .. } = place;
        let snapshot = if needs_record(fencing.mode) {
            Some(self.load(scope).await.map_err(|_| respond::unavailable())?)
        } else {
            None
        };
        admit_unfenced(fencing.mode, snapshot.as_ref()).map_err(|required| {
            self.0.metrics.rejected(scope.bucket.as_str(), Reason::MissingToken);
            tracing::info!(
                request_id = %origin.id, %scope, operation = origin.operation,
                reason = Reason::MissingToken.as_str(), "refused"
            );
            respond::token_required(required)
        })
    }

    /// Whether nothing that the request can reach is fenced.
    fn reaches_nothing_fenced(&self, request: &Understood, side_door: bool) -> bool {
        let policy = &self.0.settings.policy;
        let query = Query::new(request.route.query.as_deref().unwrap_or_default());
        let operation = request.operation;
        match &request.target {
            Target::Service => policy.is_off_for_service(),
            _ if operation.reaches_other_buckets(query) => policy.is_off_for_service(),
            // A vendor's header can make a copy a rename, which deletes its source.
            _ if side_door && request.parts.headers.contains_key("x-amz-copy-source") => {
                policy.is_off_for_service()
            }
            Target::Object(bucket, key) if !side_door && operation.stays_on_its_key(query) => {
                let place = self.place_of(bucket, key);
                let place = place.unwrap_or_else(|_| policy.place(bucket, key.clone()));
                place.fencing.mode == Mode::Off
            }
            Target::Bucket(bucket) | Target::Object(bucket, _) => policy.is_off_everywhere(bucket),
        }
    }

    pub(super) fn unsupported(&self, request: &Understood, header: Option<&str>) -> S3Error {
        self.refused(request, header);
        respond::unsupported(request.operation, header)
    }

    /// Counts and logs a request that is refused whatever its token.
    fn refused(&self, request: &Understood, header: Option<&str>) {
        let reason = Reason::UnsupportedOperation;
        let bucket = request.target.bucket().map_or("", Bucket::as_str);
        self.0.metrics.rejected(bucket, reason);
        tracing::info!(
            request_id = %request.id, bucket, operation = request.operation.name(), header,
            reason = reason.as_str(), "refused"
        );
    }
}

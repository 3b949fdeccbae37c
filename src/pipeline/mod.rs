//! The life of a request: the stages in order, and the only place where they meet.
//!
//! 1. [`target`](crate::s3::Target) – which bucket and key, which operation;
//! 2. [`auth`](crate::auth) – who signed it, and what its body has to be;
//! 3. [`token`] – which fencing token it carries;
//! 4. [`policy`](crate::policy) – which scope it falls in, and how that is fenced;
//! 5. `pass_through`, `fenced_write`, or a refusal;
//! 6. `respond` – verdicts and errors become S3 answers.
//!
//! Everything that can be refused from the head of a request is refused before its body is
//! touched, so that no `100 Continue` is sent for it.

mod body;
mod driver;
mod fenced_write;
mod pass_through;
mod respond;
mod scopes;
mod settle;
pub mod token;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};

pub use token::TokenSignature;

use self::scopes::Scopes;
use crate::admin::Readiness;
use crate::auth::{KeyRing, Verified, verify};
use crate::clock;
use crate::fence::{Mode, Protocol, Token, admit_bucket_operation, admit_unfenced, needs_record};
use crate::ledger::{Ledger, Scope};
use crate::listener::{self, Refusal, RequestBody, RequestId};
use crate::policy::{Fencing, Policy};
use crate::s3::{
    Bucket, EtagQuotes, Footprint, HostSuffixes, ObjectKey, Operation, Query, S3Error, Target,
    percent_decode, side_door,
};
use crate::telemetry::{Metrics, Reason};
use crate::upstream::{BoxError, Route, Upstream};

/// The body of an answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

fn full_body(bytes: Bytes) -> ResponseBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Whose requests are taken.
#[derive(Debug)]
pub enum Authentication {
    /// Those that are signed with one of these keys.
    SigV4(KeyRing),
    /// Everybody's: for a sidecar, behind a loopback address.
    None,
}

/// How long a ledger that has failed is left alone before it is asked again.
const LEDGER_RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The header that some servers take for the method.
const METHOD_OVERRIDE: &str = "x-http-method-override";

/// What the pipeline is told.
#[derive(Debug)]
pub struct Settings {
    /// Whose requests are taken.
    pub authentication: Authentication,
    /// Whether the token's header has to be signed.
    pub token_signature: TokenSignature,
    /// The domains under which buckets are host names.
    pub host_suffixes: HostSuffixes,
    /// The rules.
    pub policy: Policy,
    /// The bucket that clients must not touch.
    pub ledger_bucket: Bucket,
    /// What the store enforces; `tags` and `compare` are set per bucket and scope.
    pub protocol: Protocol,
    /// How the store wants ETags.
    pub etag_quotes: EtagQuotes,
    /// Whether the store takes `a//b` for `a/b`: then the former is refused on writes.
    pub merges_slashes: bool,
    /// The HTTP status of a stale token's refusal.
    pub stale_status: http::StatusCode,
    /// How long one operation waits for others.
    pub contention_wait_max: Duration,
    /// How long a settled intent may wait to be withdrawn.
    pub settle_delay: Duration,
    /// How many scopes are remembered.
    pub hint_entries_max: usize,
    /// The largest body that is held in memory, in bytes.
    pub body_buffer_bytes_max: usize,
    /// How long a request's body may take to arrive.
    pub request_body_max: Duration,
}

/// The proxy. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Proxy(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: Settings,
    upstream: Arc<Upstream>,
    ledger: Arc<dyn Ledger>,
    scopes: Scopes,
    metrics: Arc<Metrics>,
    readiness: Readiness,
}

/// A request whose head has been understood.
struct Understood {
    id: RequestId,
    parts: Parts,
    target: Target,
    operation: Operation,
    verified: Verified,
    token: Option<Token>,
    route: Route,
}

impl Proxy {
    /// A proxy in front of one store.
    #[must_use]
    pub fn new(
        settings: Settings,
        upstream: Arc<Upstream>,
        ledger: Arc<dyn Ledger>,
        metrics: Arc<Metrics>,
        readiness: Readiness,
    ) -> Self {
        let scopes = Scopes::new(settings.hint_entries_max);
        Self(Arc::new(Inner { settings, upstream, ledger, scopes, metrics, readiness }))
    }

    /// Asks a ledger that has failed again and again until it answers, so that the proxy is ready
    /// again even where nobody sends it requests while it is not. Never ends.
    pub async fn watch_ledger(&self) {
        let bucket = self.0.settings.ledger_bucket.clone();
        let key = ObjectKey::new("is the ledger there").expect("it is not empty");
        let scope = Scope { bucket, key };
        loop {
            tokio::time::sleep(LEDGER_RETRY_PAUSE).await;
            if !self.0.readiness.is_ready() {
                // The answer is counted, which is what readiness goes by.
                let _ = self.load(&scope).await;
            }
        }
    }

    async fn answer(
        &self,
        id: RequestId,
        parts: Parts,
        body: RequestBody,
    ) -> (Operation, Result<Response<ResponseBody>, S3Error>) {
        match self.understand(id, parts) {
            Ok(request) => {
                let operation = request.operation;
                (operation, self.decide(request, body).await)
            }
            Err(error) => (Operation::Unknown, Err(error)),
        }
    }

    /// Stages 1 to 3.
    fn understand(&self, id: RequestId, parts: Parts) -> Result<Understood, S3Error> {
        let settings = &self.0.settings;
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.unwrap_or_default().to_owned();
        let target = Target::parse(parts.uri.path(), &host, &settings.host_suffixes)
            .map_err(respond::invalid_target)?;
        let verified = match &settings.authentication {
            Authentication::SigV4(ring) => verify(&parts, ring, clock::now()),
            Authentication::None => Verified::unauthenticated(&parts),
        }
        .map_err(respond::unauthenticated)?;
        // A presigned URL carries the token as a parameter, which is no part of the operation.
        let query = parts.uri.query().and_then(token::strip_from_query);
        let shown = Query::new(query.as_deref().unwrap_or_default());
        let operation = Operation::of(&parts.method, &target, shown, &parts.headers);
        if let Some(bucket) = target.bucket() {
            if *bucket == settings.ledger_bucket {
                return Err(respond::ledger_bucket(bucket));
            }
            self.0.metrics.bucket_seen(bucket.as_str());
        }
        if copies_from(&parts.headers, &settings.ledger_bucket) {
            return Err(respond::ledger_bucket(&settings.ledger_bucket));
        }
        let token =
            token::find(&parts, &verified, settings.token_signature).map_err(|problem| {
                let bucket = target.bucket().map_or("", Bucket::as_str);
                let (reason, error) = respond::token_problem(&problem);
                if let Some(reason) = reason {
                    self.0.metrics.rejected(bucket, reason);
                }
                error
            })?;
        let path = target.path_style(parts.uri.path(), &host, &settings.host_suffixes);
        let route = Route { bucket: target.bucket().cloned(), path, query };
        Ok(Understood { id, parts, target, operation, verified, token, route })
    }

    /// Stages 4 and 5.
    async fn decide(
        &self,
        request: Understood,
        body: RequestBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        if request.operation.footprint() != Footprint::Reads && self.is_alias(&request.target) {
            return Err(respond::alias_of_another_key());
        }
        let door = side_door(&request.parts.headers).map(str::to_owned);
        match request.operation.footprint() {
            // Another method in a header is another operation to whoever honours it.
            Footprint::Reads if door.as_deref() != Some(METHOD_OVERRIDE) => {
                self.read(request, body).await
            }
            Footprint::WritesBucket if door.is_none() => self.write_bucket(request, body).await,
            Footprint::WritesObject if door.is_none() => {
                let Target::Object(bucket, key) = request.target.clone() else {
                    return Err(self.unsupported(&request, None));
                };
                self.write(bucket, key, request, body).await
            }
            Footprint::Reads
            | Footprint::WritesBucket
            | Footprint::WritesObject
            | Footprint::Unfenceable => {
                if !self.reaches_nothing_fenced(&request, door.is_some()) {
                    return Err(self.unsupported(&request, door.as_deref()));
                }
                match admit_unfenced(Mode::Off, None) {
                    Ok(permit) => self.pass(permit, request, body).await,
                    Err(_) => Err(self.unsupported(&request, door.as_deref())),
                }
            }
        }
    }

    /// Creates or deletes a bucket. Some stores delete a bucket with all that is in it (SeaweedFS
    /// does by default), so that its emptiness is looked at first where anything in it is fenced.
    async fn write_bucket(
        &self,
        request: Understood,
        body: RequestBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        if request.operation == Operation::DeleteBucket
            && let Some(bucket) = request.target.bucket()
            && !self.0.settings.policy.is_off_everywhere(bucket)
        {
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

    /// A PUT or DELETE of one object.
    async fn write(
        &self,
        bucket: Bucket,
        key: ObjectKey,
        request: Understood,
        body: RequestBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let fencing = self.0.settings.policy.of_object(&bucket, &key);
        match (fencing.mode, request.token) {
            (Mode::Off, _) | (Mode::IfFenced | Mode::Require, None) => {
                let scope = Scope { bucket, key };
                self.write_without_token(fencing, &scope, request, body).await
            }
            (Mode::IfFenced | Mode::Require, Some(token)) => {
                self.fenced_write(fencing, Scope { bucket, key }, token, request, body).await
            }
        }
    }

    /// F13.
    async fn write_without_token(
        &self,
        fencing: Fencing,
        scope: &Scope,
        request: Understood,
        body: RequestBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let snapshot = if needs_record(fencing.mode) {
            Some(self.load(scope).await.map_err(|_| respond::unavailable())?)
        } else {
            None
        };
        match admit_unfenced(fencing.mode, snapshot.as_ref()) {
            Ok(permit) => self.pass(permit, request, body).await,
            Err(required) => {
                self.0.metrics.rejected(scope.bucket.as_str(), Reason::MissingToken);
                tracing::info!(
                    request_id = %request.id, %scope, operation = request.operation.name(),
                    "refused: a token is required"
                );
                Err(respond::token_required(required))
            }
        }
    }

    /// Whether the store takes the key for another one, which may be fenced and has a fence of its
    /// own.
    fn is_alias(&self, target: &Target) -> bool {
        let settings = &self.0.settings;
        let Target::Object(bucket, key) = target else { return false };
        settings.merges_slashes
            && key.may_be_aliased()
            && !settings.policy.is_off_everywhere(bucket)
    }

    /// Whether nothing that the request can reach is fenced.
    fn reaches_nothing_fenced(&self, request: &Understood, side_door: bool) -> bool {
        let policy = &self.0.settings.policy;
        let query = Query::new(request.route.query.as_deref().unwrap_or_default());
        let operation = request.operation;
        match &request.target {
            Target::Service => policy.is_off_for_service(),
            _ if operation.reaches_other_buckets(query) => policy.is_off_for_service(),
            Target::Object(bucket, key)
                if !side_door && operation.stays_on_its_key(&request.parts.method, query) =>
            {
                policy.of_object(bucket, key).mode == Mode::Off
            }
            Target::Bucket(bucket) | Target::Object(bucket, _) => policy.is_off_everywhere(bucket),
        }
    }

    fn unsupported(&self, request: &Understood, header: Option<&str>) -> S3Error {
        let bucket = request.target.bucket().map_or("", Bucket::as_str);
        self.0.metrics.rejected(bucket, Reason::UnsupportedOperation);
        tracing::info!(
            request_id = %request.id, bucket, operation = request.operation.name(), header,
            "refused: the operation cannot be fenced"
        );
        respond::unsupported(request.operation, header)
    }
}

/// Whether a copy or a rename reads from `bucket`, in whatever way a store writes a bucket before a
/// key (`/bucket/key`, `bucket/key`, `:bucket/key`): its name anywhere before the key will do.
fn copies_from(headers: &HeaderMap, bucket: &Bucket) -> bool {
    ["x-amz-copy-source", "x-amz-rename-source"].into_iter().any(|name| {
        headers.get_all(name).iter().any(|source| {
            let path = percent_decode(source.as_bytes());
            let path = String::from_utf8_lossy(&path);
            let first = path.split('/').find(|part| !part.is_empty()).unwrap_or_default();
            first.contains(bucket.as_str())
        })
    })
}

impl listener::Handler for Proxy {
    type Body = ResponseBody;

    async fn handle(&self, request: Request<RequestBody>) -> Response<ResponseBody> {
        let started = clock::monotonic();
        let (parts, body) = request.into_parts();
        let id = parts.extensions.get::<RequestId>().copied().unwrap_or_else(RequestId::random);
        let asked = respond::Asked::of(&parts);
        let (operation, answer) = self.answer(id, parts, body).await;
        let response = respond::finish(answer, &asked, id);
        let took = clock::monotonic().duration_since(started);
        self.0.metrics.request(operation.name(), response.status(), took);
        tracing::debug!(
            request_id = %id, operation = operation.name(), status = response.status().as_u16(),
            milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX), "answered"
        );
        response
    }

    fn refuse(&self, request: &Parts, refusal: Refusal) -> Response<ResponseBody> {
        let id = request.extensions.get::<RequestId>().copied().unwrap_or_else(RequestId::random);
        let asked = respond::Asked::of(request);
        respond::finish(Err(respond::not_handled(refusal)), &asked, id)
    }
}

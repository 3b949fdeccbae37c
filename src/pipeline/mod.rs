//! The life of a request: the stages in order, and the only place where they meet.
//!
//! 1. [`target`](crate::s3::Target) – which bucket and key, which operation;
//! 2. [`auth`](crate::auth) – who signed it, and what its body has to be;
//! 3. [`token`] – which fencing token it carries;
//! 4. `decide`, by [`policy`](crate::policy) – which scope it falls in, and how that is fenced;
//! 5. `pass_through`, `fenced_write` (with `copy`, `delete_objects` and `post_object`), `uploads`,
//!    `claim`, or a refusal;
//! 6. `respond` – verdicts and errors become S3 answers.
//!
//! Requests to the proxy itself (`own`) part from the others before the first stage.
//!
//! Everything that can be refused from the head of a request is refused before its body is
//! touched, so that no `100 Continue` is sent for it.

mod administer;
mod amend;
mod body;
mod claim;
mod conditions;
mod copy;
mod decide;
mod delete_objects;
mod driver;
mod fenced_write;
mod group;
mod lease;
mod own;
mod pass_through;
mod plan;
mod post_object;
mod respond;
mod scopes;
mod settle;
pub mod token;
mod uploads;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderMap, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};

pub use decide::{Aliases, Slashes};
pub use plan::{BucketPlan, Planned, StorePlan};
pub use token::TokenSignature;

use self::plan::Buckets;
use self::scopes::{Bindings, Scopes};
use crate::admin::Readiness;
use crate::auth::{Form, KeyRing, Verified, verify};
use crate::clock;
use crate::fence::{Bearer, Protocol, Token};
use crate::ledger::{Ledger, Scope};
use crate::listener::{self, Refusal, RequestBody, RequestId};
use crate::policy::Policy;
use crate::s3::{
    Bucket, Footprint, HostSuffixes, ObjectKey, Operation, Query, S3Error, Target, percent_decode,
};
use crate::telemetry::Metrics;
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

/// What the pipeline is told.
#[derive(Debug)]
pub struct Settings {
    /// Whose requests are taken.
    pub authentication: Authentication,
    /// Whether the token's header has to be signed.
    pub token_signature: TokenSignature,
    /// How clients reach the proxy, for URLs of objects in its answers.
    pub scheme: Scheme,
    /// The domains under which buckets are host names.
    pub host_suffixes: HostSuffixes,
    /// The rules.
    pub policy: Policy,
    /// The bucket that clients must not touch.
    pub ledger_bucket: Bucket,
    /// The limits of the protocol; what the store enforces is set by plan, bucket and scope.
    pub protocol: Protocol,
    /// How many intents the record of a scope of many keys may hold.
    pub scope_intents_max: usize,
    /// How the store is fenced on.
    pub plan: StorePlan,
    /// What is done about keys that the store takes for spellings of another.
    pub aliases: Aliases,
    /// `x-amz-*` headers of writes that pass though nobody here knows them, in lower case.
    pub allowed_headers: Vec<String>,
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
    bindings: Bindings,
    buckets: Buckets,
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
    bearer: Bearer,
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
        let bindings = Bindings::new(settings.hint_entries_max);
        let buckets = Buckets::default();
        Self(Arc::new(Inner {
            settings,
            upstream,
            ledger,
            scopes,
            bindings,
            buckets,
            metrics,
            readiness,
        }))
    }

    /// Asks a ledger that has failed again and again until it answers, so that the proxy is ready
    /// again even where nobody sends it requests while it is not. Never ends.
    pub async fn watch_ledger(&self) {
        let bucket = self.0.settings.ledger_bucket.clone();
        let key = ObjectKey::new("is the ledger there").expect("it is not empty");
        let scope = Scope::object(bucket, key);
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
    ) -> (&'static str, Result<Response<ResponseBody>, S3Error>) {
        match self.understand(id, parts) {
            Ok(request) => {
                let operation = request.operation.name();
                (operation, self.decide(request, body::arriving(body)).await)
            }
            Err(error) => (Operation::Unknown.name(), Err(error)),
        }
    }

    /// Stages 1 to 3.
    fn understand(&self, id: RequestId, parts: Parts) -> Result<Understood, S3Error> {
        let settings = &self.0.settings;
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = host.unwrap_or_default().to_owned();
        let target = Target::parse(parts.uri.path(), &host, &settings.host_suffixes)
            .map_err(respond::invalid_target)?;
        // A presigned URL carries the token as a parameter, which is no part of the operation.
        let query = parts.uri.query().and_then(token::strip_from_query);
        let shown = Query::new(query.as_deref().unwrap_or_default());
        let operation = Operation::of(&parts.method, &target, shown, &parts.headers);
        // A form is signed in its body, and read before anything is decided.
        let is_form = operation == Operation::PostObject
            && matches!(target, Target::Bucket(_))
            && post_object::is_form(&parts);
        let verified = match &settings.authentication {
            Authentication::SigV4(_) if is_form => Verified::head_of_form(&parts),
            Authentication::SigV4(ring) => verify(&parts, ring, clock::now()),
            Authentication::None => Verified::unauthenticated(&parts),
        }
        .map_err(respond::unauthenticated)?;
        let writes = operation.footprint() != Footprint::Reads;
        if writes && verified.form == Form::None && parts.headers.contains_key(header::ORIGIN) {
            return Err(respond::sent_by_a_page());
        }
        if let Some(bucket) = target.bucket() {
            if *bucket == settings.ledger_bucket {
                return Err(respond::ledger_bucket(bucket));
            }
            self.0.metrics.bucket_seen(bucket.as_str());
        }
        if copies_from(&parts.headers, &settings.ledger_bucket) {
            return Err(respond::ledger_bucket(&settings.ledger_bucket));
        }
        let token = token::find(&parts, &verified, settings.token_signature)
            .map_err(|problem| self.token_problem(target.bucket(), &problem))?;
        let bearer = token::bearer_of(&parts, &verified, settings.token_signature)
            .map_err(|problem| self.token_problem(target.bucket(), &problem))?;
        let path = target.path_style(parts.uri.path(), &host, &settings.host_suffixes);
        let route = Route { bucket: target.bucket().cloned(), path, query };
        Ok(Understood { id, parts, target, operation, verified, token, bearer, route })
    }

    /// What the request asks of the proxy itself, if it does.
    fn own(&self, parts: &Parts) -> Option<own::Own> {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let suffixes = &self.0.settings.host_suffixes;
        own::asked(parts, suffixes.names_bucket(host.unwrap_or_default()))
    }

    /// Counts a token that is not accepted.
    fn token_problem(&self, bucket: Option<&Bucket>, problem: &token::TokenProblem) -> S3Error {
        let (reason, error) = respond::token_problem(problem);
        if let Some(reason) = reason {
            self.0.metrics.rejected(bucket.map_or("", Bucket::as_str), reason);
        }
        error
    }
}

/// Whether a copy or a rename reads from `bucket`, in whatever way a store writes a bucket before a
/// key (`/bucket/key`, `bucket/key`, `:bucket/key`): its name anywhere in the path will do, because
/// some resolve dots.
fn copies_from(headers: &HeaderMap, bucket: &Bucket) -> bool {
    ["x-amz-copy-source", "x-amz-rename-source"].into_iter().any(|name| {
        headers.get_all(name).iter().any(|source| {
            let path = percent_decode(source.as_bytes());
            let path = String::from_utf8_lossy(&path);
            path.split('/').any(|part| part.contains(bucket.as_str()))
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
        let (operation, response) = match self.own(&parts) {
            Some(own) => {
                let answer = self.answer_own(own, id, parts, body::arriving(body)).await;
                (own.name(), respond::finish_own(answer, &asked, id))
            }
            None => {
                let (operation, answer) = self.answer(id, parts, body).await;
                (operation, respond::finish(answer, &asked, id))
            }
        };
        let took = clock::monotonic().duration_since(started);
        self.0.metrics.request(operation, response.status(), took);
        tracing::debug!(
            request_id = %id, operation, status = response.status().as_u16(),
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

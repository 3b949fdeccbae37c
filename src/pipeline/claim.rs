//! Claims (F14): a token enters its scope, and every lower one is out when the claim returns.
//!
//! It comes as a request of its own, or with a read, which is then answered after it.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue, ORIGIN};
use http::request::Parts;
use http::{Method, Response};
use serde::Serialize;

use super::body::ClientBody;
use super::driver::{Bytes, Findings};
use super::fenced_write::{Deed, Holder, Origin, unrecorded};
use super::own::{self, OwnRequest};
use super::plan::{BucketPlan, Planned, protocol_of};
use super::token::{self, TokenSignature};
use super::{Proxy, ResponseBody, Understood, respond};
use crate::auth::Form;
use crate::clock;
use crate::fence::{
    Change, ClientCondition, Enforcement, KeyId, Mode, OperationId, Protocol, Verdict,
};
use crate::listener::ClientPresence;
use crate::policy::Place;
use crate::s3::{Bucket, ObjectKey, Query, S3Error, Target};
use crate::upstream::{Route, WriteRequest};

/// Asks for a claim before a read is answered.
const FENCE_CLAIM: HeaderName = HeaderName::from_static("x-fence-claim");

/// How long a claim may wait, in seconds.
const FENCE_WAIT: HeaderName = HeaderName::from_static("x-fence-wait");

/// Says in the answer to a read which scope was claimed.
const FENCE_CLAIMED: HeaderName = HeaderName::from_static("x-fence-claimed");

/// The longest that anybody may wait.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(600);

/// The longest try of a claim: less than the life of the signature that it may need in the end.
const TRY_MAX: Duration = Duration::from_secs(30);

/// Stands for every key in messages about a whole bucket.
const EVERY_KEY: &str = "*";

#[derive(Serialize)]
struct Claimed {
    scope: String,
    token: String,
}

impl Proxy {
    /// `PUT /_fence/claim/{bucket}/{key-or-prefix}`.
    pub(super) async fn claim_scope(
        &self,
        request: &OwnRequest,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let place = self.place_named(&request.bucket, &request.name)?;
        let token = request.token.ok_or_else(respond::claim_without_token)?;
        let holder = Holder { token, bearer: request.bearer.clone(), stamp: None };
        let patience = self.patience(&request.parts)?;
        self.claim(&place, &holder, request.origin(), &patience).await?;
        Ok(own::json(&Claimed { scope: place.scope.to_string(), token: token.to_string() }))
    }

    /// Whether a read asks for a claim.
    ///
    /// # Errors
    ///
    /// When it is not clear what it asks for.
    pub(super) fn asks_for_claim(&self, request: &Understood) -> Result<bool, S3Error> {
        let Some(value) = request.parts.headers.get(&FENCE_CLAIM) else { return Ok(false) };
        let reads = matches!(request.parts.method, Method::GET | Method::HEAD);
        if value != "true" || !reads {
            return Err(respond::malformed_header(FENCE_CLAIM));
        }
        // It changes the record, so that it is no read to a page that some browser shows.
        if request.verified.form == Form::None && request.parts.headers.contains_key(ORIGIN) {
            return Err(respond::sent_by_a_page());
        }
        let signature = self.0.settings.token_signature;
        if signature == TokenSignature::Signed
            && !token::is_signed(FENCE_CLAIM.as_str(), &request.verified)
        {
            return Err(respond::unsigned_claim());
        }
        Ok(true)
    }

    /// Answers a read after the scope of what it reads has been claimed.
    pub(super) async fn claim_and_read(
        &self,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let place = match &request.target {
            Target::Object(bucket, key) => self.place_of(bucket, key)?,
            Target::Bucket(bucket) => {
                let query = Query::new(request.route.query.as_deref().unwrap_or_default());
                self.place_named(bucket, &query.value("prefix").unwrap_or_default())?
            }
            Target::Service => return Err(respond::malformed_header(FENCE_CLAIM)),
        };
        refuse_unfenced(&place)?;
        let token = request.token.ok_or_else(respond::claim_without_token)?;
        let holder = Holder { token, bearer: request.bearer.clone(), stamp: None };
        let patience = self.patience(&request.parts)?;
        self.claim(&place, &holder, request.origin(), &patience).await?;
        let mut response = self.read(request, body).await?;
        if let Ok(scope) = HeaderValue::from_str(&place.scope.to_string()) {
            response.headers_mut().insert(FENCE_CLAIMED, scope);
        }
        Ok(response)
    }

    /// The fenced scope that a key or a prefix names.
    ///
    /// # Errors
    ///
    /// Those of [`any_place_named`](Self::any_place_named); and when the scope is not fenced.
    pub(super) fn place_named(&self, bucket: &Bucket, name: &[u8]) -> Result<Place, S3Error> {
        let place = self.any_place_named(bucket, name)?;
        refuse_unfenced(&place)?;
        Ok(place)
    }

    /// The scope that a key or a prefix names.
    ///
    /// # Errors
    ///
    /// When it is a prefix that is no scope, or that holds several, so that a claim of it would shut
    /// nobody out.
    pub(super) fn any_place_named(&self, bucket: &Bucket, name: &[u8]) -> Result<Place, S3Error> {
        let whole_bucket = name.is_empty();
        let key = if whole_bucket { EVERY_KEY.as_bytes() } else { name };
        let key = ObjectKey::new(key).ok_or_else(|| respond::not_a_scope(bucket, name))?;
        let place = if whole_bucket {
            self.0.settings.policy.place(bucket, key)
        } else {
            self.place_of(bucket, &key)?
        };
        let fits = if whole_bucket {
            place.scope.holds_many() && place.scope.bytes().is_empty()
        } else {
            place.scope.holds_many() || !name.ends_with(b"/")
        };
        if !fits {
            return Err(respond::not_a_scope(bucket, name));
        }
        Ok(place)
    }

    /// How long the client is willing to wait for others.
    fn patience(&self, parts: &Parts) -> Result<Patience, S3Error> {
        let presence = parts.extensions.get().cloned();
        let Some(value) = parts.headers.get(&FENCE_WAIT) else {
            return Ok(Patience { wait: self.0.settings.contention_wait_max, presence });
        };
        let seconds = value.to_str().ok().and_then(|text| text.parse().ok());
        let wait = seconds.map(Duration::from_secs).filter(|wait| *wait <= WAIT_MAX);
        let wait = wait.ok_or_else(|| respond::malformed_header(FENCE_WAIT))?;
        Ok(Patience { wait, presence })
    }

    /// Refuses what cannot be claimed on this store.
    pub(super) fn refuse_claim(&self, place: &Place, plan: &BucketPlan) -> Result<(), S3Error> {
        let protocol = protocol_of(&self.0.settings, place, plan);
        let conditional = plan.copy == Planned::By(Enforcement::Conditional);
        if unrecorded(&protocol) && !conditional {
            return Err(respond::claim_needs_conditional_copy());
        }
        Ok(())
    }

    /// Enters the token, and waits until no lower one can take effect any more.
    pub(super) async fn claim(
        &self,
        place: &Place,
        holder: &Holder,
        origin: Origin,
        patience: &Patience,
    ) -> Result<(), S3Error> {
        let plan = self.plan_in(&place.scope.bucket).await?;
        self.refuse_claim(place, &plan)?;
        let (verdict, findings) = self.enter(place, holder, &plan, origin, patience).await;
        match verdict {
            Verdict::Claimed | Verdict::Applied { .. } => return Ok(()),
            // A new holder's first act: its token should have been the newest.
            Verdict::Stale { .. } => {
                self.0.metrics.token_regressed(place.scope.bucket.as_str());
            }
            Verdict::Done
            | Verdict::AlreadyAbsent
            | Verdict::Mismatched(_)
            | Verdict::Barred(_)
            | Verdict::ConditionFailed(_)
            | Verdict::Rejected
            | Verdict::BodyFailed
            | Verdict::Contended(_)
            | Verdict::Unavailable
            | Verdict::OutcomeUnknown
            | Verdict::Broken => {}
        }
        let status = self.0.settings.stale_status;
        Err(respond::refusal(verdict, findings, holder.token, place, status))
    }

    /// The same, with the fence's verdict.
    pub(super) async fn enter(
        &self,
        place: &Place,
        holder: &Holder,
        plan: &BucketPlan,
        origin: Origin,
        patience: &Patience,
    ) -> (Verdict, Findings) {
        let protocol = protocol_of(&self.0.settings, place, plan);
        let deadline = clock::monotonic() + patience.wait;
        loop {
            let left = deadline.saturating_duration_since(clock::monotonic());
            let (verdict, findings) =
                self.enter_within(protocol, place, holder, patience, left).await;
            let waits = matches!(verdict, Verdict::Barred(_) | Verdict::Contended(_));
            let goes_on = waits
                && left > TRY_MAX
                && unrecorded(&protocol)
                && !patience.is_over()
                && clock::monotonic() < deadline;
            if !goes_on {
                self.record(&place.scope, holder.token, origin, &verdict, &findings);
                return (verdict, findings);
            }
        }
    }

    /// One try, which is over before what it may have to send is too old to be taken.
    async fn enter_within(
        &self,
        protocol: Protocol,
        place: &Place,
        holder: &Holder,
        patience: &Patience,
        left: Duration,
    ) -> (Verdict, Findings) {
        let slot = self.0.scopes.slot(&place.scope);
        let (verdict, findings) =
            match slot.refusing(holder.token, &holder.bearer, protocol.compare) {
                Some(refusal) => (refusal.into(), Findings::default()),
                None => {
                    let deed = Deed {
                        change: Change::Claim,
                        bytes: Bytes::Own,
                        request: WriteRequest {
                            route: Route::to_object(&place.scope.bucket, &place.key),
                            headers: HeaderMap::new(),
                            quotes: self.0.settings.plan.etag_quotes,
                        },
                        condition: ClientCondition::default(),
                    };
                    let id = OperationId::new(clock::random_u128());
                    let mut operation = self.operation(id, holder, place, &deed);
                    if place.scope.holds_many() {
                        operation.key = KeyId::new("");
                    }
                    let wait = if unrecorded(&protocol) { left.min(TRY_MAX) } else { left };
                    let scope = &place.scope;
                    let run = self.run(protocol, operation, deed, scope, &slot, None, wait);
                    let Some(presence) =
                        patience.presence.clone().filter(|_| !unrecorded(&protocol))
                    else {
                        return run.await;
                    };
                    // Nothing of it is sent to the store, so that it may be cut off at any time.
                    tokio::select! {
                        ended = run => ended,
                        () = presence.gone() => (Verdict::Unavailable, Findings::default()),
                    }
                }
            };
        (verdict, findings)
    }
}

/// How long somebody waits for others, and whether anybody is left to wait.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    pub(super) wait: Duration,
    pub(super) presence: Option<ClientPresence>,
}

impl Patience {
    /// Whether the client has gone away.
    pub(super) fn is_over(&self) -> bool {
        self.presence.as_ref().is_some_and(ClientPresence::is_gone)
    }
}

fn refuse_unfenced(place: &Place) -> Result<(), S3Error> {
    match place.fencing.mode {
        Mode::Off => Err(respond::scope_is_off(&place.scope)),
        Mode::IfFenced | Mode::Require => Ok(()),
    }
}

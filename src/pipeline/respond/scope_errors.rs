//! The errors of scopes, claims and leases, and of requests to the proxy itself.

use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};

use super::errors::{FENCE_TOKEN, protected, retryable};
use crate::fence::{Action, Intent, Lease, LockMode, Mismatch, StoreTime, Tag, Token};
use crate::policy::Place;
use crate::s3::{Bucket, S3Error, percent_encode_key};
use crate::scope::Scope;

/// A token that is not compared with the record's, whatever its number.
pub(super) fn mismatched(mismatch: &Mismatch, token: Token, place: &Place) -> S3Error {
    let what = protected(place);
    let (code, message) = match mismatch {
        Mismatch::Lock(lock) => (
            "FenceLockMismatch",
            format!(
                "The fence token of {what} is one of the lock {:?}, held in {} mode; tokens of two \
                 locks are not compared. Nothing was changed.",
                lock.name,
                match lock.mode {
                    LockMode::Exclusive => "exclusive",
                    LockMode::Shared => "shared",
                },
            ),
        ),
        Mismatch::Holder(_) => (
            "FenceHolderMismatch",
            format!(
                "The fence token {token} has been used for {what} by another holder: its source \
                 has handed it out twice. Nothing was changed."
            ),
        ),
    };
    S3Error::new(StatusCode::CONFLICT, code, message)
        .element("FenceToken", token)
        .element("FenceScope", &place.scope)
        .header(FENCE_TOKEN, token.get())
}

/// How many of the operations that are waited for are named in a message.
const NAMED_MAX: usize = 5;

/// F5: operations with a lower token may still take effect.
pub(in super::super) fn barred(intents: &[Intent]) -> S3Error {
    let mut keys: Vec<String> = intents
        .iter()
        .take(NAMED_MAX)
        .map(|intent| {
            let key = percent_encode_key(intent.key.as_bytes());
            format!("{key} (token {})", intent.token)
        })
        .collect();
    if intents.len() > NAMED_MAX {
        keys.push(format!("and {} more", intents.len() - NAMED_MAX));
    }
    let message = format!(
        "Operations with an older fence token may still take effect: {}. The token has been taken \
         in, and nothing else was changed; try again.",
        keys.join(", ")
    );
    let named: Vec<Value> = intents.iter().map(waited_for).collect();
    retryable("FenceBarrier", message).detail("waiting_for", named)
}

fn waited_for(intent: &Intent) -> Value {
    let expects = match &intent.action {
        Action::Conditional { expects: Tag::Absent } => Some("absent".to_owned()),
        Action::Conditional { expects: Tag::Version(etag) } => Some(etag.clone()),
        Action::Exclusive => None,
    };
    json!({
        "operation": intent.id.operation.to_string(),
        "token": intent.token.to_string(),
        "key": percent_encode_key(intent.key.as_bytes()),
        "expects": expects,
        "expires_at": intent.expires_at.0,
    })
}

/// A name that a claim or a lease cannot be of.
pub(in super::super) fn not_a_scope(bucket: &Bucket, name: &[u8]) -> S3Error {
    let name = percent_encode_key(name);
    let message = format!(
        "s3://{bucket}/{name} is no scope: by the proxy's configuration its objects are fenced each \
         for itself, or in scopes below it. Name one of those, or add a [[scope]] with \
         per = \"prefix\" (`fencepost scope explain` shows what a key belongs to). Nothing was changed."
    );
    S3Error::new(StatusCode::BAD_REQUEST, "FenceNotAScope", message)
}

pub(in super::super) fn scope_is_off(scope: &Scope) -> S3Error {
    let message = format!("{scope} is not fenced: its mode is \"off\". Nothing was changed.");
    S3Error::new(StatusCode::BAD_REQUEST, "FenceNotAScope", message)
}

pub(in super::super) fn claim_without_token() -> S3Error {
    let message = "A claim needs a fence token: send that of your lock in X-Fence-Token, or as the \
                   session token fence:<token>.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidFenceToken", message)
}

pub(in super::super) fn unsigned_claim() -> S3Error {
    let message = "The header X-Fence-Claim is not covered by the request's signature, so anybody on \
                   the way could have taken it away. Sign it, or set token_signature = \"any\".";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
}

pub(in super::super) fn claim_needs_conditional_copy() -> S3Error {
    let message = "Where tags are unique, a claim of one object rewrites it onto itself, for which the \
                   store has to honour a condition on a copy's destination; say so with \
                   backend.conditional_copy = \"conditional\" if it does, or write the object instead. \
                   Nothing was changed.";
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "FenceUnsupportedOperation", message)
}

/// Another holder has the lease.
pub(in super::super) fn lease_held(lease: &Lease, now: StoreTime) -> S3Error {
    let message = format!("The lease is held by {:?}.", lease.holder);
    S3Error::new(StatusCode::CONFLICT, "FenceLeaseHeld", message)
        .detail("holder", lease.holder.clone())
        .detail("expires_at", lease.expires_at.0)
        .detail("store_time", now.0)
        .detail("token", lease.token.to_string())
}

/// A lease that is not the asker's, or not any more.
pub(in super::super) fn lease_lost() -> S3Error {
    let message = "The lease is lost: it has run out, was released, or a newer token has come. What \
                   is written with its token may be refused from now on.";
    S3Error::new(StatusCode::CONFLICT, "FenceLeaseLost", message)
}

pub(in super::super) fn lease_for_one_write() -> S3Error {
    let message = "The scope compares tokens with \"strictly-greater\", by which a token is good for \
                   one write; a lease is for many.";
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "FenceUnsupportedOperation", message)
}

pub(in super::super) fn lease_contended() -> S3Error {
    retryable("FenceContended", "Others change the record of the scope all the time; try again.")
}

/// A reset that is no way up.
pub(in super::super) fn reset_lowers(scope: &Scope, highest: Token) -> S3Error {
    reset_refused(format!(
        "The highest token of {scope} is {highest}, and a reset lowers it by force only."
    ))
}

pub(in super::super) fn nothing_to_reset(scope: &Scope) -> S3Error {
    reset_refused(format!("{scope} has no record: every token is admitted there."))
}

pub(in super::super) fn reset_below_open(scope: &Scope) -> S3Error {
    reset_refused(format!(
        "Operations on {scope} are open still, and no token would be older than 1. Reset it to 2 or \
         more, or wait until they are settled or have expired (`fencepost inspect`)."
    ))
}

fn reset_refused(message: String) -> S3Error {
    S3Error::new(StatusCode::CONFLICT, "FenceResetRefused", message + " Nothing was changed.")
}

/// A reset whose swap was not answered.
pub(in super::super) fn reset_unknown() -> S3Error {
    retryable(
        "FenceOutcomeUnknown",
        "The ledger gave no answer. The token may have been reset; `fencepost inspect` tells.",
    )
}

pub(in super::super) fn tokens_exhausted() -> S3Error {
    let message = "The scope has had the largest token there is, 18446744073709551615.";
    S3Error::new(StatusCode::CONFLICT, "FenceTokensExhausted", message)
}

/// No request that the proxy itself answers.
pub(in super::super) fn no_such_request(parts: &Parts) -> S3Error {
    let message = format!(
        "There is no {} {}. Try PUT /_fence/claim/<bucket>/<key>, or POST or GET \
         /_fence/lease/<bucket>/<key>.",
        parts.method,
        parts.uri.path()
    );
    S3Error::new(StatusCode::NOT_FOUND, "FenceNoSuchRequest", message)
}

pub(in super::super) fn invalid_request(message: impl Into<String>) -> S3Error {
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
}

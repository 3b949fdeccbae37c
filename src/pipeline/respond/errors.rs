//! The proxy's own errors: status, code, and what the client can do about it.
//!
//! The only file that knows the statuses of refusals. The fence's codes are ones that no SDK
//! retries (`docs/protocol.md`), but for those that mean "try again".

use std::time::Duration;

use http::StatusCode;
use http::header::{self, HeaderName};

use super::super::token::TokenProblem;
use crate::auth::{AuthError, BodyError, PostPolicyError};
use crate::fence::{ConditionFailure, Contention, Token, TokenRequired};
use crate::listener::Refusal;
use crate::policy::Place;
use crate::s3::{Bucket, DocumentError, FormError, InvalidEtag, Operation, S3Error, TargetError};
use crate::telemetry::Reason;

/// The token that a refused request came with.
pub(super) const FENCE_TOKEN: HeaderName = HeaderName::from_static("x-fence-token");

/// The highest token admitted in the scope.
const FENCE_HIGHEST: HeaderName = HeaderName::from_static("x-fence-highest");

/// When to try again, in seconds.
const RETRY_AFTER_SECONDS: u64 = 1;

pub(in super::super) fn stale(
    token: Token,
    highest: Token,
    place: &Place,
    status: StatusCode,
) -> S3Error {
    let what = protected(place);
    let message = if token == highest {
        format!(
            "The fence token {token} has been used for {what}, and every write needs a newer \
             one. Nothing was changed."
        )
    } else {
        format!(
            "The fence token {token} is older than {highest}, the newest that has been accepted \
             for {what}. Another holder has the lock now. Nothing was changed."
        )
    };
    S3Error::new(status, "StaleFenceToken", message)
        .element("FenceToken", token)
        .element("HighestFenceToken", highest)
        .element("FenceScope", &place.scope)
        .element("BucketName", &place.scope.bucket)
        .element("Key", &place.key)
        .header(FENCE_TOKEN, token.get())
        .header(FENCE_HIGHEST, highest.get())
}

pub(super) fn protected(place: &Place) -> &'static str {
    if place.scope.holds_many() { "this scope" } else { "this object" }
}

pub(in super::super) fn condition_failed(failure: ConditionFailure) -> S3Error {
    let precondition = |name: &str| {
        S3Error::new(
            StatusCode::PRECONDITION_FAILED,
            "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold",
        )
        .element("Condition", name)
    };
    match failure {
        ConditionFailure::NoSuchKey => no_such_key(),
        ConditionFailure::IfMatch => precondition("If-Match"),
        ConditionFailure::IfNoneMatch => precondition("If-None-Match"),
    }
}

pub(in super::super) fn no_such_key() -> S3Error {
    S3Error::new(StatusCode::NOT_FOUND, "NoSuchKey", "The specified key does not exist.")
}

pub(super) fn retryable(code: &'static str, message: impl Into<String>) -> S3Error {
    S3Error::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
        .header(header::RETRY_AFTER, RETRY_AFTER_SECONDS)
}

pub(in super::super) fn contended(why: Contention) -> S3Error {
    let because = match why {
        Contention::ExclusiveOpen => {
            "an operation that the store cannot make conditional is still open on this object"
        }
        Contention::TagExpected => {
            "it would bring back a state that an unfinished request of an older holder waits for"
        }
        Contention::LowerOpen => "an unfinished request of an older holder may still take effect",
        Contention::RecordFull => "too many requests on this object are unfinished",
        Contention::LostRaces => "other writers were faster",
    };
    let message =
        format!("The write could not be made now: {because}. Nothing was changed; try again.");
    retryable("FenceContended", message)
}

/// F11. The reason is in the log: what the store or the ledger said is not the client's to read.
pub(in super::super) fn unavailable() -> S3Error {
    let message = "The fence cannot be checked now. Nothing was changed; try again.";
    retryable("FenceUnavailable", message)
}

pub(super) fn outcome_unknown() -> S3Error {
    retryable(
        "FenceOutcomeUnknown",
        "The store's answer to the write was lost. It may have been made, or may still be made; \
         read the object before you decide.",
    )
}

pub(in super::super) fn internal() -> S3Error {
    S3Error::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "InternalError",
        "We encountered an internal error. Please try again.",
    )
}

/// F13.
pub(in super::super) fn token_required(required: TokenRequired) -> S3Error {
    let because = match required {
        TokenRequired::ByMode => "every write to it has to carry a fence token".to_owned(),
        TokenRequired::Since(highest) => {
            format!("a fence token has been used for it; the newest is {highest}")
        }
    };
    let message = format!(
        "This object is fenced: {because}. Send the token of your lock in X-Fence-Token, or as \
         the session token fence:<token>. Nothing was changed."
    );
    let error = S3Error::new(StatusCode::PRECONDITION_REQUIRED, "FenceTokenRequired", message);
    match required {
        TokenRequired::ByMode => error,
        TokenRequired::Since(highest) => {
            error.element("HighestFenceToken", highest).header(FENCE_HIGHEST, highest.get())
        }
    }
}

/// What is wrong with a token, and what it counts as.
pub(in super::super) fn token_problem(problem: &TokenProblem) -> (Option<Reason>, S3Error) {
    let invalid =
        |message: String| S3Error::new(StatusCode::BAD_REQUEST, "InvalidFenceToken", message);
    match problem {
        TokenProblem::Invalid { given, error } => {
            let message = format!(
                "The fence token is not valid: {error}. It has to be a decimal number from 1 to \
                 18446744073709551615."
            );
            (Some(Reason::InvalidToken), invalid(message).element("FenceToken", given))
        }
        TokenProblem::Repeated => {
            (Some(Reason::InvalidToken), invalid("The fence token is given twice.".into()))
        }
        TokenProblem::Conflicting(one, other) => {
            let message = format!("The request carries two fence tokens, {one} and {other}.");
            (Some(Reason::ConflictingTokens), invalid(message))
        }
        TokenProblem::Unsigned => {
            let message = "The header X-Fence-Token is not covered by the request's signature, so \
                           anybody on the way could have changed it. Sign it, send the token as \
                           the session token fence:<token>, or set token_signature = \"any\".";
            (Some(Reason::InvalidToken), invalid(message.into()))
        }
        TokenProblem::InvalidBearer { header, problem } => {
            (Some(Reason::InvalidToken), invalid(format!("The header {header} {problem}.")))
        }
        TokenProblem::ForeignSessionToken => {
            let message = "The session token is not one of this proxy's: it takes only \
                           fence:<token>.";
            (None, S3Error::new(StatusCode::BAD_REQUEST, "InvalidToken", message))
        }
    }
}

/// An operation that is never passed through unfenced.
pub(in super::super) fn unsupported(operation: Operation, header: Option<&str>) -> S3Error {
    let name = operation.name();
    let (what, how) = match header {
        Some(header) if header.starts_with("x-amz-") && !header.starts_with("x-amz-meta-") => (
            format!("{name} with the header {header}, which this version does not know,"),
            format!("It passes if fence.allowed_headers names {header}, or where"),
        ),
        Some(header) => (format!("{name} with the header {header}"), "It passes where".to_owned()),
        None => (name.to_owned(), "It passes where".to_owned()),
    };
    let why = match (header, operation.reason().strip_prefix("refused: ")) {
        (None, Some(why)) => format!(" ({why})"),
        (Some(_) | None, _) => String::new(),
    };
    let message = format!(
        "{what} could change something in a fenced scope, and cannot be fenced as it is{why}. \
         {how} the mode of everything it can reach is \"off\". Nothing was changed."
    );
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "FenceUnsupportedOperation", message)
        .element("Operation", name)
}

/// What the store cannot be made to do safely.
pub(in super::super) fn not_fenceable(name: &str, why: &str) -> S3Error {
    let message = format!(
        "{name} cannot be fenced on this store: {why}. fencepost doctor shows what was tried. \
         Nothing was changed."
    );
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "FenceUnsupportedOperation", message)
        .element("Operation", name)
}

/// A bucket in which the store does not do what the fence rests on.
pub(in super::super) fn bucket_not_fenceable(bucket: &Bucket, why: &str) -> S3Error {
    let message = format!(
        "Nothing can be fenced in this bucket: {why}. fencepost doctor --bucket {bucket} shows what \
         was tried. Nothing was changed."
    );
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "FenceUnsupportedBucket", message)
        .element("BucketName", bucket)
}

/// The store no longer does what it did when the proxy was started.
pub(in super::super) fn store_not_trusted(why: &str) -> S3Error {
    let message = format!(
        "The store was examined again and cannot be fenced on any more: {why}. Nothing was changed."
    );
    S3Error::new(StatusCode::SERVICE_UNAVAILABLE, "FenceUnavailable", message)
}

/// A bucket that holds fenced objects is left as it is, unless the configuration says otherwise.
pub(in super::super) fn bucket_operation_denied(operation: Operation, bucket: &Bucket) -> S3Error {
    let name = operation.name();
    let message = format!(
        "{name} could destroy or change fenced objects of this bucket behind the fence. It passes \
         with bucket_operations = \"allow\", for all buckets or for this one. Nothing was changed."
    );
    S3Error::new(StatusCode::FORBIDDEN, "FenceBucketOperationDenied", message)
        .element("Operation", name)
        .element("BucketName", bucket)
}

pub(in super::super) fn invalid_document(error: DocumentError) -> S3Error {
    S3Error::new(StatusCode::BAD_REQUEST, error.code(), error.to_string())
}

pub(in super::super) fn message_too_large() -> S3Error {
    S3Error::new(StatusCode::BAD_REQUEST, "MaxMessageLengthExceeded", "Your request was too large.")
}

/// As AWS answers it.
pub(in super::super) fn conditional_version_delete() -> S3Error {
    let message = "Conditional delete operations are not allowed when a version ID is included.";
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
}

/// A condition that neither the store nor the fence can hold to.
pub(in super::super) fn unjudged_condition() -> S3Error {
    let message = "This store does not judge conditions on this operation, and where tags are \
                   unique the fence cannot do it in its place. Nothing was changed.";
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "FenceUnsupportedOperation", message)
}

/// Conditions of directory buckets, which the store's other deletes do not have.
pub(in super::super) fn unknown_delete_condition() -> S3Error {
    let message = "LastModifiedTime and Size cannot be conditions of a fenced delete.";
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
}

/// As AWS answers it: the client's own condition on the source.
pub(in super::super) fn source_condition_failed() -> S3Error {
    let message = "At least one of the pre-conditions you specified did not hold";
    S3Error::new(StatusCode::PRECONDITION_FAILED, "PreconditionFailed", message)
        .element("Condition", "x-amz-copy-source-If-Match")
}

/// As AWS answers it.
pub(in super::super) fn copy_changes_nothing() -> S3Error {
    let message = "This copy request is illegal because it is trying to copy an object to itself \
                   without changing the object's metadata, storage class, website redirect \
                   location or encryption attributes.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
}

/// The store does not show the source of a copy to the proxy.
pub(in super::super) fn source_not_readable(status: StatusCode) -> S3Error {
    let code = if status == StatusCode::FORBIDDEN { "AccessDenied" } else { "InvalidRequest" };
    S3Error::new(status, code, "The source of the copy cannot be read.")
}

/// A header that the store's dialect has no words for. It is refused, never left out.
pub(in super::super) fn unspeakable_header(header: &str) -> S3Error {
    let message = format!(
        "The store behind this proxy is Google Cloud Storage, which has no counterpart to the \
         header {header}."
    );
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message).element("Header", header)
}

pub(in super::super) fn unsupported_encryption(header: &'static str) -> S3Error {
    let message = format!("The header {header} cannot be used on a fenced write here.");
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "FenceUnsupportedOperation", message)
        .element("Header", header)
}

pub(in super::super) fn bucket_not_empty(bucket: &Bucket) -> S3Error {
    S3Error::new(
        StatusCode::CONFLICT,
        "BucketNotEmpty",
        "The bucket you tried to delete is not empty",
    )
    .element("BucketName", bucket)
}

pub(in super::super) fn ledger_bucket(bucket: &Bucket) -> S3Error {
    let message = format!("The bucket {bucket} holds the fence's own records.");
    S3Error::new(StatusCode::FORBIDDEN, "AccessDenied", message)
}

/// One object with two names would have two fences.
pub(in super::super) fn alias_of_another_key() -> S3Error {
    let message = "This store takes several spellings of a key for one, so that the object has \
                   another name, and a fence under that name. Write the key without empty \
                   segments, \".\", \"..\" and backslashes, in Unicode's normal form C, and in small \
                   letters where the store does not tell them from capitals. Nothing was changed.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
}

pub(in super::super) fn invalid_target(error: TargetError) -> S3Error {
    S3Error::new(StatusCode::BAD_REQUEST, error.code(), error.message())
}

#[expect(clippy::needless_pass_by_value, reason = "it is used as a function of map_err")]
pub(in super::super) fn unauthenticated(error: AuthError) -> S3Error {
    let mut answer = S3Error::new(error.status(), error.code(), error.to_string());
    answer.elements = error.elements();
    answer
}

pub(in super::super) fn invalid_body(error: &BodyError) -> S3Error {
    let mut answer = S3Error::new(error.status(), error.code(), error.to_string());
    answer.elements = error.elements();
    answer
}

/// Where nobody signs, a browser near the proxy would write for every page that it shows: some
/// POSTs need no preflight.
pub(in super::super) fn sent_by_a_page() -> S3Error {
    let message = "Requests are not authenticated here, so that one with an Origin, which a browser \
                   sends for a page, may not change anything.";
    S3Error::new(StatusCode::FORBIDDEN, "AccessDenied", message)
}

/// A form that is none, or that asks for what no form can have.
pub(in super::super) fn invalid_form(error: &FormError) -> S3Error {
    let mut answer = S3Error::new(error.status(), error.code(), error.to_string());
    answer.elements = error.elements();
    answer
}

/// A form whose policy is not signed, or does not allow it.
pub(in super::super) fn form_refused(error: &PostPolicyError) -> S3Error {
    let mut answer = S3Error::new(error.status(), error.code(), error.to_string());
    answer.elements = error.elements();
    answer
}

pub(in super::super) fn incomplete_body() -> S3Error {
    S3Error::new(
        StatusCode::BAD_REQUEST,
        "IncompleteBody",
        "The request body terminated unexpectedly",
    )
}

pub(in super::super) fn body_timeout(limit: Duration) -> S3Error {
    let message = format!("The request's body did not arrive within {} seconds.", limit.as_secs());
    S3Error::new(StatusCode::BAD_REQUEST, "RequestTimeout", message)
}

pub(in super::super) fn missing_length() -> S3Error {
    S3Error::new(
        StatusCode::LENGTH_REQUIRED,
        "MissingContentLength",
        "You must provide the Content-Length HTTP header.",
    )
}

pub(in super::super) fn malformed_header(name: HeaderName) -> S3Error {
    let message = format!("The header {name} is repeated, or is not text.");
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message).element("ArgumentName", name)
}

pub(in super::super) fn invalid_condition(name: HeaderName, error: InvalidEtag) -> S3Error {
    match error {
        InvalidEtag::NotStar => S3Error::new(
            StatusCode::NOT_IMPLEMENTED,
            "NotImplemented",
            "A header you provided implies functionality that is not implemented.",
        )
        .element("Header", name),
        InvalidEtag::Malformed => {
            let message = format!("The header {name} is not an ETag.");
            S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
                .element("ArgumentName", name)
        }
    }
}

pub(in super::super) fn store_unreachable() -> S3Error {
    retryable("ServiceUnavailable", "The store cannot be reached. Please try again.")
}

pub(in super::super) fn store_silent() -> S3Error {
    S3Error::new(
        StatusCode::BAD_GATEWAY,
        "InternalError",
        "The store did not answer. The request may or may not have been carried out.",
    )
}

/// What the listener did not hand over.
pub(in super::super) fn not_handled(refusal: Refusal) -> S3Error {
    match refusal {
        Refusal::Busy => retryable("SlowDown", "Please reduce your request rate."),
        Refusal::Malformed(why) => S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", why),
        Refusal::Failed => internal(),
    }
}

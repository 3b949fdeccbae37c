//! Every verdict and every error as an S3 answer: status, code, headers.
//!
//! The only file that knows the statuses of refusals. The fence's codes are ones that no SDK
//! retries (`docs/protocol.md`), but for those that mean "try again".

use std::time::Duration;

use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use super::driver::Findings;
use super::token::TokenProblem;
use super::{ResponseBody, full_body};
use crate::auth::{AuthError, BodyError};
use crate::clock;
use crate::fence::{ConditionFailure, Contention, Tag, Token, TokenRequired, Verdict};
use crate::ledger::Scope;
use crate::listener::{Refusal, RequestId};
use crate::s3::{Bucket, InvalidEtag, Operation, S3Error, TargetError};
use crate::telemetry::Reason;
use crate::upstream::{Answer, SendError};

/// The token that a refused request came with.
const FENCE_TOKEN: HeaderName = HeaderName::from_static("x-fence-token");

/// The highest token admitted in the scope.
const FENCE_HIGHEST: HeaderName = HeaderName::from_static("x-fence-highest");

/// The proxy's own name for a request, beside the store's.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-fencepost-request-id");

/// S3's name for a request.
const AMZ_REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

/// When to try again, in seconds.
const RETRY_AFTER_SECONDS: u64 = 1;

/// What was asked, for the answer to an error.
pub(super) struct Asked {
    head: bool,
    resource: String,
}

impl Asked {
    pub(super) fn of(parts: &Parts) -> Self {
        Self { head: parts.method == Method::HEAD, resource: parts.uri.path().to_owned() }
    }
}

/// Makes the answer, and gives it its request id.
pub(super) fn finish(
    answer: Result<Response<ResponseBody>, S3Error>,
    asked: &Asked,
    id: RequestId,
) -> Response<ResponseBody> {
    let id_text = id.to_string();
    let id = HeaderValue::from_str(&id_text).expect("a request id is hexadecimal");
    let mut response = match answer {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(
                request_id = id_text,
                code = error.code,
                status = error.status.as_u16(),
                message = error.message,
                "refused"
            );
            let xml = error.to_xml(&asked.resource, &id_text);
            let body = if asked.head { String::new() } else { xml };
            let mut response = Response::new(full_body(body.into()));
            *response.status_mut() = error.status;
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
            headers.insert(AMZ_REQUEST_ID, id.clone());
            headers.extend(error.headers);
            response
        }
    };
    response.headers_mut().insert(REQUEST_ID, id);
    response.headers_mut().entry(header::DATE).or_insert_with(|| {
        let date = httpdate::fmt_http_date(clock::now());
        HeaderValue::from_str(&date).expect("an HTTP date is ASCII")
    });
    response
}

/// The fence's verdict on a write.
pub(super) fn verdict(
    verdict: Verdict,
    findings: Findings,
    token: Token,
    scope: &Scope,
    stale_status: StatusCode,
) -> Result<Response<ResponseBody>, S3Error> {
    match verdict {
        Verdict::Applied { tag, recognised } => Ok(applied(&tag, recognised, findings)),
        Verdict::AlreadyAbsent => Ok(status_only(StatusCode::NO_CONTENT)),
        Verdict::Stale { highest } => Err(stale(token, highest, scope, stale_status)),
        Verdict::ConditionFailed(failure) => Err(condition_failed(failure)),
        Verdict::Rejected => rejected(findings),
        Verdict::BodyFailed => Err(findings.body_error.unwrap_or_else(incomplete_body)),
        Verdict::Contended(why) => Err(contended(why)),
        Verdict::Unavailable => Err(unavailable()),
        Verdict::OutcomeUnknown => Err(outcome_unknown()),
        Verdict::Broken => Err(internal()),
    }
}

/// A success: the store's own answer where it is one, else what is known of the object.
fn applied(tag: &Tag, recognised: bool, findings: Findings) -> Response<ResponseBody> {
    let answer = findings.answer.and_then(|answer| answer.answer);
    match (recognised, answer) {
        (false, Some(answer)) if answer.etag().as_ref() == Some(tag) || *tag == Tag::Absent => {
            store_answer(answer)
        }
        // The one-part form's answer is XML about an upload that the client knows nothing of.
        (_, answer) => {
            let known = match recognised {
                true => findings.observed.unwrap_or_default(),
                false => answer.map(|answer| answer.headers).unwrap_or_default(),
            };
            let status = match tag {
                Tag::Absent => StatusCode::NO_CONTENT,
                Tag::Version(_) => StatusCode::OK,
            };
            let mut response = status_only(status);
            let headers = response.headers_mut();
            for (name, value) in &known {
                let describes_version = name == "x-amz-version-id"
                    || name.as_str().starts_with("x-amz-server-side-encryption");
                if describes_version {
                    headers.insert(name.clone(), value.clone());
                }
            }
            if let Tag::Version(etag) = tag
                && let Ok(value) = HeaderValue::from_str(&format!("\"{etag}\""))
            {
                headers.insert(header::ETAG, value);
            }
            response
        }
    }
}

fn status_only(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(full_body(bytes::Bytes::new()));
    *response.status_mut() = status;
    response
}

fn store_answer(answer: Answer) -> Response<ResponseBody> {
    let mut response = Response::new(full_body(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

/// The store said no: its answer is the client's. Without an answer, the request was never sent.
fn rejected(findings: Findings) -> Result<Response<ResponseBody>, S3Error> {
    let Some(answer) = findings.answer else { return Err(internal()) };
    match (answer.answer, answer.error) {
        (Some(answer), _) if !answer.status.is_success() => Ok(store_answer(answer)),
        (_, Some(SendError::Unsent(_) | SendError::Lost(_))) => Err(unavailable()),
        (_, None) => Err(internal()),
    }
}

fn stale(token: Token, highest: Token, scope: &Scope, status: StatusCode) -> S3Error {
    let message = format!(
        "The fence token {token} is older than {highest}, the newest that has been accepted for \
         this object. Another holder has the lock now. Nothing was changed."
    );
    let message = if token == highest {
        format!(
            "The fence token {token} has been used for this object, and every write needs a newer \
             one. Nothing was changed."
        )
    } else {
        message
    };
    S3Error::new(status, "StaleFenceToken", message)
        .element("FenceToken", token)
        .element("HighestFenceToken", highest)
        .element("BucketName", &scope.bucket)
        .element("Key", &scope.key)
        .header(FENCE_TOKEN, token.get())
        .header(FENCE_HIGHEST, highest.get())
}

fn condition_failed(failure: ConditionFailure) -> S3Error {
    let precondition = |name: &str| {
        S3Error::new(
            StatusCode::PRECONDITION_FAILED,
            "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold",
        )
        .element("Condition", name)
    };
    match failure {
        ConditionFailure::NoSuchKey => {
            S3Error::new(StatusCode::NOT_FOUND, "NoSuchKey", "The specified key does not exist.")
        }
        ConditionFailure::IfMatch => precondition("If-Match"),
        ConditionFailure::IfNoneMatch => precondition("If-None-Match"),
    }
}

fn retryable(code: &'static str, message: impl Into<String>) -> S3Error {
    S3Error::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
        .header(header::RETRY_AFTER, RETRY_AFTER_SECONDS)
}

fn contended(why: Contention) -> S3Error {
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
pub(super) fn unavailable() -> S3Error {
    let message = "The fence cannot be checked now. Nothing was changed; try again.";
    retryable("FenceUnavailable", message)
}

fn outcome_unknown() -> S3Error {
    retryable(
        "FenceOutcomeUnknown",
        "The store's answer to the write was lost. It may have been made, or may still be made; \
         read the object before you decide.",
    )
}

fn internal() -> S3Error {
    S3Error::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "InternalError",
        "We encountered an internal error. Please try again.",
    )
}

/// F13.
pub(super) fn token_required(required: TokenRequired) -> S3Error {
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
pub(super) fn token_problem(problem: &TokenProblem) -> (Option<Reason>, S3Error) {
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
        TokenProblem::ForeignSessionToken => {
            let message = "The session token is not one of this proxy's: it takes only \
                           fence:<token>.";
            (None, S3Error::new(StatusCode::BAD_REQUEST, "InvalidToken", message))
        }
    }
}

/// An operation that is never passed through unfenced.
pub(super) fn unsupported(operation: Operation, header: Option<&str>) -> S3Error {
    let what = match header {
        Some(header) => format!("{} with the header {header}", operation.name()),
        None => operation.name().to_owned(),
    };
    let message = format!(
        "{what} could change something in a fenced scope, and this version cannot fence it. It \
         passes where the scope's mode is \"off\". Nothing was changed."
    );
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "FenceUnsupportedOperation", message)
        .element("Operation", operation.name())
}

pub(super) fn unsupported_encryption(header: &'static str) -> S3Error {
    let message = format!("The header {header} cannot be used on a fenced write here.");
    S3Error::new(StatusCode::NOT_IMPLEMENTED, "FenceUnsupportedOperation", message)
        .element("Header", header)
}

pub(super) fn bucket_not_empty(bucket: &Bucket) -> S3Error {
    S3Error::new(
        StatusCode::CONFLICT,
        "BucketNotEmpty",
        "The bucket you tried to delete is not empty",
    )
    .element("BucketName", bucket)
}

pub(super) fn ledger_bucket(bucket: &Bucket) -> S3Error {
    let message = format!("The bucket {bucket} holds the fence's own records.");
    S3Error::new(StatusCode::FORBIDDEN, "AccessDenied", message)
}

/// One object with two names would have two fences.
pub(super) fn alias_of_another_key() -> S3Error {
    let message = "This store takes keys for file paths, so that the object has another name, and \
                   a fence under that name. Write the key without empty segments, \".\", \"..\" \
                   and backslashes. Nothing was changed.";
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
}

pub(super) fn invalid_target(error: TargetError) -> S3Error {
    S3Error::new(StatusCode::BAD_REQUEST, error.code(), error.message())
}

#[expect(clippy::needless_pass_by_value, reason = "it is used as a function of map_err")]
pub(super) fn unauthenticated(error: AuthError) -> S3Error {
    let mut answer = S3Error::new(error.status(), error.code(), error.to_string());
    answer.elements = error.elements();
    answer
}

pub(super) fn invalid_body(error: &BodyError) -> S3Error {
    let mut answer = S3Error::new(error.status(), error.code(), error.to_string());
    answer.elements = error.elements();
    answer
}

pub(super) fn incomplete_body() -> S3Error {
    S3Error::new(
        StatusCode::BAD_REQUEST,
        "IncompleteBody",
        "The request body terminated unexpectedly",
    )
}

pub(super) fn body_timeout(limit: Duration) -> S3Error {
    let message = format!("The request's body did not arrive within {} seconds.", limit.as_secs());
    S3Error::new(StatusCode::BAD_REQUEST, "RequestTimeout", message)
}

pub(super) fn missing_length() -> S3Error {
    S3Error::new(
        StatusCode::LENGTH_REQUIRED,
        "MissingContentLength",
        "You must provide the Content-Length HTTP header.",
    )
}

pub(super) fn malformed_header(name: HeaderName) -> S3Error {
    let message = format!("The header {name} is repeated, or is not text.");
    S3Error::new(StatusCode::BAD_REQUEST, "InvalidArgument", message).element("ArgumentName", name)
}

pub(super) fn invalid_condition(name: HeaderName, error: InvalidEtag) -> S3Error {
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

pub(super) fn store_unreachable() -> S3Error {
    retryable("ServiceUnavailable", "The store cannot be reached. Please try again.")
}

pub(super) fn store_silent() -> S3Error {
    S3Error::new(
        StatusCode::BAD_GATEWAY,
        "InternalError",
        "The store did not answer. The request may or may not have been carried out.",
    )
}

/// What the listener did not hand over.
pub(super) fn not_handled(refusal: Refusal) -> S3Error {
    match refusal {
        Refusal::Busy => retryable("SlowDown", "Please reduce your request rate."),
        Refusal::Malformed(why) => S3Error::new(StatusCode::BAD_REQUEST, "InvalidRequest", why),
        Refusal::Failed => internal(),
    }
}

//! Every verdict and every error as an S3 answer: status, code, headers.

mod errors;
mod scope_errors;

use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode};

pub(super) use self::errors::*;
pub(super) use self::scope_errors::*;
use super::driver::Findings;
use super::{ResponseBody, full_body};
use crate::clock;
use crate::fence::{Tag, Token, Verdict};
use crate::listener::RequestId;
use crate::policy::Place;
use crate::s3::{self, Operation, S3Error};
use crate::upstream::{Answer, Dialect, SendError};

/// The proxy's own name for a request, beside the store's.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-fencepost-request-id");

/// S3's name for a request.
const AMZ_REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

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

/// The same for a request to the proxy itself, whose errors are JSON.
pub(super) fn finish_own(
    answer: Result<Response<ResponseBody>, S3Error>,
    asked: &Asked,
    id: RequestId,
) -> Response<ResponseBody> {
    let answer = answer.or_else(|error| {
        tracing::debug!(
            request_id = %id, code = error.code, status = error.status.as_u16(),
            message = error.message, "refused"
        );
        let mut response = super::own::json(&error.to_json(&id.to_string()));
        *response.status_mut() = error.status;
        response.headers_mut().extend(error.headers);
        Ok(response)
    });
    finish(answer, asked, id)
}

/// The fence's verdict on a write.
pub(super) fn verdict(
    verdict: Verdict,
    findings: Findings,
    token: Token,
    place: &Place,
    stale_status: StatusCode,
    operation: Operation,
    dialect: Dialect,
) -> Result<Response<ResponseBody>, S3Error> {
    match verdict {
        Verdict::Applied { tag, recognised } => {
            let with_document =
                matches!(operation, Operation::CompleteMultipartUpload | Operation::CopyObject);
            Ok(if with_document {
                assembled(&tag, recognised, findings, place, operation, dialect)
            } else {
                applied(&tag, recognised, findings, dialect)
            })
        }
        Verdict::AlreadyAbsent => Ok(status_only(StatusCode::NO_CONTENT)),
        Verdict::Claimed => Ok(status_only(StatusCode::OK)),
        Verdict::Done => match findings.answer.and_then(|answer| answer.answer) {
            Some(answer) => Ok(store_answer(answer)),
            None => Err(internal()),
        },
        Verdict::Rejected => rejected(findings),
        refused @ (Verdict::Stale { .. }
        | Verdict::Mismatched(_)
        | Verdict::Barred(_)
        | Verdict::ConditionFailed(_)
        | Verdict::BodyFailed
        | Verdict::Contended(_)
        | Verdict::Unavailable
        | Verdict::OutcomeUnknown
        | Verdict::Broken) => Err(refusal(refused, findings, token, place, stale_status)),
    }
}

/// A verdict that is no success, and not the store's own word either.
pub(super) fn refusal(
    verdict: Verdict,
    findings: Findings,
    token: Token,
    place: &Place,
    stale_status: StatusCode,
) -> S3Error {
    match verdict {
        Verdict::Stale { highest } => stale(token, highest, place, stale_status),
        Verdict::Mismatched(mismatch) => mismatched(&mismatch, token, place),
        Verdict::Barred(intents) => barred(&intents),
        Verdict::ConditionFailed(failure) => condition_failed(failure),
        Verdict::BodyFailed => findings.body_error.unwrap_or_else(incomplete_body),
        Verdict::Contended(why) => contended(why),
        Verdict::Unavailable => unavailable(),
        Verdict::OutcomeUnknown => outcome_unknown(),
        // The store's word without the store's answer: the request was never sent.
        Verdict::Rejected => unavailable(),
        Verdict::Applied { .. }
        | Verdict::AlreadyAbsent
        | Verdict::Claimed
        | Verdict::Done
        | Verdict::Broken => internal(),
    }
}

/// A success whose answer is a document: the store's own, or, where that was lost, what is known.
fn assembled(
    tag: &Tag,
    recognised: bool,
    findings: Findings,
    place: &Place,
    operation: Operation,
    dialect: Dialect,
) -> Response<ResponseBody> {
    let answer = findings.answer.and_then(|answer| answer.answer);
    if let (false, Some(answer)) = (recognised, answer) {
        return store_answer(answer);
    }
    let Tag::Version(tag) = tag else { return status_only(StatusCode::OK) };
    let etag = dialect.etag_of(tag);
    let observed = findings.observed.unwrap_or_default();
    let bytes = if operation == Operation::CopyObject {
        let modified = observed.get(header::LAST_MODIFIED).and_then(|date| date.to_str().ok());
        let modified = modified.and_then(|date| httpdate::parse_http_date(date).ok());
        s3::copy_result(etag, modified.unwrap_or_else(clock::now))
    } else {
        s3::complete_upload_result(&place.scope.bucket, &place.key, etag)
    };
    let mut response = Response::new(full_body(bytes.into()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    if let Some(version) = observed.get("x-amz-version-id") {
        headers.insert("x-amz-version-id", version.clone());
    }
    response
}

/// A success: the store's own answer where it is one, else what is known of the object.
fn applied(
    tag: &Tag,
    recognised: bool,
    findings: Findings,
    dialect: Dialect,
) -> Response<ResponseBody> {
    let answer = findings.answer.and_then(|answer| answer.answer);
    match (recognised, answer) {
        (false, Some(answer)) if answer.tag().as_ref() == Some(tag) || *tag == Tag::Absent => {
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
            if let Tag::Version(tag) = tag
                && let Ok(value) = HeaderValue::from_str(&format!("\"{}\"", dialect.etag_of(tag)))
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

pub(super) fn store_answer(answer: Answer) -> Response<ResponseBody> {
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
        // A refusal inside of a 200, which can only be that of a precondition.
        (Some(answer), _) if answer.code().is_some() => {
            let status = StatusCode::PRECONDITION_FAILED;
            Ok(store_answer(Answer { status, ..answer }))
        }
        (_, Some(SendError::Unsent(_) | SendError::Lost(_))) => Err(unavailable()),
        (_, None) => Err(internal()),
    }
}

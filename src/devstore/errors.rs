//! S3 errors that `s3s` has no code for.

use http::StatusCode;
use s3s::{S3Error, S3ErrorCode};

/// An error with a code of Amazon's that is missing in `s3s`.
pub(super) fn custom(status: StatusCode, code: &'static str, message: &'static str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(status);
    error
}

/// 400 `NotImplemented`, of Google's: Amazon's is a 501.
pub(super) fn not_implemented() -> S3Error {
    custom(
        StatusCode::BAD_REQUEST,
        "NotImplemented",
        "A header or query you provided requested a function that is not implemented.",
    )
}

/// 400 `ExcessHeaderValues`.
pub(super) fn excess_header_values() -> S3Error {
    custom(
        StatusCode::BAD_REQUEST,
        "ExcessHeaderValues",
        "Multiple HTTP header values where one was expected: cannot specify both x-amz and x-goog.",
    )
}

/// 400 `InvalidArgument`.
pub(super) fn invalid_header() -> S3Error {
    custom(StatusCode::BAD_REQUEST, "InvalidArgument", "Invalid argument.")
}

/// 400 `InvalidObjectName`.
pub(super) fn invalid_name() -> S3Error {
    custom(StatusCode::BAD_REQUEST, "InvalidObjectName", "The specified object name is not valid.")
}

/// 400 `MalformedSecurityHeader`.
pub(super) fn malformed_security_header() -> S3Error {
    custom(
        StatusCode::BAD_REQUEST,
        "MalformedSecurityHeader",
        "Your request has a malformed header.",
    )
}

/// 400 `ExpiredToken`.
pub(super) fn expired_token() -> S3Error {
    custom(StatusCode::BAD_REQUEST, "ExpiredToken", "The provided token has expired.")
}

/// 401 `AuthenticationRequired`.
pub(super) fn authentication_required() -> S3Error {
    custom(StatusCode::UNAUTHORIZED, "AuthenticationRequired", "Authentication required.")
}

/// 403 `InvalidSecurity`.
pub(super) fn invalid_security() -> S3Error {
    custom(
        StatusCode::FORBIDDEN,
        "InvalidSecurity",
        "The provided security credentials are not valid.",
    )
}

/// 429 `SlowDown`, of Google's: Amazon's is a 503.
pub(super) fn slow_down() -> S3Error {
    custom(
        StatusCode::TOO_MANY_REQUESTS,
        "SlowDown",
        "The object exceeded the rate limit for object mutation operations (create, update, and \
         delete). Please reduce your request rate.",
    )
}

/// 500 `UnknownError`, of Ceph's.
pub(super) fn unknown_error() -> S3Error {
    custom(StatusCode::INTERNAL_SERVER_ERROR, "UnknownError", "")
}

/// 429 `TooManyRequests`, of R2's.
pub(super) fn too_many_requests() -> S3Error {
    custom(
        StatusCode::TOO_MANY_REQUESTS,
        "TooManyRequests",
        "Reduce your concurrent request rate for the same object.",
    )
}

/// 400 `XMinioInvalidObjectName`.
pub(super) fn invalid_object_name() -> S3Error {
    custom(
        StatusCode::BAD_REQUEST,
        "XMinioInvalidObjectName",
        "Object name contains unsupported characters.",
    )
}

/// 400 `XAmzContentSHA256Mismatch`.
pub(super) fn sha256_mismatch() -> S3Error {
    custom(
        StatusCode::BAD_REQUEST,
        "XAmzContentSHA256Mismatch",
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
    )
}

/// 400 `MalformedTrailerError`.
pub(super) fn malformed_trailer() -> S3Error {
    custom(
        StatusCode::BAD_REQUEST,
        "MalformedTrailerError",
        "The request contained trailing data that was not well-formed or did not conform to our \
         published schema.",
    )
}

/// 416 `InvalidPartNumber`.
pub(super) fn invalid_part_number() -> S3Error {
    custom(
        StatusCode::RANGE_NOT_SATISFIABLE,
        "InvalidPartNumber",
        "The requested partnumber is not satisfiable",
    )
}

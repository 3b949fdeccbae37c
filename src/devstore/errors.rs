//! S3 errors that `s3s` has no code for.

use http::StatusCode;
use s3s::{S3Error, S3ErrorCode};

/// An error with a code of Amazon's that is missing in `s3s`.
pub(super) fn custom(status: StatusCode, code: &'static str, message: &'static str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message);
    error.set_status_code(status);
    error
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

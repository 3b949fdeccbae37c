//! What stands behind a listener, and what it is told of a request besides the request.

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, request};

use super::RequestBody;
use crate::clock;

/// Answers requests. Cloned for every request, so a clone should be cheap.
pub trait Handler: Clone + Send + Sync + 'static {
    /// The body of its answers.
    type Body: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static;

    /// Answers one request.
    fn handle(
        &self,
        request: Request<RequestBody>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// The answer to a request that the listener does not hand over, or that came to no answer.
    fn refuse(&self, request: &request::Parts, refusal: Refusal) -> Response<Self::Body>;
}

/// What the errors of bodies become.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request has no answer of [`Handler::handle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As many requests as may be are in flight: 503, try again.
    Busy,
    /// It is not a request that HTTP allows, for this reason: 400.
    Malformed(&'static str),
    /// The handler panicked: 500.
    Failed,
}

/// The name of one request in answers and log lines: 16 of `0-9A-F`, the form that S3 uses in
/// `x-amz-request-id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

impl RequestId {
    /// A new one.
    #[must_use]
    pub fn random() -> Self {
        let high = clock::random_u128() >> 64;
        Self(u64::try_from(high).expect("64 bits are left after a shift by 64"))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

/// The other end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub SocketAddr);

//! Requests to the proxy itself, beside those to the store: `/_fence/claim/{bucket}/{key}` and
//! `/_fence/lease/{bucket}/{key}`, on the data listener, signed like any other.
//!
//! No bucket is called `_fence`, because S3 allows no underscore in a bucket's name. Answers are
//! JSON, those to errors too.

use http::header;
use http::request::Parts;
use http::{HeaderValue, Method, Response};
use serde::Serialize;

use super::body::ClientBody;
use super::fenced_write::Origin;
use super::{Authentication, Proxy, ResponseBody, body, full_body, respond, token};
use crate::auth::{Verified, verify};
use crate::clock;
use crate::fence::{Bearer, Token};
use crate::listener::RequestId;
use crate::s3::{Bucket, S3Error, Target, percent_decode};

/// What the paths of these requests begin with.
const PREFIX: &str = "/_fence/";

/// The largest body of such a request, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// What is asked of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// Claim a scope (F14).
    Claim,
    /// Acquire, renew or release the lease of a scope.
    Lease,
    /// Look at the lease of a scope.
    ShowLease,
    /// Nothing that there is.
    Unknown,
}

impl Own {
    /// Its name in metrics and in the log.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Claim => "Claim",
            Self::Lease => "Lease",
            Self::ShowLease => "ShowLease",
            Self::Unknown => "Unknown",
        }
    }
}

/// A request to the proxy itself whose head has been understood.
pub(super) struct OwnRequest {
    pub(super) own: Own,
    pub(super) id: RequestId,
    pub(super) parts: Parts,
    pub(super) verified: Verified,
    pub(super) bucket: Bucket,
    /// The key, or the prefix, in the path; it may be empty.
    pub(super) name: Vec<u8>,
    pub(super) token: Option<Token>,
    pub(super) bearer: Bearer,
}

impl OwnRequest {
    pub(super) fn origin(&self) -> Origin {
        Origin { id: self.id, operation: self.own.name() }
    }
}

/// What a request asks of the proxy itself; `None` if it is one to the store.
pub(super) fn asked(parts: &Parts, names_bucket: bool) -> Option<Own> {
    let path = parts.uri.path().strip_prefix(PREFIX).filter(|_| !names_bucket)?;
    let kind = path.split_once('/').map_or(path, |(kind, _)| kind);
    Some(match (kind, &parts.method) {
        ("claim", &Method::PUT) => Own::Claim,
        ("lease", &Method::POST) => Own::Lease,
        ("lease", &Method::GET) => Own::ShowLease,
        (_, _) => Own::Unknown,
    })
}

impl Proxy {
    /// Answers a request to the proxy itself.
    pub(super) async fn answer_own(
        &self,
        own: Own,
        id: RequestId,
        parts: Parts,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let request = self.understand_own(own, id, parts)?;
        match own {
            Own::Claim => {
                self.message(&request, body).await?;
                self.claim_scope(&request).await
            }
            Own::Lease | Own::ShowLease => self.lease(&request, body).await,
            Own::Unknown => Err(respond::no_such_request(&request.parts)),
        }
    }

    fn understand_own(&self, own: Own, id: RequestId, parts: Parts) -> Result<OwnRequest, S3Error> {
        let settings = &self.0.settings;
        let verified = match &settings.authentication {
            Authentication::SigV4(ring) => verify(&parts, ring, clock::now()),
            Authentication::None => Verified::unauthenticated(&parts),
        }
        .map_err(respond::unauthenticated)?;
        if matches!(settings.authentication, Authentication::None)
            && parts.headers.contains_key(header::ORIGIN)
        {
            return Err(respond::sent_by_a_page());
        }
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
        let (_, path) = path.split_once('/').ok_or_else(|| respond::no_such_request(&parts))?;
        let (bucket, name) = path.split_once('/').unwrap_or((path, ""));
        let target = Target::parse(&format!("/{bucket}/{name}"), "", &settings.host_suffixes)
            .map_err(respond::invalid_target)?;
        let bucket = match target {
            Target::Service => return Err(respond::no_such_request(&parts)),
            Target::Bucket(bucket) | Target::Object(bucket, _) => bucket,
        };
        if bucket == settings.ledger_bucket {
            return Err(respond::ledger_bucket(&bucket));
        }
        self.0.metrics.bucket_seen(bucket.as_str());
        let name = percent_decode(name.as_bytes());
        let problem = |problem| self.token_problem(Some(&bucket), &problem);
        let token = token::find(&parts, &verified, settings.token_signature).map_err(problem)?;
        let bearer =
            token::bearer_of(&parts, &verified, settings.token_signature).map_err(problem)?;
        Ok(OwnRequest { own, id, parts, verified, bucket, name, token, bearer })
    }

    /// The body of the request, verified.
    pub(super) async fn message(
        &self,
        request: &OwnRequest,
        body: ClientBody,
    ) -> Result<bytes::Bytes, S3Error> {
        let time_max = self.0.settings.request_body_max;
        let body = body::wrap_own(&request.parts, &request.verified, body)?;
        let mut headers = request.parts.headers.clone();
        let message = body::message(body, &mut headers, time_max).await?;
        if message.len() > BODY_BYTES_MAX {
            return Err(respond::invalid_request(format!(
                "The body has more than {BODY_BYTES_MAX} bytes."
            )));
        }
        Ok(message)
    }
}

/// An answer of 200 with this as its JSON.
pub(super) fn json(value: &impl Serialize) -> Response<ResponseBody> {
    let mut text = serde_json::to_string(value).expect("texts and numbers can be JSON");
    text.push('\n');
    let mut response = Response::new(full_body(text.into()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

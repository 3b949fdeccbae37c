//! The client towards the store.
//!
//! Three ways lead out. [`Upstream::send_read`] takes requests that change nothing;
//! [`Upstream::send_unfenced`] wants an [`UnfencedPermit`], as does what the doctor tries
//! ([`Upstream::examine`]); [`write`](self) takes the fence's
//! permits and carries their terms: precondition, stamp, form and time of signing. There is no
//! fourth, so that nothing goes round the fence by accident.
//!
//! It does *not* decide, retry or interpret beyond "what does this answer say of my request"
//! ([`Answer`]). A write that was written to a connection is never sent again; only one that found
//! its pooled connection closed before its first byte is (hyper-util tells them apart). A read
//! without a body is sent once more when its connection ends without an answer: a store may close
//! an idle connection in the moment in which the next request is written.

mod answer;
mod body;
mod credentials;
mod dialect;
mod edge;
mod exchange;
mod expect;
mod framed;
mod google;
mod headers;
mod idle;
mod multipart;
mod sdk;
mod trial;
mod write;

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use md5::Md5;
use sha2::{Digest as _, Sha256};

pub use answer::Answer;
pub use body::{BoxError, OutBody, forms_of, full};
pub use dialect::Dialect;
pub use edge::{AccessToken, Edge, Identity, TokenSource};
pub use framed::{Framed, announce};
pub use headers::{FENCE_TOKEN, STAMP_OPERATION, STAMP_TOKEN, for_store, remove_hop_by_hop, stamp};
pub use idle::IdleLimit;
pub use multipart::query_value;
pub use sdk::sdk_client_behind;
pub use trial::{Signing, Trial};
pub use write::{BodyEnd, HeldWrite, PutBody, WriteAnswer, WriteRequest};

use self::body::Watched;
use self::edge::Speaker;
use self::exchange::Failed;
pub(crate) use self::exchange::error_chain;
use self::expect::Expectation;
use crate::auth::{PayloadHash, SignError, SignatureForm};
use crate::clock;
use crate::fence::{OperationId, Tag, UnfencedPermit};
use crate::s3::{Bucket, ObjectKey, percent_encode_key};

/// Where the bucket goes in requests to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// `https://host/bucket/key`.
    Path,
    /// `https://bucket.host/key`.
    Virtual,
}

/// How the store is reached.
#[derive(Clone, Debug)]
pub struct UpstreamConfig {
    /// `http` or `https`.
    pub scheme: Scheme,
    /// Host, and port where it is not the scheme's.
    pub authority: Authority,
    /// Where the bucket goes.
    pub addressing: Addressing,
    /// How long the store may take between the last byte of a request and the head of its answer.
    pub response_timeout: Duration,
    /// The same for what assembles an object of bytes that the store has: stores that copy them
    /// answer when they are done.
    pub assembly_timeout: Duration,
    /// How long a body of the store may pause.
    pub idle_body_timeout: Duration,
    /// How long an idle connection is kept.
    pub pool_idle: Duration,
    /// How many idle connections are kept.
    pub pool_idle_connections_max: usize,
    /// Whether the store takes checksums in trailers.
    pub takes_trailers: bool,
    /// For how long the signature of a request without a body is good, in seconds (F9).
    pub bodiless_signature_seconds: u32,
    /// For how long the signature of a request with a body is good, in seconds (F9).
    pub signature_seconds: u64,
}

/// A client for one store.
#[derive(Debug)]
pub struct Upstream {
    http: Client<HttpsConnector<HttpConnector>, Watched>,
    edge: Arc<Edge>,
    config: UpstreamConfig,
}

/// Where a request goes: the raw path in path style (`/bucket/key`), and the raw query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The bucket in front of the path, if there is one.
    pub bucket: Option<Bucket>,
    /// The raw path in path style.
    pub path: String,
    /// The raw query.
    pub query: Option<String>,
}

impl Route {
    /// The route to an object, in canonical spelling.
    #[must_use]
    pub fn to_object(bucket: &Bucket, key: &ObjectKey) -> Self {
        Self {
            bucket: Some(bucket.clone()),
            path: format!("/{bucket}/{}", percent_encode_key(key.as_bytes())),
            query: None,
        }
    }

    /// The same path with another query.
    #[must_use]
    pub fn with_query(&self, query: impl Into<String>) -> Self {
        Self { query: Some(query.into()), ..self.clone() }
    }
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// It was never sent: it has changed nothing and never will.
    #[error("the request was not sent: {0}")]
    Unsent(String),
    /// It may have been sent: nobody knows what became of it.
    #[error("the store's answer was lost: {0}")]
    Lost(String),
}

/// An object as HEAD shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Its tag.
    pub tag: Tag,
    /// The operation stamped on it (F10).
    pub stamp: Option<OperationId>,
    /// The answer's headers.
    pub headers: HeaderMap,
}

impl From<SignError> for SendError {
    fn from(error: SignError) -> Self {
        Self::Unsent(error.to_string())
    }
}

impl Upstream {
    /// A client that connects through `connector`.
    #[must_use]
    pub fn new(
        connector: HttpsConnector<HttpConnector>,
        edge: Arc<Edge>,
        config: UpstreamConfig,
    ) -> Self {
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(config.pool_idle)
            .pool_max_idle_per_host(config.pool_idle_connections_max)
            .build(connector);
        Self { http, edge, config }
    }

    /// What the store speaks.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.edge.dialect()
    }

    /// The tag of an object that the store shows with these headers.
    #[must_use]
    pub fn tag_of(&self, headers: &HeaderMap) -> Option<Tag> {
        self.dialect().tag_of(headers)
    }

    /// The first header that a request of a client cannot be forwarded with, because the store's
    /// dialect has no words for it.
    #[must_use]
    pub fn unspeakable<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        self.edge.unspeakable(headers, Speaker::Client)
    }

    /// The same of a fenced write.
    #[must_use]
    pub fn unspeakable_write<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        self.edge.unspeakable(headers, Speaker::Proxy)
    }

    /// Whether the store takes checksums in trailers.
    #[must_use]
    pub fn takes_trailers(&self) -> bool {
        self.config.takes_trailers
    }

    /// Sends a request that changes nothing. `headers` are those of [`for_store`].
    ///
    /// # Errors
    ///
    /// [`SendError`].
    pub async fn send_read(
        &self,
        method: Method,
        route: &Route,
        headers: HeaderMap,
        body: OutBody,
        payload: PayloadHash,
    ) -> Result<Response<IdleLimit>, SendError> {
        let request = self.sign_as(Speaker::Client, method, route, headers, payload).await?;
        self.read(request, body).await
    }

    async fn read(
        &self,
        request: Request<()>,
        body: OutBody,
    ) -> Result<Response<IdleLimit>, SendError> {
        let repeatable =
            matches!(*request.method(), Method::GET | Method::HEAD) && body.is_end_stream();
        let again = repeatable.then(|| request.clone());
        let timeout = self.config.response_timeout;
        let first = self.try_exchange(request.map(|()| body), timeout).await;
        let response = match (first, again) {
            (Err(Failed::Closed(_)), Some(again)) => {
                self.exchange(again.map(|()| full(Bytes::new()))).await?
            }
            (result, _) => result?,
        };
        Ok(self.limited(response))
    }

    /// Sends a request that no fence guards (F13).
    ///
    /// # Errors
    ///
    /// [`SendError`].
    pub async fn send_unfenced(
        &self,
        permit: UnfencedPermit,
        method: Method,
        route: &Route,
        headers: HeaderMap,
        body: OutBody,
        payload: PayloadHash,
    ) -> Result<Response<IdleLimit>, SendError> {
        let UnfencedPermit { .. } = permit;
        let request = self.sign_as(Speaker::Client, method, route, headers, payload).await?;
        let request = request.map(|()| body);
        if !request.headers().contains_key(header::EXPECT) {
            return Ok(self.limited(self.exchange(request).await?));
        }
        let (request, expectation) = Expectation::on(request);
        let response = self.limited(self.exchange(request).await?);
        Ok(response.map(|body| body.without_body(expectation.answered())))
    }

    fn limited(&self, response: Response<Incoming>) -> Response<IdleLimit> {
        response.map(|body| IdleLimit::new(body, self.config.idle_body_timeout))
    }

    /// Asks for an object's tag and stamp.
    ///
    /// # Errors
    ///
    /// When the store does not answer, or answers neither "here" nor "not here".
    pub async fn observe(&self, route: &Route) -> Result<Observed, SendError> {
        let (status, headers) = self.head(route).await?;
        let stamp = headers.get(&STAMP_OPERATION);
        let stamp = stamp.and_then(|stamp| stamp.to_str().ok()?.parse().ok());
        let tag = match status {
            StatusCode::NOT_FOUND => Tag::Absent,
            StatusCode::OK => self
                .tag_of(&headers)
                .ok_or_else(|| SendError::Lost("the object was shown without a tag".into()))?,
            status => return Err(SendError::Lost(format!("HEAD was answered {status}"))),
        };
        Ok(Observed { tag, stamp, headers })
    }

    /// Asks for an object's headers.
    ///
    /// # Errors
    ///
    /// When the store does not answer.
    pub async fn head(&self, route: &Route) -> Result<(StatusCode, HeaderMap), SendError> {
        // Google's front end unpacks what is stored packed, and says so, unless the client takes it.
        let mut headers = HeaderMap::new();
        if self.dialect() == Dialect::Gcs {
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let payload = PayloadHash::Empty;
        let request = self.sign_as(Speaker::Proxy, Method::HEAD, route, headers, payload).await?;
        let answer = self.read(request, full(Bytes::new())).await?;
        let (parts, _) = answer.into_parts();
        Ok((parts.status, parts.headers))
    }

    /// Sends a small request that no fence guards, and reads its answer whole.
    ///
    /// # Errors
    ///
    /// [`SendError`].
    pub async fn step(
        &self,
        permit: UnfencedPermit,
        method: Method,
        route: &Route,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, SendError> {
        let UnfencedPermit { .. } = permit;
        let payload = PayloadHash::Sha256(Sha256::digest(&body).into());
        // What is stamped is going to be looked at by the proxy.
        let speaker = match headers.contains_key(&STAMP_OPERATION) {
            true => Speaker::Proxy,
            false => Speaker::Client,
        };
        let signed = self.sign_as(speaker, method, route, headers, payload).await?;
        self.call(signed.map(|()| full(body))).await
    }

    /// Whether a bucket holds no object, as a listing shows it. One that is not there is empty.
    ///
    /// # Errors
    ///
    /// When the store does not answer, or not with a listing.
    pub async fn is_empty(&self, bucket: &Bucket) -> Result<bool, SendError> {
        let route = Route {
            bucket: Some(bucket.clone()),
            path: format!("/{bucket}"),
            query: Some("list-type=2&max-keys=1".into()),
        };
        let (headers, empty) = (HeaderMap::new(), full(Bytes::new()));
        let payload = PayloadHash::Empty;
        let request = self.sign_as(Speaker::Client, Method::GET, &route, headers, payload).await?;
        let answer = self.call(request.map(|()| empty)).await?;
        match answer.status {
            StatusCode::NOT_FOUND => Ok(true),
            StatusCode::OK => Ok(answer::element(&answer.body, "Key").is_none()),
            status => Err(SendError::Lost(format!("the listing was answered {status}"))),
        }
    }

    /// A request that no intent waits for.
    async fn sign_as(
        &self,
        speaker: Speaker,
        method: Method,
        route: &Route,
        headers: HeaderMap,
        payload: PayloadHash,
    ) -> Result<Request<()>, SendError> {
        let mut parts = self.head_of(method, route, headers)?;
        let form = SignatureForm::Header;
        self.edge.seal(&mut parts, speaker, payload, clock::now(), form).await?;
        Ok(Request::from_parts(parts, ()))
    }

    /// A request of the fence's, signed for the moment that it was told.
    async fn sign(
        &self,
        method: Method,
        route: &Route,
        headers: HeaderMap,
        payload: PayloadHash,
        at: std::time::SystemTime,
        expires_seconds: Option<u32>,
    ) -> Result<Request<()>, SendError> {
        let mut parts = self.head_of(method, route, headers)?;
        let form = expires_seconds.map_or(SignatureForm::Header, |expires_seconds| {
            SignatureForm::Query { expires_seconds }
        });
        self.edge.seal(&mut parts, Speaker::Proxy, payload, at, form).await?;
        Ok(Request::from_parts(parts, ()))
    }

    fn head_of(
        &self,
        method: Method,
        route: &Route,
        headers: HeaderMap,
    ) -> Result<http::request::Parts, SendError> {
        let mut request = Request::new(());
        *request.method_mut() = method;
        *request.uri_mut() = self.uri(route)?;
        *request.headers_mut() = headers;
        Ok(request.into_parts().0)
    }

    fn uri(&self, route: &Route) -> Result<Uri, SendError> {
        let invalid = |error: http::Error| SendError::Unsent(error.to_string());
        let (authority, path) = match (self.config.addressing, &route.bucket) {
            (Addressing::Virtual, Some(bucket)) => {
                let authority = format!("{bucket}.{}", self.config.authority);
                let authority = Authority::try_from(authority)
                    .map_err(|error| SendError::Unsent(error.to_string()))?;
                let rest = route.path.get(bucket.as_str().len() + 1..).unwrap_or_default();
                (authority, if rest.is_empty() { "/" } else { rest })
            }
            (Addressing::Path | Addressing::Virtual, _) => {
                (self.config.authority.clone(), route.path.as_str())
            }
        };
        let path_and_query = match &route.query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        Uri::builder()
            .scheme(self.config.scheme.clone())
            .authority(authority)
            .path_and_query(path_and_query)
            .build()
            .map_err(invalid)
    }
}

/// `Content-MD5` of a body.
pub(crate) fn content_md5(body: &[u8]) -> HeaderValue {
    let text = BASE64_STANDARD.encode(Md5::digest(body));
    HeaderValue::from_str(&text).expect("base64 is ASCII")
}

/// The moment that the fence told to sign with.
fn signing_time(seconds: u64) -> std::time::SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// The length of a body, as the store wants to know it beforehand.
pub(crate) fn set_length(headers: &mut HeaderMap, length: u64) {
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
}

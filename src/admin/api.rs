//! The admin API: scopes, listed, inspected and reset, by whoever has a token.
//!
//! | request | answer |
//! |---|---|
//! | `GET /scopes?bucket=B&after=A&max=N` | a page of scopes |
//! | `GET /scopes/{bucket}/{path}` | everything that is known of the scope that has this key or prefix |
//! | `POST /scopes/{bucket}/{path}` | `{"action":"reset","to":"50","reason":"why","force":false}` sets its highest token |
//!
//! All of it is JSON, errors too: `{"code","message","request_id"}`. The path is decoded once, as
//! bytes. Who asks is told by `Authorization: Bearer …` ([`AdminTokens`]). Without a token file the
//! API is off and every request is refused.
//!
//! Every attempt to reset is written to the log under the target `fencepost::audit`, whatever comes
//! of it: who, which scope, from where to where, why, and the outcome. What a scope is and how it
//! is reset is not known here, but behind [`AdminApi`].

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::tokens::AdminTokens;
use crate::fence::Token;
use crate::listener::{ClientAddress, RequestBody, RequestId};
use crate::s3::{Bucket, Query, percent_decode};

/// The largest body of a request.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The longest reason of a reset. It is kept in the record.
const REASON_BYTES_MAX: usize = 1024;

/// How many scopes a page has when the request does not say, and at most.
const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1000;

/// What the API rests on. The answers are documents, written by whoever knows scopes.
#[async_trait::async_trait]
pub trait AdminApi: fmt::Debug + Send + Sync {
    /// A page of the scopes that have a record.
    async fn list(&self, page: &Page) -> Result<Value, AdminError>;

    /// Everything that is known of the scope that this key or prefix is in.
    async fn inspect(&self, bucket: &Bucket, path: &[u8]) -> Result<Value, AdminError>;

    /// Sets the highest token of a scope.
    async fn reset(
        &self,
        bucket: &Bucket,
        path: &[u8],
        order: &ResetOrder,
    ) -> Result<ResetDone, AdminError>;
}

/// Which scopes are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Those of this bucket, or of all.
    pub bucket: Option<Bucket>,
    /// Behind this place, which an earlier page named as its `next`.
    pub after: Option<String>,
    /// So many at most; at least 1.
    pub max: u32,
}

/// A reset that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetOrder {
    /// The name of who asks.
    pub by: String,
    /// The highest token from then on.
    pub to: Token,
    /// Why; not empty, without control characters.
    pub reason: String,
    /// Whether it may go down.
    pub force: bool,
}

/// A reset that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetDone {
    /// The scope, as it is shown.
    pub scope: String,
    /// The highest token before; `None` when there was none.
    pub from: Option<u64>,
    /// The highest token now.
    pub to: u64,
    /// How many times the scope has been reset.
    pub resets: u64,
}

/// A request that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminError {
    /// The status of the answer.
    pub status: StatusCode,
    /// Its code.
    pub code: &'static str,
    /// Why, in words.
    pub message: String,
    /// The highest token, where it was looked at. For a reset it stands in the audit log.
    pub highest: Option<u64>,
}

impl AdminError {
    /// An error without a token.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), highest: None }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidRequest", message)
    }
}

/// The API as the admin listener has it: off, waiting for the proxy to be put together, or on.
#[derive(Clone, Debug, Default)]
pub struct AdminGate {
    tokens: Option<Arc<AdminTokens>>,
    api: Arc<OnceLock<Arc<dyn AdminApi>>>,
}

/// What a reset's line in the log says besides its outcome.
#[derive(Debug)]
struct Audit<'a> {
    who: &'a str,
    scope: String,
    order: Option<&'a ResetBody>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResetBody {
    action: String,
    to: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    force: bool,
}

impl AdminGate {
    /// Open to whoever has one of these tokens.
    #[must_use]
    pub fn new(tokens: AdminTokens) -> Self {
        Self { tokens: Some(Arc::new(tokens)), api: Arc::default() }
    }

    /// From here on requests are answered by `api`. Only the first call counts.
    pub fn open(&self, api: Arc<dyn AdminApi>) {
        let _already = self.api.set(api);
    }

    /// Whether a path is one of the API's.
    pub(super) fn has(path: &str) -> bool {
        path == "/scopes" || path.starts_with("/scopes/")
    }

    /// Answers a request for one of its paths.
    pub(super) async fn answer(&self, request: Request<RequestBody>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let result = match parts.uri.path().strip_prefix("/scopes/") {
            None => self.list(&parts).await,
            Some(target) if parts.method == Method::POST => self.reset(&parts, target, body).await,
            Some(target) => self.inspect(&parts, target).await,
        };
        match result {
            Ok(document) => document_answer(StatusCode::OK, &document),
            Err(error) => error_answer(&parts, &error),
        }
    }

    async fn list(&self, parts: &request::Parts) -> Result<Value, AdminError> {
        let (_who, api) = self.admit(&parts.headers)?;
        wants(&parts.method, &[Method::GET, Method::HEAD])?;
        let query = Query::of(&parts.uri);
        let text = |name: &str| -> Result<Option<String>, AdminError> {
            let Some(value) = query.value(name) else { return Ok(None) };
            let text = String::from_utf8(value)
                .map_err(|_| AdminError::invalid(format!("{name} is not UTF-8")))?;
            Ok((!text.is_empty()).then_some(text))
        };
        let max = match text("max")? {
            None => PAGE_DEFAULT,
            Some(max) => match max.parse() {
                Ok(max @ 1..) => PAGE_MAX.min(max),
                Ok(0) | Err(_) => {
                    return Err(AdminError::invalid("max is a number and at least 1"));
                }
            },
        };
        let bucket = text("bucket")?.map(Bucket::new);
        api.list(&Page { bucket, after: text("after")?, max }).await
    }

    async fn inspect(&self, parts: &request::Parts, target: &str) -> Result<Value, AdminError> {
        let (_who, api) = self.admit(&parts.headers)?;
        wants(&parts.method, &[Method::GET, Method::HEAD, Method::POST])?;
        let (bucket, path) = location(target)?;
        api.inspect(&bucket, &path).await
    }

    /// Whatever comes of it is in the audit log.
    async fn reset(
        &self,
        parts: &request::Parts,
        target: &str,
        body: RequestBody,
    ) -> Result<Value, AdminError> {
        let admitted = self.admit(&parts.headers);
        let body = match &admitted {
            Ok(_) => read_reset(body).await,
            // Of a stranger nothing is read.
            Err(error) => Err(error.clone()),
        };
        let audit = Audit {
            who: admitted.as_ref().map_or("-", |(who, _)| *who),
            scope: format!("s3://{}", String::from_utf8_lossy(&percent_decode(target.as_bytes()))),
            order: body.as_ref().ok(),
        };
        let done = async {
            let (who, api) = admitted.clone()?;
            let order = body.as_ref().map_err(Clone::clone)?.order(who)?;
            let (bucket, path) = location(target)?;
            api.reset(&bucket, &path, &order).await
        }
        .await;
        audit.write(parts, &done);
        let done = done?;
        Ok(json!({
            "scope": done.scope,
            "from": done.from.map(|from| from.to_string()),
            "to": done.to.to_string(),
            "resets": done.resets,
        }))
    }

    /// The name of who asks, and the API.
    fn admit(&self, headers: &HeaderMap) -> Result<(&str, &Arc<dyn AdminApi>), AdminError> {
        let Some(tokens) = &self.tokens else {
            let message = "the admin API is off; admin.token_file names the file with the tokens \
                           of those who may use it";
            return Err(AdminError::new(StatusCode::FORBIDDEN, "AdminApiOff", message));
        };
        let presented = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let token = presented.and_then(|value| {
            let (scheme, token) = value.split_at_checked("Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
        });
        let Some(who) = token.and_then(|token| tokens.name_of(token)) else {
            let message = match token {
                Some(_) => "the token is not one of admin.token_file",
                None => "a token of admin.token_file is needed: Authorization: Bearer TOKEN",
            };
            return Err(AdminError::new(StatusCode::UNAUTHORIZED, "Unauthorized", message));
        };
        match self.api.get() {
            Some(api) => Ok((who, api)),
            None => {
                let message = "the proxy is starting";
                Err(AdminError::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message))
            }
        }
    }
}

impl ResetBody {
    fn order(&self, who: &str) -> Result<ResetOrder, AdminError> {
        if self.action != "reset" {
            return Err(AdminError::invalid("the only action is \"reset\""));
        }
        let to = self.to.parse::<Token>();
        let to = to.map_err(|_| AdminError::invalid("to is a token: \"1\" to 2^64 - 1, a text"))?;
        let reason = self.reason.trim();
        let fits = !reason.is_empty()
            && reason.len() <= REASON_BYTES_MAX
            && !reason.contains(char::is_control);
        if !fits {
            return Err(AdminError::invalid(format!(
                "a reset has a reason: one line of {REASON_BYTES_MAX} bytes at most"
            )));
        }
        Ok(ResetOrder { by: who.to_owned(), to, reason: reason.to_owned(), force: self.force })
    }
}

impl Audit<'_> {
    /// One line. Texts of the request are quoted, so that none can pass for another line.
    fn write(&self, parts: &request::Parts, done: &Result<ResetDone, AdminError>) {
        let (from, outcome) = match done {
            Ok(done) => (done.from, "reset"),
            Err(error) => (error.highest, error.code),
        };
        let scope = done.as_ref().map_or(self.scope.as_str(), |done| done.scope.as_str());
        let text = |token: Option<u64>| token.map_or_else(|| "-".to_owned(), |t| t.to_string());
        let order = self.order;
        let client = parts.extensions.get::<ClientAddress>().map(|ClientAddress(from)| *from);
        tracing::info!(
            target: "fencepost::audit",
            who = self.who,
            scope,
            from = text(from),
            to = order.map_or("-", |order| order.to.as_str()),
            force = order.is_some_and(|order| order.force),
            reason = order.map_or("-", |order| order.reason.as_str()),
            outcome,
            client = client.map_or_else(|| "-".to_owned(), |from: SocketAddr| from.to_string()),
            request_id = request_id(parts),
            "reset"
        );
    }
}

async fn read_reset(body: RequestBody) -> Result<ResetBody, AdminError> {
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            let message = format!("a body has {BODY_BYTES_MAX} bytes at most");
            AdminError::new(StatusCode::PAYLOAD_TOO_LARGE, "EntityTooLarge", message)
        } else {
            AdminError::invalid(error.to_string())
        }
    })?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| {
        AdminError::invalid(format!(
            "the body is {{\"action\":\"reset\",\"to\":\"50\",\"reason\":\"why\"}}: {error}"
        ))
    })
}

/// Bucket, and the bytes of a key or prefix; none for the bucket as a whole.
fn location(target: &str) -> Result<(Bucket, Vec<u8>), AdminError> {
    let (bucket, path) = target.split_once('/').unwrap_or((target, ""));
    let bucket = String::from_utf8(percent_decode(bucket.as_bytes())).unwrap_or_default();
    if bucket.is_empty() || bucket.contains('/') {
        return Err(AdminError::invalid("the path is /scopes/BUCKET/KEY"));
    }
    Ok((Bucket::new(bucket), percent_decode(path.as_bytes())))
}

fn wants(method: &Method, allowed: &[Method]) -> Result<(), AdminError> {
    if allowed.contains(method) {
        return Ok(());
    }
    let allowed: Vec<&str> = allowed.iter().map(Method::as_str).collect();
    let message = format!("{} only", allowed.join(", "));
    Err(AdminError::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message))
}

fn request_id(parts: &request::Parts) -> String {
    parts.extensions.get::<RequestId>().map_or_else(|| "-".to_owned(), ToString::to_string)
}

#[derive(Serialize)]
struct ErrorDocument<'a> {
    code: &'a str,
    message: &'a str,
    request_id: String,
    #[serde(flatten)]
    more: Map<String, Value>,
}

fn error_answer(parts: &request::Parts, error: &AdminError) -> Response<Full<Bytes>> {
    let mut more = Map::new();
    if let Some(highest) = error.highest {
        more.insert("token".to_owned(), highest.to_string().into());
    }
    let document = ErrorDocument {
        code: error.code,
        message: &error.message,
        request_id: request_id(parts),
        more,
    };
    let mut answer = document_answer(error.status, &document);
    if error.status == StatusCode::UNAUTHORIZED {
        let bearer = HeaderValue::from_static("Bearer realm=\"fencepost\"");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
    }
    answer
}

fn document_answer(status: StatusCode, document: &impl Serialize) -> Response<Full<Bytes>> {
    let mut text = serde_json::to_vec_pretty(document).expect("texts and numbers can be JSON");
    text.push(b'\n');
    let mut answer = super::answer(status, "application/json", text);
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

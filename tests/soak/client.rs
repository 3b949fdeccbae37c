//! A client that keeps its connections, and may wait in vain.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::support::{Answer, OutBody, Payload, S3};
use crate::talk::Told;

/// Sends requests that [`S3`] has signed. Cloning shares the connections.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client<HttpConnector, OutBody>,
}

impl Http {
    pub(crate) fn new() -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        // Nothing is sent twice behind the test's back.
        builder.retry_canceled_requests(false);
        Self { client: builder.build_http() }
    }

    /// The answer; `None` when there is none within that time, or the connection was broken.
    pub(crate) async fn send(
        &self,
        s3: &S3,
        method: Method,
        target: &str,
        body: impl Into<Payload>,
        within: Duration,
    ) -> Option<Answer> {
        let (mut parts, body) = s3.request(method, target, body).into_parts();
        let uri = format!("http://{}{}", s3.address(), parts.uri);
        parts.uri = uri.parse::<Uri>().unwrap();
        let request = Request::from_parts(parts, body);
        tokio::time::timeout(within, self.exchange(request)).await.ok()?
    }

    async fn exchange(&self, request: Request<OutBody>) -> Option<Answer> {
        let (parts, body) = self.client.request(request).await.ok()?.into_parts();
        let body: Bytes = body.collect().await.ok()?.to_bytes();
        let (status, trailers) = (parts.status.as_u16(), HeaderMap::new());
        Some(Answer { status, headers: parts.headers, body, trailers, cut: false })
    }
}

/// What a write's client is told; or an answer that has no place here.
pub(crate) fn told(answer: Option<&Answer>) -> Result<Told, String> {
    let Some(answer) = answer else { return Ok(Told::Unknown) };
    match &*answer.short() {
        "200" | "204" => Ok(Told::Done),
        "409 StaleFenceToken" => Ok(Told::Stale),
        "503 FenceContended" | "503 FenceUnavailable" | "503 FenceBarrier" => Ok(Told::Busy),
        "503 FenceOutcomeUnknown" => Ok(Told::Unknown),
        other => Err(format!("{other}: {}", String::from_utf8_lossy(&answer.body))),
    }
}

/// Status and code of an answer in JSON: `409 StaleFenceToken`, or `200`.
pub(crate) fn json(answer: &Answer) -> (String, serde_json::Value) {
    let value: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let code = value.get("code").and_then(|code| code.as_str());
    let short = code.map_or(answer.status.to_string(), |code| format!("{} {code}", answer.status));
    (short, value)
}

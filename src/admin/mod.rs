//! The admin listener's routes.
//!
//! | request | answer |
//! |---|---|
//! | `GET /metrics` | 200, all metrics in Prometheus' text format |
//! | `GET /livez` | 200 `ok` as long as the process serves at all |
//! | `GET /readyz` | 200 or 503 and JSON: whether fenced writes can be served, and why not |
//! | `/scopes`, `/scopes/{bucket}/{path}` | the admin API (`api.rs`), for whoever has a token |
//! | another method | 405 with `Allow` |
//! | another path | 404 |
//!
//! HEAD is answered like GET. The JSON of `/readyz`:
//!
//! ```json
//! {
//!   "ready": true,
//!   "draining": false,
//!   "ledger": { "bucket": "fencepost-ledger", "error": null },
//!   "probe": { "state": "passed", "findings": { "put": "conditional", "etags": "quoted" } },
//!   "unsafe_trust": []
//! }
//! ```
//!
//! `probe.state` is `pending`, `passed` or `failed`, the last with `error` for `findings`;
//! `unsafe_trust` is what `backend.unsafe_trust_backend` takes for granted. Nothing
//! but the API asks who it is, and nothing but the API changes anything; the listener is bound to
//! loopback unless configured otherwise.

mod api;
mod tokens;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request};
use http_body_util::Full;
use serde::Serialize;

pub use self::api::{AdminApi, AdminError, AdminGate, Page, ResetDone, ResetOrder};
pub use self::tokens::{AdminTokens, TokenFileError, parse_tokens};
use crate::listener::{Handler, Limits, Refusal, RequestBody};
use crate::telemetry::Metrics;

/// Limits of the admin listener: a scraper, a kubelet and a person at a time, small bodies.
pub const LIMITS: Limits = Limits {
    header_bytes_max: 8192,
    connections_max: 64,
    requests_in_flight_max: 64,
    header_timeout: Duration::from_secs(30),
    body_idle_timeout: Duration::from_secs(10),
    request_timeout: Duration::from_secs(10),
    http2_streams_max: 16,
    http2_window_bytes: 64 * 1024,
    refusal_drain_bytes_max: 64 * 1024,
    refusal_drain_max: Duration::from_secs(1),
    drain_max: Duration::from_secs(1),
};

/// Whether fenced writes can be served. Shared by whoever learns of it; cheap to clone.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<RwLock<State>>);

#[derive(Debug)]
struct State {
    ledger_bucket: String,
    ledger_error: Option<String>,
    probe: Probe,
    unsafe_trust: Vec<String>,
    draining: bool,
}

/// What the probe at start has come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Probe {
    /// It has not ended yet.
    Pending,
    /// The store honours what the fence needs of it.
    Passed {
        /// What was found out, by name.
        findings: BTreeMap<String, String>,
    },
    /// The store cannot be fenced on.
    Failed {
        /// Which operation failed, and how.
        error: String,
    },
}

impl Readiness {
    /// Not ready: the probe is pending.
    #[must_use]
    pub fn new(ledger_bucket: &str) -> Self {
        Self(Arc::new(RwLock::new(State {
            ledger_bucket: ledger_bucket.to_owned(),
            ledger_error: None,
            probe: Probe::Pending,
            unsafe_trust: Vec::new(),
            draining: false,
        })))
    }

    /// The probe has ended, or has begun anew.
    pub fn set_probe(&self, probe: Probe) {
        self.change(|state| state.probe = probe);
    }

    /// What the configuration takes for granted, against what may have been found.
    pub fn set_unsafe_trust(&self, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.change(|state| state.unsafe_trust = names);
    }

    /// The ledger has answered (`None`), or has failed for this reason.
    pub fn set_ledger_error(&self, error: Option<String>) {
        self.change(|state| state.ledger_error = error);
    }

    /// The server is stopping: load balancers should turn elsewhere.
    pub fn set_draining(&self) {
        self.change(|state| state.draining = true);
    }

    /// Whether fenced writes can be served now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.read(State::is_ready)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        // The closures above assign and nothing else, so a poisoned lock is still sound.
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn is_ready(&self) -> bool {
        let passed = match self.probe {
            Probe::Passed { .. } => true,
            Probe::Pending | Probe::Failed { .. } => false,
        };
        passed && self.ledger_error.is_none() && !self.draining
    }

    fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Report<'a> {
            ready: bool,
            draining: bool,
            ledger: Ledger<'a>,
            probe: &'a Probe,
            unsafe_trust: &'a [String],
        }
        #[derive(Serialize)]
        struct Ledger<'a> {
            bucket: &'a str,
            error: Option<&'a str>,
        }
        let report = Report {
            ready: self.is_ready(),
            draining: self.draining,
            ledger: Ledger { bucket: &self.ledger_bucket, error: self.ledger_error.as_deref() },
            probe: &self.probe,
            unsafe_trust: &self.unsafe_trust,
        };
        let mut json =
            serde_json::to_string_pretty(&report).expect("texts and booleans can be JSON");
        json.push('\n');
        json
    }
}

/// Answers the requests of the table above.
#[derive(Clone, Debug)]
pub struct Admin {
    metrics: Arc<Metrics>,
    readiness: Readiness,
    api: AdminGate,
}

impl Admin {
    /// Serves these metrics and this readiness. The API is off.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>, readiness: Readiness) -> Self {
        Self { metrics, readiness, api: AdminGate::default() }
    }

    /// Serves the API, too.
    #[must_use]
    pub fn with_api(self, api: AdminGate) -> Self {
        Self { api, ..self }
    }

    /// The answer to a request, by its head alone.
    fn respond(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let route = match path {
            "/metrics" => Self::metrics,
            "/livez" => Self::livez,
            "/readyz" => Self::readyz,
            _ => return text(StatusCode::NOT_FOUND, "try /metrics, /livez, /readyz or /scopes\n"),
        };
        if method != Method::GET && method != Method::HEAD {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "GET or HEAD only\n");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let mut answer = route(self);
        answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        match self.metrics.scrape() {
            Ok((metrics, media_type)) => answer(StatusCode::OK, media_type, metrics),
            Err(error) => {
                tracing::error!(%error, "the metrics cannot be written");
                text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n")
            }
        }
    }

    fn livez(&self) -> Response<Full<Bytes>> {
        text(StatusCode::OK, "ok\n")
    }

    fn readyz(&self) -> Response<Full<Bytes>> {
        self.readiness.read(|state| {
            let ready = state.is_ready();
            let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            answer(status, "application/json", state.to_json())
        })
    }
}

impl Handler for Admin {
    type Body = Full<Bytes>;

    async fn handle(&self, request: Request<RequestBody>) -> Response<Full<Bytes>> {
        if AdminGate::has(request.uri().path()) {
            return self.api.answer(request).await;
        }
        self.respond(request.method(), request.uri().path())
    }

    fn refuse(&self, _request: &request::Parts, refusal: Refusal) -> Response<Full<Bytes>> {
        match refusal {
            Refusal::Busy => text(StatusCode::SERVICE_UNAVAILABLE, "too many requests\n"),
            Refusal::Malformed(why) => text(StatusCode::BAD_REQUEST, why),
            Refusal::Failed => text(StatusCode::INTERNAL_SERVER_ERROR, "failed\n"),
        }
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    answer(status, "text/plain; charset=utf-8", text)
}

fn answer(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn admin() -> Admin {
        Admin::new(Arc::new(Metrics::new()), Readiness::new("records"))
    }

    async fn get(admin: &Admin, path: &str) -> (StatusCode, String) {
        let answer = admin.respond(&Method::GET, path);
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn every_route_of_the_table_answers() {
        let admin = admin();
        let (status, metrics) = get(&admin, "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        assert!(metrics.contains("fencepost_build_info{version="), "{metrics}");
        assert_eq!(get(&admin, "/livez").await, (StatusCode::OK, "ok\n".to_owned()));
        assert_eq!(get(&admin, "/readyz").await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(get(&admin, "/").await.0, StatusCode::NOT_FOUND);
        let post = admin.respond(&Method::POST, "/metrics");
        assert_eq!(post.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(post.headers()["allow"], "GET, HEAD");
    }

    #[tokio::test]
    async fn readiness_follows_the_probe_the_ledger_and_the_drain() {
        let admin = admin();
        let ready = &admin.readiness;
        let pending: serde_json::Value =
            serde_json::from_str(&get(&admin, "/readyz").await.1).unwrap();
        assert_eq!(
            pending,
            serde_json::json!({
                "ready": false,
                "draining": false,
                "ledger": { "bucket": "records", "error": null },
                "probe": { "state": "pending" },
                "unsafe_trust": [],
            })
        );

        let findings = [("etag_quotes".to_owned(), "bare".to_owned())].into();
        ready.set_probe(Probe::Passed { findings });
        let (status, json) = get(&admin, "/readyz").await;
        assert_eq!(status, StatusCode::OK);
        assert!(json.contains("\"etag_quotes\": \"bare\""), "{json}");

        ready.set_ledger_error(Some("no route".to_owned()));
        let (status, json) = get(&admin, "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(json.contains("\"error\": \"no route\""), "{json}");
        ready.set_ledger_error(None);
        assert!(ready.is_ready());

        ready.set_draining();
        assert!(!ready.is_ready());
    }

    #[tokio::test]
    async fn a_failed_probe_says_what_failed() {
        let admin = admin();
        admin.readiness.set_probe(Probe::Failed { error: "PUT ignores If-Match".to_owned() });
        let (status, json) = get(&admin, "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(json.contains("\"state\": \"failed\"") && json.contains("PUT ignores If-Match"));
    }
}

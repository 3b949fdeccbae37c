//! One request and its answer, over HTTP/1.1, with TLS or without.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::RootCertStore;
use serde_json::Value;

use super::error::{ClientError, Refused};
use crate::config::BackendUrl;
use crate::server::pem;
use crate::upstream::error_chain;

/// The longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// More than any answer of the API.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// How much of a foreign answer is looked at.
const FOREIGN_BYTES_MAX: usize = 4096;

const USER_AGENT: &str = concat!("fencepost/", env!("CARGO_PKG_VERSION"));

/// One port of a proxy, and how it is reached. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Server {
    url: BackendUrl,
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Server {
    /// The proxy at `url`. With https, its certificate has to be by one of the system's authorities
    /// or by one in `ca_file`.
    ///
    /// # Errors
    ///
    /// When the file or TLS cannot be used.
    pub fn new(url: BackendUrl, ca_file: Option<&Path>) -> Result<Self, ClientError> {
        let roots = if url.is_https() { roots(ca_file)? } else { RootCertStore::empty() };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ClientError::Tls(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(CONNECT_MAX));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        Ok(Self { url, http: Client::builder(TokioExecutor::new()).build(connector) })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &BackendUrl {
        &self.url
    }

    /// The URI of a path, which is encoded already, and a query.
    pub(super) fn uri(&self, path_and_query: &str) -> Result<Uri, ClientError> {
        Uri::builder()
            .scheme(self.url.scheme().clone())
            .authority(self.url.authority().clone())
            .path_and_query(path_and_query)
            .build()
            .map_err(|error| ClientError::Unsigned(error.to_string()))
    }

    /// Sends a request, and reads the JSON of its answer.
    pub(super) async fn send(
        &self,
        mut request: Request<Bytes>,
        timeout: Duration,
    ) -> Result<Value, ClientError> {
        let agent = HeaderValue::from_static(USER_AGENT);
        request.headers_mut().insert(header::USER_AGENT, agent);
        let exchange = self.exchange(request.map(Full::new));
        match tokio::time::timeout(timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(self.lost(format!("nothing within {} s", timeout.as_secs_f32()))),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Value, ClientError> {
        let answer = self.http.request(request).await.map_err(|error| {
            let reason = error_chain(&error);
            if error.is_connect() {
                ClientError::Unreachable { url: self.url.to_string(), reason }
            } else {
                self.lost(reason)
            }
        })?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| self.lost(error.to_string()))?.to_bytes();
        self.read(status, &body)
    }

    fn read(&self, status: StatusCode, body: &[u8]) -> Result<Value, ClientError> {
        let foreign = || ClientError::NotTheApi {
            url: self.url.to_string(),
            status,
            detail: s3_code(body).map_or_else(String::new, |code| format!(", {code}")),
        };
        let Ok(document) = serde_json::from_slice::<Value>(body) else { return Err(foreign()) };
        if status.is_success() && document.is_object() {
            return Ok(document);
        }
        match Refused::read(status, document) {
            Some(refused) => Err(ClientError::Refused(Box::new(refused))),
            None => Err(foreign()),
        }
    }

    /// The answer is JSON, but not that of the request.
    pub(super) fn unexpected(&self, why: &serde_json::Error) -> ClientError {
        ClientError::NotTheApi {
            url: self.url.to_string(),
            status: StatusCode::OK,
            detail: format!(", {why}"),
        }
    }

    fn lost(&self, reason: String) -> ClientError {
        ClientError::Lost { url: self.url.to_string(), reason }
    }
}

fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    // A certificate of the system's that cannot be read is one that nothing relies on.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let Some(path) = ca_file else { return Ok(roots) };
    let wrong = |reason: String| ClientError::CaFile { path: path.to_owned(), reason };
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    for authority in pem::certificates(&text).map_err(wrong)? {
        roots.add(authority).map_err(|error| wrong(error.to_string()))?;
    }
    Ok(roots)
}

/// The code of an S3 error: an older proxy, or a store, says by it what it took the request for.
fn s3_code(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&body[..body.len().min(FOREIGN_BYTES_MAX)]).into_owned();
    let code = text.split_once("<Code>")?.1.split_once("</Code>")?.0;
    code.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server::new("http://127.0.0.1:1".parse().unwrap(), None).unwrap()
    }

    fn read(status: u16, body: &str) -> Result<Value, ClientError> {
        server().read(StatusCode::from_u16(status).unwrap(), body.as_bytes())
    }

    #[test]
    fn an_answer_is_json_or_foreign() {
        assert_eq!(read(200, "{\"a\":1}").unwrap()["a"], 1);
        let error = read(409, "{\"code\":\"FenceLeaseHeld\",\"message\":\"m\"}").unwrap_err();
        assert_eq!(error.to_string(), "FenceLeaseHeld: m");
        let error = read(404, "<Error><Code>NoSuchBucket</Code></Error>").unwrap_err();
        let text = "http://127.0.0.1:1 does not answer as a Fencepost does: status 404 Not Found, \
                    NoSuchBucket";
        assert_eq!(error.to_string(), text);
        for (status, body) in [(200, ""), (200, "[]"), (200, "ok"), (400, "{}"), (502, "<html>")] {
            let error = read(status, body).unwrap_err();
            assert!(matches!(error, ClientError::NotTheApi { .. }), "{status} {body}: {error}");
        }
    }

    #[tokio::test]
    async fn nobody_there_is_told_from_no_answer() {
        let request = || Request::get(server().uri("/scopes").unwrap()).body(Bytes::new()).unwrap();
        let error = server().send(request(), CONNECT_MAX).await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");

        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", silent.local_addr().unwrap());
        let server = Server::new(url.parse().unwrap(), None).unwrap();
        let request = Request::get(server.uri("/scopes").unwrap()).body(Bytes::new()).unwrap();
        let error = server.send(request, Duration::from_millis(100)).await.unwrap_err();
        assert!(matches!(error, ClientError::Lost { .. }), "{error}");
    }

    #[test]
    fn a_file_of_authorities_is_read_only_for_tls() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let new = |url: &str| Server::new(url.parse().unwrap(), Some(file.path()));
        let error = new("https://proxy.test").unwrap_err();
        assert!(matches!(error, ClientError::CaFile { .. }), "{error}");
        assert!(new("http://proxy.test").is_ok());
    }
}

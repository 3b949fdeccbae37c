//! OAuth: a service account's key file, a token endpoint that a test plays, and requests that carry
//! its tokens.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencepost::clock;
use fencepost::devstore::Profile;
use fencepost::fence::Rules;
use http::Method;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::support::{Backend, Proxy, Scripted};
use super::{GCS, copy, md5_of, sent, uploaded};

/// A key that was made for this test and is known to nobody's account.
const KEY: &str = include_str!("service_account_key.pem");

/// Where a service account gets its tokens.
struct TokenEndpoint {
    key_file: NamedTempFile,
    asked: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl TokenEndpoint {
    /// It hands out `token-1`, `token-2`, …, each good for so long.
    async fn start(life_seconds: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<AtomicU64>::default();
        let count = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.windows(10).any(|part| part == b"assertion=") {
                    if stream.read_buf(&mut request).await.unwrap() == 0 {
                        break;
                    }
                }
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let body = format!(
                    "{{\"access_token\":\"token-{number}\",\"token_type\":\"Bearer\",\
                     \"expires_in\":{life_seconds}}}"
                );
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                     connection: close\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
                let _ = stream.shutdown().await;
            }
        });
        let mut key_file = NamedTempFile::new().unwrap();
        let account = serde_json::json!({
            "type": "service_account",
            "project_id": "test",
            "private_key_id": "1",
            "private_key": KEY,
            "client_email": "fencepost@test.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": format!("http://{address}/token"),
        });
        key_file.write_all(account.to_string().as_bytes()).unwrap();
        Self { key_file, asked, task }
    }

    fn settings(&self, clients: &NamedTempFile) -> String {
        let path = |file: &NamedTempFile| file.path().to_str().unwrap().to_owned();
        format!(
            "{GCS}backend.google_credentials = \"oauth\"\n\
             backend.google_service_account_file = \"{}\"\nauth.credentials_file = \"{}\"\n",
            path(&self.key_file),
            path(clients)
        )
    }
}

impl Drop for TokenEndpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The pair that clients sign with.
fn clients(backend: &Backend) -> NamedTempFile {
    let (id, secret) = backend.key_pair();
    let mut file = NamedTempFile::new().unwrap();
    let pair = format!("access_key_id = \"{id}\"\nsecret_access_key = \"{secret}\"\n");
    file.write_all(format!("[[credential]]\n{pair}").as_bytes()).unwrap();
    file
}

async fn started(
    backend: &Backend,
    endpoint: &TokenEndpoint,
    clients: &NamedTempFile,
    life: Duration,
) -> Proxy {
    for number in 1..=300 {
        backend.store().add_bearer_token(&format!("token-{number}"), clock::now() + life);
    }
    backend.proxy(&endpoint.settings(clients)).await
}

#[tokio::test]
async fn everything_that_is_fenced_is_with_a_token_too() {
    let backend = Backend::embedded(Profile::Gcs).await;
    let (endpoint, pairs) = (TokenEndpoint::start(3599).await, clients(&backend));
    let hour = Duration::from_secs(3599);
    let one = started(&backend, &endpoint, &pairs, hour).await;
    let other = started(&backend, &endpoint, &pairs, hour).await;
    let holder = one.token(7);
    let put = holder.clone().with("x-amz-meta-a", "b").put("k", "one").await;
    assert_eq!((put.short(), put.etag()), ("200".into(), &*md5_of("one")));
    let read = other.plain().get("k").await;
    assert_eq!((read.body.as_ref(), read.header("x-amz-meta-a")), (&b"one"[..], "b"));
    assert_eq!(other.token(6).put("k", "late").await.short(), "409 StaleFenceToken");
    assert_eq!(other.token(8).put("k", "two").await.short(), "200");
    assert_eq!(one.token(7).put("k", "late").await.short(), "409 StaleFenceToken");
    assert_eq!(copy(&one.token(8), "/data/k", "copy").await.short(), "200");
    assert_eq!(other.plain().head("copy").await.header("x-amz-meta-fencepost-token"), "8");
    let writer = one.token(9);
    let (id, list) = uploaded(&writer, "parts", "three").await;
    let target = format!("/data/parts?uploadId={id}");
    assert_eq!(writer.send(Method::POST, &target, list).await.short(), "200");
    let listed = one.plain().send(Method::GET, "/data?list-type=2", "").await;
    assert_eq!(listed.short(), "200");
    assert!(String::from_utf8_lossy(&listed.body).contains("<Key>parts</Key>"));
    assert_eq!(one.token(8).delete("k").await.short(), "204");
    assert_eq!(one.plain().get("k").await.short(), "404 NoSuchKey");
    assert_eq!(endpoint.asked.load(Ordering::SeqCst), 2, "a token is kept: one for each proxy");
}

#[tokio::test]
async fn every_request_carries_the_token_and_googles_words() {
    let backend = Backend::embedded(Profile::Gcs).await;
    let (endpoint, pairs) = (TokenEndpoint::start(3599).await, clients(&backend));
    backend.store().add_bearer_token("token-1", clock::now() + Duration::from_secs(3599));
    let wire = Scripted::recording(&backend).await;
    let proxy = backend.by_way_of(wire.endpoint()).proxy(&endpoint.settings(&pairs)).await;
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
    let reading = proxy.plain().with("x-amz-checksum-mode", "ENABLED");
    assert_eq!(reading.get("k").await.body, "one");
    assert_eq!(proxy.token(7).delete("k").await.short(), "204");
    let heads = wire.heads();
    assert_eq!(heads.len(), 4);
    for head in &heads {
        assert_eq!(sent(head, "authorization"), Some("Bearer token-1"), "{head}");
        assert!(!head.contains("x-amz-") && !head.contains("X-Goog-"), "{head}");
    }
    let tagged = proxy.plain().with("x-amz-expected-bucket-owner", "1").get("k").await;
    assert_eq!(tagged.short(), "501 NotImplemented");
}

/// F9: the bounds count on tokens that are good for an hour at most.
#[tokio::test]
async fn a_token_that_outlives_the_bounds_is_not_used() {
    let backend = Backend::embedded(Profile::Gcs).await;
    let (endpoint, pairs) = (TokenEndpoint::start(12 * 3600).await, clients(&backend));
    backend.store().add_bearer_token("token-1", clock::now() + Duration::from_secs(12 * 3600));
    let error = backend.try_proxy(&endpoint.settings(&pairs), Rules::ALL).await.err().unwrap();
    assert!(error.to_string().contains("good for longer than"), "{error}");
}

#[tokio::test]
async fn a_token_is_replaced_before_its_end() {
    let backend = Backend::embedded(Profile::Gcs).await;
    // Less than the margin by which it is replaced.
    let (endpoint, pairs) = (TokenEndpoint::start(10).await, clients(&backend));
    let proxy = started(&backend, &endpoint, &pairs, Duration::from_secs(3600)).await;
    let before = endpoint.asked.load(Ordering::SeqCst);
    assert_eq!(proxy.plain().get("k").await.short(), "404 NoSuchKey");
    assert!(endpoint.asked.load(Ordering::SeqCst) > before);
}

/// The store refuses a token that it does not know; nothing was changed, and its answer is shown.
#[tokio::test]
async fn a_token_that_is_refused_changes_nothing() {
    let backend = Backend::embedded(Profile::Gcs).await;
    let (endpoint, pairs) = (TokenEndpoint::start(3599).await, clients(&backend));
    let error = backend.try_proxy(&endpoint.settings(&pairs), Rules::ALL).await.err().unwrap();
    assert!(error.to_string().contains("ledger bucket"), "{error}");
    assert!(backend.store().history().is_empty());
}

//! TLS and HTTP/2, end to end: an S3 client that trusts a private authority, signatures over an
//! `:authority`, and a store behind TLS.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::error::ProvideErrorMetadata as _;
use bytes::Bytes;
use fencepost::devstore::Profile;
use fencepost::fence::Rules;
use fencepost::server::store;
use http::{Method, Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::{Authority, Backend, Form, Proxy, soon};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const HOST: &str = "localhost";

const A_MINUTE: Duration = Duration::from_secs(60);

/// A proxy that speaks TLS.
struct Https {
    backend: Backend,
    proxy: Proxy,
    authority: Authority,
    directory: TempDir,
}

impl Https {
    async fn start() -> Self {
        let (authority, directory) = (Authority::new("authority"), tempfile::tempdir().unwrap());
        let (certificate, key) = authority.issue(HOST).write(directory.path());
        let backend = Backend::embedded(Profile::Aws).await;
        let settings = format!("[tls]\ncertificate_file = {certificate:?}\nkey_file = {key:?}\n");
        let proxy = backend.proxy(&settings).await;
        Self { backend, proxy, authority, directory }
    }

    fn authority_file(&self) -> PathBuf {
        authority_file(&self.authority, self.directory.path())
    }

    fn host(&self) -> String {
        format!("{HOST}:{}", self.proxy.data.port())
    }
}

fn authority_file(authority: &Authority, directory: &Path) -> PathBuf {
    let path = directory.join("authority.pem");
    std::fs::write(&path, authority.pem()).unwrap();
    path
}

#[tokio::test]
async fn an_s3_client_fences_over_tls() {
    let https = Https::start().await;
    let http = store::sdk_http_client(Some(&https.authority_file())).unwrap();
    let endpoint = format!("https://{}", https.host());
    let client = |token| https.backend.sdk_over(http.clone(), endpoint.clone(), token);
    let put = async |token, body: &'static str| {
        let put = client(Some(token)).put_object().bucket(&https.backend.bucket).key("k");
        put.body(Bytes::from_static(body.as_bytes()).into()).send().await
    };
    put(34, "by 34").await.unwrap();
    let refused = put(33, "by 33").await.unwrap_err();
    assert_eq!(refused.code(), Some("StaleFenceToken"), "{refused:?}");
    let got = client(None).get_object().bucket(&https.backend.bucket).key("k").send().await;
    assert_eq!(got.unwrap().body.collect().await.unwrap().to_vec(), b"by 34");
}

async fn http2_to(https: &Https) -> http2::SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(https.proxy.data).await.unwrap();
    let tls = TlsConnector::from(https.authority.client(None, &["h2"]));
    let stream = tls.connect(HOST.try_into().unwrap(), stream).await.unwrap();
    let (requests, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    requests
}

/// One request with a signed target and no `Host`.
async fn over_http2(
    https: &Https,
    method: Method,
    target: &str,
    body: &'static str,
) -> (u16, String) {
    let mut requests = http2_to(https).await;
    let uri = format!("https://{}{target}", https.host());
    let request = Request::builder().method(method).uri(uri).version(Version::HTTP_2);
    let request = request.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap();
    assert!(request.headers().is_empty());
    let (head, body) =
        soon("an answer", requests.send_request(request)).await.unwrap().into_parts();
    assert_eq!(head.version, Version::HTTP_2);
    let body = body.collect().await.unwrap().to_bytes();
    (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_form_over_http2_is_told_where_its_object_is() {
    let https = Https::start().await;
    let form = Form::new(&https.proxy.plain(), "k", "by 7").token(7);
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("https://{}{}", https.host(), form.target))
        .version(Version::HTTP_2)
        .header("content-type", Form::content_type())
        .body(Full::new(form.body(&form.signed_fields())))
        .unwrap();
    let sent = http2_to(&https).await.send_request(request).await;
    let answer = sent.unwrap();
    assert_eq!(answer.status(), 204);
    let location = format!("https://{}/{}/k", https.host(), https.backend.bucket);
    assert_eq!(answer.headers()["location"], location.as_str());
    assert_eq!(https.backend.bytes("k").await.as_deref(), Some(&b"by 7"[..]));
}

#[tokio::test]
async fn a_signature_over_the_authority_is_verified() {
    let https = Https::start().await;
    let client = https.proxy.plain().host(&https.host());
    let put = |token| format!("{}?X-Fence-Token={token}", client.path("a%20b"));
    let signed = |method: &Method, target: &str| client.presigned(method, target, A_MINUTE);

    let written = over_http2(&https, Method::PUT, &signed(&Method::PUT, &put(34)), "by 34").await;
    assert_eq!(written.0, 200, "{written:?}");
    let (status, text) =
        over_http2(&https, Method::PUT, &signed(&Method::PUT, &put(33)), "by 33").await;
    assert!(status == 409 && text.contains("<Code>StaleFenceToken</Code>"), "{status} {text}");
    let get = signed(&Method::GET, &client.path("a%20b"));
    assert_eq!(over_http2(&https, Method::GET, &get, "").await, (200, "by 34".to_owned()));

    // The host is part of what is signed.
    let elsewhere = client.clone().host("elsewhere.test");
    let elsewhere = elsewhere.presigned(&Method::PUT, &put(35), A_MINUTE);
    let (status, text) = over_http2(&https, Method::PUT, &elsewhere, "by 35").await;
    assert!(status == 403 && text.contains("SignatureDoesNotMatch"), "{status} {text}");
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_an_error_at_start() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, _) = Authority::new("authority").issue(HOST).write(directory.path());
    let backend = Backend::embedded(Profile::Aws).await;
    let settings =
        format!("[tls]\ncertificate_file = {certificate:?}\nkey_file = {certificate:?}\n");
    let Err(error) = backend.try_proxy(&settings, Rules::ALL).await else {
        panic!("it started");
    };
    let text = error.to_string();
    assert!(text.starts_with("tls.key_file ") && text.contains("no private key"), "{text}");
}

/// What speaks TLS in front of a store that does not.
async fn behind_tls(store: &Backend, authority: &Authority) -> SocketAddr {
    let store: SocketAddr = store.endpoint.strip_prefix("http://").unwrap().parse().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(authority.issue(HOST).server()));
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust the certificate ends the handshake.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut to = TcpStream::connect(store).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut to).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_store_behind_tls_is_trusted_by_the_given_authority() {
    let (authority, directory) = (Authority::new("authority"), tempfile::tempdir().unwrap());
    let embedded = Backend::embedded(Profile::Aws).await;
    let address = behind_tls(&embedded, &authority).await;
    let backend = embedded.by_way_of(format!("https://{HOST}:{}", address.port()));
    let given = |authority: &Authority| {
        let path = authority_file(authority, directory.path());
        format!("[backend]\nca_file = {path:?}\n")
    };
    let proxy = backend.proxy(&given(&authority)).await;
    assert_eq!(proxy.token(34).put("k", "by 34").await.short(), "200");
    assert_eq!(proxy.token(33).put("k", "by 33").await.short(), "409 StaleFenceToken");
    assert_eq!(proxy.plain().get("k").await.body, "by 34");
    let another = given(&Authority::new("another"));
    let Err(error) = backend.try_proxy(&another, Rules::ALL).await else { panic!("it started") };
    assert!(error.to_string().contains("certificate"), "{error}");
}

/// The binary with these authorities for the system's: whether it starts, and what it says.
async fn starts(backend: &Backend, store: SocketAddr, system: &Path) -> (bool, String) {
    let mut process = tokio::process::Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--backend"])
        .arg(format!("https://{HOST}:{}", store.port()))
        .env_clear()
        .env("AWS_ACCESS_KEY_ID", backend.store().access_key_id())
        .env("AWS_SECRET_ACCESS_KEY", backend.store().secret_access_key())
        .env("SSL_CERT_FILE", system)
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap());
    let (mut text, mut started) = (String::new(), false);
    while !started && soon("a line", lines.read_line(&mut text)).await.unwrap() > 0 {
        started = text.contains("listening data=");
    }
    if started {
        process.kill().await.unwrap();
    } else {
        soon("the rest", lines.read_to_string(&mut text)).await.unwrap();
        assert!(!soon("the end", process.wait()).await.unwrap().success(), "{text}");
    }
    (started, text)
}

#[tokio::test]
async fn a_store_behind_tls_is_trusted_by_the_systems_authorities() {
    let (authority, directory) = (Authority::new("authority"), tempfile::tempdir().unwrap());
    let backend = Backend::embedded(Profile::Aws).await;
    let store = behind_tls(&backend, &authority).await;
    let (started, text) =
        starts(&backend, store, &authority_file(&authority, directory.path())).await;
    assert!(started, "{text}");
    let other = authority_file(&Authority::new("another"), directory.path());
    let (started, text) = starts(&backend, store, &other).await;
    assert!(!started && text.contains("certificate"), "{text}");
}

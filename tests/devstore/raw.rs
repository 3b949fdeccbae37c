//! Requests made by hand: signed with aws-sigv4, sent piece by piece over a socket.

use crate::BUCKET;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use fencepost::devstore::RunningStore;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A request before it is signed.
pub(crate) struct Raw {
    method: &'static str,
    path_and_query: String,
    headers: Vec<(String, String)>,
    /// Sent, but not signed.
    unsigned: Vec<(String, String)>,
    payload_hash: String,
    expires: Option<Duration>,
    age: Duration,
}

impl Raw {
    pub(crate) fn new(method: &'static str, key: &str) -> Self {
        Self {
            method,
            path_and_query: format!("/{BUCKET}/{key}"),
            headers: Vec::new(),
            unsigned: Vec::new(),
            payload_hash: "UNSIGNED-PAYLOAD".to_owned(),
            expires: None,
            age: Duration::ZERO,
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn unsigned(mut self, name: &str, value: &str) -> Self {
        self.unsigned.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What `x-amz-content-sha256` says.
    pub(crate) fn payload_hash(mut self, hash: &str) -> Self {
        hash.clone_into(&mut self.payload_hash);
        self
    }

    /// Signs in the query, valid for this long.
    pub(crate) fn presigned(mut self, expires: Duration) -> Self {
        self.expires = Some(expires);
        self
    }

    /// Signed so long ago.
    pub(crate) fn age(mut self, age: Duration) -> Self {
        self.age = age;
        self
    }

    /// Sends the head, announcing `length` bytes of body.
    pub(crate) async fn open(self, running: &RunningStore, length: usize) -> Open {
        let store = running.store();
        let keys = (store.access_key_id(), store.secret_access_key());
        let identity = Credentials::new(keys.0, keys.1, None, None, "test").into();
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = aws_sigv4::http_request::PercentEncodingMode::Single;
        settings.uri_path_normalization_mode =
            aws_sigv4::http_request::UriPathNormalizationMode::Disabled;
        if self.expires.is_some() {
            settings.signature_location = SignatureLocation::QueryParams;
            settings.expires_in = self.expires;
        } else {
            settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        }
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region("any")
            .name("s3")
            .time(fencepost::clock::now() - self.age)
            .settings(settings)
            .build()
            .unwrap();
        let uri = format!("{}{}", running.endpoint(), self.path_and_query);
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let body = SignableBody::Precomputed(self.payload_hash.clone());
        let signable = SignableRequest::new(self.method, &uri, headers, body).unwrap();
        let (instructions, _) = sign(signable, &params.into()).unwrap().into_parts();
        let mut request = http::Request::builder().method(self.method).uri(&uri);
        for (name, value) in self.headers.iter().chain(&self.unsigned) {
            request = request.header(name, value);
        }
        let mut request = request.body(()).unwrap();
        instructions.apply_to_request_http1x(&mut request);
        let mut head =
            format!("{} {} HTTP/1.1\r\n", self.method, request.uri().path_and_query().unwrap());
        head.push_str(&format!("host: {}\r\nconnection: close\r\n", running.addr()));
        head.push_str(&format!("content-length: {length}\r\n"));
        for (name, value) in request.headers() {
            head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
        head.push_str("\r\n");
        Open::sent(running, &head).await
    }

    /// Sends everything and reads the answer.
    pub(crate) async fn send(self, running: &RunningStore, body: &str) -> String {
        let mut open = self.open(running, body.len()).await;
        open.write(body).await;
        open.answer().await
    }
}

/// A request whose body is on its way.
pub(crate) struct Open {
    stream: TcpStream,
}

impl Open {
    /// A request whose head is this.
    pub(crate) async fn sent(running: &RunningStore, head: &str) -> Self {
        let mut stream = TcpStream::connect(running.addr()).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        Self { stream }
    }

    pub(crate) async fn write(&mut self, body: &str) {
        // The store may have answered and closed already.
        let _ = self.stream.write_all(body.as_bytes()).await;
    }

    /// The whole answer, head and body, as text; empty when the connection was cut.
    pub(crate) async fn answer_text(mut self) -> String {
        let mut answer = Vec::new();
        let _ = self.stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// `ok`, or status and S3 code, or `cut`.
    pub(crate) async fn answer(self) -> String {
        let text = self.answer_text().await;
        let Some(status) = text.split(' ').nth(1) else { return "cut".to_owned() };
        let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        match code {
            Some((code, _)) => format!("{status} {code}"),
            None if status == "200" || status == "204" => "ok".to_owned(),
            None => status.to_owned(),
        }
    }
}

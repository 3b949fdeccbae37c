//! Requests signed by aws-sigv4 and sent as they are, one connection each.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use fencepost::auth::canonical::canonical_path;
use fencepost::clock;
use http::{HeaderMap, Method, Request};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A body on its way out.
pub(crate) type OutBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// What a request carries, and what its signature says of it.
pub(crate) enum Payload {
    /// These bytes and their SHA-256.
    Bytes(Bytes),
    /// These bytes, and the signature says so of others (or nothing): `x-amz-content-sha256`.
    Claimed(Bytes, String),
    /// A body that comes bit by bit, so many bytes in all, with the `x-amz-content-sha256`.
    Stream(OutBody, u64, String),
}

impl<B: Into<Bytes>> From<B> for Payload {
    fn from(bytes: B) -> Self {
        Self::Bytes(bytes.into())
    }
}

/// A client.
#[derive(Clone)]
pub(crate) struct S3 {
    address: SocketAddr,
    access_key_id: String,
    secret_access_key: String,
    session: Option<String>,
    bucket: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    unsigned: Vec<(String, String)>,
    at: Option<SystemTime>,
    canonical: bool,
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
    /// The connection was cut before the end of the body.
    pub(crate) cut: bool,
}

impl Answer {
    /// A header's text, empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The ETag without quotes.
    pub(crate) fn etag(&self) -> &str {
        self.header("etag").trim_matches('"')
    }

    /// The text of an element of the body.
    pub(crate) fn element(&self, name: &str) -> Option<&str> {
        let text = std::str::from_utf8(&self.body).ok()?;
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once('<').map(|(value, _)| value)
    }

    /// `200`, or status and S3 code: `409 StaleFenceToken`.
    pub(crate) fn short(&self) -> String {
        match self.element("Code") {
            Some(code) => format!("{} {code}", self.status),
            None => self.status.to_string(),
        }
    }
}

impl S3 {
    pub(crate) fn new(address: SocketAddr, id: &str, secret: &str, bucket: &str) -> Self {
        Self {
            address,
            access_key_id: id.into(),
            secret_access_key: secret.into(),
            session: None,
            bucket: bucket.into(),
            host: None,
            headers: Vec::new(),
            unsigned: Vec::new(),
            at: None,
            canonical: false,
        }
    }

    /// With this session token.
    pub(crate) fn session(mut self, token: &str) -> Self {
        self.session = Some(token.into());
        self
    }

    /// With another secret.
    pub(crate) fn secret(mut self, secret: &str) -> Self {
        self.secret_access_key = secret.into();
        self
    }

    /// With another access key id.
    pub(crate) fn id(mut self, id: &str) -> Self {
        self.access_key_id = id.into();
        self
    }

    /// With this `Host`.
    pub(crate) fn host(mut self, host: &str) -> Self {
        self.host = Some(host.into());
        self
    }

    /// With one more header, signed.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// With one more header, added after signing.
    pub(crate) fn with_unsigned(mut self, name: &str, value: &str) -> Self {
        self.unsigned.push((name.into(), value.into()));
        self
    }

    /// Signed at this time.
    pub(crate) fn at(mut self, time: SystemTime) -> Self {
        self.at = Some(time);
        self
    }

    /// Signing the canonical spelling of the path, whatever is sent: what stores verify.
    pub(crate) fn signing_canonical(mut self) -> Self {
        self.canonical = true;
        self
    }

    /// The raw path of a key that needs no encoding.
    pub(crate) fn path(&self, key: &str) -> String {
        format!("/{}/{key}", self.bucket)
    }

    /// PUT of an object.
    pub(crate) async fn put(&self, key: &str, body: impl Into<Payload>) -> Answer {
        self.send(Method::PUT, &self.path(key), body).await
    }

    /// GET of an object.
    pub(crate) async fn get(&self, key: &str) -> Answer {
        self.send(Method::GET, &self.path(key), Bytes::new()).await
    }

    /// HEAD of an object.
    pub(crate) async fn head(&self, key: &str) -> Answer {
        self.send(Method::HEAD, &self.path(key), Bytes::new()).await
    }

    /// DELETE of an object.
    pub(crate) async fn delete(&self, key: &str) -> Answer {
        self.send(Method::DELETE, &self.path(key), Bytes::new()).await
    }

    /// Any request. `target` is the raw path and query.
    pub(crate) async fn send(
        &self,
        method: Method,
        target: &str,
        body: impl Into<Payload>,
    ) -> Answer {
        let request = self.signed(method, target, body.into());
        exchange(self.address, request).await.unwrap()
    }

    /// The same, where no answer may come.
    pub(crate) async fn try_send(
        &self,
        method: Method,
        target: &str,
        body: impl Into<Payload>,
    ) -> Result<Answer, hyper::Error> {
        let request = self.signed(method, target, body.into());
        exchange(self.address, request).await
    }

    /// The request as it would be sent, for a client of another kind.
    pub(crate) fn request(
        &self,
        method: Method,
        target: &str,
        body: impl Into<Payload>,
    ) -> Request<OutBody> {
        self.signed(method, target, body.into())
    }

    /// Where its requests go.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A presigned target: path and query with a signature that is good for so long.
    pub(crate) fn presigned(&self, method: &Method, target: &str, expires: Duration) -> String {
        let mut settings = settings();
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(expires);
        settings.payload_checksum_kind = PayloadChecksumKind::NoHeader;
        let body = SignableBody::UnsignedPayload;
        let (request, _) =
            self.sign(method, target, body, &self.headers, settings, Request::new(()));
        request.uri().path_and_query().unwrap().to_string()
    }

    /// Sends a target as it is, without a signature of its own.
    pub(crate) async fn send_presigned(
        &self,
        method: Method,
        target: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        let body = body.into();
        let mut request =
            Request::builder().method(method).uri(target).header("host", self.host_text());
        for (name, value) in self.headers.iter().chain(&self.unsigned) {
            request = request.header(name, value);
        }
        let request = request.header("content-length", body.len()).body(boxed(body)).unwrap();
        exchange(self.address, request).await.unwrap()
    }

    /// POSTs a body that comes bit by bit and may break off, without a signature of its own.
    pub(crate) async fn post_stream(
        &self,
        target: &str,
        body: OutBody,
        length: u64,
    ) -> Option<Answer> {
        let mut request =
            Request::builder().method(Method::POST).uri(target).header("host", self.host_text());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.header("content-length", length).body(body).unwrap();
        exchange(self.address, request).await.ok()
    }

    /// The signature of a request that declares `content_sha256`, and the time and scope that
    /// chunks are signed with.
    pub(crate) fn seed(
        &self,
        target: &str,
        content_sha256: &str,
        headers: &[(&str, &str)],
    ) -> Seed {
        let mut client = self.clone();
        client.at = Some(self.at.unwrap_or_else(clock::now));
        client.headers.extend(headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        let body = SignableBody::Precomputed(content_sha256.to_owned());
        let (request, signature) =
            client.sign(&Method::PUT, target, body, &client.headers, settings(), Request::new(()));
        let date = request.headers()["x-amz-date"].to_str().unwrap().to_owned();
        let scope = format!("{}/us-east-1/s3/aws4_request", &date[..8]);
        let key = v4::generate_signing_key(
            &client.secret_access_key,
            client.at.unwrap(),
            "us-east-1",
            "s3",
        );
        Seed { client, key: key.as_ref().to_vec(), signature, date, scope }
    }

    /// The signed head of a PUT whose `x-amz-content-sha256` says `declared`.
    pub(crate) fn head_of(&self, target: &str, declared: &str) -> http::request::Parts {
        let payload = Payload::Claimed(Bytes::new(), declared.to_owned());
        self.signed(Method::PUT, target, payload).into_parts().0
    }

    /// The bucket of its objects.
    pub(crate) fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The fields that say how the policy of a form is signed.
    pub(crate) fn policy_fields(&self) -> [(&'static str, String); 3] {
        let date = self.policy_date();
        let day = &date[..8];
        let credential = format!("{}/{day}/us-east-1/s3/aws4_request", self.access_key_id);
        [
            ("x-amz-algorithm", "AWS4-HMAC-SHA256".into()),
            ("x-amz-credential", credential),
            ("x-amz-date", date),
        ]
    }

    /// The signature of a policy, which is given in base64.
    pub(crate) fn sign_policy(&self, policy: &str) -> String {
        let at = self.at.unwrap_or_else(clock::now);
        let key = v4::generate_signing_key(&self.secret_access_key, at, "us-east-1", "s3");
        v4::calculate_signature(key, policy.as_bytes())
    }

    /// `20130524T000000Z`.
    fn policy_date(&self) -> String {
        let at = aws_smithy_types::DateTime::from(self.at.unwrap_or_else(clock::now));
        let at = aws_smithy_types::DateTime::from_secs(at.secs());
        let text = at.fmt(aws_smithy_types::date_time::Format::DateTime).unwrap();
        text.replace(['-', ':'], "")
    }

    fn signed(&self, method: Method, target: &str, payload: Payload) -> Request<OutBody> {
        let (body, length, signable) = match payload {
            Payload::Bytes(bytes) => {
                let hash = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&bytes));
                let length = bytes.len() as u64;
                (boxed(bytes), length, hash)
            }
            Payload::Claimed(bytes, hash) => {
                let length = bytes.len() as u64;
                (boxed(bytes), length, hash)
            }
            Payload::Stream(body, length, hash) => (body, length, hash),
        };
        let signable = SignableBody::Precomputed(signable);
        let mut request = Request::new(());
        if length > 0 || method == Method::PUT || method == Method::POST {
            request.headers_mut().insert("content-length", length.into());
        }
        let (request, _) = self.sign(&method, target, signable, &self.headers, settings(), request);
        request.map(|()| body)
    }

    fn host_text(&self) -> String {
        self.host.clone().unwrap_or_else(|| self.address.to_string())
    }

    fn sign(
        &self,
        method: &Method,
        target: &str,
        body: SignableBody<'_>,
        headers: &[(String, String)],
        settings: SigningSettings,
        mut request: Request<()>,
    ) -> (Request<()>, String) {
        let (id, secret) = (&self.access_key_id, &self.secret_access_key);
        let identity = Credentials::new(id, secret, self.session.clone(), None, "test").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region("us-east-1")
            .name("s3")
            .time(self.at.unwrap_or_else(clock::now))
            .settings(settings)
            .build()
            .unwrap()
            .into();
        *request.method_mut() = method.clone();
        *request.uri_mut() = target.parse().unwrap();
        let host = self.host_text();
        let own = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all = own.chain([("host", host.as_str())]);
        let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
        let path = if self.canonical { canonical_path(path) } else { path.into() };
        let url = format!("http://{host}{path}{query}");
        let signable = SignableRequest::new(method.as_str(), url, all, body).unwrap();
        let (instructions, signature) = sign(signable, &params).unwrap().into_parts();
        instructions.apply_to_request_http1x(&mut request);
        let added = headers.iter().chain(&self.unsigned);
        for (name, value) in added {
            let name: http::HeaderName = name.parse().unwrap();
            request.headers_mut().append(name, value.parse().unwrap());
        }
        request.headers_mut().insert("host", host.parse().unwrap());
        (request, signature)
    }
}

/// What chunk signatures begin with.
pub(crate) struct Seed {
    pub(crate) client: S3,
    pub(crate) key: Vec<u8>,
    pub(crate) signature: String,
    pub(crate) date: String,
    pub(crate) scope: String,
}

fn settings() -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings
}

pub(crate) fn boxed(bytes: Bytes) -> OutBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A request without any signature.
pub(crate) async fn unsigned(address: SocketAddr, method: Method, target: &str) -> Answer {
    let request = Request::builder().method(method).uri(target).header("host", address.to_string());
    exchange(address, request.body(boxed(Bytes::new())).unwrap()).await.unwrap()
}

async fn exchange(address: SocketAddr, request: Request<OutBody>) -> Result<Answer, hyper::Error> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await?;
    let (parts, body) = response.into_parts();
    let mut body = std::pin::pin!(body);
    let (mut bytes, mut trailers, mut cut) = (Vec::new(), HeaderMap::new(), false);
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => bytes.extend_from_slice(&data),
            Ok(Err(frame)) => trailers.extend(frame.into_trailers().unwrap_or_default()),
            Err(_) => {
                cut = true;
                break;
            }
        }
    }
    drop(sender);
    connection.abort();
    let (status, body) = (parts.status.as_u16(), bytes.into());
    Ok(Answer { status, headers: parts.headers, body, trailers, cut })
}

//! Requests of real clients, byte for byte as they came over the wire, against the verifier.
//!
//! `tests/fixtures/auth/*.http` were recorded on loopback, by the `record.py` beside them, from boto3 1.44, minio-py 7.2, s3cmd 2.4,
//! pyarrow 26 and @aws-sdk/client-s3 3.117x with the credentials of the AWS documentation; the
//! only change is the `User-Agent`, which none of them signs. Files with `tls` in the name were
//! sent over TLS, where clients leave the body unsigned. The Rust SDK is a dependency, so it is
//! asked live.
//!
//! Every fixture is parsed by hyper, as in production, and then: verified; read to its end;
//! altered in its body, which has to be noticed wherever the client protects the body; and signed
//! again for a store and verified there.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use bytes::Bytes;
use fencepost::auth::{
    AccessKeyId, AuthError, BodyChecks, BodyError, ChecksumHeaders, Form, KeyRing, PayloadHash,
    SecretKey, SignatureForm, Signer, Verified, VerifiedBody, remove_chunked_framing, verify,
};
use http::request::Parts;
use http::{HeaderName, Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;

const AKID: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// What a fixture decodes to, and whether its body is protected against change.
#[derive(Clone, Copy)]
enum Expected {
    /// The body, protected by a hash or a checksum.
    Protected(&'static [u8]),
    /// The body, which the client left without any protection.
    Open(&'static [u8]),
    /// A protected body, given by its length.
    Length(usize),
    /// The code of the refusal.
    Refused(&'static str),
}

use Expected::{Length, Open, Protected, Refused};

const FIXTURES: [(&str, Expected); 38] = [
    ("boto3-complete-multipart", Length(152)),
    ("boto3-create-multipart", Protected(b"")),
    ("boto3-delete-objects", Length(123)),
    ("boto3-delete-version", Protected(b"")),
    ("boto3-fence-header", Protected(b"hello")),
    ("boto3-get-range", Protected(b"")),
    ("boto3-key-dots", Protected(b"x")),
    ("boto3-key-percent", Protected(b"x")),
    ("boto3-key-plus", Protected(b"x")),
    ("boto3-key-reserved", Protected(b"x")),
    ("boto3-key-slashes", Protected(b"x")),
    ("boto3-key-spaces", Protected(b"x")),
    ("boto3-key-unicode", Protected(b"x")),
    ("boto3-list", Protected(b"")),
    ("boto3-presigned-get-v2", Refused("InvalidRequest")),
    ("boto3-presigned-get-v4", Open(b"")),
    ("boto3-presigned-put-v2", Refused("InvalidRequest")),
    ("boto3-presigned-put-v4", Open(b"hello")),
    ("boto3-put-empty", Protected(b"")),
    ("boto3-put-file", Length(9000)),
    ("boto3-put-metadata", Protected(b"x")),
    ("boto3-put-small", Protected(b"hello")),
    ("boto3-session-token", Protected(b"hello")),
    ("boto3-tls-trailer-file", Length(10240)),
    ("boto3-tls-trailer-sha1-gzip", Protected(b"hello")),
    ("boto3-tls-trailer-sha256", Protected(b"hello")),
    ("boto3-tls-trailer-small", Protected(b"hello")),
    ("boto3-upload-part", Protected(b"p")),
    ("js-delete", Protected(b"")),
    ("js-presigned-put", Open(b"hello")),
    ("js-put", Protected(b"hello")),
    ("js-put-stream", Protected(b"hello world")),
    ("minio-py-put", Protected(b"hello")),
    ("minio-py-tls-put", Protected(b"hello")),
    ("pyarrow-create-multipart", Protected(b"")),
    ("pyarrow-upload-part", Protected(b"hello")),
    ("s3cmd-put", Protected(b"hello")),
    ("s3cmd-put-v2", Refused("InvalidRequest")),
];

fn ring() -> KeyRing {
    KeyRing::single(AccessKeyId::new(AKID).unwrap(), SecretKey::new(SECRET).unwrap())
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/auth")
}

#[derive(Debug)]
enum Refusal {
    Head(AuthError),
    Body(BodyError),
}

impl Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::Head(error) => error.code(),
            Self::Body(error) => error.code(),
        }
    }
}

type Received = Result<(Parts, Verified, Bytes), Refusal>;

/// Verifies head and body, as the pipeline would.
async fn receive(request: Request<Incoming>, now: Option<SystemTime>) -> Received {
    let (parts, body) = request.into_parts();
    let now = now.unwrap_or_else(|| signed_at(&parts));
    let verified = verify(&parts, &ring(), now).map_err(Refusal::Head)?;
    let completes = parts.method == http::Method::POST
        && parts.uri.query().is_some_and(|query| query.starts_with("uploadId"));
    let of = if completes { ChecksumHeaders::OfObject } else { ChecksumHeaders::OfBody };
    let checks = BodyChecks::new(&parts, verified.payload.clone(), of).map_err(Refusal::Head)?;
    let body = VerifiedBody::new(body, checks);
    let buffered = body.buffer(1 << 20).await.map_err(Refusal::Body)?;
    Ok((parts, verified, buffered.data))
}

/// The time in `x-amz-date` or `X-Amz-Date`; the epoch for Signature Version 2, which has neither.
fn signed_at(parts: &Parts) -> SystemTime {
    use aws_smithy_types::{DateTime, date_time::Format};
    let header = parts.headers.get("x-amz-date").map(|value| value.to_str().unwrap());
    let query = parts.uri.query().and_then(|query| query.split("X-Amz-Date=").nth(1));
    let rfc3339 = header.or(query).filter(|date| date.as_bytes().get(8) == Some(&b'T')).map(|d| {
        let parts = [&d[..4], &d[4..6], &d[6..8], &d[9..11], &d[11..13], &d[13..15]];
        let [year, month, day, hour, minute, second] = parts;
        format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")
    });
    rfc3339.map_or(SystemTime::UNIX_EPOCH, |date| {
        DateTime::from_str(&date, Format::DateTime).unwrap().try_into().unwrap()
    })
}

/// Plays recorded bytes to hyper's server and gives what the verifier made of the request.
async fn play(raw: &[u8]) -> Received {
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let received: Arc<Mutex<Option<Received>>> = Arc::default();
    let slot = Arc::clone(&received);
    let service = service_fn(move |request| {
        let slot = Arc::clone(&slot);
        async move {
            let outcome = receive(request, None).await;
            *slot.lock().unwrap() = Some(outcome);
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let serving =
        http1::Builder::new().half_close(true).serve_connection(TokioIo::new(server), service);
    let (_written, _served) = tokio::join!(
        async {
            let _early_answer = client.write_all(raw).await;
            let _gone = client.shutdown().await;
            let mut answer = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut client, &mut answer).await
        },
        serving
    );
    let outcome = received.lock().unwrap().take();
    outcome.expect("hyper parses the fixture")
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(directory().join(format!("{name}.http"))).unwrap()
}

#[test]
fn every_fixture_is_expected_and_every_expectation_has_its_fixture() {
    let mut found: Vec<String> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".http"))
        .collect();
    found.sort_by(|a, b| a.trim_end_matches(".http").cmp(b.trim_end_matches(".http")));
    let expected: Vec<String> = FIXTURES.iter().map(|(name, _)| format!("{name}.http")).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn what_real_clients_send_is_verified() {
    for (name, expected) in FIXTURES {
        let received = play(&fixture(name)).await;
        match (received, expected) {
            (Ok((_, _, data)), Protected(body) | Open(body)) => assert_eq!(data, body, "{name}"),
            (Ok((_, _, data)), Length(length)) => assert_eq!(data.len(), length, "{name}"),
            (Err(refusal), Refused(code)) => assert_eq!(refusal.code(), code, "{name}"),
            (Ok(_), Refused(code)) => panic!("{name} was accepted, not refused with {code}"),
            (Err(refusal), Protected(_) | Open(_) | Length(_)) => panic!("{name}: {refusal:?}"),
        }
    }
}

/// One bit of the last byte of the payload.
fn alter_body(raw: &[u8], expected: Expected) -> Option<Vec<u8>> {
    let head = raw.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let body = match expected {
        Protected(body) if !body.is_empty() => body.to_vec(),
        Length(_) => raw[head..].iter().copied().filter(|b| *b == b'a').take(1).collect(),
        Protected(_) | Open(_) | Refused(_) => return None,
    };
    let last = *body.last()?;
    let mut altered = raw.to_vec();
    // The payload comes before the trailer; hexadecimal sizes have none of these letters.
    let at = head + altered[head..].iter().position(|&b| b == last)?;
    altered[at] ^= 0x01;
    Some(altered)
}

#[tokio::test]
async fn an_altered_body_is_refused() {
    let mut altered_count = 0;
    for (name, expected) in FIXTURES {
        if name == "boto3-tls-trailer-file" {
            continue; // `a` is also a digit of its sizes; chunked_tests.rs alters every byte.
        }
        let Some(altered) = alter_body(&fixture(name), expected) else { continue };
        let refusal = play(&altered).await.expect_err(name);
        assert!(matches!(refusal, Refusal::Body(_)), "{name}: {refusal:?}");
        altered_count += 1;
    }
    assert!(altered_count > 20, "only {altered_count} fixtures were altered");
}

#[tokio::test]
async fn an_altered_head_is_refused() {
    for (name, expected) in FIXTURES {
        if matches!(expected, Refused(_)) {
            continue;
        }
        let raw = fixture(name);
        let text = raw.windows(8).position(|window| window == b"/bucket?" || window == b"/bucket/");
        let mut altered = raw;
        altered[text.expect("a path") + 1] = b'B';
        let refusal = play(&altered).await.expect_err(name);
        assert_eq!(refusal.code(), "SignatureDoesNotMatch", "{name}");
    }
}

/// Through the proxy: strip, sign for the store, and the store (our verifier) accepts it.
#[tokio::test]
async fn what_was_verified_can_be_signed_again() {
    let credentials = Credentials::new(AKID, SECRET, None, None, "test");
    let signer = Signer::new(credentials, "us-west-2");
    for (name, expected) in FIXTURES {
        if matches!(expected, Refused(_)) {
            continue;
        }
        for form in [SignatureForm::Header, SignatureForm::Query { expires_seconds: 20 }] {
            let (mut parts, _, _) = play(&fixture(name)).await.unwrap();
            let path = parts.uri.path().to_owned();
            let at = signed_at(&parts) + Duration::from_secs(5);
            remove_chunked_framing(&mut parts.headers);
            let target = format!("http://store.example:9000{}", parts.uri);
            parts.uri = target.parse().unwrap();
            signer.sign(&mut parts, PayloadHash::Unsigned, at, form).unwrap();
            assert_eq!(parts.uri.path(), path, "{name}: every client sends canonical paths");
            parts.uri = parts.uri.path_and_query().unwrap().as_str().parse().unwrap();
            let verified = verify(&parts, &ring(), at).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            let is_header = form == SignatureForm::Header;
            assert_eq!(verified.form == Form::Header, is_header);
            assert_eq!(verified.session_token, None, "{name}");
        }
    }
}

#[tokio::test]
async fn tokens_are_found_where_clients_put_them() {
    let fence = HeaderName::from_static("x-fence-token");
    for (name, signed, token) in [
        ("boto3-fence-header", true, None),
        ("s3cmd-put", true, None),
        ("boto3-session-token", false, Some("fence:42")),
        ("boto3-presigned-put-v4", false, Some("fence:42")),
        ("js-put", false, Some("fence:42")),
        ("js-presigned-put", false, Some("fence:42")),
    ] {
        let (_, verified, _) = play(&fixture(name)).await.unwrap();
        assert_eq!(verified.signed_headers.contains(&fence), signed, "{name}");
        assert_eq!(verified.session_token.as_ref().map(|t| t.as_str()), token, "{name}");
    }
}

/// What the Rust SDK sends for one PUT, as far as it is worth comparing.
struct Sent {
    content_sha256: String,
    data: Bytes,
}

/// Serves requests with the verifier, at the present time, until the test ends.
async fn serve(received: tokio::sync::mpsc::UnboundedSender<Result<Sent, Refusal>>) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            let received = received.clone();
            let service = service_fn(move |request| {
                let received = received.clone();
                async move {
                    let outcome = receive(request, Some(fencepost::clock::now())).await;
                    let sent = outcome.map(|(parts, _, data)| {
                        let value = parts.headers["x-amz-content-sha256"].to_str().unwrap();
                        Sent { content_sha256: value.to_owned(), data }
                    });
                    received.send(sent).unwrap();
                    Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    port
}

/// The one client that signs every chunk and the trailer, over plain HTTP.
#[tokio::test]
async fn the_rust_sdk_is_verified_live() {
    use aws_sdk_s3::primitives::{ByteStream, SdkBody};
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    let port = serve(sender).await;
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(aws_sdk_s3::config::BehaviorVersion::v2026_01_12())
        .endpoint_url(format!("http://127.0.0.1:{port}"))
        .region(aws_sdk_s3::config::Region::new("eu-central-1"))
        .credentials_provider(Credentials::new(AKID, SECRET, None, None, "test"))
        .force_path_style(true)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    let client = aws_sdk_s3::Client::from_conf(config);
    let data = Bytes::from(vec![7_u8; 300_000]);

    let put = client.put_object().bucket("b").key("in memory/+//é%2F");
    put.body(ByteStream::from(data.clone())).send().await.unwrap();
    let sent = received.recv().await.unwrap().unwrap();
    assert_eq!((sent.content_sha256.len(), sent.data.len()), (64, data.len()));

    let pieces: Vec<Result<_, Infallible>> = data
        .chunks(70_001)
        .map(|piece| Ok(http_body::Frame::data(data.slice_ref(piece))))
        .collect();
    let stream = http_body_util::StreamBody::new(futures_util::stream::iter(pieces));
    let put = client.put_object().bucket("b").key("streamed").content_length(300_000);
    put.body(ByteStream::new(SdkBody::from_body_1_x(stream))).send().await.unwrap();
    let sent = received.recv().await.unwrap().unwrap();
    assert_eq!(sent.content_sha256, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER");
    assert!(sent.data == data, "the decoded stream is not what was sent");

    client.delete_object().bucket("b").key("a b").send().await.unwrap();
    received.recv().await.unwrap().unwrap();
}

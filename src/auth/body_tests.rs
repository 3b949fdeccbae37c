//! That nothing wrong is ever given out whole.

use std::collections::VecDeque;
use std::task::Waker;

use http::HeaderMap;

use super::super::body_checks::ChecksumHeaders;
use super::super::error::AuthError;
use super::super::payload::{ChunkSignatures, Declared};
use super::super::test_util::{Generator, head};
use super::super::verify::Verified;
use super::*;

/// A body in the given portions, each after a `Pending`, then an error if there is one.
struct Portions {
    portions: VecDeque<Result<Frame<Bytes>, &'static str>>,
    ready: bool,
}

impl Portions {
    fn new(portions: impl IntoIterator<Item = Bytes>) -> Self {
        let portions = portions.into_iter().map(|data| Ok(Frame::data(data))).collect();
        Self { portions, ready: false }
    }
}

impl Body for Portions {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.ready = !self.ready;
        if self.ready {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.portions.pop_front().map(|frame| frame.map_err(Into::into)))
    }
}

fn checks(headers: &[(&str, &str)]) -> Result<BodyChecks, AuthError> {
    let parts = head("PUT", "/b/k", &[&[("host", "h")], headers].concat());
    let payload = Verified::unauthenticated(&parts)?.payload;
    BodyChecks::new(&parts, payload, ChecksumHeaders::OfBody)
}

/// All frames, and how it ended.
fn read<B>(body: &mut VerifiedBody<B>) -> (Vec<Bytes>, Option<BodyError>)
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut frames = Vec::new();
    for _ in 0..100_000 {
        match Pin::new(&mut *body).poll_frame(&mut cx) {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(frame))) => frames.push(frame.into_data().unwrap()),
            Poll::Ready(Some(Err(error))) => return (frames, Some(error)),
            Poll::Ready(None) => return (frames, None),
        }
    }
    panic!("the body never ends");
}

fn split(body: &[u8], generator: &mut Generator) -> Vec<Bytes> {
    let (mut portions, mut rest) = (Vec::new(), body);
    while !rest.is_empty() {
        let (portion, more) = rest.split_at(1 + generator.below(rest.len()));
        portions.push(Bytes::copy_from_slice(portion));
        rest = more;
        if generator.below(4) == 0 {
            portions.push(Bytes::new());
        }
    }
    portions
}

const HELLO: &[u8] = b"hello";
const HELLO_SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
const LENGTH: (&str, &str) = ("content-length", "5");
const STREAM: (&str, &str) = ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER");
const DECODED: (&str, &str) = ("x-amz-decoded-content-length", "5");
const TRAILER: (&str, &str) = ("x-amz-trailer", "x-amz-checksum-crc32");

type Headers = &'static [(&'static str, &'static str)];

/// Headers, what is sent, and the code of the refusal: every promise kept once and broken once.
fn promises() -> Vec<(Headers, &'static str, Option<&'static str>)> {
    const SHA256: (&str, &str) = ("x-amz-content-sha256", HELLO_SHA256);
    const WRONG_SHA256: (&str, &str) = (
        "x-amz-content-sha256",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
    const MD5: (&str, &str) = ("content-md5", "XUFAKrxLKna5cZ2REBfFkg==");
    const WRONG_MD5: (&str, &str) = ("content-md5", "XUFAKrxLKna5cZ2REBfFkA==");
    const CRC32: (&str, &str) = ("x-amz-checksum-crc32", "NhCmhg==");
    const WRONG_CRC32: (&str, &str) = ("x-amz-checksum-crc32", "NhCmhQ==");
    const SHA1: (&str, &str) = ("x-amz-checksum-sha1", "qvTGHdzF6KLavt4PO0gs2a6pQ00=");
    const STREAMED: Headers = &[STREAM, DECODED, TRAILER];
    let good = "3\r\nhel\r\n2\r\nlo\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    let wrong_crc = "3\r\nhel\r\n2\r\nlo\r\n0\r\nx-amz-checksum-crc32:NhCmhQ==\r\n\r\n";
    let no_crc = "3\r\nhel\r\n2\r\nlo\r\n0\r\nx-amz-checksum-crc32:hi\r\n\r\n";
    let short = "3\r\nhel\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    let long = "3\r\nhel\r\n3\r\nlo!\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    let more = "5\r\nhello\r\n1\r\n!\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    let other = "3\r\nhel\r\n2\r\nlo\r\n0\r\nx-amz-checksum-crc32c:NhCmhg==\r\n\r\n";
    let no_trailer = "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
    vec![
        (&[LENGTH], "hello", None),
        (&[LENGTH], "hell", Some("IncompleteBody")),
        (&[LENGTH], "", Some("IncompleteBody")),
        (&[LENGTH], "hello!", Some("InvalidRequest")),
        (&[LENGTH, SHA256], "hello", None),
        (&[LENGTH, WRONG_SHA256], "hello", Some("XAmzContentSHA256Mismatch")),
        (&[LENGTH, MD5], "hello", None),
        (&[LENGTH, WRONG_MD5], "hello", Some("BadDigest")),
        (&[LENGTH, CRC32], "hello", None),
        (&[LENGTH, WRONG_CRC32], "hello", Some("BadDigest")),
        (&[LENGTH, SHA1], "hello", None),
        (&[LENGTH, SHA1], "hellO", Some("BadDigest")),
        (STREAMED, good, None),
        (STREAMED, wrong_crc, Some("BadDigest")),
        (STREAMED, no_crc, Some("MalformedTrailerError")),
        (STREAMED, short, Some("IncompleteBody")),
        (STREAMED, long, Some("InvalidRequest")),
        (STREAMED, more, Some("InvalidRequest")),
        (STREAMED, other, Some("MalformedTrailerError")),
        (STREAMED, no_trailer, Some("MalformedTrailerError")),
        (STREAMED, "hello", Some("IncompleteBody")),
        (STREAMED, "hello\r\n", Some("InvalidChunkSizeError")),
        (&[STREAM, DECODED], no_trailer, None),
        (&[STREAM, DECODED], good, Some("MalformedTrailerError")),
        (&[STREAM, DECODED, CRC32], no_trailer, None),
        (&[STREAM, DECODED, WRONG_CRC32], no_trailer, Some("BadDigest")),
        (&[STREAM, DECODED, TRAILER, WRONG_MD5], good, Some("BadDigest")),
    ]
}

/// Whatever is wrong with a body, and however it is cut, its last frame never comes out.
#[test]
fn the_last_frame_waits_for_every_promise() {
    let mut generator = Generator(5);
    for (headers, sent, expected) in promises() {
        for _ in 0..50 {
            let portions = split(sent.as_bytes(), &mut generator);
            let mut body = VerifiedBody::new(Portions::new(portions), checks(headers).unwrap());
            assert_eq!(body.decoded_length(), Some(5));
            let outcome = body.outcome();
            assert!(outcome.get().is_none());
            let (frames, error) = read(&mut body);
            let given = frames.concat();
            if let Some(code) = expected {
                assert_eq!(error.unwrap().code(), code, "{headers:?} {sent}");
                assert!(given.len() < HELLO.len(), "{headers:?} {sent}: all was given out");
                assert!(sent.starts_with("hellO") || HELLO.starts_with(&given));
                assert!(outcome.get().unwrap().is_err());
                assert!(body.checksums().is_none());
            } else {
                assert!(error.is_none(), "{headers:?} {error:?}");
                assert_eq!(given, HELLO);
                assert!(outcome.get().unwrap().is_ok());
                assert_eq!(body.size_hint().exact(), Some(0));
            }
            assert!(body.is_end_stream());
            assert!(read(&mut body).0.is_empty(), "something came after the end");
        }
    }
}

#[test]
fn the_checksums_come_out_as_headers() {
    let sent = Bytes::from("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n");
    let checks = checks(&[STREAM, DECODED, TRAILER]).unwrap();
    let mut body = VerifiedBody::new(Portions::new([sent]), checks);
    assert!(body.checksums().is_none());
    read(&mut body);
    let (name, value) = &body.checksums().unwrap()[0];
    assert_eq!((name.as_str(), value.to_str().unwrap()), ("x-amz-checksum-crc32", "NhCmhg=="));
}

#[test]
fn a_broken_connection_is_not_an_end() {
    let mut portions = Portions::new([Bytes::from("hel"), Bytes::from("lo")]);
    portions.portions.push_back(Err("connection reset"));
    let mut body = VerifiedBody::new(portions, checks(&[LENGTH]).unwrap());
    let (frames, error) = read(&mut body);
    assert_eq!(frames.concat(), b"hel");
    assert!(matches!(error, Some(BodyError::Client(_))));
}

#[test]
fn trailers_of_http_itself_are_dropped() {
    let mut portions = Portions::new([Bytes::from("hello")]);
    let mut trailers = HeaderMap::new();
    trailers.insert("x-amz-checksum-crc32", HeaderValue::from_static("AAAAAA=="));
    portions.portions.push_back(Ok(Frame::trailers(trailers)));
    let mut body = VerifiedBody::new(portions, checks(&[LENGTH]).unwrap());
    let (frames, error) = read(&mut body);
    assert_eq!((frames.concat(), error.is_none()), (HELLO.to_vec(), true));
}

#[test]
fn an_empty_body_has_nothing_to_hold_back_and_still_fails() {
    let zeros = "0".repeat(64);
    let sent = [("content-length", "0"), ("x-amz-content-sha256", zeros.as_str())];
    let mut body = VerifiedBody::new(Portions::new([]), checks(&sent).unwrap());
    assert!(!body.is_end_stream());
    let (frames, error) = read(&mut body);
    assert!(frames.is_empty());
    assert_eq!(error.unwrap().code(), "XAmzContentSHA256Mismatch");
}

#[tokio::test]
async fn buffering_is_bounded_and_verified() {
    let body = |sent: &'static str, headers: &[(&str, &str)]| {
        VerifiedBody::new(Portions::new([Bytes::from(sent)]), checks(headers).unwrap())
    };
    let buffered = body("hello", &[LENGTH]).buffer(5).await.unwrap();
    assert_eq!(buffered.data, HELLO);
    let error = body("hello", &[LENGTH]).buffer(4).await.unwrap_err();
    assert!(matches!(error, BodyError::TooLargeToBuffer { bytes_max: 4 }));
    let unknown = [("transfer-encoding", "chunked")];
    assert_eq!(body("hello", &unknown).decoded_length(), None);
    assert!(body("hello", &unknown).buffer(4).await.is_err());
    assert_eq!(body("hello", &unknown).buffer(5).await.unwrap().data, HELLO);
    assert!(body("hell", &[LENGTH]).buffer(5).await.is_err());
}

#[test]
fn promises_that_cannot_be_read_are_refused_before_the_body() {
    const SIGNED: (&str, &str) = ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    const CRC32: (&str, &str) = ("x-amz-checksum-crc32", "NhCmhg==");
    let cases: Vec<(Headers, &str, u16)> = vec![
        (&[STREAM, LENGTH], "MissingContentLength", 411),
        (&[STREAM, ("x-amz-decoded-content-length", "+5")], "InvalidArgument", 400),
        (&[STREAM, ("x-amz-decoded-content-length", "0x5")], "InvalidArgument", 400),
        (&[("content-length", "5,5")], "InvalidArgument", 400),
        (&[LENGTH, ("content-md5", "XUFA")], "InvalidDigest", 400),
        (&[LENGTH, ("x-amz-checksum-crc32", "NhCm")], "InvalidRequest", 400),
        (&[LENGTH, CRC32, ("x-amz-checksum-crc32c", "NhCmhg==")], "InvalidRequest", 400),
        (&[STREAM, DECODED, TRAILER, CRC32], "InvalidRequest", 400),
        (&[STREAM, DECODED, ("x-amz-trailer", "x-amz-meta-a")], "InvalidRequest", 400),
        (
            &[STREAM, DECODED, ("x-amz-trailer", "x-amz-checksum-crc32,x-amz-checksum-sha1")],
            "InvalidRequest",
            400,
        ),
        (&[SIGNED, DECODED, TRAILER], "InvalidRequest", 400),
    ];
    for (headers, code, status) in cases {
        let error = checks(headers).unwrap_err();
        assert_eq!((error.code(), error.status().as_u16()), (code, status), "{headers:?}");
    }
    // The checksum of an object is not that of this body, and may be a composite one.
    let composite = [("host", "h"), LENGTH, ("x-amz-checksum-crc32", "NhCmhg==-3")];
    let parts = head("POST", "/b/k?uploadId=1", &composite);
    let of = |what| BodyChecks::new(&parts, Payload::Unsigned, what);
    assert!(of(ChecksumHeaders::OfObject).unwrap().checksum.is_none());
    assert!(of(ChecksumHeaders::OfBody).is_err());
    // A family that is not computed here is left for the store to check.
    let checks = checks(&[LENGTH, ("x-amz-checksum-xxhash3", "anything")]).unwrap();
    assert!(checks.checksum.is_none());
}

#[test]
fn without_authentication_signed_chunks_are_decoded_and_their_signatures_skipped() {
    let declared = Declared::parse("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER").unwrap();
    let payload = declared.into_payload(None);
    assert!(matches!(
        payload,
        Payload::Chunked { signatures: ChunkSignatures::Ignored, trailer: true }
    ));
    let parts = head("PUT", "/b/k", &[DECODED, TRAILER]);
    let checks = BodyChecks::new(&parts, payload, ChecksumHeaders::OfBody).unwrap();
    let sent = Bytes::from(
        "5;chunk-signature=no\r\nhello\r\n0;chunk-signature=no\r\n\
         x-amz-checksum-crc32:NhCmhg==\r\nx-amz-trailer-signature:no\r\n\r\n",
    );
    let mut body = VerifiedBody::new(Portions::new([sent]), checks);
    let (frames, error) = read(&mut body);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(frames.concat(), HELLO);
}

//! aws-chunked bodies: split anywhere they are the same, damaged they are never taken for good.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fencepost::auth::{
    AccessKeyId, BodyChecks, ChecksumHeaders, KeyRing, Payload, SecretKey, Verified, VerifiedBody,
    verify,
};
use http::request::Parts;
use http_body::{Body as _, Frame};
use http_body_util::StreamBody;

use super::inputs::{bytes, damaged};
use super::support::{Generator, S3, signed_chunks, unsigned_chunks_with_crc32};
use super::{CASES, hold};

const ID: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// A request whose body is framed, and its frame.
struct Framed {
    parts: Parts,
    payload: Payload,
    stream: Vec<u8>,
}

fn signed(body: &[Bytes]) -> Framed {
    let length: usize = body.iter().map(Bytes::len).sum();
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600);
    let declared = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let headers = [("x-amz-decoded-content-length", &*length.to_string())];
    let address = "127.0.0.1:9000".parse().unwrap();
    let seed = S3::new(address, ID, SECRET, "bucket").at(at).seed("/bucket/k", declared, &headers);
    let parts = seed.client.head_of("/bucket/k", declared);
    let ring = KeyRing::single(AccessKeyId::new(ID).unwrap(), SecretKey::new(SECRET).unwrap());
    let payload = verify(&parts, &ring, at).unwrap().payload;
    Framed { parts, payload, stream: signed_chunks(&seed, body, None).to_vec() }
}

fn unsigned(body: &[Bytes]) -> Framed {
    let whole = body.concat();
    let request = http::Request::put("/bucket/k")
        .header("host", "h")
        .header("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
        .header("x-amz-decoded-content-length", whole.len())
        .header("x-amz-trailer", "x-amz-checksum-crc32");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let payload = Verified::unauthenticated(&parts).unwrap().payload;
    Framed { parts, payload, stream: unsigned_chunks_with_crc32(body, &whole).to_vec() }
}

/// What came out, and whether it was found to be what was promised.
fn read(framed: &Framed, stream: &[u8], splits: &[usize]) -> (Vec<u8>, bool) {
    let mut pieces: Vec<Result<Frame<Bytes>, Infallible>> = Vec::new();
    let (mut rest, mut at) = (stream, 0);
    while !rest.is_empty() {
        let wanted = splits.get(at % splits.len().max(1)).copied().unwrap_or(rest.len());
        let (piece, after) = rest.split_at(wanted.min(rest.len()));
        pieces.push(Ok(Frame::data(Bytes::copy_from_slice(piece))));
        (rest, at) = (after, at + 1);
    }
    let checks =
        BodyChecks::new(&framed.parts, framed.payload.clone(), ChecksumHeaders::OfBody).unwrap();
    let inner = StreamBody::new(futures_util::stream::iter(pieces));
    let mut body = VerifiedBody::new(inner, checks);
    let mut decoded = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match Pin::new(&mut body).poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => decoded.extend(frame.into_data().unwrap()),
            Poll::Ready(Some(Err(_))) => return (decoded, false),
            Poll::Ready(None) => return (decoded, true),
            Poll::Pending => panic!("everything is there"),
        }
    }
}

fn chunks(random: &mut Generator) -> Vec<Bytes> {
    let chunk = |random: &mut Generator| [bytes(random, 200), vec![0]].concat().into();
    (0..random.below(5)).map(|_| chunk(random)).collect()
}

/// How long the pieces are in which a body arrives.
fn splits(random: &mut Generator) -> Vec<usize> {
    let longest = 1 + random.below(100);
    (0..=random.below(20)).map(|_| 1 + random.below(longest)).collect()
}

#[test]
fn a_body_is_the_same_however_it_is_split() {
    let input = |random: &mut Generator| (chunks(random), splits(random));
    hold(CASES / 16, input, |(chunks, splits)| {
        for framed in [signed(chunks), unsigned(chunks)] {
            let whole = (chunks.concat(), true);
            assert_eq!(read(&framed, &framed.stream, splits), whole);
        }
    });
}

/// Whatever was damaged, in the frame or in the data: it is the body that was signed, or it is
/// found to be wrong before its last byte is given out.
#[test]
fn a_damaged_body_is_never_taken_for_good() {
    let chunks = [&b"first chunk"[..], b"2nd", b"0123456789abcdef"].map(Bytes::from_static);
    let whole = chunks.concat();
    for framed in [signed(&chunks), unsigned(&chunks)] {
        let corpus = [&framed.stream[..]];
        let input = |random: &mut Generator| (damaged(random, &corpus), splits(random));
        hold(CASES / 2, input, |(stream, splits)| {
            let (decoded, good) = read(&framed, stream, splits);
            if good {
                assert_eq!(decoded, whole);
            } else {
                assert!(decoded.len() < whole.len(), "a store would keep this");
            }
        });
    }
}

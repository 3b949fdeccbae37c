//! The documentation's two chunked uploads, every split of them, and every way to get it wrong.

use aws_credential_types::Credentials;
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::http::Headers;

use super::super::test_util::{AKID, Generator, SECRET, example_day};
use super::*;

const SEED: &str = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9";
const TRAILER_SEED: &str = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e";

fn seed(signature: &str) -> ChunkSeed {
    let key = v4::generate_signing_key(SECRET, example_day(), "us-east-1", "s3");
    ChunkSeed {
        signing_key: key.as_ref().to_vec(),
        date: "20130524T000000Z".to_owned(),
        scope: "20130524/us-east-1/s3/aws4_request".to_owned(),
        signature: signature.to_owned(),
    }
}

fn signed(signature: &str) -> ChunkSignatures {
    ChunkSignatures::Verified(seed(signature))
}

/// The example upload of the documentation: 66560 times `a`, in two chunks.
fn example(signatures: [&str; 3], trailer: &str) -> Vec<u8> {
    let mut body = format!("10000;chunk-signature={}\r\n", signatures[0]).into_bytes();
    body.extend(std::iter::repeat_n(b'a', 65536));
    body.extend(format!("\r\n400;chunk-signature={}\r\n", signatures[1]).bytes());
    body.extend(std::iter::repeat_n(b'a', 1024));
    body.extend(format!("\r\n0;chunk-signature={}\r\n{trailer}\r\n", signatures[2]).bytes());
    body
}

const PLAIN: [&str; 3] = [
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
];
const WITH_TRAILER: [&str; 3] = [
    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
];
const TRAILER: &str = "x-amz-checksum-crc32c:sOO8/Q==\n\r\nx-amz-trailer-signature:\
                       d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n";

type Decoded = Result<(Vec<u8>, Trailers), String>;

/// Decodes `portions`, one after the other.
fn decode<'a>(
    signatures: &ChunkSignatures,
    has_trailer: bool,
    portions: impl IntoIterator<Item = &'a [u8]>,
) -> Decoded {
    let mut decoder = ChunkDecoder::new(signatures.clone(), has_trailer);
    let mut body = Vec::new();
    for portion in portions {
        let mut input = Bytes::copy_from_slice(portion);
        while let Some(piece) = decoder.next(&mut input).map_err(|e| format!("{e:?}"))? {
            assert!(!piece.is_empty());
            body.extend_from_slice(&piece);
        }
        assert!(input.is_empty());
    }
    decoder.finish().map(|trailers| (body, trailers)).map_err(|e| format!("{e:?}"))
}

fn decode_whole(signatures: &ChunkSignatures, has_trailer: bool, body: &[u8]) -> Decoded {
    decode(signatures, has_trailer, [body])
}

#[test]
fn aws_example_chunked_upload() {
    let (body, trailers) = decode_whole(&signed(SEED), false, &example(PLAIN, "")).unwrap();
    assert_eq!(body, vec![b'a'; 66560]);
    assert!(trailers.is_empty());
}

#[test]
fn aws_example_chunked_upload_with_trailer() {
    let body = example(WITH_TRAILER, TRAILER);
    let (body, trailers) = decode_whole(&signed(TRAILER_SEED), true, &body).unwrap();
    assert_eq!(body.len(), 66560);
    assert_eq!(trailers[0].0, "x-amz-checksum-crc32c");
    assert_eq!(trailers[0].1, "sOO8/Q==");
}

/// A body signed by aws-sigv4's own `sign_chunk` and `sign_trailer`.
fn sign(chunks: &[&[u8]], trailer: Option<(&'static str, &'static str)>) -> Vec<u8> {
    let identity = Credentials::new(AKID, SECRET, None, None, "test").into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region("us-east-1")
        .name("s3")
        .time(example_day())
        .settings(())
        .build()
        .unwrap();
    let (mut previous, mut body) = (SEED.to_owned(), Vec::new());
    for chunk in chunks.iter().copied().chain([&b""[..]]) {
        let output = v4::sign_chunk(&Bytes::copy_from_slice(chunk), &previous, &params).unwrap();
        previous = output.signature().to_owned();
        body.extend(format!("{:x};chunk-signature={previous}\r\n", chunk.len()).bytes());
        body.extend_from_slice(chunk);
        if !chunk.is_empty() {
            body.extend_from_slice(b"\r\n");
        }
    }
    if let Some((name, value)) = trailer {
        let mut headers = Headers::new();
        headers.insert(name, value);
        let output = v4::sign_trailer(&headers, &previous, &params).unwrap();
        let signature = output.signature();
        body.extend(format!("{name}:{value}\r\nx-amz-trailer-signature:{signature}\r\n").bytes());
    }
    body.extend_from_slice(b"\r\n");
    body
}

const CRC: Option<(&str, &str)> = Some(("x-amz-checksum-crc32", "AAAAAA=="));

#[test]
fn every_split_gives_the_same_result() {
    let unsigned = b"3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n".to_vec();
    let mut broken = sign(&[b"hello ", b"world"], CRC);
    *broken.iter_mut().rfind(|b| **b == b'w').unwrap() = b'W';
    let bodies = [
        (ChunkSignatures::Absent, unsigned),
        (signed(SEED), sign(&[b"hello ", b"world"], CRC)),
        (ChunkSignatures::Ignored, sign(&[b"hello ", b"world"], CRC)),
        (signed(SEED), broken),
        (ChunkSignatures::Absent, b"3\r\nabcd\r\n0\r\n\r\n".to_vec()),
        (ChunkSignatures::Absent, format!("3;{}\r\nabc", "x".repeat(600)).into_bytes()),
        (ChunkSignatures::Absent, format!("0\r\n{}", "x".repeat(9000)).into_bytes()),
    ];
    let mut generator = Generator(4);
    for (signatures, body) in bodies {
        let whole = decode_whole(&signatures, true, &body);
        assert_eq!(decode(&signatures, true, body.chunks(1)), whole, "byte by byte");
        for at in 0..=body.len().min(700) {
            let (a, b) = body.split_at(at);
            assert_eq!(decode(&signatures, true, [a, b]), whole, "split at {at}");
        }
        for _ in 0..200 {
            let mut portions = Vec::new();
            let mut rest = &body[..];
            while !rest.is_empty() {
                let (portion, more) = rest.split_at(1 + generator.below(rest.len()));
                portions.push(portion);
                rest = more;
            }
            assert_eq!(decode(&signatures, true, portions.iter().copied()), whole);
        }
    }
}

/// Cut anywhere, a body is incomplete and nothing else.
#[test]
fn every_truncation_is_seen() {
    for (signatures, body) in [
        (signed(SEED), sign(&[b"hello ", b"world"], CRC)),
        (
            ChunkSignatures::Absent,
            b"3\r\nabc\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n".to_vec(),
        ),
    ] {
        decode_whole(&signatures, true, &body).unwrap();
        for end in 0..body.len() {
            // The empty line right after the last chunk would be a trailer with nothing in it.
            let result = decode_whole(&signatures, true, &body[..end]);
            assert_eq!(result, Err("IncompleteFraming".to_owned()), "cut at {end}");
        }
    }
    let body = sign(&[b"hello"], None);
    decode_whole(&signed(SEED), false, &body).unwrap();
    for end in 0..body.len() {
        let result = decode_whole(&signed(SEED), false, &body[..end]);
        assert_eq!(result, Err("IncompleteFraming".to_owned()), "cut at {end}");
    }
}

/// Flip any bit of a signed body: it is refused.
#[test]
fn every_altered_byte_is_seen() {
    let body = sign(&[b"hello ", b"world"], CRC);
    for at in 0..body.len() {
        for bit in [0x01, 0x04, 0x20, 0x80] {
            let mut altered = body.clone();
            altered[at] ^= bit;
            match decode_whole(&signed(SEED), true, &altered) {
                Err(_) => {}
                // The case of a hexadecimal digit or of a trailer's name means nothing.
                Ok(found) => assert_eq!(
                    Ok(found),
                    decode_whole(&signed(SEED), true, &body),
                    "byte {at} was altered by {bit:#x}"
                ),
            }
        }
    }
}

#[test]
fn chunks_cannot_be_dropped_repeated_or_swapped() {
    let whole = sign(&[b"one", b"two", b"six"], None);
    let chunk = "3;chunk-signature=".len() + 64 + 2 + 3 + 2;
    let (a, b, c, end) = (
        &whole[..chunk],
        &whole[chunk..2 * chunk],
        &whole[2 * chunk..3 * chunk],
        &whole[3 * chunk..],
    );
    decode(&signed(SEED), false, [a, b, c, end]).unwrap();
    for portions in [
        vec![b, c, end],
        vec![a, c, end],
        vec![a, b, end],
        vec![a, a, b, c, end],
        vec![b, a, c, end],
        vec![end],
    ] {
        let result = decode(&signed(SEED), false, portions);
        assert_eq!(result, Err("SignatureMismatch".to_owned()));
    }
}

#[test]
fn sizes() {
    let unsigned = |body: &str| decode_whole(&ChunkSignatures::Absent, true, body.as_bytes());
    for size in ["a", "A", "0a", "000000000000000A"] {
        let body = format!("{size}\r\n0123456789\r\n0\r\n\r\n");
        assert_eq!(unsigned(&body).unwrap().0, b"0123456789", "{size}");
    }
    for size in ["", " a", "a ", "0xa", "-1", "+1", "g", "1_0", "10000000000000000", "é"] {
        let error = unsigned(&format!("{size}\r\n0123456789\r\n0\r\n\r\n")).unwrap_err();
        assert!(error.starts_with("InvalidChunkSize"), "{size:?} gave {error}");
    }
    let error = unsigned("ffffffffffffffff\r\n0123456789").unwrap_err();
    assert_eq!(error, "IncompleteFraming");
}

#[test]
fn framing_that_is_not_aws_chunked() {
    let long = format!("3;{}\r\nabc\r\n0\r\n\r\n", "x".repeat(CHUNK_HEADER_BYTES_MAX));
    let cases = [
        ("3\nabc\r\n0\r\n\r\n", "InvalidFraming"),
        ("3\r\nabc0\r\n\r\n", "InvalidFraming"),
        ("3\r\nabc\n0\r\n\r\n", "InvalidFraming"),
        ("3\r\nabc\r0\r\n\r\n", "InvalidFraming"),
        ("3\r\nabcd\r\n0\r\n\r\n", "InvalidFraming"),
        (&long, "InvalidFraming"),
        ("\r\n0\r\n\r\n", "InvalidChunkSize"),
        ("hello", "IncompleteFraming"),
        ("", "IncompleteFraming"),
    ];
    for (body, expected) in cases {
        let error = decode_whole(&ChunkSignatures::Absent, true, body.as_bytes()).unwrap_err();
        assert!(error.starts_with(expected), "{body:?} gave {error}");
    }
    for (body, expected) in [
        ("0\r\n\r\nmore", "bytes after the last chunk"),
        ("0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "bytes after the last chunk"),
    ] {
        let error = decode_whole(&ChunkSignatures::Ignored, false, body.as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{body:?} gave {error}");
    }
    for (body, expected) in [
        ("3\r\nabc\r\n", "no chunk-signature"),
        ("3;chunk-signature=a;chunk-signature=a\r\nabc\r\n", "more than one"),
        ("3;chunk-signature=\r\nabc\r\n", "SignatureMismatch"),
        ("0;x=y\r\n\r\n", "no chunk-signature"),
    ] {
        let error = decode_whole(&signed(SEED), false, body.as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{body:?} gave {error}");
    }
}

#[test]
fn trailers() {
    let trailer = |trailer: &str| {
        let body = format!("0\r\n{trailer}");
        decode_whole(&ChunkSignatures::Absent, true, body.as_bytes()).map(|(_, trailers)| trailers)
    };
    assert_eq!(trailer("\r\n"), Ok(Vec::new()));
    // As AWS writes it, as minio-go writes it, with space and capitals.
    for text in ["x-a:1\r\n\r\n", "x-a:1\n\r\n", "x-a:1\n\r\n\r\n", "X-A:  1 \r\n\r\n"] {
        let found = trailer(text).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.as_str(), &found[0].1), ("x-a", &HeaderValue::from_static("1")));
    }
    let long = format!("x-a:{}\r\n\r\n", "1".repeat(TRAILER_BYTES_MAX));
    for (text, expected) in [
        ("x-a 1\r\n\r\n", "no colon"),
        ("x a:1\r\n\r\n", "name"),
        ("x-a:\u{1}\r\n\r\n", "value"),
        ("x-a:1\r\nx-a:1\r\n\r\n", "more than once"),
        ("x-a:1\r\nx-amz-trailer-signature:1\r\n\r\n", "signed"),
        (&long, "too long"),
        ("x-a:1\r\n", "IncompleteFraming"),
        ("x-a:1\n\n", "IncompleteFraming"),
    ] {
        let error = trailer(text).unwrap_err();
        assert!(error.contains(expected), "{text:?} gave {error}");
    }

    let whole = String::from_utf8(sign(&[b"hello"], CRC)).unwrap();
    let signature = whole.find("x-amz-trailer-signature").unwrap();
    for (body, expected) in [
        (format!("{}\r\n", &whole[..signature]), "is missing"),
        (whole.replace("AAAAAA==", "AAAAAQ=="), "SignatureMismatch"),
        (whole.replace("x-amz-checksum-crc32", "x-amz-checksum-crc32c"), "SignatureMismatch"),
        (whole.replace("\r\n\r\n", "\r\nx-b:1\r\n\r\n"), "follows its signature"),
        (
            whole.replace("x-amz-checksum-crc32:", "x-b:1\r\nx-amz-checksum-crc32:"),
            "SignatureMismatch",
        ),
    ] {
        let error = decode_whole(&signed(SEED), true, body.as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{body:?} gave {error}");
    }
}

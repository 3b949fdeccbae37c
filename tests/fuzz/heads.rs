//! The head of a request that says who has signed it.

use std::time::{Duration, SystemTime};

use fencepost::auth::{
    AccessKeyId, BodyChecks, ChecksumHeaders, KeyRing, SecretKey, Verified, verify,
};
use http::Request;

use super::inputs::{any_bytes, text};
use super::support::Generator;
use super::{CASES, hold};

/// The example of the S3 documentation: GET of an object with a range.
const AUTHORIZATION: [&str; 3] = [
    "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
     SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
     Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    "AWS AKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=",
    "AWS4-ECDSA-P256-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/s3/aws4_request",
];

/// The example of a presigned one.
const PRESIGNED: [&str; 2] = [
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1\
     %2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
     &X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
    "AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=x&Expires=1369353600",
];

const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn ring() -> KeyRing {
    let id = AccessKeyId::new("AKIAIOSFODNN7EXAMPLE").unwrap();
    KeyRing::single(id, SecretKey::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY").unwrap())
}

fn then() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600)
}

fn request(authorization: Option<&[u8]>, query: &str) -> Option<Result<Verified, ()>> {
    let mut request =
        Request::get(format!("/test.txt{query}")).header("host", "examplebucket.s3.amazonaws.com");
    if let Some(authorization) = authorization {
        request = request
            .header("range", "bytes=0-9")
            .header("x-amz-content-sha256", NOTHING)
            .header("x-amz-date", "20130524T000000Z")
            .header("authorization", authorization);
    }
    let (parts, ()) = request.body(()).ok()?.into_parts();
    Some(verify(&parts, &ring(), then()).map_err(drop))
}

#[test]
fn a_damaged_authorization_is_an_error_or_says_the_same() {
    let good = request(Some(AUTHORIZATION[0].as_bytes()), "").unwrap();
    assert!(good.is_ok(), "what is damaged is right to begin with");
    hold(
        CASES,
        |random| any_bytes(random, &AUTHORIZATION),
        |authorization| {
            let Some(Ok(verified)) = request(Some(authorization), "") else { return };
            // The key that signs is derived from date, region and service, and what is signed names
            // the headers: only the blanks between the three parts are free.
            let squeezed = |text: &str| text.split_ascii_whitespace().collect::<String>();
            let text = std::str::from_utf8(authorization).unwrap();
            assert_eq!(squeezed(text), squeezed(AUTHORIZATION[0]));
            assert!(verified.access_key_id.is_some());
        },
    );
}

#[test]
fn a_damaged_presigned_query_is_an_error_or_names_the_same_parameters() {
    let good = request(None, &format!("?{}", PRESIGNED[0])).unwrap();
    assert!(good.is_ok(), "what is damaged is right to begin with");
    let parameters = |query: &str| {
        // The signature's own name is not signed, and is known in any case.
        let decode = |pair: &str| {
            let pair: Vec<u8> = percent_encoding::percent_decode_str(pair).collect();
            let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = pair.split_at(end);
            match name.eq_ignore_ascii_case(b"x-amz-signature") {
                true => [&b"X-Amz-Signature"[..], value].concat(),
                false => pair,
            }
        };
        let mut all: Vec<Vec<u8>> =
            query.split('&').filter(|pair| !pair.is_empty()).map(decode).collect();
        all.sort();
        all
    };
    hold(
        CASES,
        |random| text(random, &PRESIGNED),
        |query| {
            let Some(Ok(_)) = request(None, &format!("?{query}")) else { return };
            // A `#` and what follows is no part of a target.
            let sent = query.split('#').next().unwrap();
            assert_eq!(parameters(sent), parameters(PRESIGNED[0]));
        },
    );
}

const PROMISES: [(&str, &str); 8] = [
    ("content-length", "5"),
    ("content-md5", "XUFAKrxLKna5cZ2REBfFkg=="),
    ("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    ("x-amz-decoded-content-length", "5"),
    ("x-amz-trailer", "x-amz-checksum-crc32"),
    ("x-amz-checksum-crc32", "NhCmhg=="),
    ("x-amz-checksum-sha256", "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="),
    ("transfer-encoding", "chunked"),
];

/// Whatever a head says of its body: it is read, or refused, and a length is what was said.
#[test]
fn what_a_head_promises_of_its_body_is_read_or_refused() {
    let values: Vec<&str> = PROMISES.iter().map(|(_, value)| *value).collect();
    let input = |random: &mut Generator| {
        let mut headers = Vec::new();
        for (name, value) in PROMISES {
            match random.below(8) {
                0..4 => {}
                4 => headers.push((name, any_bytes(random, &values))),
                _ => headers.push((name, value.as_bytes().to_vec())),
            }
        }
        headers
    };
    hold(CASES, input, |headers| {
        let mut request = Request::put("/bucket/key").header("host", "h");
        for (name, value) in headers {
            request = request.header(*name, &value[..]);
        }
        let Ok(request) = request.body(()) else { return };
        let (parts, ()) = request.into_parts();
        let Ok(verified) = Verified::unauthenticated(&parts) else { return };
        let checks = BodyChecks::new(&parts, verified.payload, ChecksumHeaders::OfBody);
        if let Some(length) = checks.ok().and_then(|checks| checks.decoded_length()) {
            let said = |name: &str| {
                let value = parts.headers.get(name)?.to_str().ok()?;
                value.parse::<u64>().ok()
            };
            let names = ["content-length", "x-amz-decoded-content-length"];
            assert!(names.iter().any(|name| said(name) == Some(length)) || length == 0);
        }
    });
}

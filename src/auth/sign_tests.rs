//! The signer against aws-sigv4, and against our own verifier where aws-sigv4 cannot sign.

use std::time::Duration;

use aws_sigv4::http_request::SignableBody;
use http::Request;
use sha2::{Digest, Sha256};

use super::super::test_util::{
    AKID, Generator, PIECES, Reference, SECRET, example_day, head, ring,
};
use super::super::verify::{Form, verify};
use super::*;

fn signer(token: Option<&str>) -> Signer {
    let credentials = Credentials::new(AKID, SECRET, token.map(str::to_owned), None, "test");
    Signer::new(credentials, "us-east-1")
}

#[test]
fn signs_as_aws_sigv4_does() {
    let mut generator = Generator(3);
    for _ in 0..300 {
        let key = encode_query(generator.text(&PIECES, 6).as_bytes());
        let path = canonical_path(&format!("/bucket/{key}")).into_owned();
        let target = join(&path, generator.pick(&["", "uploads", "a=1&b=%20%2B", "z=&a=%C3%A9"]));
        let mut headers: Vec<(String, String)> = Vec::new();
        for name in SIGNED_HEADERS.into_iter().chain(["x-amz-meta-a", "x-amz-meta-a", "x-amz-acl"])
        {
            if generator.below(3) == 0 {
                headers.push((name.to_owned(), generator.text(&["a", "  b", ",", "\"c\""], 4)));
            }
        }
        let token = (generator.below(2) == 0).then_some("to/ken+=");
        let presign = generator.below(2) == 0;
        let (payload, body) = match generator.below(3) {
            _ if presign => (PayloadHash::Unsigned, SignableBody::UnsignedPayload),
            0 => (PayloadHash::Empty, SignableBody::Bytes(b"")),
            1 => (
                PayloadHash::Sha256(Sha256::digest(b"hello").into()),
                SignableBody::Bytes(b"hello"),
            ),
            _ => (
                PayloadHash::StreamingUnsignedTrailer,
                SignableBody::StreamingUnsignedPayloadTrailer,
            ),
        };
        let expires = presign.then_some(Duration::from_secs(60));
        let (_, expected) = Reference { token, expires, body }.sign("PUT", &target, &headers);

        let mut request = Request::put(format!("http://host.example:9000{target}"));
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        let form = match presign {
            true => SignatureForm::Query { expires_seconds: 60 },
            false => SignatureForm::Header,
        };
        signer(token).sign(&mut parts, payload, example_day(), form).unwrap();
        let found = match form {
            SignatureForm::Query { .. } => parts.uri.query().unwrap().to_owned(),
            SignatureForm::Header => parts.headers["authorization"].to_str().unwrap().to_owned(),
        };
        assert!(found.ends_with(&format!("Signature={expected}")), "{target} {headers:?} {found}");
    }
}

/// A client's request in every ugly form becomes one that verifies, and nothing of the client's
/// signature is left in it.
#[test]
fn a_forwarded_request_carries_only_the_new_signature() {
    let long = "X-Amz-Algorithm=old&z=%2f+x&X-Amz-Signature=old&X-Amz-Credential=old&b&prefix=%FF";
    let targets = [
        ("http://store.example:9000/b/dt=1/a+b%2fc?", "/b/dt%3D1/a%2Bb/c", ""),
        ("http://store.example/b/k%c3%a9//?", "/b/k%C3%A9//", ""),
        (&format!("http://store.example:80/b/k?{long}"), "/b/k", "z=%2f+x&b&prefix=%FF"),
    ];
    for (target, path, query) in targets {
        for form in [SignatureForm::Header, SignatureForm::Query { expires_seconds: 9 }] {
            let mut parts = head(
                "PUT",
                target,
                &[
                    ("host", "the.proxy:9000"),
                    ("authorization", "AWS4-HMAC-SHA256 old"),
                    ("date", "old"),
                    ("x-amz-date", "old"),
                    ("x-amz-content-sha256", "old"),
                    ("x-amz-security-token", "fence:42"),
                    ("x-amz-meta-a", "kept"),
                    ("accept-encoding", "gzip"),
                ],
            );
            parts.headers.append("x-amz-meta-b", HeaderValue::from_bytes(b"\xe9\xff").unwrap());
            signer(None).sign(&mut parts, PayloadHash::Unsigned, example_day(), form).unwrap();

            assert_eq!(parts.uri.path(), path);
            let shown = format!("{parts:?}");
            assert!(!shown.contains("old") && !shown.contains("fence:42"), "{shown}");
            let kept = parts.uri.query().unwrap_or("");
            assert!(kept.starts_with(query), "{kept}");
            let host =
                if target.contains(":9000") { "store.example:9000" } else { "store.example" };
            assert_eq!(parts.headers["host"], host);

            // As the store sees it: origin form.
            let origin = parts.uri.path_and_query().unwrap().as_str().parse().unwrap();
            parts.uri = origin;
            let verified = verify(&parts, &ring(), example_day()).unwrap();
            assert!(!verified.signed_headers.contains(&header::ACCEPT_ENCODING));
            let expected = match form {
                SignatureForm::Header => Form::Header,
                SignatureForm::Query { .. } => Form::Query,
            };
            assert_eq!(verified.form, expected);
        }
    }
}

#[test]
fn signing_again_replaces_the_signature() {
    let form = SignatureForm::Query { expires_seconds: 5 };
    let mut parts = head("GET", "http://s.example/b/k?x=1", &[]);
    signer(Some("t1")).sign(&mut parts, PayloadHash::Empty, example_day(), form).unwrap();
    let first = parts.clone();
    signer(Some("t1")).sign(&mut parts, PayloadHash::Empty, example_day(), form).unwrap();
    assert_eq!((first.uri, first.headers), (parts.uri.clone(), parts.headers.clone()));
    signer(None)
        .sign(&mut parts, PayloadHash::Empty, example_day(), SignatureForm::Header)
        .unwrap();
    assert_eq!(parts.uri.to_string(), "http://s.example/b/k?x=1");
    assert!(!parts.headers.contains_key("x-amz-security-token"));
}

#[test]
fn what_cannot_be_signed_is_an_error() {
    let sign = |parts: &mut Parts, signer: &Signer, at| {
        signer.sign(parts, PayloadHash::Empty, at, SignatureForm::Header)
    };
    let mut no_host = head("GET", "/b/k", &[]);
    assert_eq!(sign(&mut no_host, &signer(None), example_day()), Err(SignError::NoHost));
    let mut parts = head("GET", "http://s.example/b/k", &[]);
    let token = signer(Some("a\nb"));
    assert_eq!(sign(&mut parts, &token, example_day()), Err(SignError::Credentials));
    let stream = PayloadHash::StreamingUnsignedTrailer;
    let form = SignatureForm::Query { expires_seconds: 1 };
    let result = signer(None).sign(&mut parts, stream, example_day(), form);
    assert_eq!(result, Err(SignError::StreamInQuery));
    let late = example_day() + Duration::from_secs(1 << 40);
    assert_eq!(sign(&mut parts, &signer(None), late), Err(SignError::Time));
}

/// SeaweedFS refuses a presigned request whose canonical form has another payload.
#[test]
fn the_query_form_never_hashes_the_payload() {
    let form = SignatureForm::Query { expires_seconds: 5 };
    let mut signed =
        [PayloadHash::Unsigned, PayloadHash::Empty, PayloadHash::Sha256([7; 32])].map(|payload| {
            let mut parts = head("PUT", "http://s.example/b/k", &[]);
            signer(None).sign(&mut parts, payload, example_day(), form).unwrap();
            assert!(!parts.headers.contains_key("x-amz-content-sha256"));
            parts.uri.to_string()
        });
    signed.sort();
    assert_eq!(signed[0], signed[2]);
}

#[test]
fn nothing_prints_the_secret() {
    let shown = format!("{:?}", signer(Some("session-secret")));
    assert!(!shown.contains(SECRET) && !shown.contains("session-secret"), "{shown}");
}

//! GOOG4-HMAC-SHA256.
//!
//! Google publishes no vectors for HMAC keys. Its conformance tests hold canonical requests and
//! strings to sign for RSA keys (googleapis/conformance-tests, `storage/v1/v4_signatures.json`),
//! which differ in the name of the algorithm alone: those are checked up to the digest. The
//! signatures were computed by an implementation of its own in Python (hashlib, hmac, urllib).

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

use super::super::canonical::{CanonicalRequest, GOOGLE, canonical_query, string_to_sign};
use super::super::test_util::{example_day, head};
use super::*;

const SECRET: &str = "bGoa+V7g/yqDXvKRqq+JTFn4uQZbPiQJo4pf9RzJ";

fn signer() -> Signer {
    Signer::google(Credentials::new("GOOG1EXAMPLEACCESSID", SECRET, None, None, "test"))
}

fn signed(mut parts: Parts, payload: PayloadHash, form: SignatureForm) -> Parts {
    signer().sign(&mut parts, payload, example_day(), form).unwrap();
    parts
}

/// The digests of canonical requests that Google's conformance tests expect.
#[test]
fn canonical_requests_are_googles() {
    const QUERY: &str = "X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Credential=test-iam-credentials%40\
        dummy-project-id.iam.gserviceaccount.com%2F20190201%2Fauto%2Fstorage%2Fgoog4_request&\
        X-Goog-Date=20190201T090000Z&X-Goog-Expires=10&X-Goog-SignedHeaders=";
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
    let rows: [Row<'_>; 5] = [
        (
            "",
            &[
                ("collapsed", "abc    def"),
                ("host", ""),
                ("leading", "    xyz"),
                ("tabs", "\tabc\t\t\t\tdef\t"),
                ("trailing", "abc    "),
            ],
            "19153e83555808dbfeb8969043cc8ce8d5db0cce91dc11fb9df58b8130f09d42",
        ),
        (
            "",
            &[("host", ""), ("multiple", " xyz ,  abc, def  , xyz   ")],
            "4df8e486146c31f1c8cd4e4c730554cde4326791ba48ec11fa969a3de064cd7f",
        ),
        (
            "",
            &[
                ("host", ""),
                ("x-goog-encryption-algorithm", "AES256"),
                ("x-goog-encryption-key", "key"),
                ("x-goog-encryption-key-sha256", "key-hash"),
            ],
            "66a45104eba8bdd9748723b45cbd54c3f0f6dba337a5deb9fb6a66334223dc06",
        ),
        (
            "aA0%C3%A9%2F%3D%25-_.~=~%20._-%25%3D%2F%C3%A90Aa",
            &[("host", "")],
            "448f96c23dafa8210900554e138b2b5fd55bc53ef53b8637cecc3edec45a8fcf",
        ),
        (
            "prefix=%2Ffoo&X-Goog-Meta-Foo=bar",
            &[("host", "")],
            "4dafe74ad142f32b7c25fc4e6b38fd3b8a6339d7f112247573fb0066f637db6c",
        ),
    ];
    for (more, pairs, digest) in rows {
        let mut headers = HeaderMap::new();
        let mut names = Vec::new();
        for (name, value) in pairs {
            let name = HeaderName::try_from(*name).unwrap();
            headers.insert(&name, HeaderValue::from_str(value).unwrap());
            names.push(name);
        }
        let query = format!("{QUERY}{}&{more}", join_names(&names).replace(';', "%3B"));
        let canonical = CanonicalRequest {
            method: "GET",
            path: "/test-bucket/test-object",
            query: &canonical_query(&query, |_| false),
            headers: &headers,
            host: b"storage.googleapis.com",
            signed_headers: &names,
            payload: "UNSIGNED-PAYLOAD",
            collapses_tabs: GOOGLE.collapses_tabs,
        };
        assert_eq!(canonical.digest(), digest, "{pairs:?}");
    }
    let date = AmzDate::parse("20190201T090000Z").unwrap();
    let scope = canonical::scope(&GOOGLE, &date, "auto");
    assert_eq!(
        string_to_sign(&GOOGLE, &date, &scope, "d"),
        "GOOG4-HMAC-SHA256\n20190201T090000Z\n20190201/auto/storage/goog4_request\nd"
    );
}

#[test]
fn the_header_form() {
    let parts = head(
        "PUT",
        "https://storage.googleapis.com/bucket/dir/k%20%C3%A9+",
        &[
            ("content-type", "text/plain"),
            ("x-goog-if-generation-match", "0"),
            ("x-goog-meta-a", "one\t\ttwo  three"),
            ("accept-encoding", "gzip"),
            ("authorization", "old"),
        ],
    );
    let hash = PayloadHash::Sha256(Sha256::digest(b"hello").into());
    let parts = signed(parts, hash, SignatureForm::Header);
    assert_eq!(
        parts.headers["authorization"],
        "GOOG4-HMAC-SHA256 \
         Credential=GOOG1EXAMPLEACCESSID/20130524/auto/storage/goog4_request, \
         SignedHeaders=content-type;host;x-goog-content-sha256;x-goog-date;\
         x-goog-if-generation-match;x-goog-meta-a, \
         Signature=8d87ef21edb9e376f509c3a6faaf43f219d5f937eb0ca901e6c6f51a200a3a72"
    );
    assert!(!parts.headers.keys().any(|name| name.as_str().starts_with("x-amz-")));
}

#[test]
fn the_query_form() {
    let form = SignatureForm::Query { expires_seconds: 60 };
    let parts = head(
        "DELETE",
        "https://storage.googleapis.com/bucket/key",
        &[("x-goog-if-generation-match", "1795961338690851")],
    );
    let parts = signed(parts, PayloadHash::Empty, form);
    assert_eq!(
        parts.uri.query().unwrap(),
        "X-Goog-Algorithm=GOOG4-HMAC-SHA256&X-Goog-Credential=GOOG1EXAMPLEACCESSID%2F20130524%2F\
         auto%2Fstorage%2Fgoog4_request&X-Goog-Date=20130524T000000Z&X-Goog-Expires=60&\
         X-Goog-SignedHeaders=host%3Bx-goog-if-generation-match&\
         X-Goog-Signature=897d41bef8b67ea27b84064dc68728f9995f44bbed11dcf231714d7e71e9e5a7"
    );
    assert!(!parts.headers.contains_key("authorization"));

    let parts = head(
        "POST",
        "https://storage.googleapis.com/bucket/key?uploadId=a%2Fb%3D",
        &[("content-md5", "XUFAKrxLKna5cZ2REBfFkg==")],
    );
    let parts = signed(parts, PayloadHash::Unsigned, form);
    let query = parts.uri.query().unwrap();
    assert!(query.starts_with("uploadId=a%2Fb%3D&X-Goog-Algorithm="), "{query}");
    assert!(
        query.ends_with("=1a985a41ade668886800dbf2b533bb212c3b157b1761f689c0780abf34945624"),
        "{query}"
    );
}

#[test]
fn signing_again_replaces_googles_signature() {
    let form = SignatureForm::Query { expires_seconds: 5 };
    let first = signed(head("GET", "http://s.example/b/k?x=1", &[]), PayloadHash::Empty, form);
    let again = signed(first.clone(), PayloadHash::Empty, form);
    assert_eq!((&first.uri, &first.headers), (&again.uri, &again.headers));
    let header = signed(again, PayloadHash::Empty, SignatureForm::Header);
    assert_eq!(header.uri.to_string(), "http://s.example/b/k?x=1");
}

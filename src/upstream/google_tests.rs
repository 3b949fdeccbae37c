//! Requests in S3's words, and what is said to Google.

use http::Request;

use super::*;

fn parts(method: Method, target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// The headers that go out, in alphabetical order, as `name: value`.
fn said(method: Method, headers: &[(&str, &str)]) -> Result<Vec<String>, Unspeakable> {
    let mut parts = parts(method, "https://s.example/b/k", headers);
    outbound(&mut parts)?;
    let line =
        |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
    let mut lines: Vec<String> = parts.headers.iter().map(line).collect();
    lines.sort();
    Ok(lines)
}

#[test]
fn a_fenced_put_is_said_in_googles_words() {
    let put = said(
        Method::PUT,
        &[
            ("if-match", "\"1795961338690851/5d41402abc4b2a76b9719d911017c592\""),
            ("content-type", "text/plain"),
            ("content-md5", "XUFAKrxLKna5cZ2REBfFkg=="),
            ("cache-control", "no-store"),
            ("x-amz-meta-fencepost-token", "7"),
            ("x-amz-meta-two", "a"),
            ("x-amz-meta-two", "b"),
            ("x-amz-acl", "public-read"),
            ("x-amz-storage-class", "NEARLINE"),
            ("x-amz-server-side-encryption", "AES256"),
            ("x-amz-checksum-crc32c", "mnG7TA=="),
            ("x-amz-checksum-sha256", "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="),
            ("x-amz-sdk-checksum-algorithm", "CRC32C"),
            ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
            ("x-amz-date", "20261130T120000Z"),
            ("x-amz-security-token", "fence:7"),
            ("x-amz-user-agent", "aws-sdk"),
            ("x-amzn-trace-id", "Root=1"),
            ("amz-sdk-request", "attempt=1"),
            ("authorization", "AWS4-HMAC-SHA256 old"),
        ],
    );
    assert_eq!(
        put.unwrap(),
        [
            "cache-control: no-store",
            "content-md5: XUFAKrxLKna5cZ2REBfFkg==",
            "content-type: text/plain",
            "x-goog-acl: public-read",
            "x-goog-hash: crc32c=mnG7TA==",
            "x-goog-if-generation-match: 1795961338690851",
            "x-goog-meta-fencepost-token: 7",
            "x-goog-meta-two: a",
            "x-goog-meta-two: b",
            "x-goog-storage-class: NEARLINE",
        ]
    );
}

#[test]
fn a_precondition_is_a_generation() {
    let absent = said(Method::PUT, &[("if-none-match", "*")]).unwrap();
    assert_eq!(absent, ["x-goog-if-generation-match: 0"]);
    let bare = said(Method::DELETE, &[("if-match", "17/e")]).unwrap();
    assert_eq!(bare, ["x-goog-if-generation-match: 17"]);
    // Google ignores an ETag here, and would write.
    let if_match = Err(Unspeakable::Condition(header::IF_MATCH));
    for etag in ["*", "", "\"\"", "a b"] {
        assert_eq!(said(Method::PUT, &[("if-match", etag)]), if_match, "{etag}");
    }
    for etag in ["\"5d41402abc4b2a76b9719d911017c592\"", "\"0/e\"", "\"x/e\"", "17"] {
        let never = said(Method::PUT, &[("if-match", etag)]).unwrap();
        assert_eq!(never, ["x-goog-if-generation-match: 9223372036854775807"], "{etag}");
    }
    let if_none_match = Err(Unspeakable::Condition(header::IF_NONE_MATCH));
    assert_eq!(said(Method::PUT, &[("if-none-match", "\"e\"")]), if_none_match);
    let both = [("if-match", "\"17/e\""), ("if-none-match", "*")];
    assert_eq!(said(Method::PUT, &both), if_none_match);
    // Where data is read, Google judges ETags.
    let read = said(Method::GET, &[("if-none-match", "\"e\"")]).unwrap();
    assert_eq!(read, ["if-none-match: \"e\""]);
}

#[test]
fn only_what_writes_under_a_condition_must_be_translated() {
    let is = |method, headers: &[(&str, &str)]| {
        is_conditional_write(&parts(method, "https://s.example/b/k", headers))
    };
    assert!(is(Method::PUT, &[("if-none-match", "*")]));
    assert!(is(Method::DELETE, &[("if-match", "\"e\"")]));
    assert!(is(Method::PUT, &[("x-amz-copy-source-if-match", "\"17/e\"")]));
    assert!(!is(Method::PUT, &[("x-amz-copy-source-if-match", "\"e\"")]));
    assert!(!is(Method::PUT, &[("x-amz-meta-a", "b")]));
    assert!(!is(Method::GET, &[("if-none-match", "\"e\"")]));
}

#[test]
fn a_copy_pins_its_source() {
    let copy = said(
        Method::PUT,
        &[
            ("x-amz-copy-source", "/b/a%20b?versionId=12"),
            ("x-amz-copy-source-if-match", "\"12/e\""),
            ("x-amz-copy-source-if-unmodified-since", "Mon, 30 Nov 2026 12:00:00 GMT"),
            ("x-amz-metadata-directive", "REPLACE"),
            ("x-amz-tagging-directive", "COPY"),
            ("x-amz-checksum-crc32c", "mnG7TA=="),
            ("x-amz-server-side-encryption", "aws:kms"),
            ("x-amz-server-side-encryption-aws-kms-key-id", "projects/p/k"),
            ("if-none-match", "*"),
        ],
    );
    assert_eq!(
        copy.unwrap(),
        [
            "x-goog-copy-source-generation: 12",
            "x-goog-copy-source-if-generation-match: 12",
            "x-goog-copy-source-if-unmodified-since: Mon, 30 Nov 2026 12:00:00 GMT",
            "x-goog-copy-source: /b/a%20b",
            "x-goog-encryption-kms-key-name: projects/p/k",
            "x-goog-if-generation-match: 0",
            "x-goog-metadata-directive: REPLACE",
        ]
    );
    let plain = [("x-amz-copy-source", "/b/k"), ("x-amz-copy-source-if-match", "\"e\"")];
    let plain = said(Method::PUT, &plain).unwrap();
    assert_eq!(plain, ["x-goog-copy-source-if-match: \"e\"", "x-goog-copy-source: /b/k"]);
}

#[test]
fn what_google_has_no_words_for_is_refused() {
    for (name, value) in [
        ("x-amz-tagging", "a=b"),
        ("x-amz-tagging-directive", "REPLACE"),
        ("x-amz-object-lock-mode", "GOVERNANCE"),
        ("x-amz-grant-read", "id=1"),
        ("x-amz-website-redirect-location", "/x"),
        ("x-amz-expected-bucket-owner", "1"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption", "aws:kms:dsse"),
        ("x-amz-server-side-encryption-context", "e30="),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-bypass-governance-retention", "true"),
        ("x-amz-unheard-of", "1"),
    ] {
        let expected = Err(Unspeakable::Header(name.parse().unwrap()));
        assert_eq!(said(Method::PUT, &[(name, value)]), expected, "{name}: {value}");
        let headers = parts(Method::PUT, "/b/k", &[(name, value)]).headers;
        assert_eq!(unspeakable(&headers), Some(name));
    }
    assert_eq!(unspeakable(&parts(Method::PUT, "/", &[("x-amz-date", "1")]).headers), None);
}

#[test]
fn versions_are_generations() {
    let target = "https://s.example/b/k?a=%2F&versionId=17&X-Amz-Signature=old";
    let mut head = parts(Method::HEAD, target, &[]);
    outbound(&mut head).unwrap();
    assert_eq!(head.uri, "https://s.example/b/k?a=%2F&generation=17");
}

#[test]
fn an_answer_is_one_of_s3() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("etag", "\"e\""),
        ("x-goog-generation", "17"),
        ("x-goog-meta-a", "one"),
        ("x-goog-meta-a", "two"),
        ("x-goog-storage-class", "NEARLINE"),
        ("x-goog-encryption-kms-key-name", "projects/p/cryptoKeys/k/cryptoKeyVersions/3"),
    ] {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    inbound(&mut headers);
    let values: Vec<_> = headers.get_all("x-amz-meta-a").iter().collect();
    assert_eq!(values, ["one", "two"]);
    assert!(!headers.contains_key("x-goog-meta-a"));
    assert_eq!(headers["x-amz-storage-class"], "NEARLINE");
    assert_eq!(headers["x-goog-generation"], "17");
    assert_eq!(headers[AMZ_KMS_KEY], "projects/p/cryptoKeys/k");
    let mut standard = HeaderMap::new();
    standard.insert("x-goog-storage-class", HeaderValue::from_static("STANDARD"));
    inbound(&mut standard);
    assert!(!standard.contains_key("x-amz-storage-class"));
}

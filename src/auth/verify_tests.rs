//! The S3 documentation's examples, requests signed by aws-sigv4, and every refusal.

use aws_sigv4::http_request::SignableBody;
use http::{HeaderValue, StatusCode};

use super::super::canonical::{canonical_path, encode_query};
use super::super::test_util::{
    AKID, Generator, PIECES, Reference, SECRET, example_day, head, ring,
};
use super::*;

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const EXAMPLE_HOST: (&str, &str) = ("host", "examplebucket.s3.amazonaws.com");

fn authorization(signed: &str, signature: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential={AKID}/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders={signed},Signature={signature}"
    )
}

fn example_get(target: &str, signature: &str) -> Parts {
    let authorization = authorization("host;x-amz-content-sha256;x-amz-date", signature);
    head(
        "GET",
        target,
        &[
            EXAMPLE_HOST,
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-content-sha256", EMPTY),
            ("authorization", &authorization),
        ],
    )
}

fn lifecycle() -> Parts {
    example_get("/?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
}

fn presigned() -> Parts {
    head(
        "GET",
        "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F\
         20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400\
         &X-Amz-SignedHeaders=host&X-Amz-Signature=\
         aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
        &[EXAMPLE_HOST],
    )
}

fn refusal(parts: &Parts) -> AuthError {
    refusal_at(parts, example_day())
}

fn refusal_at(parts: &Parts, now: SystemTime) -> AuthError {
    let error = verify(parts, &ring(), now).unwrap_err();
    let shown = format!("{error} {error:?} {:?}", error.elements());
    assert!(!shown.contains(SECRET), "a secret leaked: {shown}");
    error
}

#[test]
fn aws_example_get_object() {
    let authorization = authorization(
        "host;range;x-amz-content-sha256;x-amz-date",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
    let parts = head(
        "GET",
        "/test.txt",
        &[
            EXAMPLE_HOST,
            ("range", "bytes=0-9"),
            ("x-amz-date", "20130524T000000Z"),
            ("x-amz-content-sha256", EMPTY),
            ("authorization", &authorization),
        ],
    );
    let verified = verify(&parts, &ring(), example_day()).unwrap();
    assert_eq!(verified.access_key_id.unwrap().as_str(), AKID);
    assert_eq!(verified.form, Form::Header);
    assert!(verified.signed_headers.contains(&header::RANGE));
    assert!(!verified.signed_headers.contains(&header::IF_MATCH));
    assert!(matches!(verified.payload, Payload::Sha256(hash) if hash[0] == 0xe3));
}

/// The documentation sends `$` as it is and signs `%24`: the canonical form of the path.
#[test]
fn aws_example_put_object_signs_the_encoded_path() {
    let authorization = authorization(
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
    for target in ["/test$file.text", "/test%24file.text"] {
        let parts = head(
            "PUT",
            target,
            &[
                EXAMPLE_HOST,
                ("date", "Fri, 24 May 2013 00:00:00 GMT"),
                ("x-amz-date", "20130524T000000Z"),
                ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                (
                    "x-amz-content-sha256",
                    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
                ),
                ("authorization", &authorization),
            ],
        );
        verify(&parts, &ring(), example_day()).unwrap();
    }
}

#[test]
fn aws_examples_of_queries() {
    verify(&lifecycle(), &ring(), example_day()).unwrap();
    let list = example_get(
        "/?max-keys=2&prefix=J",
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    );
    verify(&list, &ring(), example_day()).unwrap();
}

#[test]
fn aws_example_presigned() {
    let verified = verify(&presigned(), &ring(), example_day()).unwrap();
    assert_eq!(verified.form, Form::Query);
    assert!(matches!(verified.payload, Payload::Unsigned));
    assert_eq!(verified.session_token, None);
}

/// A random request that aws-sigv4 has signed; every 4th presigned.
fn signed_by_the_sdk(generator: &mut Generator) -> Parts {
    let method = generator.pick(&["GET", "PUT", "DELETE", "POST", "HEAD"]);
    let key = generator.text(&PIECES, 8);
    let path = canonical_path(&format!("/bucket/{}", encode_query(key.as_bytes()))).into_owned();
    let parameters: Vec<String> = (0..generator.below(4))
        .map(|_| {
            let name = encode_query(generator.text(&PIECES, 3).as_bytes());
            let value = encode_query(generator.text(&PIECES, 4).as_bytes());
            format!("q{name}={value}")
        })
        .collect();
    let query = if parameters.is_empty() { String::new() } else { "?".to_owned() };
    let target = format!("{path}{query}{}", parameters.join("&"));
    let values = ["a", "B", " ", "  ", ",", ";", "=", "\"", "x  y"];
    let mut headers: Vec<(String, String)> = Vec::new();
    for name in ["x-amz-meta-a", "x-amz-meta-a", "x-amz-acl", "content-type", "range", "x-other"] {
        if generator.below(2) == 0 {
            headers.push((name.to_owned(), generator.text(&values, 5)));
        }
    }
    let presign = generator.below(4) == 0;
    let reference = Reference {
        token: (generator.below(3) == 0).then_some("fence:42"),
        expires: presign.then_some(Duration::from_secs(60)),
        body: match generator.below(3) {
            _ if presign => SignableBody::UnsignedPayload,
            0 => SignableBody::Bytes(b"hello"),
            1 => SignableBody::UnsignedPayload,
            _ => SignableBody::StreamingUnsignedPayloadTrailer,
        },
    };
    reference.sign(method, &target, &headers).0
}

#[test]
fn what_the_sdk_signs_is_verified() {
    let mut generator = Generator(1);
    for i in 0..500 {
        let parts = signed_by_the_sdk(&mut generator);
        if let Err(error) = verify(&parts, &ring(), example_day()) {
            panic!("request {i} was refused: {error:?}\n{parts:?}");
        }
    }
}

/// Whatever is altered in what a signature covers, the request is refused.
#[test]
fn a_request_altered_after_signing_is_refused() {
    let mut generator = Generator(2);
    for i in 0..500 {
        let mut parts = signed_by_the_sdk(&mut generator);
        let before = parts.clone();
        let uri = parts.uri.to_string();
        match generator.below(7) {
            0 => parts.method = http::Method::PATCH,
            1 => parts.uri = uri.replacen("/bucket/", "/bucket/x", 1).parse().unwrap(),
            2 => {
                let separator = if uri.contains('?') { '&' } else { '?' };
                parts.uri = format!("{uri}{separator}versionId=1").parse().unwrap();
            }
            3 => {
                parts.headers.insert(header::HOST, HeaderValue::from_static("other.example"));
            }
            4 => {
                parts.headers.append("x-amz-meta-a", HeaderValue::from_static("more"));
            }
            5 => {
                parts.headers.insert("x-amz-copy-source", HeaderValue::from_static("/b/k"));
            }
            _ => {
                parts.headers.remove(header::HOST);
            }
        }
        assert!(
            verify(&parts, &ring(), example_day()).is_err(),
            "request {i} was altered and accepted:\n{before:?}\n{parts:?}"
        );
    }
}

/// Clients that send one spelling of the path and sign the other.
#[test]
fn a_path_sent_unencoded_and_signed_encoded_is_verified() {
    let reference = Reference { token: None, expires: None, body: SignableBody::Bytes(b"") };
    for (sent, signed) in [
        ("/b/dt=1/a+b", "/b/dt%3D1/a%2Bb"),
        ("/b/é", "/b/%C3%A9"),
        ("/b/%c3%a9", "/b/%C3%A9"),
        ("/b/a%2Fb", "/b/a/b"),
        // Taken raw: what was sent was signed.
        ("/b/dt=1", "/b/dt=1"),
        ("/b/%c3%a9", "/b/%c3%a9"),
    ] {
        let (mut parts, _) = reference.sign("GET", signed, &[]);
        parts.uri = sent.parse().unwrap();
        verify(&parts, &ring(), example_day()).unwrap_or_else(|e| panic!("{sent}: {e:?}"));
    }
    // The other way round there is no form that fits: `%24` names the bytes, `$` was signed.
    let (mut parts, _) = reference.sign("GET", "/b/a$", &[]);
    parts.uri = "/b/a%24".parse().unwrap();
    assert!(matches!(refusal(&parts), AuthError::SignatureMismatch { .. }));
    // And never one that is another key.
    let (mut parts, _) = reference.sign("GET", "/b/a%252Fb", &[]);
    parts.uri = "/b/a%2Fb".parse().unwrap();
    assert!(matches!(refusal(&parts), AuthError::SignatureMismatch { .. }));
}

#[test]
fn a_signed_header_that_is_absent_counts_as_empty() {
    let reference = Reference { token: None, expires: None, body: SignableBody::Bytes(b"") };
    let headers = [("x-lost".to_owned(), String::new())];
    let (mut parts, _) = reference.sign("GET", "/b/k", &headers);
    parts.headers.remove("x-lost").unwrap();
    verify(&parts, &ring(), example_day()).unwrap();
}

#[test]
fn authority_stands_in_for_host() {
    let mut parts = lifecycle();
    parts.headers.remove(header::HOST);
    parts.uri = "http://examplebucket.s3.amazonaws.com/?lifecycle".parse().unwrap();
    verify(&parts, &ring(), example_day()).unwrap();
    parts.headers.insert(header::HOST, HeaderValue::from_static("other"));
    assert_eq!(refusal(&parts).code(), "InvalidRequest");
}

#[test]
fn a_date_header_stands_in_for_x_amz_date() {
    let parts = head(
        "GET",
        "/",
        &[
            EXAMPLE_HOST,
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-content-sha256", EMPTY),
            ("authorization", &authorization("date;host;x-amz-content-sha256", &"0".repeat(64))),
        ],
    );
    // The signature is wrong, but the string to sign carries the date in SigV4's spelling.
    let error = refusal(&parts);
    let AuthError::SignatureMismatch { string_to_sign, .. } = &error else { panic!("{error:?}") };
    assert!(string_to_sign.contains("\n20130524T000000Z\n"), "{string_to_sign}");
}

#[test]
fn content_sha256_may_be_unsigned_and_nothing_else() {
    let mut parts = lifecycle();
    parts.headers.insert("x-amz-acl", HeaderValue::from_static("public-read"));
    parts.headers.insert("x-amz-meta-a", HeaderValue::from_static("1"));
    let error = refusal(&parts);
    assert_eq!((error.status(), error.code()), (StatusCode::FORBIDDEN, "AccessDenied"));
    let [("HeadersNotSigned", names)] = &error.elements()[..] else { panic!("{error:?}") };
    assert!(names.contains("x-amz-acl") && names.contains("x-amz-meta-a"), "{names}");

    // Unsigned in the list, bound by the last line: passes the rule, and an altered value fails.
    let value = authorization("host;x-amz-date", &"0".repeat(64));
    let mut parts = lifecycle();
    parts.headers.insert("authorization", value.parse().unwrap());
    assert!(matches!(refusal(&parts), AuthError::SignatureMismatch { .. }));

    let value = authorization("x-amz-content-sha256;x-amz-date", &"0".repeat(64));
    parts.headers.insert("authorization", value.parse().unwrap());
    assert_eq!(refusal(&parts), AuthError::HeadersNotSigned(vec![header::HOST]));

    // In a presigned request just the same: a holder of the URL cannot add a copy source.
    let mut parts = presigned();
    parts.headers.insert("x-amz-copy-source", HeaderValue::from_static("/b/k"));
    assert_eq!(refusal(&parts).code(), "AccessDenied");
}

#[test]
fn the_header_form_is_good_for_fifteen_minutes_either_way() {
    for seconds in [0, 899, 900] {
        let off = Duration::from_secs(seconds);
        verify(&lifecycle(), &ring(), example_day() + off).unwrap();
        verify(&lifecycle(), &ring(), example_day() - off).unwrap();
    }
    let off = Duration::from_secs(901);
    for now in [example_day() + off, example_day() - off] {
        let error = refusal_at(&lifecycle(), now);
        assert_eq!((error.status().as_u16(), error.code()), (403, "RequestTimeTooSkewed"));
        assert_eq!(error.elements()[0], ("RequestTime", "2013-05-24T00:00:00Z".to_owned()));
        assert_eq!(error.elements()[2], ("MaxAllowedSkewMilliseconds", "900000".to_owned()));
    }
}

#[test]
fn a_presigned_request_is_good_until_it_expires() {
    let day = Duration::from_secs(86_400);
    verify(&presigned(), &ring(), example_day() + day).unwrap();
    verify(&presigned(), &ring(), example_day() - SKEW_MAX).unwrap();
    let error = refusal_at(&presigned(), example_day() + day + Duration::from_secs(1));
    assert_eq!((error.code(), error.to_string().as_str()), ("AccessDenied", "Request has expired"));
    let error = refusal_at(&presigned(), example_day() - SKEW_MAX - Duration::from_secs(1));
    assert!(matches!(error, AuthError::NotYetValid { .. }));
}

#[test]
fn refusals_of_the_header_form() {
    let good = lifecycle().headers["authorization"].to_str().unwrap().to_owned();
    let cases = [
        ("", "InvalidArgument", 400),
        ("Bearer abc", "InvalidArgument", 400),
        ("AWS AKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=", "InvalidRequest", 400),
        ("AWS4-ECDSA-P256-SHA256 Credential=x", "NotImplemented", 501),
        ("AWS4-HMAC-SHA256", "AuthorizationHeaderMalformed", 400),
        (&good.replace("SignedHeaders=", "Signed="), "AuthorizationHeaderMalformed", 400),
        (&format!("{good},Signature=00"), "AuthorizationHeaderMalformed", 400),
        (&good.replace("20130524/", "20130525/"), "AuthorizationHeaderMalformed", 400),
        (&good.replace("/s3/", "/ec2/"), "AuthorizationHeaderMalformed", 400),
        (&good.replace("us-east-1", ""), "AuthorizationHeaderMalformed", 400),
        (&good.replace("aws4_request", "aws5_request"), "AuthorizationHeaderMalformed", 400),
        (&good.replace("/us-east-1/s3", ""), "AuthorizationHeaderMalformed", 400),
        (&good.replace("=host;", "=Host;"), "AuthorizationHeaderMalformed", 400),
        (&good.replace("=host;", "=x-z;host;"), "AuthorizationHeaderMalformed", 400),
        (&good.replace("=host;", "=host;host;"), "AuthorizationHeaderMalformed", 400),
        (&good.replace("=host;", "=;host;"), "AuthorizationHeaderMalformed", 400),
        (&good.replace(AKID, "AKIDUNKNOWN"), "InvalidAccessKeyId", 403),
        (&good.replace("us-east-1", "eu-west-1"), "SignatureDoesNotMatch", 403),
        (&good.replace("Signature=f", "Signature=F"), "SignatureDoesNotMatch", 403),
        (&good.replace("Signature=f", "Signature="), "SignatureDoesNotMatch", 403),
        (&good.replace("Signature=f", "Signature=e"), "SignatureDoesNotMatch", 403),
    ];
    for (value, code, status) in cases {
        let mut parts = lifecycle();
        parts.headers.insert("authorization", value.parse().unwrap());
        let error = refusal(&parts);
        assert_eq!((error.code(), error.status().as_u16()), (code, status), "for {value}");
    }
}

#[test]
fn refusals_of_the_query_form() {
    let good = presigned().uri.to_string();
    let malformed = "AuthorizationQueryParametersError";
    let cases = [
        (good.replace("X-Amz-Expires=86400", "X-Amz-Expires=0"), malformed),
        (good.replace("X-Amz-Expires=86400", "X-Amz-Expires=604801"), malformed),
        (good.replace("X-Amz-Expires=86400", "X-Amz-Expires=%2B1"), malformed),
        (good.replace("X-Amz-Expires=86400", "Expires=86400"), malformed),
        (good.replace("X-Amz-Date=20130524T000000Z", "X-Amz-Date=20130524"), malformed),
        (good.replace("X-Amz-Algorithm=AWS4-HMAC-SHA256&", ""), malformed),
        (good.replace("HMAC-SHA256", "HMAC-SHA1"), malformed),
        (good.replace("HMAC-SHA256", "ECDSA-P256-SHA256"), "NotImplemented"),
        (good.replace("&X-Amz-SignedHeaders=host", ""), malformed),
        (format!("{good}&X-Amz-Signature=00"), malformed),
        (format!("{good}&x-amz-signature=00"), malformed),
        (format!("{good}&X%2DAmz-Date=20130524T000000Z"), malformed),
        (good.replace("%2Fs3%2F", "%2Fec2%2F"), malformed),
        (good.replace("86400", "86399"), "SignatureDoesNotMatch"),
        (format!("{good}&x=1"), "SignatureDoesNotMatch"),
        (format!("{good}&x=%zz"), "InvalidURI"),
        (good.replace("/test.txt", "/test%.txt"), "InvalidURI"),
        ("/b/k?AWSAccessKeyId=A&Signature=b&Expires=1".to_owned(), "InvalidRequest"),
        ("/b/k?X-Amz-Date=20130524T000000Z".to_owned(), "AccessDenied"),
    ];
    for (target, code) in cases {
        let mut parts = presigned();
        parts.uri = target.parse().unwrap();
        assert_eq!(refusal(&parts).code(), code, "for {target}");
    }
}

#[test]
fn signature_version_2_is_told_what_to_set() {
    let query = head("GET", "/b/k?AWSAccessKeyId=A&Signature=b&Expires=1", &[EXAMPLE_HOST]);
    let signed = ("authorization", "AWS AKIAIOSFODNN7EXAMPLE:frJIUN8DYpKDtOLCwo//yllqDzg=");
    for parts in [query, head("GET", "/b/k", &[EXAMPLE_HOST, signed])] {
        let text = refusal(&parts).to_string();
        for setting in ["signature_version='s3v4'", "signature_version s3v4", "signature_v2 ="] {
            assert!(text.contains(setting), "{text}");
        }
    }
}

#[test]
fn refusals_of_whole_requests() {
    assert_eq!(refusal(&head("GET", "/", &[EXAMPLE_HOST])), AuthError::Anonymous);

    let mut both = lifecycle();
    both.uri = "/?lifecycle&X-Amz-Signature=00".parse().unwrap();
    assert_eq!(refusal(&both), AuthError::TwoMechanisms);
    both.uri = "/?lifecycle&AWSAccessKeyId=A&Signature=b".parse().unwrap();
    assert_eq!(refusal(&both), AuthError::TwoMechanisms);

    for name in ["x-amz-date", "x-amz-content-sha256", "host", "authorization", "x-amz-acl"] {
        let mut parts = lifecycle();
        parts.headers.append(name, HeaderValue::from_static("1"));
        parts.headers.append(name, HeaderValue::from_static("1"));
        assert!(matches!(refusal(&parts), AuthError::RepeatedHeader(n) if n == name), "{name}");
    }

    let mut parts = lifecycle();
    parts.headers.remove("x-amz-content-sha256");
    assert_eq!(refusal(&parts), AuthError::MissingContentSha256);
    parts.headers.insert("x-amz-content-sha256", HeaderValue::from_static("abc"));
    assert_eq!(refusal(&parts), AuthError::InvalidContentSha256);
    let ecdsa = "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD";
    parts.headers.insert("x-amz-content-sha256", HeaderValue::from_static(ecdsa));
    assert_eq!(refusal(&parts), AuthError::PayloadV4a);

    let mut parts = lifecycle();
    parts.headers.insert("x-amz-date", HeaderValue::from_static("yesterday"));
    assert_eq!(refusal(&parts), AuthError::InvalidDate);
    parts.headers.remove("x-amz-date");
    assert_eq!(refusal(&parts), AuthError::InvalidDate);

    let mut parts = lifecycle();
    parts.headers.remove(header::HOST);
    assert_eq!(refusal(&parts), AuthError::MissingHost);
}

#[test]
fn a_session_token_is_found_in_either_place_and_printed_in_none() {
    for expires in [None, Some(Duration::from_secs(60))] {
        let body = SignableBody::UnsignedPayload;
        let reference = Reference { token: Some("fence:42"), expires, body };
        let (mut parts, _) = reference.sign("PUT", "/b/k", &[]);
        let verified = verify(&parts, &ring(), example_day()).unwrap();
        assert_eq!(verified.session_token.as_ref().unwrap().as_str(), "fence:42");
        assert!(!format!("{verified:?}").contains("fence:42"));
        parts.method = http::Method::GET;
        let error = refusal(&parts);
        assert!(!format!("{error:?} {:?}", error.elements()).contains("fence:42"));
    }
}

#[test]
fn without_authentication_a_request_is_taken_as_it_is() {
    let verified = Verified::unauthenticated(&head("GET", "/b/k", &[EXAMPLE_HOST])).unwrap();
    assert_eq!((verified.form, verified.access_key_id), (Form::None, None));
    assert!(matches!(verified.payload, Payload::Unsigned));
    assert!(!verified.signed_headers.contains(&header::HOST));

    let mut parts = lifecycle();
    parts.headers.insert("x-amz-security-token", HeaderValue::from_static("fence:7"));
    let verified = Verified::unauthenticated(&parts).unwrap();
    assert!(matches!(verified.payload, Payload::Sha256(_)));
    assert_eq!(verified.session_token.unwrap().as_str(), "fence:7");

    parts.headers.append("x-amz-security-token", HeaderValue::from_static("fence:8"));
    assert_eq!(Verified::unauthenticated(&parts).unwrap_err().code(), "InvalidRequest");
}

#[test]
fn a_form_is_not_signed_by_its_head() {
    let fine = head("POST", "/b?x-id=PostObject", &[("host", "h")]);
    assert_eq!(Verified::head_of_form(&fine).unwrap().form, Form::Policy);
    for (target, headers) in [
        ("/b", [("host", "h"), ("authorization", "AWS4-HMAC-SHA256 Credential=a")]),
        ("/b?X-Amz-Signature=0", [("host", "h"), ("x-other", "1")]),
        ("/b?x-amz-credential=a", [("host", "h"), ("x-other", "1")]),
    ] {
        let error = Verified::head_of_form(&head("POST", target, &headers)).unwrap_err();
        assert_eq!((error.status().as_u16(), error.code()), (400, "InvalidArgument"), "{target}");
    }
}

//! Policies of forms: the example of the S3 documentation, and what is left of it when somebody
//! changes something.

use std::time::Duration;

use super::super::test_util::{AKID, Generator, SECRET, ring};
use super::*;

/// The policy of "Example: Browser-based upload using HTTP POST" in the S3 API reference.
const EXAMPLE: &str = concat!(
    "{ \"expiration\": \"2015-12-30T12:00:00.000Z\",\r\n",
    "  \"conditions\": [\r\n",
    "    {\"bucket\": \"sigv4examplebucket\"},\r\n",
    "    [\"starts-with\", \"$key\", \"user/user1/\"],\r\n",
    "    {\"acl\": \"public-read\"},\r\n",
    "    {\"success_action_redirect\": ",
    "\"http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html\"},\r\n",
    "    [\"starts-with\", \"$Content-Type\", \"image/\"],\r\n",
    "    {\"x-amz-meta-uuid\": \"14365123651274\"},\r\n",
    "    {\"x-amz-server-side-encryption\": \"AES256\"},\r\n",
    "    [\"starts-with\", \"$x-amz-meta-tag\", \"\"],\r\n\r\n",
    "    {\"x-amz-credential\": \"AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request\"},\r\n",
    "    {\"x-amz-algorithm\": \"AWS4-HMAC-SHA256\"},\r\n",
    "    {\"x-amz-date\": \"20151229T000000Z\" }\r\n",
    "  ]\r\n}",
);

/// Its signature there, which nothing of ours has computed.
const EXAMPLE_SIGNATURE: &str = "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e";

const BUCKET: &str = "sigv4examplebucket";

/// 2015-12-29T00:00:00Z.
fn day() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_451_347_200)
}

const SIGNATURE_FIELDS: [(&str, &str); 3] = [
    ("x-amz-credential", "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"),
    ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
    ("X-Amz-Date", "20151229T000000Z"),
];

fn sign(policy_base64: &str) -> String {
    calculate_signature(
        generate_signing_key(SECRET, day(), "us-east-1", "s3"),
        policy_base64.as_bytes(),
    )
}

fn to_form(fields: &[(&str, &str)]) -> PostForm {
    let mut form = PostForm::default();
    for (name, value) in fields {
        form.add(name, (*value).to_owned()).unwrap();
    }
    form
}

/// A form with these fields, under a policy that is signed.
fn signed(policy: &str, fields: &[(&str, &str)]) -> PostForm {
    let policy = STANDARD.encode(policy);
    let signature = sign(&policy);
    let mut all = SIGNATURE_FIELDS.to_vec();
    all.extend([("policy", &*policy), ("x-amz-signature", &*signature)]);
    all.extend(fields);
    to_form(&all)
}

/// A form with these fields, under these conditions and those that every policy has to have.
fn under(conditions: &str, fields: &[(&str, &str)]) -> PostForm {
    let mut all = format!("{{\"bucket\": \"{BUCKET}\"}}");
    for (name, value) in SIGNATURE_FIELDS {
        all.push_str(&format!(", {{\"{name}\": \"{value}\"}}"));
    }
    if !conditions.is_empty() {
        all.push_str(&format!(", {conditions}"));
    }
    let policy = format!("{{\"expiration\": \"2015-12-30T12:00:00Z\", \"conditions\": [{all}]}}");
    signed(&policy, fields)
}

fn verify(form: &PostForm) -> Result<VerifiedPost, PostPolicyError> {
    verify_post(form, BUCKET, &ring(), day())
}

fn code(form: &PostForm) -> (u16, &'static str) {
    verify(form).map_or_else(|error| (error.status().as_u16(), error.code()), |_| (200, ""))
}

const DENIED: (u16, &str) = (403, "AccessDenied");
const FINE: (u16, &str) = (200, "");

const EXAMPLE_FIELDS: [(&str, &str); 6] = [
    ("key", "user/user1/sunset.jpg"),
    ("acl", "public-read"),
    (
        "success_action_redirect",
        "http://sigv4examplebucket.s3.amazonaws.com/successful_upload.html",
    ),
    ("Content-Type", "image/jpeg"),
    ("x-amz-meta-uuid", "14365123651274"),
    ("x-amz-server-side-encryption", "AES256"),
];

#[test]
fn the_documentations_example() {
    let form = signed(EXAMPLE, &EXAMPLE_FIELDS);
    assert_eq!(form.get("x-amz-signature"), Some(EXAMPLE_SIGNATURE));
    let verified = verify(&form).unwrap();
    assert_eq!(verified.access_key_id.as_str(), AKID);
    assert_eq!(verified.file_bytes, 0..=u64::MAX);
}

#[test]
fn whatever_is_changed_is_refused() {
    let form = signed(EXAMPLE, &EXAMPLE_FIELDS);
    let fields: Vec<(String, String)> =
        form.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let rebuilt = |fields: &[(String, String)]| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (&**n, &**v)).collect();
        to_form(&fields)
    };
    assert_eq!(code(&rebuilt(&fields)), FINE);
    let mut generator = Generator(1);
    // What a policy leaves open may change: what comes after the prefixes.
    let free = [("key", "user/user1/".len()), ("content-type", "image/".len())];
    for _ in 0..2000 {
        let mut changed = fields.clone();
        let (name, value) = &mut changed[generator.below(fields.len())];
        let fixed = free.iter().find(|(free, _)| free == name).map_or(value.len(), |(_, n)| *n);
        let at = generator.below(fixed);
        let mut bytes = value.clone().into_bytes();
        let was = bytes[at];
        bytes[at] = u8::try_from(32 + generator.below(95)).unwrap();
        if bytes[at] == was {
            continue;
        }
        *value = String::from_utf8(bytes).unwrap();
        let (name, value) = (name.clone(), value.clone());
        assert_ne!(code(&rebuilt(&changed)), FINE, "{name}={value}");
    }
    for at in 0..fields.len() {
        let mut without = fields.clone();
        let (name, _) = without.remove(at);
        assert_ne!(code(&rebuilt(&without)), FINE, "without {name}");
    }
    let mut with = fields;
    with.push(("x-amz-meta-other".into(), "1".into()));
    assert_eq!(code(&rebuilt(&with)), DENIED);
}

#[test]
fn a_policy_ends() {
    let form = signed(EXAMPLE, &EXAMPLE_FIELDS);
    let at = |seconds| verify_post(&form, BUCKET, &ring(), day() + Duration::from_secs(seconds));
    let end = 36 * 3600;
    assert!(at(end - 1).is_ok());
    assert_eq!(at(end).unwrap_err(), PostPolicyError::Expired);
    let early = verify_post(&form, BUCKET, &ring(), day() - Duration::from_secs(901));
    assert_eq!(early.unwrap_err().code(), "AccessDenied");
    assert!(verify_post(&form, BUCKET, &ring(), day() - Duration::from_secs(900)).is_ok());
}

#[test]
fn every_field_needs_a_condition_and_so_does_the_bucket() {
    let key = "{\"key\": \"k\"}";
    assert_eq!(code(&under(key, &[("key", "k")])), FINE);
    assert_eq!(code(&under("", &[("key", "k")])), DENIED);
    let fenced = [("key", "k"), ("x-fence-token", "7")];
    assert_eq!(code(&under(key, &fenced)), DENIED);
    assert_eq!(code(&under(&format!("{key}, {{\"X-Fence-Token\": \"7\"}}"), &fenced)), FINE);
    assert_eq!(code(&under(&format!("{key}, {{\"x-fence-token\": \"8\"}}"), &fenced)), DENIED);
    let session = [("key", "k"), ("x-amz-security-token", "fence:7")];
    assert_eq!(code(&under(key, &session)), DENIED);
    assert_eq!(code(&under(key, &[("key", "k"), ("X-Ignore-Me", "1")])), FINE);
    assert_eq!(code(&under(key, &[("key", "k"), ("bucket", "other")])), FINE, "it is no field");
    let other = verify_post(&under(key, &[("key", "k")]), "other", &ring(), day());
    assert!(matches!(other, Err(PostPolicyError::Condition(_))), "{other:?}");
    let no_bucket =
        format!("{{\"expiration\": \"2015-12-30T12:00:00Z\", \"conditions\": [{key}]}}");
    let no_bucket = verify(&signed(&no_bucket, &[("key", "k")])).unwrap_err();
    assert_eq!(no_bucket, PostPolicyError::ExtraField("bucket".into()));
}

#[test]
fn conditions_are_read_in_every_spelling() {
    for (condition, holds, fails) in [
        ("{\"KeY\": \"a\"}", "a", "ab"),
        ("[\"eq\", \"$key\", \"a\"]", "a", "A"),
        ("[\"Eq\", \"$KEY\", \"\"]", "", "a"),
        ("[\"starts-with\", \"$key\", \"a/\"]", "a/b", "b/a/"),
        ("[\"StArTs-WiTh\", \"$KeY\", \"\"]", "anything", ""),
        ("{\"key\": \"\\u0061\\\\$\\\"\"}", "a\\$\"", "a$\""),
    ] {
        assert_eq!(code(&under(condition, &[("kEy", holds)])), FINE, "{condition}");
        if !fails.is_empty() {
            assert_eq!(code(&under(condition, &[("kEy", fails)])), DENIED, "{condition}");
        }
    }
    let image = "[\"starts-with\", \"$Content-Type\", \"image/\"]";
    assert_eq!(code(&under(image, &[("content-type", "image/a, image/b")])), FINE);
    assert_eq!(code(&under(image, &[("content-type", "image/a,text/html")])), DENIED);
    assert_eq!(code(&under(image, &[])), DENIED, "a field that is not there is empty");
    assert_eq!(code(&under("[\"starts-with\", \"$x-amz-meta-a\", \"\"]", &[])), FINE);
    // All of them have to hold.
    let both = "[\"starts-with\", \"$key\", \"a\"], {\"key\": \"ab\"}";
    assert_eq!(code(&under(both, &[("key", "ab")])), FINE);
    assert_eq!(code(&under(both, &[("key", "ac")])), DENIED);
}

#[test]
fn the_file_may_have_what_every_range_allows() {
    let range = |conditions: &str| verify(&under(conditions, &[])).map(|post| post.file_bytes);
    assert_eq!(range("[\"content-length-range\", 1, 10]"), Ok(1..=10));
    assert_eq!(range("[\"Content-Length-Range\", \"1\", \"10\"]"), Ok(1..=10));
    let two = "[\"content-length-range\", 5, 10], [\"content-length-range\", 1, 7]";
    assert_eq!(range(two), Ok(5..=7));
    for bad in ["1", "-1, 1", "1, 1.5", "\"a\", 1", "null, 1", "1, 2, 3", "1, 18446744073709551616"]
    {
        let error = range(&format!("[\"content-length-range\", {bad}]")).unwrap_err();
        assert_eq!(error.code(), "InvalidPolicyDocument", "{bad}");
    }
}

#[test]
fn what_is_no_policy_is_refused() {
    let expiration = "\"expiration\": \"2015-12-30T12:00:00Z\"";
    for policy in [
        "null",
        "[]",
        "{",
        &format!("{{{expiration}}}"),
        "{\"conditions\": []}",
        "{\"expiration\": \"tomorrow\", \"conditions\": []}",
        "{\"expiration\": \"2015-12-30T12:00:00+02:00\", \"conditions\": []}",
        "{\"expiration\": 1451476800, \"conditions\": []}",
        "{\"EXPIRATION\": \"2015-12-30T12:00:00Z\", \"conditions\": []}",
        &format!("{{{expiration}, \"CONDITIONS\": []}}"),
        &format!("{{{expiration}, \"conditions\": {{}}}}"),
        &format!("{{{expiration}, \"conditions\": [], \"more\": 1}}"),
        &format!("{{{expiration}, {expiration}, \"conditions\": []}}"),
        &format!("{{{expiration}, \"conditions\": [\"key\"]}}"),
        &format!("{{{expiration}, \"conditions\": [{{}}]}}"),
        &format!("{{{expiration}, \"conditions\": [[]]}}"),
        &format!("{{{expiration}, \"conditions\": [{{\"a\": 1}}]}}"),
        &format!("{{{expiration}, \"conditions\": [{{\"a\": \"1\", \"b\": \"2\"}}]}}"),
        &format!("{{{expiration}, \"conditions\": [[\"eq\", \"key\", \"a\"]]}}"),
        &format!("{{{expiration}, \"conditions\": [[\"eq\", \"$key\", 1]]}}"),
        &format!("{{{expiration}, \"conditions\": [[\"eq\", \"$key\"]]}}"),
        &format!("{{{expiration}, \"conditions\": [[\"ends-with\", \"$key\", \"a\"]]}}"),
    ] {
        assert_eq!(code(&signed(policy, &[])), (400, "InvalidPolicyDocument"), "{policy}");
    }
    let not_base64 = "not base64";
    let mut form = SIGNATURE_FIELDS.to_vec();
    let signature = sign(not_base64);
    form.extend([("policy", not_base64), ("x-amz-signature", &*signature)]);
    assert_eq!(code(&to_form(&form)), (400, "InvalidPolicyDocument"));
}

#[test]
fn base64_in_lines_is_signed_as_it_was_sent() {
    let policy = STANDARD.encode(EXAMPLE);
    let lines = format!("{}\r\n{}\n", &policy[..76], &policy[76..]);
    let signature = sign(&lines);
    let mut fields = [&SIGNATURE_FIELDS[..], &EXAMPLE_FIELDS[..]].concat();
    fields.extend([("policy", &*lines), ("x-amz-signature", &*signature)]);
    assert_eq!(code(&to_form(&fields)), FINE);
}

#[test]
fn a_form_without_the_right_signature_is_refused() {
    let key = [("key", "k")];
    assert_eq!(code(&to_form(&key)), DENIED);
    assert_eq!(code(&to_form(&[("key", "k"), ("policy", "")])), DENIED);
    for names in [["AWSAccessKeyId", "signature"], ["awsaccesskeyid", "x"], ["x", "Signature"]] {
        let form = to_form(&[("key", "k"), ("policy", "e30="), (names[0], "a"), (names[1], "b")]);
        let error = verify(&form).unwrap_err();
        assert_eq!(error, PostPolicyError::Signature(AuthError::SignatureV2));
        assert!(error.to_string().contains("AWS4-HMAC-SHA256"), "{error}");
    }
    let form = signed(EXAMPLE, &EXAMPLE_FIELDS);
    let with = |name: &str, value: &str| {
        let fields: Vec<(&str, &str)> = form
            .iter()
            .map(|(found, old)| (found, if found == name { value } else { old }))
            .collect();
        code(&to_form(&fields))
    };
    let scope = |scope: &str| with("x-amz-credential", scope);
    let argument = (400, "InvalidArgument");
    assert_eq!(scope("AKIANOBODY/20151229/us-east-1/s3/aws4_request").1, "InvalidAccessKeyId");
    assert_eq!(scope("AKIAIOSFODNN7EXAMPLE/20151230/us-east-1/s3/aws4_request"), argument);
    assert_eq!(scope("AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/sts/aws4_request"), argument);
    assert_eq!(scope("AKIAIOSFODNN7EXAMPLE"), argument);
    let mismatch = (403, "SignatureDoesNotMatch");
    assert_eq!(scope("AKIAIOSFODNN7EXAMPLE/20151229/eu-west-1/s3/aws4_request"), mismatch);
    assert_eq!(with("x-amz-signature", &"0".repeat(64)), mismatch);
    assert_eq!(with("x-amz-signature", &EXAMPLE_SIGNATURE[1..]), mismatch);
    assert_eq!(with("x-amz-signature", &EXAMPLE_SIGNATURE.to_uppercase()), mismatch);
    assert_eq!(with("policy", &STANDARD.encode("{}")), mismatch);
    assert_eq!(with("x-amz-date", "2015-12-29"), argument);
    assert_eq!(with("x-amz-algorithm", "AWS4-HMAC-SHA1"), argument);
    assert_eq!(with("x-amz-algorithm", "AWS4-ECDSA-P256-SHA256"), (501, "NotImplemented"));
    for name in ["policy", "x-amz-signature", "x-amz-algorithm", "x-amz-credential", "x-amz-date"] {
        assert_eq!(with(name, ""), argument, "without {name}");
    }
}

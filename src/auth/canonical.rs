//! SigV4's canonical forms: path, query, headers, the request and the string to sign.
//!
//! Pure text work, the same for verifying and for signing; tests hold it to aws-sigv4. S3 encodes
//! a path **once** and normalises nothing: `//`, `.` and `..` are parts of keys. (See
//! "Signature Calculations for the Authorization Header" in the S3 API reference.)
//!
//! # Which path is signed
//!
//! A server sees the bytes of the request target. Most servers rebuild the canonical path as
//! *encode(decode(path))*, some take it raw; the two agree when the path is already in canonical
//! form, which is what every SDK sends. So:
//!
//! - *verifying* tries the raw path, and when that is not canonical, the canonical form of it.
//!   Both name the same key bytes, so accepting either lets nobody reach another object.
//! - *signing for the store* sends the canonical form ([`canonical_path`]) and signs that, so both
//!   kinds of server agree. A path that was canonical is forwarded byte for byte.
//!
//! Not here: percent-encoding that is broken (`%zz`) is refused by
//! [`verify`](super::verify()); this file would treat such a `%` as itself.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use sha2::{Digest, Sha256};

use super::amz_date::AmzDate;

/// Everything but RFC 3986's unreserved characters: names and values of a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same with `/` left alone: a path.
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// The algorithm of a signed request.
pub(crate) const ALGORITHM: &str = AWS.algorithm;

/// The words of a signing scheme. Google's has the shape of AWS's, and other words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words {
    /// The algorithm.
    pub(crate) algorithm: &'static str,
    /// What the secret is prefixed with where the chain of keys begins.
    pub(crate) of_secret: &'static str,
    /// The service of the scope.
    pub(crate) service: &'static str,
    /// The end of the scope, and of the chain of keys.
    pub(crate) terminator: &'static str,
    /// What the vendor's headers begin with.
    pub(crate) header: &'static str,
    /// What the parameters of the query form begin with.
    pub(crate) parameter: &'static str,
    /// Whether tabs within a header's value become one space, as runs of spaces do.
    pub(crate) collapses_tabs: bool,
}

/// Signature Version 4 for S3.
pub(crate) const AWS: Words = Words {
    algorithm: "AWS4-HMAC-SHA256",
    of_secret: "AWS4",
    service: "s3",
    terminator: "aws4_request",
    header: "x-amz-",
    parameter: "X-Amz-",
    collapses_tabs: false,
};

/// Google Cloud Storage's V4 signing process with an HMAC key
/// (<https://cloud.google.com/storage/docs/authentication/signatures>). That tabs are collapsed is
/// in Google's conformance tests (googleapis/conformance-tests, `storage/v1/v4_signatures.json`,
/// "Headers should be trimmed").
pub(crate) const GOOGLE: Words = Words {
    algorithm: "GOOG4-HMAC-SHA256",
    of_secret: "GOOG4",
    service: "storage",
    terminator: "goog4_request",
    header: "x-goog-",
    parameter: "X-Goog-",
    collapses_tabs: true,
};

/// The hexadecimal SHA-256 of nothing.
pub(crate) const EMPTY_SHA256: &str =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The path as SigV4 wants it: the bytes of the key, each encoded once. `raw` is returned as it
/// is when it is canonical already.
#[must_use]
pub fn canonical_path(raw: &str) -> Cow<'_, str> {
    if raw.is_empty() {
        return Cow::Borrowed("/");
    }
    let decoded: Cow<'_, [u8]> = percent_decode_str(raw).into();
    let encoded = percent_encode(&decoded, PATH).to_string();
    if encoded == raw { Cow::Borrowed(raw) } else { Cow::Owned(encoded) }
}

/// Whether every `%` in `text` is followed by two hexadecimal digits.
pub(crate) fn is_well_encoded(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| {
        let digits = rest.as_bytes();
        digits.len() >= 2 && digits[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

/// The parameters of a raw query, in the order in which they were sent, empty ones left out.
pub(crate) fn raw_parameters(raw: &str) -> impl Iterator<Item = &str> {
    raw.split('&').filter(|parameter| !parameter.is_empty())
}

/// Splits a raw parameter at its first `=` and decodes both halves. `+` is a space, as AWS and
/// Ceph and every server in Go read it; SDKs send `%20` and `%2B`, which leave no doubt.
pub(crate) fn decode_parameter(parameter: &str) -> (Vec<u8>, Vec<u8>) {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    (decode_query(name), decode_query(value))
}

fn decode_query(text: &str) -> Vec<u8> {
    percent_decode_str(&text.replace('+', " ")).collect()
}

/// The canonical query string of a raw one: every name and value encoded once, sorted by name and
/// then by value, `=` always there. Parameters for whose decoded name `leave_out` says so are
/// skipped (`X-Amz-Signature`).
pub(crate) fn canonical_query(raw: &str, leave_out: impl Fn(&[u8]) -> bool) -> String {
    let mut parameters: Vec<(String, String)> = raw_parameters(raw)
        .map(decode_parameter)
        .filter(|(name, _)| !leave_out(name))
        .map(|(name, value)| (encode_query(&name), encode_query(&value)))
        .collect();
    parameters.sort();
    let joined: Vec<String> =
        parameters.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    joined.join("&")
}

/// `bytes` as a name or a value of a query.
pub(crate) fn encode_query(bytes: &[u8]) -> String {
    percent_encode(bytes, QUERY).to_string()
}

/// A request in canonical form, ready to be hashed. Holds the values of signed headers, among
/// them session tokens: it has no `Debug` and is never logged.
pub(crate) struct CanonicalRequest<'a> {
    /// The method.
    pub(crate) method: &'a str,
    /// The canonical path.
    pub(crate) path: &'a str,
    /// The canonical query.
    pub(crate) query: &'a str,
    /// The headers of the request.
    pub(crate) headers: &'a HeaderMap,
    /// The `Host` that the signature covers: the header, or `:authority`.
    pub(crate) host: &'a [u8],
    /// The names that are signed, lower case, sorted.
    pub(crate) signed_headers: &'a [HeaderName],
    /// The last line: `x-amz-content-sha256`.
    pub(crate) payload: &'a str,
    /// Whether tabs within a header's value become one space.
    pub(crate) collapses_tabs: bool,
}

impl CanonicalRequest<'_> {
    /// The hexadecimal SHA-256 of the canonical request.
    pub(crate) fn digest(&self) -> String {
        hex::encode(Sha256::digest(self.to_bytes()))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        for line in [self.method, self.path, self.query] {
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        for name in self.signed_headers {
            out.extend_from_slice(name.as_str().as_bytes());
            out.push(b':');
            self.push_values(name, &mut out);
            out.push(b'\n');
        }
        out.push(b'\n');
        out.extend_from_slice(join_names(self.signed_headers).as_bytes());
        out.push(b'\n');
        out.extend_from_slice(self.payload.as_bytes());
        out
    }

    /// A header that is signed but absent counts as empty: clients which sign such headers work on
    /// AWS, for instance where a proxy in between removed `content-length: 0`.
    fn push_values(&self, name: &HeaderName, out: &mut Vec<u8>) {
        if name == http::header::HOST {
            return push_collapsed(self.host, self.collapses_tabs, out);
        }
        for (i, value) in self.headers.get_all(name).iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            push_collapsed(value.as_bytes(), self.collapses_tabs, out);
        }
    }
}

/// Appends `value` without the spaces around it and with every run of spaces inside as one.
fn push_collapsed(value: &[u8], tabs_too: bool, out: &mut Vec<u8>) {
    let is_space = |byte: &u8| *byte == b' ' || (tabs_too && *byte == b'\t');
    let words = value.trim_ascii().split(is_space).filter(|word| !word.is_empty());
    for (i, word) in words.enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
}

/// `names` as `SignedHeaders` lists them: joined by `;`.
pub(crate) fn join_names(names: &[HeaderName]) -> String {
    let names: Vec<&str> = names.iter().map(HeaderName::as_str).collect();
    names.join(";")
}

/// A credential scope: `20130524/us-east-1/s3/aws4_request`.
pub(crate) fn scope(words: &Words, date: &AmzDate, region: &str) -> String {
    format!("{}/{region}/{}/{}", date.day(), words.service, words.terminator)
}

/// What the signature of a request is computed over. Nothing in it is secret: date, scope and a
/// hash.
pub(crate) fn string_to_sign(
    words: &Words,
    date: &AmzDate,
    scope: &str,
    request_digest: &str,
) -> String {
    format!("{}\n{date}\n{scope}\n{request_digest}", words.algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canonical_path_is_left_as_it_is() {
        for path in ["/", "/b/k", "/b//x/../y/./", "/b/a%20b%2Bc", "/b/%E2%82%AC", "/b/%2525"] {
            assert!(matches!(canonical_path(path), Cow::Borrowed(p) if p == path), "{path}");
        }
    }

    #[test]
    fn other_paths_name_the_same_bytes() {
        let cases = [
            ("", "/"),
            ("/b/a+b", "/b/a%2Bb"),
            ("/b/dt=1", "/b/dt%3D1"),
            ("/b/%c3%a9", "/b/%C3%A9"),
            ("/b/é", "/b/%C3%A9"),
            ("/b/%41%2D", "/b/A-"),
            ("/b/a%2Fb", "/b/a/b"),
            ("/b/%2e%2e/c", "/b/../c"),
            ("/b/%ff", "/b/%FF"),
        ];
        for (raw, canonical) in cases {
            assert_eq!(canonical_path(raw), canonical);
        }
    }

    #[test]
    fn a_query_is_sorted_by_name_and_then_by_value() {
        let cases = [
            ("", ""),
            ("uploads", "uploads="),
            ("prefix=a/b&max-keys=2", "max-keys=2&prefix=a%2Fb"),
            ("a=2&a=1&a=", "a=&a=1&a=2"),
            // By name first: as joined text, `a-b=` would come before `a=`.
            ("a-b=1&a=1", "a=1&a-b=1"),
            ("q=a+b&r=a%20b&s=a%2bb", "q=a%20b&r=a%20b&s=a%2Bb"),
            ("&&x=%FF&", "x=%FF"),
            ("k=a=b", "k=a%3Db"),
            ("A=1&a=1&%C3%A9=1", "%C3%A9=1&A=1&a=1"),
        ];
        for (raw, canonical) in cases {
            assert_eq!(canonical_query(raw, |_| false), canonical, "for {raw:?}");
        }
        assert_eq!(canonical_query("a=1&X-Amz-Signature=f", |n| n == b"X-Amz-Signature"), "a=1");
    }

    #[test]
    fn broken_percent_encoding_is_seen() {
        for good in ["", "abc", "%20", "a%2Fb%ff"] {
            assert!(is_well_encoded(good), "{good}");
        }
        for bad in ["%", "a%2", "%zz", "%2%30", "%é0"] {
            assert!(!is_well_encoded(bad), "{bad}");
        }
    }

    #[test]
    fn the_hash_of_nothing() {
        assert_eq!(hex::encode(Sha256::digest([])), EMPTY_SHA256);
    }

    #[test]
    fn values_are_trimmed_and_collapsed() {
        let mut out = Vec::new();
        push_collapsed(b"  Some   example \t text ", false, &mut out);
        assert_eq!(out, b"Some example \t text");
        out.clear();
        push_collapsed(b"\t Some\t\texample \t text ", true, &mut out);
        assert_eq!(out, b"Some example text");
    }
}

//! `GOOG4-HMAC-SHA256` signatures, verified.
//!
//! The same canonical request and chain of keys as Signature Version 4, under other names: scope
//! `<date>/auto/storage/goog4_request`, first key `GOOG4<secret>`, `x-goog-date` and
//! `x-goog-content-sha256`, or `X-Goog-*` in the query (wire §3;
//! cloud.google.com/storage/docs/authentication/signatures and …/canonical-requests). Written from
//! those facts and sharing nothing with the proxy's signer, so that the two can judge each other.

use super::payload::Signed;
use crate::devstore::access::{check_skew, parse_amz_date};
use crate::devstore::errors::{expired_token, invalid_security, malformed_security_header};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use s3s::{S3Result, s3_error};
use sha2::{Digest as _, Sha256};
use std::time::{Duration, SystemTime};

/// The name of the algorithm, with which an `Authorization` begins.
pub(super) const ALGORITHM: &[u8] = b"GOOG4-HMAC-SHA256";

/// The longest life of a signed URL in seconds, seven days
/// (cloud.google.com/storage/docs/access-control/signed-urls).
const EXPIRES_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// Everything but the unreserved characters of RFC 3986.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The same, with slashes as they are.
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// The block size of SHA-256 in bytes (RFC 2104's B).
const BLOCK_BYTES: usize = 64;

/// A signature as a request presents it.
struct Presented {
    access_key_id: String,
    /// `<date>/<location>/storage/goog4_request`.
    scope: String,
    /// `20261129T101112Z`.
    date: String,
    /// In lower case.
    signed_headers: Vec<String>,
    signature: String,
    /// What the canonical request says of the body.
    payload: String,
    /// Seconds, of a signed URL.
    expires: Option<u64>,
}

/// Verifies a request's signature, and says what it covers of the body.
///
/// # Errors
///
/// `SignatureDoesNotMatch`, `InvalidSecurity`, `RequestTimeTooSkewed`, `ExpiredToken`,
/// `MalformedSecurityHeader`, `InvalidArgument` (of a body that is sent in signed pieces: whether
/// Cloud Storage knows such is not known).
pub(super) fn verify(parts: &Parts, key: (&str, &str), now: SystemTime) -> S3Result<Signed> {
    let authorization = parts.headers.get(header::AUTHORIZATION);
    let presented = match authorization {
        Some(authorization) => Presented::in_header(authorization, &parts.headers)?,
        None => Presented::in_query(parts.uri.query().unwrap_or_default())?,
    };
    if presented.access_key_id != key.0 {
        return Err(invalid_security());
    }
    presented.check_time(now)?;
    presented.check_coverage(&parts.headers)?;
    if presented.computed(parts, key.1)? != presented.signature {
        return Err(s3_error!(SignatureDoesNotMatch, "Access denied."));
    }
    presented.signed_payload()
}

impl Presented {
    fn in_header(authorization: &HeaderValue, headers: &HeaderMap) -> S3Result<Self> {
        let text = authorization.to_str().map_err(|_| malformed_security_header())?;
        let fields = text.strip_prefix("GOOG4-HMAC-SHA256").unwrap_or_default();
        let field = |wanted: &str| {
            let fields = fields.split(',').filter_map(|field| field.trim().split_once('='));
            let mut values = fields.filter(|(name, _)| *name == wanted).map(|(_, value)| value);
            values.next().map(str::to_owned).ok_or_else(malformed_security_header)
        };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let date = header("x-goog-date").ok_or_else(malformed_security_header)?;
        Self {
            date: date.to_owned(),
            payload: header("x-goog-content-sha256").unwrap_or("UNSIGNED-PAYLOAD").to_owned(),
            expires: None,
            ..Self::named(&field("Credential")?, &field("SignedHeaders")?, field("Signature")?)?
        }
        .checked()
    }

    fn in_query(query: &str) -> S3Result<Self> {
        let field = |wanted: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let mut values = pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value);
            let value = values.next().ok_or_else(malformed_security_header)?;
            Ok::<_, s3s::S3Error>(percent_decode_str(value).decode_utf8_lossy().into_owned())
        };
        if field("X-Goog-Algorithm")?.as_bytes() != ALGORITHM {
            return Err(malformed_security_header());
        }
        let expires = field("X-Goog-Expires")?.parse().ok();
        let expires = expires.filter(|seconds| (1..=EXPIRES_SECONDS_MAX).contains(seconds));
        let (credential, signed) = (field("X-Goog-Credential")?, field("X-Goog-SignedHeaders")?);
        Self {
            date: field("X-Goog-Date")?,
            expires: Some(expires.ok_or_else(|| s3_error!(InvalidArgument, "X-Goog-Expires"))?),
            ..Self::named(&credential, &signed, field("X-Goog-Signature")?)?
        }
        .checked()
    }

    fn named(credential: &str, signed_headers: &str, signature: String) -> S3Result<Self> {
        let (id, scope) = credential.split_once('/').ok_or_else(malformed_security_header)?;
        Ok(Self {
            access_key_id: id.to_owned(),
            scope: scope.to_owned(),
            date: String::new(),
            signed_headers: signed_headers.split(';').map(str::to_ascii_lowercase).collect(),
            signature,
            payload: "UNSIGNED-PAYLOAD".to_owned(),
            expires: None,
        })
    }

    /// With a scope that is one, of the day that the request was signed.
    fn checked(self) -> S3Result<Self> {
        let scope: Vec<_> = self.scope.split('/').collect();
        match scope.as_slice() {
            [day, location, "storage", "goog4_request"]
                if self.date.starts_with(*day) && day.len() == 8 && !location.is_empty() =>
            {
                Ok(self)
            }
            _ => Err(malformed_security_header()),
        }
    }

    fn check_time(&self, now: SystemTime) -> S3Result<()> {
        let signed_at = parse_amz_date(&self.date)?;
        match self.expires {
            None => check_skew(now, signed_at),
            // 400 `ExpiredToken` (floci-io/floci-gcp #32).
            Some(seconds) if now > signed_at + Duration::from_secs(seconds) => Err(expired_token()),
            Some(_) if signed_at > now => check_skew(now, signed_at),
            Some(_) => Ok(()),
        }
    }

    /// The host and every header of Google's must be signed.
    fn check_coverage(&self, headers: &HeaderMap) -> S3Result<()> {
        let covered = |name: &str| self.signed_headers.iter().any(|signed| signed == name);
        let of_google = headers.keys().map(http::HeaderName::as_str);
        let mut of_google = of_google.filter(|name| name.starts_with("x-goog-"));
        if covered("host") && of_google.all(covered) {
            Ok(())
        } else {
            Err(malformed_security_header())
        }
    }

    /// The signature that it should be, in hex.
    fn computed(&self, parts: &Parts, secret: &str) -> S3Result<String> {
        let request = self.canonical_request(parts)?;
        let to_sign = format!(
            "GOOG4-HMAC-SHA256\n{}\n{}\n{}",
            self.date,
            self.scope,
            hex::encode(Sha256::digest(request))
        );
        let first = format!("GOOG4{secret}").into_bytes();
        let key = self.scope.split('/').fold(first, |key, part| hmac(&key, part.as_bytes()).into());
        Ok(hex::encode(hmac(&key, to_sign.as_bytes())))
    }

    fn canonical_request(&self, parts: &Parts) -> S3Result<Vec<u8>> {
        let path: Vec<u8> = percent_decode_str(parts.uri.path()).collect();
        let mut request = format!(
            "{}\n{}\n{}\n",
            parts.method,
            percent_encode(&path, PATH),
            canonical_query(parts.uri.query().unwrap_or_default())
        )
        .into_bytes();
        for name in &self.signed_headers {
            let values: Vec<_> = parts.headers.get_all(name).iter().map(collapsed).collect();
            if values.is_empty() {
                // "Header was included in signedheaders, but not in the request."
                return Err(malformed_security_header());
            }
            request.extend_from_slice(format!("{name}:").as_bytes());
            request.extend_from_slice(&values.join(&b','));
            request.push(b'\n');
        }
        request.push(b'\n');
        request.extend_from_slice(self.signed_headers.join(";").as_bytes());
        request.push(b'\n');
        request.extend_from_slice(self.payload.as_bytes());
        Ok(request)
    }

    fn signed_payload(&self) -> S3Result<Signed> {
        if self.payload == "UNSIGNED-PAYLOAD" {
            return Ok(Signed::Nothing);
        }
        let mut sha256 = [0; 32];
        hex::decode_to_slice(&self.payload, &mut sha256)
            .map_err(|_| s3_error!(InvalidArgument, "x-goog-content-sha256"))?;
        Ok(Signed::Sha256(sha256))
    }
}

/// The parameters but the signature, sorted by name and value, encoded in the one right way.
fn canonical_query(query: &str) -> String {
    let encoded = |text: &str| {
        let bytes: Vec<u8> = percent_decode_str(text).collect();
        percent_encode(&bytes, QUERY).to_string()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut pairs: Vec<_> = pairs
        .map(|(name, value)| (encoded(name), encoded(value)))
        .filter(|(name, _)| name != "X-Goog-Signature")
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

/// A value without blanks around it, and with single ones within.
fn collapsed(value: &HeaderValue) -> Vec<u8> {
    let words = value.as_bytes().split(|byte| matches!(byte, b' ' | b'\t'));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(&b' ')
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |byte: u8| block.map(|key| key ^ byte);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "20261129T101112Z";
    const SCOPE: &str = "20261129/auto/storage/goog4_request";
    const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    const SIGNED: &str = "content-type;host;x-goog-content-sha256;x-goog-date;x-goog-if-generation-match;x-goog-meta-a";
    // Both computed with Python's hmac.
    const IN_HEADER: &str = "0e10bb3f64d97686f57637ea98429e60f572e7193c9f4b42868598d648ffaa5a";
    const IN_QUERY: &str = "6756f4b22991a14c30edf1bb56150e187eb817f38a389c7afda7635f5ee62940";

    fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn at(text: &str) -> SystemTime {
        parse_amz_date(text).unwrap()
    }

    fn code<T: std::fmt::Debug>(result: S3Result<T>) -> String {
        result.unwrap_err().code().as_str().to_owned()
    }

    fn in_header(authorization: &str, more: &[(&str, &str)]) -> Parts {
        let headers = [
            ("authorization", authorization),
            ("host", "storage.example:80"),
            ("content-type", "text/x"),
            ("x-goog-content-sha256", HELLO),
            ("x-goog-date", DATE),
            ("x-goog-if-generation-match", "0"),
            ("x-goog-meta-a", " 1   2 "),
        ];
        parts("PUT", "/bucket/a%20b/%C3%A9", &[headers.as_slice(), more].concat())
    }

    fn authorization(signature: &str, scope: &str, signed: &str) -> String {
        format!(
            "GOOG4-HMAC-SHA256 Credential=id/{scope}, SignedHeaders={signed}, Signature={signature}"
        )
    }

    #[test]
    fn rfc_4231() {
        let mac = hmac(b"Jefe", b"what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex::encode(mac), expected);
        let mac = hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        let expected = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        assert_eq!(hex::encode(mac), expected);
    }

    #[test]
    fn a_signature_in_a_header() {
        let good = authorization(IN_HEADER, SCOPE, SIGNED);
        let check = |parts: &Parts, now| verify(parts, ("id", "secret"), at(now));
        let mut sha256 = [0; 32];
        hex::decode_to_slice(HELLO, &mut sha256).unwrap();
        let good = in_header(&good, &[]);
        assert_eq!(check(&good, DATE).unwrap(), Signed::Sha256(sha256));
        assert!(check(&good, "20261129T102612Z").is_ok());
        assert_eq!(code(check(&good, "20261129T102613Z")), "RequestTimeTooSkewed");
        assert_eq!(code(verify(&good, ("id", "other"), at(DATE))), "SignatureDoesNotMatch");
        assert_eq!(code(verify(&good, ("other", "secret"), at(DATE))), "InvalidSecurity");
        let mut changed = good.clone();
        changed.headers.insert("x-goog-if-generation-match", "1".parse().unwrap());
        assert_eq!(code(check(&changed, DATE)), "SignatureDoesNotMatch");
        let mut injected = good.clone();
        injected.headers.insert("x-goog-meta-b", "1".parse().unwrap());
        assert_eq!(code(check(&injected, DATE)), "MalformedSecurityHeader");
        let mut missing = good.clone();
        missing.headers.remove("content-type");
        assert_eq!(code(check(&missing, DATE)), "MalformedSecurityHeader");
        for scope in ["20261128/auto/storage/goog4_request", "20261129/auto/s3/aws4_request"] {
            let wrong = in_header(&authorization(IN_HEADER, scope, SIGNED), &[]);
            assert_eq!(code(check(&wrong, DATE)), "MalformedSecurityHeader", "{scope}");
        }
    }

    #[test]
    fn a_signature_in_the_query() {
        let query = "uploads&X-Goog-Algorithm=GOOG4-HMAC-SHA256\
            &X-Goog-Credential=id%2F20261129%2Fauto%2Fstorage%2Fgoog4_request\
            &X-Goog-Date=20261129T101112Z&X-Goog-Expires=60&X-Goog-SignedHeaders=host&a=b%20c";
        let host = [("host", "storage.example:80")];
        let check = |query: &str, now| {
            let uri = format!("/bucket/k?{query}&X-Goog-Signature={IN_QUERY}");
            verify(&parts("GET", &uri, &host), ("id", "secret"), at(now))
        };
        assert_eq!(check(query, DATE).unwrap(), Signed::Nothing);
        assert!(check(query, "20261129T101212Z").is_ok());
        assert_eq!(code(check(query, "20261129T101213Z")), "ExpiredToken");
        assert_eq!(code(check(query, "20261129T095611Z")), "RequestTimeTooSkewed");
        let changed = query.replace("a=b", "a=c");
        assert_eq!(code(check(&changed, DATE)), "SignatureDoesNotMatch");
        let longer = query.replace("Expires=60", "Expires=604801");
        assert_eq!(code(check(&longer, DATE)), "InvalidArgument");
    }
}

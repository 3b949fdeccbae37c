//! Verifying the head of a request: who signed it, and what the signature covers.
//!
//! The signature is recomputed from the bytes that arrived and compared in constant time. Three
//! rules go beyond the arithmetic, because the request is signed *again* afterwards, for the store,
//! with the proxy's own credentials; whatever this file lets through unsigned would be vouched for:
//!
//! - every `x-amz-*` header that is present, and the host, must be in `SignedHeaders`
//!   (CVE-2026-97731 and its relatives are verifiers without this rule). The one exception is
//!   `x-amz-content-sha256`, which AWS tolerates unsigned: its value is the last line of the
//!   canonical request, so it is bound all the same;
//! - a header with one meaning is not sent twice;
//! - host and `:authority` agree.
//!
//! Not here: the body (see [`VerifiedBody`](super::VerifiedBody)), and whether other headers, such
//! as `X-Fence-Token`, have to be signed: that is policy, which asks [`SignedHeaders::contains`].

use std::fmt;
use std::time::{Duration, SystemTime};

use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use http::request::Parts;
use http::{HeaderMap, HeaderName, header};
use subtle::ConstantTimeEq;

use super::canonical::{self, CanonicalRequest};
use super::error::AuthError;
use super::keyring::{AccessKeyId, KeyRing, SecretKey};
use super::payload::{CONTENT_SHA256, ChunkSeed, Declared, Payload, UNSIGNED_PAYLOAD};
use super::presented::{Presented, SignatureQuery, find};

/// How far the client's clock may be off. S3's limit.
pub(super) const SKEW_MAX: Duration = Duration::from_secs(15 * 60);

const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// A request head whose signature is right, or one that was taken unsigned on purpose.
#[derive(Debug)]
pub struct Verified {
    /// Who signed; `None` where authentication is off.
    pub access_key_id: Option<AccessKeyId>,
    /// Where the signature was.
    pub form: Form,
    /// The headers that it covers. It always covers method, path and query.
    pub signed_headers: SignedHeaders,
    /// What the body has to be.
    pub payload: Payload,
    /// `x-amz-security-token`, from the header or from the query.
    pub session_token: Option<SessionToken>,
}

/// Where a signature was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In the `Authorization` header.
    Header,
    /// In the query: a presigned request.
    Query,
    /// In the body: a browser's form, whose fields hold a signed policy. Nothing outside of the
    /// fields is signed.
    Policy,
    /// Nowhere that was looked at: authentication is off.
    None,
}

/// The headers that a signature covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedHeaders(Vec<HeaderName>);

impl SignedHeaders {
    /// Whether nobody can have changed or added the header `name` since it was signed.
    #[must_use]
    pub fn contains(&self, name: &HeaderName) -> bool {
        self.0.contains(name)
    }

    /// The names, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &HeaderName> {
        self.0.iter()
    }
}

/// The value of `x-amz-security-token`. It may be a real credential: prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionToken(String);

impl SessionToken {
    /// The token as sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionToken")
    }
}

/// Verifies the signature of a request at the time `now`.
///
/// # Errors
///
/// [`AuthError`], which knows its S3 code and status.
pub fn verify(parts: &Parts, ring: &KeyRing, now: SystemTime) -> Result<Verified, AuthError> {
    let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or(""));
    if !canonical::is_well_encoded(path) || !canonical::is_well_encoded(query) {
        return Err(AuthError::InvalidUri);
    }
    let signature_query = SignatureQuery::parse(query)?;
    let presented = find(parts, &signature_query)?;
    refuse_repeated(&parts.headers)?;
    let host = host(parts)?;
    let (access_key_id, secret) = ring.get(&presented.access_key_id).ok_or_else(|| {
        AuthError::UnknownAccessKey { access_key_id: presented.access_key_id.clone() }
    })?;
    check_time(&presented, now)?;
    require_signed(&parts.headers, &presented.signed_headers)?;
    let content_sha256 = content_sha256(&parts.headers, &signature_query)?;
    let content_sha256 = match (content_sha256, presented.expires_seconds) {
        (Some(value), _) => value,
        (None, Some(_)) => UNSIGNED_PAYLOAD,
        (None, None) => return Err(AuthError::MissingContentSha256),
    };
    let declared = Declared::parse(content_sha256)?;
    let seed = check_signature(parts, &presented, secret, host, content_sha256)?;
    Ok(Verified {
        access_key_id: Some(access_key_id.clone()),
        form: if presented.expires_seconds.is_some() { Form::Query } else { Form::Header },
        session_token: session_token(&parts.headers, &signature_query)?,
        signed_headers: SignedHeaders(presented.signed_headers),
        payload: declared.into_payload(Some(seed)),
    })
}

impl Verified {
    /// Takes the head of a browser's form, of which nothing is signed: the body has to be given to
    /// [`verify_post`](super::verify_post) before anything is made of it.
    ///
    /// # Errors
    ///
    /// [`AuthError`] when the head claims to be signed, or contradicts itself.
    pub fn head_of_form(parts: &Parts) -> Result<Self, AuthError> {
        let head = Self::unauthenticated(parts)?;
        let query = SignatureQuery::parse(parts.uri.query().unwrap_or(""))?;
        if parts.headers.contains_key(header::AUTHORIZATION) || query.signs() {
            return Err(AuthError::SignedForm);
        }
        Ok(Self { form: Form::Policy, ..head })
    }

    /// Takes a request as it is, signed or not, where authentication is off (a sidecar). The body
    /// is still decoded and its hash and checksums are still checked; chunk signatures are not.
    ///
    /// # Errors
    ///
    /// [`AuthError`] when the head contradicts itself, or declares a payload that S3 does not know.
    pub fn unauthenticated(parts: &Parts) -> Result<Self, AuthError> {
        let query = parts.uri.query().unwrap_or("");
        if !canonical::is_well_encoded(parts.uri.path()) || !canonical::is_well_encoded(query) {
            return Err(AuthError::InvalidUri);
        }
        let signature_query = SignatureQuery::parse(query)?;
        refuse_repeated(&parts.headers)?;
        host(parts)?;
        let declared = content_sha256(&parts.headers, &signature_query)?;
        Ok(Self {
            access_key_id: None,
            form: Form::None,
            signed_headers: SignedHeaders::default(),
            payload: Declared::parse(declared.unwrap_or(UNSIGNED_PAYLOAD))?.into_payload(None),
            session_token: session_token(&parts.headers, &signature_query)?,
        })
    }
}

/// Tries the path as it came and, when that is another text, in canonical form; see
/// [`canonical`] for why both are right. There is no third.
fn check_signature(
    parts: &Parts,
    presented: &Presented,
    secret: &SecretKey,
    host: &[u8],
    content_sha256: &str,
) -> Result<ChunkSeed, AuthError> {
    let query = canonical::canonical_query(parts.uri.query().unwrap_or(""), |name| {
        name.eq_ignore_ascii_case(b"x-amz-signature")
    });
    let scope = canonical::scope(&canonical::AWS, &presented.date, &presented.region);
    let date = presented.date.time();
    let key = generate_signing_key(secret.expose(), date, &presented.region, "s3");
    let string_to_sign = |path: &str| {
        let request = CanonicalRequest {
            method: parts.method.as_str(),
            path,
            query: &query,
            headers: &parts.headers,
            host,
            signed_headers: &presented.signed_headers,
            payload: content_sha256,
            collapses_tabs: canonical::AWS.collapses_tabs,
        };
        canonical::string_to_sign(&canonical::AWS, &presented.date, &scope, &request.digest())
    };
    let raw = parts.uri.path();
    let encoded = canonical::canonical_path(raw);
    let paths = if encoded == raw { vec![raw] } else { vec![raw, &*encoded] };
    for path in paths {
        let signature = calculate_signature(&key, string_to_sign(path).as_bytes());
        if bool::from(signature.as_bytes().ct_eq(presented.signature.as_bytes())) {
            return Ok(ChunkSeed {
                signing_key: key.as_ref().to_vec(),
                date: presented.date.as_str().to_owned(),
                scope,
                signature,
            });
        }
    }
    let string_to_sign = string_to_sign(&encoded);
    tracing::debug!(access_key_id = presented.access_key_id, string_to_sign, "signature mismatch");
    Err(AuthError::SignatureMismatch {
        access_key_id: presented.access_key_id.clone(),
        string_to_sign,
        signature_provided: presented.signature.clone(),
    })
}

/// Tested once, when the head arrives, as AWS, MinIO and s3s do.
fn check_time(presented: &Presented, now: SystemTime) -> Result<(), AuthError> {
    let signed_at = presented.date.time();
    match presented.expires_seconds {
        None if presented.date.distance(now) > SKEW_MAX => {
            Err(AuthError::TimeTooSkewed { signed_at, now })
        }
        None => Ok(()),
        Some(expires_seconds) => {
            let expired_at = signed_at + Duration::from_secs(expires_seconds);
            if now + SKEW_MAX < signed_at {
                Err(AuthError::NotYetValid { signed_at, now })
            } else if now > expired_at {
                Err(AuthError::Expired { expires_seconds, expired_at, now })
            } else {
                Ok(())
            }
        }
    }
}

fn require_signed(headers: &HeaderMap, signed: &[HeaderName]) -> Result<(), AuthError> {
    let must_be_signed =
        |name: &&HeaderName| name.as_str().starts_with("x-amz-") && **name != CONTENT_SHA256;
    let missing: Vec<HeaderName> = std::iter::once(&header::HOST)
        .chain(headers.keys().filter(must_be_signed))
        .filter(|name| !signed.contains(name))
        .cloned()
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(AuthError::HeadersNotSigned(missing)) }
}

/// Headers of which a second value has a meaning of its own: lists and user metadata.
fn is_list(name: &str) -> bool {
    name.starts_with("x-amz-meta-")
        || ["x-amz-object-attributes", "x-amz-optional-object-attributes", "x-amz-trailer"]
            .contains(&name)
}

/// One server takes the first of two values, another the last: the signature would cover both and
/// decide nothing.
fn refuse_repeated(headers: &HeaderMap) -> Result<(), AuthError> {
    let one_meaning = |name: &HeaderName| {
        [header::HOST, header::DATE, header::CONTENT_LENGTH].contains(name)
            || name == "content-md5"
            || (name.as_str().starts_with("x-amz-") && !is_list(name.as_str()))
    };
    let repeated = headers
        .keys()
        .find(|name| one_meaning(name) && headers.get_all(*name).iter().nth(1).is_some());
    repeated.map_or(Ok(()), |name| Err(AuthError::RepeatedHeader(name.clone())))
}

/// The host that the client signed: the header, or `:authority` on HTTP/2.
fn host(parts: &Parts) -> Result<&[u8], AuthError> {
    let header = parts.headers.get(header::HOST).map(|value| value.as_bytes());
    let authority = parts.uri.authority().map(|authority| authority.as_str().as_bytes());
    match (header, authority) {
        (Some(header), Some(authority)) if !header.eq_ignore_ascii_case(authority) => {
            Err(AuthError::Contradiction("Host is not the authority of the request target"))
        }
        (Some(host), _) | (None, Some(host)) => Ok(host),
        (None, None) => Err(AuthError::MissingHost),
    }
}

/// The value of `x-amz-content-sha256`, from the header or from the query.
fn content_sha256<'a>(
    headers: &'a HeaderMap,
    query: &'a SignatureQuery,
) -> Result<Option<&'a str>, AuthError> {
    let header = match headers.get(CONTENT_SHA256) {
        Some(value) => Some(value.to_str().map_err(|_| AuthError::InvalidContentSha256)?),
        None => None,
    };
    match (header, query.content_sha256.as_deref()) {
        (Some(header), Some(query)) if header != query => {
            Err(AuthError::Contradiction("x-amz-content-sha256 was given twice and differs"))
        }
        (header, query) => Ok(header.or(query)),
    }
}

fn session_token(
    headers: &HeaderMap,
    query: &SignatureQuery,
) -> Result<Option<SessionToken>, AuthError> {
    let header = match headers.get(SECURITY_TOKEN) {
        Some(value) => Some(
            value
                .to_str()
                .map_err(|_| AuthError::Contradiction("x-amz-security-token is not ASCII"))?,
        ),
        None => None,
    };
    match (header, query.security_token.as_deref()) {
        (Some(header), Some(query)) if header != query => {
            Err(AuthError::Contradiction("x-amz-security-token was given twice and differs"))
        }
        (header, query) => Ok(header.or(query).map(|token| SessionToken(token.to_owned()))),
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;

//! Signing requests for the store.
//!
//! The arithmetic is aws-sigv4's; the canonical request is ours, because aws-sigv4 wants header
//! values and decoded queries that are UTF-8, and a proxy forwards what it is given. Tests hold the
//! result to aws-sigv4's wherever that can sign.
//!
//! Google's V4 signing with an HMAC key (GOOG4-HMAC-SHA256) is the same arithmetic with other
//! words; [`Signer::google`] uses them, and everything else here is shared.
//!
//! What is signed: the host, every `x-amz-*` header (`x-goog-*` for Google), and the standard headers that change what the
//! store does and that nobody on the way rewrites ([`SIGNED_HEADERS`]). `Accept-Encoding` never:
//! GCS's front end rewrites it before the signature is checked.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use http::request::Parts;
use http::uri::Scheme;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

use super::amz_date::AmzDate;
use super::canonical::{
    self, CanonicalRequest, EMPTY_SHA256, Words, canonical_path, canonical_query, encode_query,
    join_names,
};
use super::payload::UNSIGNED_PAYLOAD;
use super::strip::{join, strip_client_auth, with_path_and_query};

/// The location in Google's scopes; it does not depend on where the bucket is.
const GOOGLE_REGION: &str = "auto";

/// Standard headers that are signed when present, beside `host` and the vendor's.
const SIGNED_HEADERS: [&str; 7] = [
    "content-md5",
    "content-type",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "range",
];

/// Signs requests for one store.
#[derive(Clone, Debug)]
pub struct Signer {
    credentials: Credentials,
    region: String,
    words: &'static Words,
}

/// What a signature says about the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadHash {
    /// Its SHA-256.
    Sha256([u8; 32]),
    /// That there is none.
    Empty,
    /// Nothing (`UNSIGNED-PAYLOAD`).
    Unsigned,
    /// That it is aws-chunked, unsigned, with a checksum trailer
    /// (`STREAMING-UNSIGNED-PAYLOAD-TRAILER`). The caller frames it.
    StreamingUnsignedTrailer,
}

/// Where the signature goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureForm {
    /// Into the `Authorization` header: good for 15 minutes.
    Header,
    /// Into the query: good for as long as it says. The store refuses the request afterwards,
    /// which bounds how late a lost copy of it can still act (F9).
    ///
    /// The payload is `UNSIGNED-PAYLOAD` whatever [`PayloadHash`] says: presigned requests have no
    /// hash in the S3 documentation, and while Ceph takes one from `x-amz-content-sha256`,
    /// SeaweedFS 4.48 ignores that header here and refuses the signature. Protect the body with
    /// `Content-MD5` or an `x-amz-checksum-*` header, which are signed.
    Query {
        /// The life of the signature in seconds, 1 to 604800.
        expires_seconds: u32,
    },
}

/// Why a request could not be signed. A broken invariant of the proxy, not the client's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignError {
    /// The request has neither an authority in its URI nor a `Host` header.
    #[error("the request has no host")]
    NoHost,
    /// The time is outside the years 0 to 9999.
    #[error("the time of signing cannot be written as a date")]
    Time,
    /// The access key id or the session token cannot stand in a header.
    #[error("the credentials of the store cannot be written into a header")]
    Credentials,
    /// A query signature cannot announce aws-chunked framing.
    #[error("an aws-chunked payload can only be signed in the header form")]
    StreamInQuery,
    /// The URI cannot be rebuilt with the signed path and query.
    #[error("the URI of the request cannot be rebuilt")]
    Uri,
}

impl Signer {
    /// A signer with the store's `credentials` for `region` (`auto` for GCS and R2).
    #[must_use]
    pub fn new(credentials: Credentials, region: impl Into<String>) -> Self {
        Self { credentials, region: region.into(), words: &canonical::AWS }
    }

    /// A signer with an HMAC key of Google Cloud Storage, for requests whose headers are
    /// `x-goog-*`: Google answers 400 to `x-amz-*` headers beside them. A session token is not
    /// sent; HMAC keys have none.
    #[must_use]
    pub fn google(credentials: Credentials) -> Self {
        Self { credentials, region: GOOGLE_REGION.to_owned(), words: &canonical::GOOGLE }
    }

    /// Signs the request as of `at`, after removing what was left of the client's authentication.
    ///
    /// `Host` becomes the authority of the URI when that has one. The path is sent in canonical
    /// form (see [`canonical`]); the query keeps its bytes. Whoever alters host, path, query or a
    /// signed header afterwards breaks the signature.
    ///
    /// # Errors
    ///
    /// [`SignError`]; the request is then without any signature.
    pub fn sign(
        &self,
        parts: &mut Parts,
        payload: PayloadHash,
        at: SystemTime,
        form: SignatureForm,
    ) -> Result<(), SignError> {
        strip_client_auth(parts);
        let date = AmzDate::from_time(at).ok_or(SignError::Time)?;
        let host = set_host(parts)?;
        let payload = payload.as_text(form)?;
        let scope = canonical::scope(self.words, &date, &self.region);
        if form == SignatureForm::Header {
            let value = HeaderValue::from_str(date.as_str()).map_err(|_| SignError::Time)?;
            parts.headers.insert(self.header("date"), value);
            if let Some(token) = self.session_token() {
                parts.headers.insert(self.header("security-token"), sensitive(token)?);
            }
            let value = HeaderValue::from_str(&payload).expect("a hash is visible ASCII");
            parts.headers.insert(self.header("content-sha256"), value);
        }
        let signed_headers = headers_to_sign(self.words, &parts.headers);
        let path = canonical_path(parts.uri.path()).into_owned();
        let mut query = parts.uri.query().unwrap_or("").to_owned();
        if let SignatureForm::Query { expires_seconds } = form {
            self.push_parameters(&mut query, &date, &scope, expires_seconds, &signed_headers);
        }
        let canonical = CanonicalRequest {
            method: parts.method.as_str(),
            path: &path,
            query: &canonical_query(&query, |_| false),
            headers: &parts.headers,
            host: host.as_bytes(),
            signed_headers: &signed_headers,
            payload: &payload,
            collapses_tabs: self.words.collapses_tabs,
        };
        let digest = canonical.digest();
        let string_to_sign = canonical::string_to_sign(self.words, &date, &scope, &digest);
        let signature = self.signature(&date, &string_to_sign);
        match form {
            SignatureForm::Header => {
                let value = format!(
                    "{} Credential={}/{scope}, SignedHeaders={}, Signature={signature}",
                    self.words.algorithm,
                    self.credentials.access_key_id(),
                    join_names(&signed_headers),
                );
                parts.headers.insert(header::AUTHORIZATION, sensitive(&value)?);
            }
            SignatureForm::Query { .. } => {
                query.push('&');
                query.push_str(self.words.parameter);
                query.push_str("Signature=");
                query.push_str(&signature);
            }
        }
        let target = match parts.uri.query() {
            // A bare `?` is one of the bytes that the client sent.
            Some("") if query.is_empty() => format!("{path}?"),
            Some(_) | None => join(&path, &query),
        };
        parts.uri = with_path_and_query(&parts.uri, &target).map_err(|_| SignError::Uri)?;
        Ok(())
    }

    /// A header of the vendor's.
    fn header(&self, name: &str) -> HeaderName {
        let name = format!("{}{name}", self.words.header);
        HeaderName::try_from(name).expect("the words are lower case and visible ASCII")
    }

    fn session_token(&self) -> Option<&str> {
        let token = self.credentials.session_token();
        token.filter(|_| *self.words == canonical::AWS)
    }

    fn signature(&self, date: &AmzDate, string_to_sign: &str) -> String {
        let secret = self.credentials.secret_access_key();
        if *self.words == canonical::AWS {
            let key = generate_signing_key(secret, date.time(), &self.region, self.words.service);
            return calculate_signature(key, string_to_sign.as_bytes());
        }
        let first = format!("{}{secret}", self.words.of_secret).into_bytes();
        let links = [date.day(), &self.region, self.words.service, self.words.terminator];
        let key = links.into_iter().fold(first, |key, link| {
            let next = calculate_signature(key, link.as_bytes());
            hex::decode(next).expect("a signature is hexadecimal")
        });
        calculate_signature(key, string_to_sign.as_bytes())
    }

    /// Appends the parameters of the query form, all but the signature.
    fn push_parameters(
        &self,
        query: &mut String,
        date: &AmzDate,
        scope: &str,
        expires_seconds: u32,
        signed_headers: &[HeaderName],
    ) {
        let mut push = |name: &str, value: &str| {
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str(self.words.parameter);
            query.push_str(name);
            query.push('=');
            query.push_str(&encode_query(value.as_bytes()));
        };
        push("Algorithm", self.words.algorithm);
        push("Credential", &format!("{}/{scope}", self.credentials.access_key_id()));
        push("Date", date.as_str());
        push("Expires", &expires_seconds.to_string());
        push("SignedHeaders", &join_names(signed_headers));
        if let Some(token) = self.session_token() {
            push("Security-Token", token);
        }
    }
}

/// Authenticates the request with an OAuth access token in place of a signature. Host and path are
/// made what signing makes them, so that a request is the same one in both forms.
///
/// # Errors
///
/// [`SignError`]; the request is then without authentication.
pub fn bear_token(parts: &mut Parts, token: &str) -> Result<(), SignError> {
    strip_client_auth(parts);
    set_host(parts)?;
    let path = canonical_path(parts.uri.path()).into_owned();
    let target = match parts.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    parts.uri = with_path_and_query(&parts.uri, &target).map_err(|_| SignError::Uri)?;
    parts.headers.insert(header::AUTHORIZATION, sensitive(&format!("Bearer {token}"))?);
    Ok(())
}

impl PayloadHash {
    /// The last line of the canonical request.
    fn as_text(self, form: SignatureForm) -> Result<String, SignError> {
        match (form, self) {
            (SignatureForm::Header, Self::Sha256(hash)) => Ok(hex::encode(hash)),
            (SignatureForm::Header, Self::Empty) => Ok(EMPTY_SHA256.to_owned()),
            (SignatureForm::Header, Self::StreamingUnsignedTrailer) => {
                Ok("STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned())
            }
            (_, Self::Unsigned) | (SignatureForm::Query { .. }, Self::Sha256(_) | Self::Empty) => {
                Ok(UNSIGNED_PAYLOAD.to_owned())
            }
            (SignatureForm::Query { .. }, Self::StreamingUnsignedTrailer) => {
                Err(SignError::StreamInQuery)
            }
        }
    }
}

fn sensitive(text: &str) -> Result<HeaderValue, SignError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| SignError::Credentials)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Makes the `Host` header say what the URI says, so that what is signed is what is sent.
fn set_host(parts: &mut Parts) -> Result<HeaderValue, SignError> {
    if let Some(host) = host_of(&parts.uri) {
        let value = HeaderValue::from_str(&host).map_err(|_| SignError::NoHost)?;
        parts.headers.insert(header::HOST, value);
    }
    parts.headers.get(header::HOST).cloned().ok_or(SignError::NoHost)
}

/// Host and port, without a port that is the scheme's own: HTTP clients leave it out of `Host`.
fn host_of(uri: &Uri) -> Option<String> {
    let host = uri.host()?;
    let default = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Some(80),
        Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
        _ => None,
    };
    match uri.port_u16() {
        Some(port) if Some(port) != default => Some(format!("{host}:{port}")),
        Some(_) | None => Some(host.to_owned()),
    }
}

fn headers_to_sign(words: &Words, headers: &HeaderMap) -> Vec<HeaderName> {
    let is_signed = |name: &&HeaderName| {
        let name = name.as_str();
        name == "host" || name.starts_with(words.header) || SIGNED_HEADERS.contains(&name)
    };
    let mut names: Vec<HeaderName> = headers.keys().filter(is_signed).cloned().collect();
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    names
}

#[cfg(test)]
#[path = "sign_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "sign_google_tests.rs"]
mod google_tests;

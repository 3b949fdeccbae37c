//! The front of the `gcs` profile: Cloud Storage's XML API before the S3 that the store speaks.
//!
//! A request in Google's dialect (`GOOG4-HMAC-SHA256` in a header or in the query, or an OAuth
//! token) is verified here, and goes on as an S3 request that carries no signature, with a mark
//! that only this front can make ([`Admitted`]). A request signed as for Amazon goes on as it is,
//! and `s3s` verifies it. Both are answered with the generation of what they read or wrote.
//!
//! Facts: the design notes' *wire* §3; vdavid/cmdr, `crates/cmdr-s3/DETAILS.md`, "Providers" and
//! "Verified providers" (live, 2026-10); the live runs of Altinity's ClickHouse (2026-07 and
//! 2026-09: non-zero generations on PUT and DELETE, answers with `x-goog-generation`, Complete);
//! cloud.google.com/storage/docs/xml-api, pages `reference-headers`, `delete-object` and
//! `post-object-complete`. What is from elsewhere says so where it is.
//!
//! A generation is shown with PUT, Copy, GET and HEAD; not with Complete, where no source says that
//! it is.
//!
//! Not here: `compose` (which honours conditions, says Altinity's run), resumable uploads, RSA signatures, generations in the query (`?generation=`),
//! ACLs, transcoding of gzip, and updates of metadata in place.

mod dialect;
mod payload;
mod verify;

use super::errors::{authentication_required, excess_header_values, not_implemented};
use super::generation::{Admitted, METAGENERATION, Shown};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use dialect::Kind;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use s3s::service::S3Service;
use s3s::{Body, HttpError, S3Result, s3_error};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The front of one store.
#[derive(Debug)]
pub(super) struct Gcs {
    access_key_id: String,
    secret_access_key: String,
    /// OAuth tokens, and when they expire.
    tokens: Mutex<HashMap<String, SystemTime>>,
}

/// Whose dialect a request is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoken {
    Amazon,
    Google,
}

impl Gcs {
    pub(super) fn new(access_key_id: &str, secret_access_key: &str) -> Self {
        Self {
            access_key_id: access_key_id.to_owned(),
            secret_access_key: secret_access_key.to_owned(),
            tokens: Mutex::default(),
        }
    }

    /// Lets an OAuth token in until it expires, by the store's clock.
    pub(super) fn add_token(&self, token: &str, expires: SystemTime) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(token.to_owned(), expires);
    }

    /// Answers a request.
    pub(super) async fn call(
        &self,
        service: &S3Service,
        now: SystemTime,
        request: Request<Body>,
    ) -> Result<Response<Body>, HttpError> {
        let (spoken, mut request) = match self.admit(now, request) {
            Ok(admitted) => admitted,
            Err(error) => {
                tracing::debug!(%error, "refused by the front");
                return error.to_http_response().map_err(|error| HttpError::new(Box::new(error)));
            }
        };
        let shown = Shown::default();
        request.extensions_mut().insert(shown.clone());
        let mut response = service.call(request).await?;
        show(response.headers_mut(), &shown);
        match spoken {
            Spoken::Amazon => {}
            Spoken::Google => dialect::translate_answer(response.headers_mut()),
        }
        Ok(response)
    }

    /// The request as the store takes it.
    fn admit(&self, now: SystemTime, request: Request<Body>) -> S3Result<(Spoken, Request<Body>)> {
        let (mut parts, body) = request.into_parts();
        let authorization = parts.headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let query = parts.uri.query().unwrap_or_default();
        let token = authorization.and_then(|value| value.strip_prefix(b"Bearer "));
        let goog4 = authorization.is_some_and(|value| value.starts_with(verify::ALGORITHM))
            || query.split('&').any(|pair| pair.starts_with("X-Goog-Algorithm="));
        let spoken = if goog4 || token.is_some() { Spoken::Google } else { Spoken::Amazon };
        refuse_mixed(&parts, spoken)?;
        let body = match token {
            Some(token) => {
                self.check_token(now, token)?;
                body
            }
            None if goog4 => {
                let key = (self.access_key_id.as_str(), self.secret_access_key.as_str());
                payload::checked(verify::verify(&parts, key, now)?, &parts.headers, body)?
            }
            None => body,
        };
        let kind = Kind::of(&parts);
        refuse_unsupported(&parts, kind)?;
        match spoken {
            Spoken::Amazon => {}
            Spoken::Google => {
                let admitted = dialect::translate(&mut parts, kind)?;
                parts.extensions.insert::<Admitted>(admitted);
            }
        }
        Ok((spoken, Request::from_parts(parts, body)))
    }

    fn check_token(&self, now: SystemTime, token: &[u8]) -> S3Result<()> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let expires = std::str::from_utf8(token).ok().and_then(|token| tokens.get(token.trim()));
        match expires {
            Some(expires) if now < *expires => Ok(()),
            Some(_) | None => Err(authentication_required()),
        }
    }
}

/// "Cannot specify both x-amz and x-goog" headers; each dialect has its own. (Seen with a
/// precondition of Google's in a request signed as for Amazon. That a token, which either could
/// carry, takes only Google's, is an assumption: a proxy that forgets to translate is to know it.)
fn refuse_mixed(parts: &Parts, spoken: Spoken) -> S3Result<()> {
    let any = |prefix: &str| parts.headers.keys().any(|name| name.as_str().starts_with(prefix));
    let foreign = match spoken {
        Spoken::Amazon => "x-goog-",
        Spoken::Google => "x-amz-",
    };
    if any(foreign) { Err(excess_header_values()) } else { Ok(()) }
}

/// What Cloud Storage has not, in either dialect.
fn refuse_unsupported(parts: &Parts, kind: Kind) -> S3Result<()> {
    let headers = &parts.headers;
    let sends = matches!(parts.method, Method::PUT | Method::POST);
    let framed = headers.contains_key(header::CONTENT_LENGTH)
        || headers.contains_key(header::TRANSFER_ENCODING);
    if sends && !framed {
        return Err(s3_error!(MissingContentLength, "You must provide the Content-Length header."));
    }
    let named = |name: &str| {
        ["x-amz-", "x-goog-"].iter().find_map(|prefix| headers.get(format!("{prefix}{name}")))
    };
    if kind == Kind::Part && named("copy-source").is_some() {
        return Err(not_implemented());
    }
    match named("copy-source-if-match") {
        Some(pin) if names_multipart(pin) => Err(s3_error!(InvalidArgument, "Invalid argument.")),
        Some(_) | None => Ok(()),
    }
}

/// Whether it is the entity tag of a multipart object, which no source may be pinned with.
fn names_multipart(pin: &HeaderValue) -> bool {
    let tag = String::from_utf8_lossy(pin.as_bytes());
    let number = tag.trim_matches('"').rsplit_once('-').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Adds what an answer says of the version that it is about.
fn show(headers: &mut HeaderMap, shown: &Shown) {
    let Some(stamp) = shown.take() else { return };
    let md5 = stamp.md5.and_then(|md5| hex::decode(md5).ok()).map(|md5| BASE64.encode(md5));
    let hashes = [("crc32c", stamp.crc32c), ("md5", md5)];
    let hashes = hashes.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    let fields = [
        ("x-goog-generation", stamp.generation.to_string()),
        ("x-goog-metageneration", METAGENERATION.to_string()),
        ("x-goog-hash", hashes.collect::<Vec<_>>().join(",")),
    ];
    for (name, text) in fields {
        if let Ok(value) = HeaderValue::from_str(&text)
            && !text.is_empty()
        {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

//! What a client presents as its signature, parsed from the header or from the query.
//!
//! Parsing only: nothing here knows a secret or the time. The names of signature parameters are
//! matched without regard to case and after decoding, because a store may be that lenient; nothing
//! that it could read as a signature may slip past.

use http::request::Parts;
use http::{HeaderName, HeaderValue, header};

use super::amz_date::AmzDate;
use super::canonical::{ALGORITHM, decode_parameter, raw_parameters};
use super::error::AuthError;

/// The longest life of a presigned request, in seconds: seven days.
const EXPIRES_SECONDS_MAX: u64 = 604_800;

/// The signature that came with a request.
pub(super) struct Presented {
    /// The access key id, not yet looked up.
    pub(super) access_key_id: String,
    /// The region of the credential scope.
    pub(super) region: String,
    /// The moment of signing; the scope's date agrees with it.
    pub(super) date: AmzDate,
    /// The names that the signature covers, lower case, strictly ascending.
    pub(super) signed_headers: Vec<HeaderName>,
    /// The signature as sent. What it is compared with is lower-case hexadecimal.
    pub(super) signature: String,
    /// The life of a presigned request in seconds; `None` for the header form.
    pub(super) expires_seconds: Option<u64>,
}

/// The signature parameters of a query. Each is there at most once.
#[derive(Default)]
pub(super) struct SignatureQuery {
    algorithm: Option<String>,
    credential: Option<String>,
    date: Option<String>,
    expires: Option<String>,
    signed_headers: Option<String>,
    signature: Option<String>,
    /// `X-Amz-Security-Token`.
    pub(super) security_token: Option<String>,
    /// `X-Amz-Content-Sha256`, which some clients move into the query.
    pub(super) content_sha256: Option<String>,
    is_v2: bool,
}

impl SignatureQuery {
    /// Collects the signature parameters of a raw query.
    pub(super) fn parse(query: &str) -> Result<Self, AuthError> {
        let mut found = Self::default();
        for (name, value) in raw_parameters(query).map(decode_parameter) {
            let slot = match name.to_ascii_lowercase().as_slice() {
                b"x-amz-algorithm" => &mut found.algorithm,
                b"x-amz-credential" => &mut found.credential,
                b"x-amz-date" => &mut found.date,
                b"x-amz-expires" => &mut found.expires,
                b"x-amz-signedheaders" => &mut found.signed_headers,
                b"x-amz-signature" => &mut found.signature,
                b"x-amz-security-token" => &mut found.security_token,
                b"x-amz-content-sha256" => &mut found.content_sha256,
                b"awsaccesskeyid" | b"signature" => {
                    found.is_v2 = true;
                    continue;
                }
                _ => continue,
            };
            let value = String::from_utf8(value)
                .map_err(|_| AuthError::MalformedQuery("a parameter is not UTF-8"))?;
            if slot.replace(value).is_some() {
                return Err(AuthError::MalformedQuery("a parameter was sent more than once"));
            }
        }
        Ok(found)
    }

    /// Whether the query claims to sign the request.
    pub(super) fn signs(&self) -> bool {
        self.algorithm.is_some() || self.credential.is_some() || self.signature.is_some()
    }
}

/// Finds the one signature of a request.
pub(super) fn find(parts: &Parts, query: &SignatureQuery) -> Result<Presented, AuthError> {
    let mut headers = parts.headers.get_all(header::AUTHORIZATION).iter();
    match (headers.next(), headers.next()) {
        (Some(_), Some(_)) => Err(AuthError::RepeatedHeader(header::AUTHORIZATION)),
        (Some(_), None) if query.signs() || query.is_v2 => Err(AuthError::TwoMechanisms),
        (Some(value), None) => from_header(parts, value),
        (None, _) if query.signs() => from_query(query),
        (None, _) if query.is_v2 => Err(AuthError::SignatureV2),
        (None, _) => Err(AuthError::Anonymous),
    }
}

fn from_header(parts: &Parts, value: &HeaderValue) -> Result<Presented, AuthError> {
    use AuthError::MalformedHeader;
    let value = value.to_str().map_err(|_| MalformedHeader("it is not ASCII"))?;
    let (scheme, fields) = value.split_once(' ').unwrap_or((value, ""));
    match scheme {
        ALGORITHM => {}
        "AWS4-ECDSA-P256-SHA256" => return Err(AuthError::SignatureV4a),
        "AWS" => return Err(AuthError::SignatureV2),
        _ => return Err(AuthError::UnsupportedAuthorization),
    }
    let (mut credential, mut signed_headers, mut signature) = (None, None, None);
    for field in fields.split(',') {
        let (name, value) =
            field.trim().split_once('=').ok_or(MalformedHeader("a field has no value"))?;
        let slot = match name {
            "Credential" => &mut credential,
            "SignedHeaders" => &mut signed_headers,
            "Signature" => &mut signature,
            _ => return Err(MalformedHeader("it has a field that is not known")),
        };
        if slot.replace(value).is_some() {
            return Err(MalformedHeader("a field was given more than once"));
        }
    }
    let credential = credential.ok_or(MalformedHeader("Credential is missing"))?;
    let signed_headers = signed_headers.ok_or(MalformedHeader("SignedHeaders is missing"))?;
    let signature = signature.ok_or(MalformedHeader("Signature is missing"))?;
    let date = header_date(parts)?;
    let scope = Scope::parse(credential, &date).map_err(MalformedHeader)?;
    Ok(Presented {
        access_key_id: scope.access_key_id,
        region: scope.region,
        date,
        signed_headers: parse_signed_headers(signed_headers).map_err(MalformedHeader)?,
        signature: signature.to_owned(),
        expires_seconds: None,
    })
}

/// `X-Amz-Date` wins over `Date`, as on AWS.
fn header_date(parts: &Parts) -> Result<AmzDate, AuthError> {
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    let date = match parts.headers.get("x-amz-date") {
        Some(value) => text(value).and_then(|text| AmzDate::parse(&text)),
        None => parts
            .headers
            .get(header::DATE)
            .and_then(text)
            .and_then(|text| AmzDate::parse_date_header(&text)),
    };
    date.ok_or(AuthError::InvalidDate)
}

fn from_query(query: &SignatureQuery) -> Result<Presented, AuthError> {
    use AuthError::MalformedQuery;
    match query.algorithm.as_deref() {
        Some(ALGORITHM) => {}
        Some("AWS4-ECDSA-P256-SHA256") => return Err(AuthError::SignatureV4a),
        Some(_) => return Err(MalformedQuery("X-Amz-Algorithm only supports AWS4-HMAC-SHA256")),
        None => return Err(MalformedQuery("X-Amz-Algorithm is missing")),
    }
    let credential =
        query.credential.as_deref().ok_or(MalformedQuery("X-Amz-Credential is missing"))?;
    let signed_headers =
        query.signed_headers.as_deref().ok_or(MalformedQuery("X-Amz-SignedHeaders is missing"))?;
    let signature = query.signature.clone().ok_or(MalformedQuery("X-Amz-Signature is missing"))?;
    let date = query.date.as_deref().ok_or(MalformedQuery("X-Amz-Date is missing"))?;
    let date = AmzDate::parse(date)
        .ok_or(MalformedQuery("X-Amz-Date must be in the ISO8601 Long Format"))?;
    let expires = query.expires.as_deref().ok_or(MalformedQuery("X-Amz-Expires is missing"))?;
    let expires = super::payload::parse_decimal(expires)
        .filter(|seconds| (1..=EXPIRES_SECONDS_MAX).contains(seconds))
        .ok_or(MalformedQuery("X-Amz-Expires must be a number of seconds from 1 to 604800"))?;
    let scope = Scope::parse(credential, &date).map_err(MalformedQuery)?;
    Ok(Presented {
        access_key_id: scope.access_key_id,
        region: scope.region,
        date,
        signed_headers: parse_signed_headers(signed_headers).map_err(MalformedQuery)?,
        signature,
        expires_seconds: Some(expires),
    })
}

/// `AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request`, date and service checked.
pub(super) struct Scope {
    pub(super) access_key_id: String,
    pub(super) region: String,
}

impl Scope {
    pub(super) fn parse(credential: &str, date: &AmzDate) -> Result<Self, &'static str> {
        // From the right, because an access key id may contain a slash.
        let mut fields = credential.rsplitn(5, '/');
        let mut next = || fields.next().ok_or("the credential has too few fields");
        let (terminator, service, region, day, id) = (next()?, next()?, next()?, next()?, next()?);
        if terminator != "aws4_request" {
            return Err("the credential must end in aws4_request");
        }
        if service != "s3" {
            return Err("the service of the credential must be s3");
        }
        if region.is_empty() || !region.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("the credential has no region");
        }
        if day != date.day() {
            return Err("the date of the credential is not the date of the request");
        }
        Ok(Self { access_key_id: id.to_owned(), region: region.to_owned() })
    }
}

/// SigV4 wants the list in lower case and in order; anything else has two readings.
fn parse_signed_headers(list: &str) -> Result<Vec<HeaderName>, &'static str> {
    let mut names: Vec<HeaderName> = Vec::new();
    for name in list.split(';') {
        if name.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err("SignedHeaders must be in lower case");
        }
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| "SignedHeaders has a name that no header can have")?;
        if names.last().is_some_and(|last| last.as_str() >= name.as_str()) {
            return Err("SignedHeaders must be sorted and name every header once");
        }
        names.push(name);
    }
    Ok(names)
}

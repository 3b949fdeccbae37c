//! What a signed request must fulfil besides its signature.
//!
//! `s3s` verifies the signature itself (header and query form) before this runs. It leaves open
//! what Amazon refuses, and what the fence's expiry rule (F9) leans on:
//!
//! - it judges the age of a signature by the machine's clock, which a test cannot shift. Its
//!   window is opened wide and the age is judged here, by the store's clock. One check cannot be
//!   opened: it refuses a presigned request that is older than its `X-Amz-Expires` by the machine's
//!   clock, so a store clock that is *behind* does not prolong one;
//! - it accepts Signature Version 2, whose header form never expires;
//! - it accepts `x-amz-*` headers that the signature does not cover (the flaw of CVE-2026-97731).

use super::errors::sha256_mismatch;
use super::generation::Admitted;
use super::profile::Trailers;
use super::store::Store;
use async_trait::async_trait;
use http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;
use s3s::access::{S3Access, S3AccessContext};
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::{S3Result, s3_error};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How far a request's time may be from the store's
/// (Amazon S3 API reference, error code `RequestTimeTooSkewed`).
const SKEW_MAX: Duration = Duration::from_secs(15 * 60);

/// The longest life of a presigned request in seconds
/// (Amazon S3 API reference, "Authenticating requests: using query parameters").
const EXPIRES_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// The checks on every request whose signature is valid.
pub(super) struct Access {
    pub(super) store: Arc<Store>,
}

#[async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        // The front has verified it; see `gcs`.
        if cx.extensions_mut().get::<Admitted>().is_some() {
            return Ok(());
        }
        if cx.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "Access Denied"));
        }
        check_trailer(cx.headers(), self.store.behaviour.trailers)?;
        check(self.store.clock.now(), cx.method(), cx.uri(), cx.headers())
    }
}

/// Whether the store takes a body with the trailer that this one announces, if it does.
fn check_trailer(headers: &HeaderMap, trailers: Trailers) -> S3Result<()> {
    let framing = headers.get("x-amz-content-sha256").map(http::HeaderValue::as_bytes);
    let signed = match framing {
        Some(b"STREAMING-UNSIGNED-PAYLOAD-TRAILER") => false,
        Some(b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER") => true,
        Some(_) | None => return Ok(()),
    };
    match trailers {
        Trailers::Unsigned if signed => Err(s3_error!(InvalidRequest, "unsupported trailer")),
        Trailers::Taken | Trailers::Unsigned => Ok(()),
        Trailers::Refused => Err(sha256_mismatch()),
    }
}

fn check(now: SystemTime, method: &Method, uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    let version_2 = || {
        s3_error!(
            InvalidRequest,
            "The authorization mechanism you have provided is not supported. Please use \
             AWS4-HMAC-SHA256."
        )
    };
    let query = Query::of(uri);
    if query.get("Signature").is_some() {
        return Err(version_2());
    }
    if let Some(authorization) = headers.get("authorization") {
        let authorization = authorization.to_str().unwrap_or_default();
        let signature = authorization.strip_prefix("AWS4-HMAC-SHA256").ok_or_else(version_2)?;
        let date = headers.get("x-amz-date").and_then(|date| date.to_str().ok());
        check_skew(now, parse_amz_date(date.unwrap_or_default())?)?;
        let signed = signature.split([',', ' ']).find_map(|p| p.strip_prefix("SignedHeaders="));
        return check_signed(headers, signed.unwrap_or_default(), &[]);
    }
    if let Some(signed) = query.get("X-Amz-SignedHeaders") {
        check_presigned(now, &query)?;
        // Its hash is in the query form's canonical request as `UNSIGNED-PAYLOAD`, so the header
        // is checked against the body and needs no signature.
        return check_signed(headers, &signed, &["x-amz-content-sha256"]);
    }
    // A POST form carries its signature, and a policy with an expiry, in the body.
    if *method == Method::POST { Ok(()) } else { Err(version_2()) }
}

pub(super) fn check_skew(now: SystemTime, signed_at: SystemTime) -> S3Result<()> {
    let apart = now.duration_since(signed_at).unwrap_or_else(|early| early.duration());
    if apart > SKEW_MAX {
        return Err(s3_error!(
            RequestTimeTooSkewed,
            "The difference between the request time and the server's time is too large."
        ));
    }
    Ok(())
}

fn check_presigned(now: SystemTime, query: &Query<'_>) -> S3Result<()> {
    let signed_at = parse_amz_date(&query.get("X-Amz-Date").unwrap_or_default())?;
    let expires = query.get("X-Amz-Expires").and_then(|text| text.parse::<u64>().ok());
    let expires = expires.filter(|seconds| (1..=EXPIRES_SECONDS_MAX).contains(seconds));
    let expires = expires.ok_or_else(|| {
        s3_error!(
            AuthorizationQueryParametersError,
            "X-Amz-Expires must be between 1 and 604800 seconds"
        )
    })?;
    if now > signed_at + Duration::from_secs(expires) {
        return Err(s3_error!(AccessDenied, "Request has expired"));
    }
    if signed_at > now + SKEW_MAX {
        return Err(s3_error!(AccessDenied, "Request is not valid yet"));
    }
    Ok(())
}

/// Every `x-amz-*` header must be covered by the signature.
fn check_signed(headers: &HeaderMap, signed: &str, exempt: &[&str]) -> S3Result<()> {
    let covered = |name: &str| signed.split(';').any(|signed| signed.eq_ignore_ascii_case(name));
    let amazon = headers.keys().map(http::HeaderName::as_str).filter(|n| n.starts_with("x-amz-"));
    for name in amazon {
        if !exempt.contains(&name) && !covered(name) {
            return Err(s3_error!(
                AccessDenied,
                "There were headers present in the request which were not signed: {}",
                name
            ));
        }
    }
    Ok(())
}

/// `20261129T101112Z`.
pub(super) fn parse_amz_date(text: &str) -> S3Result<SystemTime> {
    let invalid = || s3_error!(AccessDenied, "a valid X-Amz-Date is required");
    if text.len() != "20261129T101112Z".len() || !text.is_ascii() {
        return Err(invalid());
    }
    let (day, time) = text.split_once('T').ok_or_else(invalid)?;
    let part = |of: &str, at: std::ops::Range<usize>| of.get(at).unwrap_or_default().to_owned();
    let iso = format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(day, 0..4),
        part(day, 4..6),
        part(day, 6..8),
        part(time, 0..2),
        part(time, 2..4),
        part(time, 4..6)
    );
    let timestamp = Timestamp::parse(TimestampFormat::DateTime, &iso).map_err(|_| invalid())?;
    let seconds = super::ops::epoch_seconds(&timestamp).ok_or_else(invalid)?;
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// The parameters of a query, decoded when asked for.
struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    fn of(uri: &'a Uri) -> Self {
        Self(uri.query().unwrap_or_default())
    }

    fn get(&self, wanted: &str) -> Option<String> {
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs
            .map(|(name, value)| (decode(name), value))
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| decode(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SystemTime {
        parse_amz_date(text).unwrap()
    }

    #[test]
    fn dates() {
        let expected = httpdate::parse_http_date("Sun, 29 Nov 2026 10:11:12 GMT").unwrap();
        assert_eq!(at("20261129T101112Z"), expected);
        for wrong in ["", "20261129", "20261129T101112", "2026-11-29T10:11:12Z", "20261329T101112Z"]
        {
            assert!(parse_amz_date(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn skew_is_fifteen_minutes_either_way() {
        let now = at("20261129T100000Z");
        assert!(check_skew(now, at("20261129T094500Z")).is_ok());
        assert!(check_skew(now, at("20261129T101500Z")).is_ok());
        assert!(check_skew(now, at("20261129T094459Z")).is_err());
        assert!(check_skew(now, at("20261129T101501Z")).is_err());
    }

    #[test]
    fn a_presigned_request_expires() {
        let check = |now, expires: &str| {
            let query = format!("X-Amz-Date=20261129T100000Z&X-Amz-Expires={expires}");
            check_presigned(at(now), &Query(&query))
        };
        assert!(check("20261129T100005Z", "5").is_ok());
        assert!(check("20261129T100006Z", "5").is_err());
        assert!(check("20261129T094459Z", "5").is_err());
        for wrong in ["0", "604801", "", "-1"] {
            assert!(check("20261129T100000Z", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn version_2_is_refused() {
        let check = |uri: &'static str, authorization: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(authorization) = authorization {
                headers.insert("authorization", authorization.parse().unwrap());
            }
            headers.insert("x-amz-date", "20261129T100000Z".parse().unwrap());
            check(at("20261129T100000Z"), &Method::GET, &Uri::from_static(uri), &headers)
        };
        let version_4 = "AWS4-HMAC-SHA256 Credential=a/b,SignedHeaders=host;x-amz-date,Signature=c";
        assert!(check("/b/k", Some(version_4)).is_ok());
        assert!(check("/b/k?AWSAccessKeyId=a&Expires=1&Signature=c", None).is_err());
        assert!(check("/b/k?Signature=c", Some(version_4)).is_err());
        assert!(check("/b/k", Some("AWS a:c")).is_err());
        assert!(check("/b/k", None).is_err());
    }

    #[test]
    fn amazon_headers_must_be_signed() {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-meta-a", "1".parse().unwrap());
        headers.insert("if-match", "\"a\"".parse().unwrap());
        assert!(check_signed(&headers, "host;x-amz-meta-a", &[]).is_ok());
        assert!(check_signed(&headers, "host", &["x-amz-meta-a"]).is_ok());
        assert!(check_signed(&headers, "host;x-amz-meta", &[]).is_err());
    }
}

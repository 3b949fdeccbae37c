//! Google's names for things and Amazon's: what a request in Google's dialect is in S3, and an
//! answer the other way.

use crate::devstore::errors::{invalid_header, not_implemented};
use crate::devstore::generation::{Admitted, Generations};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use s3s::{S3Result, s3_error};

/// Headers that mean the same under either prefix.
const SAME: [&str; 7] = [
    "acl",
    "copy-source",
    "copy-source-if-match",
    "copy-source-if-modified-since",
    "copy-source-if-none-match",
    "copy-source-if-unmodified-since",
    "metadata-directive",
];

const GOOGLE: &str = "x-goog-";
const AMAZON: &str = "x-amz-";

/// What the query makes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `POST ?uploads`.
    Initiate,
    /// `PUT ?partNumber&uploadId`.
    Part,
    /// `POST ?uploadId`, `DELETE ?uploadId`, `GET ?uploadId`.
    Upload,
    Other,
}

impl Kind {
    pub(super) fn of(parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        let has = |wanted: &str| {
            query.split('&').any(|pair| pair.split('=').next().is_some_and(|name| name == wanted))
        };
        match parts.method {
            Method::POST if has("uploads") => Self::Initiate,
            Method::PUT if has("uploadId") => Self::Part,
            _ if has("uploadId") => Self::Upload,
            _ => Self::Other,
        }
    }
}

/// Makes an S3 request of one in Google's dialect, and says what it wants of generations.
///
/// # Errors
///
/// `NotImplemented` for a condition that this front does not know, and for any at the beginning of
/// an upload; `InvalidArgument` for one that is no number.
pub(super) fn translate(parts: &mut Parts, kind: Kind) -> S3Result<Admitted> {
    let admitted = Admitted {
        conditions: generations(&mut parts.headers, "x-goog-if-")?,
        source: generations(&mut parts.headers, "x-goog-copy-source-if-")?,
    };
    let headers = std::mem::take(&mut parts.headers);
    for (name, value) in &headers {
        if let Some(name) = translated(name)? {
            parts.headers.append(name, value.clone());
        }
    }
    if let Some(hash) = headers.get("x-goog-hash") {
        claim(&mut parts.headers, hash)?;
    }
    parts.headers.remove(header::AUTHORIZATION);
    parts.uri = unsigned(&parts.uri)?;
    match kind {
        Kind::Initiate if !admitted.conditions.are_free() => Err(not_implemented()),
        // "Complete multipart upload" ignores them, measured twice.
        Kind::Part | Kind::Upload => {
            Ok(Admitted { conditions: Generations::default(), ..admitted })
        }
        Kind::Initiate | Kind::Other => Ok(admitted),
    }
}

/// Takes the two conditions with this prefix.
fn generations(headers: &mut HeaderMap, prefix: &str) -> S3Result<Generations> {
    let mut number = |what: &str| {
        let value = headers.remove(format!("{prefix}{what}-match"));
        let number = |value: HeaderValue| value.to_str().ok().and_then(|text| text.parse().ok());
        value.map(|value| number(value).ok_or_else(invalid_header)).transpose()
    };
    Ok(Generations { generation: number("generation")?, metageneration: number("metageneration")? })
}

/// A header's name in S3; `None` for what has none there.
fn translated(name: &HeaderName) -> S3Result<Option<HeaderName>> {
    let Some(rest) = name.as_str().strip_prefix(GOOGLE) else { return Ok(Some(name.clone())) };
    if rest.starts_with("meta-") || SAME.contains(&rest) {
        return Ok(format!("{AMAZON}{rest}").parse().ok());
    }
    // A condition that was overlooked would be a lie.
    if rest.starts_with("if-") || rest.starts_with("copy-source") {
        return Err(not_implemented());
    }
    Ok(None)
}

/// What `x-goog-hash` says of the body.
fn claim(headers: &mut HeaderMap, hash: &HeaderValue) -> S3Result<()> {
    for part in hash.to_str().map_err(|_| invalid_header())?.split(',') {
        let (name, value) = part.trim().split_once('=').ok_or_else(invalid_header)?;
        let name = match name {
            "md5" => "content-md5",
            "crc32c" => "x-amz-checksum-crc32c",
            _ => return Err(invalid_header()),
        };
        let value = HeaderValue::from_str(value).map_err(|_| invalid_header())?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(())
}

/// The target without its signature.
fn unsigned(uri: &Uri) -> S3Result<Uri> {
    let query = uri.query().unwrap_or_default();
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("X-Goog-"));
    let kept = kept.collect::<Vec<_>>().join("&");
    let target = if kept.is_empty() { uri.path().into() } else { format!("{}?{kept}", uri.path()) };
    let target: PathAndQuery = target.parse().map_err(|_| s3_error!(InvalidURI))?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target);
    Uri::from_parts(parts).map_err(|_| s3_error!(InvalidURI))
}

/// Makes an answer in Google's dialect of one in S3: metadata under its other name, and nothing
/// else of Amazon's.
pub(super) fn translate_answer(headers: &mut HeaderMap) {
    let answered = std::mem::take(headers);
    for (name, value) in &answered {
        match name.as_str().strip_prefix(AMAZON) {
            None => drop(headers.append(name, value.clone())),
            Some(rest) if rest.starts_with("meta-") => {
                if let Ok(name) = format!("{GOOGLE}{rest}").parse::<HeaderName>() {
                    headers.append(name, value.clone());
                }
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn translated(
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> S3Result<(Admitted, Parts)> {
        let mut parts = parts(method, uri, headers);
        let kind = Kind::of(&parts);
        Ok((translate(&mut parts, kind)?, parts))
    }

    #[test]
    fn a_request_in_the_other_dialect() {
        let headers = [
            ("authorization", "Bearer t"),
            ("content-type", "a/b"),
            ("x-goog-copy-source", "/b/k"),
            ("x-goog-copy-source-if-generation-match", "8"),
            ("x-goog-date", "20261129T101112Z"),
            ("x-goog-hash", "crc32c=AAAAAA==,md5=AAAA"),
            ("x-goog-if-generation-match", "7"),
            ("x-goog-meta-a", "1"),
            ("x-goog-storage-class", "STANDARD"),
        ];
        let (admitted, parts) = translated("PUT", "/b/k?a=b&X-Goog-Signature=x", &headers).unwrap();
        assert_eq!(admitted.conditions.generation, Some(7));
        assert_eq!(admitted.source.generation, Some(8));
        assert_eq!(parts.uri, "/b/k?a=b");
        let mut names: Vec<_> = parts.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let expected = [
            "content-md5",
            "content-type",
            "x-amz-checksum-crc32c",
            "x-amz-copy-source",
            "x-amz-meta-a",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn conditions_where_there_are_none() {
        let condition = [("x-goog-if-generation-match", "0")];
        let refused = |method, uri, headers: &[(&str, &str)]| {
            translated(method, uri, headers).unwrap_err().code().as_str().to_owned()
        };
        assert_eq!(refused("POST", "/b/k?uploads", &condition), "NotImplemented");
        let unknown = [("x-goog-if-generation-not-match", "1")];
        assert_eq!(refused("PUT", "/b/k", &unknown), "NotImplemented");
        let no_number = [("x-goog-if-generation-match", "\"1\"")];
        assert_eq!(refused("PUT", "/b/k", &no_number), "InvalidArgument");
        for (method, uri) in [("POST", "/b/k?uploadId=u"), ("PUT", "/b/k?partNumber=1&uploadId=u")]
        {
            let (admitted, _) = translated(method, uri, &condition).unwrap();
            assert!(admitted.conditions.are_free(), "{uri}: ignored");
        }
    }

    #[test]
    fn an_answer_in_the_other_dialect() {
        let answer = [("etag", "\"a\""), ("x-amz-meta-a", "1"), ("x-amz-version-id", "v")];
        let mut headers = parts("GET", "/", &answer).headers;
        translate_answer(&mut headers);
        assert_eq!(headers.len(), 2);
        assert_eq!(headers["x-goog-meta-a"], "1");
    }
}

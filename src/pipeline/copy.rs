//! CopyObject: the destination is fenced, the source is pinned.
//!
//! The source is looked at first. Its ETag foretells the tag that the copy leaves (F4), and pins
//! what is copied. Its metadata is sent along in place of the store's copying it, so that the
//! copy can carry a stamp of its own (F10).

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::plan::Planned;
use super::{Proxy, Understood, respond};
use crate::fence::{Assembly, OperationId, Tag, Terms, Token};
use crate::s3::{CopySource, S3Error, Target, parse_if_match};
use crate::upstream::{Dialect, Route, WriteRequest, stamp};

const COPY_SOURCE: HeaderName = HeaderName::from_static("x-amz-copy-source");
const SOURCE_IF_MATCH: HeaderName = HeaderName::from_static("x-amz-copy-source-if-match");
const SSE: HeaderName = HeaderName::from_static("x-amz-server-side-encryption");
const DIRECTIVE: HeaderName = HeaderName::from_static("x-amz-metadata-directive");
const SSE_C_OF_SOURCE: &str = "x-amz-copy-source-server-side-encryption-customer-algorithm";

/// The metadata of an object that is no `x-amz-meta-*`.
const SYSTEM_METADATA: [HeaderName; 6] = [
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_TYPE,
    header::EXPIRES,
];

/// What a copy onto itself may change instead of its metadata.
const CHANGES: [&str; 4] = [
    "x-amz-storage-class",
    "x-amz-server-side-encryption",
    "x-amz-website-redirect-location",
    "x-amz-tagging-directive",
];

/// What HEAD shows of an object that a copy onto itself has to say again to keep it.
const KEPT_BY_A_REWRITE: [&str; 9] = [
    "x-amz-storage-class",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-bucket-key-enabled",
    "x-amz-website-redirect-location",
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-lock-legal-hold",
    // Google's, which lifecycle rules go by.
    "x-goog-custom-time",
];

impl Proxy {
    /// Makes `headers` those of a copy that is stamped and whose source is pinned.
    ///
    /// # Errors
    ///
    /// When the source cannot be read, or cannot be copied in this way.
    pub(super) async fn prepare_copy(
        &self,
        request: &Understood,
        headers: &mut HeaderMap,
        token: Token,
        id: OperationId,
        planned: &Planned,
    ) -> Result<Assembly, S3Error> {
        if headers.contains_key(SSE_C_OF_SOURCE) {
            return Err(respond::unsupported_encryption(SSE_C_OF_SOURCE));
        }
        let mut values = headers.get_all(&COPY_SOURCE).iter();
        let source = match (values.next(), values.next()) {
            (Some(value), None) => CopySource::parse(value).map_err(respond::invalid_target)?,
            (_, _) => return Err(respond::malformed_header(COPY_SOURCE)),
        };
        let keeps_metadata = keeps_metadata(headers)?;
        let Target::Object(bucket, key) = &request.target else {
            return Err(respond::malformed_header(COPY_SOURCE));
        };
        let onto_itself =
            source.bucket == *bucket && source.key == *key && source.version_id.is_none();
        let changes = CHANGES.iter().any(|name| headers.contains_key(*name));
        if onto_itself && keeps_metadata && !changes {
            return Err(respond::copy_changes_nothing());
        }
        let found = self.look_at(request, &source).await?;
        let dialect = self.0.upstream.dialect();
        let Some(Tag::Version(tag)) = self.0.upstream.tag_of(&found) else {
            return Err(respond::unavailable());
        };
        if keeps_metadata {
            take_over_metadata(headers, &found);
        }
        headers.insert(COPY_SOURCE, source.to_header());
        refuse_another_source(headers, dialect.etag_of(&tag))?;
        let plan = &self.0.settings.plan;
        let pin = HeaderValue::from_str(&plan.etag_quotes.write(&tag));
        headers.insert(SOURCE_IF_MATCH, pin.expect("it came in a header"));
        // Another version of the source than was looked at leaves another tag.
        let pinned = dialect == Dialect::S3 && plan.pins_copy_source;
        let foretold = pinned && keeps_etag(&tag, &found, headers);
        stamp(headers, token, id);
        Ok(Assembly {
            leaves: foretold.then_some(Tag::Version(tag)),
            enforcement: planned.enforcement(),
            of_upload: false,
        })
    }

    /// The copy of an object onto itself that changes nothing but its tag (F14). Its ACL is not
    /// kept, because S3 copies none.
    ///
    /// # Errors
    ///
    /// When the object cannot be looked at.
    pub(super) async fn rewriting(
        &self,
        request: &WriteRequest,
        terms: &Terms,
    ) -> Result<WriteRequest, String> {
        let (status, found) =
            self.0.upstream.head(&request.route).await.map_err(|error| error.to_string())?;
        if status != StatusCode::OK {
            return Err(format!("the object was answered with {status}"));
        }
        let Tag::Version(etag) = &terms.expects else {
            return Err("there is no object to rewrite".to_owned());
        };
        let mut headers = HeaderMap::new();
        take_over_metadata(&mut headers, &found);
        for name in KEPT_BY_A_REWRITE {
            if let Some(value) = found.get(name) {
                headers.insert(HeaderName::from_static(name), value.clone());
            }
        }
        let source = HeaderValue::from_str(&request.route.path);
        headers.insert(COPY_SOURCE, source.map_err(|error| error.to_string())?);
        let pin = HeaderValue::from_str(&request.quotes.write(etag));
        headers.insert(SOURCE_IF_MATCH, pin.map_err(|error| error.to_string())?);
        stamp(&mut headers, terms.token, terms.operation);
        Ok(WriteRequest { headers, ..request.clone() })
    }

    async fn look_at(
        &self,
        request: &Understood,
        source: &CopySource,
    ) -> Result<HeaderMap, S3Error> {
        let route = Route::to_object(&source.bucket, &source.key);
        let route = match &source.version_id {
            Some(id) => route.with_query(format!("versionId={id}")),
            None => route,
        };
        let (status, headers) = self.0.upstream.head(&route).await.map_err(|error| {
            tracing::warn!(request_id = %request.id, %error, "the source could not be looked at");
            respond::unavailable()
        })?;
        match status {
            StatusCode::OK => Ok(headers),
            StatusCode::NOT_FOUND => Err(respond::no_such_key()),
            StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST => {
                Err(respond::source_not_readable(status))
            }
            other => {
                tracing::warn!(request_id = %request.id, status = %other, "no source was shown");
                Err(respond::unavailable())
            }
        }
    }
}

/// Whether a copy has the ETag of its source. That of a multipart upload may become that of the
/// whole, depending on the store; that of an encrypted object is no MD5, though it looks like one.
fn keeps_etag(etag: &str, source: &HeaderMap, copy: &HeaderMap) -> bool {
    let is_plain = |headers: &HeaderMap| {
        headers.get(SSE).is_none_or(|encryption| encryption.as_bytes() == b"AES256")
    };
    let looks_like_md5 = etag.len() == 32 && etag.bytes().all(|byte| byte.is_ascii_hexdigit());
    looks_like_md5 && is_plain(source) && is_plain(copy)
}

/// The client's own condition on the source, judged on what was looked at, because the pin takes
/// its place.
fn refuse_another_source(headers: &HeaderMap, etag: &str) -> Result<(), S3Error> {
    let mut wanted = headers.get_all(&SOURCE_IF_MATCH).iter();
    match (wanted.next(), wanted.next()) {
        (None, _) => Ok(()),
        (Some(_), Some(_)) => Err(respond::malformed_header(SOURCE_IF_MATCH)),
        (Some(value), None) => {
            let text = value.to_str().map_err(|_| respond::malformed_header(SOURCE_IF_MATCH))?;
            let wanted = parse_if_match(text)
                .map_err(|error| respond::invalid_condition(SOURCE_IF_MATCH, error))?;
            match wanted {
                Some(wanted) if wanted != etag => Err(respond::source_condition_failed()),
                Some(_) | None => Ok(()),
            }
        }
    }
}

/// Whether the copy keeps the metadata of its source, which it does unless told otherwise.
fn keeps_metadata(headers: &HeaderMap) -> Result<bool, S3Error> {
    match headers.get(&DIRECTIVE).map(HeaderValue::as_bytes) {
        None | Some(b"COPY") => Ok(true),
        Some(b"REPLACE") => Ok(false),
        Some(_) => Err(respond::malformed_header(DIRECTIVE)),
    }
}

/// Says in the request what the store would have copied.
fn take_over_metadata(headers: &mut HeaderMap, source: &HeaderMap) {
    let is_metadata = |name: &HeaderName| {
        SYSTEM_METADATA.contains(name) || name.as_str().starts_with("x-amz-meta-")
    };
    let own: Vec<HeaderName> = headers.keys().filter(|name| is_metadata(name)).cloned().collect();
    for name in own {
        headers.remove(name);
    }
    for (name, value) in source.iter().filter(|(name, _)| is_metadata(name)) {
        headers.append(name.clone(), value.clone());
    }
    headers.insert(DIRECTIVE, HeaderValue::from_static("REPLACE"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn what_the_store_would_have_copied_is_sent_along() {
        let mut copy = headers(&[
            ("x-amz-copy-source", "/b/k"),
            ("content-type", "theirs"),
            ("x-amz-meta-own", "ignored by S3"),
            ("x-amz-storage-class", "STANDARD_IA"),
        ]);
        let source = headers(&[
            ("content-type", "text/plain"),
            ("expires", "never"),
            ("x-amz-meta-a", "b"),
            ("x-amz-storage-class", "GLACIER"),
            ("etag", "\"e\""),
            ("content-length", "3"),
        ]);
        take_over_metadata(&mut copy, &source);
        let expected = headers(&[
            ("x-amz-copy-source", "/b/k"),
            ("x-amz-storage-class", "STANDARD_IA"),
            ("content-type", "text/plain"),
            ("expires", "never"),
            ("x-amz-meta-a", "b"),
            ("x-amz-metadata-directive", "REPLACE"),
        ]);
        assert_eq!(copy, expected);
    }

    #[test]
    fn what_is_encrypted_or_was_uploaded_in_parts_may_get_another_etag() {
        let md5 = "0cc175b9c0f1b6a831c399e269772661";
        let kms = headers(&[("x-amz-server-side-encryption", "aws:kms")]);
        let s3 = headers(&[("x-amz-server-side-encryption", "AES256")]);
        let none = headers(&[]);
        assert!(keeps_etag(md5, &none, &none));
        assert!(keeps_etag(md5, &s3, &none));
        assert!(!keeps_etag(md5, &kms, &none));
        assert!(!keeps_etag(md5, &none, &kms));
        assert!(!keeps_etag("0cc175b9c0f1b6a831c399e269772661-2", &none, &none));
    }

    #[test]
    fn the_directive_is_one_of_two() {
        assert!(keeps_metadata(&headers(&[])).unwrap());
        assert!(keeps_metadata(&headers(&[("x-amz-metadata-directive", "COPY")])).unwrap());
        assert!(!keeps_metadata(&headers(&[("x-amz-metadata-directive", "REPLACE")])).unwrap());
        assert!(keeps_metadata(&headers(&[("x-amz-metadata-directive", "replace")])).is_err());
    }
}

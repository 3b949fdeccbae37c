//! `PostObject`: what a browser's form asks for, as the PUT that it amounts to, and the answers
//! that a form gets.
//!
//! Fields that a PUT has as headers become headers. Other `x-amz-` fields are refused, because
//! they may say something that would be dropped; all others are ignored, as on AWS (a form has
//! buttons and fields of its own).

use std::fmt::Write as _;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::form::{FormError, PostForm};
use super::target::KEY_BYTES_MAX;
use super::xml::{Element, Writer};
use super::{Bucket, ObjectKey};

/// What a form asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostObject {
    /// The key to write.
    pub key: ObjectKey,
    /// The headers of the PUT.
    pub headers: HeaderMap,
    /// How a success is answered.
    pub on_success: OnSuccess,
}

/// How a success is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnSuccess {
    /// With nothing: 200 or 204.
    Status(StatusCode),
    /// 201, with a document that says what was written.
    Document,
    /// By sending the browser on.
    Redirect(Uri),
}

/// Fields that are headers under the same name.
const HEADERS: [&str; 6] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-md5",
    "content-type",
    "expires",
];

/// `x-amz-` fields that are headers under the same name.
const AMZ_HEADERS: [&str; 8] = [
    "x-amz-acl",
    "x-amz-expected-bucket-owner",
    "x-amz-request-payer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-storage-class",
    "x-amz-server-side-encryption",
    "x-amz-tagging",
    "x-amz-website-redirect-location",
];

/// Beginnings of the names of further such fields.
const AMZ_PREFIXES: [&str; 5] = [
    "x-amz-checksum-",
    "x-amz-grant-",
    "x-amz-meta-",
    "x-amz-object-lock-",
    "x-amz-server-side-encryption-",
];

/// `x-amz-` fields that have been dealt with elsewhere: the signature's.
const AMZ_SIGNATURE: [&str; 5] = [
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-security-token",
    "x-amz-signature",
];

impl PostObject {
    /// Reads the fields of a form.
    ///
    /// # Errors
    ///
    /// [`FormError`].
    pub fn of(form: &PostForm) -> Result<Self, FormError> {
        let key = form.get("key").ok_or(FormError::Missing("key"))?;
        if key.len() > KEY_BYTES_MAX {
            return Err(FormError::KeyTooLong);
        }
        let key = ObjectKey::new(key).ok_or_else(|| invalid("key", "is empty"))?;
        let mut headers = HeaderMap::new();
        // An empty field is one that was not filled in.
        for (name, value) in form.iter().filter(|(_, value)| !value.is_empty()) {
            match name {
                "acl" => insert(&mut headers, name, "x-amz-acl", value)?,
                "tagging" => insert(&mut headers, name, "x-amz-tagging", &tagging(value)?)?,
                _ if is_header(name) => insert(&mut headers, name, name, value)?,
                _ if AMZ_SIGNATURE.contains(&name) => {}
                _ if name.starts_with("x-amz-") => {
                    return Err(invalid(name, "is not one that a form can have here"));
                }
                _ => {}
            }
        }
        Ok(Self { key, headers, on_success: OnSuccess::of(form) })
    }
}

fn is_header(name: &str) -> bool {
    HEADERS.contains(&name)
        || AMZ_HEADERS.contains(&name)
        || AMZ_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn invalid(name: &str, problem: &'static str) -> FormError {
    FormError::Invalid { name: name.to_owned(), problem }
}

fn insert(headers: &mut HeaderMap, field: &str, name: &str, value: &str) -> Result<(), FormError> {
    let name = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| invalid(field, "has a name that no header can have"))?;
    let value = HeaderValue::from_bytes(value.as_bytes())
        .map_err(|_| invalid(field, "has a value that no header can have"))?;
    match headers.insert(name, value) {
        None => Ok(()),
        // `acl` and `x-amz-acl`, `tagging` and `x-amz-tagging`.
        Some(_) => Err(FormError::Repeated(field.to_owned())),
    }
}

/// A tag set as the header `x-amz-tagging` has it.
fn tagging(document: &str) -> Result<String, FormError> {
    let malformed = || invalid("tagging", "is not a Tagging document");
    let root = Element::parse(document.as_bytes(), "Tagging").map_err(|_| malformed())?;
    let [set] = root.children.as_slice() else { return Err(malformed()) };
    if set.name != "TagSet" {
        return Err(malformed());
    }
    let mut header = String::new();
    for tag in &set.children {
        let [key, value] = tag.children.as_slice() else { return Err(malformed()) };
        let named = [&*tag.name, &*key.name, &*value.name] == ["Tag", "Key", "Value"];
        if !named {
            return Err(malformed());
        }
        let encoded = |element: &Element| {
            let text = element.text().map_err(|_| malformed())?;
            Ok(utf8_percent_encode(text, NON_ALPHANUMERIC).to_string())
        };
        let (key, value) = (encoded(key)?, encoded(value)?);
        let separator = if header.is_empty() { "" } else { "&" };
        write!(header, "{separator}{key}={value}").expect("writing to a string cannot fail");
    }
    Ok(header)
}

impl OnSuccess {
    /// A redirect wins. What is not understood counts as not given, as on AWS.
    fn of(form: &PostForm) -> Self {
        let redirect = form.get("success_action_redirect").or_else(|| form.get("redirect"));
        if let Some(uri) = redirect.and_then(redirect_target) {
            return Self::Redirect(uri);
        }
        match form.get("success_action_status") {
            Some("200") => Self::Status(StatusCode::OK),
            Some("201") => Self::Document,
            Some(_) | None => Self::Status(StatusCode::NO_CONTENT),
        }
    }

    /// Status, `Location` and body of the answer. `location` is where the object is; `etag` is
    /// without quotes.
    #[must_use]
    pub fn answer(
        &self,
        location: &str,
        bucket: &Bucket,
        key: &ObjectKey,
        etag: &str,
    ) -> (StatusCode, Option<HeaderValue>, String) {
        let here = HeaderValue::from_str(location).ok();
        match self {
            Self::Status(status) => (*status, here, String::new()),
            Self::Document => {
                let mut xml = Writer::without_namespace("PostResponse");
                xml.element("Location", location);
                xml.element("Bucket", bucket.as_str());
                xml.element("Key", &String::from_utf8_lossy(key.as_bytes()));
                xml.element("ETag", &format!("\"{etag}\""));
                (StatusCode::CREATED, here, xml.finish("PostResponse"))
            }
            Self::Redirect(uri) => {
                let to = with_result(uri, bucket, key, etag).and_then(|uri| uri.parse().ok());
                // A URI that has become too long: S3 would ignore such a field, too.
                to.map_or((StatusCode::NO_CONTENT, here, String::new()), |to| {
                    (StatusCode::SEE_OTHER, Some(to), String::new())
                })
            }
        }
    }
}

/// An absolute `http` or `https` URL with a host, and nobody's name before it.
fn redirect_target(text: &str) -> Option<Uri> {
    let uri: Uri = text.parse().ok()?;
    let web = matches!(uri.scheme_str(), Some("http" | "https"));
    let host = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    (web && host).then_some(uri)
}

/// The URL with bucket, key and ETag added to its query, as S3 does it.
fn with_result(uri: &Uri, bucket: &Bucket, key: &ObjectKey, etag: &str) -> Option<String> {
    let quoted = format!("\"{etag}\"");
    let encode =
        |bytes: &[u8]| percent_encoding::percent_encode(bytes, NON_ALPHANUMERIC).to_string();
    let result = format!(
        "bucket={}&key={}&etag={}",
        encode(bucket.as_str().as_bytes()),
        encode(key.as_bytes()),
        encode(quoted.as_bytes())
    );
    let query = match uri.query() {
        None | Some("") => result,
        Some(query) => format!("{query}&{result}"),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(format!("{}?{query}", uri.path())).ok();
    Uri::from_parts(parts).ok().map(|uri| uri.to_string())
}

#[cfg(test)]
#[path = "post_object_tests.rs"]
mod tests;

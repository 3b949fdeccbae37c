//! Which words the store speaks, and what that makes of an object's tag.
//!
//! Inside the proxy everything is in S3's form, whatever the store speaks: [`google`](super::google)
//! translates at the edge. What shows inside is the tag alone. On Google Cloud Storage it is
//! `<generation>/<etag>`: the generation never repeats and is what a precondition names, the ETag
//! is what clients know the object by.

use http::{HeaderMap, header};

use crate::fence::{ClientMatch, Tag};
use crate::s3::strip_quotes;

/// The generation of an object, on every answer of Google's about one.
/// (<https://cloud.google.com/storage/docs/xml-api/reference-headers#xgooggeneration>)
pub(super) const GENERATION: &str = "x-goog-generation";

/// What the store speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// S3, as AWS speaks it.
    S3,
    /// The XML API of Google Cloud Storage.
    Gcs,
}

impl Dialect {
    /// The tag of an object that is shown with these headers.
    #[must_use]
    pub fn tag_of(self, headers: &HeaderMap) -> Option<Tag> {
        self.tag(headers.get(header::ETAG)?.to_str().ok()?, headers)
    }

    /// The tag of an object that is shown with this ETag, in an answer with these headers.
    pub(super) fn tag(self, etag: &str, headers: &HeaderMap) -> Option<Tag> {
        let etag = Some(strip_quotes(etag)).filter(|etag| !etag.is_empty())?;
        match self {
            Self::S3 => Some(Tag::Version(etag.to_owned())),
            Self::Gcs => {
                let generation = headers.get(GENERATION)?.to_str().ok()?;
                let sound = is_generation(generation) && is_opaque(etag);
                sound.then(|| Tag::Version(format!("{generation}/{etag}")))
            }
        }
    }

    /// The ETag of an object with this tag, as clients are shown it, without quotes.
    #[must_use]
    pub fn etag_of(self, tag: &str) -> &str {
        match self {
            Self::S3 => tag,
            Self::Gcs => tag.split_once('/').map_or(tag, |(_, etag)| etag),
        }
    }

    /// What a client means that names an ETag (without quotes) in a condition.
    #[must_use]
    pub fn client_match(self, etag: String) -> ClientMatch {
        match self {
            Self::S3 => ClientMatch::Version(etag),
            Self::Gcs => ClientMatch::Etag(etag),
        }
    }
}

/// The generation that a tag names.
pub(super) fn generation_of(tag: &str) -> Option<&str> {
    let (generation, etag) = tag.split_once('/')?;
    (is_generation(generation) && !etag.is_empty()).then_some(generation)
}

/// Whether the text can be an ETag in a header.
pub(super) fn is_opaque(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
}

/// 0 is no object's: as a precondition it means that there is none.
fn is_generation(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|generation| generation > 0)
        && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_tag_on_google_is_generation_and_etag() {
        let shown = headers(&[("etag", "\"abc\""), (GENERATION, "17")]);
        assert_eq!(Dialect::Gcs.tag_of(&shown), Some(Tag::Version("17/abc".into())));
        assert_eq!(Dialect::S3.tag_of(&shown), Some(Tag::Version("abc".into())));
        for broken in [
            &[("etag", "\"abc\"")][..],
            &[(GENERATION, "17")],
            &[("etag", "\"\""), (GENERATION, "17")],
            &[("etag", "\"a b\""), (GENERATION, "17")],
            &[("etag", "\"abc\""), (GENERATION, "0")],
            &[("etag", "\"abc\""), (GENERATION, "+17")],
            &[("etag", "\"abc\""), (GENERATION, "")],
        ] {
            assert_eq!(Dialect::Gcs.tag_of(&headers(broken)), None, "{broken:?}");
        }
    }

    #[test]
    fn clients_see_the_etag_alone() {
        assert_eq!(Dialect::Gcs.etag_of("17/-CKih/16="), "-CKih/16=");
        assert_eq!(Dialect::S3.etag_of("a/b"), "a/b");
        assert_eq!(generation_of("17/-CKih/16="), Some("17"));
        for other in ["abc", "17", "17/", "0/abc", "a/17", "-1/abc"] {
            assert_eq!(generation_of(other), None, "{other}");
        }
    }
}

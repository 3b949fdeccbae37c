//! `x-amz-copy-source`: the object that a copy reads.

use http::HeaderValue;

use super::query::{percent_decode, percent_encode_key};
use super::target::{Bucket, ObjectKey, TargetError};

/// The object that a copy reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// Its bucket.
    pub bucket: Bucket,
    /// Its key.
    pub key: ObjectKey,
    /// The version that is read, in the encoding of a query; the newest if none is named.
    pub version_id: Option<String>,
}

impl CopySource {
    /// Reads `bucket/key` or `/bucket/key`, percent-encoded, with `?versionId=…` behind it or not.
    ///
    /// # Errors
    ///
    /// When it names no object in a bucket; access points (ARNs) are not known here.
    pub fn parse(value: &HeaderValue) -> Result<Self, TargetError> {
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| TargetError::NotAbsolute)?;
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let path = percent_decode(path.as_bytes());
        let path = path.strip_prefix(b"/").unwrap_or(&path);
        let slash = path.iter().position(|byte| *byte == b'/');
        let (bucket, key) = slash
            .and_then(|at| path.split_at_checked(at))
            .and_then(|(bucket, rest)| Some((bucket, rest.strip_prefix(b"/")?)))
            .ok_or(TargetError::NotAbsolute)?;
        let bucket = std::str::from_utf8(bucket).map_err(|_| TargetError::InvalidBucketName)?;
        let version_id = match query.split_once('=') {
            Some(("versionId", id)) if is_encoded_value(id) => Some(id.to_owned()),
            None if query.is_empty() => None,
            Some(_) | None => return Err(TargetError::NotAbsolute),
        };
        Ok(Self {
            bucket: Bucket::named_by_request(bucket)?,
            key: ObjectKey::new(key).ok_or(TargetError::NotAbsolute)?,
            version_id,
        })
    }

    /// It, spelt in the one way that every store reads alike.
    #[must_use]
    pub fn to_header(&self) -> HeaderValue {
        let key = percent_encode_key(self.key.as_bytes());
        let version = self.version_id.as_ref().map(|id| format!("?versionId={id}"));
        let text = format!("/{}/{key}{}", self.bucket, version.unwrap_or_default());
        HeaderValue::from_str(&text).expect("a percent-encoded path is ASCII")
    }
}

/// Whether the text is a value of a query as a client writes it: nothing in it separates, and
/// nothing is left to be encoded.
fn is_encoded_value(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%+/=:".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CopySource, TargetError> {
        CopySource::parse(&HeaderValue::from_str(text).unwrap())
    }

    #[test]
    fn a_source_is_read_once_and_spelt_in_one_way() {
        let rows = [
            ("/buc/k", "/buc/k"),
            ("buc/k", "/buc/k"),
            ("buc/a%2Fb//c", "/buc/a/b//c"),
            ("buc%2Fa", "/buc/a"),
            ("/buc/a+b%2Bc%20d", "/buc/a%2Bb%2Bc%20d"),
            ("/buc/%FF%25", "/buc/%FF%25"),
            ("/buc/k%3F?versionId=v.1", "/buc/k%3F?versionId=v.1"),
        ];
        for (given, spelt) in rows {
            assert_eq!(parse(given).unwrap().to_header(), spelt, "{given}");
        }
        assert_eq!(parse("/buc/k").unwrap().version_id, None);
    }

    #[test]
    fn what_names_no_object_is_an_error() {
        for text in [
            "",
            "/",
            "buc",
            "/buc",
            "/buc/",
            "//k",
            "/Buc/k",
            "arn:aws:s3:us-east-1:1:accesspoint/a/object/k",
            "/buc/k?versionId=",
            "/buc/k?versionId=a&b=c",
            "/buc/k?versionId=a b",
            "/buc/k?versionId=a;b",
            "/buc/k?acl",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

//! What a command is about: `s3://bucket/key` or `s3://bucket/prefix/`.

use std::fmt;

use crate::s3::percent_encode_key;

const SCHEME: &[u8] = b"s3://";

/// A bucket, and a key or a prefix in it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Location {
    bucket: String,
    path: Vec<u8>,
}

/// A text is not an `s3://` URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotALocation {
    /// It does not begin with `s3://`.
    #[error("expected s3://BUCKET/KEY or s3://BUCKET/PREFIX/")]
    Scheme,
    /// The bucket is missing, or no request could name it.
    #[error(
        "expected the name of a bucket after s3://: letters, digits, dots, hyphens and underscores"
    )]
    Bucket,
}

impl Location {
    /// Reads the bytes of `s3://bucket/path`. They are taken literally: a `%` is a `%`, a `?` is a
    /// `?`, and the path is everything behind the bucket's slash. It is empty for a whole bucket.
    ///
    /// # Errors
    ///
    /// [`NotALocation`].
    pub fn parse(text: &[u8]) -> Result<Self, NotALocation> {
        let rest = text.strip_prefix(SCHEME).ok_or(NotALocation::Scheme)?;
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        let (bucket, path) = rest.split_at(end);
        let known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        // As a segment of a path, dots alone would be taken for a directory.
        let dots = bucket.iter().all(|byte| *byte == b'.');
        if dots || !bucket.iter().all(known) {
            return Err(NotALocation::Bucket);
        }
        let bucket = String::from_utf8_lossy(bucket).into_owned();
        Ok(Self { bucket, path: path.get(1..).unwrap_or_default().to_vec() })
    }

    /// The bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// The bytes of the key or the prefix.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// `/bucket/path` as a request names it, every byte encoded once.
    #[must_use]
    pub fn to_request_path(&self) -> String {
        format!("/{}/{}", self.bucket, percent_encode_key(&self.path))
    }
}

impl fmt::Display for Location {
    /// As it was written where it is UTF-8, with replacement characters where it is not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}/{}", self.bucket, String::from_utf8_lossy(&self.path))
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_literally_and_encoded_once() {
        let cases: [(&[u8], &str); 8] = [
            (b"s3://photos/2026/a.jpg", "/photos/2026/a.jpg"),
            (b"s3://photos/tables/orders/", "/photos/tables/orders/"),
            (b"s3://photos", "/photos/"),
            (b"s3://photos/", "/photos/"),
            (b"s3://photos/a%2Fb", "/photos/a%252Fb"),
            (b"s3://photos/a b+c?d#e&f=g", "/photos/a%20b%2Bc%3Fd%23e%26f%3Dg"),
            (b"s3://photos//a/../b", "/photos//a/../b"),
            (b"s3://photos/\xff\xc3\xa4", "/photos/%FF%C3%A4"),
        ];
        for (text, path) in cases {
            assert_eq!(Location::parse(text).unwrap().to_request_path(), path);
        }
    }

    #[test]
    fn what_is_no_location_is_refused() {
        for text in ["photos/a", "S3://photos/a", "http://photos/a", "s3:/photos/a", ""] {
            assert_eq!(Location::parse(text.as_bytes()), Err(NotALocation::Scheme), "{text}");
        }
        for text in ["s3://", "s3:///a", "s3://pho tos/a", "s3://../a", "s3://a:b/c", "s3://a?b"] {
            assert_eq!(Location::parse(text.as_bytes()), Err(NotALocation::Bucket), "{text}");
        }
    }

    #[test]
    fn it_is_shown_as_it_was_written() {
        let location = Location::parse(b"s3://photos/a b%20").unwrap();
        assert_eq!(location.to_string(), "s3://photos/a b%20");
        assert_eq!(format!("{location:?}"), "Location(s3://photos/a b%20)");
    }
}

//! Which bucket and key a request names: path style and virtual-hosted style.
//!
//! One key has one fence however it is spelt on the wire: the key is the path decoded once, as
//! bytes, and the raw path is what is forwarded.

use std::fmt;

use super::query::{percent_decode, percent_encode_key};

/// A bucket name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(String);

impl Bucket {
    /// The bucket of this name. S3 names are ASCII; whether one is allowed is for the store to
    /// say.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An object key: bytes, never normalised. Not empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Vec<u8>);

impl ObjectKey {
    /// The key with these bytes; `None` if there are none.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        (!bytes.is_empty()).then_some(Self(bytes))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for ObjectKey {
    /// Percent-encoded, so that it is safe in a log and in XML.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&percent_encode_key(&self.0))
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectKey({self})")
    }
}

/// The domains under which a bucket may be named by the host: `bucket.s3.example.com`.
#[derive(Clone, Debug, Default)]
pub struct HostSuffixes(Vec<String>);

impl HostSuffixes {
    /// These domains, without a leading dot. `localhost` is always one of them.
    #[must_use]
    pub fn new(domains: impl IntoIterator<Item = String>) -> Self {
        let mut domains: Vec<String> =
            domains.into_iter().map(|domain| domain.to_ascii_lowercase()).collect();
        domains.push("localhost".into());
        Self(domains)
    }

    /// The bucket that `host` (with or without a port) names, if it is under one of the domains.
    fn bucket_of(&self, host: &str) -> Option<String> {
        let host = host.rsplit_once(':').map_or(host, |(name, port)| {
            if port.bytes().all(|byte| byte.is_ascii_digit()) { name } else { host }
        });
        let host = host.to_ascii_lowercase();
        self.0.iter().find_map(|domain| {
            let bucket = host.strip_suffix(domain.as_str())?.strip_suffix('.')?;
            (!bucket.is_empty()).then(|| bucket.to_owned())
        })
    }
}

/// What a request's path and host name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The service: `/`.
    Service,
    /// A bucket.
    Bucket(Bucket),
    /// An object.
    Object(Bucket, ObjectKey),
}

/// Why a request names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// The path does not begin with a slash.
    NotAbsolute,
    /// The bucket name is empty, or not UTF-8.
    InvalidBucketName,
    /// The key is longer than S3's 1024 bytes.
    KeyTooLong,
}

/// S3's limit for a key.
const KEY_BYTES_MAX: usize = 1024;

impl Target {
    /// Reads a raw path and the host of the request.
    ///
    /// # Errors
    ///
    /// See [`TargetError`].
    pub fn parse(raw_path: &str, host: &str, suffixes: &HostSuffixes) -> Result<Self, TargetError> {
        let rest = raw_path.strip_prefix('/').ok_or(TargetError::NotAbsolute)?;
        if let Some(bucket) = suffixes.bucket_of(host) {
            return Self::in_bucket(Bucket::new(bucket), rest);
        }
        if rest.is_empty() {
            return Ok(Self::Service);
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let bucket = String::from_utf8(percent_decode(bucket.as_bytes()))
            .ok()
            .filter(|name| !name.is_empty() && !name.contains('/'))
            .ok_or(TargetError::InvalidBucketName)?;
        Self::in_bucket(Bucket::new(bucket), key)
    }

    fn in_bucket(bucket: Bucket, raw_key: &str) -> Result<Self, TargetError> {
        match ObjectKey::new(percent_decode(raw_key.as_bytes())) {
            None => Ok(Self::Bucket(bucket)),
            Some(key) if key.as_bytes().len() > KEY_BYTES_MAX => Err(TargetError::KeyTooLong),
            Some(key) => Ok(Self::Object(bucket, key)),
        }
    }

    /// The bucket, if one is named.
    #[must_use]
    pub fn bucket(&self) -> Option<&Bucket> {
        match self {
            Self::Service => None,
            Self::Bucket(bucket) | Self::Object(bucket, _) => Some(bucket),
        }
    }

    /// Whether `host` names the bucket, so that the raw path is the key alone.
    #[must_use]
    pub fn is_virtual_hosted(host: &str, suffixes: &HostSuffixes) -> bool {
        suffixes.bucket_of(host).is_some()
    }
}

impl TargetError {
    /// What to tell the client.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::NotAbsolute => "The request target is not a path.",
            Self::InvalidBucketName => "The specified bucket is not valid.",
            Self::KeyTooLong => "Your key is too long.",
        }
    }

    /// The S3 error code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::NotAbsolute => "InvalidURI",
            Self::InvalidBucketName => "InvalidBucketName",
            Self::KeyTooLong => "KeyTooLongError",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str, host: &str) -> Result<Target, TargetError> {
        Target::parse(path, host, &HostSuffixes::new(["s3.example.com".to_owned()]))
    }

    fn object(bucket: &str, key: &[u8]) -> Target {
        Target::Object(Bucket::new(bucket), ObjectKey::new(key).unwrap())
    }

    #[test]
    fn path_style() {
        assert_eq!(parse("/", "h"), Ok(Target::Service));
        assert_eq!(parse("/b", "h"), Ok(Target::Bucket(Bucket::new("b"))));
        assert_eq!(parse("/b/", "h:9000"), Ok(Target::Bucket(Bucket::new("b"))));
        assert_eq!(parse("/b/k", "h"), Ok(object("b", b"k")));
        assert_eq!(parse("/b//k", "h"), Ok(object("b", b"/k")));
        assert_eq!(parse("/b/a/../k/", "h"), Ok(object("b", b"a/../k/")));
        assert_eq!(parse("/b/%2e%2e/%FF", "h"), Ok(object("b", b"../\xff")));
        assert_eq!(parse("//k", "h"), Err(TargetError::InvalidBucketName));
        assert_eq!(parse("/a%2Fb/k", "h"), Err(TargetError::InvalidBucketName));
        assert_eq!(parse("*", "h"), Err(TargetError::NotAbsolute));
    }

    #[test]
    fn one_key_however_it_is_spelt() {
        assert_eq!(parse("/b/a%2Fb", "h"), parse("/b/a/b", "h"));
        assert_eq!(parse("/b/%61", "h"), parse("/b/a", "h"));
        assert_eq!(parse("/a", "b.s3.example.com"), parse("/b/a", "h"));
        assert_ne!(parse("/b/a%252Fb", "h"), parse("/b/a%2Fb", "h"));
        assert_ne!(parse("/b/e%CC%81", "h"), parse("/b/%C3%A9", "h"), "NFD is not NFC");
    }

    #[test]
    fn virtual_hosted_style() {
        assert_eq!(parse("/k/l", "b.S3.example.com:80"), Ok(object("b", b"k/l")));
        assert_eq!(parse("//k", "b.localhost:9000"), Ok(object("b", b"/k")));
        assert_eq!(parse("/", "a.b.localhost"), Ok(Target::Bucket(Bucket::new("a.b"))));
        assert_eq!(parse("/b", "s3.example.com"), Ok(Target::Bucket(Bucket::new("b"))));
        assert_eq!(parse("/b", "127.0.0.1:9000"), Ok(Target::Bucket(Bucket::new("b"))));
        assert_eq!(parse("/b", "[::1]:9000"), Ok(Target::Bucket(Bucket::new("b"))));
        assert_eq!(parse("/b", "xs3.example.com"), Ok(Target::Bucket(Bucket::new("b"))));
    }

    #[test]
    fn keys_have_a_limit() {
        let longest = format!("/b/{}", "k".repeat(1024));
        assert!(parse(&longest, "h").is_ok());
        assert_eq!(parse(&format!("{longest}k"), "h"), Err(TargetError::KeyTooLong));
    }
}

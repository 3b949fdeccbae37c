//! Which bucket and key a request names: path style and virtual-hosted style.
//!
//! One key has one fence however it is spelt on the wire: the key is the path decoded once, as
//! bytes, and the raw path is what is forwarded.

use std::fmt;

use super::query::{percent_decode, percent_encode_key};

/// A bucket name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(String);

/// First path segments that are not buckets in some store but its administration (MinIO, Ceph) or
/// another protocol (Ceph's Swift). The proxy must not sign requests to them with its own key.
const RESERVED: [&str; 3] = ["admin", "minio", "swift"];

impl Bucket {
    /// The bucket of this name, which is the configuration's or the proxy's own.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The bucket that a request names, by S3's rules for general purpose buckets: 3 to 63 of
    /// `a-z`, `0-9`, `.` and `-`, a letter or digit at both ends, no two dots in a row.
    ///
    /// Nothing else may come through, because the name becomes part of a path or of a host, and
    /// what a store makes of it must be the bucket that was fenced: a `/`, `?` or `%` would make
    /// it another request, `:` names a tenant in Ceph, and `@` ends the user of an authority.
    ///
    /// # Errors
    ///
    /// [`TargetError::InvalidBucketName`].
    pub(super) fn named_by_request(name: &str) -> Result<Self, TargetError> {
        let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = name.as_bytes();
        let valid = (3..=63).contains(&bytes.len())
            && bytes.iter().all(|byte| alphanumeric(byte) || matches!(byte, b'.' | b'-'))
            && bytes.first().is_some_and(alphanumeric)
            && bytes.last().is_some_and(alphanumeric)
            && !name.contains("..")
            && !RESERVED.contains(&name);
        if valid { Ok(Self(name.to_owned())) } else { Err(TargetError::InvalidBucketName) }
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

    /// The key without empty segments, as a store that folds slashes knows it (SeaweedFS): what
    /// `a//b` and `/a/b` are spellings of. A slash at the end stays.
    #[must_use]
    pub fn with_slashes_collapsed(&self) -> Option<Self> {
        let parts: Vec<&[u8]> =
            self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        let mut key = parts.join(&b'/');
        if !key.is_empty() && self.0.ends_with(b"/") {
            key.push(b'/');
        }
        Self::new(key)
    }

    /// Whether a store that takes keys in Unicode's normal form C for one (Cloudflare R2) may take
    /// it for another key.
    #[must_use]
    pub fn is_normalized(&self) -> bool {
        icu_normalizer::ComposingNormalizerBorrowed::new_nfc().is_normalized_utf8(&self.0)
    }

    /// Whether a store that does not tell capital letters from small ones may take it for another
    /// key.
    #[must_use]
    pub fn has_capitals(&self) -> bool {
        String::from_utf8_lossy(&self.0).chars().any(char::is_uppercase)
    }

    /// Whether a store that treats keys as file paths may take it for another spelling of a key
    /// (SeaweedFS: `a//b` and `a\\b` are `a/b`, and `/a` is `a`).
    #[must_use]
    pub fn may_be_aliased(&self) -> bool {
        let key = self.0.strip_suffix(b"/").unwrap_or(&self.0);
        key.contains(&b'\\')
            || key.split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b".."))
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
#[derive(Clone, Debug)]
pub struct HostSuffixes(Vec<String>);

impl Default for HostSuffixes {
    fn default() -> Self {
        Self::new([])
    }
}

impl HostSuffixes {
    /// These domains, without a leading dot. `localhost` is always one of them.
    #[must_use]
    pub fn new(domains: impl IntoIterator<Item = String>) -> Self {
        let mut domains: Vec<String> =
            domains.into_iter().map(|domain| domain.to_ascii_lowercase()).collect();
        domains.push("localhost".into());
        Self(domains)
    }

    /// Whether `host` (with or without a port) names a bucket.
    #[must_use]
    pub fn names_bucket(&self, host: &str) -> bool {
        self.bucket_of(host).is_some()
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
    /// The bucket name is not one that S3 allows, or stands for something else in some store.
    InvalidBucketName,
    /// The key is longer than S3's 1024 bytes.
    KeyTooLong,
}

/// S3's limit for a key.
pub(super) const KEY_BYTES_MAX: usize = 1024;

impl Target {
    /// Reads a raw path and the host of the request.
    ///
    /// # Errors
    ///
    /// See [`TargetError`].
    pub fn parse(raw_path: &str, host: &str, suffixes: &HostSuffixes) -> Result<Self, TargetError> {
        let rest = raw_path.strip_prefix('/').ok_or(TargetError::NotAbsolute)?;
        if let Some(bucket) = suffixes.bucket_of(host) {
            return Self::in_bucket(Bucket::named_by_request(&bucket)?, rest);
        }
        if rest.is_empty() {
            return Ok(Self::Service);
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let bucket = String::from_utf8(percent_decode(bucket.as_bytes()))
            .map_err(|_| TargetError::InvalidBucketName)?;
        Self::in_bucket(Bucket::named_by_request(&bucket)?, key)
    }

    /// The raw path in path style, `/bucket/key`: the bucket as it was understood, and the raw
    /// bytes of the key.
    #[must_use]
    pub fn path_style(&self, raw_path: &str, host: &str, suffixes: &HostSuffixes) -> String {
        let Some(bucket) = self.bucket() else { return raw_path.to_owned() };
        if suffixes.bucket_of(host).is_some() {
            return format!("/{bucket}{raw_path}");
        }
        let key = raw_path.get(1..).and_then(|rest| rest.find('/').and_then(|at| rest.get(at..)));
        format!("/{bucket}{}", key.unwrap_or_default())
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
        assert_eq!(parse("/buc", "h"), Ok(Target::Bucket(Bucket::new("buc"))));
        assert_eq!(parse("/buc/", "h:9000"), Ok(Target::Bucket(Bucket::new("buc"))));
        assert_eq!(parse("/buc/k", "h"), Ok(object("buc", b"k")));
        assert_eq!(parse("/buc//k", "h"), Ok(object("buc", b"/k")));
        assert_eq!(parse("/buc/a/../k/", "h"), Ok(object("buc", b"a/../k/")));
        assert_eq!(parse("/buc/%2e%2e/%FF", "h"), Ok(object("buc", b"../\xff")));
        assert_eq!(parse("*", "h"), Err(TargetError::NotAbsolute));
    }

    #[test]
    fn one_key_however_it_is_spelt() {
        assert_eq!(parse("/buc/a%2Fb", "h"), parse("/buc/a/b", "h"));
        assert_eq!(parse("/buc/%61", "h"), parse("/buc/a", "h"));
        assert_eq!(parse("/a", "buc.s3.example.com"), parse("/buc/a", "h"));
        assert_ne!(parse("/buc/a%252Fb", "h"), parse("/buc/a%2Fb", "h"));
        assert_ne!(parse("/buc/e%CC%81", "h"), parse("/buc/%C3%A9", "h"), "NFD is not NFC");
    }

    #[test]
    fn virtual_hosted_style() {
        assert_eq!(parse("/k/l", "buc.S3.example.com:80"), Ok(object("buc", b"k/l")));
        assert_eq!(parse("//k", "buc.localhost:9000"), Ok(object("buc", b"/k")));
        assert_eq!(parse("/", "a.b.localhost"), Ok(Target::Bucket(Bucket::new("a.b"))));
        assert_eq!(parse("/buc", "s3.example.com"), Ok(Target::Bucket(Bucket::new("buc"))));
        assert_eq!(parse("/buc", "127.0.0.1:9000"), Ok(Target::Bucket(Bucket::new("buc"))));
        assert_eq!(parse("/buc", "[::1]:9000"), Ok(Target::Bucket(Bucket::new("buc"))));
        assert_eq!(parse("/buc", "xs3.example.com"), Ok(Target::Bucket(Bucket::new("buc"))));
    }

    #[test]
    fn a_bucket_is_a_name_and_nothing_else() {
        let paths = [
            "//k",
            "/ab/k",
            "/a%2Fbc/k",
            "/:bucket/k",
            "/%3Abucket/k",
            "/t:bucket/k",
            "/user@bucket/k",
            "/Bucket/k",
            "/bucket_1/k",
            "/bucket%00/k",
            "/%2e%2e%2e/k",
            "/a..b/k",
            "/-bucket/k",
            "/bucket./k",
            "/minio/admin/v3/add-user",
            "/swift/v1/bucket/k",
            "/admin/user",
        ];
        for path in paths {
            assert_eq!(parse(path, "h"), Err(TargetError::InvalidBucketName), "{path}");
        }
        let hosts = ["bucket/dir.localhost", "%62ucket.localhost", "bucket/k?acl&x=.localhost"];
        for host in hosts {
            assert_eq!(parse("/k", host), Err(TargetError::InvalidBucketName), "{host}");
        }
        assert!(parse("/fencepost-ledger/k", "h").is_ok());
        assert!(parse(&format!("/{}/k", "b".repeat(63)), "h").is_ok());
        assert!(parse(&format!("/{}/k", "b".repeat(64)), "h").is_err());
    }

    #[test]
    fn the_path_for_the_store_is_made_of_what_was_understood() {
        let suffixes = HostSuffixes::default();
        let rows = [
            ("/", "h", "/"),
            ("/buc", "h", "/buc"),
            ("/%62uc/", "h", "/buc/"),
            ("/%62uc/a%2Fb//c", "h", "/buc/a%2Fb//c"),
            ("/a%2Fb", "BUC.localhost", "/buc/a%2Fb"),
            ("/", "buc.localhost", "/buc/"),
        ];
        for (path, host, expected) in rows {
            let target = Target::parse(path, host, &suffixes).unwrap();
            assert_eq!(target.path_style(path, host, &suffixes), expected, "{path} {host}");
        }
    }

    #[test]
    fn keys_that_are_paths_in_disguise_are_known() {
        for key in ["/a", "a//b", "a/./b", "a/../b", "..", "a\\b", "a//", "/"] {
            assert!(ObjectKey::new(key).unwrap().may_be_aliased(), "{key}");
        }
        for key in ["a", "a/b", "a/", "a.b/..c", "...", "a b"] {
            assert!(!ObjectKey::new(key).unwrap().may_be_aliased(), "{key}");
        }
    }

    #[test]
    fn slashes_collapse_and_nothing_else_does() {
        for (key, collapsed) in [
            ("a", "a"),
            ("a//b", "a/b"),
            ("//a///b/", "a/b/"),
            ("a//", "a/"),
            ("a/./b/../c\\d", "a/./b/../c\\d"),
        ] {
            let folded = ObjectKey::new(key).unwrap().with_slashes_collapsed();
            assert_eq!(folded, ObjectKey::new(collapsed), "{key}");
        }
        assert_eq!(ObjectKey::new("//").unwrap().with_slashes_collapsed(), None);
    }

    #[test]
    fn keys_have_a_limit() {
        let longest = format!("/buc/{}", "k".repeat(1024));
        assert!(parse(&longest, "h").is_ok());
        assert_eq!(parse(&format!("{longest}k"), "h"), Err(TargetError::KeyTooLong));
    }
}

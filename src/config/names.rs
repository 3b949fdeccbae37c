//! Names in settings: buckets, host names, the backend's URL, the log filter.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::values::{FromText, from_text};

/// The name of a bucket.
///
/// As wide as S3 ever was: 3 to 255 characters of `A-Z a-z 0-9 . _ -`, which takes in the names
/// that `us-east-1` allowed before 2018 and other stores still do
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>). The store
/// has the last word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketName(String);

impl BucketName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromText for BucketName {
    const EXPECTED: &'static str =
        "the name of a bucket: 3 to 255 letters, digits, dots, hyphens and underscores";

    fn from_text(text: &str) -> Option<Self> {
        let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        let fits = (3..=255).contains(&text.len()) && text.bytes().all(known);
        fits.then(|| Self(text.to_owned()))
    }
}

/// A domain under which buckets are host names: with `s3.example.com`, a request for host
/// `photos.s3.example.com` is one for bucket `photos`. Lower case, without a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostSuffix(String);

impl HostSuffix {
    /// The domain, without a leading dot.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromText for HostSuffix {
    const EXPECTED: &'static str = "a domain name without a leading dot, a port or a wildcard, \
                                    such as s3.example.com";

    fn from_text(text: &str) -> Option<Self> {
        let label = |label: &str| {
            let known = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
            (1..=63).contains(&label.len()) && label.bytes().all(known)
        };
        let fits = text.len() <= 253 && text.split('.').all(label);
        fits.then(|| Self(text.to_ascii_lowercase()))
    }
}

/// The name of an `x-amz-*` header, in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AmzHeaderName(String);

impl AmzHeaderName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromText for AmzHeaderName {
    const EXPECTED: &'static str = "the name of a header that begins with x-amz-";

    fn from_text(text: &str) -> Option<Self> {
        let name = text.to_ascii_lowercase();
        let known = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        let rest = name.strip_prefix("x-amz-")?;
        (!rest.is_empty() && rest.bytes().all(known)).then_some(Self(name))
    }
}

/// The base URL of the store: a scheme and an authority, nothing else.
///
/// No path, because S3 signatures cover the path and a store is addressed from its root; no user
/// and password, because credentials do not belong into something that is printed and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendUrl(http::Uri);

impl BackendUrl {
    /// Whether the store is spoken to over TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.scheme() == Some(&http::uri::Scheme::HTTPS)
    }

    /// `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> &http::uri::Scheme {
        self.0.scheme().expect("a backend URL has a scheme")
    }

    /// Host, and port where it is given.
    #[must_use]
    pub fn authority(&self) -> &http::uri::Authority {
        self.0.authority().expect("a backend URL has an authority")
    }

    /// Whether the host is an IP address, which no bucket can be put in front of.
    #[must_use]
    pub fn is_ip_address(&self) -> bool {
        self.ip_address().is_some()
    }

    /// The address behind the URL when it is written as one: IP and port.
    #[must_use]
    pub(super) fn ip_address(&self) -> Option<std::net::SocketAddr> {
        let host = self.authority().host();
        let ip = std::net::IpAddr::from_str(host.trim_matches(['[', ']'])).ok()?;
        let port = self.authority().port_u16().unwrap_or(if self.is_https() { 443 } else { 80 });
        Some((ip, port).into())
    }
}

impl FromText for BackendUrl {
    const EXPECTED: &'static str = "http:// or https://, a host and perhaps a port, such as https://s3.eu-west-1.amazonaws.com";
    // It may have been written with a user and a password in it.
    const MAY_BE_SHOWN: bool = false;

    fn from_text(text: &str) -> Option<Self> {
        let uri = http::Uri::from_str(text.strip_suffix('/').unwrap_or(text)).ok()?;
        let known = matches!(uri.scheme_str(), Some("http" | "https"));
        let authority = uri.authority()?;
        let bare = matches!(uri.path(), "" | "/") && uri.query().is_none() && !text.contains('#');
        let no_user = !authority.as_str().contains('@') && !authority.host().is_empty();
        (known && bare && no_user).then_some(Self(uri))
    }
}

/// A text is not the URL of a store. The text is not repeated: there could be a password in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the URL of a store, expected {expected}", expected = BackendUrl::EXPECTED)]
pub struct NotABackendUrl;

/// For stores that are not configured but started, such as the embedded one.
impl FromStr for BackendUrl {
    type Err = NotABackendUrl;

    fn from_str(text: &str) -> Result<Self, NotABackendUrl> {
        Self::from_text(text).ok_or(NotABackendUrl)
    }
}

impl fmt::Display for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority())
    }
}

/// Which events are logged, in the syntax of `tracing_subscriber::EnvFilter`: `info`, or
/// `warn,fencepost::fence=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// The filter's text; it has been parsed once.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

impl FromText for LogFilter {
    const EXPECTED: &'static str = "a level (error, warn, info, debug, trace, off) or a list such \
                                    as warn,fencepost::fence=debug";

    fn from_text(text: &str) -> Option<Self> {
        // EnvFilter takes any word for a target ("verbose" would log that target and nothing
        // else), so a filter must say a level at least once.
        let names_a_level = text.split(',').any(|directive| {
            let level = directive.rsplit('=').next().unwrap_or_default().trim();
            !level.is_empty() && tracing_subscriber::filter::LevelFilter::from_str(level).is_ok()
        });
        let parses = tracing_subscriber::EnvFilter::try_new(text).is_ok();
        (names_a_level && parses).then(|| Self(text.to_owned()))
    }
}

macro_rules! text_in_files {
    ($($name:ty => |$value:ident| $text:expr),+ $(,)?) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                from_text(deserializer)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
                let $value = self;
                out.serialize_str($text)
            }
        }
    )+};
}

text_in_files! {
    BucketName => |name| name.as_str(),
    HostSuffix => |suffix| suffix.as_str(),
    AmzHeaderName => |name| name.as_str(),
    LogFilter => |filter| filter.as_str(),
    BackendUrl => |url| &url.to_string(),
}

//! Raw query strings, and percent-encoding as S3 uses it.
//!
//! The query is kept as it came; names are decoded only to look them up.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// What S3 leaves unencoded in a key: the unreserved characters and the slash.
const KEY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Decodes `%XX` once. A `%` that no two hexadecimal digits follow stands for itself, and a `+`
/// is a plus.
#[must_use]
pub fn percent_decode(raw: &[u8]) -> Vec<u8> {
    percent_encoding::percent_decode(raw).collect()
}

/// Encodes key bytes for a path, as S3 canonicalises them.
#[must_use]
pub fn percent_encode_key(key: &[u8]) -> String {
    percent_encode(key, KEY).to_string()
}

/// A raw query string, looked into by decoded parameter names.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    /// A raw query.
    #[must_use]
    pub fn new(raw: &'a str) -> Self {
        Self(raw)
    }

    /// The query of a URI, empty if it has none.
    #[must_use]
    pub fn of(uri: &'a http::Uri) -> Self {
        Self(uri.query().unwrap_or(""))
    }

    /// The parameters in order: decoded name, raw value. A parameter without `=` has an empty
    /// value.
    pub fn pairs(self) -> impl Iterator<Item = (Vec<u8>, &'a str)> {
        self.0.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode(name.as_bytes()), value)
        })
    }

    /// Whether a parameter of this name is present. S3's sub-resource names are case-sensitive.
    #[must_use]
    pub fn has(self, name: &str) -> bool {
        self.pairs().any(|(found, _)| found == name.as_bytes())
    }

    /// The decoded value of the first parameter of this name.
    #[must_use]
    pub fn value(self, name: &str) -> Option<Vec<u8>> {
        self.pairs()
            .find(|(found, _)| found == name.as_bytes())
            .map(|(_, value)| percent_decode(value.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_decoded_once_and_a_plus_is_a_plus() {
        assert_eq!(percent_decode(b"a%2Fb+c%2Bd"), b"a/b+c+d");
        assert_eq!(percent_decode(b"a%252Fb"), b"a%2Fb");
        assert_eq!(percent_decode(b"100%"), b"100%");
        assert_eq!(percent_decode(b"%zz"), b"%zz");
        assert_eq!(percent_decode(b"%ff%00"), b"\xff\x00");
        assert_eq!(percent_encode_key(b"a/b c+\xff~"), "a/b%20c%2B%FF~");
    }

    #[test]
    fn parameters_are_found_by_their_decoded_names() {
        let uri: http::Uri = "/b/k?acl&x=1%202&%75ploads=&x=3".parse().unwrap();
        let query = Query::of(&uri);
        assert!(query.has("acl"));
        assert!(query.has("uploads"));
        assert!(!query.has("ACL"));
        assert_eq!(query.value("x"), Some(b"1 2".to_vec()));
        assert_eq!(query.value("none"), None);
    }
}

//! What becomes of a key that was sent, where a store does not keep it byte for byte.

use super::errors::{invalid_name, invalid_object_name};
use super::profile::Keys;
use icu_normalizer::ComposingNormalizerBorrowed;
use s3s::S3Result;

/// The key that a store of this kind reads or writes when it is sent `key`.
///
/// # Errors
///
/// A key that such a store refuses.
pub(super) fn spelt(key: String, keys: Keys) -> S3Result<String> {
    match keys {
        Keys::Bytes => Ok(key),
        Keys::Nfc => Ok(ComposingNormalizerBorrowed::new_nfc().normalize(&key).into_owned()),
        Keys::Paths => path(key),
        Keys::NoLineBreaks if key.contains(['\r', '\n']) => Err(invalid_name()),
        Keys::NoLineBreaks => Ok(key),
    }
}

/// A leading slash makes a path of the key, which is cleaned; any other is taken as it is.
fn path(key: String) -> S3Result<String> {
    let key = if key.starts_with('/') { cleaned(&key) } else { key };
    let bad = |segment: &str| matches!(segment.trim(), "." | "..");
    if key.is_empty() || key.contains("//") || key.split('/').any(bad) {
        return Err(invalid_object_name());
    }
    Ok(key)
}

fn cleaned(key: &str) -> String {
    let mut segments = Vec::new();
    for segment in key.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    let mut path = segments.join("/");
    // What is left of nothing but slashes is no name.
    if key.ends_with('/') && !path.is_empty() {
        path.push('/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let spelt = |key: &str, keys| spelt(key.to_owned(), keys).ok();
        let kept = |key: &str| Some(key.to_owned());
        for key in ["a//b", "/a", "./a", "ae\u{301}", "a\nb"] {
            assert_eq!(spelt(key, Keys::Bytes), kept(key));
        }
        assert_eq!(spelt("e\u{301}", Keys::Nfc), spelt("\u{e9}", Keys::Nfc));
        assert_eq!(spelt("a//b", Keys::Nfc), kept("a//b"));
        assert_eq!(spelt("a\nb", Keys::NoLineBreaks), None);
        assert_eq!(spelt("a\rb", Keys::NoLineBreaks), None);
        assert_eq!(spelt("a//b", Keys::NoLineBreaks), kept("a//b"));
    }

    #[test]
    fn paths() {
        let spelt = |key: &str| spelt(key.to_owned(), Keys::Paths).ok();
        let cases = [
            ("a/b", "a/b"),
            ("a/", "a/"),
            ("/a", "a"),
            ("//a//b/", "a/b/"),
            ("/a/../b", "b"),
            ("a..b/.c", "a..b/.c"),
        ];
        for (sent, kept) in cases {
            assert_eq!(spelt(sent).as_deref(), Some(kept), "{sent}");
        }
        for refused in ["a//b", "a/./b", "../a", "a/ .. /b", "/"] {
            assert_eq!(spelt(refused), None, "{refused}");
        }
    }
}

//! ETags and the conditional headers of writes.
//!
//! ETags are opaque. Inside they are held without quotes; on the wire to the store they are quoted
//! or bare as the store wants them. What some store takes for "no condition" (an empty `If-Match`,
//! a quoted star) is never let through.

/// How a store wants the ETag in `If-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EtagQuotes {
    /// `"…"`, as the HTTP standard has it.
    Quoted,
    /// Without quotes: Ceph 16 answers 412 to the quoted form of the right ETag.
    Bare,
}

impl EtagQuotes {
    /// `etag`, which is without quotes, as the store wants it.
    #[must_use]
    pub fn write(self, etag: &str) -> String {
        match self {
            Self::Quoted => format!("\"{etag}\""),
            Self::Bare => etag.to_owned(),
        }
    }
}

/// The ETag without its quotes.
#[must_use]
pub fn strip_quotes(etag: &str) -> &str {
    let etag = etag.trim();
    etag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(etag)
}

/// A conditional header of a write that is not of a form AWS accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidEtag {
    /// Empty, weak, a list, or not an ETag at all.
    Malformed,
    /// `If-None-Match` with anything but `*`: AWS answers 501.
    NotStar,
}

/// Reads the `If-Match` of a write: `None` inside means `*`.
///
/// # Errors
///
/// Weak, empty and list values, which stores read in different ways.
pub fn parse_if_match(value: &str) -> Result<Option<String>, InvalidEtag> {
    let value = value.trim();
    if value == "*" {
        return Ok(None);
    }
    let etag = strip_quotes(value);
    let plain = !etag.is_empty()
        && etag != "*"
        && etag.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b',');
    if plain { Ok(Some(etag.to_owned())) } else { Err(InvalidEtag::Malformed) }
}

/// Reads the `If-None-Match` of a write, which can only be `*`.
///
/// # Errors
///
/// Everything else.
pub fn parse_if_none_match(value: &str) -> Result<(), InvalidEtag> {
    match value.trim() {
        "*" => Ok(()),
        "" => Err(InvalidEtag::Malformed),
        _ => Err(InvalidEtag::NotStar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_may_take_for_no_condition_is_refused() {
        assert_eq!(parse_if_match("*"), Ok(None));
        assert_eq!(parse_if_match("\"abc-1\""), Ok(Some("abc-1".into())));
        assert_eq!(parse_if_match("abc"), Ok(Some("abc".into())));
        for bad in ["", " ", "\"\"", "\"*\"", "W/\"abc\"", "\"a\", \"b\"", "a,b", "\"", "a b"] {
            assert_eq!(parse_if_match(bad), Err(InvalidEtag::Malformed), "{bad:?}");
        }
        assert_eq!(parse_if_none_match("*"), Ok(()));
        assert_eq!(parse_if_none_match("\"*\""), Err(InvalidEtag::NotStar));
        assert_eq!(parse_if_none_match("\"abc\""), Err(InvalidEtag::NotStar));
        assert_eq!(parse_if_none_match(""), Err(InvalidEtag::Malformed));
    }

    #[test]
    fn quotes_are_a_matter_of_the_wire() {
        assert_eq!(strip_quotes("\"abc\""), "abc");
        assert_eq!(strip_quotes("abc"), "abc");
        assert_eq!(EtagQuotes::Quoted.write("abc"), "\"abc\"");
        assert_eq!(EtagQuotes::Bare.write("abc"), "abc");
    }
}

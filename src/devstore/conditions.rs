//! Preconditions: what a request asks for, and whether the state of its key grants it.
//!
//! Pure. The table of answers is Amazon's as measured against the real service (design notes,
//! "AWS S3 conditional writes"), and is reviewed in the tests below. Who takes the snapshot, and
//! that nothing changes between the judgement and the write, is `index`'s business.

use http::HeaderMap;
use http::header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use s3s::{S3Error, S3Result, s3_error};
use std::time::{Duration, SystemTime};

/// What a write wants to be true of its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum WriteCondition {
    /// Nothing.
    #[default]
    None,
    /// `If-None-Match: *`.
    Absent,
    /// `If-Match: *`.
    Present,
    /// `If-Match: "etag"`, without its quotes.
    Match(String),
}

/// What a key looks like when a condition on it is judged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyState<'a> {
    /// Entity tag and sequence number of the current version; `None` when there is none, or when
    /// it is a delete marker.
    pub(super) current: Option<(&'a str, u64)>,
    /// Sequence number of the last DELETE of the key without a version id.
    pub(super) deleted: Option<u64>,
}

/// Why a condition does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// 404 `NoSuchKey`: `If-Match` on what is not there.
    NoSuchKey,
    /// 412 `PreconditionFailed`.
    PreconditionFailed,
    /// 409 `ConditionalRequestConflict`: true now, but not for the whole time of the request.
    Conflict,
    /// 304 `NotModified`, reads only.
    NotModified,
}

impl From<Refusal> for S3Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoSuchKey => s3_error!(NoSuchKey, "The specified key does not exist."),
            Refusal::PreconditionFailed => s3_error!(
                PreconditionFailed,
                "At least one of the pre-conditions you specified did not hold"
            ),
            Refusal::Conflict => s3_error!(
                ConditionalRequestConflict,
                "The conditional request cannot succeed due to a conflicting operation against \
                 this resource."
            ),
            Refusal::NotModified => s3_error!(NotModified),
        }
    }
}

impl WriteCondition {
    /// Reads the condition of a write that may create (PUT, Complete, Copy).
    ///
    /// The raw headers are read, not what `s3s` made of them: it takes an empty `If-Match` for no
    /// condition at all, and would let it overwrite.
    pub(super) fn from_headers(headers: &HeaderMap) -> S3Result<Self> {
        let if_match = Self::from_if_match(headers)?;
        match headers.get(IF_NONE_MATCH).map(http::HeaderValue::as_bytes) {
            None => Ok(if_match),
            Some(b"*") if if_match == Self::None => Ok(Self::Absent),
            // "If-None-Match takes only *" (PutObject); anything else is not implemented.
            Some(_) => Err(s3_error!(
                NotImplemented,
                "A header you provided implies functionality that is not implemented"
            )),
        }
    }

    /// Reads the condition of a DELETE, which knows only `If-Match`.
    pub(super) fn from_if_match(headers: &HeaderMap) -> S3Result<Self> {
        match headers.get(IF_MATCH).map(http::HeaderValue::to_str) {
            None => Ok(Self::None),
            Some(Ok(value)) if !value.is_empty() => Ok(Self::from_etag(value)),
            Some(_) => Err(s3_error!(InvalidArgument, "invalid header: If-Match")),
        }
    }

    /// The condition of an entity tag as a client writes it: quoted, bare, or `*`.
    pub(super) fn from_etag(etag: &str) -> Self {
        match etag {
            "*" => Self::Present,
            tag => Self::Match(unquoted(tag).to_owned()),
        }
    }

    /// Judges the condition.
    ///
    /// `started` is the sequence number at which the request began (the upload, for Complete):
    /// the store's last change *before* it. A store that does not detect interleaving passes
    /// `u64::MAX`.
    pub(super) fn judge(&self, key: KeyState<'_>, started: u64) -> Result<(), Refusal> {
        match (self, key.current) {
            (Self::None, _) | (Self::Present, Some(_)) => Ok(()),
            (Self::Absent, Some(_)) => Err(Refusal::PreconditionFailed),
            // A DELETE landed meanwhile, of an object or of nothing: Amazon answers both so.
            (Self::Absent, None) if key.deleted.is_some_and(|at| at > started) => {
                Err(Refusal::Conflict)
            }
            (Self::Absent, None) => Ok(()),
            (Self::Present | Self::Match(_), None) => Err(Refusal::NoSuchKey),
            (Self::Match(wanted), Some((tag, _))) if wanted != tag => {
                Err(Refusal::PreconditionFailed)
            }
            // The tag is right, but it was written after the request began: same bytes, put again.
            (Self::Match(_), Some((_, written))) if written > started => Err(Refusal::Conflict),
            (Self::Match(_), Some(_)) => Ok(()),
        }
    }
}

/// The four conditions of a read, or of the source of a copy.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadConditions {
    if_match: Option<String>,
    if_none_match: Option<String>,
    if_modified_since: Option<SystemTime>,
    if_unmodified_since: Option<SystemTime>,
}

impl ReadConditions {
    /// The conditions of GET and HEAD.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        Self::named(
            headers,
            [
                IF_MATCH.as_str(),
                IF_NONE_MATCH.as_str(),
                IF_MODIFIED_SINCE.as_str(),
                IF_UNMODIFIED_SINCE.as_str(),
            ],
        )
    }

    /// The conditions on the source of `CopyObject` and `UploadPartCopy`.
    pub(super) fn of_copy_source(headers: &HeaderMap) -> Self {
        Self::named(
            headers,
            [
                "x-amz-copy-source-if-match",
                "x-amz-copy-source-if-none-match",
                "x-amz-copy-source-if-modified-since",
                "x-amz-copy-source-if-unmodified-since",
            ],
        )
    }

    fn named(headers: &HeaderMap, names: [&str; 4]) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        // RFC 9110: a date that cannot be read is no condition.
        let date = |name: &str| text(name).and_then(|text| httpdate::parse_http_date(text).ok());
        Self {
            if_match: text(names[0]).map(str::to_owned),
            if_none_match: text(names[1]).map(str::to_owned),
            if_modified_since: date(names[2]),
            if_unmodified_since: date(names[3]),
        }
    }

    /// Judges the conditions in the order of RFC 9110, section 13.2.2.
    pub(super) fn judge(&self, etag: &str, modified: SystemTime) -> Result<(), Refusal> {
        let modified = whole_seconds(modified);
        let named = |list: &str| list.split(',').any(|tag| matches_read(tag.trim(), etag));
        match (&self.if_match, self.if_unmodified_since) {
            (Some(list), _) if !named(list) => return Err(Refusal::PreconditionFailed),
            (None, Some(date)) if modified > date => return Err(Refusal::PreconditionFailed),
            _ => {}
        }
        match (&self.if_none_match, self.if_modified_since) {
            (Some(list), _) if named(list) => Err(Refusal::NotModified),
            (None, Some(date)) if modified <= date => Err(Refusal::NotModified),
            _ => Ok(()),
        }
    }

    /// As [`judge`](Self::judge), for the source of a copy, which is never "not modified".
    pub(super) fn judge_copy_source(
        &self,
        etag: &str,
        modified: SystemTime,
    ) -> Result<(), Refusal> {
        self.judge(etag, modified).map_err(|_| Refusal::PreconditionFailed)
    }
}

fn matches_read(tag: &str, etag: &str) -> bool {
    tag == "*" || unquoted(tag.strip_prefix("W/").unwrap_or(tag)) == etag
}

/// An entity tag without its quotes.
pub(super) fn unquoted(tag: &str) -> &str {
    tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag)
}

/// A time as HTTP can say it.
pub(super) fn whole_seconds(time: SystemTime) -> SystemTime {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: u64 = 10;

    fn present(etag: &str, written: u64) -> KeyState<'_> {
        KeyState { current: Some((etag, written)), deleted: None }
    }

    fn absent(deleted: Option<u64>) -> KeyState<'static> {
        KeyState { current: None, deleted }
    }

    fn matching(etag: &str) -> WriteCondition {
        WriteCondition::Match(etag.to_owned())
    }

    #[test]
    fn the_table_of_amazon() {
        use Refusal::{Conflict, NoSuchKey, PreconditionFailed};
        use WriteCondition::{Absent, None, Present};
        let table = [
            (None, present("a", 11), Ok(())),
            (None, absent(Some(11)), Ok(())),
            (Absent, absent(Option::None), Ok(())),
            (Absent, absent(Some(10)), Ok(())),
            (Absent, absent(Some(11)), Err(Conflict)),
            (Absent, present("a", 3), Err(PreconditionFailed)),
            (Absent, present("a", 11), Err(PreconditionFailed)),
            (Present, present("a", 11), Ok(())),
            (Present, absent(Option::None), Err(NoSuchKey)),
            (matching("a"), present("a", 10), Ok(())),
            (matching("a"), present("a", 11), Err(Conflict)),
            (matching("a"), present("b", 10), Err(PreconditionFailed)),
            (matching("a"), present("b", 11), Err(PreconditionFailed)),
            (matching("a"), absent(Some(11)), Err(NoSuchKey)),
            (matching("a"), absent(Option::None), Err(NoSuchKey)),
        ];
        for (condition, key, expected) in table {
            assert_eq!(condition.judge(key, STARTED), expected, "{condition:?} on {key:?}");
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn write_conditions_are_read_strictly() {
        let read = |pairs: &[(&'static str, &str)]| WriteCondition::from_headers(&headers(pairs));
        assert_eq!(read(&[]).unwrap(), WriteCondition::None);
        assert_eq!(read(&[("if-none-match", "*")]).unwrap(), WriteCondition::Absent);
        assert_eq!(read(&[("if-match", "\"a\"")]).unwrap(), matching("a"));
        assert_eq!(read(&[("if-match", "a")]).unwrap(), matching("a"));
        assert_eq!(read(&[("if-match", "*")]).unwrap(), WriteCondition::Present);
        assert!(read(&[("if-match", "")]).is_err(), "an empty tag must not overwrite");
        assert!(read(&[("if-none-match", "\"*\"")]).is_err(), "a quoted star is not a star");
        assert!(read(&[("if-none-match", "\"a\"")]).is_err());
        assert!(read(&[("if-none-match", "*"), ("if-match", "\"a\"")]).is_err());
    }

    #[test]
    fn a_weak_tag_never_matches_a_write() {
        let condition = WriteCondition::from_etag("W/\"a\"");
        assert_eq!(condition.judge(present("a", 1), 1), Err(Refusal::PreconditionFailed));
    }

    #[test]
    fn read_conditions_follow_the_rfc() {
        let then = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let later = "Sun, 06 Nov 1994 08:49:38 GMT";
        let earlier = "Sun, 06 Nov 1994 08:49:36 GMT";
        let judge = |pairs: &[(&'static str, &str)]| {
            ReadConditions::from_headers(&headers(pairs)).judge("a", then)
        };
        assert_eq!(judge(&[("if-match", "\"b\", \"a\"")]), Ok(()));
        assert_eq!(judge(&[("if-match", "\"b\"")]), Err(Refusal::PreconditionFailed));
        assert_eq!(judge(&[("if-none-match", "W/\"a\"")]), Err(Refusal::NotModified));
        assert_eq!(judge(&[("if-none-match", "\"b\"")]), Ok(()));
        assert_eq!(judge(&[("if-modified-since", later)]), Err(Refusal::NotModified));
        assert_eq!(judge(&[("if-modified-since", earlier)]), Ok(()));
        assert_eq!(judge(&[("if-unmodified-since", earlier)]), Err(Refusal::PreconditionFailed));
        assert_eq!(judge(&[("if-unmodified-since", later)]), Ok(()));
        // The tag speaks, the date is silent.
        assert_eq!(judge(&[("if-match", "\"a\""), ("if-unmodified-since", earlier)]), Ok(()));
        assert_eq!(judge(&[("if-none-match", "\"b\""), ("if-modified-since", later)]), Ok(()));
    }
}

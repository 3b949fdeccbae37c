//! Preconditions: what a request asks for, and whether the state of its key grants it.
//!
//! Pure. The table of answers is Amazon's as measured against the real service (design notes,
//! "AWS S3 conditional writes"), and is reviewed in the tests below. Where other stores read or
//! answer otherwise, the profile's [`Spelling`] and [`Absent`] say so. Who takes the snapshot, and
//! that nothing changes between the judgement and the write, is `index`'s business.

use super::errors::unknown_error;
use super::generation::Generations;
use super::profile::{Absent, CopyHeaders, Spelling};
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
    /// `If-Match` of tags: the current one is among these.
    Match(Vec<String>),
    /// `If-None-Match` of tags: the current one, if there is one, is not among these.
    Differ(Vec<String>),
    /// `x-goog-if-generation-match`, `x-goog-if-metageneration-match`.
    Generation(Generations),
    /// `If-Match` and `If-None-Match`.
    Both(Box<Self>, Box<Self>),
    /// One that held a moment ago: where it does not any more, a race was lost.
    Raced(Box<Self>),
}

/// What a request says of the state it wants, as it says it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked<'a> {
    if_match: Option<&'a [u8]>,
    if_none_match: Option<&'a [u8]>,
}

/// What a key looks like when a condition on it is judged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyState<'a> {
    /// Entity tag and sequence number of the current version; `None` when there is none, or when
    /// it is a delete marker.
    pub(super) current: Option<(&'a str, u64)>,
    /// The generation of the current version; 0 where there is none.
    pub(super) generation: u64,
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
    /// 500 `UnknownError`: held, and then no more.
    RaceLost,
    /// 304 `NotModified`, reads only.
    NotModified,
}

impl Refusal {
    /// As a store says it that has this answer to `If-Match` on what is absent.
    pub(super) fn told(self, absent: Absent) -> Self {
        match (self, absent) {
            (Self::NoSuchKey, Absent::PreconditionFailed) => Self::PreconditionFailed,
            (
                Self::NoSuchKey
                | Self::PreconditionFailed
                | Self::Conflict
                | Self::RaceLost
                | Self::NotModified,
                _,
            ) => self,
        }
    }
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
            Refusal::RaceLost => unknown_error(),
            Refusal::NotModified => s3_error!(NotModified),
        }
    }
}

impl<'a> Asked<'a> {
    /// By a request that writes one key.
    ///
    /// The raw headers are read, not what `s3s` made of them: it takes an empty `If-Match` for no
    /// condition at all, and would let it overwrite.
    pub(super) fn of(headers: &'a HeaderMap) -> Self {
        Self::named(headers, IF_MATCH.as_str(), IF_NONE_MATCH.as_str())
    }

    /// By a copy, of its destination.
    pub(super) fn of_copy(headers: &'a HeaderMap, which: CopyHeaders) -> Self {
        match which {
            CopyHeaders::Plain => Self::of(headers),
            CopyHeaders::Cloudflare => Self::named(
                headers,
                "cf-copy-destination-if-match",
                "cf-copy-destination-if-none-match",
            ),
        }
    }

    /// By a DELETE, which knows only `If-Match`.
    pub(super) fn of_delete(headers: &'a HeaderMap) -> Self {
        Self { if_none_match: None, ..Self::of(headers) }
    }

    /// By an object in `DeleteObjects`.
    pub(super) fn tag(tag: Option<&'a str>) -> Self {
        Self { if_match: tag.map(str::as_bytes), if_none_match: None }
    }

    fn named(headers: &'a HeaderMap, if_match: &str, if_none_match: &str) -> Self {
        let value = |name: &str| headers.get(name).map(http::HeaderValue::as_bytes);
        Self { if_match: value(if_match), if_none_match: value(if_none_match) }
    }

    /// Without what the store does not look at.
    pub(super) fn looked_at(self, swap: bool, create: bool) -> Self {
        Self {
            if_match: self.if_match.filter(|_| swap),
            if_none_match: self.if_none_match.filter(|_| create),
        }
    }

    /// The condition that a store with this spelling reads.
    pub(super) fn read(self, spelling: Spelling) -> S3Result<WriteCondition> {
        match spelling {
            Spelling::Amazon => self.read_as_amazon(),
            Spelling::Single | Spelling::List | Spelling::Bare => {
                let tags = |value: Option<&[u8]>| value.and_then(|value| tags(value, spelling));
                let swap = tags(self.if_match).map(|tags| match tags {
                    Named::Star => WriteCondition::Present,
                    Named::Tags(tags) => WriteCondition::Match(tags),
                });
                let create = tags(self.if_none_match).map(|tags| match tags {
                    Named::Star => WriteCondition::Absent,
                    Named::Tags(tags) => WriteCondition::Differ(tags),
                });
                Ok(match (swap, create) {
                    (Some(swap), Some(create)) => {
                        WriteCondition::Both(Box::new(swap), Box::new(create))
                    }
                    (Some(one), None) | (None, Some(one)) => one,
                    (None, None) => WriteCondition::None,
                })
            }
        }
    }

    fn read_as_amazon(self) -> S3Result<WriteCondition> {
        let swap = match self.if_match.map(std::str::from_utf8) {
            None => WriteCondition::None,
            Some(Ok("*")) => WriteCondition::Present,
            Some(Ok(tag)) if !tag.is_empty() => WriteCondition::Match(vec![unquoted(tag).into()]),
            Some(_) => return Err(s3_error!(InvalidArgument, "invalid header: If-Match")),
        };
        match self.if_none_match {
            None => Ok(swap),
            Some(b"*") if swap == WriteCondition::None => Ok(WriteCondition::Absent),
            // "If-None-Match takes only *" (PutObject); anything else is not implemented.
            Some(_) => Err(s3_error!(
                NotImplemented,
                "A header you provided implies functionality that is not implemented"
            )),
        }
    }
}

/// What a header names.
enum Named {
    Star,
    Tags(Vec<String>),
}

/// What a header names for a store that is not strict; `None` is no condition.
fn tags(value: &[u8], spelling: Spelling) -> Option<Named> {
    let text = String::from_utf8_lossy(value);
    let tags: Vec<String> = match spelling {
        Spelling::Bare => vec![text.to_string()],
        Spelling::Amazon | Spelling::Single | Spelling::List if text.is_empty() => return None,
        Spelling::Amazon | Spelling::Single => vec![unquoted(text.trim()).to_owned()],
        Spelling::List => text.split(',').map(|tag| unquoted(tag.trim()).to_owned()).collect(),
    };
    // A quoted star is a tag like another.
    let star = text.split(',').any(|tag| tag.trim() == "*") && tags.iter().any(|tag| tag == "*");
    Some(if star { Named::Star } else { Named::Tags(tags) })
}

impl WriteCondition {
    /// Judges the condition.
    ///
    /// `started` is the sequence number at which the request began (the upload, for Complete):
    /// the store's last change *before* it. A store that does not detect interleaving passes
    /// `u64::MAX`.
    pub(super) fn judge(&self, key: KeyState<'_>, started: u64) -> Result<(), Refusal> {
        match (self, key.current) {
            (Self::None, _) | (Self::Present, Some(_)) | (Self::Differ(_), None) => Ok(()),
            (Self::Absent, Some(_)) => Err(Refusal::PreconditionFailed),
            // A DELETE landed meanwhile, of an object or of nothing: Amazon answers both so.
            (Self::Absent, None) if key.deleted.is_some_and(|at| at > started) => {
                Err(Refusal::Conflict)
            }
            (Self::Absent, None) => Ok(()),
            (Self::Present | Self::Match(_), None) => Err(Refusal::NoSuchKey),
            (Self::Match(wanted), Some((tag, _))) if !wanted.iter().any(|one| one == tag) => {
                Err(Refusal::PreconditionFailed)
            }
            // The tag is right, but it was written after the request began: same bytes, put again.
            (Self::Match(_), Some((_, written))) if written > started => Err(Refusal::Conflict),
            (Self::Match(_), Some(_)) => Ok(()),
            (Self::Differ(tags), Some((tag, _))) if tags.iter().any(|one| one == tag) => {
                Err(Refusal::PreconditionFailed)
            }
            (Self::Differ(_), Some(_)) => Ok(()),
            (Self::Generation(wanted), _) if wanted.hold(key.generation) => Ok(()),
            (Self::Generation(_), _) => Err(Refusal::PreconditionFailed),
            (Self::Both(one, other), _) => {
                one.judge(key, started).and_then(|()| other.judge(key, started))
            }
            (Self::Raced(condition), _) => {
                condition.judge(key, started).map_err(|_| Refusal::RaceLost)
            }
        }
    }

    /// What it becomes once it has been found to hold, for a store that looks again and answers
    /// the losers of a swap with a 500.
    pub(super) fn raced(self) -> Self {
        match self {
            Self::Match(_) | Self::Present => Self::Raced(Box::new(self)),
            Self::None
            | Self::Absent
            | Self::Differ(_)
            | Self::Generation(_)
            | Self::Both(..)
            | Self::Raced(_) => self,
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
    generations: Generations,
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
            generations: Generations::default(),
        }
    }

    /// And these on generations.
    pub(super) fn with(self, generations: Generations) -> Self {
        Self { generations, ..self }
    }

    /// Judges what is wanted of the generation.
    pub(super) fn judge_generation(&self, generation: u64) -> Result<(), Refusal> {
        if self.generations.hold(generation) { Ok(()) } else { Err(Refusal::PreconditionFailed) }
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
        KeyState { current: Some((etag, written)), generation: written, deleted: None }
    }

    fn absent(deleted: Option<u64>) -> KeyState<'static> {
        KeyState { current: None, generation: 0, deleted }
    }

    fn matching(etag: &str) -> WriteCondition {
        WriteCondition::Match(vec![etag.to_owned()])
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
        let read =
            |pairs: &[(&'static str, &str)]| Asked::of(&headers(pairs)).read(Spelling::Amazon);
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
        let condition = Asked::tag(Some("W/\"a\"")).read(Spelling::Amazon).unwrap();
        assert_eq!(condition.judge(present("a", 1), 1), Err(Refusal::PreconditionFailed));
    }

    #[test]
    fn other_stores_read_otherwise() {
        use Spelling::{Bare, List, Single};
        use WriteCondition::{Absent, Differ, None, Present};
        let tags = |tags: &[&str]| tags.iter().map(|&tag| tag.to_owned()).collect::<Vec<_>>();
        let swap = |value: &str, spelling| Asked::tag(Some(value)).read(spelling).unwrap();
        let create = |value: &str, spelling| {
            Asked::of(&headers(&[("if-none-match", value)])).read(spelling).unwrap()
        };
        for spelling in [Single, List, Bare] {
            assert_eq!(swap("*", spelling), Present);
            assert_eq!(create("*", spelling), Absent);
            assert_eq!(swap("a", spelling), matching("a"));
        }
        for spelling in [Single, List] {
            assert_eq!(swap("\"a\"", spelling), matching("a"));
            assert_eq!(create("\"a\"", spelling), Differ(tags(&["a"])));
            assert_eq!(create("\"*\"", spelling), Differ(tags(&["*"])));
            assert_eq!(swap("", spelling), None, "an empty header is none");
        }
        assert_eq!(swap("\"a\", b", List), WriteCondition::Match(tags(&["a", "b"])));
        assert_eq!(swap("\"a\", b", Single), matching("\"a\", b"));
        assert_eq!(swap("\"a\"", Bare), matching("\"a\""), "and no tag has quotes");
        assert_eq!(swap("", Bare), matching(""));
        let both = headers(&[("if-match", "a"), ("if-none-match", "*")]);
        let both = Asked::of(&both).read(List).unwrap();
        assert_eq!(both.judge(present("a", 1), 1), Err(Refusal::PreconditionFailed));
        assert_eq!(both.judge(absent(Option::None), 1), Err(Refusal::NoSuchKey));
    }

    #[test]
    fn a_lost_race_is_told_apart() {
        let raced = matching("a").raced();
        assert_eq!(raced.judge(present("a", 1), u64::MAX), Ok(()));
        assert_eq!(raced.judge(present("b", 1), u64::MAX), Err(Refusal::RaceLost));
        assert_eq!(WriteCondition::Absent.raced(), WriteCondition::Absent);
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

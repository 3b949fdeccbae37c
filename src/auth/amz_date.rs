//! The two spellings of time in SigV4: `20130524T000000Z` and, in an old `Date` header, HTTP's.
//!
//! It does *not* read the clock. The calendar is aws-smithy-types' and httpdate's.

use std::fmt;
use std::time::{Duration, SystemTime};

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;

/// `YYYYMMDD'T'HHMMSS'Z'`, in bytes.
const LEN: usize = 16;

/// A second in time, kept with its signed spelling `YYYYMMDD'T'HHMMSS'Z'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AmzDate {
    text: String,
    at: SystemTime,
}

impl AmzDate {
    /// Parses the value of `X-Amz-Date`. `None` when it is anything but `YYYYMMDD'T'HHMMSS'Z'`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let shape_is_right = text.len() == LEN
            && text.bytes().enumerate().all(|(i, b)| match i {
                8 => b == b'T',
                15 => b == b'Z',
                0..=7 | 9..=14 => b.is_ascii_digit(),
                _ => false,
            });
        if !shape_is_right {
            return None;
        }
        let rfc3339 = format!(
            "{}-{}-{}T{}:{}:{}Z",
            &text[..4],
            &text[4..6],
            &text[6..8],
            &text[9..11],
            &text[11..13],
            &text[13..15]
        );
        let parsed = DateTime::from_str(&rfc3339, Format::DateTime).ok()?;
        let at = SystemTime::try_from(parsed).ok()?;
        // A leap second or a 31 February would be read as another moment than the one spelled.
        (Self::from_time(at)?.text == text).then(|| Self { text: text.to_owned(), at })
    }

    /// Parses the value of a `Date` header: HTTP's form, or the one of `X-Amz-Date`.
    pub(crate) fn parse_date_header(text: &str) -> Option<Self> {
        match httpdate::parse_http_date(text) {
            Ok(at) => Self::from_time(at),
            Err(_) => Self::parse(text),
        }
    }

    /// The second that `at` falls into. `None` outside the years 0 to 9999.
    pub(crate) fn from_time(at: SystemTime) -> Option<Self> {
        let seconds = DateTime::from_secs(DateTime::from(at).secs());
        let mut text = seconds.fmt(Format::DateTime).ok()?;
        text.retain(|c| c != '-' && c != ':');
        let at = SystemTime::try_from(seconds).ok()?;
        (text.len() == LEN).then_some(Self { text, at })
    }

    /// `YYYYMMDD'T'HHMMSS'Z'`.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// `YYYYMMDD`, the first part of the credential scope.
    pub(crate) fn day(&self) -> &str {
        &self.text[..8]
    }

    /// The moment.
    pub(crate) fn time(&self) -> SystemTime {
        self.at
    }

    /// How far `self` and `other` lie apart, in either direction.
    pub(crate) fn distance(&self, other: SystemTime) -> Duration {
        match self.at.duration_since(other) {
            Ok(later) => later,
            Err(earlier) => earlier.duration(),
        }
    }
}

impl fmt::Display for AmzDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `at` as AWS prints times in error elements: `2013-05-24T00:00:00Z`.
pub(crate) fn iso8601(at: SystemTime) -> String {
    DateTime::from_secs(DateTime::from(at).secs())
        .fmt(Format::DateTime)
        .unwrap_or_else(|_| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_name_the_same_second() {
        let a = AmzDate::parse("20130524T000000Z").unwrap();
        let b = AmzDate::parse_date_header("Fri, 24 May 2013 00:00:00 GMT").unwrap();
        assert_eq!(a, b);
        assert_eq!(a.day(), "20130524");
        let epoch = a.time().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(epoch.as_secs(), 1_369_353_600);
        assert_eq!(iso8601(a.time()), "2013-05-24T00:00:00Z");
    }

    #[test]
    fn fractions_of_a_second_are_dropped() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_369_353_600_999);
        assert_eq!(AmzDate::from_time(at).unwrap().as_str(), "20130524T000000Z");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "20130524",
            "20130524T000000",
            "20130524T000000z",
            "2013-05-24T00:00:00Z",
            "20130524T000000Z ",
            "20130231T000000Z",
            "20130524T250000Z",
            "20130524T000060Z",
            "２0130524T0000Z",
        ] {
            assert!(AmzDate::parse(text).is_none(), "{text:?} was taken for a date");
        }
    }
}

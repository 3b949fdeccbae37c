//! What the store's answer to a write means.
//!
//! The line that matters runs between "it has changed nothing and never will" and "who knows":
//! an answer is taken for a refusal only if the store says so itself (F7).

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use quick_xml::Reader;
use quick_xml::events::Event;

use super::dialect::{Dialect, is_opaque};
use crate::fence::{Change, Outcome, Tag};
use crate::s3::strip_quotes;

/// The store's answer, whole. Answers to writes are small.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// What the store speaks.
    pub dialect: Dialect,
}

impl Answer {
    /// The `<Code>` of an S3 error.
    #[must_use]
    pub fn code(&self) -> Option<String> {
        element(&self.body, "Code")
    }

    /// The object's tag, from the headers.
    #[must_use]
    pub fn tag(&self) -> Option<Tag> {
        self.dialect.tag_of(&self.headers)
    }

    /// The text of the first element of this name in its body.
    #[must_use]
    pub fn element(&self, name: &str) -> Option<String> {
        element(&self.body, name)
    }

    /// What it says of a request that changes an object. `exclusive`: the request carried no
    /// precondition of the fence's, so that no refusal speaks of one.
    #[must_use]
    pub fn outcome(&self, change: &Change, exclusive: bool) -> Outcome {
        let refusal = || {
            let refusal = self.refusal();
            if exclusive && refusal == Outcome::Refused { Outcome::Rejected } else { refusal }
        };
        match change {
            Change::Assemble(_) | Change::Claim if self.status.is_success() => {
                let assembled = self.assembled();
                let refused = exclusive && assembled == Outcome::Refused;
                if refused { Outcome::Rejected } else { assembled }
            }
            Change::Assemble(_) if self.is_no_such_upload() => Outcome::Consumed,
            Change::Touch | Change::DeleteVersion if self.status.is_success() => Outcome::Done,
            Change::Assemble(_) | Change::Claim | Change::Touch | Change::DeleteVersion => {
                refusal()
            }
            Change::Delete if self.status.is_success() => Outcome::Applied(Tag::Absent),
            // A success without a tag leaves open what is there now.
            Change::Put(_) if self.status.is_success() => {
                self.tag().map_or(Outcome::Unknown, Outcome::Applied)
            }
            Change::Delete | Change::Put(_) => self.refusal(),
        }
    }

    /// What a success of CompleteMultipartUpload or CopyObject says. It can carry an error in its
    /// body, because S3 answers 200 before it is done.
    #[must_use]
    pub fn assembled(&self) -> Outcome {
        match (self.code().as_deref(), element(&self.body, "ETag")) {
            // Where the answer names no generation, the object is looked at (F10).
            (None, Some(etag)) if is_opaque(strip_quotes(&etag)) => {
                self.dialect.tag(&etag, &self.headers).map_or(Outcome::Unknown, Outcome::Applied)
            }
            (Some("PreconditionFailed" | "ConditionalRequestConflict"), _) => Outcome::Refused,
            (Some(_) | None, _) => Outcome::Unknown,
        }
    }

    fn is_no_such_upload(&self) -> bool {
        self.status == StatusCode::NOT_FOUND && self.code().as_deref() == Some("NoSuchUpload")
    }

    /// What an answer other than success says.
    #[must_use]
    pub fn refusal(&self) -> Outcome {
        let code = self.code();
        match (self.status.as_u16(), code.as_deref()) {
            (412, _)
            | (409, Some("ConditionalRequestConflict" | "OperationAborted"))
            | (404, Some("NoSuchKey")) => Outcome::Refused,
            // A time-out speaks of the connection, not of the request. Every other 4xx is the
            // store's own word that it did nothing, as are a redirect and 501.
            (408, _) => Outcome::Unknown,
            (300..=499 | 501, _) => Outcome::Rejected,
            // A store may answer 500 to the losers of a race (Ceph), and a gateway 502 to 504 to a
            // request that it has passed on.
            _ => Outcome::Unknown,
        }
    }
}

/// The text of the first element of this name, at any depth.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other events of XML do not matter here")]
pub(super) fn element(xml: &[u8], name: &str) -> Option<String> {
    let mut reader = Reader::from_reader(xml);
    let mut inside = false;
    let mut text = String::new();
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) if start.local_name().as_ref() == name.as_bytes() => inside = true,
            Event::End(end) if inside && end.local_name().as_ref() == name.as_bytes() => {
                return Some(text);
            }
            Event::Text(piece) if inside => text.push_str(&piece.decode().ok()?),
            Event::GeneralRef(reference) if inside => {
                if let Some(character) = reference.resolve_char_ref().ok()? {
                    text.push(character);
                } else {
                    let name = reference.decode().ok()?;
                    text.push_str(quick_xml::escape::resolve_xml_entity(&name)?);
                }
            }
            Event::Eof => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header;

    use crate::fence::{Assembly, Contents, Enforcement};

    fn answer(status: u16, code: &str, etag: Option<&str>) -> Answer {
        let mut headers = HeaderMap::new();
        if let Some(etag) = etag {
            headers.insert(header::ETAG, etag.parse().unwrap());
        }
        Answer {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            dialect: Dialect::S3,
            body: format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code></Error>").into(),
        }
    }

    #[test]
    fn only_the_stores_own_word_is_a_refusal() {
        let put = Change::Put(Contents::Streamed);
        let rows = [
            (200, "", Some("\"e\""), Outcome::Applied(Tag::Version("e".into()))),
            (200, "", Some("e"), Outcome::Applied(Tag::Version("e".into()))),
            (200, "", None, Outcome::Unknown),
            (412, "PreconditionFailed", None, Outcome::Refused),
            (412, "", None, Outcome::Refused),
            (409, "ConditionalRequestConflict", None, Outcome::Refused),
            (409, "InvalidBucketState", None, Outcome::Rejected),
            (404, "NoSuchKey", None, Outcome::Refused),
            (404, "NoSuchBucket", None, Outcome::Rejected),
            (400, "BadDigest", None, Outcome::Rejected),
            (403, "AccessDenied", None, Outcome::Rejected),
            (429, "TooManyRequests", None, Outcome::Rejected),
            (301, "PermanentRedirect", None, Outcome::Rejected),
            (501, "NotImplemented", None, Outcome::Rejected),
            (408, "RequestTimeout", None, Outcome::Unknown),
            (500, "InternalError", None, Outcome::Unknown),
            (503, "SlowDown", None, Outcome::Unknown),
            (504, "", None, Outcome::Unknown),
        ];
        for (status, code, etag, outcome) in rows {
            let answer = answer(status, code, etag);
            assert_eq!(answer.outcome(&put, false), outcome, "{status} {code}");
        }
        let deleted = answer(204, "", None).outcome(&Change::Delete, false);
        assert_eq!(deleted, Outcome::Applied(Tag::Absent));
    }

    #[test]
    fn what_carries_no_condition_is_refused_for_another_reason() {
        for change in [Change::Touch, Change::DeleteVersion] {
            assert_eq!(answer(200, "", None).outcome(&change, true), Outcome::Done);
            assert_eq!(answer(404, "NoSuchKey", None).outcome(&change, true), Outcome::Rejected);
            assert_eq!(answer(503, "SlowDown", None).outcome(&change, true), Outcome::Unknown);
        }
    }

    fn answer_of(status: StatusCode, headers: HeaderMap, body: Bytes) -> Answer {
        Answer { status, headers, body, dialect: Dialect::S3 }
    }

    #[test]
    fn on_google_a_success_names_its_generation_or_is_looked_after() {
        let put = Change::Put(Contents::Streamed);
        let mut shown = answer(200, "", Some("\"e\""));
        shown.dialect = Dialect::Gcs;
        assert_eq!(shown.outcome(&put, false), Outcome::Unknown);
        shown.headers.insert("x-goog-generation", "17".parse().unwrap());
        assert_eq!(shown.outcome(&put, false), Outcome::Applied(Tag::Version("17/e".into())));
        shown.body = "<CopyObjectResult><ETag>\"f\"</ETag></CopyObjectResult>".into();
        assert_eq!(shown.assembled(), Outcome::Applied(Tag::Version("17/f".into())));
        shown.headers.clear();
        assert_eq!(shown.assembled(), Outcome::Unknown);
    }

    #[test]
    fn a_success_with_an_error_inside_is_none() {
        let assembly =
            Assembly { leaves: None, enforcement: Enforcement::Exclusive, of_upload: true };
        let assemble = Change::Assemble(assembly);
        let outcome = |status: u16, body: &str, exclusive| {
            let status = StatusCode::from_u16(status).unwrap();
            let body = Bytes::copy_from_slice(body.as_bytes());
            answer_of(status, HeaderMap::new(), body).outcome(&assemble, exclusive)
        };
        let applied = Outcome::Applied(Tag::Version("abc-2".into()));
        let result = "  \n <R><ETag>&quot;abc-2&quot;</ETag></R>";
        assert_eq!(outcome(200, result, true), applied);
        let error = |code: &str| format!("   <Error><Code>{code}</Code></Error>");
        assert_eq!(outcome(200, &error("InternalError"), true), Outcome::Unknown);
        assert_eq!(outcome(200, &error("PreconditionFailed"), false), Outcome::Refused);
        assert_eq!(outcome(200, &error("PreconditionFailed"), true), Outcome::Rejected);
        assert_eq!(outcome(200, "", true), Outcome::Unknown);
        assert_eq!(outcome(200, "<R><ETag>a b</ETag></R>", true), Outcome::Unknown);
        assert_eq!(outcome(404, &error("NoSuchUpload"), true), Outcome::Consumed);
        assert_eq!(outcome(404, &error("NoSuchUpload"), false), Outcome::Consumed);
        assert_eq!(outcome(412, &error("PreconditionFailed"), true), Outcome::Rejected);
        assert_eq!(outcome(412, &error("PreconditionFailed"), false), Outcome::Refused);
    }

    #[test]
    fn elements_are_read_with_their_entities() {
        let xml = b"<R xmlns=\"x\"><ETag>&quot;abc-1&quot;</ETag></R>";
        assert_eq!(element(xml, "ETag").as_deref(), Some("\"abc-1\""));
        assert_eq!(element(xml, "Code"), None);
        assert_eq!(element(b"not xml <", "Code"), None);
    }
}

//! What the store's answer to a write means.
//!
//! The line that matters runs between "it has changed nothing and never will" and "who knows":
//! an answer is taken for a refusal only if the store says so itself (F7).

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use quick_xml::Reader;
use quick_xml::events::Event;

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
}

impl Answer {
    /// The `<Code>` of an S3 error.
    #[must_use]
    pub fn code(&self) -> Option<String> {
        element(&self.body, "Code")
    }

    /// The object's ETag, from the header.
    #[must_use]
    pub fn etag(&self) -> Option<Tag> {
        super::tag_of(&self.headers)
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
            // A success without an ETag leaves open what is there now.
            Change::Put(_) if self.status.is_success() => {
                self.etag().map_or(Outcome::Unknown, Outcome::Applied)
            }
            Change::Delete | Change::Put(_) => self.refusal(),
        }
    }

    /// What a success of CompleteMultipartUpload or CopyObject says. It can carry an error in its
    /// body, because S3 answers 200 before it is done.
    #[must_use]
    pub fn assembled(&self) -> Outcome {
        match (self.code().as_deref(), element(&self.body, "ETag")) {
            (None, Some(etag)) if is_opaque_tag(strip_quotes(&etag)) => {
                Outcome::Applied(Tag::Version(strip_quotes(&etag).to_owned()))
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

/// Whether the text can be an ETag in a header.
fn is_opaque_tag(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
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

    #[test]
    fn a_success_with_an_error_inside_is_none() {
        let assembly =
            Assembly { leaves: None, enforcement: Enforcement::Exclusive, of_upload: true };
        let assemble = Change::Assemble(assembly);
        let outcome = |status: u16, body: &str, exclusive| {
            let status = StatusCode::from_u16(status).unwrap();
            let body = Bytes::copy_from_slice(body.as_bytes());
            Answer { status, headers: HeaderMap::new(), body }.outcome(&assemble, exclusive)
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

//! An answer as text that can be compared: without ids, dates, and what concerns one connection.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::support::Answer;

/// Headers that are one server's or one connection's, or the time.
const OWN: [&str; 10] = [
    "connection",
    "date",
    "keep-alive",
    "seaweed-x-amz-noncurrent-since-ns",
    "server",
    "transfer-encoding",
    "x-amz-id-2",
    "x-amz-request-id",
    "x-amzn-requestid",
    "x-fencepost-request-id",
];

/// Elements whose text is new in every answer, or a date.
const NEW: [&str; 5] = ["RequestId", "HostId", "LastModified", "Initiated", "CreationDate"];

/// Elements that name what the store has made up a name for.
const NAMED: [&str; 5] =
    ["UploadId", "VersionId", "NextVersionIdMarker", "VersionIdMarker", "DeleteMarkerVersionId"];

/// Headers that do.
const NAMED_HEADERS: [&str; 2] = ["x-amz-version-id", "x-amz-copy-source-version-id"];

/// Names that a store made up, in the order in which they appeared.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, usize>);

impl Names {
    fn note(&mut self, name: &str) {
        if !name.is_empty() && name != "null" {
            let next = self.0.len();
            self.0.entry(name.to_owned()).or_insert(next);
        }
    }

    fn replaced(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, number) in &self.0 {
            if text.contains(name.as_str()) {
                text = text.replace(name.as_str(), &format!("(name {number})"));
            }
        }
        text
    }
}

/// What is compared of an answer.
pub(super) fn compared(answer: &Answer, buckets: &[&str], names: &mut Names) -> String {
    let body = match std::str::from_utf8(&answer.body) {
        Ok(text) if text.starts_with('<') => without_news(text, names),
        Ok(text) if text.len() < 200 => format!("{text:?}"),
        Ok(_) | Err(_) => {
            let digest = <sha2::Sha256 as sha2::Digest>::digest(&answer.body);
            format!("{} bytes, {}", answer.body.len(), hex::encode(digest))
        }
    };
    for name in NAMED_HEADERS {
        names.note(answer.headers.get(name).map_or("", |value| value.to_str().unwrap()));
    }
    let mut lines: Vec<String> = Vec::new();
    for (name, value) in &answer.headers {
        let text = String::from_utf8_lossy(value.as_bytes());
        match name.as_str() {
            own if OWN.contains(&own) => {}
            // SeaweedFS shows the framing of an upload as if the object had it; Amazon S3 does not,
            // and the proxy takes the framing off.
            "content-encoding" if text == "aws-chunked" => {}
            "last-modified" => lines.push("last-modified: (date)".into()),
            // Names can be of different lengths.
            "content-length" if text == answer.body.len().to_string() => {
                lines.push("content-length: that of the body".into());
            }
            name => lines.push(format!("{name}: {text}")),
        }
    }
    lines.sort();
    let mut text = format!("{}\n{}\n", answer.status, lines.join("\n"));
    writeln!(text, "\n{body}").unwrap();
    writeln!(text, "trailers: {:?}, cut: {}", answer.trailers, answer.cut).unwrap();
    let text = buckets.iter().fold(text, |text, bucket| text.replace(bucket, "BUCKET"));
    names.replaced(&text)
}

/// XML without the texts that are new every time; the names in it are noted.
fn without_news(xml: &str, names: &mut Names) -> String {
    let (mut text, mut rest) = (String::new(), xml);
    while let Some((before, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').unwrap_or((after, ""));
        let content = after.split('<').next().unwrap_or_default();
        write!(text, "{before}<{tag}>").unwrap();
        rest = after;
        if NEW.contains(&tag) {
            text.push_str("(new)");
            rest = &after[content.len()..];
        } else if NAMED.contains(&tag) {
            names.note(content);
        }
    }
    sorted_uploads(&names.replaced(&(text + rest)))
}

/// SeaweedFS lists the uploads of one key in the order of their ids, which are random.
fn sorted_uploads(xml: &str) -> String {
    const UPLOAD: &str = "<Upload>";
    let Some((before, uploads)) = xml.split_once(UPLOAD) else { return xml.to_owned() };
    let Some((uploads, after)) = uploads.rsplit_once("</Upload>") else { return xml.to_owned() };
    let mut uploads: Vec<&str> = uploads.split("</Upload><Upload>").collect();
    uploads.sort_unstable();
    format!("{before}{UPLOAD}{}</Upload>{after}", uploads.join("</Upload><Upload>"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;

    fn answer(headers: &[(&'static str, &str)], body: &str) -> Answer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let (body, trailers) = (Bytes::from(body.to_owned()), HeaderMap::new());
        Answer { status: 200, headers: map, body, trailers, cut: false }
    }

    fn text(answer: &Answer) -> String {
        compared(answer, &["b-1", "b-2"], &mut Names::default())
    }

    #[test]
    fn what_must_differ_is_left_out_and_nothing_else() {
        let one = answer(
            &[("date", "1"), ("x-amz-version-id", "v1"), ("ETag", "e")],
            "<R><RequestId>1</RequestId><UploadId>u1</UploadId><Bucket>b-1</Bucket></R>",
        );
        let two = answer(
            &[("date", "2"), ("x-amz-version-id", "v2"), ("etag", "e")],
            "<R><RequestId>2</RequestId><UploadId>u2</UploadId><Bucket>b-2</Bucket></R>",
        );
        assert_eq!(text(&one), text(&two));
        let others = [
            answer(&[("ETag", "e")], "<R></R>"),
            answer(&[("ETag", "e"), ("x-amz-version-id", "v")], "<R></R>"),
            answer(&[("ETag", "f")], "<R></R>"),
            answer(&[("ETag", "e")], "<R> </R>"),
            answer(&[("ETag", "e"), ("ETag", "e")], "<R></R>"),
        ];
        for (at, one) in others.iter().enumerate() {
            for two in &others[at + 1..] {
                assert_ne!(text(one), text(two));
            }
        }
    }

    #[test]
    fn a_name_is_the_same_wherever_it_appears() {
        let mut names = Names::default();
        let created = answer(&[], "<R><UploadId>u1</UploadId></R>");
        compared(&created, &[], &mut names);
        let later = compared(&answer(&[("x-id", "u1")], ""), &[], &mut names);
        assert!(later.contains("x-id: (name 0)"), "{later}");
    }
}

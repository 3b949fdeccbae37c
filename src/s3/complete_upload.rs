//! `CompleteMultipartUpload`: the list of parts in its body, and the ETag that they will leave.

use md5::{Digest as _, Md5};

use super::etag::strip_quotes;
use super::xml::{DocumentError, Element, fill, malformed};

/// The highest part number.
const PART_NUMBER_MAX: u16 = 10_000;

/// A part that is to become a piece of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletedPart {
    /// From 1 to 10,000.
    pub number: u16,
    /// Its ETag, without quotes.
    pub etag: String,
}

/// Reads the body of a `CompleteMultipartUpload`: at least one part, in ascending order.
///
/// Whether the parts are there, and have the checksums that the body may name, is the store's to
/// say.
///
/// # Errors
///
/// [`DocumentError`].
pub fn parse_complete_upload(body: &[u8]) -> Result<Vec<CompletedPart>, DocumentError> {
    let root = Element::parse(body, "CompleteMultipartUpload")?;
    let mut parts: Vec<CompletedPart> = Vec::with_capacity(root.children.len());
    for element in &root.children {
        let part = parse_part(element)?;
        if parts.last().is_some_and(|last| last.number >= part.number) {
            return Err(DocumentError::PartOrder);
        }
        parts.push(part);
    }
    if parts.is_empty() { Err(malformed("it names no part")) } else { Ok(parts) }
}

fn parse_part(element: &Element) -> Result<CompletedPart, DocumentError> {
    let unknown = |parent, name: &str| DocumentError::UnknownElement { parent, child: name.into() };
    if element.name != "Part" {
        return Err(unknown("CompleteMultipartUpload", &element.name));
    }
    let (mut number, mut etag) = (None, None);
    for child in &element.children {
        match child.name.as_str() {
            "PartNumber" => fill(&mut number, child)?,
            "ETag" => fill(&mut etag, child)?,
            name if name.starts_with("Checksum") => {}
            name => return Err(unknown("Part", name)),
        }
    }
    let number = number.ok_or_else(|| malformed("a part has no PartNumber"))?;
    let number = parse_number(number.trim()).ok_or(DocumentError::PartNumber)?;
    let etag = etag.ok_or_else(|| malformed("a part has no ETag"))?;
    Ok(CompletedPart { number, etag: strip_quotes(&etag).to_owned() })
}

fn parse_number(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten()?;
    (1..=PART_NUMBER_MAX).contains(&number).then_some(number)
}

/// The ETag, without quotes, of the object that S3 makes of these parts: the MD5 of their MD5s,
/// and how many they are. `None` where the ETag of a part is not an MD5, so that nobody can tell.
#[must_use]
pub fn assembled_etag(parts: &[CompletedPart]) -> Option<String> {
    let mut md5 = Md5::new();
    for part in parts {
        let mut digest = [0; 16];
        hex::decode_to_slice(&part.etag, &mut digest).ok()?;
        md5.update(digest);
    }
    (!parts.is_empty()).then(|| format!("{}-{}", hex::encode(md5.finalize()), parts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(inner: &str) -> Result<Vec<CompletedPart>, DocumentError> {
        let body = format!(
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inner}\
             </CompleteMultipartUpload>"
        );
        parse_complete_upload(body.as_bytes())
    }

    fn part(number: u16, etag: &str) -> CompletedPart {
        CompletedPart { number, etag: etag.to_owned() }
    }

    #[test]
    fn parts_are_read_with_their_etags_in_every_spelling() {
        let parts = parse(
            "<Part>\n <PartNumber> 1 </PartNumber><ETag>&quot;a&quot;</ETag></Part>\
             <Part><ETag>\"b\"</ETag><PartNumber>02</PartNumber></Part>\
             <Part><PartNumber>10000</PartNumber><ChecksumCRC32>AAAAAA==</ChecksumCRC32>\
             <ETag>c</ETag></Part>",
        );
        assert_eq!(parts, Ok(vec![part(1, "a"), part(2, "b"), part(10_000, "c")]));
    }

    #[test]
    fn what_is_no_list_of_parts_is_refused() {
        let one =
            |number: &str| format!("<Part><PartNumber>{number}</PartNumber><ETag>a</ETag></Part>");
        let rows = [
            (String::new(), "MalformedXML"),
            ("<Part/>".into(), "MalformedXML"),
            ("<Part><PartNumber>1</PartNumber></Part>".into(), "MalformedXML"),
            ("<Part><ETag>a</ETag></Part>".into(), "MalformedXML"),
            (one("1").replace("<ETag>", "<ETag>b</ETag><ETag>"), "MalformedXML"),
            (one("1").replace("ETag>", "Etag>"), "MalformedXML"),
            (one("1").replace("Part>", "Piece>"), "MalformedXML"),
            (one("1") + &one("1"), "InvalidPartOrder"),
            (one("2") + &one("1"), "InvalidPartOrder"),
            (one("0"), "InvalidArgument"),
            (one("10001"), "InvalidArgument"),
            (one("65537"), "InvalidArgument"),
            (one("-1"), "InvalidArgument"),
            (one("+1"), "InvalidArgument"),
            (one(""), "InvalidArgument"),
            (one("one"), "InvalidArgument"),
        ];
        for (inner, code) in rows {
            let error = parse(&inner).expect_err(&inner);
            assert_eq!(error.code(), code, "{inner}");
        }
        assert!(parse_complete_upload(b"<Delete/>").is_err());
    }

    /// Computed with md5sum: the MD5 of the sixteen bytes of the MD5 of nothing is in the ETag
    /// that every store gives to an upload of one empty part.
    #[test]
    fn the_etag_of_the_object_is_known_from_those_of_its_parts() {
        let empty = "d41d8cd98f00b204e9800998ecf8427e";
        let etag = assembled_etag(&[part(1, empty)]);
        assert_eq!(etag.as_deref(), Some("59adb24ef3cdbe0297f05b395827453f-1"));
        let upper = assembled_etag(&[part(7, &empty.to_uppercase())]);
        assert_eq!(upper, etag, "neither the number nor the spelling is part of it");
        let two = assembled_etag(&[part(1, empty), part(2, empty)]);
        assert_eq!(two.as_deref(), Some("5873dd45edd01f09c1ef2e7819369e8e-2"));
        for not_md5 in ["", "abc", &format!("{empty}-1"), &format!("{empty}0"), &"g".repeat(32)] {
            assert_eq!(assembled_etag(&[part(1, empty), part(2, not_md5)]), None, "{not_md5}");
        }
        assert_eq!(assembled_etag(&[]), None);
    }
}

//! The XML documents in bodies: read into a small tree, and written.
//!
//! Names are taken without their prefix, because clients send S3's documents with its namespace,
//! with another one or with none. Text is decoded exactly once. What two parsers could read in two
//! ways is refused: document types, entities of one's own, another encoding than UTF-8, bare
//! control characters. Size is bounded by whoever read the body; depth and number of elements here.

use std::fmt::Write as _;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, Event};

/// S3's namespace.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// How deep elements may be nested. S3's own documents have three levels.
const DEPTH_MAX: usize = 8;

/// How long the name of an element may be: it is repeated in messages.
const NAME_BYTES_MAX: usize = 64;

/// How many elements a document may have: 10,000 parts with seven elements each, and some room.
const ELEMENTS_MAX: usize = 100_000;

/// Why a document is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is not well-formed, or not of the form that the operation wants.
    #[error(
        "The XML you provided was not well-formed or did not validate against our published \
         schema: {0}"
    )]
    Malformed(String),
    /// It has an element that is not known here. It may be a condition, and one that is dropped
    /// would be taken for one that holds.
    #[error("The XML you provided has an element that is not known here: {child} in {parent}")]
    UnknownElement {
        /// The element that it is in.
        parent: &'static str,
        /// Its name.
        child: String,
    },
    /// A list of parts that is not in ascending order.
    #[error(
        "The list of parts was not in ascending order. The parts list must be specified in order \
         by part number."
    )]
    PartOrder,
    /// A part number that no part can have.
    #[error("Part number must be an integer between 1 and 10000, inclusive")]
    PartNumber,
}

impl DocumentError {
    /// The S3 error code. The status is always 400.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::UnknownElement { .. } => "MalformedXML",
            Self::PartOrder => "InvalidPartOrder",
            Self::PartNumber => "InvalidArgument",
        }
    }
}

/// A document that does not hold what it should.
pub(super) fn malformed(what: impl Into<String>) -> DocumentError {
    DocumentError::Malformed(what.into())
}

fn not_utf8() -> DocumentError {
    malformed("it is not UTF-8")
}

/// An element: text, or elements with white space between them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) name: String,
    text: String,
    pub(super) children: Vec<Element>,
}

impl Element {
    /// Reads a document, whose root has to be `root`.
    pub(super) fn parse(document: &[u8], root: &str) -> Result<Self, DocumentError> {
        let element = Tree::read(document)?;
        if element.name == root {
            Ok(element)
        } else {
            Err(malformed(format!("the root is {}, not {root}", element.name)))
        }
    }

    /// The text of an element that has nothing but text.
    pub(super) fn text(&self) -> Result<&str, DocumentError> {
        if self.children.is_empty() {
            Ok(&self.text)
        } else {
            Err(malformed(format!("{} has elements inside", self.name)))
        }
    }

    /// Whether there is nothing but elements in it.
    fn holds_elements_only(&self) -> bool {
        self.children.is_empty() || self.text.bytes().all(|byte| byte.is_ascii_whitespace())
    }
}

/// Fills a slot that one element may fill once.
pub(super) fn fill(slot: &mut Option<String>, element: &Element) -> Result<(), DocumentError> {
    match slot.replace(element.text()?.to_owned()) {
        None => Ok(()),
        Some(_) => Err(malformed(format!("{} is given twice", element.name))),
    }
}

/// The elements that are open, the outermost first, and the root once it is closed.
#[derive(Default)]
struct Tree {
    open: Vec<Element>,
    root: Option<Element>,
    elements: usize,
}

impl Tree {
    #[expect(clippy::wildcard_enum_match_arm, reason = "what a document may not hold is the rest")]
    fn read(document: &[u8]) -> Result<Element, DocumentError> {
        let document = std::str::from_utf8(document).map_err(|_| not_utf8())?;
        if document.contains(is_no_xml_character) {
            return Err(malformed("it has a control character, which must be written &#x…;"));
        }
        // As XML 1.0 wants it; the reader would do it by the rules of 1.1, which has more line ends.
        let document = document.replace("\r\n", "\n").replace('\r', "\n");
        let mut reader = Reader::from_str(&document);
        let mut tree = Self::default();
        loop {
            match reader.read_event().map_err(|error| malformed(error.to_string()))? {
                Event::Decl(declaration) => check_encoding(&declaration)?,
                Event::Start(start) => tree.start(&start)?,
                Event::Empty(start) => {
                    tree.start(&start)?;
                    tree.end()?;
                }
                Event::End(_) => tree.end()?,
                Event::Text(text) => tree.text(&text.decode().map_err(|_| not_utf8())?)?,
                Event::CData(text) => tree.text(&text.decode().map_err(|_| not_utf8())?)?,
                Event::GeneralRef(reference) => tree.text(&resolve(&reference)?)?,
                Event::Comment(_) => {}
                Event::Eof => break,
                _ => return Err(malformed("document types and instructions are not taken")),
            }
        }
        match (tree.root, tree.open.last()) {
            (Some(root), None) => Ok(root),
            (_, Some(open)) => Err(malformed(format!("{} is not closed", open.name))),
            (None, None) => Err(malformed("it is empty")),
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), DocumentError> {
        self.elements += 1;
        if self.open.len() >= DEPTH_MAX || self.elements > ELEMENTS_MAX {
            return Err(malformed("it has too many elements"));
        }
        if self.root.is_some() {
            return Err(malformed("it has two roots"));
        }
        let name = String::from_utf8_lossy(start.local_name().as_ref()).into_owned();
        if name.len() > NAME_BYTES_MAX {
            return Err(malformed("an element has too long a name"));
        }
        self.open.push(Element { name, ..Element::default() });
        Ok(())
    }

    fn end(&mut self) -> Result<(), DocumentError> {
        let Some(element) = self.open.pop() else { return Err(malformed("it ends too early")) };
        if !element.holds_elements_only() {
            return Err(malformed(format!("{} has text between its elements", element.name)));
        }
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), DocumentError> {
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.bytes().all(|byte| byte.is_ascii_whitespace()) => {}
            None => return Err(malformed("it has text outside of its root")),
        }
        Ok(())
    }
}

/// What XML 1.0 does not let stand for itself.
fn is_no_xml_character(character: char) -> bool {
    matches!(character, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

fn check_encoding(declaration: &BytesDecl<'_>) -> Result<(), DocumentError> {
    let Some(encoding) = declaration.encoding() else { return Ok(()) };
    let encoding = encoding.map_err(|error| malformed(error.to_string()))?;
    let known = encoding.eq_ignore_ascii_case(b"utf-8") || encoding.eq_ignore_ascii_case(b"utf8");
    if known { Ok(()) } else { Err(malformed("its encoding is not UTF-8")) }
}

/// `&amp;` and its four relatives, and numbers. S3 takes the number of a control character too,
/// though XML 1.0 does not: there is no other way to write such a key.
fn resolve(reference: &BytesRef<'_>) -> Result<String, DocumentError> {
    let unknown = || malformed("it has an entity that is not one of XML's own");
    if let Some(character) = reference.resolve_char_ref().map_err(|_| unknown())? {
        return Ok(character.to_string());
    }
    let name = reference.decode().map_err(|_| unknown())?;
    resolve_xml_entity(&name).map(str::to_owned).ok_or_else(unknown)
}

/// A document that is being written.
pub(super) struct Writer(String);

impl Writer {
    /// With the start of the root element, in S3's namespace.
    pub(super) fn new(root: &str) -> Self {
        Self(format!("{DECLARATION}<{root} xmlns=\"{NAMESPACE}\">"))
    }

    /// With the start of a root element that is in no namespace.
    pub(super) fn without_namespace(root: &str) -> Self {
        Self(format!("{DECLARATION}<{root}>"))
    }

    pub(super) fn open(&mut self, name: &str) {
        write!(self.0, "<{name}>").expect("writing to a string cannot fail");
    }

    pub(super) fn close(&mut self, name: &str) {
        write!(self.0, "</{name}>").expect("writing to a string cannot fail");
    }

    /// An element of text, written so that every parser reads the very same characters.
    pub(super) fn element(&mut self, name: &str, text: &str) {
        self.open(name);
        for character in text.chars() {
            match character {
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '&' => self.0.push_str("&amp;"),
                '"' => self.0.push_str("&quot;"),
                // Line ends too: a parser would make all kinds of them one, some those of XML 1.1.
                '\u{2028}' => self.0.push_str("&#x2028;"),
                control if control.is_control() || is_no_xml_character(control) => {
                    write!(self.0, "&#x{:X};", u32::from(control))
                        .expect("writing to a string cannot fail");
                }
                plain => self.0.push(plain),
            }
        }
        self.close(name);
    }

    pub(super) fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.element(name, text);
        }
    }

    /// The document, its root closed.
    pub(super) fn finish(mut self, root: &str) -> String {
        self.close(root);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(document: &str) -> Result<String, DocumentError> {
        Element::parse(document.as_bytes(), "R").and_then(|r| r.text().map(str::to_owned))
    }

    #[test]
    fn text_is_decoded_exactly_once() {
        let rows = [
            ("<R>a</R>", "a"),
            ("<R></R>", ""),
            ("<R/>", ""),
            ("<R> a </R>", " a "),
            ("<R>a&amp;lt;b</R>", "a&lt;b"),
            ("<R>&lt;&gt;&quot;&apos;&#65;&#x41;</R>", "<>\"'AA"),
            ("<R>&#1;&#x1F;&#13;&#10;</R>", "\u{1}\u{1f}\r\n"),
            ("<R>a\r\nb\rc\nd</R>", "a\nb\nc\nd"),
            ("<R>\u{85}\u{2028}</R>", "\u{85}\u{2028}"),
            ("<R><![CDATA[a&amp;<b>]]></R>", "a&amp;<b>"),
            ("<R>a<!-- no -->b</R>", "ab"),
            ("<s:R xmlns:s='urn:x' a=\"&amp;\">\u{e9}\u{1f600}</s:R>", "\u{e9}\u{1f600}"),
            ("\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<R>a</R>\n", "a"),
        ];
        for (document, text) in rows {
            assert_eq!(text_of(document).as_deref(), Ok(text), "{document:?}");
        }
    }

    #[test]
    fn what_has_two_readings_is_refused() {
        let deep = format!("{}{}", "<R>".repeat(9), "</R>".repeat(9));
        let rows = [
            "",
            "R",
            "<R>",
            "<R></S>",
            "</R>",
            "<R></R><R></R>",
            "<R></R>x",
            "x<R></R>",
            "<R>a<b/></R>",
            "<R>&no;</R>",
            "<R>&</R>",
            "<R>&amp</R>",
            "<R>&#0;</R>",
            "<R>&#xD800;</R>",
            "<R>&#x110000;</R>",
            "<R>&#+1;</R>",
            "<R>\u{1}</R>",
            "<R>\u{ffff}</R>",
            "<!DOCTYPE R><R>a</R>",
            "<!DOCTYPE R [<!ENTITY e \"a\">]><R>&e;</R>",
            "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><R>a</R>",
            "<?php?><R>a</R>",
            "<S>a</S>",
            &deep,
        ];
        for document in rows {
            let error = text_of(document).expect_err(document);
            assert_eq!(error.code(), "MalformedXML", "{document:?}");
        }
        assert!(Element::parse(b"<R>\xe9</R>", "R").is_err());
        let name = "n".repeat(NAME_BYTES_MAX + 1);
        assert!(Element::parse(format!("<R><{name}/></R>").as_bytes(), "R").is_err());
        let many = format!("<R>{}</R>", "<a/>".repeat(ELEMENTS_MAX));
        assert!(Element::parse(many.as_bytes(), "R").is_err());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text: String =
            ('\u{1}'..='\u{ff}').chain("\u{2028}\u{fffe}\u{ffff}\u{1f600} ]]>".chars()).collect();
        let mut writer = Writer::new("R");
        writer.element("A", &text);
        writer.optional("B", None);
        let document = writer.finish("R");
        // Line ends of XML 1.0 and of 1.1, which a parser may change where they stand for themselves.
        assert!(["&#xD;", "&#xA;", "&#x85;", "&#x2028;"].iter().all(|end| document.contains(end)));
        let root = Element::parse(document.as_bytes(), "R").unwrap();
        assert_eq!(root.children.len(), 1);
        assert_eq!(root.children[0].text(), Ok(&*text));
    }
}

//! The syntax of `multipart/form-data` (RFC 7578), read from a body as it arrives.
//!
//! Crates for this read as far ahead as the client sends. Here no more than
//! [`HEAD_BYTES_MAX`] is held before the file begins: nobody has been authenticated by then. What
//! fields mean is [`form`](super::form)'s.

use std::pin::Pin;

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::Body;
use memchr::memmem;

use super::form::FormError;

/// How many bytes may come before the file: S3's 20 KiB of fields, and the syntax around them.
const HEAD_BYTES_MAX: usize = 84 * 1024;

/// How many bytes may follow the file.
const TAIL_BYTES_MAX: usize = 84 * 1024;

/// The longest boundary (RFC 2046, section 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body of parts.
pub(super) struct Multipart<B> {
    body: B,
    /// What has been read and not yet taken.
    buffer: BytesMut,
    /// What begins every part and ends the one before it: `\r\n--` and the boundary.
    delimiter: Vec<u8>,
    /// How many bytes may still be taken before the file begins.
    head_left: usize,
}

/// The head of a part.
pub(super) struct Part {
    pub(super) name: String,
    pub(super) file_name: Option<String>,
}

impl<B> Multipart<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(content_type: &str, body: B) -> Result<Self, FormError> {
        let (kind, parameters) = parse_parameters(content_type).ok_or(FormError::NotAForm)?;
        if !kind.eq_ignore_ascii_case("multipart/form-data") {
            return Err(FormError::NotAForm);
        }
        let boundary = parameter(&parameters, "boundary").unwrap_or_default();
        if !(1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()) {
            return Err(FormError::NotAForm);
        }
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // The first delimiter stands at the beginning of a line as well.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        Ok(Self { body, buffer, delimiter, head_left: HEAD_BYTES_MAX })
    }

    /// The head of the next part; `None` after the last. What was not read of the part before is
    /// skipped, as is whatever precedes the first.
    pub(super) async fn next_part(&mut self) -> Result<Option<Part>, FormError> {
        let delimiter = self.delimiter.clone();
        self.take_through(&delimiter).await?;
        if self.is_last().await? {
            return Ok(None);
        }
        // The end of the line is left in its place: a part without headers has no other.
        let line_end = self.find(b"\r\n").await?;
        let padding = self.take(line_end)?;
        if !padding.iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            return Err(malformed("there is text after a boundary"));
        }
        let head = self.take_through(b"\r\n\r\n").await?;
        let head = std::str::from_utf8(&head).map_err(|_| malformed("a head is not UTF-8"))?;
        parse_head(head).map(Some)
    }

    /// The value of a field whose head has been read.
    pub(super) async fn read_field(&mut self) -> Result<String, FormError> {
        let delimiter = self.delimiter.clone();
        let end = self.find(&delimiter).await?;
        let value = self.take(end)?;
        String::from_utf8(value.into()).map_err(|_| malformed("a field is not UTF-8"))
    }

    /// The bytes of a file whose head has been read.
    pub(super) async fn read_file(&mut self, bytes_max: u64) -> Result<Bytes, FormError> {
        let too_large = || FormError::FileTooLarge { max: bytes_max };
        let mut file = BytesMut::new();
        loop {
            let end = memmem::find(&self.buffer, &self.delimiter);
            // What may be the beginning of a delimiter waits for the rest of it.
            let safe = self.buffer.len().saturating_sub(self.delimiter.len() - 1);
            let piece = self.buffer.split_to(end.unwrap_or(safe));
            if (file.len() + piece.len()) as u64 > bytes_max {
                return Err(too_large());
            }
            file.extend_from_slice(&piece);
            if end.is_some() {
                return Ok(file.freeze());
            }
            if !self.fill().await? {
                return Err(cut_off());
            }
        }
    }

    /// Reads the delimiter after the file, and whatever follows, to the end of the body.
    pub(super) async fn skip_rest(&mut self) -> Result<(), FormError> {
        self.buffer.advance(self.delimiter.len());
        if !self.is_last().await? && !self.buffer.starts_with(b"\r\n") {
            return Err(malformed("there is text after a boundary"));
        }
        let mut left = TAIL_BYTES_MAX;
        loop {
            left = left
                .checked_sub(self.buffer.len())
                .ok_or_else(|| malformed("there is too much after the file"))?;
            self.buffer.clear();
            if !self.fill().await? {
                return Ok(());
            }
        }
    }

    /// Whether the delimiter that was read is the last.
    async fn is_last(&mut self) -> Result<bool, FormError> {
        while self.buffer.len() < 2 {
            if !self.fill().await? {
                return Err(cut_off());
            }
        }
        Ok(self.buffer.starts_with(b"--"))
    }

    /// Where `pattern` begins in the buffer, which grows until it does.
    async fn find(&mut self, pattern: &[u8]) -> Result<usize, FormError> {
        let mut searched = 0;
        loop {
            let unsearched = self.buffer.get(searched..).unwrap_or_default();
            if let Some(at) = memmem::find(unsearched, pattern) {
                return Ok(searched + at);
            }
            searched = self.buffer.len().saturating_sub(pattern.len() - 1);
            if searched > self.head_left {
                return Err(FormError::FieldsTooLarge);
            }
            if !self.fill().await? {
                return Err(cut_off());
            }
        }
    }

    /// Takes what comes before `pattern`, and the pattern, which is left out.
    async fn take_through(&mut self, pattern: &[u8]) -> Result<Bytes, FormError> {
        let end = self.find(pattern).await?;
        let taken = self.take(end)?;
        self.take(pattern.len())?;
        Ok(taken)
    }

    fn take(&mut self, count: usize) -> Result<Bytes, FormError> {
        self.head_left = self.head_left.checked_sub(count).ok_or(FormError::FieldsTooLarge)?;
        Ok(self.buffer.split_to(count).freeze())
    }

    /// Reads one more piece of the body; `false` at its end.
    async fn fill(&mut self) -> Result<bool, FormError> {
        loop {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
            let Some(frame) = frame else { return Ok(false) };
            let frame = frame.map_err(|error| FormError::Incomplete(error.into().to_string()))?;
            // Trailers are no part of the form.
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
                return Ok(true);
            }
        }
    }
}

fn malformed(what: &str) -> FormError {
    FormError::Malformed(what.to_owned())
}

fn cut_off() -> FormError {
    FormError::Incomplete("it has no end".to_owned())
}

/// The headers of a part. Only one of them means something.
fn parse_head(head: &str) -> Result<Part, FormError> {
    let mut dispositions = head.split("\r\n").filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let (Some(disposition), None) = (dispositions.next(), dispositions.next()) else {
        return Err(malformed("a part has no Content-Disposition, or two"));
    };
    let (kind, parameters) =
        parse_parameters(disposition).ok_or_else(|| malformed("a Content-Disposition"))?;
    let name = parameter(&parameters, "name").filter(|name| !name.is_empty());
    match name {
        Some(name) if kind.eq_ignore_ascii_case("form-data") => Ok(Part {
            name: name.to_owned(),
            file_name: parameter(&parameters, "filename").map(str::to_owned),
        }),
        Some(_) | None => Err(malformed("a part is no field with a name")),
    }
}

type Parameters = Vec<(String, String)>;

fn parameter<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    parameters.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}

/// Splits `kind; name=value; name="value"`. Names are given in lower case, each once.
///
/// In quotes only `\"` is an escape: browsers write a quote as `%22` and leave backslashes, which
/// may separate the directories of a file name, as they are.
fn parse_parameters(text: &str) -> Option<(&str, Parameters)> {
    let (kind, mut rest) = text.split_once(';').unwrap_or((text, ""));
    let mut parameters = Parameters::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';']);
        if rest.is_empty() {
            return Some((kind.trim(), parameters));
        }
        let (name, after) = rest.split_once('=')?;
        let name = name.trim().to_ascii_lowercase();
        let value;
        (value, rest) = match after.trim_start().strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = after.find(';').unwrap_or(after.len());
                let (token, rest) = after.split_at(end);
                (token.trim().to_owned(), rest)
            }
        };
        if !matches!(rest.trim_start().chars().next(), None | Some(';')) {
            return None;
        }
        if name.is_empty() || parameter(&parameters, &name).is_some() {
            return None;
        }
        parameters.push((name, value));
    }
}

/// The text before the closing quote, and what comes after it.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut from = 0;
    loop {
        let end = from + quoted.get(from..)?.find('"')?;
        let before = quoted.get(..end)?;
        if !before.ends_with('\\') {
            return Some((before.replace("\\\"", "\""), quoted.get(end + 1..)?));
        }
        from = end + 1;
    }
}

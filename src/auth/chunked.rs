//! The aws-chunked framing: a decoder that takes bytes in any portions.
//!
//! ```text
//! <hex size>[;chunk-signature=<64 hex>]\r\n
//! <size bytes>\r\n
//! ...
//! 0[;chunk-signature=<64 hex>]\r\n
//! [x-amz-checksum-crc32:<base64>\r\n]
//! [x-amz-trailer-signature:<64 hex>\r\n]
//! \r\n
//! ```
//!
//! Signatures chain: the first chunk's builds on that of the request, each next one on the one
//! before, the trailer's on that of the empty last chunk. ("Signature calculations ...: transferring
//! a payload in multiple chunks" in the S3 API reference.)
//!
//! # Why a chunk may be passed on before its signature is verified
//!
//! A chunk can be gigabytes, so its bytes leave this decoder as they come, and its signature is
//! checked when its last byte is here; that last piece is only given out if the signature is
//! right. Somebody on the path can thus make wrong bytes *travel* to the store, but not make the
//! store *keep* them: [`VerifiedBody`](super::VerifiedBody) holds back the last bytes of the whole
//! body until every signature is verified, and the store does not commit a body that is shorter
//! than its `Content-Length`. What a caller must not do is act on the bytes before the end.

use bytes::{Buf, Bytes};
use http::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use aws_sigv4::sign::v4::calculate_signature;

use super::body_error::BodyError;
use super::canonical::EMPTY_SHA256;
use super::payload::{ChunkSeed, ChunkSignatures};

/// The longest first line of a chunk, in bytes. Size and signature take 100.
const CHUNK_HEADER_BYTES_MAX: usize = 512;

/// The longest trailer, in bytes. A checksum and a signature take 250.
const TRAILER_BYTES_MAX: usize = 8 * 1024;

/// The most digits of a chunk's size: those of a 64-bit number.
const SIZE_DIGITS_MAX: usize = 16;

const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

/// The decoder. Feed it with [`next`](Self::next), end it with [`finish`](Self::finish).
pub(super) struct ChunkDecoder {
    state: State,
    signatures: Signatures,
    has_trailer: bool,
    /// The first line of a chunk so far, or the trailer so far.
    line: Vec<u8>,
}

enum State {
    /// In the first line of a chunk.
    Header,
    /// In its data, `left` bytes from the end. Never zero.
    Data { left: u64 },
    /// Before the `\r` that ends the data.
    Cr,
    /// Before the `\n`.
    Lf,
    /// After the empty chunk.
    Trailer,
}

enum Signatures {
    Absent,
    Ignored,
    Verified(Box<Chain>),
}

/// The running chain of signatures.
struct Chain {
    seed: ChunkSeed,
    /// The signature that the next one builds on.
    previous: String,
    /// Of the data of the current chunk.
    hash: Sha256,
    /// What the client says the current chunk's signature is.
    claimed: String,
}

impl ChunkDecoder {
    pub(super) fn new(signatures: ChunkSignatures, has_trailer: bool) -> Self {
        let signatures = match signatures {
            ChunkSignatures::Absent => Signatures::Absent,
            ChunkSignatures::Ignored => Signatures::Ignored,
            ChunkSignatures::Verified(seed) => Signatures::Verified(Box::new(Chain {
                previous: seed.signature.clone(),
                seed,
                hash: Sha256::new(),
                claimed: String::new(),
            })),
        };
        Self { state: State::Header, signatures, has_trailer, line: Vec::new() }
    }

    /// Decodes from the front of `input`. Gives the next piece of the body, never an empty one, or
    /// `None` once `input` is used up.
    pub(super) fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, BodyError> {
        while let Some(&first) = input.first() {
            match self.state {
                State::Header => {
                    if self.take_line(input)? {
                        self.start_chunk()?;
                    }
                }
                State::Data { left } => return self.take_data(input, left).map(Some),
                State::Cr if first == b'\r' => {
                    input.advance(1);
                    self.state = State::Lf;
                }
                State::Lf if first == b'\n' => {
                    input.advance(1);
                    self.state = State::Header;
                }
                State::Cr | State::Lf => {
                    return Err(BodyError::InvalidFraming(
                        "the data of a chunk is longer than its size",
                    ));
                }
                State::Trailer => {
                    if self.line.len() + input.len() > TRAILER_BYTES_MAX {
                        return Err(BodyError::MalformedTrailer("it is too long"));
                    }
                    self.line.extend_from_slice(input);
                    input.clear();
                }
            }
        }
        Ok(None)
    }

    /// Ends the body. Gives the trailers, lower case, in the order sent, without the signature,
    /// which is verified.
    pub(super) fn finish(self) -> Result<Vec<(HeaderName, HeaderValue)>, BodyError> {
        match self.state {
            State::Header | State::Data { .. } | State::Cr | State::Lf => {
                Err(BodyError::IncompleteFraming)
            }
            State::Trailer => self.finish_trailer(),
        }
    }

    /// Moves bytes to `line` up to and including the line feed. True when the line is complete.
    fn take_line(&mut self, input: &mut Bytes) -> Result<bool, BodyError> {
        let end = input.iter().position(|&b| b == b'\n');
        let wanted = end.map_or(input.len(), |end| end + 1);
        if self.line.len() + wanted > CHUNK_HEADER_BYTES_MAX {
            return Err(BodyError::InvalidFraming("the first line of a chunk is too long"));
        }
        self.line.extend_from_slice(&input[..wanted]);
        input.advance(wanted);
        Ok(end.is_some())
    }

    fn start_chunk(&mut self) -> Result<(), BodyError> {
        let line = std::mem::take(&mut self.line);
        let header = line
            .strip_suffix(b"\r\n")
            .and_then(|header| std::str::from_utf8(header).ok())
            .ok_or(BodyError::InvalidFraming("the first line of a chunk does not end in CRLF"))?;
        let (size, extensions) = header.split_once(';').unwrap_or((header, ""));
        let size = parse_size(size)?;
        if let Signatures::Verified(chain) = &mut self.signatures {
            chain.claimed = chunk_signature(extensions)?;
        }
        if size > 0 {
            self.state = State::Data { left: size };
            return Ok(());
        }
        if let Signatures::Verified(chain) = &mut self.signatures {
            chain.end_chunk()?;
        }
        self.state = State::Trailer;
        Ok(())
    }

    fn take_data(&mut self, input: &mut Bytes, left: u64) -> Result<Bytes, BodyError> {
        let available = input.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let piece = input.split_to(available);
        if let Signatures::Verified(chain) = &mut self.signatures {
            chain.hash.update(&piece);
        }
        let left = left - piece.len() as u64;
        if left > 0 {
            self.state = State::Data { left };
        } else {
            if let Signatures::Verified(chain) = &mut self.signatures {
                chain.end_chunk()?;
            }
            self.state = State::Cr;
        }
        Ok(piece)
    }

    fn finish_trailer(self) -> Result<Vec<(HeaderName, HeaderValue)>, BodyError> {
        if !self.has_trailer {
            return match self.line.as_slice() {
                b"\r\n" => Ok(Vec::new()),
                b"" | b"\r" => Err(BodyError::IncompleteFraming),
                _ => Err(BodyError::InvalidFraming("there are bytes after the last chunk")),
            };
        }
        let (trailers, signature) = parse_trailer(&self.line)?;
        match (self.signatures, signature) {
            (Signatures::Verified(chain), Some(signature)) => {
                chain.check_trailer(&trailers, &signature)?;
            }
            (Signatures::Verified(_), None) => {
                return Err(BodyError::MalformedTrailer("x-amz-trailer-signature is missing"));
            }
            (Signatures::Absent, Some(_)) => {
                return Err(BodyError::MalformedTrailer("it is signed, but the chunks are not"));
            }
            (Signatures::Absent, None) | (Signatures::Ignored, _) => {}
        }
        Ok(trailers)
    }
}

impl Chain {
    /// Verifies the signature of the chunk whose data is complete, and moves on.
    fn end_chunk(&mut self) -> Result<(), BodyError> {
        let hash = hex::encode(self.hash.finalize_reset());
        let string_to_sign = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{}\n{EMPTY_SHA256}\n{hash}",
            self.seed.date, self.seed.scope, self.previous,
        );
        self.previous = self.compare(&string_to_sign, &self.claimed)?;
        Ok(())
    }

    fn check_trailer(
        &self,
        trailers: &[(HeaderName, HeaderValue)],
        signature: &str,
    ) -> Result<(), BodyError> {
        let mut sorted: Vec<_> = trailers.iter().collect();
        sorted.sort_by_key(|(name, _)| name.as_str());
        let mut hash = Sha256::new();
        for (name, value) in sorted {
            hash.update(name.as_str());
            hash.update(b":");
            hash.update(value.as_bytes());
            hash.update(b"\n");
        }
        let string_to_sign = format!(
            "AWS4-HMAC-SHA256-TRAILER\n{}\n{}\n{}\n{}",
            self.seed.date,
            self.seed.scope,
            self.previous,
            hex::encode(hash.finalize()),
        );
        self.compare(&string_to_sign, signature).map(drop)
    }

    fn compare(&self, string_to_sign: &str, claimed: &str) -> Result<String, BodyError> {
        let signature = calculate_signature(&self.seed.signing_key, string_to_sign.as_bytes());
        if signature.as_bytes().ct_eq(claimed.as_bytes()).into() {
            Ok(signature)
        } else {
            Err(BodyError::SignatureMismatch)
        }
    }
}

/// Hexadecimal digits and nothing else: no sign, no `0x`, no space.
fn parse_size(text: &str) -> Result<u64, BodyError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(BodyError::InvalidChunkSize("it is not a hexadecimal number"));
    }
    if text.len() > SIZE_DIGITS_MAX {
        return Err(BodyError::InvalidChunkSize("it is too large"));
    }
    u64::from_str_radix(text, 16).map_err(|_| BodyError::InvalidChunkSize("it is too large"))
}

/// The value of the extension `chunk-signature`. Others are skipped, as RFC 9112 (7.1.1) says.
fn chunk_signature(extensions: &str) -> Result<String, BodyError> {
    let mut values =
        extensions.split(';').filter_map(|extension| extension.strip_prefix("chunk-signature="));
    match (values.next(), values.next()) {
        (Some(signature), None) => Ok(signature.to_owned()),
        (None, _) => Err(BodyError::InvalidFraming("a chunk has no chunk-signature")),
        (Some(_), Some(_)) => {
            Err(BodyError::InvalidFraming("a chunk has more than one chunk-signature"))
        }
    }
}

type Trailers = Vec<(HeaderName, HeaderValue)>;

/// Parses everything after the empty chunk. It ends with an empty line; empty lines in between are
/// skipped and a line may end in LF alone, because the AWS documentation writes a trailer as
/// `name:value\n\r\n` and minio-go sends it so.
fn parse_trailer(block: &[u8]) -> Result<(Trailers, Option<String>), BodyError> {
    let text =
        std::str::from_utf8(block).map_err(|_| BodyError::MalformedTrailer("it is not UTF-8"))?;
    let is_complete = text == "\r\n" || text.ends_with("\n\r\n");
    if !is_complete {
        return Err(BodyError::IncompleteFraming);
    }
    let (mut trailers, mut signature) = (Trailers::new(), None);
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (name, value) =
            line.split_once(':').ok_or(BodyError::MalformedTrailer("a line has no colon"))?;
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| BodyError::MalformedTrailer("a name is invalid"))?;
        let value = HeaderValue::from_str(value.trim())
            .map_err(|_| BodyError::MalformedTrailer("a value is invalid"))?;
        if signature.is_some() {
            return Err(BodyError::MalformedTrailer("something follows its signature"));
        }
        if name == TRAILER_SIGNATURE {
            signature = Some(value.to_str().unwrap_or("").to_owned());
        } else if trailers.iter().any(|(earlier, _)| *earlier == name) {
            return Err(BodyError::MalformedTrailer("a name was sent more than once"));
        } else {
            trailers.push((name, value));
        }
    }
    Ok((trailers, signature))
}

#[cfg(test)]
#[path = "chunked_tests.rs"]
mod tests;

//! Bodies that come bit by bit, and the aws-chunked forms, right or wrong on purpose.

use std::io;

use aws_sigv4::sign::v4::calculate_signature;
use base64::Engine as _;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::s3::{OutBody, Seed};

/// The other end of a body.
pub(crate) struct Feed(mpsc::Sender<io::Result<Bytes>>);

impl Feed {
    /// Sends a piece; `false` when nobody takes it any more.
    pub(crate) async fn send(&self, piece: impl Into<Bytes>) -> bool {
        self.0.send(Ok(piece.into())).await.is_ok()
    }

    /// Breaks the body off.
    pub(crate) async fn cut(self) {
        let _ = self.0.send(Err(io::ErrorKind::BrokenPipe.into())).await;
    }
}

/// A body that is fed by hand. It ends when its feed is dropped.
pub(crate) fn feed() -> (Feed, OutBody) {
    let (sender, receiver) = mpsc::channel(1);
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async {
        let piece: io::Result<Bytes> = receiver.recv().await?;
        Some((piece.map(Frame::data), receiver))
    });
    (Feed(sender), StreamBody::new(frames).boxed_unsync())
}

/// aws-chunked with a signature for each chunk (`STREAMING-AWS4-HMAC-SHA256-PAYLOAD`). The chunk
/// with the number `wrong` gets another's signature.
pub(crate) fn signed_chunks(seed: &Seed, chunks: &[Bytes], wrong: Option<usize>) -> Bytes {
    let nothing = hex::encode(Sha256::digest(b""));
    let mut previous = seed.signature.clone();
    let mut body = Vec::new();
    let end = Bytes::new();
    for (number, chunk) in chunks.iter().chain([&end]).enumerate() {
        let hash = hex::encode(Sha256::digest(chunk));
        let text = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{previous}\n{nothing}\n{hash}",
            seed.date, seed.scope
        );
        let signature = calculate_signature(&seed.key, text.as_bytes());
        let shown = if wrong == Some(number) { &previous } else { &signature };
        body.extend_from_slice(format!("{:x};chunk-signature={shown}\r\n", chunk.len()).as_bytes());
        body.extend_from_slice(chunk);
        body.extend_from_slice(b"\r\n");
        previous = signature;
    }
    body.into()
}

/// aws-chunked without signatures, with a CRC-32 in the trailer
/// (`STREAMING-UNSIGNED-PAYLOAD-TRAILER`): that of `claimed`.
pub(crate) fn unsigned_chunks_with_crc32(chunks: &[Bytes], claimed: &[u8]) -> Bytes {
    let mut body = Vec::new();
    for chunk in chunks {
        body.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        body.extend_from_slice(chunk);
        body.extend_from_slice(b"\r\n");
    }
    let crc = base64::engine::general_purpose::STANDARD.encode(crc32(claimed).to_be_bytes());
    body.extend_from_slice(format!("0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n").as_bytes());
    body.into()
}

fn crc32(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256_u32)
        .map(|byte| {
            (0..8).fold(byte, |c, _| if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 })
        })
        .collect();
    let step = |crc: u32, byte: &u8| table[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ (crc >> 8);
    !bytes.iter().fold(u32::MAX, step)
}

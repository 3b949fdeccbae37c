//! A stream that has been looked into: which version of HTTP it speaks is told by its first bytes.
//!
//! An HTTP/2 client begins with a fixed text that was chosen so that no HTTP/1 server can take it
//! for a request (RFC 9113, 3.4). What has been read to find out is given again to whoever serves
//! the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// What every HTTP/2 client sends first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// `S` from its beginning.
pub(super) struct Rewind<S> {
    first: Bytes,
    stream: S,
}

impl<S: AsyncRead + Unpin> Rewind<S> {
    /// Reads until the version is known: mostly one read, of one byte at least.
    pub(super) async fn begin(mut stream: S) -> io::Result<(Version, Self)> {
        let mut first = [0; PREFACE.len()];
        let mut filled = 0;
        let version = loop {
            let read = stream.read(&mut first[filled..]).await?;
            filled += read;
            match () {
                () if filled == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                () if !PREFACE.starts_with(&first[..filled]) => break Version::Http1,
                () if filled == PREFACE.len() => break Version::Http2,
                // It ends within the text. That is no request, and HTTP/1 has an answer to that.
                () if read == 0 => break Version::Http1,
                () => {}
            }
        };
        Ok((version, Self { first: Bytes::copy_from_slice(&first[..filled]), stream }))
    }

    /// Reads a first byte, which tells TLS from what is no TLS.
    pub(super) async fn peek(mut stream: S) -> io::Result<(u8, Self)> {
        let first = stream.read_u8().await?;
        Ok((first, Self { first: Bytes::copy_from_slice(&[first]), stream }))
    }

    /// The stream after what has been read of it.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewind<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let length = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..length]);
        self.first.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewind<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// What is found when `sent` comes in pieces of this size, and what is read after that.
    async fn begin(sent: &[u8], piece: usize) -> io::Result<(Version, Vec<u8>)> {
        let (mut client, server) = tokio::io::duplex(piece);
        let sent = sent.to_vec();
        let sender = tokio::spawn(async move { client.write_all(&sent).await });
        let (version, mut stream) = Rewind::begin(server).await?;
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await?;
        sender.await.unwrap().unwrap();
        Ok((version, read))
    }

    #[tokio::test]
    async fn the_first_bytes_tell_the_version_and_are_not_lost() {
        let http2 = [PREFACE, &b"frames"[..]].concat();
        let cases: [(&[u8], Version); 6] = [
            (&http2, Version::Http2),
            (PREFACE, Version::Http2),
            (b"GET / HTTP/1.1\r\n\r\n", Version::Http1),
            (b"PUT / HTTP/1.1\r\n\r\n", Version::Http1),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r ", Version::Http1),
            (b"PRI", Version::Http1),
        ];
        for (sent, version) in cases {
            for piece in [1, 7, 1024] {
                let found = begin(sent, piece).await.unwrap();
                assert_eq!(found, (version, sent.to_vec()), "in pieces of {piece}");
            }
        }
        assert!(begin(b"", 1).await.is_err());
    }
}

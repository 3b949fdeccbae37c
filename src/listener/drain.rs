//! The lingering close: how a connection ends when the client may still be sending.
//!
//! A TCP socket that is closed with unread bytes in it sends a reset, and a reset makes the
//! client's kernel throw away the answer that it has received but not yet read. A client in the
//! middle of a large upload then sees "connection reset" instead of 409, and tries again: an
//! early 409 with an immediate close made the AWS SDK for Rust send a 30 MB body three times and
//! never see the answer. So the write side is closed first, which ends the answer, and what still
//! arrives is read and thrown away until the client closes or a bound is reached.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;

/// Closes the write side, then reads what comes, at most so many bytes and so long, and closes.
pub(super) async fn linger<S>(mut stream: S, bytes_max: u64, time_max: Duration)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let drained = tokio::time::timeout(time_max, async {
        stream.shutdown().await?;
        let mut buffer = vec![0; READ_BYTES];
        let mut left = bytes_max;
        while left > 0 {
            let read = stream.read(&mut buffer).await?;
            if read == 0 {
                break;
            }
            left = left.saturating_sub(read as u64);
        }
        std::io::Result::Ok(bytes_max - left)
    });
    match drained.await {
        Ok(Ok(bytes)) => tracing::trace!(bytes, "drained after an early answer"),
        Ok(Err(error)) => tracing::trace!(%error, "the client went away during the drain"),
        Err(_) => tracing::debug!("the client went on sending after its answer; cut off"),
    }
}

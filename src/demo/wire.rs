//! What the processes of the demo say to each other: one JSON value a line, over pipes and TCP.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt};

/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// What a worker is told first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Role {
    /// The lock service.
    pub(super) lock_service: SocketAddr,
    /// The lock to ask for.
    pub(super) lock: String,
    /// Where S3 is: the store itself, or a proxy.
    pub(super) endpoint: String,
    /// The bucket.
    pub(super) bucket: String,
    /// The one object to write.
    pub(super) key: String,
    /// The key pair to sign with.
    pub(super) access_key_id: String,
    /// Its other half; the embedded store's, which is no secret.
    pub(super) secret_access_key: String,
}

/// What a worker is told to do next. It answers every order with one [`Report`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Order {
    /// Ask for the lock, and wait until it is granted.
    Acquire,
    /// Look how much of the lease is left. It is the last thing a careful client does before it
    /// writes.
    CheckLease,
    /// Write the object, with the lock's token in `X-Fence-Token`.
    Put {
        /// The bytes.
        body: String,
        /// Read the object's ETag first and send it as `If-Match`.
        if_match: bool,
    },
}

/// What a worker did.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Report {
    /// The lock is its own.
    Acquired(Grant),
    /// So much of the lease is left, in milliseconds.
    LeaseLeft(u64),
    /// The write was answered.
    Answered(Answer),
    /// The order could not be carried out.
    Failed(String),
}

/// A client's request to the lock service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Acquire {
    /// Which lock.
    pub(super) lock: String,
    /// For whom.
    pub(super) owner: String,
}

/// The lock service's answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Grant {
    /// The number of this grant: larger than that of every earlier grant of the same lock.
    pub(super) token: u64,
    /// How long the lock is granted for, in milliseconds.
    pub(super) lease_ms: u64,
}

/// How an S3 write was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// The HTTP status.
    pub(super) status: u16,
    /// The S3 error code, unless it went well.
    pub(super) code: Option<String>,
    /// The ETag that the write left behind, without quotes.
    pub(super) etag: Option<String>,
    /// `x-fence-highest`: the token that was preferred to the request's.
    pub(super) highest: Option<String>,
}

/// Status and code: `200`, `409 StaleFenceToken`.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{} {code}", self.status),
            None => write!(f, "{}", self.status),
        }
    }
}

/// Writes one line.
pub(super) async fn send<T: Serialize + Sync>(
    to: &mut (impl AsyncWrite + Unpin + Send),
    value: &T,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line).await?;
    to.flush().await
}

/// Reads one line; `None` at the end.
pub(super) async fn receive<T: DeserializeOwned>(
    from: &mut (impl AsyncBufRead + Unpin + Send),
) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.take(LINE_BYTES_MAX).read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

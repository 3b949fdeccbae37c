//! Receiving a body: stream it to the medium, and compare it with everything the request claims
//! about it. What does not agree is dropped here and never reaches the index.
//!
//! `s3s` verifies chunk signatures, trailer signatures and `x-amz-content-sha256` while the stream
//! is read, and reports a mismatch as an error of the stream. It does *not* verify `Content-MD5`,
//! the `x-amz-checksum-*` values, the decoded length, or that an announced trailer came: an upload
//! cut at a chunk border looks complete to it. All four are checked here.

use super::body::Body;
use super::checksum::{Algorithm, Checksums, Hasher, parse_content_md5};
use super::disk::Medium;
use super::errors::{malformed_trailer, sha256_mismatch};
use super::serve::BodyStalled;
use futures_util::StreamExt as _;
use http::HeaderMap;
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3Request, S3Result, StdError, TrailingHeaders, s3_error};

/// The largest body of one PUT or one part (Amazon S3 user guide, "Uploading objects").
const UPLOAD_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// What a request says about its body.
pub(super) struct Claims {
    md5: Option<[u8; 16]>,
    checksums: Checksums,
    algorithms: Vec<Algorithm>,
    /// Checksums that the headers announce for the trailer.
    trailing: Vec<Algorithm>,
    trailer: Option<TrailingHeaders>,
    decoded_len: Option<u64>,
}

/// A body that has arrived and agrees with its claims.
pub(super) struct Received {
    pub(super) body: Body,
    pub(super) md5: [u8; 16],
    pub(super) checksums: Checksums,
}

impl Claims {
    /// # Errors
    ///
    /// `InvalidDigest` when `Content-MD5` is not one.
    pub(super) fn of<T>(request: &S3Request<T>) -> S3Result<Self> {
        let headers = &request.headers;
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let checksums = Checksums::claimed(headers);
        let announced = text("x-amz-trailer").unwrap_or_default().split(',');
        let trailing: Vec<_> =
            announced.filter_map(|name| Algorithm::from_header(name.trim())).collect();
        let asked = text("x-amz-sdk-checksum-algorithm").and_then(Algorithm::from_name);
        let algorithms = checksums.algorithms().chain(trailing.iter().copied()).chain(asked);
        Ok(Self {
            md5: text("content-md5").map(parse_content_md5).transpose()?,
            algorithms: algorithms.collect(),
            checksums,
            trailing,
            trailer: request.trailing_headers.clone(),
            decoded_len: text("x-amz-decoded-content-length").and_then(|len| len.parse().ok()),
        })
    }

    /// No claims: for bytes that the store already has.
    pub(super) fn none() -> Self {
        Self {
            md5: None,
            checksums: Checksums::default(),
            algorithms: Vec::new(),
            trailing: Vec::new(),
            trailer: None,
            decoded_len: None,
        }
    }

    fn verify(&self, len: u64, md5: [u8; 16], computed: &Checksums) -> S3Result<()> {
        if self.decoded_len.is_some_and(|claimed| claimed != len) {
            return Err(incomplete());
        }
        if self.md5.is_some_and(|claimed| claimed != md5) {
            return Err(s3_error!(
                BadDigest,
                "The Content-MD5 you specified did not match what we received."
            ));
        }
        computed.verify(&self.checksums)?;
        if self.trailing.is_empty() {
            return Ok(());
        }
        let read = |trailer: &TrailingHeaders| trailer.read(HeaderMap::clone);
        let trailer = self.trailer.as_ref().and_then(read).unwrap_or_default();
        let claimed = Checksums::claimed(&trailer);
        if self.trailing.iter().any(|algorithm| claimed.get(*algorithm).is_none()) {
            return Err(malformed_trailer());
        }
        computed.verify(&claimed)
    }
}

/// Receives a body whole.
///
/// # Errors
///
/// Whatever shows that it is not what was sent: `IncompleteBody`, `BadDigest`,
/// `XAmzContentSHA256Mismatch`, `SignatureDoesNotMatch`, `RequestTimeout`, `EntityTooLarge`.
pub(super) async fn receive(
    medium: &Medium,
    body: Option<StreamingBlob>,
    claims: &Claims,
) -> S3Result<Received> {
    let mut hasher = Hasher::new(claims.algorithms.iter().copied());
    let mut writer = medium.writer().await.map_err(S3Error::internal_error)?;
    let mut len = 0;
    if let Some(mut body) = body {
        while let Some(bytes) = body.next().await {
            let bytes = bytes.map_err(broken)?;
            len += bytes.len() as u64;
            if len > UPLOAD_BYTES_MAX {
                return Err(s3_error!(
                    EntityTooLarge,
                    "Your proposed upload exceeds the maximum allowed size"
                ));
            }
            hasher.update(&bytes);
            writer.write(&bytes).await.map_err(S3Error::internal_error)?;
        }
    }
    let (md5, checksums) = hasher.finish();
    claims.verify(len, md5, &checksums)?;
    let body = writer.finish().await.map_err(S3Error::internal_error)?;
    Ok(Received { body, md5, checksums })
}

/// Checksums of bytes that the store already has.
pub(super) async fn hash(
    body: &Body,
    algorithms: impl IntoIterator<Item = Algorithm>,
) -> S3Result<([u8; 16], Checksums)> {
    let mut hasher = Hasher::new(algorithms);
    let mut reader = body.reader(0..body.len());
    while let Some(bytes) = reader.next().await.map_err(S3Error::internal_error)? {
        hasher.update(&bytes);
    }
    Ok(hasher.finish())
}

fn incomplete() -> S3Error {
    s3_error!(
        IncompleteBody,
        "You did not provide the number of bytes specified by the Content-Length HTTP header"
    )
}

/// What an error of the body's stream means.
///
/// The error types of `s3s` are private and their sources are not linked, so only their text is
/// left to go by; the tests hold it to that.
fn broken(error: StdError) -> S3Error {
    let text = error.to_string();
    let refusal = if text.contains(BodyStalled::TEXT) {
        s3_error!(
            RequestTimeout,
            "Your socket connection to the server was not read from or written to within the \
             timeout period. Idle connections will be closed."
        )
    } else if text.contains("Sha256Mismatch") {
        sha256_mismatch()
    } else if text.contains("SignatureMismatch") {
        s3_error!(SignatureDoesNotMatch)
    } else {
        incomplete()
    };
    tracing::debug!(%error, code = refusal.code().as_str(), "a body did not arrive as it should");
    refusal
}

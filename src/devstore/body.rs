//! The bytes of an object: an immutable list of segments, in memory or in files.
//!
//! Segments are shared. A multipart object is the list of its parts' segments and a copy shares
//! those of its source, so neither moves a byte. A file is removed when nothing refers to it any
//! more (`disk`).

use super::disk::Blob;
use bytes::Bytes;
use http_body_util::StreamBody;
use s3s::dto::StreamingBlob;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

/// How much of a file is read at a time.
const READ_BYTES_MAX: usize = 128 * 1024;

/// One stretch of bytes.
#[derive(Clone, Debug)]
pub(super) enum Segment {
    Memory(Bytes),
    File(Arc<Blob>),
}

impl Segment {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(blob) => blob.len(),
        }
    }
}

/// The bytes of an object or of a part.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    segments: Vec<Segment>,
}

impl Body {
    pub(super) fn new(segments: Vec<Segment>) -> Self {
        Self { segments }
    }

    /// Several bodies, one after the other.
    pub(super) fn concat<'a>(bodies: impl IntoIterator<Item = &'a Self>) -> Self {
        Self { segments: bodies.into_iter().flat_map(|body| body.segments.clone()).collect() }
    }

    pub(super) fn len(&self) -> u64 {
        self.segments.iter().map(Segment::len).sum()
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Reads `range`, which must lie within the body.
    pub(super) fn reader(&self, range: Range<u64>) -> Reader {
        let mut pieces = VecDeque::new();
        let mut start = 0;
        for segment in &self.segments {
            let end = start + segment.len();
            let from = range.start.max(start);
            let to = range.end.min(end);
            if from < to {
                pieces.push_back((segment.clone(), from - start..to - start));
            }
            start = end;
        }
        Reader { pieces, file: None }
    }

    /// The bytes of `range` as the body of an answer.
    pub(super) fn stream(&self, range: Range<u64>) -> StreamingBlob {
        let reader = self.reader(range);
        let frames = futures_util::stream::try_unfold(reader, |mut reader| async move {
            let bytes = reader.next().await?;
            Ok::<_, io::Error>(bytes.map(|bytes| (http_body::Frame::data(bytes), reader)))
        });
        StreamingBlob::from(s3s::Body::http_body_unsync(StreamBody::new(frames)))
    }

    /// Everything in one piece.
    pub(super) async fn read_all(&self) -> io::Result<Bytes> {
        let mut reader = self.reader(0..self.len());
        let mut all = Vec::new();
        while let Some(bytes) = reader.next().await? {
            all.extend_from_slice(&bytes);
        }
        Ok(all.into())
    }
}

/// A position in a body.
pub(super) struct Reader {
    pieces: VecDeque<(Segment, Range<u64>)>,
    /// The file being read, and how much of it is left to read.
    file: Option<(File, u64)>,
}

impl Reader {
    /// The next bytes, `None` at the end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some((file, left)) = &mut self.file {
                let want = usize::try_from(*left).unwrap_or(usize::MAX).min(READ_BYTES_MAX);
                let mut buffer = vec![0; want];
                let read = file.read(&mut buffer).await?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                buffer.truncate(read);
                *left -= read as u64;
                if *left == 0 {
                    self.file = None;
                }
                return Ok(Some(buffer.into()));
            }
            match self.pieces.pop_front() {
                None => return Ok(None),
                Some((Segment::Memory(bytes), range)) => {
                    let index = |at| usize::try_from(at).map_err(io::Error::other);
                    return Ok(Some(bytes.slice(index(range.start)?..index(range.end)?)));
                }
                Some((Segment::File(blob), range)) => {
                    let mut file = File::open(blob.path()).await?;
                    file.seek(io::SeekFrom::Start(range.start)).await?;
                    self.file = Some((file, range.end - range.start));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ranges_cross_segments() {
        let segment = |text: &'static str| Segment::Memory(Bytes::from_static(text.as_bytes()));
        let body = Body::new(vec![segment("abc"), segment(""), segment("def"), segment("g")]);
        assert_eq!(body.len(), 7);
        assert_eq!(body.read_all().await.unwrap(), "abcdefg");
        for (range, expected) in [(0..7, "abcdefg"), (2..4, "cd"), (3..6, "def"), (6..7, "g")] {
            let mut reader = body.reader(range);
            let mut read = Vec::new();
            while let Some(bytes) = reader.next().await.unwrap() {
                read.extend_from_slice(&bytes);
            }
            assert_eq!(read, expected.as_bytes());
        }
    }
}

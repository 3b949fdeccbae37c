//! The JSON of a data directory: what `disk` writes and reads, apart from the files themselves.
//!
//! Times are milliseconds since 1970, keys are strings as they are, bodies are lists of blob names.
//! Fields may be added with a default; the meaning of one that exists never changes.

use super::body::{Body, Segment};
use super::checksum::{Algorithm, Checksums};
use super::disk::Blob;
use super::index::{Bucket, Versioning};
use super::multipart::{Part, Upload};
use super::object::{Attributes, Content, Version};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Finds a blob by its name and length in bytes.
type Claim<'a> = dyn FnMut(&str, u64) -> io::Result<Arc<Blob>> + 'a;

#[derive(Serialize, Deserialize)]
pub(super) struct StoredBucket {
    created_ms: u64,
    versioning: Versioning,
}

impl StoredBucket {
    pub(super) fn new(bucket: &Bucket) -> Self {
        Self { created_ms: to_ms(bucket.created), versioning: bucket.versioning }
    }

    pub(super) fn into_bucket(self) -> Bucket {
        Bucket::new(from_ms(self.created_ms), self.versioning)
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredKey {
    key: String,
    versions: Vec<StoredVersion>,
}

#[derive(Serialize, Deserialize)]
struct StoredVersion {
    id: String,
    sequence: u64,
    /// Absent in directories from before there were generations.
    #[serde(default)]
    generation: u64,
    modified_ms: u64,
    content: Option<StoredContent>,
}

#[derive(Serialize, Deserialize)]
struct StoredContent {
    etag: String,
    md5: Option<String>,
    attributes: Attributes,
    checksums: Checksums,
    part_sizes: Vec<u64>,
    blobs: Vec<StoredBlob>,
}

#[derive(Serialize, Deserialize)]
struct StoredBlob {
    name: String,
    len: u64,
}

impl StoredKey {
    pub(super) fn new(key: &str, versions: &[Arc<Version>]) -> Self {
        let versions = versions.iter().map(|version| StoredVersion {
            id: version.id.clone(),
            sequence: version.sequence,
            generation: version.generation,
            modified_ms: to_ms(version.modified),
            content: version.content.as_ref().map(StoredContent::new),
        });
        Self { key: key.to_owned(), versions: versions.collect() }
    }

    pub(super) fn into_versions(
        self,
        claim: &mut Claim<'_>,
    ) -> io::Result<(String, Vec<Arc<Version>>)> {
        let restore = |stored: StoredVersion| {
            let content = stored.content.map(|content| content.into_content(claim)).transpose()?;
            let modified = from_ms(stored.modified_ms);
            Ok(Arc::new(Version {
                id: stored.id,
                sequence: stored.sequence,
                generation: stored.generation,
                modified,
                content,
            }))
        };
        let versions = self.versions.into_iter().map(restore).collect::<io::Result<_>>()?;
        Ok((self.key, versions))
    }
}

impl StoredContent {
    fn new(content: &Content) -> Self {
        Self {
            etag: content.etag.clone(),
            md5: content.md5.clone(),
            attributes: content.attributes.clone(),
            checksums: content.checksums.clone(),
            part_sizes: content.part_sizes.clone(),
            blobs: store_body(&content.body),
        }
    }

    fn into_content(self, claim: &mut Claim<'_>) -> io::Result<Content> {
        Ok(Content {
            etag: self.etag,
            md5: self.md5,
            attributes: self.attributes,
            checksums: self.checksums,
            part_sizes: self.part_sizes,
            body: load_body(self.blobs, claim)?,
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct StoredUpload {
    id: String,
    key: String,
    initiated_ms: u64,
    started: u64,
    attributes: Attributes,
    algorithm: Option<Algorithm>,
    full_object: bool,
    parts: BTreeMap<u16, StoredPart>,
}

#[derive(Serialize, Deserialize)]
struct StoredPart {
    etag: String,
    md5: String,
    checksums: Checksums,
    modified_ms: u64,
    blobs: Vec<StoredBlob>,
}

impl StoredUpload {
    pub(super) fn new(id: &str, upload: &Upload) -> Self {
        let part = |part: &Part| StoredPart {
            etag: part.etag.clone(),
            md5: hex::encode(part.md5),
            checksums: part.checksums.clone(),
            modified_ms: to_ms(part.modified),
            blobs: store_body(&part.body),
        };
        Self {
            id: id.to_owned(),
            key: upload.key.clone(),
            initiated_ms: to_ms(upload.initiated),
            started: upload.started,
            attributes: upload.attributes.clone(),
            algorithm: upload.algorithm,
            full_object: upload.full_object,
            parts: upload.parts.iter().map(|(number, p)| (*number, part(p))).collect(),
        }
    }

    pub(super) fn into_upload(self, claim: &mut Claim<'_>) -> io::Result<(String, Upload)> {
        let restore = |(number, stored): (u16, StoredPart)| {
            let mut md5 = [0; 16];
            hex::decode_to_slice(&stored.md5, &mut md5).map_err(io::Error::other)?;
            let part = Part {
                etag: stored.etag,
                md5,
                checksums: stored.checksums,
                modified: from_ms(stored.modified_ms),
                body: load_body(stored.blobs, claim)?,
            };
            Ok((number, part))
        };
        let upload = Upload {
            key: self.key,
            initiated: from_ms(self.initiated_ms),
            started: self.started,
            attributes: self.attributes,
            algorithm: self.algorithm,
            full_object: self.full_object,
            parts: self.parts.into_iter().map(restore).collect::<io::Result<_>>()?,
        };
        Ok((self.id, upload))
    }
}

fn store_body(body: &Body) -> Vec<StoredBlob> {
    let blob = |segment: &Segment| match segment {
        // A store on disk never has bytes in memory; see `Medium::writer`.
        Segment::Memory(_) => None,
        Segment::File(blob) => Some(StoredBlob { name: blob.name().to_owned(), len: blob.len() }),
    };
    body.segments().iter().filter_map(blob).collect()
}

fn load_body(blobs: Vec<StoredBlob>, claim: &mut Claim<'_>) -> io::Result<Body> {
    let segment = |blob: StoredBlob| Ok(Segment::File(claim(&blob.name, blob.len)?));
    Ok(Body::new(blobs.into_iter().map(segment).collect::<io::Result<_>>()?))
}

fn to_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn from_ms(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

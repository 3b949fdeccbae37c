//! Where the store keeps its state: nowhere but in memory, or in a directory as well.
//!
//! The directory:
//!
//! ```text
//! lock                                 held while a store runs
//! blobs/<random>                       bytes of objects and parts, never changed
//! buckets/<bucket>/bucket.json
//! buckets/<bucket>/keys/<sha256>.json  every version of one key, with the blobs it is made of
//! buckets/<bucket>/uploads/<id>.json   a multipart upload in progress
//! ```
//!
//! A blob is written and synced first; then the key's file is written beside its place, synced and
//! renamed into it, and its directory synced. The rename is the commit: after `kill -9` a key is
//! either as before or as after, body and metadata together. What no file refers to is removed at
//! the next start. A file name is a hash of the key, because a key may be longer than a file name
//! and may hold any character.
//!
//! Not here: several processes on one directory (refused by the lock), and repair.

use super::body::{Body, Segment};
use super::index::{Bucket, Index};
use super::multipart::Upload;
use super::object::Version;
use super::persist::{StoredBucket, StoredKey, StoredUpload};
use super::store::random_id;
use bytes::BytesMut;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::AsyncWriteExt as _;

/// The largest piece of memory that a body is collected in.
const MEMORY_SEGMENT_BYTES_MAX: usize = 1024 * 1024;

/// Where state is kept.
#[derive(Debug)]
pub(super) enum Medium {
    /// In the index only.
    Memory,
    /// In a directory too.
    Disk(Disk),
}

/// An open data directory.
#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
    closing: Arc<AtomicBool>,
    /// Unlocked when it is closed.
    _lock: File,
}

/// A file of bytes, removed when the last reference to it goes while the store is running.
#[derive(Debug)]
pub(super) struct Blob {
    name: String,
    path: PathBuf,
    len: u64,
    closing: Arc<AtomicBool>,
}

impl Blob {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }
}

impl Drop for Blob {
    fn drop(&mut self) {
        if !self.closing.load(Ordering::SeqCst)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "a blob could not be removed");
        }
    }
}

impl Medium {
    /// A place to write a body to.
    pub(super) async fn writer(&self) -> io::Result<BodyWriter> {
        match self {
            Self::Memory => Ok(BodyWriter::Memory(Vec::new(), BytesMut::new())),
            Self::Disk(disk) => {
                let name = random_id();
                let path = disk.root.join("blobs").join(&name);
                let blob = Blob { name, path, len: 0, closing: disk.closing.clone() };
                let file = tokio::fs::File::create_new(&blob.path).await?;
                Ok(BodyWriter::Disk(blob, file))
            }
        }
    }

    pub(super) fn save_bucket(&self, name: &str, bucket: &Bucket) -> io::Result<()> {
        let Self::Disk(disk) = self else { return Ok(()) };
        let directory = disk.bucket(name);
        fs::create_dir_all(directory.join("keys"))?;
        fs::create_dir_all(directory.join("uploads"))?;
        save(&directory, "bucket.json", &StoredBucket::new(bucket))?;
        sync_directory(&disk.root.join("buckets"))
    }

    pub(super) fn remove_bucket(&self, name: &str) -> io::Result<()> {
        let Self::Disk(disk) = self else { return Ok(()) };
        // The commit is the loss of `bucket.json`; a directory without it is no bucket.
        remove(&disk.bucket(name), "bucket.json")?;
        fs::remove_dir_all(disk.bucket(name))?;
        sync_directory(&disk.root.join("buckets"))
    }

    pub(super) fn save_key(
        &self,
        bucket: &str,
        key: &str,
        versions: &[Arc<Version>],
    ) -> io::Result<()> {
        let Self::Disk(disk) = self else { return Ok(()) };
        let directory = disk.bucket(bucket).join("keys");
        let file = format!("{}.json", hex::encode(Sha256::digest(key)));
        if versions.is_empty() {
            return remove(&directory, &file);
        }
        save(&directory, &file, &StoredKey::new(key, versions))
    }

    pub(super) fn save_upload(&self, bucket: &str, id: &str, upload: &Upload) -> io::Result<()> {
        let Self::Disk(disk) = self else { return Ok(()) };
        let directory = disk.bucket(bucket).join("uploads");
        save(&directory, &format!("{id}.json"), &StoredUpload::new(id, upload))
    }

    pub(super) fn remove_upload(&self, bucket: &str, id: &str) -> io::Result<()> {
        let Self::Disk(disk) = self else { return Ok(()) };
        remove(&disk.bucket(bucket).join("uploads"), &format!("{id}.json"))
    }

    /// From now on a blob whose last reference goes stays on disk.
    pub(super) fn close(&self) {
        if let Self::Disk(disk) = self {
            disk.closing.store(true, Ordering::SeqCst);
        }
    }
}

/// Receives the bytes of one body.
pub(super) enum BodyWriter {
    Memory(Vec<Segment>, BytesMut),
    Disk(Blob, tokio::fs::File),
}

impl BodyWriter {
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory(segments, open) => {
                // Copied, because a slice of the connection's buffer would keep all of it alive.
                open.extend_from_slice(bytes);
                if open.len() >= MEMORY_SEGMENT_BYTES_MAX {
                    segments.push(Segment::Memory(open.split().freeze()));
                }
                Ok(())
            }
            Self::Disk(blob, file) => {
                blob.len += bytes.len() as u64;
                file.write_all(bytes).await
            }
        }
    }

    /// The body, durable where the medium is.
    pub(super) async fn finish(self) -> io::Result<Body> {
        match self {
            Self::Memory(mut segments, open) => {
                if !open.is_empty() {
                    segments.push(Segment::Memory(open.freeze()));
                }
                Ok(Body::new(segments))
            }
            Self::Disk(blob, mut file) => {
                file.flush().await?;
                file.sync_all().await?;
                drop(file);
                let directory = blob.path.parent().map(Path::to_owned).unwrap_or_default();
                tokio::task::spawn_blocking(move || sync_directory(&directory))
                    .await
                    .map_err(io::Error::other)??;
                Ok(Body::new(vec![Segment::File(Arc::new(blob))]))
            }
        }
    }
}

impl Disk {
    /// Opens a data directory, creating it where it is missing, and reads what is in it.
    ///
    /// # Errors
    ///
    /// Another store has it open, it cannot be read or written, or a file in it is damaged.
    pub(super) fn open(root: &Path) -> io::Result<(Self, Index)> {
        fs::create_dir_all(root.join("blobs"))?;
        fs::create_dir_all(root.join("buckets"))?;
        let lock =
            File::options().create(true).truncate(false).write(true).open(root.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::new(
                io::ErrorKind::ResourceBusy,
                "the directory is in use by another store",
            ),
            TryLockError::Error(error) => error,
        })?;
        // "Closing" while loading: a start that fails half way must not remove what it had read.
        let closing = Arc::new(AtomicBool::new(true));
        let disk = Self { root: root.to_owned(), closing, _lock: lock };
        let index = disk.load()?;
        disk.closing.store(false, Ordering::SeqCst);
        Ok((disk, index))
    }

    fn bucket(&self, name: &str) -> PathBuf {
        self.root.join("buckets").join(name)
    }

    fn load(&self) -> io::Result<Index> {
        let mut blobs =
            Blobs { disk: self, unclaimed: self.list_blobs()?, claimed: HashMap::new() };
        let mut index = Index::default();
        for directory in list(&self.root.join("buckets"))? {
            let name = file_name(&directory);
            if !directory.join("bucket.json").exists() {
                // Half created or half removed when the process ended.
                fs::remove_dir_all(&directory)?;
                continue;
            }
            let stored: StoredBucket = load(&directory.join("bucket.json"))?;
            let mut bucket = stored.into_bucket();
            for path in list(&directory.join("keys"))? {
                let Some(stored) = load_or_discard::<StoredKey>(&path)? else { continue };
                let (key, versions) =
                    stored.into_versions(&mut |name, len| blobs.claim(name, len))?;
                let sequences = versions.iter().map(|version| version.sequence);
                index.sequence = sequences.fold(index.sequence, u64::max);
                let generations = versions.iter().map(|version| version.generation);
                index.generation = generations.fold(index.generation, u64::max);
                bucket.keys.insert(key, versions);
            }
            for path in list(&directory.join("uploads"))? {
                let Some(stored) = load_or_discard::<StoredUpload>(&path)? else { continue };
                let (id, upload) = stored.into_upload(&mut |name, len| blobs.claim(name, len))?;
                index.sequence = index.sequence.max(upload.started);
                bucket.uploads.insert(&id, upload);
            }
            index.buckets.insert(name, bucket);
        }
        blobs.remove_unclaimed()?;
        Ok(index)
    }

    fn list_blobs(&self) -> io::Result<HashMap<String, PathBuf>> {
        let paths = list(&self.root.join("blobs"))?;
        Ok(paths.into_iter().map(|path| (file_name(&path), path)).collect())
    }
}

/// The blobs found at start, until every reference to them has been read.
struct Blobs<'a> {
    disk: &'a Disk,
    unclaimed: HashMap<String, PathBuf>,
    claimed: HashMap<String, Arc<Blob>>,
}

impl Blobs<'_> {
    fn claim(&mut self, name: &str, len: u64) -> io::Result<Arc<Blob>> {
        if let Some(blob) = self.claimed.get(name) {
            return Ok(blob.clone());
        }
        let damaged =
            |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("blob {name} {what}"));
        let path = self.unclaimed.remove(name).ok_or_else(|| damaged("is missing"))?;
        if fs::metadata(&path)?.len() != len {
            return Err(damaged("has the wrong size"));
        }
        let closing = self.disk.closing.clone();
        let blob = Arc::new(Blob { name: name.to_owned(), path, len, closing });
        self.claimed.insert(name.to_owned(), blob.clone());
        Ok(blob)
    }

    /// Uploads that never finished and objects that were deleted.
    fn remove_unclaimed(self) -> io::Result<()> {
        self.unclaimed.into_values().try_for_each(fs::remove_file)
    }
}

fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn load<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let damaged = |error: serde_json::Error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    };
    serde_json::from_slice(&fs::read(path)?).map_err(damaged)
}

/// Reads a file that counts; removes one that was being written when the process ended.
fn load_or_discard<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    if path.extension().is_some_and(|extension| extension == "tmp") {
        fs::remove_file(path)?;
        return Ok(None);
    }
    load(path).map(Some)
}

/// Replaces a file as a whole, durably.
fn save(directory: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    let temporary = directory.join(format!("{name}.tmp"));
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&temporary, directory.join(name))?;
    sync_directory(directory)
}

fn remove(directory: &Path, name: &str) -> io::Result<()> {
    fs::remove_file(directory.join(name))?;
    sync_directory(directory)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

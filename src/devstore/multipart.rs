//! Multipart uploads: their parts, and what Complete makes of them.
//!
//! Pure. Receiving a part is `ingest`'s business, committing the object is `index`'s.

use super::body::Body;
use super::checksum::{Algorithm, Checksums};
use super::conditions::unquoted;
use super::object::{Attributes, Content};
use md5::{Digest as _, Md5};
use s3s::{S3Result, s3_error};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Every part but the last must have at least this size
/// (Amazon S3 user guide, "Amazon S3 multipart upload limits").
pub(super) const PART_BYTES_MIN: u64 = 5 * 1024 * 1024;

/// The largest part number (same page).
pub(super) const PART_NUMBER_MAX: u16 = 10_000;

/// The uploads in progress in one bucket, in the order of `ListMultipartUploads`: by key, then by
/// the time they were begun (their ids begin with a running number).
#[derive(Debug, Default)]
pub(super) struct Uploads(BTreeMap<(String, String), Upload>);

/// An upload in progress.
#[derive(Clone, Debug)]
pub(super) struct Upload {
    pub(super) key: String,
    pub(super) initiated: SystemTime,
    /// The store's running number when it was created: Complete is fenced from here on.
    pub(super) started: u64,
    pub(super) attributes: Attributes,
    /// The checksum algorithm that Create announced.
    pub(super) algorithm: Option<Algorithm>,
    /// Create asked for a checksum of the whole object rather than of the parts' checksums.
    pub(super) full_object: bool,
    pub(super) parts: BTreeMap<u16, Part>,
}

/// A part that has arrived.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Without quotes.
    pub(super) etag: String,
    pub(super) md5: [u8; 16],
    pub(super) checksums: Checksums,
    pub(super) modified: SystemTime,
    pub(super) body: Body,
}

/// A part as the body of Complete names it.
#[derive(Clone, Debug)]
pub(super) struct NamedPart {
    pub(super) number: u16,
    pub(super) etag: String,
    pub(super) checksums: Checksums,
}

impl Uploads {
    pub(super) fn insert(&mut self, id: &str, upload: Upload) {
        self.0.insert((upload.key.clone(), id.to_owned()), upload);
    }

    /// # Errors
    ///
    /// `NoSuchUpload`, also when the upload is for another key.
    pub(super) fn get(&self, key: &str, id: &str) -> S3Result<&Upload> {
        self.0.get(&(key.to_owned(), id.to_owned())).ok_or_else(no_such_upload)
    }

    pub(super) fn get_mut(&mut self, key: &str, id: &str) -> S3Result<&mut Upload> {
        self.0.get_mut(&(key.to_owned(), id.to_owned())).ok_or_else(no_such_upload)
    }

    pub(super) fn remove(&mut self, key: &str, id: &str) {
        self.0.remove(&(key.to_owned(), id.to_owned()));
    }

    /// Upload ids with their uploads, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Upload)> {
        self.0.iter().map(|((_, id), upload)| (id.as_str(), upload))
    }
}

fn no_such_upload() -> s3s::S3Error {
    s3_error!(
        NoSuchUpload,
        "The specified upload does not exist. The upload ID may be invalid, or the upload may have \
         been aborted or completed."
    )
}

impl Upload {
    /// The object that Complete asks for, and the MD5 of its parts' MD5s in hex. The entity tag is
    /// the caller's to make.
    ///
    /// # Errors
    ///
    /// `MalformedXML`, `InvalidPartOrder`, `InvalidPart`, `EntityTooSmall`, `BadDigest`.
    pub(super) fn assemble(&self, named: &[NamedPart]) -> S3Result<(Content, String)> {
        let parts = self.select(named)?;
        let mut md5 = Md5::new();
        parts.iter().for_each(|part| md5.update(part.md5));
        let checksums = parts.iter().map(|part| &part.checksums).collect::<Vec<_>>();
        let content = Content {
            etag: String::new(),
            md5: None,
            attributes: self.attributes.clone(),
            checksums: Checksums::composite(&checksums),
            part_sizes: parts.iter().map(|part| part.body.len()).collect(),
            body: Body::concat(parts.iter().map(|part| &part.body)),
        };
        Ok((content, hex::encode(md5.finalize())))
    }

    fn select(&self, named: &[NamedPart]) -> S3Result<Vec<&Part>> {
        if named.is_empty() {
            return Err(s3_error!(MalformedXML, "You must specify at least one part"));
        }
        if !named.is_sorted_by(|a, b| a.number < b.number) {
            return Err(s3_error!(
                InvalidPartOrder,
                "The list of parts was not in ascending order. The parts list must be specified in \
                 order by part number."
            ));
        }
        let mut parts = Vec::with_capacity(named.len());
        for name in named {
            let part = self.parts.get(&name.number);
            let part = part.filter(|part| part.etag == unquoted(&name.etag)).ok_or_else(|| {
                s3_error!(
                    InvalidPart,
                    "One or more of the specified parts could not be found. The part may not have \
                     been uploaded, or the specified entity tag may not match the part's entity \
                     tag."
                )
            })?;
            part.checksums.verify(&name.checksums)?;
            parts.push(part);
        }
        let (_, but_last) = parts.split_last().expect("at least one part was named");
        if but_last.iter().any(|part| part.body.len() < PART_BYTES_MIN) {
            return Err(s3_error!(
                EntityTooSmall,
                "Your proposed upload is smaller than the minimum allowed size"
            ));
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devstore::body::Segment;
    use bytes::Bytes;
    use s3s::S3ErrorCode;

    fn part(len: usize, fill: u8) -> Part {
        let bytes = Bytes::from(vec![fill; len]);
        let md5: [u8; 16] = Md5::digest(&bytes).into();
        Part {
            etag: hex::encode(md5),
            md5,
            checksums: Checksums::default(),
            modified: SystemTime::UNIX_EPOCH,
            body: Body::new(vec![Segment::Memory(bytes)]),
        }
    }

    fn upload(parts: impl IntoIterator<Item = (u16, Part)>) -> Upload {
        Upload {
            key: "k".to_owned(),
            initiated: SystemTime::UNIX_EPOCH,
            started: 0,
            attributes: Attributes::default(),
            algorithm: None,
            full_object: false,
            parts: parts.into_iter().collect(),
        }
    }

    fn name(upload: &Upload, number: u16) -> NamedPart {
        let etag = upload.parts.get(&number).map_or("x", |part| &part.etag).to_owned();
        NamedPart { number, etag, checksums: Checksums::default() }
    }

    fn refusal(upload: &Upload, named: &[NamedPart]) -> S3ErrorCode {
        upload.assemble(named).unwrap_err().code().clone()
    }

    #[test]
    fn one_small_part_is_an_object() {
        let upload = upload([(7, part(3, b'x'))]);
        let (content, md5) = upload.assemble(&[name(&upload, 7)]).unwrap();
        assert_eq!(content.body.len(), 3);
        assert_eq!(md5, hex::encode(Md5::digest(Md5::digest(b"xxx"))));
        assert_eq!(content.part_sizes, [3]);
    }

    #[test]
    fn only_the_last_part_may_be_small() {
        let big = usize::try_from(PART_BYTES_MIN).unwrap();
        let upload = upload([(1, part(big, 1)), (2, part(big - 1, 2)), (3, part(1, 3))]);
        let names = [1, 2, 3].map(|number| name(&upload, number));
        assert_eq!(refusal(&upload, &names), S3ErrorCode::EntityTooSmall);
        assert!(upload.assemble(&names[..2]).is_ok());
    }

    #[test]
    fn wrong_lists_are_refused() {
        let upload = upload([(1, part(1, 1)), (2, part(1, 2))]);
        let names = [name(&upload, 2), name(&upload, 1)];
        assert_eq!(refusal(&upload, &[]), S3ErrorCode::MalformedXML);
        assert_eq!(refusal(&upload, &names), S3ErrorCode::InvalidPartOrder);
        assert_eq!(refusal(&upload, &[name(&upload, 3)]), S3ErrorCode::InvalidPart);
        let wrong = NamedPart { number: 2, ..name(&upload, 1) };
        assert_eq!(refusal(&upload, &[wrong]), S3ErrorCode::InvalidPart);
    }
}

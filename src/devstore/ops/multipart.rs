//! Multipart uploads.

use super::list::common_prefixes;
use super::object::attributes_of;
use super::{Operations, etag, etag_text, owner, page_size, signed, timestamp};
use crate::devstore::body::Body;
use crate::devstore::checksum::{Algorithm, Checksums, set_checksums};
use crate::devstore::conditions::Asked;
use crate::devstore::index::Target;
use crate::devstore::ingest::{Claims, Received, hash, receive};
use crate::devstore::listing::{Query, encode};
use crate::devstore::multipart::{NamedPart, PART_NUMBER_MAX, Part as StoredPart, Upload};
use crate::devstore::object::{Attributes, Content, strip_aws_chunked};
use crate::devstore::profile::Operation;
use http::HeaderMap;
use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};
use std::collections::BTreeMap;

impl Operations {
    pub(super) async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<CreateMultipartUploadOutput> {
        let input = request.input;
        let (bucket, key) = (input.bucket.clone(), input.key.clone());
        let asked = Asked::of(&request.headers);
        let (operation, extensions) = (Operation::CreateUpload, &request.extensions);
        let condition = self.store.condition(operation, &bucket, asked, extensions)?;
        let target = Target { bucket, key, condition, started: u64::MAX };
        self.store.read(|index| index.check(&self.store, &target))?;
        let Target { bucket, key, .. } = target;
        let algorithm_name = input.checksum_algorithm.clone();
        let full_object = input.checksum_type.as_ref().map(ChecksumType::as_str)
            == Some(ChecksumType::FULL_OBJECT);
        let algorithm = algorithm_name.as_ref().and_then(|a| Algorithm::from_name(a.as_str()));
        let upload = Upload {
            key: key.clone(),
            initiated: self.store.clock.now(),
            started: 0,
            attributes: attributes_of!(input),
            algorithm,
            full_object: full_object || algorithm == Some(Algorithm::Crc64Nvme),
            parts: BTreeMap::new(),
        };
        let upload_id = self
            .store
            .write(move |index, store| index.create_upload(store, &input.bucket, upload))
            .await?;
        Ok(CreateMultipartUploadOutput {
            bucket: Some(bucket),
            checksum_algorithm: algorithm_name,
            checksum_type: input.checksum_type,
            key: Some(key),
            upload_id: Some(upload_id),
            ..Default::default()
        })
    }

    pub(super) async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<UploadPartOutput> {
        let claims = Claims::of(&request)?;
        let input = request.input;
        let place = self.place(input.bucket, input.key, input.upload_id, input.part_number)?;
        let received = receive(&self.store.medium, input.body, &claims).await?;
        let part = self.stored_part(received);
        let mut output = UploadPartOutput { e_tag: Some(etag(&part.etag)), ..Default::default() };
        set_checksums!(output, &part.checksums);
        self.add_part(place, part).await?;
        Ok(output)
    }

    pub(super) async fn upload_part_copy(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<UploadPartCopyOutput> {
        let input = request.input;
        let place = self.place(input.bucket, input.key, input.upload_id, input.part_number)?;
        let source = self.source(input.copy_source)?;
        let (_, content, copy_source_version_id) =
            self.copy_source(&source, &request.headers, &request.extensions)?;
        let size = content.body.len();
        let range = match input.copy_source_range.as_deref().map(Range::parse) {
            None => 0..size,
            // Unlike a GET's, this range must lie within the source.
            Some(Ok(Range::Int { first, last: Some(last) })) if last < size => first..last + 1,
            Some(_) => {
                return Err(s3_error!(InvalidArgument, "invalid header: x-amz-copy-source-range"));
            }
        };
        let algorithm = self.upload(&place)?.algorithm;
        let body = self.copy_range(content.body, range).await?;
        let (md5, checksums) = hash(&body, algorithm).await?;
        let part = self.stored_part(Received { body, md5, checksums });
        let mut result = CopyPartResult {
            e_tag: Some(etag(&part.etag)),
            last_modified: Some(timestamp(part.modified)),
            ..Default::default()
        };
        set_checksums!(result, &part.checksums);
        self.add_part(place, part).await?;
        Ok(UploadPartCopyOutput {
            copy_part_result: Some(result),
            copy_source_version_id,
            ..Default::default()
        })
    }

    pub(super) async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<CompleteMultipartUploadOutput> {
        let claimed = Checksums::claimed(&request.headers);
        let input = request.input;
        let asked = Asked::of(&request.headers);
        let (operation, extensions) = (Operation::Complete, &request.extensions);
        let condition = self.store.condition(operation, &input.bucket, asked, extensions)?;
        let named = named_parts(input.multipart_upload)?;
        let place = Place { bucket: input.bucket, key: input.key, id: input.upload_id, number: 0 };
        let upload = self.upload(&place)?;
        let (mut content, md5_of_md5s) = upload.assemble(&named)?;
        content.etag = self.store.multipart_etag(&md5_of_md5s, named.len());
        if input.mpu_object_size.is_some_and(|size| size != signed(content.body.len())) {
            return Err(s3_error!(InvalidRequest, "x-amz-mp-object-size does not match the parts"));
        }
        complete_checksums(&mut content, &upload, &claimed).await?;
        let mut output = CompleteMultipartUploadOutput {
            bucket: Some(place.bucket.clone()),
            e_tag: Some(etag(&content.etag)),
            key: Some(place.key.clone()),
            location: Some(format!("/{}/{}", place.bucket, encode(&place.key, true))),
            ..Default::default()
        };
        set_checksums!(output, &content.checksums);
        output.checksum_type = content.checksums.type_name().map(ChecksumType::from_static);
        let started = self.store.noticed_since(upload.started);
        let Place { bucket, key, id, .. } = place;
        let target = Target { bucket, key, condition, started };
        let target = self.store.open_race_window(target).await?;
        let written = self
            .store
            .write(move |index, store| index.complete_upload(store, &target, &id, content))
            .await?;
        output.version_id = written.shown_id;
        Ok(output)
    }

    pub(super) async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<AbortMultipartUploadOutput> {
        let AbortMultipartUploadInput { bucket, key, upload_id, .. } = request.input;
        self.store
            .write(move |index, store| index.abort_upload(store, &bucket, &key, &upload_id))
            .await?;
        Ok(AbortMultipartUploadOutput::default())
    }

    pub(super) async fn list_parts(
        &self,
        request: S3Request<ListPartsInput>,
    ) -> S3Result<ListPartsOutput> {
        let input = request.input;
        let parts_max = page_size(input.max_parts)?;
        let after = input.part_number_marker.unwrap_or(0);
        let place = Place { bucket: input.bucket, key: input.key, id: input.upload_id, number: 0 };
        let upload = self.upload(&place)?;
        let left = upload.parts.iter().filter(|(number, _)| i32::from(**number) > after);
        let mut parts: Vec<_> = left.take(parts_max + 1).map(listed_part).collect();
        let truncated = parts.len() > parts_max;
        parts.truncate(parts_max);
        let last = parts.last().and_then(|part| part.part_number);
        Ok(ListPartsOutput {
            is_truncated: Some(truncated),
            next_part_number_marker: last.filter(|_| truncated),
            part_number_marker: Some(after),
            max_parts: Some(parts_max.try_into().unwrap_or(i32::MAX)),
            parts: Some(parts),
            bucket: Some(place.bucket),
            key: Some(place.key),
            upload_id: Some(place.id),
            owner: Some(owner()),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
            ..Default::default()
        })
    }

    pub(super) async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<ListMultipartUploadsOutput> {
        let input = request.input;
        let url = input.encoding_type.is_some();
        let after = input.key_marker.as_deref().unwrap_or_default();
        let id_marker = input.upload_id_marker.as_deref().unwrap_or_default();
        let query = Query {
            prefix: input.prefix.as_deref().unwrap_or_default(),
            delimiter: input.delimiter.as_deref().unwrap_or_default(),
            after,
            keys_repeat: true,
            items_max: page_size(input.max_uploads)?,
        };
        let mut page = self.store.read(|index| {
            let bucket = index.bucket(&input.bucket)?;
            // Without an id the marker's key is done with; with one, what comes after it is left.
            let left = bucket.uploads.iter().filter(|(id, upload)| {
                upload.key != after || (!id_marker.is_empty() && *id > id_marker)
            });
            let shown = left.map(|(id, upload)| (upload.key.as_str(), listed_upload(id, upload)));
            Ok(query.page(shown))
        })?;
        let last = page.items.last().filter(|last| last.key.is_some() && last.key == page.next);
        let next_upload_id_marker = last.and_then(|upload| upload.upload_id.clone());
        for upload in &mut page.items {
            upload.key = upload.key.as_deref().map(|key| encode(key, url));
        }
        Ok(ListMultipartUploadsOutput {
            next_key_marker: page.next.as_deref().map(|key| encode(key, url)),
            next_upload_id_marker,
            is_truncated: Some(page.next.is_some()),
            common_prefixes: Some(common_prefixes(&page.common_prefixes, url)),
            uploads: Some(page.items),
            max_uploads: Some(query.items_max.try_into().unwrap_or(i32::MAX)),
            key_marker: Some(encode(after, url)),
            upload_id_marker: Some(id_marker.to_owned()),
            prefix: Some(encode(query.prefix, url)),
            delimiter: input.delimiter.as_deref().map(|text| encode(text, url)),
            encoding_type: input.encoding_type,
            bucket: Some(input.bucket),
            ..Default::default()
        })
    }
}

/// Where a part goes.
struct Place {
    bucket: String,
    key: String,
    id: String,
    number: u16,
}

impl Operations {
    fn place(&self, bucket: String, key: String, id: String, number: i32) -> S3Result<Place> {
        let number = part_number(number)?;
        let place = Place { bucket, key, id, number };
        // Before its body is received, so that a client of an upload that has gone learns it early.
        self.upload(&place)?;
        Ok(place)
    }

    fn upload(&self, place: &Place) -> S3Result<Upload> {
        let Place { bucket, key, id, .. } = place;
        self.store.read(|index| index.bucket(bucket)?.uploads.get(key, id).cloned())
    }

    fn stored_part(&self, received: Received) -> StoredPart {
        StoredPart {
            etag: self.store.etag(&hex::encode(received.md5)),
            md5: received.md5,
            checksums: received.checksums,
            modified: self.store.clock.now(),
            body: received.body,
        }
    }

    async fn add_part(&self, place: Place, part: StoredPart) -> S3Result<()> {
        let Place { bucket, key, id, number } = place;
        self.store
            .write(move |index, store| index.add_part(store, &bucket, &key, &id, number, part))
            .await
    }

    /// A stretch of a body: shared when it is all of it, copied otherwise.
    async fn copy_range(&self, body: Body, range: std::ops::Range<u64>) -> S3Result<Body> {
        if range == (0..body.len()) {
            return Ok(body);
        }
        let claims = Claims::none();
        Ok(receive(&self.store.medium, Some(body.stream(range)), &claims).await?.body)
    }
}

fn part_number(number: i32) -> S3Result<u16> {
    let valid = |number: &u16| (1..=PART_NUMBER_MAX).contains(number);
    u16::try_from(number).ok().filter(valid).ok_or_else(|| {
        s3_error!(InvalidArgument, "Part number must be an integer between 1 and 10000, inclusive")
    })
}

fn named_parts(named: Option<CompletedMultipartUpload>) -> S3Result<Vec<NamedPart>> {
    let named = named.and_then(|named| named.parts).unwrap_or_default();
    let part = |part: CompletedPart| {
        let number = part_number(part.part_number.unwrap_or_default())?;
        let etag = part.e_tag.as_ref().map(etag_text).unwrap_or_default().to_owned();
        // The same names as the headers', so they are read as such.
        let fields = [
            ("x-amz-checksum-crc32", part.checksum_crc32),
            ("x-amz-checksum-crc32c", part.checksum_crc32c),
            ("x-amz-checksum-crc64nvme", part.checksum_crc64nvme),
            ("x-amz-checksum-sha1", part.checksum_sha1),
            ("x-amz-checksum-sha256", part.checksum_sha256),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            if let Some(value) = value.and_then(|value| value.parse().ok()) {
                headers.insert(name, value);
            }
        }
        Ok(NamedPart { number, etag, checksums: Checksums::claimed(&headers) })
    };
    named.into_iter().map(part).collect()
}

/// The checksum of the whole object, where the upload or the request asks for one; else what the
/// parts give. A claim must agree with what is stored.
async fn complete_checksums(
    content: &mut Content,
    upload: &Upload,
    claimed: &Checksums,
) -> S3Result<()> {
    let wanted = claimed.full_object_algorithms();
    let wanted: Vec<_> = wanted.chain(upload.algorithm.filter(|_| upload.full_object)).collect();
    if !wanted.is_empty() {
        content.checksums = hash(&content.body, wanted).await?.1;
    }
    content.checksums.verify(claimed)
}

fn listed_part((number, part): (&u16, &StoredPart)) -> Part {
    let mut listed = Part {
        e_tag: Some(etag(&part.etag)),
        last_modified: Some(timestamp(part.modified)),
        part_number: Some(i32::from(*number)),
        size: Some(signed(part.body.len())),
        ..Default::default()
    };
    set_checksums!(listed, &part.checksums);
    listed
}

fn listed_upload(id: &str, upload: &Upload) -> MultipartUpload {
    MultipartUpload {
        initiated: Some(timestamp(upload.initiated)),
        key: Some(upload.key.clone()),
        owner: Some(owner()),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        upload_id: Some(id.to_owned()),
        ..Default::default()
    }
}

//! PUT, GET, HEAD and DELETE of objects.

use super::{Operations, etag, etag_text, signed, timestamp};
use crate::devstore::checksum::set_checksums;
use crate::devstore::conditions::{Asked, ReadConditions, Refusal, WriteCondition};
use crate::devstore::errors::invalid_part_number;
use crate::devstore::generation::{Admitted, Shown};
use crate::devstore::index::{Deleted as Removed, Target};
use crate::devstore::ingest::{Claims, receive};
use crate::devstore::object::{Attributes, Content, Version, strip_aws_chunked};
use crate::devstore::profile::{Operation, Reads};
use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderMap, HeaderValue};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, s3_error};
use std::sync::Arc;

/// The most keys in one `DeleteObjects` (its API page).
const DELETE_KEYS_MAX: usize = 1000;

/// The attributes that an input of `s3s` carries in fields of the same names.
macro_rules! attributes_of {
    ($input:expr) => {
        Attributes {
            cache_control: $input.cache_control,
            content_disposition: $input.content_disposition,
            content_encoding: strip_aws_chunked($input.content_encoding.as_deref()),
            content_language: $input.content_language,
            content_type: $input.content_type,
            expires: $input.expires.and_then(|time| super::object::epoch_seconds(&time)),
            website_redirect_location: $input.website_redirect_location,
            metadata: $input.metadata.unwrap_or_default().into_iter().collect(),
            tags: super::tagging::parse_header($input.tagging.as_deref())?,
        }
    };
}
pub(super) use attributes_of;

impl Operations {
    pub(super) async fn put_object(
        &self,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<PutObjectOutput> {
        let claims = Claims::of(&request)?;
        let S3Request { input, headers, extensions, .. } = request;
        if input.write_offset_bytes.is_some() || input.sse_customer_algorithm.is_some() {
            return Err(s3_error!(
                NotImplemented,
                "A header you provided implies functionality that is not implemented"
            ));
        }
        let target = Target {
            started: self.store.begin(&input.bucket)?,
            condition: self.store.condition(
                Operation::Put,
                &input.bucket,
                Asked::of(&headers),
                &extensions,
            )?,
            bucket: input.bucket,
            key: input.key,
        };
        let attributes = attributes_of!(input);
        let received = receive(&self.store.medium, input.body, &claims).await?;
        let md5 = hex::encode(received.md5);
        let content = Content {
            etag: self.store.etag(&md5),
            md5: Some(md5),
            attributes,
            checksums: received.checksums,
            part_sizes: Vec::new(),
            body: received.body,
        };
        let mut output = PutObjectOutput { e_tag: Some(etag(&content.etag)), ..Default::default() };
        set_checksums!(output, &content.checksums);
        output.checksum_type = content.checksums.type_name().map(ChecksumType::from_static);
        let written = self.store.put(target, content).await?;
        Shown::leave(&extensions, &written.version);
        output.version_id = written.shown_id;
        Ok(output)
    }

    pub(super) async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<GetObjectOutput> {
        let conditions = read_conditions(&request);
        let input = request.input;
        let (version, content, shown_id) =
            self.find(&input.bucket, &input.key, input.version_id.as_deref(), &conditions)?;
        Shown::leave(&request.extensions, &version);
        let part = Extent::of(&content, input.range, input.part_number)?;
        let mut output = GetObjectOutput {
            body: Some(content.body.stream(part.start..part.end)),
            tag_count: i32::try_from(content.attributes.tags.len()).ok().filter(|n| *n > 0),
            ..Default::default()
        };
        fill_read_output!(output, version, content, shown_id, part, input.checksum_mode);
        Ok(output)
    }

    pub(super) async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<HeadObjectOutput> {
        let conditions = read_conditions(&request);
        let input = request.input;
        let (version, content, shown_id) =
            self.find(&input.bucket, &input.key, input.version_id.as_deref(), &conditions)?;
        Shown::leave(&request.extensions, &version);
        let part = Extent::of(&content, input.range, input.part_number)?;
        let mut output = HeadObjectOutput::default();
        fill_read_output!(output, version, content, shown_id, part, input.checksum_mode);
        Ok(output)
    }

    pub(super) async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<DeleteObjectOutput> {
        let input = request.input;
        let asked = Asked::of_delete(&request.headers);
        let condition =
            self.store.condition(Operation::Delete, &input.bucket, asked, &request.extensions)?;
        let deleted = self.delete(input.bucket, input.key, input.version_id, condition).await?;
        Ok(DeleteObjectOutput {
            delete_marker: deleted.marker.then_some(true),
            version_id: deleted.version_id,
            ..Default::default()
        })
    }

    pub(super) async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<DeleteObjectsOutput> {
        let S3Request { input, extensions, .. } = request;
        let DeleteObjectsInput { bucket, delete, .. } = input;
        self.store.read(|index| index.bucket(&bucket).map(|_| ()))?;
        if delete.objects.is_empty() || delete.objects.len() > DELETE_KEYS_MAX {
            return Err(s3_error!(MalformedXML, "a DeleteObjects names between 1 and 1000 keys"));
        }
        let (mut done, mut errors) = (Vec::new(), Vec::new());
        for object in delete.objects {
            let ObjectIdentifier { key, version_id, e_tag, .. } = object;
            let asked = Asked::tag(e_tag.as_ref().map(etag_text));
            let condition =
                self.store.condition(Operation::DeleteObjects, &bucket, asked, &extensions)?;
            let unconditional = condition == WriteCondition::None;
            let outcome = match self.store.key(key.clone()) {
                Ok(key) => self.delete(bucket.clone(), key, version_id.clone(), condition).await,
                Err(error) => Err(error),
            };
            match outcome {
                // In a batch nobody minds.
                Err(error) if unconditional && *error.code() == S3ErrorCode::NoSuchKey => {
                    done.push(DeletedObject { key: Some(key), ..Default::default() });
                }
                Ok(deleted) => done.push(DeletedObject {
                    delete_marker: deleted.marker.then_some(true),
                    delete_marker_version_id: deleted.version_id.filter(|_| deleted.marker),
                    key: Some(key),
                    version_id,
                }),
                Err(error) => errors.push(s3s::dto::Error {
                    code: Some(error.code().as_str().to_owned()),
                    key: Some(key),
                    message: error.message().map(str::to_owned),
                    version_id,
                }),
            }
        }
        let quiet = delete.quiet.unwrap_or(false);
        Ok(DeleteObjectsOutput {
            deleted: (!quiet).then_some(done),
            errors: (!errors.is_empty()).then_some(errors),
            ..Default::default()
        })
    }

    async fn delete(
        &self,
        bucket: String,
        key: String,
        version_id: Option<String>,
        condition: WriteCondition,
    ) -> S3Result<Removed> {
        let target = Target { bucket, key, condition, started: u64::MAX };
        match version_id {
            None => self.store.delete(target).await,
            Some(_) if target.condition != WriteCondition::None => Err(s3_error!(
                NotImplemented,
                "A header you provided implies functionality that is not implemented"
            )),
            Some(id) => {
                self.store
                    .write(move |index, store| index.delete_version(store, &target, &id))
                    .await
            }
        }
    }

    /// The version that a read asks for, if its conditions hold, and its id as answers show it.
    pub(super) fn find(
        &self,
        bucket: &str,
        key: &str,
        version_id: Option<&str>,
        conditions: &ReadConditions,
    ) -> S3Result<(Arc<Version>, Content, Option<String>)> {
        let (version, content, shown_id) = self.store.read(|index| {
            let bucket = index.bucket(bucket)?;
            let (version, content) = bucket.find(key, version_id)?;
            let shown_id = bucket.shown_id(&version);
            Ok((version, content, shown_id))
        })?;
        match self.store.behaviour.reads {
            Reads::Ignored => {}
            Reads::Judged => {
                let judged = conditions.judge_generation(version.generation);
                let judged =
                    judged.and_then(|()| conditions.judge(&content.etag, version.modified));
                judged.map_err(|refusal| refused_read(refusal, &version, &content))?;
            }
        }
        Ok((version, content, shown_id))
    }
}

/// What GET and HEAD want of the version that they read.
fn read_conditions<T>(request: &S3Request<T>) -> ReadConditions {
    let generations = Admitted::of(&request.extensions).conditions;
    ReadConditions::from_headers(&request.headers).with(generations)
}

/// A 304 says what it is that was not modified.
fn refused_read(refusal: Refusal, version: &Version, content: &Content) -> S3Error {
    let mut error = S3Error::from(refusal);
    if refusal == Refusal::NotModified {
        let mut headers = HeaderMap::new();
        let modified = httpdate::fmt_http_date(version.modified);
        for (name, text) in [(ETAG, format!("\"{}\"", content.etag)), (LAST_MODIFIED, modified)] {
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(name, value);
            }
        }
        error.set_headers(headers);
    }
    error
}

/// The stretch of an object that a read asks for.
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Of the whole object.
    size: u64,
    /// Whether it was asked for as a range or a part, which makes the answer a 206.
    partial: bool,
    /// How many parts the object has, when one was asked for.
    parts: Option<i32>,
}

impl Extent {
    fn of(content: &Content, range: Option<Range>, part_number: Option<i32>) -> S3Result<Self> {
        let size = content.body.len();
        if let Some(number) = part_number {
            return Self::of_part(content, number);
        }
        let Some(range) = range else {
            return Ok(Self { start: 0, end: size, size, partial: false, parts: None });
        };
        if size == 0 {
            return Err(s3_error!(InvalidRange, "The requested range is not satisfiable"));
        }
        let range = range.check(size)?;
        Ok(Self { start: range.start, end: range.end, size, partial: true, parts: None })
    }

    fn of_part(content: &Content, number: i32) -> S3Result<Self> {
        let size = content.body.len();
        let sizes = &content.part_sizes;
        if sizes.is_empty() && number == 1 {
            return Ok(Self { start: 0, end: size, size, partial: size > 0, parts: None });
        }
        let before = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
        let before =
            before.filter(|before| *before < sizes.len()).ok_or_else(invalid_part_number)?;
        let start = sizes.iter().take(before).sum::<u64>();
        let end = start + sizes.get(before).copied().unwrap_or_default();
        let parts = i32::try_from(sizes.len()).ok();
        Ok(Self { start, end, size, partial: true, parts })
    }

    pub(super) fn content_range(&self) -> Option<String> {
        let last = self.end.checked_sub(1)?;
        self.partial.then(|| format!("bytes {}-{last}/{}", self.start, self.size))
    }

    pub(super) fn parts(&self) -> Option<i32> {
        self.parts
    }
}

/// The fields that the outputs of GET and HEAD share.
macro_rules! fill_read_output {
    ($output:ident, $version:ident, $content:ident, $id:ident, $extent:ident, $mode:expr) => {{
        // Checksums are of the whole object, so a part of it does not carry them.
        if $mode.is_some() && $extent.content_range().is_none() {
            set_checksums!($output, &$content.checksums);
            let name = $content.checksums.type_name();
            $output.checksum_type = name.map(ChecksumType::from_static);
        }
        let attributes = &$content.attributes;
        $output.accept_ranges = Some("bytes".to_owned());
        $output.cache_control = attributes.cache_control.clone();
        $output.content_disposition = attributes.content_disposition.clone();
        $output.content_encoding = attributes.content_encoding.clone();
        $output.content_language = attributes.content_language.clone();
        $output.content_length = Some(signed($extent.end - $extent.start));
        $output.content_range = $extent.content_range();
        $output.content_type =
            Some(attributes.content_type.clone().unwrap_or("binary/octet-stream".to_owned()));
        $output.e_tag = Some(etag(&$content.etag));
        $output.expires = attributes.expires.map(from_epoch_seconds);
        $output.last_modified = Some(timestamp($version.modified));
        $output.metadata = Some(attributes.metadata.clone().into_iter().collect());
        $output.parts_count = $extent.parts();
        $output.version_id = $id;
        $output.website_redirect_location = attributes.website_redirect_location.clone();
    }};
}
use fill_read_output;

/// Seconds since 1970 of a timestamp of `s3s`, whose own type has no accessor for them.
pub(in crate::devstore) fn epoch_seconds(time: &Timestamp) -> Option<u64> {
    let mut text = Vec::new();
    time.format(TimestampFormat::EpochSeconds, &mut text).ok()?;
    let text = String::from_utf8(text).ok()?;
    text.split('.').next()?.parse().ok()
}

fn from_epoch_seconds(seconds: u64) -> Timestamp {
    Timestamp::from(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
}

//! `CopyObject`, and the source of `UploadPartCopy`. A copy shares its source's bytes.

use super::object::attributes_of;
use super::{Operations, etag, timestamp};
use crate::devstore::checksum::{Algorithm, set_checksums};
use crate::devstore::conditions::{Asked, ReadConditions};
use crate::devstore::generation::{Admitted, Shown};
use crate::devstore::index::Target;
use crate::devstore::ingest::hash;
use crate::devstore::object::{Attributes, Content, Version, strip_aws_chunked};
use crate::devstore::profile::{Operation, Reads};
use http::{Extensions, HeaderMap};
use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};
use std::sync::Arc;

/// What a copy reads.
pub(super) struct Source {
    bucket: String,
    key: String,
    version_id: Option<String>,
}

impl Operations {
    pub(super) fn source(&self, source: CopySource) -> S3Result<Source> {
        match source {
            CopySource::Bucket { bucket, key, version_id } => Ok(Source {
                bucket: bucket.into(),
                key: self.store.key(key.into())?,
                version_id: version_id.map(String::from),
            }),
            CopySource::AccessPoint { .. } | CopySource::Outpost { .. } => {
                Err(s3_error!(NotImplemented, "access points are not implemented"))
            }
        }
    }

    /// The source of a copy, if its `x-amz-copy-source-if-*` conditions hold.
    pub(super) fn copy_source(
        &self,
        source: &Source,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> S3Result<(Arc<Version>, Content, Option<String>)> {
        let Source { bucket, key, version_id } = source;
        let unconditional = ReadConditions::default();
        let found = self.find(bucket, key, version_id.as_deref(), &unconditional)?;
        match self.store.behaviour.copy_source {
            Reads::Ignored => {}
            Reads::Judged => {
                let conditions = ReadConditions::of_copy_source(headers);
                let conditions = conditions.with(Admitted::of(extensions).source);
                conditions.judge_generation(found.0.generation)?;
                conditions.judge_copy_source(&found.1.etag, found.0.modified)?;
            }
        }
        Ok(found)
    }

    pub(super) async fn copy_object(
        &self,
        request: S3Request<CopyObjectInput>,
    ) -> S3Result<CopyObjectOutput> {
        let S3Request { input, headers, extensions, .. } = request;
        let asked = Asked::of_copy(&headers, self.store.behaviour.copy_headers);
        let target = Target {
            started: self.store.begin(&input.bucket)?,
            condition: self.store.condition(Operation::Copy, &input.bucket, asked, &extensions)?,
            bucket: input.bucket,
            key: input.key,
        };
        let source = self.source(input.copy_source)?;
        let replace = is_replace(input.metadata_directive.as_ref().map(MetadataDirective::as_str))?;
        let retag = is_replace(input.tagging_directive.as_ref().map(TaggingDirective::as_str))?;
        let onto_itself = source.bucket == target.bucket && source.key == target.key;
        if onto_itself && !replace && !retag && source.version_id.is_none() {
            return Err(s3_error!(
                InvalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself \
                 without changing the object's metadata, storage class, website redirect location \
                 or encryption attributes."
            ));
        }
        let (_, content, copy_source_version_id) =
            self.copy_source(&source, &headers, &extensions)?;
        let given = attributes_of!(input);
        let mut attributes = content.attributes.clone();
        let tags = if retag { given.tags.clone() } else { attributes.tags };
        attributes = if replace { given } else { Attributes { tags: Vec::new(), ..attributes } };
        attributes.tags = tags;
        let asked = input.checksum_algorithm;
        let algorithm = asked.and_then(|asked| Algorithm::from_name(asked.as_str()));
        let content = self.copied(content, attributes, algorithm).await?;
        let mut result =
            CopyObjectResult { e_tag: Some(etag(&content.etag)), ..Default::default() };
        set_checksums!(result, &content.checksums);
        result.checksum_type = content.checksums.type_name().map(ChecksumType::from_static);
        let written = self.store.put(target, content).await?;
        Shown::leave(&extensions, &written.version);
        result.last_modified = Some(timestamp(written.version.modified));
        Ok(CopyObjectOutput {
            copy_object_result: Some(result),
            copy_source_version_id,
            version_id: written.shown_id,
            ..Default::default()
        })
    }

    /// The copy of `source`: one part whatever its source was, so its entity tag is the MD5 of the
    /// bytes again (as on Amazon S3, R2 and Wasabi; others keep the tag of a multipart source).
    async fn copied(
        &self,
        source: Content,
        attributes: Attributes,
        algorithm: Option<Algorithm>,
    ) -> S3Result<Content> {
        let multipart = source.md5.is_none();
        let (md5, checksums) = if multipart || algorithm.is_some() {
            let algorithms = source.checksums.algorithms().chain(algorithm);
            let (md5, checksums) = hash(&source.body, algorithms).await?;
            (hex::encode(md5), checksums)
        } else {
            (source.md5.unwrap_or_default(), source.checksums)
        };
        Ok(Content {
            etag: self.store.etag(&md5),
            md5: Some(md5),
            attributes,
            checksums,
            part_sizes: Vec::new(),
            body: source.body,
        })
    }
}

fn is_replace(directive: Option<&str>) -> S3Result<bool> {
    match directive {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "a directive is COPY or REPLACE")),
    }
}

//! Listings of objects and of their versions.

use super::{Operations, etag, owner, page_size, signed, timestamp};
use crate::devstore::index::Bucket;
use crate::devstore::listing::{Page, Query, encode};
use crate::devstore::object::{Content, Version};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as TOKEN;
use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};
use std::sync::Arc;

type Found = (String, Arc<Version>);

impl Operations {
    pub(super) async fn list_objects(
        &self,
        request: S3Request<ListObjectsInput>,
    ) -> S3Result<ListObjectsOutput> {
        let input = request.input;
        let url = input.encoding_type.is_some();
        let query = Query {
            prefix: input.prefix.as_deref().unwrap_or_default(),
            delimiter: input.delimiter.as_deref().unwrap_or_default(),
            after: input.marker.as_deref().unwrap_or_default(),
            items_max: page_size(input.max_keys)?,
            ..Query::default()
        };
        let page = self.page_of_objects(&input.bucket, query)?;
        // Without a delimiter the last key is the marker, and Amazon leaves the element out.
        let next_marker = page.next.as_deref().filter(|_| !query.delimiter.is_empty());
        Ok(ListObjectsOutput {
            next_marker: next_marker.map(|next| encode(next, url)),
            is_truncated: Some(page.next.is_some()),
            contents: Some(contents(&page, url)),
            common_prefixes: Some(common_prefixes(&page.common_prefixes, url)),
            max_keys: Some(query.items_max.try_into().unwrap_or(i32::MAX)),
            marker: Some(encode(query.after, url)),
            prefix: Some(encode(query.prefix, url)),
            delimiter: input.delimiter.as_deref().map(|text| encode(text, url)),
            encoding_type: input.encoding_type,
            name: Some(input.bucket),
            ..Default::default()
        })
    }

    pub(super) async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<ListObjectsV2Output> {
        let input = request.input;
        let url = input.encoding_type.is_some();
        let after = match &input.continuation_token {
            Some(token) => from_token(token)?,
            None => input.start_after.clone().unwrap_or_default(),
        };
        let query = Query {
            prefix: input.prefix.as_deref().unwrap_or_default(),
            delimiter: input.delimiter.as_deref().unwrap_or_default(),
            after: &after,
            items_max: page_size(input.max_keys)?,
            ..Query::default()
        };
        let page = self.page_of_objects(&input.bucket, query)?;
        let mut contents = contents(&page, url);
        if input.fetch_owner == Some(true) {
            contents.iter_mut().for_each(|object| object.owner = Some(owner()));
        }
        Ok(ListObjectsV2Output {
            key_count: Some(page.len().try_into().unwrap_or(i32::MAX)),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next.as_deref().map(|next| TOKEN.encode(next)),
            contents: Some(contents),
            common_prefixes: Some(common_prefixes(&page.common_prefixes, url)),
            max_keys: Some(query.items_max.try_into().unwrap_or(i32::MAX)),
            prefix: Some(encode(query.prefix, url)),
            delimiter: input.delimiter.as_deref().map(|text| encode(text, url)),
            start_after: input.start_after.as_deref().map(|text| encode(text, url)),
            continuation_token: input.continuation_token,
            encoding_type: input.encoding_type,
            name: Some(input.bucket),
            ..Default::default()
        })
    }

    fn page_of_objects(&self, bucket: &str, query: Query<'_>) -> S3Result<Page<Found>> {
        self.store.read(|index| {
            let bucket = index.bucket(bucket)?;
            let current = bucket.keys.keys().filter_map(|key| {
                let (version, _) = bucket.current(key)?;
                Some((key.as_str(), (key.clone(), version.clone())))
            });
            Ok(query.page(current))
        })
    }

    pub(super) async fn list_object_versions(
        &self,
        request: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<ListObjectVersionsOutput> {
        let input = request.input;
        let url = input.encoding_type.is_some();
        let items_max = page_size(input.max_keys)?;
        let marker = VersionMarker {
            key: input.key_marker.as_deref().unwrap_or_default(),
            version_id: input.version_id_marker.as_deref().unwrap_or_default(),
        };
        let page = self.store.read(|index| {
            let bucket = index.bucket(&input.bucket)?;
            Ok(page_of_versions(bucket, &input, marker, items_max))
        })?;
        let mut output = ListObjectVersionsOutput {
            is_truncated: Some(page.next.is_some()),
            common_prefixes: Some(common_prefixes(&page.common_prefixes, url)),
            max_keys: Some(items_max.try_into().unwrap_or(i32::MAX)),
            key_marker: Some(encode(marker.key, url)),
            version_id_marker: Some(marker.version_id.to_owned()),
            prefix: input.prefix.as_deref().map(|text| encode(text, url)),
            delimiter: input.delimiter.as_deref().map(|text| encode(text, url)),
            encoding_type: input.encoding_type,
            name: Some(input.bucket),
            ..Default::default()
        };
        if let Some((key, version_id)) = page.next {
            output.next_key_marker = Some(encode(&key, url));
            output.next_version_id_marker = version_id;
        }
        let (versions, markers): (Vec<_>, Vec<_>) =
            page.items.into_iter().partition(|(_, version, _)| version.content.is_some());
        output.versions = Some(versions.iter().map(|found| object_version(found, url)).collect());
        let marker_entry = |(key, version, latest): &Listed| DeleteMarkerEntry {
            is_latest: Some(*latest),
            key: Some(encode(key, url)),
            last_modified: Some(timestamp(version.modified)),
            owner: Some(owner()),
            version_id: Some(version.id.clone()),
        };
        output.delete_markers = Some(markers.iter().map(marker_entry).collect());
        Ok(output)
    }
}

/// Key, version, and whether it is the current one.
type Listed = (String, Arc<Version>, bool);

#[derive(Clone, Copy)]
struct VersionMarker<'a> {
    key: &'a str,
    version_id: &'a str,
}

struct VersionPage {
    items: Vec<Listed>,
    common_prefixes: Vec<String>,
    next: Option<(String, Option<String>)>,
}

/// Keys are paged as in any listing, one key more than asked for; then the versions within them.
fn page_of_versions(
    bucket: &Bucket,
    input: &ListObjectVersionsInput,
    marker: VersionMarker<'_>,
    items_max: usize,
) -> VersionPage {
    let query = Query {
        prefix: input.prefix.as_deref().unwrap_or_default(),
        delimiter: input.delimiter.as_deref().unwrap_or_default(),
        after: marker.key,
        items_max,
        ..Query::default()
    };
    let mut page = VersionPage { items: Vec::new(), common_prefixes: Vec::new(), next: None };
    let newest_first = |key: &str| bucket.keys.get(key).into_iter().flatten().rev();
    // The marker's own key goes on after the marked version.
    let resumed = newest_first(marker.key).skip_while(|v| v.id != marker.version_id).skip(1);
    let mut rest: Vec<Listed> =
        resumed.map(|version| (marker.key.to_owned(), version.clone(), false)).collect();
    let keys = query.page(bucket.keys.keys().map(|key| (key.as_str(), key.clone())));
    for key in &keys.items {
        let listed = |(n, version): (usize, &Arc<Version>)| (key.clone(), version.clone(), n == 0);
        rest.extend(newest_first(key).enumerate().map(listed));
    }
    page.next = keys.next.map(|key| (key, None));
    let room = items_max.saturating_sub(keys.common_prefixes.len());
    page.common_prefixes = keys.common_prefixes;
    if rest.len() > room {
        rest.truncate(room);
        page.next = rest.last().map(|(key, version, _)| (key.clone(), Some(version.id.clone())));
        // A prefix beyond the marker is listed by the page that reaches it.
        let end = rest.last().map_or("", |(key, _, _)| key.as_str()).to_owned();
        page.common_prefixes.retain(|prefix| *prefix <= end);
    }
    page.items = rest;
    page
}

fn object_version((key, version, latest): &Listed, url: bool) -> ObjectVersion {
    let content = version.content.as_ref();
    ObjectVersion {
        e_tag: content.map(|content| etag(&content.etag)),
        is_latest: Some(*latest),
        key: Some(encode(key, url)),
        last_modified: Some(timestamp(version.modified)),
        owner: Some(owner()),
        size: content.map(|content| signed(content.body.len())),
        storage_class: Some(ObjectVersionStorageClass::from_static(
            ObjectVersionStorageClass::STANDARD,
        )),
        version_id: Some(version.id.clone()),
        ..Default::default()
    }
}

fn contents(page: &Page<Found>, url: bool) -> Vec<Object> {
    let object = |(key, version): &Found| {
        let content = version.content.as_ref();
        let algorithms = |content: &Content| {
            let names = content.checksums.algorithms().map(|algorithm| algorithm.name());
            names.map(ChecksumAlgorithm::from_static).collect::<Vec<_>>()
        };
        Object {
            checksum_algorithm: content.map(algorithms).filter(|names| !names.is_empty()),
            e_tag: content.map(|content| etag(&content.etag)),
            key: Some(encode(key, url)),
            last_modified: Some(timestamp(version.modified)),
            size: content.map(|content| signed(content.body.len())),
            storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
            ..Default::default()
        }
    };
    page.items.iter().map(object).collect()
}

pub(super) fn common_prefixes(prefixes: &[String], url: bool) -> Vec<CommonPrefix> {
    let common = |prefix: &String| CommonPrefix { prefix: Some(encode(prefix, url)) };
    prefixes.iter().map(common).collect()
}

fn from_token(token: &str) -> S3Result<String> {
    let decoded = TOKEN.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded
        .ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))
}

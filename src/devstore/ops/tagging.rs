//! Tags of objects.

use super::Operations;
use crate::devstore::conditions::WriteCondition;
use crate::devstore::index::Target;
use percent_encoding::percent_decode_str;
use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};
use std::collections::BTreeSet;

/// The most tags on one object (Amazon S3 user guide, "Categorizing your objects using tags").
const TAGS_MAX: usize = 10;

impl Operations {
    pub(super) async fn get_object_tagging(
        &self,
        request: S3Request<GetObjectTaggingInput>,
    ) -> S3Result<GetObjectTaggingOutput> {
        let input = request.input;
        self.store.read(|index| {
            let bucket = index.bucket(&input.bucket)?;
            let (version, content) = bucket.find(&input.key, input.version_id.as_deref())?;
            let tags = content.attributes.tags.into_iter();
            let tag = |(key, value)| Tag { key: Some(key), value: Some(value) };
            let version_id = bucket.shown_id(&version);
            Ok(GetObjectTaggingOutput { tag_set: tags.map(tag).collect(), version_id })
        })
    }

    pub(super) async fn put_object_tagging(
        &self,
        request: S3Request<PutObjectTaggingInput>,
    ) -> S3Result<PutObjectTaggingOutput> {
        let PutObjectTaggingInput { bucket, key, tagging, version_id, .. } = request.input;
        let pair = |tag: Tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default());
        let tags = check(tagging.tag_set.into_iter().map(pair).collect())?;
        let version_id = self.set_tags(bucket, key, version_id, tags).await?;
        Ok(PutObjectTaggingOutput { version_id })
    }

    pub(super) async fn delete_object_tagging(
        &self,
        request: S3Request<DeleteObjectTaggingInput>,
    ) -> S3Result<DeleteObjectTaggingOutput> {
        let DeleteObjectTaggingInput { bucket, key, version_id, .. } = request.input;
        let version_id = self.set_tags(bucket, key, version_id, Vec::new()).await?;
        Ok(DeleteObjectTaggingOutput { version_id })
    }

    async fn set_tags(
        &self,
        bucket: String,
        key: String,
        version_id: Option<String>,
        tags: Vec<(String, String)>,
    ) -> S3Result<Option<String>> {
        let target = Target { bucket, key, condition: WriteCondition::None, started: u64::MAX };
        self.store
            .write(move |index, store| index.set_tags(store, &target, version_id.as_deref(), tags))
            .await
    }
}

/// The tags of an `x-amz-tagging` header: `k=v&k2=v2`, form-encoded.
pub(super) fn parse_header(header: Option<&str>) -> S3Result<Vec<(String, String)>> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8().map(std::borrow::Cow::into_owned).map_err(|_| {
            s3_error!(InvalidArgument, "The header 'x-amz-tagging' shall be encoded as UTF-8")
        })
    };
    let pairs = header.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let tags = pairs.map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(key)?, decode(value)?))
    });
    check(tags.collect::<S3Result<_>>()?)
}

fn check(tags: Vec<(String, String)>) -> S3Result<Vec<(String, String)>> {
    let keys: BTreeSet<_> = tags.iter().map(|(key, _)| key).collect();
    if tags.len() > TAGS_MAX {
        return Err(s3_error!(InvalidTag, "Object tags cannot be greater than 10"));
    }
    if keys.len() < tags.len() || keys.iter().any(|key| key.is_empty()) {
        return Err(s3_error!(InvalidTag, "Tag keys are unique and not empty"));
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_form_encoded() {
        let tags = parse_header(Some("a=1&b+c=%C3%A9&d")).unwrap();
        let expected = [("a", "1"), ("b c", "é"), ("d", "")];
        assert_eq!(tags, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert!(parse_header(Some("a=1&a=2")).is_err());
        assert!(parse_header(None).unwrap().is_empty());
    }
}

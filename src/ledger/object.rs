//! The ledger in the store itself: a record is an object in the ledger bucket, and conditional
//! PUT is its compare-and-swap.
//!
//! It needs of the store: `If-Match` and `If-None-Match: *` on PUT, atomic, and reads that show
//! the newest write. A start finds out whether it has them before anything depends on it.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_s3::Client;
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{BucketLocationConstraint, CreateBucketConfiguration};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextRef;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::codec::CodecError;
use super::memory::store_time;
use super::{
    Binding, Ledger, LedgerUnavailable, Scope, ScopePage, SwapOutcome, Upload, binding, codec,
};
use crate::clock;
use crate::fence::{Record, RecordVersion, Snapshot, StoreTime};
use crate::s3::{Bucket, EtagQuotes, strip_quotes};
use crate::scope::Extent;

/// The largest record that is read: more than one with ten thousand intents, each on the longest
/// key that there is, every byte of it percent-encoded.
const RECORD_BYTES_MAX: usize = 48 << 20;

/// Where the records of objects are.
const OBJECTS: &str = "scopes";

/// Where the records of prefixes are.
const PREFIXES: &str = "prefixes";

/// How the records are kept.
#[derive(Clone, Debug)]
pub struct ObjectLedgerConfig {
    /// The ledger bucket.
    pub bucket: String,
    /// What every record's key begins with.
    pub prefix: String,
    /// How the store wants ETags.
    pub quotes: EtagQuotes,
    /// The region to create the bucket in.
    pub region: String,
}

/// A ledger in a bucket.
#[derive(Debug)]
pub struct ObjectLedger {
    client: Client,
    config: ObjectLedgerConfig,
}

/// Why the ledger bucket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerBucketError {
    /// It is not there.
    #[error("the ledger bucket {0:?} does not exist")]
    Missing(String),
    /// The store could not be asked, or said no.
    #[error("the ledger bucket {bucket:?} cannot be used: {reason}")]
    Unusable {
        /// Its name.
        bucket: String,
        /// What the store said.
        reason: String,
    },
}

impl ObjectLedger {
    /// A ledger that talks through `client`, which must not retry on its own: a conditional PUT
    /// that landed and is sent again is refused by its own success.
    #[must_use]
    pub fn new(client: Client, config: ObjectLedgerConfig) -> Self {
        Self { client, config }
    }

    /// Checks that the ledger bucket is there, and creates it if told to.
    ///
    /// # Errors
    ///
    /// When it cannot be used.
    pub async fn ensure_bucket(&self, create: bool) -> Result<(), LedgerBucketError> {
        let bucket = &self.config.bucket;
        let unusable =
            |reason: String| LedgerBucketError::Unusable { bucket: bucket.clone(), reason };
        let error = match self.client.head_bucket().bucket(bucket).send().await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        if error.raw_response().map(|response| response.status().as_u16()) != Some(404) {
            return Err(unusable(describe(&error)));
        }
        if !create {
            return Err(LedgerBucketError::Missing(bucket.clone()));
        }
        let mut request = self.client.create_bucket().bucket(bucket);
        // us-east-1 is named by not naming it, on AWS; `auto` is what GCS and R2 sign with.
        if !matches!(self.config.region.as_str(), "us-east-1" | "auto") {
            let location = BucketLocationConstraint::from(self.config.region.as_str());
            let location =
                CreateBucketConfiguration::builder().location_constraint(location).build();
            request = request.create_bucket_configuration(location);
        }
        match request.send().await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some("BucketAlreadyOwnedByYou") => Ok(()),
            Err(error) => Err(unusable(describe(&error))),
        }
    }

    /// The key of a scope's record. The scope's own name can be as long as S3 allows, so it is
    /// hashed; the record says in clear which scope it is of.
    fn object_key(&self, scope: &Scope) -> String {
        let digest = hex::encode(Sha256::digest(scope.bytes()));
        let kind = match scope.extent {
            Extent::Object(_) => OBJECTS,
            Extent::Prefix(_) => PREFIXES,
        };
        format!("{}{kind}/{}/{digest}.json", self.config.prefix, scope.bucket)
    }

    fn binding_key(&self, upload: &Upload) -> String {
        format!("{}uploads/{}/{}.json", self.config.prefix, upload.bucket, upload.digest())
    }

    /// The record, the nonce of its version, and the store's clock.
    async fn fetch(&self, scope: &Scope) -> Result<(Snapshot, Option<u128>), LedgerUnavailable> {
        let unavailable = |reason: &str| LedgerUnavailable(format!("{scope}: {reason}"));
        let fetched = self.fetch_bytes(self.object_key(scope)).await;
        let (bytes, version, time) = fetched.map_err(|error| unavailable(&error.0))?;
        let Some(bytes) = bytes else {
            return Ok((Snapshot { record: None, version, time }, None));
        };
        let (record, nonce) =
            codec::decode(scope, &bytes).map_err(|error| unavailable(&error.to_string()))?;
        Ok((Snapshot { record: Some(record), version, time }, Some(nonce)))
    }

    /// What is stored under a record's key, its version, and the store's clock.
    async fn fetch_bytes(
        &self,
        key: String,
    ) -> Result<(Option<Bytes>, RecordVersion, Option<StoreTime>), LedgerUnavailable> {
        let date = StoreDate::default();
        let answer = self
            .client
            .get_object()
            .bucket(&self.config.bucket)
            .key(key)
            .customize()
            .interceptor(date.clone())
            .send()
            .await;
        let object = match answer {
            Ok(object) => object,
            Err(error) if error.code() == Some("NoSuchKey") => {
                return Ok((None, RecordVersion::Absent, date.get()));
            }
            Err(error) => return Err(LedgerUnavailable(describe(&error))),
        };
        let unavailable = |reason: &str| LedgerUnavailable(reason.to_owned());
        if object.content_length().is_some_and(|length| length > RECORD_BYTES_MAX as i64) {
            return Err(unavailable("its record is too large to be one"));
        }
        let etag = strip_quotes(object.e_tag().unwrap_or_default()).to_owned();
        if etag.is_empty() {
            return Err(unavailable("its record was answered without an ETag"));
        }
        let bytes = object.body.collect().await.map_err(|error| unavailable(&error.to_string()))?;
        Ok((Some(bytes.into_bytes()), RecordVersion::Tag(etag), date.get()))
    }

    /// The keys of some records of one kind, in their order, and whether there may be more.
    async fn record_keys(
        &self,
        kind: &str,
        bucket: Option<&Bucket>,
        after: Option<&str>,
        max: usize,
    ) -> Result<(Vec<String>, bool), LedgerUnavailable> {
        let of_bucket = bucket.map_or_else(String::new, |bucket| format!("{bucket}/"));
        let prefix = format!("{}{kind}/{of_bucket}", self.config.prefix);
        let max = i32::try_from(max).unwrap_or(i32::MAX);
        let listed = self
            .client
            .list_objects_v2()
            .bucket(&self.config.bucket)
            .prefix(prefix)
            .set_start_after(after.map(str::to_owned))
            .max_keys(max)
            .send()
            .await
            .map_err(|error| LedgerUnavailable(describe(&error)))?;
        let keys = listed.contents().iter().filter_map(|object| object.key().map(str::to_owned));
        Ok((keys.collect(), listed.is_truncated() == Some(true)))
    }

    /// Finds out what became of a swap whose answer said nothing.
    async fn resolve(
        &self,
        scope: &Scope,
        base: &RecordVersion,
        nonce: u128,
        reason: String,
    ) -> Result<SwapOutcome, LedgerUnavailable> {
        let (found, found_nonce) = self.fetch(scope).await?;
        if found_nonce == Some(nonce) {
            return Ok(SwapOutcome::Swapped(found.version));
        }
        if found.version == *base {
            // It may still be on its way.
            return Err(LedgerUnavailable(reason));
        }
        // Its base is gone, and versions never come back.
        Ok(SwapOutcome::Lost)
    }
}

#[async_trait::async_trait]
impl Ledger for ObjectLedger {
    async fn load(&self, scope: &Scope) -> Result<Snapshot, LedgerUnavailable> {
        self.fetch(scope).await.map(|(snapshot, _)| snapshot)
    }

    async fn swap(
        &self,
        scope: &Scope,
        base: &RecordVersion,
        next: &Record,
    ) -> Result<SwapOutcome, LedgerUnavailable> {
        let nonce = clock::random_u128();
        let request = self
            .client
            .put_object()
            .bucket(&self.config.bucket)
            .key(self.object_key(scope))
            .content_type("application/json")
            .body(ByteStream::from(codec::encode(scope, next, nonce)));
        let request = match base {
            RecordVersion::Absent => request.if_none_match("*"),
            RecordVersion::Tag(etag) => request.if_match(self.config.quotes.write(etag)),
        };
        let error = match request.send().await {
            Ok(answer) => match answer.e_tag().map(strip_quotes) {
                Some(etag) if !etag.is_empty() => {
                    return Ok(SwapOutcome::Swapped(RecordVersion::Tag(etag.to_owned())));
                }
                Some(_) | None => {
                    let reason = "the store answered a PUT without an ETag".to_owned();
                    return self.resolve(scope, base, nonce, reason).await;
                }
            },
            Err(error) => error,
        };
        match (error.raw_response().map(|response| response.status().as_u16()), error.code()) {
            // 412: the record has another version. 409: it is being changed by another writer.
            // 404: AWS's answer to If-Match on a key that is not there.
            // 429: it has been changed a moment ago. Google and R2 take one change a second of a key,
            // more or less, and whoever loses a race comes again after a pause.
            (Some(412 | 429), _)
            | (Some(409), Some("ConditionalRequestConflict"))
            | (Some(404), Some("NoSuchKey")) => Ok(SwapOutcome::Lost),
            (Some(400..=499), _) => Err(LedgerUnavailable(describe(&error))),
            // No answer, or one that says nothing: a store may well answer 500 to the losers of a
            // race (Ceph does).
            (_, _) => self.resolve(scope, base, nonce, describe(&error)).await,
        }
    }

    async fn scopes(
        &self,
        bucket: Option<&Bucket>,
        after: Option<&str>,
        max: usize,
    ) -> Result<ScopePage, LedgerUnavailable> {
        let mut page = ScopePage { scopes: Vec::new(), next: None };
        let mut last = None;
        // In the order of their names, so that one `after` says where both listings go on.
        for kind in [PREFIXES, OBJECTS] {
            let room = max.saturating_sub(page.scopes.len());
            if room == 0 {
                page.next = last;
                break;
            }
            let (keys, more) = self.record_keys(kind, bucket, after, room).await?;
            for key in keys {
                let (bytes, version, time) = self.fetch_bytes(key.clone()).await?;
                // One that has gone since it was listed is none.
                let Some(bytes) = bytes else { continue };
                let unreadable = |error: CodecError| LedgerUnavailable(format!("{key:?}: {error}"));
                let scope = codec::scope_of(&bytes).map_err(unreadable)?;
                let (record, _) = codec::decode(&scope, &bytes).map_err(unreadable)?;
                page.scopes.push((scope, Snapshot { record: Some(record), version, time }));
                last = Some(key);
            }
            if more {
                page.next = last;
                break;
            }
        }
        Ok(page)
    }

    async fn bind(&self, upload: &Upload, binding: &Binding) -> Result<(), LedgerUnavailable> {
        self.client
            .put_object()
            .bucket(&self.config.bucket)
            .key(self.binding_key(upload))
            .content_type("application/json")
            .body(ByteStream::from(binding::encode(upload, binding)))
            .send()
            .await
            .map(drop)
            .map_err(|error| LedgerUnavailable(describe(&error)))
    }

    async fn binding(&self, upload: &Upload) -> Result<Option<Binding>, LedgerUnavailable> {
        let (bucket, key) = (&self.config.bucket, self.binding_key(upload));
        let object = match self.client.get_object().bucket(bucket).key(key).send().await {
            Ok(object) => object,
            Err(error) if error.code() == Some("NoSuchKey") => return Ok(None),
            Err(error) => return Err(LedgerUnavailable(describe(&error))),
        };
        let unavailable = |reason: String| LedgerUnavailable(format!("an upload: {reason}"));
        if object.content_length().is_some_and(|length| length > RECORD_BYTES_MAX as i64) {
            return Err(unavailable("its binding is too large to be one".into()));
        }
        let bytes = object.body.collect().await.map_err(|error| unavailable(error.to_string()))?;
        binding::decode(upload, &bytes.into_bytes())
            .map(Some)
            .map_err(|error| unavailable(error.to_string()))
    }

    async fn unbind(&self, upload: &Upload) -> Result<(), LedgerUnavailable> {
        self.client
            .delete_object()
            .bucket(&self.config.bucket)
            .key(self.binding_key(upload))
            .send()
            .await
            .map(drop)
            // Google's answer to a DELETE of what is not there.
            .or_else(|error| match error.code() {
                Some("NoSuchKey") => Ok(()),
                Some(_) | None => Err(LedgerUnavailable(describe(&error))),
            })
    }
}

/// Reads the store's clock off its answers (F9).
#[derive(Clone, Debug, Default)]
struct StoreDate(Arc<Mutex<Option<StoreTime>>>);

impl StoreDate {
    fn get(&self) -> Option<StoreTime> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intercept for StoreDate {
    fn name(&self) -> &'static str {
        "StoreDate"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        let time = date.and_then(|date| httpdate::parse_http_date(date).ok()).map(store_time);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = time;
        Ok(())
    }
}

/// The whole chain of causes on one line.
fn describe<E: std::error::Error + 'static>(error: &SdkError<E, HttpResponse>) -> String {
    DisplayErrorContext(error).to_string()
}

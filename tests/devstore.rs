//! The embedded store, from outside: the S3 client that users have, and raw HTTP where a client is
//! too polite.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "devstore/conditions.rs"]
mod conditions;
#[path = "devstore/disk.rs"]
mod disk;
#[path = "devstore/faults.rs"]
mod faults;
#[path = "devstore/gcs.rs"]
mod gcs;
#[path = "devstore/goog4.rs"]
mod goog4;
#[path = "devstore/integrity.rs"]
mod integrity;
#[path = "devstore/interleaving.rs"]
mod interleaving;
#[path = "devstore/objects.rs"]
mod objects;
#[path = "devstore/operations.rs"]
mod operations;
#[path = "devstore/profiles.rs"]
mod profiles;
#[path = "devstore/races.rs"]
mod races;
#[path = "devstore/raw.rs"]
mod raw;

use aws_credential_types::Credentials;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Region};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use fencepost::devstore::{DevStore, Profile, RunningStore};
use std::fmt::Debug;
use std::time::Duration;

const BUCKET: &str = "bucket";

/// A client that tries once. The region is none that exists: any is accepted.
fn client(running: &RunningStore) -> Client {
    let store = running.store();
    let keys = (store.access_key_id(), store.secret_access_key());
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-north-7"))
        .credentials_provider(Credentials::new(keys.0, keys.1, None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .retry_config(RetryConfig::disabled())
        .endpoint_url(running.endpoint())
        .force_path_style(true);
    Client::from_conf(config.build())
}

async fn start(profile: Profile) -> (RunningStore, Client) {
    // As fast as the test likes.
    let store = DevStore::builder().profile(profile).history(true).write_interval(Duration::ZERO);
    let running = store.build().unwrap().start().await.unwrap();
    running.store().create_bucket(BUCKET).await.unwrap();
    let client = client(&running);
    (running, client)
}

/// Puts an object and returns its entity tag as answered, quotes included.
async fn put(client: &Client, key: &str, body: &'static str) -> String {
    let body = ByteStream::from_static(body.as_bytes());
    let answer = client.put_object().bucket(BUCKET).key(key).body(body).send().await.unwrap();
    answer.e_tag().unwrap().to_owned()
}

async fn get(client: &Client, key: &str) -> Option<String> {
    let answer = client.get_object().bucket(BUCKET).key(key).send().await.ok()?;
    Some(String::from_utf8(answer.body.collect().await.ok()?.to_vec()).unwrap())
}

/// What an answer comes to: `ok`, status and S3 code, or `cut` when there was none.
fn outcome<T, E: ProvideErrorMetadata + Debug>(result: Result<T, SdkError<E>>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(SdkError::ServiceError(error)) => {
            let status = error.raw().status().as_u16();
            format!("{status} {}", error.err().code().unwrap_or_default())
        }
        Err(SdkError::DispatchFailure(_) | SdkError::ResponseError(_)) => "cut".to_owned(),
        Err(other) => panic!("not an answer: {other:?}"),
    }
}

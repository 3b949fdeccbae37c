//! The embedded store, from outside: the S3 client that users have, and raw HTTP where a client is
//! too polite.

#![cfg(feature = "embedded-store")]

use aws_credential_types::Credentials;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{BehaviorVersion, Region};
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use fencepost::devstore::{DevStore, Profile, RunningStore};

const BUCKET: &str = "bucket";

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
    let running = DevStore::start_for_test(profile).await.unwrap();
    running.store().create_bucket(BUCKET).await.unwrap();
    let client = client(&running);
    (running, client)
}

/// What an answer comes to: `200`, or status and S3 code.
fn outcome<T, E: ProvideErrorMetadata>(result: Result<T, SdkError<E>>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(SdkError::ServiceError(error)) => {
            let status = error.raw().status().as_u16();
            format!("{status} {}", error.err().code().unwrap_or_default())
        }
        Err(SdkError::DispatchFailure(_) | SdkError::ResponseError(_)) => "cut".to_owned(),
        Err(_) => "other".to_owned(),
    }
}

#[tokio::test]
async fn put_get_head_list_delete() {
    let (running, client) = start(Profile::Aws).await;
    let put = client.put_object().bucket(BUCKET).key("a/b").metadata("token", "42");
    let put = put.content_type("text/x").body(ByteStream::from_static(b"hello")).send().await;
    assert_eq!(put.unwrap().e_tag(), Some("\"5d41402abc4b2a76b9719d911017c592\""));
    let got = client.get_object().bucket(BUCKET).key("a/b").range("bytes=-3").send().await.unwrap();
    assert_eq!(got.content_range(), Some("bytes 2-4/5"));
    assert_eq!(got.body.collect().await.unwrap().to_vec(), b"llo");
    let head = client.head_object().bucket(BUCKET).key("a/b").send().await.unwrap();
    assert_eq!(head.content_type(), Some("text/x"));
    assert_eq!(head.metadata().unwrap()["token"], "42");
    let list = client.list_objects_v2().bucket(BUCKET).prefix("a/").send().await.unwrap();
    assert_eq!(list.contents()[0].key(), Some("a/b"));
    let absent = client.put_object().bucket(BUCKET).key("a/b").if_none_match("*").send().await;
    assert_eq!(outcome(absent), "412 PreconditionFailed");
    assert_eq!(outcome(client.delete_object().bucket(BUCKET).key("a/b").send().await), "ok");
    let gone = client.get_object().bucket(BUCKET).key("a/b").send().await;
    assert_eq!(outcome(gone), "404 NoSuchKey");
    let history = running.store().history();
    assert_eq!(history.len(), 2);
    running.shutdown().await;
}

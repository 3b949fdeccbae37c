//! A store in a directory: it survives a restart and `kill -9`, and has the directory to itself.

use crate::{BUCKET, client, get, outcome, put};
use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{
    BucketVersioningStatus, CompletedMultipartUpload, CompletedPart, VersioningConfiguration,
};
use fencepost::devstore::{DevStore, Profile, RunningStore};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

async fn open(directory: &Path) -> (RunningStore, Client) {
    let running = DevStore::builder().data_dir(directory).build().unwrap().start().await.unwrap();
    running.store().create_bucket(BUCKET).await.unwrap();
    let client = client(&running);
    (running, client)
}

fn blobs(directory: &Path) -> usize {
    std::fs::read_dir(directory.join("blobs")).unwrap().count()
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (running, client) = open(directory.path()).await;
    let put_a = client.put_object().bucket(BUCKET).key("a//b/../é").metadata("token", "42");
    let put_a = put_a.content_type("text/x").body(ByteStream::from_static(b"hello"));
    let tag = put_a.send().await.unwrap().e_tag().unwrap().to_owned();
    put(&client, "gone", "x").await;
    client.delete_object().bucket(BUCKET).key("gone").send().await.unwrap();
    let enabled = VersioningConfiguration::builder().status(BucketVersioningStatus::Enabled);
    let enable = client.put_bucket_versioning().bucket(BUCKET);
    enable.versioning_configuration(enabled.build()).send().await.unwrap();
    put(&client, "v", "first").await;
    put(&client, "v", "second").await;
    let copy = client.copy_object().bucket(BUCKET).key("copy");
    copy.copy_source(format!("{BUCKET}/v")).send().await.unwrap();
    let create = client.create_multipart_upload().bucket(BUCKET).key("m").send().await.unwrap();
    let id = create.upload_id().unwrap();
    let part = client.upload_part().bucket(BUCKET).key("m").upload_id(id).part_number(1);
    let part = part.body(ByteStream::from_static(b"part")).send().await.unwrap();
    running.shutdown().await;

    let (running, client) = open(directory.path()).await;
    let got = client.get_object().bucket(BUCKET).key("a//b/../é").send().await.unwrap();
    assert_eq!(got.e_tag(), Some(tag.as_str()));
    assert_eq!(got.content_type(), Some("text/x"));
    assert_eq!(got.metadata().unwrap()["token"], "42");
    assert_eq!(got.body.collect().await.unwrap().to_vec(), b"hello");
    assert_eq!(get(&client, "gone").await, None);
    assert_eq!(get(&client, "copy").await.as_deref(), Some("second"));
    let versions = client.list_object_versions().bucket(BUCKET).prefix("v").send().await.unwrap();
    assert_eq!(versions.versions().len(), 2);
    let part = CompletedPart::builder().part_number(1).e_tag(part.e_tag().unwrap()).build();
    let parts = CompletedMultipartUpload::builder().parts(part).build();
    let complete = client.complete_multipart_upload().bucket(BUCKET).key("m").upload_id(id);
    let complete = complete.multipart_upload(parts).if_none_match("*");
    assert_eq!(outcome(complete.send().await), "ok");
    assert_eq!(get(&client, "m").await.as_deref(), Some("part"));
    assert_eq!(blobs(directory.path()), 4, "hello, first, second (shared), part");
    let stale = client.put_object().bucket(BUCKET).key("m").if_none_match("*").send().await;
    assert_eq!(outcome(stale), "412 PreconditionFailed");
    running.shutdown().await;
}

#[tokio::test]
async fn what_is_replaced_leaves_no_file_behind() {
    let directory = tempfile::tempdir().unwrap();
    let (running, client) = open(directory.path()).await;
    for body in ["one", "two", "three"] {
        put(&client, "k", body).await;
    }
    let refused = client.put_object().bucket(BUCKET).key("k").if_none_match("*");
    let refused = refused.body(ByteStream::from_static(b"refused")).send().await;
    assert_eq!(outcome(refused), "412 PreconditionFailed");
    assert_eq!(blobs(directory.path()), 1);
    assert_eq!(get(&client, "k").await.as_deref(), Some("three"));
    client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(blobs(directory.path()), 0);
    running.shutdown().await;
}

#[tokio::test]
async fn a_directory_has_one_store() {
    let directory = tempfile::tempdir().unwrap();
    let (running, _client) = open(directory.path()).await;
    let second = DevStore::builder().data_dir(directory.path()).build();
    assert!(second.unwrap_err().to_string().contains("in use by another store"));
    running.shutdown().await;
    let (running, _client) = open(directory.path()).await;
    running.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_atomic_on_disk_too() {
    let directory = tempfile::tempdir().unwrap();
    let (running, client) = open(directory.path()).await;
    let write = |n: usize| {
        let request = client.put_object().bucket(BUCKET).key("k").if_none_match("*");
        request.body(ByteStream::from(n.to_string().into_bytes())).send()
    };
    let outcomes = futures_util::future::join_all((0..12).map(write)).await;
    assert_eq!(outcomes.into_iter().filter(Result::is_ok).count(), 1);
    running.shutdown().await;
}

/// Set for the process that [`acknowledged_writes_survive_kill_minus_nine`] starts.
const DIRECTORY: &str = "FENCEPOST_TEST_DEVSTORE_DIRECTORY";

#[tokio::test]
#[ignore = "the process that acknowledged_writes_survive_kill_minus_nine kills; not a test"]
async fn killed_process() {
    #[expect(clippy::disallowed_methods, reason = "how a test speaks to its own child")]
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        println!("nothing to do: started without {DIRECTORY}");
        return;
    };
    let (running, _client) = open(Path::new(&directory)).await;
    println!("listening on {}", running.endpoint());
    std::future::pending::<()>().await;
}

/// Kills the child whatever happens to the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn child(directory: &Path) -> (Killed, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "disk::killed_process", "--nocapture"]);
    command.env(DIRECTORY, directory).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut endpoints = lines
        .map_while(Result::ok)
        .filter_map(|l| Some(l.split_once("listening on ")?.1.to_owned()));
    let endpoint = endpoints.next().expect("the child says where it listens");
    (Killed(child), endpoint)
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_kill_minus_nine() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = [None; 4];
    for round in 0..3_usize {
        let (process, endpoint) = child(directory.path());
        let config = client(&DevStore::start_for_test(Profile::Aws).await.unwrap());
        let config = config.config().to_builder().endpoint_url(endpoint).build();
        let client = Client::from_conf(config);
        // Writers go on until the store is gone; the last write of each may or may not be there.
        let writers = (0..acknowledged.len()).map(|writer| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut last = None;
                for n in round * 100_000.. {
                    let body = format!("{n} ").repeat(2000);
                    let put = client.put_object().bucket(BUCKET).key(format!("w{writer}"));
                    let put = put.metadata("n", n.to_string()).body(body.into_bytes().into());
                    if put.send().await.is_err() {
                        break;
                    }
                    last = Some(n);
                }
                last
            })
        });
        let writers: Vec<_> = writers.collect();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        drop(process);
        for (writer, last) in writers.into_iter().enumerate() {
            acknowledged[writer] = last.await.unwrap().or(acknowledged[writer]);
        }
        assert!(acknowledged.iter().any(Option::is_some), "nothing was written before the kill");

        let store = DevStore::builder().data_dir(directory.path()).build().unwrap();
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let object = store.object(BUCKET, &format!("w{writer}")).await.unwrap();
            let Some(acknowledged) = acknowledged else { continue };
            let object = object.expect("an acknowledged write is there");
            let n: usize = object.metadata["n"].parse().unwrap();
            assert!(n >= *acknowledged, "{n} is older than {acknowledged}");
            assert_eq!(object.body, format!("{n} ").repeat(2000), "body and metadata agree");
        }
        assert!(blobs(directory.path()) <= acknowledged.len(), "unfinished bodies are removed");
    }
}

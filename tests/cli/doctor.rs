//! `fencepost doctor`, by the real binary, against the embedded store.

use fencepost::devstore::{DevStore, Profile, RunningStore};
use fencepost::doctor::report::{Depth, Report};

use crate::{bare, ended};

async fn store(profile: Profile) -> RunningStore {
    let running = DevStore::builder().profile(profile).build().unwrap().start().await.unwrap();
    for bucket in ["data", "fencepost-ledger"] {
        running.store().create_bucket(bucket).await.unwrap();
    }
    running
}

/// Exit code, standard output, standard error.
async fn doctor(
    store: &RunningStore,
    bucket: &str,
    more: &[&str],
) -> (Option<i32>, String, String) {
    let endpoint = store.endpoint();
    let arguments = [&["doctor", "--quick", "--backend", &endpoint, "--bucket", bucket], more];
    let mut command = bare(&arguments.concat());
    command
        .env("AWS_ACCESS_KEY_ID", store.store().access_key_id())
        .env("AWS_SECRET_ACCESS_KEY", store.store().secret_access_key());
    tokio::task::spawn_blocking(move || ended(&mut command)).await.unwrap()
}

#[tokio::test]
async fn the_exit_code_says_whether_a_fence_is_safe() {
    let aws = store(Profile::Aws).await;
    let (code, shown, wrong) = doctor(&aws, "data", &[]).await;
    assert_eq!((code, wrong.as_str()), (Some(0), ""), "{shown}");
    assert!(shown.ends_with("A fence on this store is safe.\n"), "{shown}");
    assert!(shown.contains("\nPutObject                conditional  "), "{shown}");
    let liar = store(Profile::Liar).await;
    let (code, shown, _) = doctor(&liar, "data", &[]).await;
    assert_eq!(code, Some(1), "{shown}");
    let last = shown.lines().last().unwrap();
    assert!(
        last.starts_with("A fence on this store is NOT safe. PutObject: put.create.taken fails")
    );
}

#[tokio::test]
async fn what_is_for_programs_is_json_and_what_is_kept_is_said() {
    let aws = store(Profile::Aws).await;
    let (code, json, wrong) = doctor(&aws, "data", &["--json", "--save"]).await;
    assert_eq!(code, Some(0), "{wrong}");
    let report: Report = serde_json::from_str(&json).unwrap();
    assert_eq!((report.safe, report.depth), (true, Depth::Quick));
    assert!(wrong.contains("kept in fencepost-ledger"), "{wrong}");
    let kept = aws.store().object("fencepost-ledger", "examinations.json").await.unwrap().unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept.body).unwrap();
    assert_eq!(kept["quick"], serde_json::from_str::<serde_json::Value>(&json).unwrap());
}

#[tokio::test]
async fn what_cannot_be_tried_has_codes_of_its_own() {
    let aws = store(Profile::Aws).await;
    let (code, shown, wrong) = doctor(&aws, "elsewhere", &[]).await;
    assert_eq!((code, shown.as_str()), (Some(69), ""), "{wrong}");
    assert!(wrong.contains("there is no bucket \"elsewhere\""), "{wrong}");
    let (code, _, wrong) = doctor(&aws, "data", &["--writers", "1"]).await;
    assert_eq!(code, Some(2), "{wrong}");
    let endpoint = aws.endpoint();
    let mut command = bare(&["doctor", "--backend", &endpoint, "--bucket", "data"]);
    command.env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", "wrong");
    let (code, _, wrong) = tokio::task::spawn_blocking(move || ended(&mut command)).await.unwrap();
    assert_eq!(code, Some(77), "{wrong}");
    let stopped = store(Profile::Aws).await;
    let address = stopped.endpoint();
    stopped.shutdown().await;
    let mut command = bare(&["doctor", "--backend", &address, "--bucket", "data"]);
    command.env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", "wrong");
    let (code, _, wrong) = tokio::task::spawn_blocking(move || ended(&mut command)).await.unwrap();
    assert_eq!(code, Some(69), "{wrong}");
}

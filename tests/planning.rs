//! What a start finds out about a store: which it plans how, and what it says of the others.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod support;

use fencepost::devstore::{DevStore, Effect, Profile, Rule};
use fencepost::fence::Rules;
use fencepost::server::{PlanError, StartError};
use support::{Backend, LEDGER};

/// Where what was found is kept.
const KEPT: &str = "examinations.json";

/// The same, where the ledger has a prefix.
const KEPT_BELOW_PREFIX: &str = "fences/examinations.json";

/// What the proxy says when it does not start.
async fn refusal(backend: &Backend, settings: &str) -> StartError {
    match backend.try_proxy(settings, Rules::ALL).await {
        Ok(_) => panic!("the proxy must not start"),
        Err(error) => error,
    }
}

async fn objects_in_the_ledger(backend: &Backend) -> Vec<String> {
    let listed = backend.sdk(None).list_objects_v2().bucket(&backend.ledger).send().await;
    let listed = listed.unwrap();
    listed.contents().iter().map(|object| object.key().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn stores_that_enforce_conditions_are_accepted() {
    for (profile, delete) in [
        (Profile::Aws, "conditional"),
        (Profile::AwsKms, "conditional"),
        (Profile::Minio, "exclusive"),
    ] {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy("").await;
        let (status, ready) = proxy.admin("/readyz").await;
        let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
        assert_eq!((status, &ready["ready"]), (200, &true.into()), "{profile}: {ready}");
        let findings = &ready["probe"]["findings"];
        assert_eq!(findings["put"], "conditional", "{profile}");
        assert_eq!(findings["delete"], delete, "{profile}");
        assert_eq!(findings["etags"], "quoted", "{profile}");
        // It drops a leading one.
        let slashes = if profile == Profile::Minio { "merged" } else { "kept" };
        assert_eq!(findings["slashes"], slashes, "{profile}");
        assert_eq!(objects_in_the_ledger(&backend).await, [KEPT], "{profile}");
        let outside = |bucket: &str| bucket != LEDGER;
        let touched = backend.store().history().iter().any(|change| outside(&change.bucket));
        assert!(!touched, "{profile}: the probe must stay in the ledger bucket");
    }
}

#[tokio::test]
async fn a_store_that_ignores_conditions_is_refused_by_the_operations_name() {
    let backend = Backend::embedded(Profile::Liar).await;
    let error = refusal(&backend, "").await;
    assert!(matches!(error, StartError::Plan(PlanError::Unsound(_))), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("PutObject: put.create.taken fails: 200, the object was overwritten"),
        "{text}"
    );
    assert_eq!(objects_in_the_ledger(&backend).await, Vec::<String>::new());
}

/// It looks at the condition when the body is there and acts a moment later; two requests that
/// arrive together both win. What the probe can see is that an overtaken body still lands.
#[tokio::test]
async fn a_store_that_looks_before_it_acts_is_refused_by_the_operations_name() {
    let backend = Backend::embedded(Profile::Racy).await;
    let error = refusal(&backend, "").await;
    assert!(matches!(error, StartError::Plan(PlanError::Unsound(_))), "{error}");
    let text = error.to_string();
    let races = ["overtaken: 200, overtaking: 200", "several winners"];
    assert!(races.iter().any(|race| text.contains(race)), "{text}");
    assert_eq!(objects_in_the_ledger(&backend).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_setting_that_the_store_contradicts_is_an_error() {
    let backend = Backend::embedded(Profile::Minio).await;
    let error = refusal(&backend, "[backend]\nconditional_delete = \"conditional\"\n").await;
    assert!(matches!(error, StartError::Plan(PlanError::Contradicted { .. })), "{error}");
    assert!(error.to_string().contains("backend.conditional_delete"), "{error}");
    // What was found is right all the same.
    assert_eq!(objects_in_the_ledger(&backend).await, [KEPT]);
}

#[tokio::test]
async fn what_is_stricter_than_the_store_is_taken_at_its_word() {
    let backend = Backend::embedded(Profile::Aws).await;
    let settings = "[backend]\nconditional_delete = \"exclusive\"\netag_quotes = \"bare\"\n";
    let proxy = backend.proxy(settings).await;
    let (_, ready) = proxy.admin("/readyz").await;
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    assert_eq!(ready["probe"]["findings"]["delete"], "exclusive");
    assert_eq!(ready["probe"]["findings"]["etags"], "bare");
}

#[tokio::test]
async fn a_store_that_fails_meanwhile_is_not_called_unsound() {
    let backend = Backend::built(
        DevStore::builder()
            .fault(Rule::new(Effect::Status(500, "InternalError")).key_prefix("doctor/")),
    )
    .await;
    let error = refusal(&backend, "").await;
    assert!(matches!(error, StartError::Plan(PlanError::Unclear(_))), "{error}");
    assert_eq!(objects_in_the_ledger(&backend).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_probe_works_under_the_ledgers_own_prefix() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy("[ledger]\nprefix = \"fences/\"\n").await;
    let history = backend.store().history();
    assert!(!history.is_empty());
    for change in history {
        // One key begins with a slash, to see whether the store folds it.
        let key = change.key.strip_prefix('/').unwrap_or(&change.key);
        let expected = key.starts_with("fences/doctor/") || key == KEPT_BELOW_PREFIX;
        assert!(expected, "{}", change.key);
    }
    drop(proxy);
}

#[tokio::test]
async fn a_missing_ledger_bucket_is_an_error_that_says_what_to_do() {
    let backend = Backend::embedded(Profile::Aws).await;
    let elsewhere = "[ledger]\nbucket = \"elsewhere\"\n";
    let error = refusal(&backend.with_ledger("elsewhere"), elsewhere).await;
    assert!(matches!(error, StartError::LedgerMissing { .. }), "{error}");
    assert!(error.to_string().contains("--create-ledger"), "{error}");
    let backend = backend.with_ledger("elsewhere");
    let proxy = backend.proxy("[ledger]\nbucket = \"elsewhere\"\ncreate = true\n").await;
    drop(proxy);
    assert_eq!(objects_in_the_ledger(&backend).await, [KEPT]);
}

#[tokio::test]
async fn seaweedfs_is_accepted() {
    let Some(backend) = Backend::seaweedfs().await else { return };
    let proxy = backend.proxy("").await;
    let (status, ready) = proxy.admin("/readyz").await;
    assert_eq!(status, 200, "{ready}");
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    assert_eq!(ready["probe"]["findings"]["delete"], "conditional");
    assert_eq!(ready["probe"]["findings"]["slashes"], "merged");
    assert_eq!(objects_in_the_ledger(&backend).await, [KEPT]);
}

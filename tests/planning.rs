//! What a start finds out about a store: which it plans how, and what it says of the others.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod support;

use fencepost::devstore::{DevStore, Effect, Profile, Rule};
use fencepost::doctor::Versioned;
use fencepost::doctor::report::{Depth, Report};
use fencepost::fence::Rules;
use fencepost::server::examine::Options;
use fencepost::server::{PlanError, StartError};
use http::Method;
use std::time::Duration;
use support::{Backend, LEDGER, soon};

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
    backend.objects_in(&backend.ledger).await
}

#[tokio::test]
async fn stores_that_enforce_conditions_are_accepted() {
    for (profile, delete) in [
        (Profile::Aws, "conditional"),
        (Profile::AwsKms, "conditional"),
        (Profile::Minio, "exclusive"),
    ] {
        let backend = Backend::embedded(profile).await.looking();
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
    let backend = Backend::embedded(Profile::Liar).await.looking();
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
    let backend = Backend::embedded(Profile::Racy).await.looking();
    let error = refusal(&backend, "").await;
    assert!(matches!(error, StartError::Plan(PlanError::Unsound(_))), "{error}");
    let text = error.to_string();
    let races = ["overtaken: 200, overtaking: 200", "several winners"];
    assert!(races.iter().any(|race| text.contains(race)), "{text}");
    assert_eq!(objects_in_the_ledger(&backend).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_setting_that_the_store_contradicts_is_an_error() {
    let backend = Backend::embedded(Profile::Minio).await.looking();
    let error = refusal(&backend, "[backend]\nconditional_delete = \"conditional\"\n").await;
    assert!(matches!(error, StartError::Plan(PlanError::Contradicted { .. })), "{error}");
    assert!(error.to_string().contains("backend.conditional_delete"), "{error}");
    // What was found is right all the same.
    assert_eq!(objects_in_the_ledger(&backend).await, [KEPT]);
}

#[tokio::test]
async fn what_is_stricter_than_the_store_is_taken_at_its_word() {
    let backend = Backend::embedded(Profile::Aws).await.looking();
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
    let backend = Backend::embedded(Profile::Aws).await.looking();
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
    let backend = Backend::embedded(Profile::Aws).await.looking();
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

/// Switches versioning on in the data bucket.
async fn keep_versions(backend: &Backend) {
    let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    let target = format!("/{}?versioning", backend.bucket);
    let answer = backend.direct().send(Method::PUT, &target, on).await;
    assert_eq!(answer.short(), "200");
}

/// A full examination, with a bucket that keeps versions.
async fn examined(backend: &Backend) -> Report {
    let options = Options {
        bucket: backend.bucket.clone(),
        depth: Depth::Full,
        writers: 3,
        rounds: 2,
        versioned: Versioned::Scratch,
        time_max: Duration::from_secs(60),
    };
    backend.examine("", options).await.unwrap()
}

#[tokio::test]
async fn what_was_found_is_kept_and_good_for_a_day() {
    let backend = Backend::embedded(Profile::Aws).await.looking();
    drop(backend.proxy("").await);
    let tried = |backend: &Backend| {
        let history = backend.store().history();
        history.iter().filter(|change| change.key.contains("doctor/")).count()
    };
    let once = tried(&backend);
    assert!(once > 0);
    let proxy = backend.proxy("").await;
    assert_eq!(tried(&backend), once, "the second start goes by what is kept");
    let (_, ready) = proxy.admin("/readyz").await;
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    assert_eq!(ready["probe"]["findings"]["put"], "conditional", "{ready}");
    let when = proxy.counter("fencepost_backend_examined_timestamp_seconds", "").await;
    assert!(when > 1_700_000_000, "{when}");
    // What cannot be read is as good as nothing.
    let key = KEPT;
    let direct = backend.direct();
    let target = format!("/{}/{key}", backend.ledger);
    assert_eq!(direct.send(Method::PUT, &target, "no json").await.short(), "200");
    drop(backend.proxy("").await);
    assert!(tried(&backend) > once, "it is examined anew");
}

#[tokio::test]
async fn complete_and_copy_are_conditional_by_a_full_examination_alone() {
    let backend = Backend::embedded(Profile::Aws).await.looking();
    let findings = async |backend: &Backend| {
        let proxy = backend.proxy("").await;
        let (_, ready) = proxy.admin("/readyz").await;
        let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
        ready["probe"]["findings"].clone()
    };
    let before = findings(&backend).await;
    assert_eq!((&before["complete"], &before["copy"]), (&"exclusive".into(), &"exclusive".into()));
    backend.keep(&examined(&backend).await).await;
    let after = findings(&backend).await;
    let conditional = serde_json::Value::from("conditional");
    assert_eq!((&after["complete"], &after["copy"]), (&conditional, &conditional));
    assert_eq!(after["with_versions"], "put conditional, delete conditional");
}

/// SeaweedFS 4.48 lets a PUT that expects the state before land on a DELETE where versions are kept.
#[tokio::test]
async fn where_versions_are_kept_nothing_but_put_is_fenced_until_it_was_examined() {
    let backend = Backend::embedded(Profile::Aws).await.looking();
    keep_versions(&backend).await;
    let proxy = backend.proxy("").await;
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
    let refused = proxy.token(7).delete("k").await;
    assert_eq!(refused.short(), "501 FenceUnsupportedOperation");
    let message = refused.element("Message").unwrap();
    assert!(message.contains("fencepost doctor --versioned-bucket"), "{message}");
    assert_eq!(backend.objects().await, ["k"], "the bucket's own trial leaves nothing");
    drop(proxy);
    let trusting = backend.proxy("[backend]\nunsafe_trust_backend = [\"versions\"]\n").await;
    assert_eq!(trusting.token(7).delete("k").await.short(), "204");
    let (_, ready) = trusting.admin("/readyz").await;
    let ready: serde_json::Value = serde_json::from_str(&ready).unwrap();
    assert_eq!(ready["unsafe_trust"], serde_json::json!(["versions"]));
    assert_eq!(trusting.counter("fencepost_unsafe_trust", "what=\"versions\"").await, 1);
    drop(trusting);
    backend.keep(&examined(&backend).await).await;
    let proxy = backend.proxy("").await;
    assert_eq!(proxy.token(7).put("k", "two").await.short(), "200");
    assert_eq!(proxy.token(7).delete("k").await.short(), "204");
    assert_eq!(proxy.token(6).put("k", "late").await.short(), "409 StaleFenceToken");
}

/// Ceph RGW 16 ignores `If-None-Match: *` where versions are kept.
#[tokio::test]
async fn a_bucket_in_which_conditions_do_not_hold_is_refused() {
    let backend = Backend::embedded(Profile::Ceph).await.looking();
    let settings = "[backend]\nchecksum_trailers = \"drop\"\n";
    let proxy = backend.proxy(settings).await;
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
    drop(proxy);
    keep_versions(&backend).await;
    let proxy = backend.proxy(settings).await;
    let refused = proxy.token(8).put("k", "two").await;
    assert_eq!(refused.short(), "501 FenceUnsupportedBucket");
    let message = refused.element("Message").unwrap();
    assert!(message.contains("PutObject with If-None-Match: *"), "{message}");
    assert_eq!(backend.bytes("k").await.unwrap(), b"one", "nothing was changed");
}

/// Whatever the store says in place of an answer, the bucket is not taken for one without versions.
#[tokio::test]
async fn a_bucket_that_does_not_say_whether_it_keeps_versions_is_tried() {
    let settings = "[backend]\nchecksum_trailers = \"drop\"\n";
    let no_answers = [
        Effect::Status(500, "InternalError"),
        Effect::Status(503, "SlowDown"),
        Effect::Status(403, "AccessDenied"),
        Effect::Status(412, "PreconditionFailed"),
        Effect::Status(409, "OperationAborted"),
        Effect::Status(404, "NoSuchKey"),
        Effect::Status(200, "InternalError"),
        Effect::CutBefore,
    ];
    let backend = Backend::embedded(Profile::Ceph).await.looking();
    // Both kinds have been examined, and nothing can be fenced in the one.
    backend.keep(&examined(&backend).await).await;
    keep_versions(&backend).await;
    for effect in no_answers {
        let proxy = backend.proxy(settings).await;
        let said = format!("{effect:?}");
        let rule = Rule::new(effect).method(Method::GET).bucket("data").query("versioning");
        let fault = backend.faults().add(rule.always());
        let refused = proxy.token(7).put("k", "one").await;
        assert_eq!(refused.short(), "501 FenceUnsupportedBucket", "{said}");
        assert!(fault.hits() > 0, "{said}");
        backend.faults().clear();
    }
    assert_eq!(backend.bytes("k").await, None, "nothing was written");
    // What cannot be tried either is not fenced in.
    let proxy = backend.proxy(settings).await;
    let silence = Rule::new(Effect::Status(500, "InternalError")).bucket("data").always();
    backend.faults().add(silence);
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "503 FenceUnavailable");
}

#[tokio::test]
async fn tags_that_are_said_to_be_unique_and_repeat_are_found_out() {
    let unique = "[[bucket]]\nname = \"data\"\ntags = \"unique\"\n";
    let backend = Backend::embedded(Profile::Aws).await.looking();
    let proxy = backend.proxy(unique).await;
    let refused = proxy.token(7).put("k", "one").await;
    assert_eq!(refused.short(), "501 FenceUnsupportedBucket");
    let message = refused.element("Message").unwrap();
    assert!(message.contains("tags repeat in this bucket"), "{message}");
    assert_eq!(backend.objects().await, Vec::<String>::new());
    let backend = Backend::embedded(Profile::AwsKms).await.looking();
    let proxy = backend.proxy(unique).await;
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
}

/// The same address, another store: what is examined again and does less is not fenced on.
#[tokio::test]
async fn a_store_that_does_less_than_it_did_is_not_fenced_on_any_more() {
    let mut backend = Backend::embedded(Profile::Aws).await.looking();
    let address = backend.endpoint.strip_prefix("http://").unwrap().to_owned();
    let proxy = backend.proxy("[backend]\nrecheck_seconds = 1\n").await;
    assert_eq!(proxy.token(7).put("k", "one").await.short(), "200");
    backend.stop_store();
    let other = DevStore::builder().profile(Profile::Liar).build().unwrap();
    other.create_bucket(&backend.bucket).await.unwrap();
    other.create_bucket(&backend.ledger).await.unwrap();
    let listener = loop {
        match tokio::net::TcpListener::bind(&address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let running = other.serve(listener).unwrap();
    let distrusted = async {
        while proxy.admin("/readyz").await.0 == 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    soon("the store is examined again", distrusted).await;
    let (_, ready) = proxy.admin("/readyz").await;
    assert!(ready.contains("this store cannot be fenced on"), "{ready}");
    let refused = proxy.token(8).put("k", "two").await;
    assert_eq!(refused.short(), "503 FenceUnavailable");
    let message = refused.element("Message").unwrap();
    assert!(message.contains("cannot be fenced on any more"), "{message}");
    drop(running);
}

/// R2 keeps keys in Unicode's normal form C: of two spellings the other one is refused.
#[tokio::test]
async fn keys_that_the_store_takes_for_another_are_refused() {
    let backend =
        Backend::built(DevStore::builder().profile(Profile::R2).write_interval(Duration::ZERO))
            .await;
    let proxy = backend.proxy("").await;
    assert_eq!(proxy.token(7).put("caf%C3%A9", "one").await.short(), "200");
    let refused = proxy.token(7).put("cafe%CC%81", "two").await;
    assert_eq!(refused.short(), "400 InvalidArgument");
}

//! The doctor: its verdict on every profile of the embedded store, and on real stores.
//!
//! `verdicts.txt` is reviewed: what each profile is fenced by, and the check that decided.
//! `FENCEPOST_TEST_WRITE_DOCS=1` writes it anew.

#![cfg(feature = "embedded-store")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests, and the environment of this test"
)]

#[path = "../support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::time::Duration;

use fencepost::devstore::{DevStore, Effect, Profile, Rule};
use fencepost::doctor::catalogue::CATALOGUE;
use fencepost::doctor::report::{BucketReport, Depth, Operation, Outcome, Plan, Report};
use fencepost::doctor::{ExaminationError, Versioned, render};
use fencepost::server::examine::{ExamineError, Options};
use support::Backend;

fn options(backend: &Backend) -> Options {
    Options {
        bucket: backend.bucket.clone(),
        depth: Depth::Full,
        writers: 4,
        rounds: 2,
        versioned: Versioned::Scratch,
        time_max: Duration::from_secs(120),
    }
}

/// One profile in lines: facts, then the verdicts in each kind of bucket.
fn described(report: &Report) -> String {
    let mut text = String::new();
    let facts = &report.facts;
    let aliases: Vec<&str> = facts.aliases.iter().map(|alias| alias.described()).collect();
    writeln!(
        text,
        "  safe: {}; tags: {:?}; ETags: {:?}; copies pinned: {:?}; aliases: {aliases:?}",
        report.safe, facts.tags, facts.etag_quotes, facts.pins_copy_source
    )
    .unwrap();
    for bucket in &report.buckets {
        let kind = if bucket.versioning.keeps_versions() { "versions" } else { "no versions" };
        for (operation, verdict) in &bucket.verdicts {
            writeln!(
                text,
                "  {kind:11}  {operation:14}  {:11}  {}",
                verdict.plan,
                why(bucket, *operation)
            )
            .unwrap();
        }
    }
    text
}

/// The check that decided, without what differs from run to run.
fn why(bucket: &BucketReport, operation: Operation) -> String {
    let verdict = &bucket.verdicts[&operation];
    if verdict.plan == Plan::Conditional || operation == Operation::DeleteObjects {
        return verdict.because.split(';').next().unwrap().to_owned();
    }
    let failed = verdict.because.split(':').next().unwrap();
    failed.to_owned()
}

#[tokio::test]
async fn every_profile_has_its_reviewed_verdicts() {
    // All at once: most of the time is R2's, which takes one write a second to a key.
    let described = Profile::ALL.map(|profile| async move {
        let backend = Backend::embedded(profile).await;
        let settings = if profile == Profile::Gcs { "backend.dialect = \"gcs\"\n" } else { "" };
        let report = backend.examine(settings, options(&backend)).await.unwrap();
        assert_eq!(
            backend.objects().await,
            Vec::<String>::new(),
            "{profile}: scratch objects stay"
        );
        format!("{profile}\n{}", described(&report))
    });
    let text = futures_util::future::join_all(described).await.concat();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doctor/verdicts.txt");
    if std::env::var_os("FENCEPOST_TEST_WRITE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let reviewed = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, reviewed, "tests/doctor/verdicts.txt is another");
}

#[tokio::test]
async fn every_check_of_the_catalogue_is_made() {
    let backend = Backend::embedded(Profile::Aws).await;
    let report = backend.examine("", options(&backend)).await.unwrap();
    for bucket in &report.buckets {
        let made: Vec<&str> = bucket.checks.iter().map(|check| check.id.as_str()).collect();
        let listed: Vec<&str> = CATALOGUE.iter().map(|entry| entry.id).collect();
        assert_eq!(made, listed);
        let unclear = |check: &&fencepost::doctor::report::Check| check.outcome == Outcome::Unclear;
        assert_eq!(bucket.checks.iter().find(unclear), None);
    }
    let quick = Options { depth: Depth::Quick, versioned: Versioned::No, ..options(&backend) };
    let report = backend.examine("", quick).await.unwrap();
    let made: Vec<&str> = report.buckets[0].checks.iter().map(|check| check.id.as_str()).collect();
    let listed: Vec<&str> =
        CATALOGUE.iter().filter(|entry| entry.quick).map(|entry| entry.id).collect();
    assert_eq!(made, listed);
    let text = render::text(&report);
    assert!(text.ends_with("A fence on this store is safe.\n"), "{text}");
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

/// The object is there, or the store: what does not answer is not examined, and not called unsound.
#[tokio::test]
async fn what_cannot_be_examined_is_said() {
    let backend = Backend::embedded(Profile::Aws).await;
    let elsewhere = Options { bucket: "elsewhere".into(), ..options(&backend) };
    let error = backend.examine("", elsewhere).await.unwrap_err();
    let missing = ExaminationError::NoSuchBucket("elsewhere".into());
    assert!(matches!(&error, ExamineError::Examination(found) if *found == missing), "{error}");
    let mut gone = Backend::embedded(Profile::Aws).await;
    let options = options(&gone);
    gone.stop_store();
    let error = gone.examine("", options).await.unwrap_err();
    let silent = matches!(error, ExamineError::Examination(ExaminationError::Silent(_)));
    assert!(silent, "{error}");
}

/// A store that deletes nothing: nothing is safe there, and what stays is said.
#[tokio::test]
async fn what_cannot_be_removed_is_said() {
    let fault = Rule::new(Effect::Status(500, "InternalError"));
    let fault = fault.method(http::Method::DELETE).key_prefix("fencepost-doctor/").always();
    let backend = Backend::built(DevStore::builder().fault(fault)).await;
    let once = Options { versioned: Versioned::No, ..options(&backend) };
    let report = backend.examine("", once).await.unwrap();
    let verdicts = &report.buckets[0].verdicts;
    // The object is there when a read was to show that it is gone.
    assert_eq!(verdicts[&Operation::Put].plan, Plan::Refused);
    assert_eq!(verdicts[&Operation::Delete].plan, Plan::Refused);
    let left = report.remarks.iter().any(|remark| remark.contains("were left behind"));
    assert!(left, "{:?}", report.remarks);
}

/// It ends when it has to, cleans up, and what was not tried by then has not passed.
#[tokio::test]
async fn an_examination_ends_in_time() {
    let backend = Backend::built(DevStore::builder().latency(Duration::from_millis(100))).await;
    let time_max = Duration::from_secs(1);
    let brief = Options { versioned: Versioned::No, time_max, ..options(&backend) };
    let report = backend.examine("", brief).await.unwrap();
    assert!(!report.safe);
    assert!(report.remarks.iter().any(|remark| remark.contains("cut off after 1 s")), "{report:?}");
    assert_eq!(backend.objects().await, Vec::<String>::new());
}

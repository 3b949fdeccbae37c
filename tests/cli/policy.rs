//! `fencepost policy`, by the real binary: what goes where, and what is refused.

use std::process::Output;

use serde_json::Value;

use crate::bare;

const ROLE: &str = "arn:aws:iam::111122223333:role/fencepost";

fn policy(arguments: &[&str]) -> Output {
    bare(&[&["policy"], arguments].concat()).output().unwrap()
}

#[test]
fn documents_are_on_standard_output_and_words_about_them_on_the_other() {
    let output = policy(&["--bucket", "jobs", "--role", ROLE]);
    assert_eq!(output.status.code(), Some(0));
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&String> = all.as_object().unwrap().keys().collect();
    assert_eq!(names, ["bucket-policy/fencepost-ledger", "bucket-policy/jobs", "role-policy"]);
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("aws s3api put-bucket-policy --bucket jobs"), "{words}");
    assert!(words.contains("root user"), "{words}");

    let output = policy(&["--bucket", "jobs", "--role", ROLE, "--only", "bucket-policy/jobs"]);
    let one: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(one, all["bucket-policy/jobs"]);
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "it may be piped");
}

#[test]
fn wrong_names_are_refused_with_code_2_and_without_a_document() {
    for (arguments, says) in [
        (&["--bucket", "jobs", "--role", "fencepost"][..], "not the ARN of a role or a user"),
        (&["--bucket", "jobs", "--role", ROLE, "--ledger-bucket", "jobs"], "both a data bucket"),
        (&["--bucket", "Jobs", "--role", ROLE], "not the name of a bucket"),
        (&["--bucket", "jobs", "--role", ROLE, "--only", "jobs"], "there are role-policy, "),
        (&["--bucket", "jobs", "--role", ROLE, "--store", "azure"], "no store of this name"),
        (&["--role", ROLE], "--bucket"),
    ] {
        let output = policy(arguments);
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {words}");
        assert!(words.contains(says), "{arguments:?}: {words}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

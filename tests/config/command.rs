//! The binary: what it prints and how it ends.

use std::process::{Command, Output};

/// The binary with a clean environment.
fn fencepost(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn config_check_says_everything_that_is_wrong_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wrong.toml");
    let path = path.to_str().unwrap();
    std::fs::write(path, "lisen = 1\n[fence]\nmode = \"on\"\n").unwrap();
    let output = fencepost(&["config", "check", path], &[("FENCEPOST_NONSENSE", "ignored here")]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains(&format!("{path}:1: lisen: ")), "{text}");
    assert!(text.contains(&format!("{path}:3: fence.mode: ")), "{text}");

    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/config/fencepost.toml");
    let output = fencepost(&["config", "check", sample], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("backend.url is not set here"));

    let output = fencepost(&["config", "check", "/nowhere/at-all.toml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/nowhere/at-all.toml: there is no such file"));
}

#[test]
fn print_config_prints_what_is_in_force_and_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fencepost.toml");
    std::fs::write(&path, "[backend]\nregion = \"file\"\nurl = \"http://file.test\"\n").unwrap();
    let secret = "wJalrXUtnFEMI";
    let output = fencepost(
        &["serve", "--backend", "http://flag.test", "--print-config"],
        &[
            ("FENCEPOST_CONFIG", path.to_str().unwrap()),
            ("FENCEPOST_LEDGER_BUCKET", "records"),
            ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", secret),
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("url = \"http://flag.test\""), "{text}");
    assert!(text.contains("region = \"file\"") && text.contains("bucket = \"records\""), "{text}");
    assert!(!text.contains(secret) && !text.contains("AKIDEXAMPLE"), "{text}");
}

#[test]
fn a_wrong_configuration_ends_serve_with_code_2_before_anything_is_bound() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = fencepost(
        &["serve", "--listen", &address, "--set", "fence.intents_max=0"],
        &[("FENCEPOST_LISTN", "x")],
    );
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("FENCEPOST_LISTN") && text.contains("--set: fence.intents_max"));
    assert!(text.contains("backend.url"), "{text}");
    assert!(!text.contains("in use"), "{text}");
}

#[test]
fn a_health_check_of_nobody_fails() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let output = fencepost(&["healthcheck", "--admin", &address], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&address));
}

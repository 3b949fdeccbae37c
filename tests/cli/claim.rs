//! `fencepost claim`, and what it shares with the other commands: where the proxy is, signatures,
//! exit codes, what errors say.

use std::time::Duration;

use fencepost::clock;
use serde_json::json;

use crate::authority::Authority;
use crate::script::{Received, Reply, Script};
use crate::{ID, SECRET, bare, ended, fencepost};

fn claimed(_request: &Received) -> Reply {
    Reply::Json(200, json!({ "scope": "s3://photos/a%20b*", "token": "42" }))
}

const CLAIM: [&str; 4] = ["claim", "s3://photos/a b%20?c/", "--token", "42"];

#[test]
fn a_claim_sends_its_token_and_the_key_encoded_once() {
    let script = Script::start(claimed);
    // A lease around the command has left its token in the environment.
    let mut command = fencepost(&script, &CLAIM);
    let (code, out, err) = ended(command.env("AWS_SESSION_TOKEN", "fence:7"));
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(out, "s3://photos/a%20b* is claimed with token 42\n");
    let [request] = &script.received()[..] else { panic!("one request") };
    assert_eq!(request.method, "PUT");
    assert_eq!(request.path, "/_fence/claim/photos/a%20b%2520%3Fc/");
    assert_eq!(request.header("x-amz-security-token"), Some("fence:42"));
    assert!(request.header("authorization").unwrap().contains(ID));
    let wait: u64 = request.header("x-fence-wait").unwrap().parse().unwrap();
    assert!((5..=10).contains(&wait), "{wait}");
    assert!(!format!("{request:?}").contains("fence:7"));
}

#[test]
fn json_is_what_the_proxy_has_said() {
    let script = Script::start(|_| Reply::Json(200, json!({"scope":"s","token":"42","more":[1]})));
    let (code, out, _) = ended(fencepost(&script, &CLAIM).arg("--json"));
    assert_eq!(code, Some(0));
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out, json!({ "scope": "s", "token": "42", "more": [1] }));
}

#[test]
fn a_key_that_is_not_utf8_is_taken_literally() {
    use std::os::unix::ffi::OsStrExt as _;
    let script = Script::start(claimed);
    let key = std::ffi::OsStr::from_bytes(b"s3://photos/\xff/");
    let (code, ..) = ended(fencepost(&script, &["claim", "--token", "1"]).arg(key));
    assert_eq!((code, &*script.received()[0].path), (Some(0), "/_fence/claim/photos/%FF/"));
}

#[test]
fn each_kind_of_failure_has_its_exit_code_and_says_what_to_do() {
    let cases = [
        (Reply::refused as fn(u16, &str) -> Reply, 409, "StaleFenceToken", 75, "get a new token"),
        (Reply::refused, 400, "FenceNotAScope", 1, "scope explain"),
        (Reply::refused, 403, "SignatureDoesNotMatch", 77, "as told"),
        (Reply::refused, 400, "InvalidFenceToken", 1, "as told"),
        (Reply::refused, 503, "FenceUnavailable", 69, "try again"),
        (Reply::refused, 503, "FenceOutcomeUnknown", 69, "inspect"),
        (
            |status, _| Reply::Text(status, "<Error><Code>NoSuchBucket</Code></Error>"),
            404,
            "NoSuchBucket",
            1,
            "Is it a store",
        ),
        (|status, _| Reply::Text(status, "<html>"), 502, "502 Bad Gateway", 69, ""),
    ];
    for (reply, status, name, expected, says) in cases {
        let script = Script::start(move |_| reply(status, name));
        let (code, out, err) = ended(fencepost(&script, &CLAIM).args(["--wait", "0"]));
        assert_eq!((code, &*out), (Some(expected), ""), "{name}: {err}");
        assert!(err.starts_with("fencepost: ") && err.contains(name), "{name}: {err}");
        assert!(err.contains(says), "{name}: {err}");
        assert_eq!(script.received().len(), 1, "{name}: there is no time for more");
    }
}

#[test]
fn what_may_pass_is_tried_again_within_the_time() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let script = Script::start(move |request| {
        match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => Reply::refused(503, "FenceUnavailable"),
            1 => Reply::Close,
            2 => Reply::Text(502, "<html>"),
            _ => claimed(request),
        }
    });
    let (code, _, err) = ended(&mut fencepost(&script, &CLAIM));
    assert_eq!((code, script.received().len()), (Some(0), 4), "{err}");
}

#[test]
fn a_claim_that_waits_too_long_says_for_what() {
    let barrier = json!({
        "code": "FenceBarrier", "message": "older writes are on their way", "request_id": "1",
        "store_time": 1_700_000_000,
        "waiting_for": [
            { "operation": "00", "token": "41", "key": "a%20b", "expects": "absent",
              "expires_at": 1_700_000_012 },
            { "operation": "01", "token": "40", "key": "c", "expects": null,
              "expires_at": 1_700_000_013 },
        ],
    });
    let script = Script::start(move |_| Reply::Json(503, barrier.clone()));
    let (code, _, err) = ended(fencepost(&script, &CLAIM).args(["--wait", "1s"]));
    assert_eq!(code, Some(73));
    assert!(err.contains("waiting for a write of a%20b with token 41, until 2023-"), "{err}");
    assert!(err.contains("(in 12 s) at the latest"), "{err}");
    assert!(err.contains("a write of c with token 40"), "{err}");
    assert!(script.received().len() > 1, "it was asked again");
}

#[test]
fn a_proxy_that_is_not_there_is_69() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let mut command = bare(&CLAIM);
    command.args(["--wait", "1s", "--no-sign-request", "--proxy", &url]);
    let (code, _, err) = ended(&mut command);
    assert_eq!(code, Some(69), "{err}");
    assert!(err.contains(&url) && err.contains("--proxy"), "{err}");
}

#[test]
fn a_wrong_command_line_is_2_and_nothing_is_sent() {
    let script = Script::start(claimed);
    let wrong: [&[&str]; 10] = [
        &["claim", "photos/a", "--token", "1"],
        &["claim", "s3:///a", "--token", "1"],
        &["claim", "s3://photos/a"],
        &["claim", "s3://photos/a", "--token", "0"],
        &["claim", "s3://photos/a", "--token", "18446744073709551616"],
        &["claim", "s3://photos/a", "--token", "1", "--wait", "soon"],
        &["claim", "s3://photos/a", "--token", "1", "--proxy", "localhost:9000"],
        &["lease", "run", "s3://photos/a", "--ttl", "-1", "--", "true"],
        &["lease", "run", "s3://photos/a", "--ttl", "0", "--", "true"],
        &["lease", "run", "s3://photos/a"],
    ];
    for arguments in wrong {
        let (code, out, err) = ended(&mut fencepost(&script, arguments));
        assert_eq!((code, &*out), (Some(2), ""), "{arguments:?}: {err}");
        assert!(!err.is_empty());
    }
    assert!(script.received().is_empty());
}

#[test]
fn the_proxy_is_where_s3_clients_are_sent_unless_something_says_otherwise() {
    let (own, s3, all) = (Script::start(claimed), Script::start(claimed), Script::start(claimed));
    let mut variables = vec![
        ("AWS_ENDPOINT_URL", all.url()),
        ("AWS_ENDPOINT_URL_S3", s3.url()),
        ("FENCEPOST_PROXY", own.url()),
    ];
    for server in [&own, &s3, &all] {
        let mut command = bare(&CLAIM);
        command.env("AWS_ACCESS_KEY_ID", ID).env("AWS_SECRET_ACCESS_KEY", SECRET);
        let (code, _, err) = ended(command.envs(variables.iter().cloned()));
        assert_eq!((code, server.received().len()), (Some(0), 1), "{err}");
        variables.pop();
    }
}

#[test]
fn without_credentials_nothing_is_sent() {
    let script = Script::start(claimed);
    let mut command = bare(&CLAIM);
    let (code, _, err) =
        ended(command.env("FENCEPOST_PROXY", script.url()).env("HOME", "/nowhere"));
    assert_eq!(code, Some(2));
    assert!(err.contains("no credentials") && err.contains("--no-sign-request"), "{err}");
    assert!(script.received().is_empty());

    let (code, ..) = ended(command.arg("--no-sign-request"));
    assert_eq!(code, Some(0));
    let request = &script.received()[0];
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("x-fence-token"), Some("42"));
}

#[test]
fn a_private_authority_is_trusted_when_it_is_named() {
    let authority = Authority::new("authority");
    let script = Script::start_tls(authority.issue("localhost").server(), claimed);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("authority.pem");
    std::fs::write(&file, authority.pem()).unwrap();

    let (code, _, err) = ended(fencepost(&script, &CLAIM).args(["--wait", "0"]));
    assert_eq!(code, Some(69), "a stranger");
    assert!(err.contains("certificate"), "{err}");
    let (code, _, err) = ended(fencepost(&script, &CLAIM).arg("--ca-file").arg(&file));
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = ended(fencepost(&script, &CLAIM).env("FENCEPOST_CA_FILE", &file));
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = ended(fencepost(&script, &CLAIM).args(["--ca-file", "/nowhere"]));
    assert_eq!(code, Some(2));
    assert!(err.contains("/nowhere"), "{err}");
}

#[test]
fn a_proxy_that_says_nothing_is_not_waited_for_for_ever() {
    let script = Script::start(|_| Reply::Silence(Duration::from_secs(60)));
    let began = clock::monotonic();
    let (code, _, err) = ended(fencepost(&script, &CLAIM).args(["--wait", "0"]));
    assert_eq!(code, Some(69), "{err}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

//! `fencepost lease acquire`, `renew`, `release` and `show`.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::script::{Received, Reply, Script};
use crate::{ended, fencepost};

const SCOPE: &str = "s3://photos/p/";

/// A grant of 30 seconds, token 43, under the id that was asked for.
fn granted(request: &Received) -> Reply {
    Reply::Json(200, grant(request))
}

fn grant(request: &Received) -> Value {
    let ttl = request.body["ttl_seconds"].as_u64().unwrap_or(30);
    json!({
        "scope": "s3://photos/p/*", "token": "43", "id": request.body["id"], "holder": "h",
        "ttl_seconds": ttl, "expires_at": 1_700_000_000 + ttl, "store_time": 1_700_000_000,
    })
}

#[test]
fn acquire_prints_what_a_script_needs() {
    let script = Script::start(granted);
    let arguments = ["lease", "acquire", SCOPE, "--ttl", "2m", "--wait", "5s"];
    let (code, out, err) = ended(&mut fencepost(&script, &arguments));
    assert_eq!((code, &*err), (Some(0), ""));
    let [request] = &script.received()[..] else { panic!("one request") };
    assert_eq!((&*request.method, &*request.path), ("POST", "/_fence/lease/photos/p/"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&out["token"], &out["id"]), (&json!("43"), &request.body["id"]));
    let body = &request.body;
    assert_eq!((&body["action"], &body["ttl_seconds"]), (&json!("acquire"), &json!(120)));
    let wait = body["wait_seconds"].as_u64().unwrap();
    assert!((3..=5).contains(&wait), "{wait}");
    assert_eq!(body["id"].as_str().unwrap().len(), 32);
    let holder = body["holder"].as_str().unwrap();
    let (host, process) = holder.rsplit_once(':').unwrap();
    assert!(!host.is_empty() && process.parse::<u32>().is_ok(), "{holder}");
    assert_eq!(request.header("x-amz-security-token"), None);
}

#[test]
fn an_acquisition_is_repeated_under_its_id() {
    let calls = AtomicUsize::new(0);
    let script = Script::start(move |request| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::Close,
        1 => Reply::refused(409, "FenceLeaseHeld"),
        _ => granted(request),
    });
    let arguments = ["lease", "acquire", SCOPE, "--holder", "me"];
    let (code, _, err) = ended(&mut fencepost(&script, &arguments));
    assert_eq!(code, Some(0), "{err}");
    let received = script.received();
    assert_eq!(script.actions(), ["acquire", "acquire", "acquire"]);
    assert!(received.iter().all(|request| request.body["id"] == received[0].body["id"]));
    assert!(received.iter().all(|request| request.body["holder"] == "me"));
}

#[test]
fn a_lease_that_was_perhaps_granted_to_nobody_is_released() {
    let script = Script::start(|request| match request.action() {
        "acquire" => Reply::Close,
        _ => Reply::Json(200, json!({ "scope": "s", "token": "43", "released": true })),
    });
    let (code, ..) = ended(&mut fencepost(&script, &["lease", "acquire", SCOPE, "--wait", "0"]));
    assert_eq!(code, Some(69));
    let received = script.received();
    assert_eq!(script.actions(), ["acquire", "release"]);
    assert_eq!(received[0].body["id"], received[1].body["id"]);
}

#[test]
fn a_lease_of_somebody_else_is_73_and_says_whose() {
    let held = json!({
        "code": "FenceLeaseHeld", "message": "the lease is held", "request_id": "1",
        "holder": "other:1", "expires_at": 1_700_000_012, "store_time": 1_700_000_000,
    });
    let script = Script::start(move |_| Reply::Json(409, held.clone()));
    let arguments = ["lease", "acquire", SCOPE, "--wait", "0"];
    let (code, out, err) = ended(&mut fencepost(&script, &arguments));
    assert_eq!((code, &*out), (Some(73), ""));
    assert!(err.contains("other:1 has it until 2023-11-14T22:13:32Z (in 12 s)"), "{err}");
    assert_eq!(script.actions(), ["acquire"], "nothing is released that was not granted");
}

#[test]
fn renewing_prolongs_and_a_lost_lease_is_75() {
    let script = Script::start(granted);
    let arguments = ["lease", "renew", SCOPE, "--id", "ab", "--ttl", "1m"];
    let (code, out, _) = ended(&mut fencepost(&script, &arguments));
    assert_eq!(code, Some(0));
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["ttl_seconds"], 60);
    let body = json!({ "action": "renew", "id": "ab", "ttl_seconds": 60 });
    assert_eq!(script.received()[0].body, body);

    let (code, ..) = ended(&mut fencepost(&script, &["lease", "renew", SCOPE, "--id", "ab"]));
    assert_eq!(code, Some(0));
    assert_eq!(script.received()[1].body, json!({ "action": "renew", "id": "ab" }));

    let script = Script::start(|_| Reply::refused(409, "FenceLeaseLost"));
    for action in ["renew", "release"] {
        let (code, _, err) =
            ended(&mut fencepost(&script, &["lease", action, SCOPE, "--id", "ab"]));
        assert_eq!(code, Some(75), "{err}");
        assert!(err.contains("acquire it anew"), "{err}");
    }
    assert_eq!(script.actions(), ["renew", "release"], "it is final");
}

#[test]
fn a_release_without_an_answer_is_not_sent_again() {
    let script = Script::start(|_| Reply::Close);
    let (code, _, err) = ended(&mut fencepost(&script, &["lease", "release", SCOPE, "--id", "ab"]));
    assert_eq!((code, script.actions().len()), (Some(69), 1), "{err}");
    assert!(err.contains("may have been carried out"), "{err}");

    let calls = AtomicUsize::new(0);
    let script = Script::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::refused(503, "FenceContended"),
        _ => Reply::Json(200, json!({ "scope": "s", "token": "43", "released": true })),
    });
    let (code, out, _) = ended(&mut fencepost(&script, &["lease", "release", SCOPE, "--id", "ab"]));
    assert_eq!((code, script.actions().len()), (Some(0), 2), "that one changed nothing");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["released"], true);
}

#[test]
fn show_is_for_people_or_json() {
    let state = json!({
        "scope": "s3://photos/p/*", "token": "43",
        "lease": { "token": "43", "holder": "other:1", "acquired_at": 1_700_000_000,
                   "expires_at": 1_700_000_030, "expired": false },
        "store_time": 1_700_000_010,
    });
    let document = state.clone();
    let script = Script::start(move |_| Reply::Json(200, document.clone()));
    let (code, out, _) = ended(&mut fencepost(&script, &["lease", "show", SCOPE]));
    assert_eq!(code, Some(0));
    assert!(out.contains("held by other:1\n") && out.contains("(in 20 s)"), "{out}");
    let (_, out, _) = ended(&mut fencepost(&script, &["lease", "show", SCOPE, "--json"]));
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), state);
    let request = &script.received()[0];
    assert_eq!((&*request.method, &*request.path), ("GET", "/_fence/lease/photos/p/"));
}

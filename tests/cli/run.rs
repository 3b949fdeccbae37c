//! `fencepost lease run` as long as the lease is held: the command's environment, its exit code,
//! signals, renewals, the release.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::script::{Received, Reply, Script};
use crate::{ID, Running, SECRET, around, bare, ended, fencepost, until};

pub(crate) const SCOPE: &str = "s3://photos/p/";

/// What a shell script does for half a minute. None runs for ever, whatever becomes of its test.
pub(crate) const BUSY: &str = "i=0; while [ $((i += 1)) -lt 600 ]; do sleep 0.05; done";

/// Grants, renews and releases, as the proxy does when nobody else is there.
pub(crate) fn kept(request: &Received) -> Reply {
    if request.action() == "release" {
        return Reply::Json(200, json!({ "scope": "s", "token": "43", "released": true }));
    }
    let ttl = request.body["ttl_seconds"].as_u64().unwrap();
    Reply::Json(
        200,
        json!({
            "scope": "s3://photos/p/*", "token": "43", "id": request.body["id"], "holder": "h",
            "ttl_seconds": ttl, "expires_at": 1000 + ttl, "store_time": 1000,
        }),
    )
}

/// The arguments of a run of a shell script.
pub(crate) fn shell<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["lease", "run", SCOPE];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", script]);
    arguments
}

/// A file that a command makes, in a directory of its own.
pub(crate) struct Mark(TempDir);

impl Mark {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("mark")
    }

    pub(crate) fn text(&self) -> Option<String> {
        std::fs::read_to_string(self.path()).ok()
    }

    pub(crate) fn wait(&self) -> String {
        until("the command", || self.text().is_some_and(|text| text.ends_with('\n')));
        self.text().unwrap()
    }
}

#[test]
fn the_command_finds_the_token_in_its_environment() {
    let script = Script::start(kept);
    let arguments =
        shell(&[], "echo $AWS_SESSION_TOKEN $FENCE_TOKEN $FENCE_SCOPE $AWS_ACCESS_KEY_ID");
    let mut command = fencepost(&script, &arguments);
    // That of a lease around this one.
    let (code, out, err) = ended(command.env("AWS_SESSION_TOKEN", "fence:7"));
    assert_eq!((code, &*err), (Some(0), ""));
    assert_eq!(out, format!("fence:43 43 s3://photos/p/* {ID}\n"));
    assert_eq!(script.actions(), ["acquire", "release"]);
    let received = script.received();
    assert_eq!(received[0].body["ttl_seconds"], 30);
    assert_eq!(received[0].body["id"], received[1].body["id"]);
    assert!(received.iter().all(|request| request.header("x-amz-security-token").is_none()));
}

#[test]
fn a_key_pair_from_a_file_is_handed_on_because_the_session_token_needs_it() {
    let script = Script::start(kept);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("credentials");
    let text = format!("[default]\naws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n");
    std::fs::write(&file, text).unwrap();
    let arguments = shell(&[], "echo $AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY");
    let mut command = bare(&arguments);
    command.env("FENCEPOST_PROXY", script.url()).env("AWS_SHARED_CREDENTIALS_FILE", &file);
    let (code, out, err) = ended(&mut command);
    assert_eq!((code, &*out), (Some(0), &*format!("{ID} {SECRET}\n")), "{err}");
}

#[test]
fn the_exit_code_is_the_commands_own_and_the_lease_is_released() {
    let codes = [("exit 7", 7), ("exit 0", 0), ("kill -KILL $$", 137), ("kill -TERM $$", 143)];
    for (text, expected) in codes {
        let script = Script::start(kept);
        let (code, ..) = ended(&mut fencepost(&script, &shell(&[], text)));
        assert_eq!(code, Some(expected), "{text}");
        assert_eq!(script.actions(), ["acquire", "release"], "{text}");
    }
    for (program, expected) in [("/nowhere/at-all", 127), ("/", 126)] {
        let script = Script::start(kept);
        let arguments = ["lease", "run", SCOPE, "--", program];
        let (code, _, err) = ended(&mut fencepost(&script, &arguments));
        assert_eq!(code, Some(expected), "{err}");
        assert!(err.contains(program), "{err}");
        assert_eq!(script.actions(), ["acquire", "release"]);
    }
}

#[test]
fn without_a_lease_there_is_no_command() {
    let mark = Mark::new();
    let text = format!("echo > {}", mark.path().display());
    let cases = [
        (Reply::refused as fn(u16, &str) -> Reply, 409, "FenceLeaseHeld", 73),
        (Reply::refused, 503, "FenceUnavailable", 69),
        (Reply::refused, 403, "InvalidAccessKeyId", 77),
        (Reply::refused, 400, "FenceNotAScope", 1),
        (|_, _| Reply::Close, 0, "", 69),
    ];
    for (reply, status, name, expected) in cases {
        let script = Script::start(move |_| reply(status, name));
        let (code, ..) = ended(&mut fencepost(&script, &shell(&["--wait", "0"], &text)));
        assert_eq!(code, Some(expected), "{name}");
        assert_eq!(mark.text(), None, "{name}");
    }
}

#[test]
fn somebody_elses_lease_is_waited_for() {
    let calls = AtomicUsize::new(0);
    let script = Script::start(move |request| match calls.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Reply::refused(409, "FenceLeaseHeld"),
        _ => kept(request),
    });
    let (code, out, _) = ended(&mut fencepost(&script, &shell(&["--wait", "1m"], "echo ran")));
    assert_eq!((code, &*out), (Some(0), "ran\n"));
    assert_eq!(script.actions(), ["acquire", "acquire", "acquire", "release"]);
}

#[test]
fn it_is_renewed_as_long_as_the_command_runs() {
    let script = Script::start(kept);
    let (code, _, err) = ended(&mut fencepost(&script, &shell(&["--ttl", "1s"], "sleep 2")));
    assert_eq!((code, &*err), (Some(0), ""));
    let actions = script.actions();
    let renewals = actions.iter().filter(|action| *action == "renew").count();
    // Every third of a second, on a machine that may be slow.
    assert!((3..=7).contains(&renewals), "{actions:?}");
    assert_eq!(actions.last().unwrap(), "release");
    let ids: Vec<_> =
        script.received().into_iter().map(|request| request.body["id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]));
}

#[test]
fn renewals_that_fail_now_and_then_do_no_harm() {
    let calls = Arc::new(AtomicUsize::new(0));
    let script = Script::start(move |request| match request.action() {
        // Two of three come to nothing, each in another way.
        "renew" => match calls.fetch_add(1, Ordering::SeqCst) % 3 {
            0 => Reply::refused(503, "FenceUnavailable"),
            1 => Reply::Close,
            _ => kept(request),
        },
        _ => kept(request),
    });
    let (code, _, err) = ended(&mut fencepost(&script, &shell(&["--ttl", "3s"], "sleep 4")));
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("could not be renewed yet"), "{err}");
    assert_eq!(script.actions().last().unwrap(), "release");
}

#[test]
fn a_lease_that_came_late_is_renewed_before_the_command_begins() {
    // By this process's clock, which began before it asked, most of the lease is over.
    let script = Script::start(|request| {
        if request.action() == "acquire" {
            std::thread::sleep(Duration::from_millis(1100));
        }
        kept(request)
    });
    let (code, out, _) = ended(&mut fencepost(&script, &shell(&["--ttl", "2s"], "echo ran")));
    assert_eq!((code, &*out), (Some(0), "ran\n"));
    assert_eq!(script.actions(), ["acquire", "renew", "release"]);
}

#[test]
fn a_lease_that_came_too_late_is_acquired_anew() {
    let calls = AtomicUsize::new(0);
    let script = Script::start(move |request| match request.action() {
        "acquire" if calls.fetch_add(1, Ordering::SeqCst) == 0 => {
            std::thread::sleep(Duration::from_millis(1100));
            kept(request)
        }
        "renew" => Reply::refused(409, "FenceLeaseLost"),
        _ => kept(request),
    });
    let (code, out, err) = ended(&mut fencepost(&script, &shell(&["--ttl", "2s"], "echo ran")));
    assert_eq!((code, &*out), (Some(0), "ran\n"), "{err}");
    assert_eq!(script.actions(), ["acquire", "renew", "acquire", "release"]);
    let received = script.received();
    assert_ne!(received[0].body["id"], received[2].body["id"], "it is another lease");
}

#[test]
fn signals_are_passed_on() {
    for (name, expected) in [("TERM", 5), ("INT", 6), ("HUP", 7)] {
        let (script, mark) = (Script::start(kept), Mark::new());
        let path = mark.path();
        let text = format!(
            "trap 'exit 5' TERM; trap 'exit 6' INT; trap 'exit 7' HUP; echo > {}; {BUSY}",
            path.display()
        );
        let mut running = Running::start(&mut fencepost(&script, &shell(&[], &text)));
        mark.wait();
        running.signal(name);
        assert_eq!(running.code(), Some(expected), "SIG{name}");
        assert_eq!(script.actions(), ["acquire", "release"], "SIG{name}");
    }
}

#[test]
fn signals_reach_what_a_script_has_started() {
    let (script, mark) = (Script::start(kept), Mark::new());
    // The shell does not tell it, and does not wait for it.
    let text = format!("sleep 60 & echo $! > {}; wait", mark.path().display());
    let mut running = Running::start(&mut fencepost(&script, &shell(&[], &text)));
    let started = mark.wait().trim().to_owned();
    assert!(runs(&started));
    running.signal("TERM");
    assert_eq!(running.code(), Some(143));
    until("the end of what the script has started", || !runs(&started));
}

/// Whether there is such a process, and it is more than an entry that nobody has read.
fn runs(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let (script, mark) = (Script::start(kept), Mark::new());
    let text = format!("echo > {}; sleep 1; echo done", mark.path().display());
    let own = fencepost(&script, &shell(&[], &text));
    // As nohup does it.
    let mut nohup = around("sh", &["-c", "trap '' HUP; exec \"$@\"", "sh"], &own);
    let mut running = Running::start(&mut nohup);
    mark.wait();
    running.signal("HUP");
    assert_eq!(running.code(), Some(0));
}

#[test]
fn a_signal_ends_the_waiting() {
    let script = Script::start(|_| Reply::Silence(Duration::from_secs(60)));
    let mark = Mark::new();
    let text = format!("echo > {}", mark.path().display());
    let mut running = Running::start(&mut fencepost(&script, &shell(&[], &text)));
    until("the request", || !script.received().is_empty());
    running.signal("TERM");
    assert_eq!(running.code(), Some(143));
    assert_eq!(mark.text(), None);
}

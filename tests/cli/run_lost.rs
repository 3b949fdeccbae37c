//! `fencepost lease run` when the lease is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencepost::clock;

use crate::run::{BUSY, Mark, kept, shell};
use crate::script::{Reply, Script};
use crate::{Running, ended, fencepost, until};

/// Goes on until it is told to end, and says that it was.
fn works_until_told(mark: &Mark) -> String {
    let path = mark.path();
    let path = path.display();
    format!("trap 'echo told > {path}; exit 0' TERM; {BUSY}")
}

#[test]
fn a_lost_lease_ends_the_command_and_is_75_whatever_its_code() {
    let mark = Mark::new();
    let script = Script::start(|request| match request.action() {
        "renew" => Reply::refused(409, "FenceLeaseLost"),
        _ => kept(request),
    });
    let text = works_until_told(&mark);
    let (code, _, err) = ended(&mut fencepost(&script, &shell(&["--ttl", "1s"], &text)));
    assert_eq!(code, Some(75), "{err}");
    assert_eq!(mark.text().as_deref(), Some("told\n"));
    assert!(err.contains("token 43, is lost") && err.contains("SIGTERM"), "{err}");
    assert_eq!(script.actions(), ["acquire", "renew"], "there is nothing to release");
}

#[test]
fn a_proxy_that_cannot_be_reached_is_a_lost_lease_once_its_time_is_over() {
    for silent in [false, true] {
        let mark = Mark::new();
        let script = Script::start(move |request| match request.action() {
            "renew" if silent => Reply::Silence(Duration::from_secs(60)),
            "renew" => Reply::Close,
            _ => kept(request),
        });
        let began = clock::monotonic();
        let text = works_until_told(&mark);
        let (code, _, err) = ended(&mut fencepost(&script, &shell(&["--ttl", "2s"], &text)));
        assert_eq!(code, Some(75), "silent: {silent}, {err}");
        assert!(began.elapsed() >= Duration::from_secs(2), "not before: {:?}", began.elapsed());
        assert!(err.contains("until it was over"), "{err}");
        assert_eq!(mark.text().as_deref(), Some("told\n"));
        let actions = script.actions();
        assert!(actions.len() > 2, "it was tried again: {actions:?}");
        assert!(!actions.contains(&"release".to_owned()), "{actions:?}");
    }
}

#[test]
fn a_process_that_was_stopped_past_the_end_does_not_trust_the_lease() {
    let mark = Mark::new();
    let script = Script::start(kept);
    let ready = Mark::new();
    let text = format!("echo > {}; {}", ready.path().display(), works_until_told(&mark));
    let mut running = Running::start(&mut fencepost(&script, &shell(&["--ttl", "2s"], &text)));
    ready.wait();
    running.signal("STOP");
    std::thread::sleep(Duration::from_millis(2500));
    let before = script.actions().len();
    running.signal("CONT");
    assert_eq!(running.code(), Some(75));
    assert_eq!(mark.text().as_deref(), Some("told\n"));
    assert_eq!(script.actions().len(), before, "it is not even asked for any more");
}

#[test]
fn a_command_that_does_not_listen_goes_on_and_is_waited_for() {
    let (mark, told) = (Mark::new(), Arc::new(AtomicBool::new(false)));
    let lost = Arc::clone(&told);
    let script = Script::start(move |request| match request.action() {
        "renew" => {
            lost.store(true, Ordering::SeqCst);
            Reply::refused(409, "FenceLeaseLost")
        }
        _ => kept(request),
    });
    let path = mark.path();
    let text = format!("trap '' TERM; trap 'exit 3' INT; echo > {}; {BUSY}", path.display());
    let mut running = Running::start(&mut fencepost(&script, &shell(&["--ttl", "1s"], &text)));
    mark.wait();
    until("the loss", || told.load(Ordering::SeqCst));
    std::thread::sleep(Duration::from_millis(300));
    assert!(running.0.try_wait().unwrap().is_none(), "the command has not ended");
    // What is said to it still is passed on.
    running.signal("INT");
    assert_eq!(running.code(), Some(75));
}

#[test]
fn a_lease_that_was_gone_at_the_end_is_mentioned() {
    let script = Script::start(|request| match request.action() {
        "release" => Reply::refused(409, "FenceLeaseLost"),
        _ => kept(request),
    });
    let (code, _, err) = ended(&mut fencepost(&script, &shell(&[], "exit 4")));
    assert_eq!(code, Some(4), "the command was not told to end");
    assert!(err.contains("had ended before the command did"), "{err}");
}

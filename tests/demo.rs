//! The demo, run as a person runs it: what it prints, what it leaves behind, and that its checks
//! can fail.

#![cfg(all(unix, feature = "embedded-store"))]

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fencepost::demo::{self, Options};
use fencepost::fence::{Rule, Rules};
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost");

/// What the demo promises.
const DEMO_MAX: Duration = Duration::from_secs(30);

/// `fencepost demo` in a process group of its own, with no setting of the environment's.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("demo").args(arguments).process_group(0).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FENCEPOST_") {
            command.env_remove(name);
        }
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

struct Played {
    output: Output,
    text: String,
    took: Duration,
}

/// Plays it to the end, and holds it to leaving no process behind.
fn play(arguments: &[&str]) -> Played {
    let started = now();
    let child = command(arguments).spawn().unwrap();
    let group = pid(child.id());
    let output = child.wait_with_output().unwrap();
    let took = started.elapsed();
    assert_gone(group);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    Played { output, text, took }
}

#[expect(clippy::disallowed_methods, reason = "a test measures real time")]
fn now() -> Instant {
    Instant::now()
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
}

/// Nothing runs any more in the demo's process group. Killed children may take a moment to end.
fn assert_gone(group: Pid) {
    let started = now();
    while !running(group).is_empty() {
        let left = running(group);
        assert!(started.elapsed() < Duration::from_secs(5), "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processes of a group, by `/proc/*/stat`: `pid (name) state ppid pgrp …`. One that has ended
/// and was not waited for is left out: whoever inherited it may never do so in a container.
#[cfg(target_os = "linux")]
fn running(group: Pid) -> Vec<String> {
    let stats = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    let is_of_group = |stat: &String| {
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields: Vec<_> = fields.split_whitespace().collect();
        fields[0] != "Z" && fields[2] == group.as_raw_nonzero().to_string()
    };
    stats.filter(is_of_group).collect()
}

#[cfg(not(target_os = "linux"))]
fn running(group: Pid) -> Vec<String> {
    let some = rustix::process::test_kill_process_group(group).is_ok();
    some.then(|| format!("a process of group {group:?}")).into_iter().collect()
}

/// The part of the text from one heading to the next.
fn act<'a>(text: &'a str, heading: &str) -> &'a str {
    let from = text.find(heading).unwrap_or_else(|| panic!("no {heading:?} in:\n{text}"));
    let rest = &text[from..];
    rest[1..].find("\nAct ").map_or(rest, |to| &rest[..=to])
}

#[track_caller]
fn assert_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "no {line:?} in:\n{text}");
    }
}

#[test]
fn every_outcome_is_the_right_one() {
    let Played { output, text, took } = play(&[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), errors.as_ref()), (Some(0), ""), "{text}");
    assert!(took < DEMO_MAX, "{took:?}");

    let stop_and_go = [
        "is stopped, its write not yet sent (SIGSTOP)",
        "the lease of A has run out",
        "goes on (SIGCONT) and writes",
    ];
    let first = act(&text, "\nAct 1");
    assert_lines(first, &stop_and_go);
    assert_lines(
        first,
        &["✓ tokens: A 33, B 34\n", "✓ A's late write: 200\n", "✓ the object: \"report by A\"\n"],
    );
    let second = act(&text, "\nAct 2");
    assert_lines(second, &stop_and_go);
    assert_lines(
        second,
        &[
            "✓ tokens: A 33, B 34\n",
            "✓ A's late write: 409 StaleFenceToken\n",
            "✓ the object: \"report by B\"\n",
            "✓ fence_rejected_total: 0 → 1\n",
        ],
    );
    let third = act(&text, "\nAct 3:");
    assert_lines(
        third,
        &[
            "✓ the ETag that A's write expects is back: yes\n",
            "✓ A's late write: 200\n",
            "✓ the object: \"busy: A\"\n",
        ],
    );
    let again = act(&text, "\nAct 3 again");
    assert_lines(
        again,
        &[
            "✓ the ETag that A's write expects is back: no\n",
            "✓ A's late write: 409 StaleFenceToken\n",
            "✓ the object: \"idle\"\n",
            "✓ fence_rejected_total: 0 → 1\n",
        ],
    );

    assert!(!text.contains('✗') && !text.contains('\u{1b}'), "{text}");
    let long: Vec<_> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(long.is_empty(), "wider than 80 columns: {long:#?}");
}

#[test]
fn without_the_fence_the_demo_says_so_and_fails() {
    let Played { output, text, .. } = play(&["--without-fence"]);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!act(&text, "\nAct 1").contains('✗'), "{text}");
    assert!(!act(&text, "\nAct 3:").contains('✗'), "{text}");
    for heading in ["\nAct 2", "\nAct 3 again"] {
        assert_lines(
            act(&text, heading),
            &[
                "✗ A's late write: 200\n    expected: 409 StaleFenceToken\n",
                "✗ the object: ",
                "✗ fence_rejected_total: 0 → 0\n    expected: 0 → 1\n",
            ],
        );
    }
}

/// The fence as most would build it: tokens are compared, writes are conditional, and nothing else.
#[tokio::test]
async fn without_avoidance_only_the_third_act_fails() {
    let mut options = Options::new(PROGRAM.into(), false);
    options.rules = Rules::ALL.without(Rule::Avoid);
    let mut out = Vec::new();
    let outcome = demo::play(&options, &mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(outcome.wrong > 0 && outcome.wrong < outcome.checks, "{outcome:?}\n{text}");
    assert!(!act(&text, "\nAct 2").contains('✗'), "{text}");
    assert_lines(
        act(&text, "\nAct 3 again"),
        &["✗ the ETag that A's write expects is back: yes\n", "✗ the object: \"busy: A\"\n"],
    );
}

/// Ends the demo with `signal` while A is stopped, which is when it is hardest to get rid of.
fn end_while_a_is_stopped(signal: Signal) -> (Option<i32>, String) {
    let mut child = command(&[]).spawn().unwrap();
    let id = pid(child.id());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let stopped = lines.by_ref().map(Result::unwrap).find(|line| line.contains("is stopped"));
    assert!(stopped.is_some(), "A was never stopped");
    kill_process(id, signal).unwrap();
    let mut errors = String::new();
    let status = child.wait().unwrap();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_gone(id);
    (status.code(), errors)
}

#[test]
fn ctrl_c_takes_the_workers_along() {
    let (code, errors) = end_while_a_is_stopped(Signal::INT);
    assert_eq!(code, Some(1));
    assert_eq!(errors, "fencepost: the demo was ended by a signal; nothing is left running\n");
}

/// Nothing of the demo's can run then; it is the kernel that has to kill the stopped worker.
#[cfg(target_os = "linux")]
#[test]
fn kill_9_takes_the_workers_along() {
    let (code, _) = end_while_a_is_stopped(Signal::KILL);
    assert_eq!(code, None);
}

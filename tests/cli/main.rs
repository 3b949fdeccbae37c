//! The commands that talk to a running proxy, by the real binary, against a proxy that a script
//! plays: what they send, what they print, how they end, and what becomes of the command of a lease.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may end at the first surprise")]

#[path = "../support/authority.rs"]
mod authority;
mod claim;
#[cfg(feature = "embedded-store")]
mod doctor;
mod lease;
mod policy;
#[cfg(feature = "embedded-store")]
mod real;
mod run;
mod run_lost;
mod script;

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use fencepost::clock;
use script::Script;

const ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "secret-of-the-example";

/// Long enough for any machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The binary with these arguments, sent to the script by `FENCEPOST_PROXY`, with a key pair and
/// nothing else of this process's environment but the path of programs.
fn fencepost(script: &Script, arguments: &[&str]) -> Command {
    let mut command = bare(arguments);
    command
        .env("FENCEPOST_PROXY", script.url())
        .env("AWS_ACCESS_KEY_ID", ID)
        .env("AWS_SECRET_ACCESS_KEY", SECRET);
    command
}

fn bare(arguments: &[&str]) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_fencepost"));
    // Nobody is asked who the machine is.
    command.args(arguments).env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

/// Another program that ends in executing `inner`, whose environment it has.
fn around(name: &str, arguments: &[&str], inner: &Command) -> Command {
    let mut command = program(name);
    let variables = inner.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(arguments).arg(inner.get_program()).args(inner.get_args()).envs(variables);
    command
}

#[expect(clippy::disallowed_methods, reason = "a test hands on where programs are")]
fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        // Not in the foreground of a terminal, even if the tests are.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs it to its end: exit code, standard output, standard error. One that does not end is killed.
fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let child = command.spawn().unwrap();
    let id = child.id().to_string();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(child.wait_with_output().unwrap()));
    let output: Output = receive.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let _killed = Command::new("kill").args(["-s", "KILL", &id]).status();
        panic!("{command:?} did not end within {} s", PATIENCE.as_secs())
    });
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A started binary that is signalled. Killed when it is dropped.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        let killed = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(killed.success(), "SIG{name} to {id}");
    }

    fn code(&mut self) -> Option<i32> {
        let mut status = None;
        until("the end of the command", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn until(what: &str, mut ask: impl FnMut() -> bool) {
    let deadline = clock::monotonic() + PATIENCE;
    while !ask() {
        assert!(clock::monotonic() < deadline, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}

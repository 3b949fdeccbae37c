//! The command of `lease run`: started, signalled, waited for.
//!
//! Without a terminal it gets a process group of its own, and signals go to that group: a shell
//! that is told to end does not tell what it has started. In the foreground of a terminal it stays
//! in this process's group, because a group in the background may not read from the terminal; the
//! terminal sends Ctrl-C to all of the group itself, so SIGINT and SIGQUIT are not passed on there.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;

use rustix::process::{Pid, Signal, getpgrp, kill_process, kill_process_group};
use rustix::termios::tcgetpgrp;
use tokio::process::Command;
use tokio::signal::unix::{self, SignalKind};

/// A variable of the command's environment.
pub(super) type Variable = (&'static str, String);

/// A signal that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    Hangup,
    Interrupt,
    Quit,
    Terminate,
}

impl Passed {
    fn signal(self) -> Signal {
        match self {
            Self::Hangup => Signal::HUP,
            Self::Interrupt => Signal::INT,
            Self::Quit => Signal::QUIT,
            Self::Terminate => Signal::TERM,
        }
    }

    /// Whether it comes from the keyboard, where there is one.
    fn is_typed(self) -> bool {
        match self {
            Self::Interrupt | Self::Quit => true,
            Self::Hangup | Self::Terminate => false,
        }
    }

    /// That of a shell for a process that the signal has ended.
    pub(super) fn exit_code(self) -> u8 {
        ended_by(self.signal().as_raw())
    }
}

fn ended_by(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The signals that this process gets from here on.
pub(super) struct Signals {
    hangup: Option<unix::Signal>,
    interrupt: Option<unix::Signal>,
    quit: Option<unix::Signal>,
    terminate: Option<unix::Signal>,
}

impl Signals {
    /// Listens, except for those that are ignored: whoever started this process in the background
    /// or under `nohup` wants that, and the command has it from its parents.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = ignored_signals();
        let listen = |kind: SignalKind| match ignored >> (kind.as_raw_value() - 1) & 1 {
            0 => unix::signal(kind).map(Some),
            _ => Ok(None),
        };
        Ok(Self {
            hangup: listen(SignalKind::hangup())?,
            interrupt: listen(SignalKind::interrupt())?,
            quit: listen(SignalKind::quit())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Passed {
        tokio::select! {
            () = of(&mut self.hangup) => Passed::Hangup,
            () = of(&mut self.interrupt) => Passed::Interrupt,
            () = of(&mut self.quit) => Passed::Quit,
            () = of(&mut self.terminate) => Passed::Terminate,
        }
    }
}

async fn of(signal: &mut Option<unix::Signal>) {
    match signal {
        Some(signal) => {
            if signal.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}

/// The signals that this process ignores, signal 1 in the lowest bit. Where Linux does not say it,
/// none.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Why there is no command.
#[derive(Debug, thiserror::Error)]
#[error("{program:?} cannot be started: {reason}")]
pub(super) struct StartError {
    program: OsString,
    reason: io::Error,
}

impl StartError {
    /// Those of a shell.
    pub(super) fn exit_code(&self) -> u8 {
        if self.reason.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

/// The command, running or ended.
pub(super) struct Child {
    process: tokio::process::Child,
    group: Group,
}

/// Whom a signal goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    /// The command, and whatever it has started.
    Own(Pid),
    /// The command alone, which has this process's group.
    Shared(Pid),
}

impl Child {
    /// Starts the program, which is the first of `command`, with the other ones as its arguments.
    pub(super) fn start(command: &[OsString], variables: &[Variable]) -> Result<Self, StartError> {
        let (program, arguments) =
            command.split_first().expect("the command line has a command, or is refused");
        let failed = |reason| StartError { program: program.clone(), reason };
        let mut start = Command::new(program);
        start.args(arguments).envs(variables.iter().map(|(name, value)| (name, value)));
        let shared = is_in_foreground();
        if !shared {
            start.process_group(0);
        }
        let process = start.spawn().map_err(failed)?;
        let id = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.expect("a process that has not been waited for has an id");
        let group = if shared { Group::Shared(id) } else { Group::Own(id) };
        Ok(Self { process, group })
    }

    /// Waits for its end. The exit code that a shell would have for it.
    pub(super) async fn wait(&mut self) -> io::Result<u8> {
        let status = self.process.wait().await?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.or_else(|| status.signal().map(ended_by)).unwrap_or(u8::MAX))
    }

    /// Passes on a signal that this process got.
    pub(super) fn pass_on(&self, signal: Passed) {
        match self.group {
            // The terminal has sent it already.
            Group::Shared(_) if signal.is_typed() => {}
            Group::Shared(_) | Group::Own(_) => self.send(signal.signal()),
        }
    }

    /// Asks it to end.
    pub(super) fn terminate(&self) {
        self.send(Signal::TERM);
    }

    /// One that has gone cannot be signalled, and need not be: it has not been waited for, so its
    /// number is nobody else's.
    fn send(&self, signal: Signal) {
        let _gone = match self.group {
            Group::Own(id) => kill_process_group(id, signal),
            Group::Shared(id) => kill_process(id, signal),
        };
    }
}

/// Whether this process is in the foreground of its terminal.
fn is_in_foreground() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    tcgetpgrp(&terminal).is_ok_and(|foreground| foreground == getpgrp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn exit_codes_are_those_of_a_shell() {
        let run = |script: &str| {
            let command = ["sh", "-c", script].map(OsString::from);
            Child::start(&command, &[("FENCE_TOKEN", "7".to_owned())]).unwrap()
        };
        assert_eq!(run("exit 7").wait().await.unwrap(), 7);
        assert_eq!(run("exit $FENCE_TOKEN").wait().await.unwrap(), 7);
        assert_eq!(run("kill -KILL $$").wait().await.unwrap(), 137);
        let start = |program: &str| Child::start(&[program.into()], &[]).err().unwrap();
        assert_eq!(start("/nowhere/at-all").exit_code(), 127);
        assert_eq!(start("/").exit_code(), 126);
        assert_eq!(Passed::Interrupt.exit_code(), 130);
    }
}

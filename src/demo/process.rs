//! Worker processes, as the demo holds them: started, told what to do, stopped, and ended.
//!
//! None outlives the demo. It is killed when its handle is dropped, which covers errors, Ctrl-C and
//! panics; its standard input ends with the demo, on which it exits by itself; and since a stopped
//! process cannot do that, Linux is asked to kill it with its parent ([`die_with_parent`]).
//! Elsewhere the kernel sends a process that was stopped, and left behind by its group, SIGHUP and
//! SIGCONT (POSIX, `_exit`).

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::BufReader;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::wire::{self, Answer, Grant, Order, Report, Role};
use super::{DemoError, worker_arguments};

/// How long a process may take to be stopped.
const STOP_MAX: Duration = Duration::from_secs(2);

/// How often it is looked whether it is.
const STOP_POLL: Duration = Duration::from_millis(2);

/// One worker.
pub(super) struct Worker {
    name: &'static str,
    id: u32,
    child: Child,
    orders: ChildStdin,
    reports: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts `program` as a worker. Its environment is empty, so that no setting of the user's
    /// changes what the AWS SDK does.
    pub(super) async fn start(
        program: &Path,
        name: &'static str,
        role: &Role,
    ) -> Result<Self, DemoError> {
        let mut child = Command::new(program)
            .args(worker_arguments(name))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(DemoError::io(format!("{} cannot be started", program.display())))?;
        let id = child.id().expect("it has not been waited for");
        let orders = child.stdin.take().expect("it is piped");
        let reports = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut worker = Self { name, id, child, orders, reports };
        worker.tell(role).await?;
        Ok(worker)
    }

    /// `A` or `B`.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The process's id.
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Asks for the lock; [`acquired`](Self::acquired) waits for it.
    pub(super) async fn acquire(&mut self) -> Result<(), DemoError> {
        self.tell(&Order::Acquire).await
    }

    /// The lock that was asked for.
    pub(super) async fn acquired(&mut self) -> Result<Grant, DemoError> {
        let Report::Acquired(grant) = self.report().await? else { return Err(self.out_of_turn()) };
        Ok(grant)
    }

    /// How much of the lease is left.
    pub(super) async fn lease_left(&mut self) -> Result<Duration, DemoError> {
        self.tell(&Order::CheckLease).await?;
        let Report::LeaseLeft(ms) = self.report().await? else { return Err(self.out_of_turn()) };
        Ok(Duration::from_millis(ms))
    }

    /// Lets it write; [`answered`](Self::answered) waits for what comes of it.
    pub(super) async fn put(&mut self, body: &str, if_match: bool) -> Result<(), DemoError> {
        self.tell(&Order::Put { body: body.to_owned(), if_match }).await
    }

    /// The answer to the write.
    pub(super) async fn answered(&mut self) -> Result<Answer, DemoError> {
        let Report::Answered(answer) = self.report().await? else { return Err(self.out_of_turn()) };
        Ok(answer)
    }

    /// Stops the process (SIGSTOP), and waits until it is.
    pub(super) async fn stop(&self) -> Result<(), DemoError> {
        let stopped = async {
            signal::stop(self.id)?;
            while !signal::is_stopped(self.id)? {
                tokio::time::sleep(STOP_POLL).await;
            }
            Ok(())
        };
        let stopped = tokio::time::timeout(STOP_MAX, stopped).await;
        stopped
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(DemoError::io(format!("worker {} cannot be stopped", self.name)))
    }

    /// Lets the process go on (SIGCONT).
    pub(super) fn resume(&self) -> Result<(), DemoError> {
        signal::resume(self.id)
            .map_err(DemoError::io(format!("worker {} cannot be continued", self.name)))
    }

    /// Kills the process, and waits until it is gone.
    pub(super) async fn end(mut self) -> Result<(), DemoError> {
        let killed = self.child.kill().await;
        killed.map_err(DemoError::io(format!("worker {} cannot be ended", self.name)))
    }

    async fn tell<T: serde::Serialize + Sync>(&mut self, what: &T) -> Result<(), DemoError> {
        let told = wire::send(&mut self.orders, what).await;
        told.map_err(DemoError::io(format!("worker {} cannot be reached", self.name)))
    }

    async fn report(&mut self) -> Result<Report, DemoError> {
        let report = wire::receive(&mut self.reports).await;
        let report = report
            .map_err(DemoError::io(format!("worker {} reports what is no report", self.name)))?;
        match report {
            Some(Report::Failed(why)) => Err(self.wrong(why)),
            Some(report) => Ok(report),
            None => Err(self.wrong("it has ended".to_owned())),
        }
    }

    fn out_of_turn(&self) -> DemoError {
        self.wrong("it reports what it was not asked for".to_owned())
    }

    fn wrong(&self, what: String) -> DemoError {
        DemoError::Worker { name: self.name, what }
    }
}

/// Has the kernel kill this process when its parent dies, where the kernel can.
pub(super) fn die_with_parent() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    Ok(())
}

#[cfg(unix)]
mod signal {
    use std::io;

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

    pub(super) fn stop(id: u32) -> io::Result<()> {
        Ok(kill_process(pid(id)?, Signal::STOP)?)
    }

    pub(super) fn resume(id: u32) -> io::Result<()> {
        Ok(kill_process(pid(id)?, Signal::CONT)?)
    }

    /// Whether the child is stopped. It only looks: it is tokio that waits for the child's end.
    pub(super) fn is_stopped(id: u32) -> io::Result<bool> {
        let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(pid(id)?), look)?.is_some_and(|status| status.stopped()))
    }

    fn pid(id: u32) -> io::Result<Pid> {
        let id = i32::try_from(id).ok().and_then(Pid::from_raw);
        id.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }
}

#[cfg(not(unix))]
mod signal {
    use std::io;

    pub(super) fn stop(_id: u32) -> io::Result<()> {
        Err(unsupported())
    }

    pub(super) fn resume(_id: u32) -> io::Result<()> {
        Err(unsupported())
    }

    pub(super) fn is_stopped(_id: u32) -> io::Result<bool> {
        Err(unsupported())
    }

    fn unsupported() -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, "this system has no SIGSTOP")
    }
}

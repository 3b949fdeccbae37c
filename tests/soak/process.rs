//! The processes of a soak: started, stopped, woken and killed; none outlives the test.
//!
//! All are this test program, started anew with a [`Role`]. It asks the kernel to be killed with
//! the test, stopped or not, and then becomes what its role says.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost::clock;
use fencepost::config::Environment;
use http::Method;
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use crate::support::{Backend, s3, soon};
use crate::talk::{self, Order, Report, Role, Site};
use crate::{contender, writer};

const ROLE: &str = "FENCEPOST_TEST_SOAK_ROLE";

/// How long a worker may take for what it was told.
const WORKER_PATIENCE: Duration = Duration::from_secs(90);

#[test]
#[ignore = "the process that a soak stops and kills; not a test"]
fn process_of_a_soak() {
    let environment = Environment::of_process();
    let Some(role) = environment.get(ROLE) else {
        println!("nothing to do: started without {ROLE}");
        return;
    };
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    match serde_json::from_str(role).unwrap() {
        Role::Program(arguments) => {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fencepost"));
            panic!("it cannot be started: {}", command.args(arguments).exec());
        }
        Role::Writer(site) => runtime().block_on(writer::run(site)),
        Role::Contender(site) => runtime().block_on(contender::run(site)),
    }
}

fn command(role: &Role) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "process::process_of_a_soak", "--nocapture"]);
    command.env(ROLE, serde_json::to_string(role).unwrap());
    command.env("AWS_EC2_METADATA_DISABLED", "true").env("NO_COLOR", "1").kill_on_drop(true);
    command
}

/// A process that can be stopped.
struct Process {
    child: Child,
    pid: Pid,
}

impl Process {
    fn new(child: Child) -> Self {
        let pid = i32::try_from(child.id().unwrap()).unwrap();
        Self { child, pid: Pid::from_raw(pid).unwrap() }
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }
}

/// What every proxy of a soak is started with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    store: String,
    ledger: String,
    pub(crate) access_key_id: String,
    pub(crate) secret_access_key: String,
    settings: String,
}

impl Setup {
    pub(crate) fn new(backend: &Backend, settings: &str) -> Self {
        let (id, secret) = backend.key_pair();
        Self {
            store: backend.endpoint.clone(),
            ledger: backend.ledger.clone(),
            access_key_id: id.to_owned(),
            secret_access_key: secret.to_owned(),
            settings: settings.to_owned(),
        }
    }
}

/// One `fencepost serve`.
pub(crate) struct Program {
    process: Process,
    setup: Setup,
    pub(crate) data: SocketAddr,
    admin: SocketAddr,
    troubles: Arc<Mutex<Vec<String>>>,
}

impl Program {
    pub(crate) async fn start(setup: &Setup) -> Self {
        let any = "127.0.0.1:0".parse().unwrap();
        let troubles = Arc::default();
        Self::started(setup, any, any, troubles).await.expect("the proxy did not start")
    }

    async fn started(
        setup: &Setup,
        data: SocketAddr,
        admin: SocketAddr,
        troubles: Arc<Mutex<Vec<String>>>,
    ) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("fencepost.toml");
        std::fs::write(&file, &setup.settings).unwrap();
        let arguments = [
            "serve".into(),
            format!("--backend={}", setup.store),
            format!("--config={}", file.display()),
            format!("--ledger-bucket={}", setup.ledger),
            format!("--listen={data}"),
            format!("--admin={admin}"),
        ];
        let mut child = command(&Role::Program(arguments.into()))
            .env("AWS_ACCESS_KEY_ID", &setup.access_key_id)
            .env("AWS_SECRET_ACCESS_KEY", &setup.secret_access_key)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let addresses = soon("a line with the addresses", async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, rest)) = line.split_once("listening data=") {
                    let (data, admin) = rest.split_once(" admin=").unwrap();
                    return Some((data.parse().unwrap(), admin.trim().parse().unwrap()));
                }
                said.push(line);
            }
            None
        });
        let Some((data, admin)) = addresses.await else {
            println!("a proxy did not start: {}", said.join("\n"));
            return None;
        };
        let heard = Arc::clone(&troubles);
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains("ERROR") || line.contains("panicked") {
                    heard.lock().unwrap().push(line);
                }
            }
        });
        let setup = setup.clone();
        Some(Self { process: Process::new(child), setup, data, admin, troubles })
    }

    pub(crate) fn stop(&self) {
        self.process.signal(Signal::STOP);
    }

    pub(crate) fn wake(&self) {
        self.process.signal(Signal::CONT);
    }

    /// `kill -9`, and a new one in its place.
    pub(crate) async fn replace(&mut self, pause: Duration) {
        self.process.child.kill().await.unwrap();
        tokio::time::sleep(pause).await;
        // An outgoing connection may have the port for a moment.
        for _ in 0..20 {
            let (data, admin) = (self.data, self.admin);
            let troubles = Arc::clone(&self.troubles);
            if let Some(started) = Self::started(&self.setup, data, admin, troubles).await {
                *self = started;
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("the proxy on {} was not started again", self.data);
    }

    /// Lines of its log that tell of trouble.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.troubles.lock().unwrap().clone()
    }

    /// The value of a counter without labels.
    pub(crate) async fn counter(&self, name: &str) -> u64 {
        let answer = s3::unsigned(self.admin, Method::GET, "/metrics").await;
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    }
}

/// A worker process.
pub(crate) struct Worker {
    process: Process,
    orders: ChildStdin,
    ended: mpsc::UnboundedReceiver<Report>,
}

impl Worker {
    /// Starts one. `Begun` and `Ended` are waited for; every other report is given to `hear`.
    pub(crate) fn start(role: &Role, hear: impl Fn(Report) + Send + 'static) -> Self {
        let mut child = command(role).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, ended) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                match talk::parse(&line) {
                    Some(report @ (Report::Begun(_) | Report::Ended)) => {
                        // Nobody waits any more when the test has failed.
                        let _ = tell.send(report);
                    }
                    Some(report) => hear(report),
                    None => {}
                }
            }
        });
        Self { process: Process::new(child), orders, ended }
    }

    pub(crate) async fn tell(&mut self, order: &Order) {
        let line = format!("{}\n", serde_json::to_string(order).unwrap());
        self.orders.write_all(line.as_bytes()).await.unwrap();
        self.orders.flush().await.unwrap();
    }

    /// What it says next of itself.
    pub(crate) async fn next(&mut self) -> Report {
        let next = tokio::time::timeout(WORKER_PATIENCE, self.ended.recv()).await;
        next.expect("a worker did not come to an end").expect("a worker has died")
    }

    pub(crate) fn stop(&self) {
        self.process.signal(Signal::STOP);
    }

    pub(crate) fn wake(&self) {
        self.process.signal(Signal::CONT);
    }
}

/// What the workers of one soak have in common; the number and the seed are each one's own.
pub(crate) fn site(
    setup: &Setup,
    backend: &Backend,
    programs: &[Program],
    prefix: &str,
    keys: usize,
) -> Site {
    Site {
        worker: 0,
        proxies: programs.iter().map(|program| program.data).collect(),
        access_key_id: setup.access_key_id.clone(),
        secret_access_key: setup.secret_access_key.clone(),
        bucket: backend.bucket.clone(),
        prefix: prefix.to_owned(),
        keys,
        seed: clock::random_u128() as u64,
    }
}

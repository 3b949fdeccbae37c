//! What the play is played on: an embedded store, and two proxies in front of it.
//!
//! The proxies are the ones that `serve` runs, with the configuration's defaults, in this process:
//! two, because a fence that lives in one proxy's memory is none.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::wire::Role;
use super::{DemoError, Options};
use crate::config::Config;
use crate::devstore::{DevStore, Effect, Rule, RuleHandle, RunningStore};
use crate::listener::Drained;
use crate::server::{Server, Store};
use crate::telemetry::Reason;

/// The bucket that everything happens in.
const BUCKET: &str = "demo";

/// How long `/metrics` may take to be read.
const SCRAPE_MAX: Duration = Duration::from_secs(5);

/// How long a proxy may take to stop.
const STOP_MAX: Duration = Duration::from_secs(3);

/// The store and the proxies, running.
pub(super) struct Stage {
    store: RunningStore,
    /// The first proxy.
    pub(super) first: RunningProxy,
    /// The second proxy, on the same store, with the same ledger.
    pub(super) second: RunningProxy,
}

impl Stage {
    /// Starts everything on free loopback ports.
    pub(super) async fn set(options: &Options) -> Result<Self, DemoError> {
        let doing = || DemoError::io("the embedded store cannot be started");
        let store = DevStore::builder().build().map_err(doing())?;
        store.create_bucket(BUCKET).await.map_err(doing())?;
        let store = store.start().await.map_err(doing())?;
        let first = RunningProxy::start(&store, options).await?;
        let second = RunningProxy::start(&store, options).await?;
        Ok(Self { store, first, second })
    }

    /// The store's URL.
    pub(super) fn store_url(&self) -> String {
        self.store.endpoint()
    }

    /// What a worker has to know to write `key` at `endpoint` under the lock of the same name.
    pub(super) fn role(&self, endpoint: String, lock_service: SocketAddr, key: &str) -> Role {
        let store = self.store.store();
        Role {
            lock_service,
            lock: key.to_owned(),
            endpoint,
            bucket: BUCKET.to_owned(),
            key: key.to_owned(),
            access_key_id: store.access_key_id().to_owned(),
            secret_access_key: store.secret_access_key().to_owned(),
        }
    }

    /// The bytes of an object, as the store has them.
    pub(super) async fn object(&self, key: &str) -> Result<String, DemoError> {
        let object = self.store.store().object(BUCKET, key).await;
        let object = object.map_err(DemoError::io("the embedded store cannot be read"))?;
        Ok(object.map_or_else(
            || "(no object)".to_owned(),
            |object| String::from_utf8_lossy(&object.body).into_owned(),
        ))
    }

    /// Holds the next PUT of `key` that arrives at the store.
    pub(super) fn hold_put(&self, key: &str) -> RuleHandle {
        let rule = Rule::new(Effect::Hold).method(Method::PUT).bucket(BUCKET).key_prefix(key);
        self.store.store().faults().add(rule)
    }

    /// Stops everything.
    pub(super) async fn strike(self) {
        self.first.stop().await;
        self.second.stop().await;
        self.store.shutdown().await;
    }
}

/// One proxy, serving.
pub(super) struct RunningProxy {
    data: SocketAddr,
    admin: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Drained>,
}

impl RunningProxy {
    async fn start(store: &RunningStore, options: &Options) -> Result<Self, DemoError> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = Config { listen: any_port, admin_listen: any_port, ..Config::default() };
        config.ledger.create = true;
        config.fence.mode = options.mode;
        let (id, secret) = (store.store().access_key_id(), store.store().secret_access_key());
        let credentials = Credentials::new(id, secret, None, None, "the embedded store");
        let behind = Store {
            url: store.endpoint().parse().expect("a store's endpoint is a URL"),
            credentials: SharedCredentialsProvider::new(credentials),
            http: aws_smithy_http_client::Builder::new().build_http(),
        };
        let server = Server::start_with(&config, behind, options.rules).await?;
        let (data, admin) = (server.data_address(), server.admin_address());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(async {
            // A dropped sender stops it too.
            let _ = stopped.await;
        }));
        Ok(Self { data, admin, stop, task })
    }

    /// The URL for clients.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.data)
    }

    /// The URL of the metrics.
    pub(super) fn metrics_url(&self) -> String {
        format!("http://{}/metrics", self.admin)
    }

    /// `fence_rejected_total` of stale tokens, scraped as Prometheus does.
    pub(super) async fn rejected_total(&self) -> Result<u64, DemoError> {
        let wrong = |what: String| DemoError::Metrics { address: self.admin, what };
        let scraped = tokio::time::timeout(SCRAPE_MAX, get(self.admin, "/metrics")).await;
        let answer = scraped
            .map_err(|_| wrong("no answer".to_owned()))?
            .map_err(|error| wrong(error.to_string()))?;
        let reason = Reason::Stale.as_str();
        let name = format!("fence_rejected_total{{bucket=\"{BUCKET}\",reason=\"{reason}\"}} ");
        let mut values = answer.lines().filter_map(|line| line.strip_prefix(&name));
        let value = values.next().and_then(|value| value.trim().parse().ok());
        value.ok_or_else(|| wrong(format!("there is no line that begins with {name}")))
    }

    async fn stop(self) {
        drop(self.stop);
        // What is not finished by then ends with the process.
        let _late = tokio::time::timeout(STOP_MAX, self.task).await;
    }
}

/// The whole answer, head and body. HTTP/1.0 ends it with the connection.
async fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

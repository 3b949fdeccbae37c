//! One proxy in this process.

use std::net::SocketAddr;

use fencepost::listener::Drained;
use fencepost::server::Server;
use http::Method;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Backend, S3, s3, soon};

/// A running proxy. Dropped, it is gone as after `kill -9`: what was in flight is cut off.
pub(crate) struct Proxy {
    pub(crate) data: SocketAddr,
    pub(crate) admin: SocketAddr,
    client: S3,
    run: JoinHandle<Drained>,
    stop: Option<oneshot::Sender<()>>,
}

impl Proxy {
    pub(super) fn run(server: Server, backend: &Backend) -> Self {
        let (data, admin) = (server.data_address(), server.admin_address());
        let (stop, stopped) = oneshot::channel::<()>();
        let run = tokio::spawn(server.run(async {
            // A sender that is gone stops as well.
            let _ = stopped.await;
        }));
        Self { data, admin, client: backend.s3(data), run, stop: Some(stop) }
    }

    /// A client with a token.
    pub(crate) fn token(&self, token: u64) -> S3 {
        self.client.clone().session(&format!("fence:{token}"))
    }

    /// A client without one.
    pub(crate) fn plain(&self) -> S3 {
        self.client.clone()
    }

    /// Where an SDK has to send its requests.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.data)
    }

    /// Stops as on SIGTERM, and waits for the end.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        soon("the drain", &mut self.run).await.unwrap();
    }

    /// Stops as by `kill -9`, and waits until nothing of it runs any more.
    pub(crate) async fn kill(mut self) {
        self.run.abort();
        let _ = (&mut self.run).await;
    }

    /// What the admin listener answers.
    pub(crate) async fn admin(&self, path: &str) -> (u16, String) {
        let answer = s3::unsigned(self.admin, Method::GET, path).await;
        (answer.status, String::from_utf8(answer.body.to_vec()).unwrap())
    }

    /// The sum of a counter over all samples whose labels contain `labels`.
    pub(crate) async fn counter(&self, name: &str, labels: &str) -> u64 {
        let (_, text) = self.admin("/metrics").await;
        let samples = text.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
        samples
            .filter(|(found, _)| found.is_empty() || found.starts_with('{'))
            .filter(|(found, _)| found.contains(labels))
            .map(|(_, value)| value.parse::<u64>().unwrap())
            .sum()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if self.stop.is_some() {
            self.run.abort();
        }
    }
}

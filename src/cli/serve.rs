//! `fencepost serve`: the proxy in front of a real store.

use std::future::Future;

use aws_config::{BehaviorVersion, Region};
use fencepost::config::Config;
use fencepost::listener::{self, Drained};
use fencepost::server::{Server, Store, store};

use super::Failure;

/// Runs until a signal ends it. The configuration has been checked and the log is set up.
pub(crate) async fn run(config: Config) -> Result<(), Failure> {
    let stop = listener::termination()?;
    let server = Server::start(&config, store_of(&config).await?).await?;
    tracing::info!("listening data={} admin={}", server.data_address(), server.admin_address());
    finish(server, stop).await;
    Ok(())
}

/// The store of the configuration, with the credentials of this process.
pub(super) async fn store_of(config: &Config) -> Result<Store, Failure> {
    let url = config.required_backend_url()?.clone();
    let http = store::sdk_http_client(config.backend.ca_file.as_deref())?;
    let aws = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http.clone())
        .region(Region::new(config.backend.region.clone()))
        .load()
        .await;
    let credentials =
        aws.credentials_provider().ok_or("the AWS SDK has no credentials provider")?;
    Ok(Store { url, credentials, http })
}

/// Serves until `stop`, and says how it ended.
pub(super) async fn finish(server: Server, stop: impl Future<Output = ()>) {
    match server.run(stop).await {
        Drained::Completely => tracing::info!("stopped"),
        Drained::Cut => tracing::warn!("stopped; requests that took too long were cut off"),
    }
}

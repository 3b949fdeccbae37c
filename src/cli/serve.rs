//! `fencepost serve`: the proxy in front of a real store.

use fencepost::config::Config;

use super::Failure;

/// Runs until a signal ends it. The configuration has been checked and the log is set up.
pub(crate) async fn run(config: Config) -> Result<(), Failure> {
    let backend = config.required_backend_url()?;
    Err(format!("the proxy for {backend} is not assembled in this build").into())
}

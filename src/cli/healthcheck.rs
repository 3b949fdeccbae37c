//! `fencepost healthcheck`: asks `/readyz` of a running proxy.
//!
//! For container images without a shell or curl. It finds the admin listener the way `serve`
//! does, so that inside of the container it needs no argument.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fencepost::config::flags::CommonFlags;
use fencepost::config::{Config, Environment, Purpose};

use super::{Failure, print};

/// Docker gives a health check 30 s and Kubernetes an exec probe 1 s by default.
const TIMEOUT: Duration = Duration::from_millis(900);

/// More than `/readyz` ever says.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Flags of `healthcheck`.
#[derive(Args, Clone, Debug)]
pub(crate) struct HealthcheckFlags {
    /// Address of the admin listener [default: that of the configuration]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// The configuration file of the proxy
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Exit code 0 when the proxy is ready, else 1; prints what `/readyz` says.
pub(crate) fn run(flags: &HealthcheckFlags) -> Result<ExitCode, Failure> {
    let common = CommonFlags {
        admin: flags.admin.clone(),
        config: flags.config.clone(),
        ..CommonFlags::default()
    };
    let sources = common.sources(Vec::new(), Environment::of_process())?;
    let config = Config::load(&sources, Purpose::Other)?;
    let address = reachable(config.admin_listen);
    let answer = get_readyz(address).map_err(|error| format!("{address}: {error}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    print(body);
    let status = head.split(' ').nth(1);
    Ok(if status == Some("200") { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A listener on every address is reached on loopback.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        SocketAddr::V4(_) | SocketAddr::V6(_) => listen.ip(),
    };
    SocketAddr::new(ip, listen.port())
}

/// The whole answer, head and body. HTTP/1.0 ends it with the connection.
fn get_readyz(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /readyz HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

//! The admin listener over a socket, asked by the binary's own health check.

#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

use std::process::{Command, Output};
use std::sync::Arc;

use fencepost::admin::{self, Admin, Probe, Readiness};
use fencepost::listener::Listener;
use fencepost::telemetry::{Metrics, Traffic};

async fn healthcheck(address: std::net::SocketAddr) -> (Option<i32>, String) {
    let output: Output = tokio::task::spawn_blocking(move || {
        Command::new(env!("CARGO_BIN_EXE_fencepost"))
            .arg("healthcheck")
            .env_clear()
            // Every address is listened on, loopback is asked.
            .env("FENCEPOST_ADMIN_LISTEN", format!("0.0.0.0:{}", address.port()))
            .output()
            .unwrap()
    })
    .await
    .unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn a_health_check_says_what_readyz_says() {
    let readiness = Readiness::new("records");
    let admin = Admin::new(Arc::new(Metrics::new()), readiness.clone());
    let free = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    let listener = Listener::bind(free, admin::LIMITS, Traffic::unregistered()).await.unwrap();
    let address = listener.local_addr();
    let server = tokio::spawn(listener.serve(admin, std::future::pending()));

    let (code, text) = healthcheck(address).await;
    assert_eq!(code, Some(1));
    assert!(text.contains("\"state\": \"pending\""), "{text}");

    readiness.set_probe(Probe::Passed { findings: [].into() });
    let (code, text) = healthcheck(address).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("\"ready\": true"), "{text}");
    server.abort();
}

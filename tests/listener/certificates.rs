//! Certificate files: read at start, read again when they change, and refused when they are wrong.

use std::path::Path;
use std::time::Duration;

use fencepost::config::{Seconds, TlsConfig};
use fencepost::server::certificates::{CertificateError, Certificates};

use crate::authority::{Authority, Identity};
use crate::streams::soon;
use crate::tls::{HOST, ask_over, handshake};
use crate::{LIMITS, Server, get, serve};

fn settings(directory: &Path) -> TlsConfig {
    TlsConfig {
        certificate_file: Some(directory.join("certificate.pem")),
        key_file: Some(directory.join("key.pem")),
        reload_seconds: Seconds::new(1),
        ..TlsConfig::default()
    }
}

/// A server with these settings, whose files are watched.
async fn watched(settings: &TlsConfig) -> Server {
    let certificates = Certificates::load(settings).await.unwrap().unwrap();
    let server = serve(LIMITS, Some(certificates.tls())).await;
    tokio::spawn(certificates.watch());
    server
}

/// Whether a client that trusts `authority` alone can speak to the server.
async fn trusted(server: &Server, authority: &Authority, identity: Option<&Identity>) -> bool {
    let Ok(mut stream) = handshake(server.address, authority.client(identity, &[])).await else {
        return false;
    };
    // In TLS 1.3 the client learns last what the server thinks of its certificate.
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let request = get("/b").replace("Host", "Connection: close\r\nHost");
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).await.is_ok()
        && soon(stream.read_to_string(&mut answer)).await.is_ok()
        && answer.ends_with("/b")
}

async fn until_trusted(server: &Server, authority: &Authority) {
    soon(async {
        while !trusted(server, authority, None).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_new_certificate_is_taken_and_a_wrong_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    old.issue(HOST).write(directory.path());
    let server = watched(&settings(directory.path())).await;
    assert!(trusted(&server, &old, None).await);
    assert!(!trusted(&server, &new, None).await);

    // A key of another certificate, no certificate, no file: all for longer than one look.
    let certificate = directory.path().join("certificate.pem");
    std::fs::write(directory.path().join("key.pem"), new.issue(HOST).key).unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(trusted(&server, &old, None).await, "the old pair stays");
    std::fs::write(&certificate, "no certificate").unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(trusted(&server, &old, None).await, "the old pair stays");
    std::fs::remove_file(&certificate).unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(trusted(&server, &old, None).await, "the old pair stays");

    let mut open = handshake(server.address, old.client(None, &[])).await.unwrap();
    new.issue(HOST).write(directory.path());
    until_trusted(&server, &new).await;
    assert!(!trusted(&server, &old, None).await);
    let answer = ask_over(&mut open, &get("/b")).await;
    assert!(answer.ends_with("/b"), "an open connection goes on: {answer}");
}

#[cfg(unix)]
#[tokio::test]
async fn sighup_makes_it_look_at_once() {
    use rustix::process::{Signal, getpid, kill_process};
    use tokio::signal::unix::{SignalKind, signal};
    // From here on the signal does not end this process.
    let mut noticed = signal(SignalKind::hangup()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    old.issue(HOST).write(directory.path());
    let rarely = TlsConfig { reload_seconds: Seconds::new(86_400), ..settings(directory.path()) };
    let server = watched(&rarely).await;
    new.issue(HOST).write(directory.path());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(trusted(&server, &old, None).await, "nobody has looked yet");
    kill_process(getpid(), Signal::HUP).unwrap();
    soon(noticed.recv()).await.unwrap();
    until_trusted(&server, &new).await;
}

#[tokio::test]
async fn clients_show_a_certificate_where_an_authority_for_them_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    ours.issue(HOST).write(directory.path());
    let client_ca = directory.path().join("clients.pem");
    std::fs::write(&client_ca, theirs.pem()).unwrap();
    let settings =
        TlsConfig { client_ca_file: Some(client_ca.clone()), ..settings(directory.path()) };
    let server = watched(&settings).await;
    let known = theirs.issue("worker");
    assert!(trusted(&server, &ours, Some(&known)).await);
    assert!(!trusted(&server, &ours, None).await, "a certificate is required");
    let stranger = Authority::new("strangers").issue("worker");
    assert!(!trusted(&server, &ours, Some(&stranger)).await);
    assert_eq!(server.traffic.in_flight_requests.get(), 0);

    // It is followed like the certificate.
    let next = Authority::new("next");
    std::fs::write(&client_ca, next.pem()).unwrap();
    let known_next = next.issue("worker");
    soon(async {
        while !trusted(&server, &ours, Some(&known_next)).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert!(!trusted(&server, &ours, Some(&known)).await);
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let authority = Authority::new("authority");
    authority.issue(HOST).write(directory.path());
    std::fs::write(path("other-key.pem"), authority.issue(HOST).key).unwrap();
    std::fs::write(path("ca.pem"), authority.pem()).unwrap();
    std::fs::write(path("text.pem"), "nothing").unwrap();
    std::fs::write(path("cut.pem"), "-----BEGIN CERTIFICATE-----\nMIIB\n").unwrap();

    let good = || TlsConfig { client_ca_file: Some(path("ca.pem")), ..settings(directory.path()) };
    assert!(Certificates::load(&good()).await.unwrap().is_some());
    assert!(Certificates::load(&TlsConfig::default()).await.unwrap().is_none());
    let certificate = |name| TlsConfig { certificate_file: Some(path(name)), ..good() };
    let key = |name| TlsConfig { key_file: Some(path(name)), ..good() };
    let client_ca = |name| TlsConfig { client_ca_file: Some(path(name)), ..good() };
    let cases = [
        (certificate("none.pem"), "tls.certificate_file", "none.pem: No such file"),
        (certificate("text.pem"), "tls.certificate_file", "text.pem: there is no certificate"),
        (certificate("cut.pem"), "tls.certificate_file", "cut.pem: it is not a PEM file"),
        (certificate("key.pem"), "tls.certificate_file", "key.pem: there is no certificate"),
        (key("none.pem"), "tls.key_file", "none.pem: No such file"),
        (key("certificate.pem"), "tls.key_file", "certificate.pem: there is no private key in it"),
        (key("other-key.pem"), "tls.certificate_file and the key in tls.key_file: ", "key"),
        (client_ca("none.pem"), "tls.client_ca_file", "none.pem: No such file"),
        (client_ca("text.pem"), "tls.client_ca_file", "text.pem: there is no certificate"),
    ];
    for (settings, setting, why) in cases {
        let error: CertificateError = Certificates::load(&settings).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(setting) && text.contains(why), "{text}");
    }
}

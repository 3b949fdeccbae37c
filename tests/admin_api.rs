//! The admin API over a socket, on an API that a test plays: who is let in, what is answered, what
//! the audit log says; and `fencepost scopes`, `inspect` and `reset` against it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may end at the first surprise")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use fencepost::admin::{
    self, Admin, AdminApi, AdminError, AdminGate, AdminTokens, Page, Readiness, ResetDone,
    ResetOrder,
};
use fencepost::listener::Listener;
use fencepost::s3::Bucket;
use fencepost::telemetry::{Metrics, Traffic};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const TOKENS: &str = "anna:0123456789abcdef\nbob:fedcba9876543210\n";
const ANNA: &str = "authorization: Bearer 0123456789abcdef\r\n";

/// Two pages of scopes; every scope's highest token is 42; what it was asked for.
#[derive(Debug, Default)]
struct Played(Mutex<Vec<String>>);

impl Played {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn calls(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl AdminApi for Played {
    async fn list(&self, page: &Page) -> Result<Value, AdminError> {
        let bucket = page.bucket.as_ref().map(Bucket::as_str);
        self.note(format!("list {bucket:?} {:?} {}", page.after, page.max));
        let scope = |name: &str, lease: Value| {
            json!({ "scope": format!("s3://photos/{name}"), "bucket": "photos", "key": name,
                    "token": "42", "intents": 1, "lease": lease })
        };
        let held = json!({ "token": "42", "holder": "h:1", "expires_at": 1_700_000_012 });
        Ok(match page.after.as_deref() {
            None => json!({ "scopes": [scope("a", held)], "next": "more/ &" }),
            Some("more/ &") => json!({ "scopes": [scope("b", Value::Null)], "next": null }),
            Some(other) => panic!("nobody was told {other}"),
        })
    }

    async fn inspect(&self, bucket: &Bucket, path: &[u8]) -> Result<Value, AdminError> {
        self.note(format!("inspect {bucket} {}", path.escape_ascii()));
        Ok(json!({ "scope": "s3://photos/p/*", "mode": "require", "compare": "at-least",
                   "per": "prefix", "record": null, "store_time": 5 }))
    }

    async fn reset(
        &self,
        bucket: &Bucket,
        path: &[u8],
        order: &ResetOrder,
    ) -> Result<ResetDone, AdminError> {
        self.note(format!("reset {bucket} {} {order:?}", path.escape_ascii()));
        if order.to.get() < 42 && !order.force {
            let message = "the highest token is 42";
            let refused = AdminError::new(StatusCode::CONFLICT, "FenceResetRefused", message);
            return Err(AdminError { highest: Some(42), ..refused });
        }
        let (scope, to) = ("s3://photos/p/*".to_owned(), order.to.get());
        Ok(ResetDone { scope, from: Some(42), to, resets: 1 })
    }
}

/// A listening API, and what it logs. Requests are answered on the test's own thread.
struct Served {
    address: SocketAddr,
    played: Arc<Played>,
    log: Log,
    _logging: tracing::subscriber::DefaultGuard,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Served {
    async fn start() -> Self {
        let played = Arc::new(Played::default());
        let gate = AdminGate::new(AdminTokens::parse_file(TOKENS).unwrap());
        gate.open(Arc::clone(&played) as Arc<dyn AdminApi>);
        Self::start_with(gate, played).await
    }

    async fn start_with(gate: AdminGate, played: Arc<Played>) -> Self {
        let (log, free) = (Log::default(), (std::net::Ipv4Addr::LOCALHOST, 0).into());
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let admin = Admin::new(Arc::new(Metrics::new()), Readiness::new("records")).with_api(gate);
        let listener = Listener::bind(free, admin::LIMITS, Traffic::unregistered()).await.unwrap();
        let address = listener.local_addr();
        tokio::spawn(listener.serve(admin, std::future::pending()));
        let logging = tracing::subscriber::set_default(subscriber);
        Self { address, played, log, _logging: logging }
    }

    /// Status, head, and body.
    async fn send(&self, line: &str, headers: &str, body: &str) -> (u16, String, Value) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut request =
            format!("{line} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        write!(request, "{headers}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head.to_owned(), serde_json::from_str(body).unwrap())
    }

    async fn reset(&self, headers: &str, body: &Value) -> (u16, Value) {
        let line = "POST /scopes/photos/p/a%20b";
        let (status, _, answer) = self.send(line, headers, &body.to_string()).await;
        (status, answer)
    }

    /// The lines of the audit so far.
    fn audit(&self) -> Vec<String> {
        let log = String::from_utf8(self.log.0.lock().unwrap().clone()).unwrap();
        let lines = log.lines().filter(|line| line.contains("fencepost::audit"));
        lines.map(str::to_owned).collect()
    }

    /// Runs the binary against it, as anna.
    async fn fencepost(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(TOKENS.as_bytes()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
        command
            .args(arguments)
            .env_clear()
            .env("FENCEPOST_ADMIN_URL", format!("http://{}", self.address))
            .env("FENCEPOST_ADMIN_TOKEN_FILE", file.path())
            .env("FENCEPOST_ADMIN_NAME", "anna");
        let output: Output =
            tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

#[tokio::test]
async fn only_who_has_a_token_is_let_in() {
    let served = Served::start().await;
    for headers in [
        "",
        "authorization: Bearer 0123456789abcdee\r\n",
        "authorization: Bearer \r\n",
        "authorization: Bearer\r\n",
        "authorization: Basic 0123456789abcdef\r\n",
        "authorization: 0123456789abcdef\r\n",
        "x-token: 0123456789abcdef\r\n",
    ] {
        for line in ["GET /scopes", "GET /scopes/photos/a", "POST /scopes/photos/a", "PUT /scopes"]
        {
            let (status, head, body) = served.send(line, headers, "{}").await;
            assert_eq!((status, &body["code"]), (401, &json!("Unauthorized")), "{line} {headers}");
            assert!(head.contains("www-authenticate: Bearer"), "{head}");
            assert_eq!(body["request_id"].as_str().unwrap().len(), 16, "{body}");
        }
    }
    assert_eq!(served.played.calls(), [""; 0], "nothing was asked of the API");
    let (status, ..) =
        served.send("GET /scopes", "Authorization: bearer 0123456789abcdef\r\n", "").await;
    assert_eq!(status, 200, "the scheme is not case-sensitive");
}

#[tokio::test]
async fn without_a_token_file_the_api_is_off() {
    let served = Served::start_with(AdminGate::default(), Arc::default()).await;
    for line in ["GET /scopes", "GET /scopes/photos/a", "POST /scopes/photos/a"] {
        let (status, _, body) = served.send(line, ANNA, "").await;
        assert_eq!((status, &body["code"]), (403, &json!("AdminApiOff")), "{line}");
        assert!(body["message"].as_str().unwrap().contains("admin.token_file"), "{body}");
    }
    let tokens = AdminTokens::parse_file(TOKENS).unwrap();
    let served = Served::start_with(AdminGate::new(tokens), Arc::default()).await;
    let (status, _, body) = served.send("GET /scopes", ANNA, "").await;
    assert_eq!((status, &body["code"]), (503, &json!("ServiceUnavailable")), "it starts");
}

#[tokio::test]
async fn requests_reach_the_api_decoded_once() {
    let served = Served::start().await;
    served.send("GET /scopes?bucket=photos&after=more%2F%20%26&max=7", ANNA, "").await;
    served.send("GET /scopes?max=5000", ANNA, "").await;
    served.send("GET /scopes/photos/a%2520b%2Fc%FF", ANNA, "").await;
    served.send("GET /scopes/photos", ANNA, "").await;
    let calls = [
        "list Some(\"photos\") Some(\"more/ &\") 7",
        "list None None 1000",
        "inspect photos a%20b/c\\xff",
        "inspect photos ",
    ];
    assert_eq!(served.played.calls(), calls);
    for (line, status) in [
        ("GET /scopes?max=0", 400),
        ("GET /scopes?max=many", 400),
        ("GET /scopes?after=%FF", 400),
        ("GET /scopes//a", 400),
        ("DELETE /scopes", 405),
        ("PUT /scopes/photos/a", 405),
    ] {
        assert_eq!(served.send(line, ANNA, "").await.0, status, "{line}");
    }
    assert_eq!(served.played.calls().len(), calls.len());
}

#[tokio::test]
async fn a_reset_is_answered_and_audited() {
    let served = Served::start().await;
    let body = json!({ "action": "reset", "to": "50", "reason": "a backup", "force": false });
    let (status, answer) = served.reset(ANNA, &body).await;
    let expected = json!({ "scope": "s3://photos/p/*", "from": "42", "to": "50", "resets": 1 });
    assert_eq!((status, answer), (200, expected));
    let [line] = &served.audit()[..] else { panic!("one line: {:?}", served.audit()) };
    for part in [
        "who=\"anna\"",
        "scope=\"s3://photos/p/*\"",
        "from=\"42\"",
        "to=\"50\"",
        "force=false",
        "reason=\"a backup\"",
        "outcome=\"reset\"",
        "client=\"127.0.0.1:",
        "request_id=\"",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[tokio::test]
async fn a_refused_reset_is_audited_as_well() {
    let served = Served::start().await;
    let down = json!({ "action": "reset", "to": "7", "reason": "why" });
    let (status, answer) = served.reset(ANNA, &down).await;
    assert_eq!((status, &answer["code"]), (409, &json!("FenceResetRefused")));
    assert_eq!(answer["token"], "42");
    let stranger = "authorization: Bearer 0000000000000000\r\n";
    assert_eq!(served.reset(stranger, &down).await.0, 401);
    let long = "r".repeat(1025);
    let wrong = [
        json!({ "action": "reset", "to": "50", "reason": " " }),
        json!({ "action": "reset", "to": "50" }),
        json!({ "action": "reset", "to": "50", "reason": "one\nanother who=\"eve\"" }),
        json!({ "action": "reset", "to": "50", "reason": long }),
        json!({ "action": "reset", "to": "0", "reason": "why" }),
        json!({ "action": "reset", "to": 50, "reason": "why" }),
        json!({ "action": "delete", "to": "50", "reason": "why" }),
        json!({ "action": "reset", "to": "50", "reason": "why", "by": "eve" }),
        json!("reset"),
    ];
    for body in &wrong {
        let (status, answer) = served.reset(ANNA, body).await;
        assert_eq!((status, &answer["code"]), (400, &json!("InvalidRequest")), "{body}");
    }
    assert_eq!(served.played.calls().len(), 1, "only the first reached the API");

    let audit = served.audit();
    assert_eq!(audit.len(), 2 + wrong.len(), "one line each: {audit:#?}");
    assert!(audit[0].contains("from=\"42\"") && audit[0].contains("outcome=\"FenceResetRefused\""));
    assert!(audit[1].contains("who=\"-\"") && audit[1].contains("outcome=\"Unauthorized\""));
    assert!(audit[1].contains("scope=\"s3://photos/p/a b\""), "{}", audit[1]);
    for line in &audit[2..] {
        assert!(line.contains("who=\"anna\"") && line.contains("outcome=\"InvalidRequest\""));
    }
    assert!(!audit.concat().contains("0000000000000000"), "no token is logged");
}

#[tokio::test]
async fn a_body_has_a_limit_and_a_strangers_is_not_read() {
    let served = Served::start().await;
    let reason = "r".repeat(80 * 1024);
    let large = json!({ "action": "reset", "to": "50", "reason": reason });
    let (status, answer) = served.reset(ANNA, &large).await;
    assert_eq!((status, &answer["code"]), (413, &json!("EntityTooLarge")));
    assert_eq!(served.reset("", &large).await.0, 401);
    let outcomes = ["EntityTooLarge", "Unauthorized"];
    for (line, outcome) in served.audit().iter().zip(outcomes) {
        assert!(line.contains(&format!("outcome=\"{outcome}\"")), "{line}");
    }
    assert_eq!(served.audit().len(), outcomes.len());
}

#[tokio::test]
async fn the_commands_show_scopes_and_reset_them() {
    let served = Served::start().await;
    let (code, out, err) = served.fencepost(&["scopes", "--bucket", "photos"]).await;
    assert_eq!((code, &*err), (Some(0), ""));
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 3, "both pages: {out}");
    assert!(lines[0].starts_with("SCOPE          TOKEN  INTENTS  LEASE"), "{out}");
    assert!(lines[1].contains("h:1, token 42, until 2023-11-14T22:13:32Z"), "{out}");
    let (_, out, _) = served.fencepost(&["scopes", "--json"]).await;
    let out: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["scopes"].as_array().unwrap().len(), 2);

    let (code, out, _) = served.fencepost(&["inspect", "s3://photos/p/a b"]).await;
    assert_eq!(code, Some(0));
    assert!(out.contains("mode     require\n"), "{out}");

    let reset = ["reset", "s3://photos/p/", "--reason", "why", "--to"];
    let (code, out, _) = served.fencepost(&[&reset[..], &["50"]].concat()).await;
    let expected = "s3://photos/p/*: the highest token was 42 and is 50\n";
    assert_eq!((code, &*out), (Some(0), expected));
    let (code, _, err) = served.fencepost(&[&reset[..], &["7"]].concat()).await;
    assert_eq!(code, Some(1));
    assert!(err.contains("FenceResetRefused") && err.contains("--force"), "{err}");
    let (code, ..) = served.fencepost(&[&reset[..], &["7", "--force"]].concat()).await;
    assert_eq!(code, Some(0));
    assert_eq!(served.audit().len(), 3, "one attempt each");
}

#[tokio::test]
async fn the_commands_say_what_their_token_lacks() {
    let served = Served::start().await;
    let (code, _, err) = served.fencepost(&["scopes", "--admin-name", "eve"]).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("no token of eve"), "{err}");
    let (code, _, err) = served.fencepost(&["scopes", "--admin-token-file", "/nowhere"]).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("/nowhere"), "{err}");
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"anna:0000000000000000\n").unwrap();
    let path = file.path().to_str().unwrap();
    let (code, _, err) = served.fencepost(&["scopes", "--admin-token-file", path]).await;
    assert_eq!(code, Some(77));
    assert!(err.contains("Unauthorized"), "{err}");
    assert_eq!(served.played.calls(), [""; 0]);

    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    let output = command.args(["inspect", "s3://photos/a"]).env_clear().output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err.contains("--admin-token-file"), "{err}");
}

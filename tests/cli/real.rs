//! The commands against the proxy itself, over the embedded store.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Command;

use fencepost::clock;
use serde_json::Value;

use crate::{PATIENCE, Running, bare, ended};

const TOKENS: &str = "anna:0123456789abcdef\n";
const SCOPE: &str = "s3://demo/p/";

/// `fencepost dev`, with a scope of many keys.
struct Dev {
    _process: Running,
    data: String,
    admin: String,
    environment: Vec<(String, String)>,
    tokens: tempfile::NamedTempFile,
}

impl Dev {
    fn start() -> Self {
        let mut tokens = tempfile::NamedTempFile::new().unwrap();
        tokens.write_all(TOKENS.as_bytes()).unwrap();
        let scope = "scope=[{ bucket = \"demo\", prefix = \"p/\", per = \"prefix\" }]";
        let file = format!("admin.token_file={}", tokens.path().display());
        let free = "127.0.0.1:0";
        let arguments =
            ["dev", "--listen", free, "--admin", free, "--set", scope, "--set", file.as_str()];
        let mut command = bare(&arguments);
        // Its log is not read, and must not fill a pipe.
        command.stderr(std::process::Stdio::null());
        let mut process = Running::start(&mut command);
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        let (mut data, mut admin, mut environment) = (None, None, Vec::new());
        let deadline = clock::monotonic() + PATIENCE;
        while environment.len() < 3 && clock::monotonic() < deadline {
            let line = lines.next().expect("its banner").unwrap();
            let word = |at| line.split_whitespace().nth(at).map(str::to_owned);
            match word(0).as_deref() {
                Some("S3") => data = word(1),
                Some("admin") => admin = word(1),
                Some("export") => {
                    let (name, value) = line["export ".len()..].split_once('=').unwrap();
                    environment.push((name.to_owned(), value.to_owned()));
                }
                Some(_) | None => {}
            }
        }
        let (data, admin) = (data.unwrap(), admin.unwrap());
        Self { _process: process, data, admin, environment, tokens }
    }

    fn fencepost(&self, arguments: &[&str]) -> Command {
        let mut command = bare(arguments);
        command
            .envs(self.environment.iter().cloned())
            .env("FENCEPOST_PROXY", &self.data)
            .env("FENCEPOST_ADMIN_URL", &self.admin)
            .env("FENCEPOST_ADMIN_TOKEN_FILE", self.tokens.path());
        command
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let (code, out, err) = ended(&mut self.fencepost(arguments));
        assert_eq!(code, Some(0), "{arguments:?}: {err}");
        serde_json::from_str(&out).unwrap()
    }

    fn code(&self, arguments: &[&str]) -> Option<i32> {
        ended(&mut self.fencepost(arguments)).0
    }
}

#[test]
fn claims_leases_and_administration_fit_the_proxy() {
    let dev = Dev::start();
    let shown = dev.json(&["lease", "show", SCOPE, "--json"]);
    assert_eq!((&shown["token"], &shown["lease"]), (&Value::Null, &Value::Null));
    assert_eq!(dev.code(&["lease", "show", SCOPE]), Some(0));
    assert_eq!(dev.code(&["claim", SCOPE, "--token", "42"]), Some(0));
    assert_eq!(dev.code(&["claim", SCOPE, "--token", "41"]), Some(75), "it is stale");
    assert_eq!(dev.code(&["claim", "s3://demo/q/", "--token", "1"]), Some(1), "it is no scope");
    assert_eq!(dev.code(&["claim", "s3://demo/a b%2F?c#d&e=\u{e4}", "--token", "1"]), Some(0));

    // A lease, and within it a command of its own that claims with its token.
    let binary = env!("CARGO_BIN_EXE_fencepost");
    let inside = format!(
        "{binary} claim {SCOPE} --token $FENCE_TOKEN >&2 && echo $FENCE_SCOPE && \
         {binary} lease show {SCOPE} --json && sleep 2"
    );
    let run = ["lease", "run", SCOPE, "--ttl", "2s", "--holder", "me", "--", "sh", "-c", &inside];
    let (code, out, err) = ended(&mut dev.fencepost(&run));
    assert_eq!(code, Some(0), "{err}");
    let (scope, state) = out.split_once('\n').unwrap();
    let state: Value = serde_json::from_str(state).unwrap();
    assert_eq!((scope, &state["lease"]["holder"]), ("s3://demo/p/*", &Value::from("me")));
    assert_eq!(dev.json(&["lease", "show", SCOPE, "--json"])["lease"], Value::Null, "released");

    let lease = dev.json(&["lease", "acquire", SCOPE, "--wait", "0"]);
    let token: u64 = lease["token"].as_str().unwrap().parse().unwrap();
    assert!(token > 43, "{lease}");
    let id = lease["id"].as_str().unwrap();
    let (code, _, err) = ended(&mut dev.fencepost(&["lease", "acquire", SCOPE, "--wait", "0"]));
    assert_eq!(code, Some(73), "{err}");
    assert!(err.contains("has it until"), "{err}");
    assert_eq!(dev.json(&["lease", "renew", SCOPE, "--id", id])["token"], lease["token"]);

    let scopes = dev.json(&["scopes", "--bucket", "demo", "--json"]);
    assert_eq!(scopes["scopes"].as_array().unwrap().len(), 2, "{scopes}");
    assert_eq!(dev.code(&["scopes"]), Some(0));
    let inspected = dev.json(&["inspect", "s3://demo/p/some/key", "--json"]);
    assert_eq!(inspected["scope"], "s3://demo/p/*");
    assert_eq!(inspected["per"], "prefix");
    assert_eq!(inspected["record"]["token"], lease["token"]);
    assert_eq!(dev.code(&["inspect", SCOPE]), Some(0));

    let reset = ["reset", SCOPE, "--reason", "a test", "--to"];
    assert_eq!(dev.code(&[&reset[..], &["7"]].concat()), Some(1), "it would go down");
    assert_eq!(dev.code(&[&reset[..], &["7", "--force"]].concat()), Some(0));
    let record = &dev.json(&["inspect", SCOPE, "--json"])["record"];
    assert_eq!((&record["token"], &record["resets"]), (&Value::from("7"), &Value::from(1)));
    assert_eq!(record["last_reset"]["by"], "anna");
    assert_eq!(dev.code(&["lease", "renew", SCOPE, "--id", id]), Some(75), "it is nobody's");
    assert_eq!(dev.code(&["claim", SCOPE, "--token", "8"]), Some(0));
}

#[test]
fn a_reset_ends_the_command_of_a_lease() {
    let dev = Dev::start();
    let text = format!("trap 'exit 0' TERM; echo ready; {}", crate::run::BUSY);
    let run = ["lease", "run", SCOPE, "--ttl", "3s", "--", "sh", "-c", &text];
    let mut running = Running::start(&mut dev.fencepost(&run));
    let mut ready = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    assert_eq!(dev.code(&["reset", SCOPE, "--to", "50", "--reason", "a test"]), Some(0));
    assert_eq!(running.code(), Some(75));
}

//! The admin API over real records: scopes are listed, inspected, and reset by hand.

use std::io::Write as _;
use std::time::Duration;

use fencepost::devstore::{Effect, Profile};
use http::Method;
use serde_json::{Value, json};

use super::support::{Backend, Proxy, soon};
use super::{PATIENT, TIDY, on_data};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

const SCOPES: &str = "[[scope]]\nbucket = \"data\"\nprefix = \"jobs/\"\nper = \"prefix\"\n";

/// A file with the token of one administrator.
fn token_file() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "ops:{TOKEN}").unwrap();
    file
}

fn settings(base: &str, file: &tempfile::NamedTempFile) -> String {
    format!("{base}admin.token_file = \"{}\"\n{SCOPES}", file.path().display())
}

async fn call(proxy: &Proxy, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let (status, body) = send(proxy, method, path, body).await;
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// One request to the admin listener, with the token.
async fn send(proxy: &Proxy, method: Method, path: &str, body: Option<Value>) -> (u16, Vec<u8>) {
    use http_body_util::{BodyExt as _, Full};
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;

    let client: Client<_, Full<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let request = http::Request::builder()
        .method(method)
        .uri(format!("http://{}{path}", proxy.admin))
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(Full::new(body.into()))
        .unwrap();
    let answer = client.request(request).await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.into_body().collect().await.unwrap().to_bytes().to_vec())
}

async fn reset(proxy: &Proxy, path: &str, to: u64, force: bool) -> (u16, Value) {
    let body =
        json!({ "action": "reset", "to": to.to_string(), "reason": "restored", "force": force });
    call(proxy, Method::POST, &format!("/scopes/data/{path}"), Some(body)).await
}

#[tokio::test]
async fn scopes_are_listed_and_inspected() {
    let file = token_file();
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(&settings(PATIENT, &file)).await;
    assert_eq!(proxy.token(7).put("one", "x").await.short(), "200");
    let named = proxy.token(8).with("x-fence-lock", "nightly").with("x-fence-holder", "a");
    assert_eq!(named.put("jobs/a", "x").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = proxy.token(8);
    let stuck = tokio::spawn(async move { client.put("jobs/a%20b", "y").await });
    soon("a parked request", parked.wait_parked(1)).await;

    let (status, listed) = call(&proxy, Method::GET, "/scopes?bucket=data", None).await;
    assert_eq!(status, 200, "{listed}");
    let scopes = listed["scopes"].as_array().unwrap();
    let names: Vec<&str> = scopes.iter().map(|scope| scope["scope"].as_str().unwrap()).collect();
    assert_eq!(names, ["s3://data/jobs/*", "s3://data/one"]);
    assert_eq!((&scopes[0]["prefix"], &scopes[0]["token"]), (&json!("jobs/"), &json!("8")));
    assert_eq!((&scopes[1]["key"], &scopes[1]["lease"]), (&json!("one"), &Value::Null));
    let (_, page) = call(&proxy, Method::GET, "/scopes?max=1", None).await;
    let next = page["next"].as_str().unwrap();
    let (_, page) = call(&proxy, Method::GET, &format!("/scopes?max=1&after={next}"), None).await;
    assert_eq!(page["scopes"][0]["scope"], "s3://data/one");

    let (status, shown) = call(&proxy, Method::GET, "/scopes/data/jobs/anything", None).await;
    assert_eq!(status, 200, "{shown}");
    assert_eq!((&shown["scope"], &shown["per"]), (&json!("s3://data/jobs/*"), &json!("prefix")));
    let record = &shown["record"];
    assert_eq!((&record["token"], &record["holder"]), (&json!("8"), &json!("a")));
    assert_eq!(record["lock"], json!({ "name": "nightly", "mode": "exclusive" }));
    let intents = record["intents"].as_array().unwrap();
    let open = intents.iter().find(|intent| intent["key"] == "jobs/a%20b").unwrap();
    assert_eq!((&open["action"], &open["expects"]), (&json!("conditional"), &json!("absent")));
    assert!(open["registered_at"].as_u64() <= shown["store_time"].as_u64(), "{shown}");
    let (status, nothing) = call(&proxy, Method::GET, "/scopes/data/untouched", None).await;
    assert_eq!((status, &nothing["record"]), (200, &Value::Null));
    let (status, refused) = call(&proxy, Method::GET, "/scopes/data/other/", None).await;
    assert_eq!((status, &refused["code"]), (400, &json!("FenceNotAScope")));
    parked.release();
    assert_eq!(soon("its answer", stuck).await.unwrap().short(), "200");
}

/// The token source has gone back: its new holder is let in by hand, through whatever proxy.
#[tokio::test]
async fn a_reset_lets_a_token_source_that_has_gone_back_in_again() {
    let file = token_file();
    for (path, key) in [("jobs/", "jobs/a"), ("one", "one")] {
        let backend = Backend::embedded(Profile::Aws).await;
        let (one, other) = backend.proxies(&settings(TIDY, &file)).await;
        assert_eq!(one.token(42).put(key, "x").await.short(), "200");
        for proxy in [&one, &other] {
            assert_eq!(proxy.token(7).put(key, "new").await.short(), "409 StaleFenceToken");
        }
        let (status, refused) = reset(&one, path, 7, false).await;
        assert_eq!((status, &refused["code"]), (409, &json!("FenceResetRefused")), "{refused}");
        assert_eq!(refused["token"], "42");
        let (status, done) = reset(&one, path, 7, true).await;
        assert_eq!(status, 200, "{done}");
        assert_eq!(
            (&done["from"], &done["to"], &done["resets"]),
            (&json!("42"), &json!("7"), &json!(1))
        );
        assert_eq!(one.token(7).put(key, "new").await.short(), "200", "at once here");
        assert_eq!(one.token(6).put(key, "x").await.short(), "409 StaleFenceToken");
        // The other proxy remembers the old record for a few seconds, and no longer.
        let mut answer = String::new();
        for _ in 0..40 {
            answer = other.token(8).put(key, "newer").await.short();
            if answer == "200" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        assert_eq!(answer, "200", "{path}");
        assert_eq!(one.token(7).put(key, "late").await.short(), "409 StaleFenceToken");
        let shown = call(&other, Method::GET, &format!("/scopes/data/{path}"), None).await.1;
        let last = &shown["record"]["last_reset"];
        assert_eq!((&last["by"], &last["reason"]), (&json!("ops"), &json!("restored")));
    }
}

/// What is open when a record is reset is older than whoever comes after, whatever its number.
#[tokio::test]
async fn who_comes_after_a_reset_waits_for_what_was_open() {
    let file = token_file();
    let backend = Backend::embedded(Profile::Aws).await;
    let (one, other) = backend.proxies(&settings(TIDY, &file)).await;
    assert_eq!(one.token(42).put("jobs/a", "x").await.short(), "200");
    let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
    let client = one.token(42);
    let late = tokio::spawn(async move { client.put("jobs/a", "late").await });
    soon("a parked request", parked.wait_parked(1)).await;
    assert_eq!(reset(&other, "jobs/", 7, true).await.0, 200);
    let barred = other.token(7).put("jobs/b", "new").await;
    assert_eq!(barred.short(), "503 FenceBarrier");
    parked.release();
    assert_eq!(soon("its answer", late).await.unwrap().short(), "200");
    assert_eq!(other.token(7).put("jobs/b", "new").await.short(), "200");
    assert_eq!(reset(&other, "never-seen", 7, true).await.1["code"], "FenceResetRefused");
}

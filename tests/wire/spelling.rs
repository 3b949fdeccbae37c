//! The bytes of path and query on their way to the store.

use fencepost::devstore::Profile;
use http::Method;

use super::OPEN;
use super::support::{Backend, Scripted};

/// Targets that arrive byte for byte. `{long}` is a key of 1024 bytes.
const KEPT: [&str; 34] = [
    "k",
    "/k",
    "//k//",
    "a//b",
    "a/./b",
    "a/../b",
    "../k",
    "..",
    ".",
    "./",
    "a/b/",
    "...",
    "~-_.",
    "a%20b",
    "a%2Bb",
    "%25",
    "%252F",
    "100%25",
    "caf%C3%A9",
    "cafe%CC%81",
    "%E6%97%A5%E6%9C%AC/%F0%9F%94%92",
    "%00",
    "%01%1F%7F%09%0A%0D",
    "%5C%22%3C%3E%60%7B%7D%7C%5E%23%3F",
    "%21%2A%27%28%29%3B%3A%40%26%3D%24%2C%5B%5D",
    "{long}",
    "k?tagging",
    "k?tagging=",
    "k?",
    "k?versionId=a%2Fb%2bc+d&&x=%c3%a9",
    "k?b=1&a=1&%62=2&%61=3",
    "k?response-content-type=text/plain;charset=utf-8&x-id=GetObject",
    "k?a=b=c?d/e:@!$'()*,",
    "?list-type=2&prefix=a%2F%2e%2e%2F&delimiter=%2F&encoding-type=url",
];

/// Targets that name the same key in another spelling than the canonical one, and what arrives: the
/// store computes the signature over the canonical spelling, or over what it gets, and only there
/// are the two the same.
const RESPELT: [(&str, &str); 8] = [
    ("a%2Fb", "a/b"),
    ("a%2fb", "a/b"),
    ("a+b", "a%2Bb"),
    ("dt=1", "dt%3D1"),
    ("caf%c3%a9", "caf%C3%A9"),
    ("%41%2D%7e", "A-~"),
    ("%2e%2e/k", "../k"),
    ("k:(1),*!'@$&;", "k%3A%281%29%2C%2A%21%27%40%24%26%3B"),
];

/// No UTF-8, and so no key for S3: no store verifies a signature over it.
const NO_KEY: &str = "%FF%FE";

fn target(bucket: &str, text: &str) -> String {
    let separator = if text.starts_with('?') { "" } else { "/" };
    format!("/{bucket}{separator}{}", text.replace("{long}", &"k".repeat(1024)))
}

/// Sends every target, and looks at what the store got and whether it took the signature for good.
async fn passes_byte_for_byte(backend: &Backend) {
    let store = Scripted::recording(backend).await;
    // Whether the client's own signature can be verified is another matter (`tests/auth_e2e.rs`).
    let proxy = backend.by_way_of(store.endpoint()).proxy(OPEN).await;
    let kept = KEPT.into_iter().chain([NO_KEY]).map(|text| (text, text));
    for (sent, arrives) in kept.chain(RESPELT) {
        let verified = sent != NO_KEY;
        let (sent, arrives) = (target(&backend.bucket, sent), target(&backend.bucket, arrives));
        let before = store.lines().len();
        let answer = proxy.plain().send(Method::GET, &sent, "").await;
        let text = String::from_utf8_lossy(&answer.body);
        assert!(answer.status != 403 || !verified, "{sent}: {text}");
        assert_eq!(store.lines().split_off(before), [format!("GET {arrives}")]);
    }
}

#[tokio::test]
async fn path_and_query_reach_the_embedded_store_as_they_came() {
    passes_byte_for_byte(&Backend::embedded(Profile::Aws).await).await;
}

#[tokio::test]
async fn path_and_query_reach_seaweedfs_as_they_came() {
    let Some(backend) = Backend::seaweedfs().await else { return };
    passes_byte_for_byte(&backend).await;
}

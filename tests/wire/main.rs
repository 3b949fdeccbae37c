//! What passes between a client and the store, byte by byte, where no fence is in the way.
//!
//! The store is a script (`tests/support/scripted.rs`), so that it can do what a real one does once
//! a month: end a connection in the middle of a body, send white space for a minute, or close an
//! idle connection in the moment in which the next request is written.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../support/mod.rs"]
mod support;

mod cuts;
mod expect;
mod heads;
mod pool;
mod spelling;
mod streams;

use fencepost::devstore::Profile;
use support::{Backend, Caller, Proxy, Scripted, Wire};

/// Anybody may ask, and nothing is fenced.
const OPEN: &str = "auth.mode = \"none\"\nfence.mode = \"off\"\n";

/// A proxy in front of a store that plays `script` on every connection, and what is behind them.
struct Stage {
    _backend: Backend,
    store: Scripted,
    proxy: Proxy,
}

impl Stage {
    async fn set<F, S>(settings: &str, script: S) -> Self
    where
        S: Fn(Wire) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let backend = Backend::embedded(Profile::Aws).await;
        let store = Scripted::before(&backend, script).await;
        let proxy = backend.by_way_of(store.endpoint()).proxy(&format!("{OPEN}{settings}")).await;
        Self { _backend: backend, store, proxy }
    }

    /// A new connection to the proxy.
    async fn caller(&self) -> Caller {
        Caller::to(self.proxy.data).await
    }
}

/// A request for a key of the data bucket, without a body.
fn ask(method: &str, key: &str, headers: &str) -> String {
    format!("{method} /data/{key} HTTP/1.1\r\nHost: proxy\r\n{headers}\r\n")
}

/// A request with a body.
fn put(key: &str, body: &str) -> String {
    ask("PUT", key, &format!("Content-Length: {}\r\n", body.len())) + body
}

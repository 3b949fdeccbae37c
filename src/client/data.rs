//! The data port: claims and leases.

use std::fmt;
use std::time::{Duration, Instant};

use aws_credential_types::Credentials;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::error::ClientError;
use super::retry::{Repeat, repeated};
use super::{Location, Server};
use crate::auth::{PayloadHash, SignatureForm, Signer};
use crate::clock;
use crate::fence::Token;

/// How long the proxy is let wait in one request. Less than the idle time-outs of load balancers,
/// so that waiting longer is done by asking again.
const POLL_MAX: Duration = Duration::from_secs(20);

/// How long an answer may take beyond what the proxy was let wait.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The same for an acquisition, which has to shut the older tokens out when it has the lease: the
/// proxy gives that `fence.contention_wait_seconds_max`, 10 seconds by default.
const ACQUIRED_MAX: Duration = Duration::from_secs(20);

/// How long the release may take of a lease that may have been acquired for nobody.
const TIDY_MAX: Duration = Duration::from_secs(2);

/// What requests are signed with.
#[derive(Clone)]
pub struct KeyPair {
    /// The access key id.
    pub id: String,
    /// The secret access key.
    pub secret: String,
    /// The region of the signature. The proxy takes any.
    pub region: String,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({}, {})", self.id, self.region)
    }
}

/// A client of the data port. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DataClient {
    server: Server,
    keys: Option<KeyPair>,
}

/// An answer: what is known of it, and all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// What is known of it.
    pub value: T,
    /// As the proxy wrote it.
    pub json: Value,
}

/// A scope in which nothing with a lower token takes effect any more.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Claimed {
    /// The scope, as the proxy shows it.
    pub scope: String,
    /// The token that it was claimed with.
    #[serde(deserialize_with = "token")]
    pub token: u64,
}

/// What is asked for when a lease is acquired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// For how long, unless it is renewed.
    pub ttl_seconds: u64,
    /// Who asks, for people.
    pub holder: String,
    /// 32 hexadecimal digits by which the proxy knows a repetition of this request.
    pub id: String,
}

impl Acquire {
    /// A request with an id of its own.
    #[must_use]
    pub fn new(ttl_seconds: u64, holder: impl Into<String>) -> Self {
        Self { ttl_seconds, holder: holder.into(), id: format!("{:032x}", clock::random_u128()) }
    }
}

/// A lease as its holder sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Grant {
    /// The scope, as the proxy shows it.
    pub scope: String,
    /// The fencing token that came with it.
    #[serde(deserialize_with = "token")]
    pub token: u64,
    /// What it is renewed and released by.
    pub id: String,
    /// For how long it was granted.
    pub ttl_seconds: u64,
    /// When it ends, by the store's clock.
    pub expires_at: u64,
    /// The store's time when the answer was made.
    pub store_time: u64,
}

impl Grant {
    /// How long the lease lasts from when the answer was made. Counted from before the request was
    /// sent it is never too long, whatever the difference between the clocks.
    #[must_use]
    pub fn lasts(&self) -> Duration {
        let left = self.expires_at.saturating_sub(self.store_time);
        Duration::from_secs(left.min(self.ttl_seconds))
    }
}

/// A lease that was asked for and given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquired {
    /// The lease.
    pub grant: Answer<Grant>,
    /// When the request was sent that it is the answer to.
    pub asked_at: Instant,
}

/// A lease that was given back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Released {
    /// The scope, as the proxy shows it.
    pub scope: String,
    /// The token it had.
    #[serde(deserialize_with = "token")]
    pub token: u64,
}

/// A scope's lease as anybody sees it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LeaseState {
    /// The scope, as the proxy shows it.
    pub scope: String,
    /// The highest token that was admitted.
    #[serde(default, deserialize_with = "optional_token")]
    pub token: Option<u64>,
    /// The last lease that was not released.
    pub lease: Option<HeldLease>,
    /// The store's time, if it has told it.
    pub store_time: Option<u64>,
}

/// Somebody's lease.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HeldLease {
    /// The fencing token that came with it.
    #[serde(deserialize_with = "token")]
    pub token: u64,
    /// Who has it.
    pub holder: String,
    /// Since when, by the store's clock.
    #[serde(default)]
    pub acquired_at: Option<u64>,
    /// Until when, by the store's clock.
    pub expires_at: u64,
    /// Whether that is over.
    #[serde(default)]
    pub expired: bool,
}

impl DataClient {
    /// A client that signs with `keys`; without, for a proxy that asks for no signatures.
    #[must_use]
    pub fn new(server: Server, keys: Option<KeyPair>) -> Self {
        Self { server, keys }
    }

    /// Shuts every lower token out of a scope.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`Code::Barrier`](super::Code) when writes of lower tokens are still on
    /// their way at `until`.
    pub async fn claim(
        &self,
        location: &Location,
        token: Token,
        until: Instant,
    ) -> Result<Answer<Claimed>, ClientError> {
        let path = format!("/_fence/claim{}", location.to_request_path());
        repeated(Repeat::Always, until, async || {
            let wait = poll(until);
            let mut call = Call::new(Method::PUT, &path, ANSWER_MAX + wait);
            call.token = Some(token);
            call.wait = Some(wait);
            self.call(&call).await
        })
        .await
    }

    /// Acquires the lease of a scope, waiting for its holder's to end.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`Code::LeaseHeld`](super::Code) when somebody else has it at `until`.
    pub async fn acquire(
        &self,
        location: &Location,
        asked: &Acquire,
        until: Instant,
    ) -> Result<Acquired, ClientError> {
        let mut ambiguous = false;
        let acquired = repeated(Repeat::Always, until, async || {
            let wait = poll(until);
            let body = json!({
                "action": "acquire",
                "ttl_seconds": asked.ttl_seconds,
                "holder": asked.holder,
                "wait_seconds": wait.as_secs(),
                "id": asked.id,
            });
            let asked_at = clock::monotonic();
            let grant = self.lease(location, &body, ACQUIRED_MAX + wait).await;
            ambiguous |= grant.as_ref().is_err_and(ClientError::is_ambiguous);
            Ok(Acquired { grant: grant?, asked_at })
        })
        .await;
        if acquired.is_err() && ambiguous {
            // It may have been granted all the same, and would keep others out until it ends.
            let _unknown = self.release(location, &asked.id, TIDY_MAX).await;
        }
        acquired
    }

    /// Prolongs a lease, in one attempt.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`Code::LeaseLost`](super::Code) when it is no longer that of `id`.
    pub async fn renew(
        &self,
        location: &Location,
        id: &str,
        ttl_seconds: Option<u64>,
        timeout: Duration,
    ) -> Result<Answer<Grant>, ClientError> {
        let mut body = json!({ "action": "renew", "id": id });
        if let Some(seconds) = ttl_seconds {
            body["ttl_seconds"] = seconds.into();
        }
        self.lease(location, &body, timeout).await
    }

    /// The same, repeated until `until`.
    ///
    /// # Errors
    ///
    /// As for [`renew`](Self::renew).
    pub async fn renew_until(
        &self,
        location: &Location,
        id: &str,
        ttl_seconds: Option<u64>,
        until: Instant,
    ) -> Result<Answer<Grant>, ClientError> {
        repeated(Repeat::Always, until, async || {
            self.renew(location, id, ttl_seconds, ANSWER_MAX).await
        })
        .await
    }

    /// Gives a lease back. Sent once more only when it was not carried out: after a lost answer
    /// nobody could tell a release that had worked from a lease that was lost.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`Code::LeaseLost`](super::Code) when it is no longer that of `id`.
    pub async fn release(
        &self,
        location: &Location,
        id: &str,
        within: Duration,
    ) -> Result<Answer<Released>, ClientError> {
        let body = json!({ "action": "release", "id": id });
        repeated(Repeat::Unchanged, clock::monotonic() + within, async || {
            self.lease(location, &body, within).await
        })
        .await
    }

    /// Who has the lease of a scope.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn lease_state(
        &self,
        location: &Location,
        until: Instant,
    ) -> Result<Answer<LeaseState>, ClientError> {
        let path = lease_path(location);
        repeated(Repeat::Always, until, async || {
            self.call(&Call::new(Method::GET, &path, ANSWER_MAX)).await
        })
        .await
    }

    async fn lease<T: DeserializeOwned>(
        &self,
        location: &Location,
        body: &Value,
        timeout: Duration,
    ) -> Result<Answer<T>, ClientError> {
        let path = lease_path(location);
        let mut call = Call::new(Method::POST, &path, timeout);
        call.body = Bytes::from(body.to_string());
        self.call(&call).await
    }

    /// Signs and sends one request.
    async fn call<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<Answer<T>, ClientError> {
        let json = self.server.send(self.request(call)?, call.timeout).await?;
        match T::deserialize(&json) {
            Ok(value) => Ok(Answer { value, json }),
            Err(why) => Err(self.server.unexpected(&why)),
        }
    }

    fn request(&self, call: &Call<'_>) -> Result<Request<Bytes>, ClientError> {
        let mut request = Request::new(call.body.clone());
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = self.server.uri(call.path)?;
        let headers = request.headers_mut();
        if let Some(wait) = call.wait {
            headers.insert("x-fence-wait", HeaderValue::from(wait.as_secs()));
        }
        if !call.body.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let Some(keys) = &self.keys else {
            if let Some(token) = call.token {
                headers.insert("x-fence-token", HeaderValue::from(token.get()));
            }
            return Ok(request);
        };
        let payload = match call.body.is_empty() {
            true => PayloadHash::Empty,
            false => PayloadHash::Sha256(Sha256::digest(&call.body).into()),
        };
        // As the session token, it is signed. One that is in the environment is not for this
        // request: it is that of the lease around it, or has nothing to say to a proxy.
        let session = call.token.map(|token| format!("fence:{}", token.get()));
        let credentials = Credentials::new(&keys.id, &keys.secret, session, None, "the caller");
        let signer = Signer::new(credentials, keys.region.clone());
        let (mut parts, body) = request.into_parts();
        signer
            .sign(&mut parts, payload, clock::now(), SignatureForm::Header)
            .map_err(|error| ClientError::Unsigned(error.to_string()))?;
        Ok(Request::from_parts(parts, body))
    }
}

/// A request, before it is signed.
struct Call<'a> {
    method: Method,
    path: &'a str,
    token: Option<Token>,
    wait: Option<Duration>,
    body: Bytes,
    timeout: Duration,
}

impl<'a> Call<'a> {
    fn new(method: Method, path: &'a str, timeout: Duration) -> Self {
        Self { method, path, token: None, wait: None, body: Bytes::new(), timeout }
    }
}

fn lease_path(location: &Location) -> String {
    format!("/_fence/lease{}", location.to_request_path())
}

/// How long the proxy is let wait, in whole seconds.
fn poll(until: Instant) -> Duration {
    let left = until.saturating_duration_since(clock::monotonic());
    Duration::from_secs(left.min(POLL_MAX).as_secs())
}

/// Tokens are texts in JSON, because many readers of it have no 64 bits for a number.
fn token<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| serde::de::Error::custom("a token that is no number"))
}

fn optional_token<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize, Serialize)]
    struct Text(#[serde(deserialize_with = "token")] u64);
    Ok(Option::<Text>::deserialize(deserializer)?.map(|Text(token)| token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(keys: bool) -> DataClient {
        let server = Server::new("http://127.0.0.1:9000".parse().unwrap(), None).unwrap();
        let text = |text: &str| text.to_owned();
        let keys = keys.then(|| KeyPair {
            id: text("AKID"),
            secret: text("secret"),
            region: text("us-east-1"),
        });
        DataClient::new(server, keys)
    }

    fn claim() -> Call<'static> {
        let mut call = Call::new(Method::PUT, "/_fence/claim/photos/a%2520b/", ANSWER_MAX);
        call.token = Token::new(42);
        call.wait = Some(Duration::from_secs(10));
        call
    }

    #[test]
    fn a_claim_carries_its_token_signed() {
        let request = client(true).request(&claim()).unwrap();
        let header = |name: &str| request.headers()[name].to_str().unwrap();
        let uri = "http://127.0.0.1:9000/_fence/claim/photos/a%2520b/";
        assert_eq!(request.uri().to_string(), uri, "encoded once");
        assert_eq!(header("x-amz-security-token"), "fence:42");
        assert_eq!(header("x-fence-wait"), "10");
        let signature = header("authorization");
        assert!(signature.contains("x-amz-security-token"), "{signature}");
        assert!(!request.headers().contains_key("x-fence-token"), "one carrier");
    }

    #[test]
    fn without_keys_nothing_is_signed() {
        let request = client(false).request(&claim()).unwrap();
        assert!(!request.headers().contains_key("authorization"));
        assert_eq!(request.headers()["x-fence-token"], "42");
    }

    #[test]
    fn a_lease_never_lasts_longer_than_it_was_granted_for() {
        let grant = |ttl_seconds, expires_at, store_time| Grant {
            scope: String::new(),
            token: 1,
            id: String::new(),
            ttl_seconds,
            expires_at,
            store_time,
        };
        // Granted anew; a repetition that is told what is left; clocks that make no sense.
        assert_eq!(grant(30, 1030, 1000).lasts(), Duration::from_secs(30));
        assert_eq!(grant(30, 1030, 1012).lasts(), Duration::from_secs(18));
        assert_eq!(grant(30, 9999, 1000).lasts(), Duration::from_secs(30));
        assert_eq!(grant(30, 1000, 1001).lasts(), Duration::ZERO);
    }

    #[test]
    fn tokens_are_read_from_texts_alone() {
        let state = |json: &str| serde_json::from_str::<LeaseState>(json);
        let free =
            r#"{"scope":"s3://b/p/*","token":"18446744073709551615","lease":null,"store_time":5}"#;
        assert_eq!(state(free).unwrap().token, Some(u64::MAX));
        let new = r#"{"scope":"s3://b/p/*","token":null,"lease":null,"store_time":5}"#;
        assert_eq!(state(new).unwrap().token, None);
        let number = r#"{"scope":"s3://b/p/*","token":5,"lease":null,"store_time":5}"#;
        assert!(state(number).is_err());
    }

    #[test]
    fn ids_differ_and_are_hexadecimal() {
        let (a, b) = (Acquire::new(30, "h").id, Acquire::new(30, "h").id);
        assert!(a != b && a.len() == 32 && a.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn nothing_prints_a_secret() {
        assert!(!format!("{:?}", client(true)).contains("secret"));
    }
}

//! The worker process: asks for the lock, writes one object with the AWS SDK, obeys.
//!
//! It is an ordinary S3 client. Whether the endpoint is the store or a proxy makes no difference to
//! it, and the token it got from the lock service goes along in a header that a store ignores.
//!
//! It ends when its standard input does, whatever it is doing: the demo is over then, or has died.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata as _, SdkError};
use aws_sdk_s3::primitives::ByteStream;
use tokio::sync::mpsc;

use super::wire::{Answer, Grant, Order, Report, Role};
use super::{lock, process, timeline};
use crate::clock;
use crate::config::BackendConfig;
use crate::s3::strip_quotes;
use crate::server::store::sdk_client;

/// How long a request may take: longer than the demo holds one back.
const REQUEST_MAX: Duration = Duration::from_secs(20);

/// The request's header for the lock's token.
const FENCE_TOKEN: &str = "x-fence-token";

/// The answer's header with the highest token.
const FENCE_HIGHEST: &str = "x-fence-highest";

/// Carries out the orders that come over standard input, until it ends; reports on standard output.
///
/// # Errors
///
/// When a pipe breaks, or carries what is not an order.
pub async fn work(name: &str) -> io::Result<()> {
    process::die_with_parent()?;
    let mut role = String::new();
    if io::stdin().read_line(&mut role)? == 0 {
        return Ok(());
    }
    let mut worker = Worker::new(name, serde_json::from_str(&role)?)?;
    let mut orders = read_orders();
    while let Some(order) = orders.recv().await {
        let report = tokio::select! {
            report = worker.obey(order?) => report,
            // No order is sent before the last one is answered, so this is the end.
            _ = orders.recv() => return Ok(()),
        };
        let mut line = serde_json::to_vec(&report)?;
        line.push(b'\n');
        io::stdout().write_all(&line)?;
    }
    Ok(())
}

/// Reads orders on a thread of their own: a read of standard input cannot be given up, and the
/// process must not wait for one when it ends.
fn read_orders() -> mpsc::Receiver<io::Result<Order>> {
    let (orders, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            let order = line.and_then(|line| Ok(serde_json::from_str(&line)?));
            if orders.blocking_send(order).is_err() {
                return;
            }
        }
    });
    receiver
}

struct Worker {
    name: String,
    role: Role,
    client: Client,
    lease: Option<Lease>,
}

#[derive(Clone, Copy)]
struct Lease {
    token: u64,
    until: Instant,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Worker {
    fn new(name: &str, role: Role) -> io::Result<Self> {
        let url = role.endpoint.parse().map_err(io::Error::other)?;
        let (id, secret) = (role.access_key_id.as_str(), role.secret_access_key.as_str());
        let credentials = Credentials::new(id, secret, None, None, "the demo");
        let client = sdk_client(
            &url,
            &BackendConfig::default(),
            aws_smithy_http_client::Builder::new().build_http(),
            SharedCredentialsProvider::new(credentials),
            REQUEST_MAX,
        );
        Ok(Self { name: name.to_owned(), role, client, lease: None })
    }

    async fn obey(&mut self, order: Order) -> Report {
        let obeyed = match order {
            Order::Acquire => self.acquire().await.map(Report::Acquired),
            Order::CheckLease => self.lease().map(|lease| {
                let left = lease.until.saturating_duration_since(clock::monotonic());
                Report::LeaseLeft(timeline::milliseconds(left))
            }),
            Order::Put { body, if_match } => self.put(body, if_match).await.map(Report::Answered),
        };
        obeyed.unwrap_or_else(|failure| Report::Failed(failure.to_string()))
    }

    async fn acquire(&mut self) -> Result<Grant, Failure> {
        // A lock that is waited for is granted just before the answer, so the lease is counted from
        // that. However it is counted, a pause between looking and writing is not in it.
        let Role { lock_service, lock, .. } = &self.role;
        let grant = lock::acquire(*lock_service, lock, &self.name).await?;
        let until = clock::monotonic() + Duration::from_millis(grant.lease_ms);
        self.lease = Some(Lease { token: grant.token, until });
        Ok(grant)
    }

    fn lease(&self) -> Result<Lease, Failure> {
        self.lease.ok_or_else(|| "it has no lock".into())
    }

    async fn put(&self, body: String, if_match: bool) -> Result<Answer, Failure> {
        let token = self.lease()?.token;
        let Role { bucket, key, .. } = &self.role;
        let mut put = self.client.put_object().bucket(bucket).key(key);
        if if_match {
            let head = self.client.head_object().bucket(bucket).key(key).send().await;
            let head = head.map_err(|error| DisplayErrorContext(error).to_string())?;
            put = put.set_if_match(head.e_tag);
        }
        let sent = put
            .body(ByteStream::from(body.into_bytes()))
            .customize()
            // Before the request is signed, so the signature covers it.
            .mutate_request(move |request| {
                request.headers_mut().insert(FENCE_TOKEN, token.to_string());
            })
            .send()
            .await;
        match sent {
            Ok(output) => Ok(Answer {
                status: 200,
                code: None,
                etag: output.e_tag().map(|etag| strip_quotes(etag).to_owned()),
                highest: None,
            }),
            Err(SdkError::ServiceError(refused)) => {
                let raw = refused.raw();
                Ok(Answer {
                    status: raw.status().as_u16(),
                    code: refused.err().code().map(str::to_owned),
                    etag: None,
                    highest: raw.headers().get(FENCE_HIGHEST).map(str::to_owned),
                })
            }
            Err(error) => Err(DisplayErrorContext(error).to_string().into()),
        }
    }
}

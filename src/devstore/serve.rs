//! Serving over HTTP/1.1, and the faults on the way.
//!
//! A request is executed in a task of its own, so that a client that goes away does not take it
//! along: what has arrived is executed, as by a real store. A body that stops arriving is cut off,
//! which the fence's expiry rule (F9) counts on.

use super::faults::{Effect, Faults, Strike};
use super::gcs::Gcs;
use super::store::{Store, random_id};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, HeaderValue, SERVER};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::service::S3Service;
use s3s::{Body, S3ErrorCode, StdError};
use std::future::Future as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Sleep;

/// How long a connection may take to send its next request's headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long requests in progress may go on after shutdown was asked for.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The largest body that a fault holds in memory.
const HELD_BODY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How long to wait after a failed accept (too many open files) before the next one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long the first half of a cut answer has to get onto the wire: hyper throws away what it has
/// buffered when the body fails.
const CUT_PAUSE: Duration = Duration::from_millis(20);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

/// Everything that answers a request.
pub(super) struct Server {
    pub(super) store: Arc<Store>,
    pub(super) service: S3Service,
    /// What stands before the service, where clients may speak another dialect.
    pub(super) gcs: Option<Gcs>,
    pub(super) faults: Faults,
    pub(super) body_idle_timeout: Duration,
}

/// The accept loop of a running store.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) addr: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Serving {
    /// Serves connections until it is stopped or dropped.
    pub(super) fn start(server: Arc<Server>, listener: TcpListener) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(accept(server, listener, stopped));
        Ok(Self { addr, stop, task })
    }

    /// Stops accepting, lets requests in progress end for [`DRAIN_TIMEOUT`], then cuts them.
    pub(super) async fn stop(mut self) {
        let _ = self.stop.send(true);
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "the accept loop failed");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The loop owns the connections, so they end with it.
        self.task.abort();
    }
}

async fn accept(server: Arc<Server>, listener: TcpListener, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(server.clone(), stream, stopped.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            _ = stopped.changed() => break,
        }
    }
    drop(listener);
    let drain = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIMEOUT, drain).await.is_err() {
        tracing::debug!("connections were cut at shutdown");
    }
}

async fn connection(server: Arc<Server>, stream: TcpStream, mut stopped: watch::Receiver<bool>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY could not be set");
    }
    let service = service_fn(|request| server.clone().answer(request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let stop = async {
        // A dropped sender stops too.
        let _ = stopped.wait_for(|stop| *stop).await;
    };
    let ended = tokio::select! {
        result = connection.as_mut() => Some(result),
        () = stop => None,
    };
    let result = match ended {
        Some(result) => result,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The connection is to be closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("cut by a fault")]
struct Cut;

impl Server {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
        let (parts, body) = request.into_parts();
        let strike = self.faults.strike(&parts);
        let body = Body::http_body_unsync(StallGuard::new(body, self.body_idle_timeout));
        let request = Request::from_parts(parts, body);
        let run = async move { self.run(request, strike).await };
        tokio::spawn(run).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a request failed");
            Err(Cut)
        })
    }

    async fn run(
        &self,
        request: Request<Body>,
        strike: Option<Strike>,
    ) -> Result<Response<Body>, Cut> {
        let latency = self.faults.latency();
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let Some(strike) = strike else { return self.execute(request).await };
        match strike.effect() {
            Effect::Observe => self.execute(request).await,
            Effect::LoseAnswer => {
                self.execute(request).await?;
                Err(Cut)
            }
            Effect::CutBefore => {
                received(request).await?;
                Err(Cut)
            }
            Effect::CutBody => Ok(cut_in_half(self.execute(request).await?)),
            Effect::Status(status, code) => {
                received(request).await?;
                Ok(self.dressed(error_response(*status, code)))
            }
            Effect::ExecuteThenStatus(status, code) => {
                self.execute(request).await?;
                Ok(self.dressed(error_response(*status, code)))
            }
            Effect::Delay(delay) => {
                let request = received(request).await?;
                tokio::time::sleep(*delay).await;
                self.execute(request).await
            }
            Effect::Hold => {
                let request = received(request).await?;
                strike.park().await;
                self.execute(request).await
            }
        }
    }

    async fn execute(&self, request: Request<Body>) -> Result<Response<Body>, Cut> {
        let answered = match &self.gcs {
            None => self.service.call(request).await,
            Some(gcs) => gcs.call(&self.service, self.store.clock.now(), request).await,
        };
        match answered {
            Ok(response) => Ok(self.dressed(response)),
            Err(error) => {
                tracing::error!(error = %StdError::from(error), "a request could not be answered");
                Err(Cut)
            }
        }
    }

    /// Adds what every answer has: the store's clock is what the ledger reads the time from.
    fn dressed(&self, mut response: Response<Body>) -> Response<Body> {
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("fencepost-devstore"));
        let date = httpdate::fmt_http_date(self.store.clock.now());
        for (name, text) in [(DATE, date), (REQUEST_ID, random_id().to_uppercase())] {
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// The request with its body in memory.
async fn received(request: Request<Body>) -> Result<Request<Body>, Cut> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, HELD_BODY_BYTES_MAX).collect().await.map_err(|error| {
        tracing::debug!(%error, "a body did not arrive for a fault to hold");
        Cut
    })?;
    Ok(Request::from_parts(parts, Body::from(body.to_bytes())))
}

fn error_response(status: u16, code: &str) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut error = s3s::S3Error::new(S3ErrorCode::Custom(code.to_owned().into()));
    error.set_message("injected by a fault rule");
    error.set_status_code(status);
    error.to_http_response().unwrap_or_else(|_| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        response.headers_mut().remove(CONTENT_TYPE);
        response
    })
}

/// The answer with a body that breaks off half way.
fn cut_in_half(response: Response<Body>) -> Response<Body> {
    let length = response.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    let length: u64 =
        length.or_else(|| http_body::Body::size_hint(response.body()).exact()).unwrap_or(0);
    response.map(|inner| Body::http_body_unsync(HalfBody { inner, left: length / 2, pause: None }))
}

/// A body that fails after `left` bytes and a pause.
struct HalfBody {
    inner: Body,
    left: u64,
    /// Begun when the first half is out.
    pause: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for HalfBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, StdError>>> {
        if self.left == 0 {
            let pause = || Box::pin(tokio::time::sleep(CUT_PAUSE));
            ready!(self.pause.get_or_insert_with(pause).as_mut().poll(cx));
            return Poll::Ready(Some(Err(Box::new(Cut))));
        }
        let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(cx)).transpose()? else {
            return Poll::Ready(None);
        };
        let frame = frame.map_data(|mut data| {
            data.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= data.len() as u64;
            data
        });
        Poll::Ready(Some(Ok(frame)))
    }
}

/// A request's body stopped arriving.
#[derive(Debug, thiserror::Error)]
#[error("{}", Self::TEXT)]
pub(super) struct BodyStalled;

impl BodyStalled {
    /// How it is known again behind the error types of `s3s`; see `ingest`.
    pub(super) const TEXT: &'static str = "the request body stopped arriving";
}

/// A request's body that fails when nothing arrives for too long.
struct StallGuard {
    inner: Incoming,
    timeout: Duration,
    /// Runs only while a read is waiting: a store that is slow to read is not a stalled client.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl StallGuard {
    fn new(inner: Incoming, timeout: Duration) -> Self {
        Self { inner, timeout, deadline: None }
    }
}

impl http_body::Body for StallGuard {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, StdError>>> {
        match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(frame) => {
                self.deadline = None;
                Poll::Ready(frame.map(|frame| frame.map_err(StdError::from)))
            }
            Poll::Pending => {
                let timeout = self.timeout;
                let deadline = || Box::pin(tokio::time::sleep(timeout));
                ready!(self.deadline.get_or_insert_with(deadline).as_mut().poll(cx));
                Poll::Ready(Some(Err(Box::new(BodyStalled))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}

//! One connection: hyper over any stream, one task a request, and its end.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderValue, Request, Response, header, request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::IntGauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use super::body::{InFlight, RequestBody, ResponseBody, Unread};
use super::stall::StallGuard;
use super::{ClientAddress, Handler, Phase, Refusal, RequestId, Shared, drain, target};

/// Serves `stream` until either side ends it, or the drain's time is up.
pub(super) async fn serve<S, H>(stream: S, client: SocketAddr, shared: Arc<Shared<H>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let _connected = Connected::new(shared.traffic.connections.clone());
    let mut cut = shared.phase.clone();
    tokio::select! {
        () = until_closed(stream, client, &shared) => {}
        () = reached(&mut cut, Phase::Cut) => {}
    }
}

async fn until_closed<S, H>(stream: S, client: SocketAddr, shared: &Arc<Shared<H>>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Handler,
{
    let limits = shared.limits;
    let unread = Unread::default();
    let service =
        service_fn(|request| Box::pin(answer(request, client, Arc::clone(shared), unread.clone())));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes_max)
        .serve_connection(TokioIo::new(StallGuard::new(stream, limits.body_idle_timeout)), service);
    let mut phase = shared.phase.clone();
    let mut draining = false;
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => break ended,
            () = reached(&mut phase, Phase::Draining), if !draining => {
                draining = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    let stream = connection.into_parts().io.into_inner().into_inner();
    // hyper has answered what it could not parse (400, 414, 431), and more may be on its way.
    let unparsed = ended.as_ref().is_err_and(hyper::Error::is_parse);
    if let Err(error) = ended {
        tracing::debug!(%client, error = &error as &dyn std::error::Error, "connection ended");
    }
    let bytes_max = if unread.get() || unparsed { limits.refusal_drain_bytes_max } else { 0 };
    drain::linger(stream, bytes_max, limits.refusal_drain_max).await;
}

/// From a request to its answer.
async fn answer<H: Handler>(
    request: Request<Incoming>,
    client: SocketAddr,
    shared: Arc<Shared<H>>,
    unread: Unread,
) -> Result<Response<ResponseBody<H::Body>>, Infallible> {
    let (mut parts, body) = request.into_parts();
    let body = RequestBody::new(
        body,
        shared.limits.body_idle_timeout,
        shared.traffic.received_bytes.clone(),
        unread.clone(),
    );
    parts.extensions.insert(RequestId::random());
    parts.extensions.insert(ClientAddress(client));
    let (answer, in_flight) = match admit(&parts, &shared) {
        Ok(in_flight) => handle(Request::from_parts(parts, body), in_flight, &shared).await,
        Err(refusal) => {
            drop(body);
            (shared.handler.refuse(&parts, refusal), None)
        }
    };
    let sent_bytes = shared.traffic.sent_bytes.clone();
    let mut answer = answer.map(|body| ResponseBody { body, sent_bytes, in_flight });
    if unread.get() {
        // The connection will be closed, see `drain`; a client that knows does not reuse it.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(answer)
}

fn admit<H>(request: &request::Parts, shared: &Shared<H>) -> Result<InFlight, Refusal> {
    target::check(request).map_err(Refusal::Malformed)?;
    let permit = Arc::clone(&shared.in_flight).try_acquire_owned().map_err(|_| Refusal::Busy)?;
    Ok(InFlight::new(shared.traffic.in_flight_requests.clone(), permit))
}

/// Lets the handler answer, in a task that outlives the connection.
async fn handle<H: Handler>(
    request: Request<RequestBody>,
    in_flight: InFlight,
    shared: &Arc<Shared<H>>,
) -> (Response<H::Body>, Option<InFlight>) {
    let head = without_headers(&request);
    let task = tokio::spawn({
        let shared = Arc::clone(shared);
        async move {
            let mut cut = shared.phase.clone();
            tokio::select! {
                answer = shared.handler.handle(request) => Some((answer, in_flight)),
                () = reached(&mut cut, Phase::Cut) => None,
            }
        }
    });
    match task.await {
        Ok(Some((answer, in_flight))) => (answer, Some(in_flight)),
        // The connection is being cut as well; there is nobody to answer.
        Ok(None) => pending().await,
        Err(failed) => {
            let request_id = head.extensions.get::<RequestId>().map(ToString::to_string);
            tracing::error!(request_id, error = %failed, "a request came to no answer");
            (shared.handler.refuse(&head, Refusal::Failed), None)
        }
    }
}

/// What an answer to a failed request needs of it; its headers went with it.
fn without_headers<B>(request: &Request<B>) -> request::Parts {
    let mut head = Request::new(()).into_parts().0;
    head.method = request.method().clone();
    head.uri = request.uri().clone();
    head.version = request.version();
    head.extensions = request.extensions().clone();
    head
}

/// Resolves once the listener is in `phase` or past it, also when it is gone.
async fn reached(current: &mut watch::Receiver<Phase>, phase: Phase) {
    // An error means that the listener has been dropped in the middle of serving: the same end.
    let _ended = current.wait_for(|current| *current >= phase).await;
}

/// One client in the gauge.
struct Connected(IntGauge);

impl Connected {
    fn new(gauge: IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

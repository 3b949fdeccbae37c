//! From a request to its answer, the same for all versions of HTTP.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, Version, header, request};
use hyper::body::Incoming;
use tokio::sync::Semaphore;

use super::body::{Discard, InFlight, RequestBody, ResponseBody, Unread};
use super::connection::reached;
use super::pace::Pace;
use super::{ClientAddress, ClientPresence, Handler, Phase, Refusal, RequestId, Shared, target};

/// Who asks.
pub(super) struct Peer {
    pub(super) client: SocketAddr,
    /// Is told when the request's body is left unread.
    pub(super) unread: Unread,
    /// Where many requests share a connection: how many more may.
    pub(super) places: Option<Arc<Semaphore>>,
}

/// From a request to its answer.
pub(super) async fn answer<H: Handler>(
    request: Request<Incoming>,
    peer: Peer,
    shared: Arc<Shared<H>>,
) -> Result<Response<ResponseBody<H::Body>>, Infallible> {
    let (mut parts, body) = request.into_parts();
    let (version, is_head) = (parts.version, parts.method == Method::HEAD);
    let body = RequestBody::new(
        body,
        &shared.limits,
        shared.traffic.received_bytes.clone(),
        peer.unread.clone(),
        (version == Version::HTTP_2).then(|| Discard::new(&shared.limits)),
    );
    target::as_in_http1(&mut parts);
    parts.extensions.insert(RequestId::random());
    parts.extensions.insert(ClientAddress(peer.client));
    let (answer, in_flight) = match admit(&parts, &peer, &shared) {
        Ok(in_flight) => handle(Request::from_parts(parts, body), in_flight, &shared).await,
        Err(refusal) => {
            drop(body);
            (shared.handler.refuse(&parts, refusal), None)
        }
    };
    let sent_bytes = shared.traffic.sent_bytes.clone();
    let mut answer =
        answer.map(|body| ResponseBody::new(body, Pace::current(), sent_bytes, in_flight));
    if version < Version::HTTP_2 {
        if peer.unread.get() {
            // The connection will be closed, see `drain`; a client that knows does not reuse it.
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    } else if is_head {
        // On HTTP/1, hyper sees to that.
        answer.body_mut().leave_out();
    }
    Ok(answer)
}

fn admit<H>(
    request: &request::Parts,
    peer: &Peer,
    shared: &Shared<H>,
) -> Result<InFlight, Refusal> {
    target::check(request).map_err(Refusal::Malformed)?;
    let place = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_owned().map_err(|_| Refusal::Busy);
    let on_connection = peer.places.as_ref().map(place).transpose()?;
    let permit = place(&shared.in_flight)?;
    Ok(InFlight::new(shared.traffic.in_flight_requests.clone(), permit, on_connection))
}

/// Lets the handler answer, in a task that outlives the connection.
async fn handle<H: Handler>(
    mut request: Request<RequestBody>,
    in_flight: InFlight,
    shared: &Arc<Shared<H>>,
) -> (Response<H::Body>, Option<InFlight>) {
    let (present, presence) = ClientPresence::new(shared.phase.clone());
    request.extensions_mut().insert(presence);
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
    let ended = task.await;
    // It is dropped before, together with this future, when the client has gone away.
    drop(present);
    match ended {
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

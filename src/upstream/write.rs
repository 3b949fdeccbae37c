//! Fenced writes: a permit in, an [`Outcome`] out.
//!
//! The request carries what the permit's terms say. How long a client waits, what it is told and
//! what happens next is not decided here.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::task::JoinHandle;

use super::body::{Gate, Gated};
use super::multipart::Upload;
use super::{
    Answer, BoxError, Framed, OutBody, Route, SendError, Upstream, announce, full, headers,
    set_length, signing_time,
};
use crate::auth::{BodyOutcome, PayloadHash, VerifiedBody};
use crate::clock;
use crate::fence::{Change, Form, Forms, Outcome, StreamPermit, Terms, WritePermit};
use crate::s3::EtagQuotes;

/// A write as the client asked for it.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// Where to.
    pub route: Route,
    /// The client's headers, by [`headers::for_store`].
    pub headers: HeaderMap,
    /// How the store wants ETags.
    pub quotes: EtagQuotes,
}

impl WriteRequest {
    /// The route to the object itself, without the query of this request.
    #[must_use]
    pub fn route_of_object(&self) -> Route {
        Route { query: None, ..self.route.clone() }
    }
}

/// The bytes of a PUT that are held in memory.
#[derive(Clone, Debug)]
pub struct PutBody {
    /// The bytes.
    pub data: Bytes,
    /// Their SHA-256.
    pub sha256: [u8; 32],
}

/// The outcome of a request, and the store's answer, if there was one.
#[derive(Debug)]
pub struct WriteAnswer {
    /// What the fence is told.
    pub outcome: Outcome,
    /// What the client may be told.
    pub answer: Option<Answer>,
    /// Why there is no answer.
    pub error: Option<SendError>,
}

impl WriteAnswer {
    fn of(answer: Answer, change: &Change, exclusive: bool) -> Self {
        Self { outcome: answer.outcome(change, exclusive), answer: Some(answer), error: None }
    }

    pub(super) fn without(error: SendError) -> Self {
        let outcome = match error {
            SendError::Unsent(_) => Outcome::Rejected,
            SendError::Lost(_) => Outcome::Unknown,
        };
        Self { outcome, answer: None, error: Some(error) }
    }

    fn from_result(result: Result<Answer, SendError>, change: &Change, exclusive: bool) -> Self {
        match result {
            Ok(answer) => Self::of(answer, change, exclusive),
            Err(error) => Self::without(error),
        }
    }
}

/// A body that has been sent but for its last bytes, or a part that has been uploaded and not been
/// made an object.
#[derive(Debug)]
pub struct HeldWrite(Held);

enum Held {
    Plain { open: tokio::sync::oneshot::Sender<()>, response: AbortOnDrop },
    OnePart(Box<Upload>),
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain { .. } => "Plain",
            Self::OnePart(_) => "OnePart",
        })
    }
}

/// A request under way as a task of its own. Whoever loses interest in it cuts it off.
struct AbortOnDrop(JoinHandle<Result<Answer, SendError>>);

impl AbortOnDrop {
    async fn answer(&mut self) -> Result<Answer, SendError> {
        (&mut self.0).await.unwrap_or_else(|panic| Err(SendError::Lost(panic.to_string())))
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How a streamed body ended.
#[derive(Debug)]
pub enum BodyEnd {
    /// It is all there, and its last bytes are held back.
    Held(HeldWrite, Forms),
    /// The client's body was wrong or broke off; the reason is in its [`BodyOutcome`].
    Client,
    /// The store answered before it had the whole body, or the connection broke. It cannot have
    /// applied the write.
    Store(Box<WriteAnswer>),
}

impl Upstream {
    /// Sends a request that is no PUT of bytes: a DELETE, the completion of an upload, a copy, a
    /// change of what belongs to an object. It is signed in the query, so that it soon expires.
    pub async fn act(
        &self,
        permit: WritePermit,
        request: &WriteRequest,
        method: Method,
        body: Bytes,
        change: &Change,
    ) -> WriteAnswer {
        let terms = permit.terms();
        let lifetime = self.config.bodiless_signature_seconds;
        if let Err(error) = fresh_enough(terms, lifetime.into()) {
            return WriteAnswer::without(error);
        }
        let mut headers = request.headers.clone();
        // A store that ignores the condition of a DELETE does no harm by it. One that judges the
        // condition of an assembly by other rules would (AWS: against what the object was when
        // the upload was created).
        let judged = !terms.exclusive || *change == Change::Claim;
        if !judged && *change != Change::Delete {
            headers::remove_preconditions(&mut headers);
        } else {
            headers::set_precondition(&mut headers, &terms.precondition(), request.quotes);
        }
        if !body.is_empty() || method != Method::DELETE {
            set_length(&mut headers, body.len() as u64);
        }
        let at = signing_time(terms.signed_at);
        let payload = PayloadHash::Unsigned;
        let signed = self.sign(method, &request.route, headers, payload, at, Some(lifetime)).await;
        let result = match signed {
            Ok(signed) => {
                let timeout = match change {
                    Change::Assemble(_) | Change::Claim => self.config.assembly_timeout,
                    Change::Put(_) | Change::Delete | Change::Touch | Change::DeleteVersion => {
                        self.config.response_timeout
                    }
                };
                self.call_within(signed.map(|()| full(body)), timeout).await
            }
            Err(error) => Err(error),
        };
        WriteAnswer::from_result(result, change, !judged)
    }

    /// Sends a PUT whose bytes are in memory, in the form that the permit says.
    pub async fn put(
        &self,
        permit: WritePermit,
        request: &WriteRequest,
        body: &PutBody,
        change: &Change,
    ) -> WriteAnswer {
        let terms = permit.terms();
        if let Err(error) = fresh_enough(terms, self.config.signature_seconds) {
            return WriteAnswer::without(error);
        }
        match terms.form {
            Form::Plain => {
                let payload = PayloadHash::Sha256(body.sha256);
                let length = body.data.len() as u64;
                let signed = self.sign_put(terms, request, length, payload).await;
                let result = match signed {
                    Ok(signed) => self.call(signed.map(|()| full(body.data.clone()))).await,
                    Err(error) => Err(error),
                };
                WriteAnswer::from_result(result, change, false)
            }
            Form::OnePart => {
                let payload = PayloadHash::Sha256(body.sha256);
                let length = body.data.len() as u64;
                let body = full(body.data.clone());
                match self.upload_one_part(terms, request, body, length, payload).await {
                    Ok(upload) => self.complete(permit, upload).await,
                    Err(failed) => *failed,
                }
            }
        }
    }

    /// Starts a PUT whose bytes are streamed, and takes in all of them but the last.
    pub async fn begin<B>(
        self: &Arc<Self>,
        permit: StreamPermit,
        request: &WriteRequest,
        body: VerifiedBody<B>,
        payload: PayloadHash,
        change: &Change,
    ) -> BodyEnd
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let terms = permit.terms();
        let length = body.decoded_length().unwrap_or_default();
        let outcome = body.outcome();
        let trailer = body.trailer().filter(|_| self.config.takes_trailers);
        let (gated, gate) = Gated::new(body);
        match terms.form {
            Form::Plain => {
                let mut request = request.clone();
                let (body, length, payload) = match trailer {
                    None => (gated.boxed_unsync(), length, payload),
                    // The checksum goes on as it came, behind what the fence holds back.
                    Some(trailer) => {
                        announce(&mut request.headers, trailer, length);
                        let framed = Framed::new(gated, outcome.clone(), trailer, length);
                        let length = framed.encoded_length();
                        (framed.boxed_unsync(), length, PayloadHash::StreamingUnsignedTrailer)
                    }
                };
                let signed = match self.sign_put(terms, &request, length, payload).await {
                    Ok(signed) => signed.map(|()| body),
                    Err(error) => return BodyEnd::Store(Box::new(WriteAnswer::without(error))),
                };
                hold(Arc::clone(self), signed, gate, &outcome, change).await
            }
            Form::OnePart => {
                let Gate { received, open } = gate;
                // A part changes no object, so nothing of it is held back.
                if open.send(()).is_err() {
                    return BodyEnd::Client;
                }
                let body = gated.boxed_unsync();
                let uploaded = self.upload_one_part(terms, request, body, length, payload).await;
                match (uploaded, received.await) {
                    (Ok(upload), Ok(forms)) => {
                        BodyEnd::Held(HeldWrite(Held::OnePart(Box::new(upload))), forms)
                    }
                    (Ok(upload), Err(_)) => {
                        self.abort(&upload.request, &upload.id, signing_time(terms.signed_at))
                            .await;
                        BodyEnd::Client
                    }
                    (Err(_), _) if outcome.get().is_some_and(Result::is_err) => BodyEnd::Client,
                    (Err(failed), _) => BodyEnd::Store(failed),
                }
            }
        }
    }

    /// Lets the held bytes go, and waits for the store's answer.
    pub async fn release(
        &self,
        permit: WritePermit,
        held: HeldWrite,
        change: &Change,
    ) -> WriteAnswer {
        match held.0 {
            Held::Plain { open, mut response } => {
                // A connection that has broken meanwhile shows in the response.
                let _ = open.send(());
                WriteAnswer::from_result(response.answer().await, change, false)
            }
            Held::OnePart(upload) => self.complete(permit, *upload).await,
        }
    }

    /// Gives a held write up: the store does not get its last bytes.
    pub async fn abandon(&self, held: HeldWrite) {
        match held.0 {
            Held::Plain { open, response } => {
                drop(open);
                drop(response);
            }
            Held::OnePart(upload) => {
                self.abort(&upload.request, &upload.id, clock::now()).await;
            }
        }
    }

    async fn sign_put(
        &self,
        terms: &Terms,
        request: &WriteRequest,
        length: u64,
        payload: PayloadHash,
    ) -> Result<Request<()>, SendError> {
        let mut headers = request.headers.clone();
        headers::set_precondition(&mut headers, &terms.precondition(), request.quotes);
        headers::stamp(&mut headers, terms.token, terms.operation);
        set_length(&mut headers, length);
        let at = signing_time(terms.signed_at);
        self.sign(Method::PUT, &request.route, headers, payload, at, None).await
    }
}

/// Runs the request as a task of its own while the client's bytes come in.
async fn hold(
    upstream: Arc<Upstream>,
    request: Request<OutBody>,
    gate: Gate,
    outcome: &BodyOutcome,
    change: &Change,
) -> BodyEnd {
    let Gate { mut received, open } = gate;
    let mut response = AbortOnDrop(tokio::spawn(async move { upstream.call(request).await }));
    tokio::select! {
        biased;
        forms = &mut received => if let Ok(forms) = forms {
            return BodyEnd::Held(HeldWrite(Held::Plain { open, response }), forms);
        },
        early = response.answer() => return early_end(early, outcome, change),
    }
    // The body was dropped before its end: the response tells why.
    let early = response.answer().await;
    early_end(early, outcome, change)
}

fn early_end(result: Result<Answer, SendError>, outcome: &BodyOutcome, change: &Change) -> BodyEnd {
    if outcome.get().is_some_and(Result::is_err) {
        return BodyEnd::Client;
    }
    BodyEnd::Store(Box::new(WriteAnswer::from_result(result, change, false)))
}

/// Whether a signature made for `signed_at` is still good. The store checks it too (F9); this only
/// spares a proxy that was paused a request that is bound to be refused.
pub(super) fn fresh_enough(terms: &Terms, lifetime_seconds: u64) -> Result<(), SendError> {
    let age = clock::now().duration_since(signing_time(terms.signed_at)).unwrap_or_default();
    if age.as_secs() < lifetime_seconds {
        return Ok(());
    }
    Err(SendError::Unsent(format!(
        "the operation has taken {} s, and its signature is good for {lifetime_seconds} s",
        age.as_secs()
    )))
}

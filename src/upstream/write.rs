//! Fenced writes: a permit in, an [`Outcome`] out.
//!
//! The request carries what the permit's terms say. How long a client waits, what it is told and
//! what happens next is not decided here.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Request, header};
use http_body_util::BodyExt as _;
use tokio::task::JoinHandle;

use super::body::{Gate, Gated};
use super::{
    Answer, OutBody, Route, SendError, Upstream, answer, full, headers, set_length, signing_time,
};
use crate::auth::{BodyOutcome, PayloadHash, VerifiedBody};
use crate::clock;
use crate::fence::{Change, Form, Forms, Outcome, StreamPermit, Tag, Terms, WritePermit};
use crate::listener::RequestBody;
use crate::s3::{EtagQuotes, strip_quotes};
/// Headers that describe the bytes of one PUT and not the object, so that they go to the part of a
/// multipart upload or nowhere.
const OF_THE_BODY: [HeaderName; 7] = [
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("x-amz-sdk-checksum-algorithm"),
    HeaderName::from_static("x-amz-checksum-crc32"),
    HeaderName::from_static("x-amz-checksum-crc32c"),
    HeaderName::from_static("x-amz-checksum-crc64nvme"),
    HeaderName::from_static("x-amz-checksum-sha1"),
    HeaderName::from_static("x-amz-checksum-sha256"),
];

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
    fn of(answer: Answer, change: &Change) -> Self {
        Self { outcome: answer.outcome(change), answer: Some(answer), error: None }
    }

    fn without(error: SendError) -> Self {
        let outcome = match error {
            SendError::Unsent(_) => Outcome::Rejected,
            SendError::Lost(_) => Outcome::Unknown,
        };
        Self { outcome, answer: None, error: Some(error) }
    }

    fn from_result(result: Result<Answer, SendError>, change: &Change) -> Self {
        match result {
            Ok(answer) => Self::of(answer, change),
            Err(error) => Self::without(error),
        }
    }
}

/// A body that has been sent but for its last bytes, or a part that has been uploaded and not been
/// made an object.
#[derive(Debug)]
pub struct HeldWrite(Held);

enum Held {
    Plain {
        open: tokio::sync::oneshot::Sender<()>,
        response: JoinHandle<Result<Answer, SendError>>,
    },
    OnePart(Upload),
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain { .. } => "Plain",
            Self::OnePart(_) => "OnePart",
        })
    }
}

/// A multipart upload with its one part in.
struct Upload {
    request: WriteRequest,
    id: String,
    part_etag: String,
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
    /// Sends a DELETE.
    pub async fn delete(&self, permit: WritePermit, request: &WriteRequest) -> WriteAnswer {
        let terms = permit.terms();
        let lifetime = self.config.bodiless_signature_seconds;
        if let Err(error) = fresh_enough(terms, lifetime.into()) {
            return WriteAnswer::without(error);
        }
        let mut headers = request.headers.clone();
        headers::set_precondition(&mut headers, &terms.precondition(), request.quotes);
        let signed = self
            .sign(
                Method::DELETE,
                &request.route,
                headers,
                PayloadHash::Unsigned,
                signing_time(terms.signed_at),
                Some(lifetime),
            )
            .await;
        let result = match signed {
            Ok(signed) => self.call(signed.map(|()| full(Bytes::new()))).await,
            Err(error) => Err(error),
        };
        WriteAnswer::from_result(result, &Change::Delete)
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
                WriteAnswer::from_result(result, change)
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
    pub async fn begin(
        self: &Arc<Self>,
        permit: StreamPermit,
        request: &WriteRequest,
        body: VerifiedBody<RequestBody>,
        payload: PayloadHash,
        change: &Change,
    ) -> BodyEnd {
        let terms = permit.terms();
        let length = body.decoded_length().unwrap_or_default();
        let outcome = body.outcome();
        let (gated, gate) = Gated::new(body);
        match terms.form {
            Form::Plain => {
                let signed = match self.sign_put(terms, request, length, payload).await {
                    Ok(signed) => signed.map(|()| gated.boxed_unsync()),
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
                        BodyEnd::Held(HeldWrite(Held::OnePart(upload)), forms)
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
            Held::Plain { open, response } => {
                // A connection that has broken meanwhile shows in the response.
                let _ = open.send(());
                let result =
                    response.await.unwrap_or_else(|panic| Err(SendError::Lost(panic.to_string())));
                WriteAnswer::from_result(result, change)
            }
            Held::OnePart(upload) => self.complete(permit, upload).await,
        }
    }

    /// Gives a held write up: the store does not get its last bytes.
    pub async fn abandon(&self, held: HeldWrite) {
        match held.0 {
            Held::Plain { open, response } => {
                drop(open);
                response.abort();
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
        headers::stamp(&mut headers, terms);
        set_length(&mut headers, length);
        let at = signing_time(terms.signed_at);
        self.sign(Method::PUT, &request.route, headers, payload, at, None).await
    }

    /// Creates a multipart upload and puts its one part in. No object has changed after this.
    async fn upload_one_part(
        &self,
        terms: &Terms,
        request: &WriteRequest,
        body: OutBody,
        length: u64,
        payload: PayloadHash,
    ) -> Result<Upload, Box<WriteAnswer>> {
        let failed = |error| Box::new(WriteAnswer::without(error));
        let at = signing_time(terms.signed_at);
        let mut create_headers = request.headers.clone();
        for name in OF_THE_BODY.iter().chain(&[header::IF_MATCH, header::IF_NONE_MATCH]) {
            create_headers.remove(name);
        }
        headers::stamp(&mut create_headers, terms);
        let route = request.route.with_query("uploads");
        let create = self
            .sign(Method::POST, &route, create_headers, PayloadHash::Empty, at, None)
            .await
            .map_err(failed)?;
        let created =
            self.call(create.map(|()| full(Bytes::new()))).await.map_err(nothing_changed)?;
        let id = match answer::element(&created.body, "UploadId") {
            Some(id) if created.status.is_success() => id,
            Some(_) | None => return Err(rejected(created)),
        };

        let encoded_id =
            percent_encoding::utf8_percent_encode(&id, percent_encoding::NON_ALPHANUMERIC);
        let route = request.route.with_query(format!("partNumber=1&uploadId={encoded_id}"));
        let mut part_headers = HeaderMap::new();
        if let Some(md5) = request.headers.get("content-md5") {
            part_headers.insert("content-md5", md5.clone());
        }
        set_length(&mut part_headers, length);
        let part = async {
            let signed = self.sign(Method::PUT, &route, part_headers, payload, at, None).await?;
            self.call(signed.map(|()| body)).await
        };
        let part = match part.await {
            Ok(part) => part,
            Err(error) => {
                self.abort(request, &id, at).await;
                return Err(nothing_changed(error));
            }
        };
        match (part.status.is_success(), part.headers.get(header::ETAG)) {
            (true, Some(etag)) => {
                let part_etag = etag.to_str().unwrap_or_default().to_owned();
                Ok(Upload { request: request.clone(), id, part_etag })
            }
            (_, _) => {
                self.abort(request, &id, at).await;
                Err(rejected(part))
            }
        }
    }

    /// Makes the object of its one part.
    async fn complete(&self, permit: WritePermit, upload: Upload) -> WriteAnswer {
        let terms = permit.terms();
        let Upload { request, id, part_etag } = upload;
        if let Err(error) = fresh_enough(terms, self.config.signature_seconds) {
            self.abort(&request, &id, clock::now()).await;
            return WriteAnswer::without(error);
        }
        let xml = format!(
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part>\
             <PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
            quick_xml::escape::escape(&part_etag)
        );
        let encoded_id =
            percent_encoding::utf8_percent_encode(&id, percent_encoding::NON_ALPHANUMERIC);
        let route = request.route.with_query(format!("uploadId={encoded_id}"));
        let mut headers = HeaderMap::new();
        headers::set_precondition(&mut headers, &terms.precondition(), request.quotes);
        set_length(&mut headers, xml.len() as u64);
        let at = signing_time(terms.signed_at);
        let payload = PayloadHash::Sha256(sha256(xml.as_bytes()));
        let result = match self.sign(Method::POST, &route, headers, payload, at, None).await {
            Ok(signed) => self.call(signed.map(|()| full(xml.into()))).await,
            Err(error) => Err(error),
        };
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => return WriteAnswer::without(error),
        };
        let outcome = completion(&answer);
        if matches!(outcome, Outcome::Refused | Outcome::Rejected) {
            self.abort(&request, &id, at).await;
        }
        WriteAnswer { outcome, answer: Some(answer), error: None }
    }

    /// Throws an upload away. If that fails it costs space until the store's lifecycle rule for
    /// incomplete uploads removes it, and changes nothing.
    async fn abort(&self, request: &WriteRequest, id: &str, at: std::time::SystemTime) {
        let encoded_id =
            percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC);
        let route = request.route.with_query(format!("uploadId={encoded_id}"));
        let signed =
            self.sign(Method::DELETE, &route, HeaderMap::new(), PayloadHash::Empty, at, None).await;
        let result = match signed {
            Ok(signed) => self.call(signed.map(|()| full(Bytes::new()))).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            tracing::warn!(%error, "a multipart upload could not be aborted");
        }
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
    let mut response = tokio::spawn(async move { upstream.call(request).await });
    tokio::select! {
        biased;
        forms = &mut received => match forms {
            Ok(forms) => return BodyEnd::Held(HeldWrite(Held::Plain { open, response }), forms),
            // The body was dropped before its end: the response tells why.
            Err(_) => {}
        },
        early = &mut response => return early_end(early, outcome, change),
    }
    let early = response.await;
    early_end(early, outcome, change)
}

fn early_end(
    response: Result<Result<Answer, SendError>, tokio::task::JoinError>,
    outcome: &BodyOutcome,
    change: &Change,
) -> BodyEnd {
    if outcome.get().is_some_and(Result::is_err) {
        return BodyEnd::Client;
    }
    let result = response.unwrap_or_else(|panic| Err(SendError::Lost(panic.to_string())));
    BodyEnd::Store(Box::new(WriteAnswer::from_result(result, change)))
}

/// What an answer to Complete says. A success can carry an error in its body (S3 answers 200
/// before it is done).
fn completion(answer: &Answer) -> Outcome {
    if !answer.status.is_success() {
        return answer.refusal();
    }
    match (answer.code().as_deref(), answer::element(&answer.body, "ETag")) {
        (None, Some(etag)) if !strip_quotes(&etag).is_empty() => {
            Outcome::Applied(Tag::Version(strip_quotes(&etag).to_owned()))
        }
        (Some("PreconditionFailed" | "ConditionalRequestConflict"), _) => Outcome::Refused,
        (Some(_) | None, _) => Outcome::Unknown,
    }
}

/// A request that changes no object failed: whatever became of it, the write has changed nothing.
fn nothing_changed(error: SendError) -> Box<WriteAnswer> {
    Box::new(WriteAnswer { outcome: Outcome::Rejected, answer: None, error: Some(error) })
}

fn rejected(answer: Answer) -> Box<WriteAnswer> {
    Box::new(WriteAnswer { outcome: Outcome::Rejected, answer: Some(answer), error: None })
}

/// Whether a signature made for `signed_at` is still good. The store checks it too (F9); this only
/// spares a proxy that was paused a request that is bound to be refused.
fn fresh_enough(terms: &Terms, lifetime_seconds: u64) -> Result<(), SendError> {
    let age = clock::now().duration_since(signing_time(terms.signed_at)).unwrap_or_default();
    if age.as_secs() < lifetime_seconds {
        return Ok(());
    }
    Err(SendError::Unsent(format!(
        "the operation has taken {} s, and its signature is good for {lifetime_seconds} s",
        age.as_secs()
    )))
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(bytes).into()
}

//! One request out, one answer back.
//!
//! What may be sent again, and what an answer means, is decided elsewhere.

use std::io;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;

use super::body::{Progress, Watched};
use super::edge::Reading;
use super::{Answer, IdleLimit, OutBody, SendError, Upstream, remove_hop_by_hop};
use crate::clock;

/// The largest answer to a write that is read.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Why an exchange failed.
pub(super) enum Failed {
    /// The connection ended before an answer.
    Closed(String),
    /// Anything else.
    Otherwise(SendError),
}

impl From<Failed> for SendError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Closed(why) => Self::Lost(why),
            Failed::Otherwise(error) => error,
        }
    }
}

impl Upstream {
    /// Sends, and waits for the head of the answer as long as the store makes progress.
    pub(super) async fn exchange(
        &self,
        request: Request<OutBody>,
    ) -> Result<Response<Incoming>, SendError> {
        Ok(self.try_exchange(request, self.config.response_timeout).await?)
    }

    pub(super) async fn try_exchange(
        &self,
        request: Request<OutBody>,
        timeout: Duration,
    ) -> Result<Response<Incoming>, Failed> {
        let progress = Progress::new();
        let reading = Reading::of(request.extensions());
        let request = request.map(|body| Watched::new(body, progress.clone()));
        let mut answer = std::pin::pin!(self.http.request(request));
        loop {
            let deadline = progress.since().unwrap_or_else(clock::monotonic) + timeout;
            tokio::select! {
                answer = &mut answer => return answer.map(|mut response| {
                    reading.read(response.headers_mut());
                    response
                }).map_err(|error| {
                    if error.is_connect() {
                        Failed::Otherwise(SendError::Unsent(error_chain(&error)))
                    } else if is_closed(&error) {
                        Failed::Closed(error_chain(&error))
                    } else {
                        Failed::Otherwise(SendError::Lost(error_chain(&error)))
                    }
                }),
                () = tokio::time::sleep_until(deadline.into()) => {
                    let over = progress.since().is_some_and(|since| {
                        since + timeout <= clock::monotonic()
                    });
                    if over {
                        let seconds = timeout.as_secs();
                        let why = format!("no answer within {seconds} s");
                        return Err(Failed::Otherwise(SendError::Lost(why)));
                    }
                }
            }
        }
    }

    /// Sends a request and reads its answer whole.
    pub(super) async fn call(&self, request: Request<OutBody>) -> Result<Answer, SendError> {
        self.call_within(request, self.config.response_timeout).await
    }

    /// The same, with another limit on how long the answer's head may be waited for.
    pub(super) async fn call_within(
        &self,
        request: Request<OutBody>,
        timeout: Duration,
    ) -> Result<Answer, SendError> {
        let response = self.try_exchange(request, timeout).await?;
        let (parts, body) = response.into_parts();
        let body = IdleLimit::new(body, self.config.idle_body_timeout);
        let body = Limited::new(body, ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| SendError::Lost(error.to_string()))?;
        let mut headers = parts.headers;
        remove_hop_by_hop(&mut headers);
        let dialect = self.dialect();
        Ok(Answer { status: parts.status, headers, body: body.to_bytes(), dialect })
    }
}

/// Whether a connection ended where an answer was to come.
fn is_closed(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.any(|cause| {
        cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
            || cause.downcast_ref::<io::Error>().is_some_and(|error| {
                error.kind() == io::ErrorKind::ConnectionReset
                    || error.kind() == io::ErrorKind::BrokenPipe
            })
    })
}

/// An error with its causes, on one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

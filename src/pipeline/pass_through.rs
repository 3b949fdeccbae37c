//! Requests that no fence guards: reads, and writes in scopes that are not fenced.
//!
//! Status, headers and body go through as the store sent them; nothing is added but a request id.

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header};
use http_body_util::BodyExt as _;

use super::body::{self, ClientBody, Prepared};
use super::conditions::client_condition;
use super::{Proxy, ResponseBody, Understood, respond};
use crate::clock;
use crate::fence::{Tag, UnfencedPermit};
use crate::s3::{Operation, S3Error};
use crate::upstream::{
    Dialect, IdleLimit, Route, SendError, for_store, remove_hop_by_hop, set_length,
};

/// The largest body that is held in memory here, in bytes. It is sent once, so that it need not be
/// kept, and many parts of uploads come at the same time.
const HELD_BYTES_MAX: usize = 256 * 1024;

impl Proxy {
    /// Passes a request that changes nothing.
    pub(super) async fn read(
        &self,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        self.forward(None, request, body).await
    }

    /// Passes a request that may change something no fence guards.
    pub(super) async fn pass(
        &self,
        permit: UnfencedPermit,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        self.forward(Some(permit), request, body).await
    }

    async fn forward(
        &self,
        permit: Option<UnfencedPermit>,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let inner = &self.0;
        let time_max = inner.settings.request_body_max;
        let body = body::wrap(&request, body)?;
        let (outcome, trailer) = (body.outcome(), body.trailer());
        let forward = trailer.filter(|_| inner.upstream.takes_trailers());
        let streams = body.decoded_length().is_some() && forward == trailer;
        let buffer_max = match inner.settings.body_buffer_bytes_max {
            bytes_max if streams => bytes_max.min(HELD_BYTES_MAX),
            // Its length, or the checksum that the store would not get otherwise, is known at its
            // end only.
            bytes_max => bytes_max,
        };
        let mut headers = for_store(request.parts.headers.clone());
        if let Some(header) = inner.upstream.unspeakable(&headers) {
            return Err(respond::unspeakable_header(header));
        }
        if permit.is_some() && inner.upstream.dialect() == Dialect::Gcs {
            self.name_generation(&request, &mut headers).await?;
        }
        let keeps = forward.is_some();
        let prepared =
            body::prepare(&request, body, &mut headers, buffer_max, time_max, keeps).await?;
        let streamed = matches!(prepared, Prepared::Streamed(..));
        let (body, length, payload) = prepared.into_out_body(forward, &mut headers);
        let method = request.parts.method.clone();
        let has_length = request.parts.headers.contains_key(header::CONTENT_LENGTH);
        if length > 0 || has_length || method == Method::PUT || method == Method::POST {
            set_length(&mut headers, length);
        }
        if streamed && request.parts.headers.contains_key(header::EXPECT) {
            headers.insert(header::EXPECT, HeaderValue::from_static("100-continue"));
        }
        let started = clock::monotonic();
        let sent = match permit {
            None => inner.upstream.send_read(method, &request.route, headers, body, payload).await,
            Some(permit) => {
                let route = &request.route;
                inner.upstream.send_unfenced(permit, method, route, headers, body, payload).await
            }
        };
        let took = clock::monotonic().duration_since(started);
        inner.metrics.upstream(request.operation.name(), took);
        match sent {
            Ok(response) => Ok(as_the_store_sent_it(response)),
            Err(error) => {
                if let Some(Err(wrong)) = outcome.get() {
                    return Err(respond::invalid_body(wrong));
                }
                tracing::warn!(
                    request_id = %request.id, operation = request.operation.name(), %error,
                    "the store did not answer"
                );
                Err(match error {
                    SendError::Unsent(_) => respond::store_unreachable(),
                    SendError::Lost(_) => respond::store_silent(),
                })
            }
        }
    }
}

impl Proxy {
    /// A client's own condition on an unfenced write, for Google, which judges no ETag where it
    /// writes but goes on as if nothing had been asked: the object is looked at, and its generation
    /// named.
    async fn name_generation(
        &self,
        request: &Understood,
        headers: &mut HeaderMap,
    ) -> Result<(), S3Error> {
        let condition = client_condition(headers, Dialect::Gcs)?;
        if condition.is_none() {
            return Ok(());
        }
        let judged = matches!(
            request.operation,
            Operation::PutObject | Operation::CopyObject | Operation::DeleteObject
        );
        if !judged {
            // Google ignores the generation of a Complete as well.
            let header = if condition.if_none_match_any { "If-None-Match" } else { "If-Match" };
            return Err(respond::unspeakable_header(header));
        }
        if condition.if_match.is_none() {
            return Ok(());
        }
        let route = Route { query: None, ..request.route.clone() };
        let observed = self.0.upstream.observe(&route).await.map_err(|error| {
            tracing::warn!(request_id = %request.id, %error, "the object could not be looked at");
            respond::store_silent()
        })?;
        condition.check(&observed.tag).map_err(respond::condition_failed)?;
        if let Tag::Version(tag) = observed.tag {
            let value = HeaderValue::from_str(&format!("\"{tag}\""));
            headers.insert(header::IF_MATCH, value.expect("a tag came in headers"));
        }
        Ok(())
    }
}

fn as_the_store_sent_it(response: Response<IdleLimit>) -> Response<ResponseBody> {
    let (mut parts, body) = response.into_parts();
    remove_hop_by_hop(&mut parts.headers);
    parts.extensions.clear();
    // That of the connection to the client. An old store's would also make hyper end a body of
    // unknown length by closing, which does not show that it was cut.
    parts.version = Version::HTTP_11;
    if body.is_without_body() {
        // Nobody reads what the client may send of it.
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let states_length = parts.headers.contains_key(header::CONTENT_LENGTH);
    let body = if parts.status == StatusCode::NOT_MODIFIED && states_length {
        body::Unsent.boxed_unsync()
    } else {
        body.boxed_unsync()
    };
    Response::from_parts(parts, body)
}

//! PostObject: a browser's form, verified and made the PUT that it amounts to.
//!
//! Key and token are in the body, so that its fields are read before anything is decided; the file
//! behind them is read when they are in order, into memory, because its length is known only by
//! its end. From there on it is a PutObject like any other, and its answer becomes the form's.

use std::ops::RangeInclusive;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::Scheme;
use http::{Method, Request, Response};

use super::body::{self, ClientBody};
use super::{Authentication, Proxy, ResponseBody, Understood, full_body, respond, token};
use crate::auth::{Payload, SignedHeaders, Verified, verify_post};
use crate::clock;
use crate::fence::Token;
use crate::s3::{
    Bucket, FormError, PostForm, PostObject, S3Error, Target, Write, percent_encode_key, read_form,
    side_door, strip_quotes,
};
use crate::upstream::Route;

/// A form that is in order, and its file.
struct Upload {
    post: PostObject,
    token: Option<Token>,
    file: Bytes,
}

/// Whether a request's body is a browser's form.
pub(super) fn is_form(parts: &Parts) -> bool {
    content_type(parts)
        .split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("multipart/form-data"))
}

fn content_type(parts: &Parts) -> &str {
    parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

impl Proxy {
    /// Writes the object that a form names.
    pub(super) async fn post_object(
        &self,
        bucket: &Bucket,
        request: Understood,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let time_max = self.0.settings.request_body_max;
        let upload = self.read_upload(bucket, &request, body);
        let upload = tokio::time::timeout(time_max, upload)
            .await
            .map_err(|_| respond::body_timeout(time_max))??;
        let Upload { post, token, file } = upload;
        let put = put_of(&request, bucket, &post, token, file.len());
        let policy = &self.0.settings.policy;
        let place = if policy.is_off_everywhere(bucket) {
            policy.place(bucket, post.key.clone())
        } else {
            if let Some(door) = side_door(&put.parts.headers) {
                return Err(self.unsupported(&put, Some(door)));
            }
            self.place_of(bucket, &post.key)?
        };
        let answer = self.write(Write::Put, place, put, body::in_memory(file)).await?;
        if answer.status().is_success() {
            let location = location(&self.0.settings.scheme, &request.parts, &post);
            Ok(form_answer(&location, bucket, &post, answer.headers()))
        } else {
            Ok(answer)
        }
    }

    /// Reads a form, and verifies it before its file is read.
    async fn read_upload(
        &self,
        bucket: &Bucket,
        request: &Understood,
        body: ClientBody,
    ) -> Result<Upload, S3Error> {
        let settings = &self.0.settings;
        let body = body::wrap(request, body)?;
        let read = read_form(content_type(&request.parts), body).await;
        let (form, file) = read.map_err(|error| respond::invalid_form(&error))?;
        let file_bytes = self.verify_form(bucket, &form)?;
        let token = token::find_in_form(&form, &request.verified, request.token)
            .map_err(|problem| self.token_problem(Some(bucket), &problem))?;
        let post = PostObject::of(&form).map_err(|error| respond::invalid_form(&error))?;
        let bytes_max = (*file_bytes.end()).min(settings.body_buffer_bytes_max as u64);
        let file = file.read(bytes_max).await.map_err(|error| respond::invalid_form(&error))?;
        let (size, min) = (file.len() as u64, *file_bytes.start());
        if size < min {
            return Err(respond::invalid_form(&FormError::FileTooSmall { size, min }));
        }
        Ok(Upload { post, token, file })
    }

    /// How many bytes the file of a form may have.
    fn verify_form(
        &self,
        bucket: &Bucket,
        form: &PostForm,
    ) -> Result<RangeInclusive<u64>, S3Error> {
        match &self.0.settings.authentication {
            Authentication::SigV4(ring) => verify_post(form, bucket.as_str(), ring, clock::now())
                .map(|verified| verified.file_bytes)
                .map_err(|error| respond::form_refused(&error)),
            Authentication::None => Ok(0..=u64::MAX),
        }
    }
}

/// The PUT that a form amounts to. Nothing of the form's own head goes into it.
fn put_of(
    request: &Understood,
    bucket: &Bucket,
    post: &PostObject,
    token: Option<Token>,
    length: usize,
) -> Understood {
    let route = Route::to_object(bucket, &post.key);
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::PUT;
    parts.headers = post.headers.clone();
    parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    Understood {
        id: request.id,
        parts,
        target: Target::Object(bucket.clone(), post.key.clone()),
        operation: request.operation,
        verified: Verified {
            access_key_id: request.verified.access_key_id.clone(),
            form: request.verified.form,
            signed_headers: SignedHeaders::default(),
            payload: Payload::Unsigned,
            session_token: None,
        },
        token,
        bearer: request.bearer.clone(),
        route,
    }
}

/// The answer to a form whose object was written.
fn form_answer(
    location: &str,
    bucket: &Bucket,
    post: &PostObject,
    written: &HeaderMap,
) -> Response<ResponseBody> {
    let etag = written.get(header::ETAG).and_then(|etag| etag.to_str().ok()).unwrap_or_default();
    let (status, location, document) =
        post.on_success.answer(location, bucket, &post.key, strip_quotes(etag));
    let has_document = !document.is_empty();
    let mut response = Response::new(full_body(document.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in written.iter().filter(|(name, _)| describes_object(name)) {
        headers.append(name.clone(), value.clone());
    }
    if let Some(location) = location {
        headers.insert(header::LOCATION, location);
    }
    if has_document {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    }
    response
}

/// What an answer to a PUT says of the object, and of itself.
fn describes_object(name: &HeaderName) -> bool {
    *name == header::ETAG || name.as_str().starts_with("x-amz-")
}

/// Where the object is, in the way in which the client has named its bucket.
fn location(scheme: &Scheme, parts: &Parts, post: &PostObject) -> String {
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| parts.uri.authority().map(|authority| authority.as_str()));
    let bucket = parts.uri.path().trim_end_matches('/');
    let key = percent_encode_key(post.key.as_bytes());
    format!("{scheme}://{}{bucket}/{key}", host.unwrap_or_default())
}

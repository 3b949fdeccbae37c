//! The other form of the same bytes: a multipart upload of one part (F4).
//!
//! Its ETag is not that of a plain PUT, and only its last step changes an object: creating the
//! upload and putting the part in are free to fail. Multipart uploads of *clients* are not this
//! file's business.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use super::write::{WriteAnswer, WriteRequest, fresh_enough};
use super::{
    Answer, OutBody, Route, SendError, Upstream, answer, full, headers, set_length, signing_time,
};
use crate::auth::PayloadHash;
use crate::clock;
use crate::fence::{Outcome, Terms, WritePermit};
use crate::s3::EtagQuotes;

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

/// A multipart upload with its one part in.
pub(super) struct Upload {
    pub(super) request: WriteRequest,
    pub(super) id: String,
    part_etag: String,
}

impl Upstream {
    /// Creates a multipart upload and puts its one part in. No object has changed after this.
    pub(super) async fn upload_one_part(
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
        headers::stamp(&mut create_headers, terms.token, terms.operation);
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

        let encoded_id = query_value(&id);
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
    pub(super) async fn complete(&self, permit: WritePermit, upload: Upload) -> WriteAnswer {
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
        let encoded_id = query_value(&id);
        let route = request.route.with_query(format!("uploadId={encoded_id}"));
        let mut headers = HeaderMap::new();
        headers::set_precondition(&mut headers, &terms.precondition(), request.quotes);
        set_length(&mut headers, xml.len() as u64);
        let at = signing_time(terms.signed_at);
        let payload = PayloadHash::Sha256(Sha256::digest(xml.as_bytes()).into());
        let result = match self.sign(Method::POST, &route, headers, payload, at, None).await {
            Ok(signed) => self.call(signed.map(|()| full(xml.into()))).await,
            Err(error) => Err(error),
        };
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => return WriteAnswer::without(error),
        };
        let outcome = match answer.status.is_success() {
            true => answer.assembled(),
            false => answer.refusal(),
        };
        if matches!(outcome, Outcome::Refused | Outcome::Rejected) {
            self.abort(&request, &id, at).await;
        }
        WriteAnswer { outcome, answer: Some(answer), error: None }
    }

    /// Throws away an upload that nobody knows of.
    pub async fn abort_upload(&self, route: &Route, id: &str) {
        let headers = HeaderMap::new();
        let request = WriteRequest { route: route.clone(), headers, quotes: EtagQuotes::Quoted };
        self.abort(&request, id, clock::now()).await;
    }

    /// Throws an upload away. If that fails it costs space until the store's lifecycle rule for
    /// incomplete uploads removes it, and changes nothing.
    pub(super) async fn abort(&self, request: &WriteRequest, id: &str, at: std::time::SystemTime) {
        let encoded_id = query_value(id);
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

/// A request that changes no object failed: whatever became of it, the write has changed nothing.
fn nothing_changed(error: SendError) -> Box<WriteAnswer> {
    Box::new(WriteAnswer { outcome: Outcome::Rejected, answer: None, error: Some(error) })
}

fn rejected(answer: Answer) -> Box<WriteAnswer> {
    Box::new(WriteAnswer { outcome: Outcome::Rejected, answer: Some(answer), error: None })
}

/// An id in a query.
#[must_use]
pub fn query_value(id: &str) -> String {
    utf8_percent_encode(id, NON_ALPHANUMERIC).to_string()
}

//! The AWS SDK's HTTP client behind the [`Edge`]: what the SDK has signed for S3 is put into the
//! store's words and signed again.
//!
//! The ledger speaks through it. To the SDK the ETag of an object is its tag, generation and all:
//! that is what the ledger compares and swaps by. It is *not* for requests whose bodies stream.

use std::sync::Arc;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;

use super::edge::{Edge, Reading, Speaker};
use super::{Addressing, Dialect};
use crate::auth::{PayloadHash, SignatureForm};
use crate::clock;
use crate::fence::Tag;

/// `client` as it has to be for the store behind `edge`: untouched where that speaks S3.
#[must_use]
pub fn sdk_client_behind(
    edge: &Arc<Edge>,
    addressing: Addressing,
    client: SharedHttpClient,
) -> SharedHttpClient {
    match edge.dialect() {
        Dialect::S3 => client,
        Dialect::Gcs => {
            SharedHttpClient::new(Behind { client, edge: Arc::clone(edge), addressing })
        }
    }
}

#[derive(Debug)]
struct Behind {
    client: SharedHttpClient,
    edge: Arc<Edge>,
    addressing: Addressing,
}

impl HttpClient for Behind {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Connector {
            inner: self.client.http_connector(settings, components),
            edge: Arc::clone(&self.edge),
            addressing: self.addressing,
        })
    }
}

#[derive(Clone, Debug)]
struct Connector {
    inner: SharedHttpConnector,
    edge: Arc<Edge>,
    addressing: Addressing,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connector = self.clone();
        HttpConnectorFuture::new(async move { connector.exchange(request).await })
    }
}

impl Connector {
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let request = request.try_into_http1x().map_err(|error| not_sent(error.to_string()))?;
        let (mut parts, body) = request.into_parts();
        let speaker = match names_an_object(&parts, self.addressing) {
            true => Speaker::Proxy,
            false => Speaker::Client,
        };
        let payload = payload_of(&parts.headers)
            .ok_or_else(|| not_sent("its body is not signed as a whole".to_owned()))?;
        let form = SignatureForm::Header;
        self.edge
            .seal(&mut parts, speaker, payload, clock::now(), form)
            .await
            .map_err(|error| not_sent(error.to_string()))?;
        let reading = Reading::of(&parts.extensions);
        let request = HttpRequest::try_from(http::Request::from_parts(parts, body))
            .map_err(|error| not_sent(error.to_string()))?;
        let response = self.inner.call(request).await?;
        let mut response = response
            .try_into_http1x()
            .map_err(|error| ConnectorError::other(error.into(), None))?;
        reading.read(response.headers_mut());
        if speaker == Speaker::Proxy {
            self.show_tag(response.headers_mut());
        }
        HttpResponse::try_from(response).map_err(|error| ConnectorError::other(error.into(), None))
    }

    /// An ETag without a generation is none: nothing could be swapped by it.
    fn show_tag(&self, headers: &mut HeaderMap) {
        let tag = match self.edge.dialect().tag_of(headers) {
            Some(Tag::Version(tag)) => HeaderValue::from_str(&format!("\"{tag}\"")).ok(),
            Some(Tag::Absent) | None => None,
        };
        match tag {
            Some(tag) => headers.insert(header::ETAG, tag),
            None => headers.remove(header::ETAG),
        };
    }
}

fn not_sent(why: String) -> ConnectorError {
    ConnectorError::user(why.into())
}

/// Whether the request is one about an object: buckets and listings have no tags, and S3's words
/// for them are Google's as well.
fn names_an_object(parts: &Parts, addressing: Addressing) -> bool {
    let path = parts.uri.path().trim_start_matches('/');
    match addressing {
        Addressing::Path => path.split_once('/').is_some_and(|(_, key)| !key.is_empty()),
        Addressing::Virtual => !path.is_empty(),
    }
}

/// What the SDK says of the body.
fn payload_of(headers: &HeaderMap) -> Option<PayloadHash> {
    let said = headers.get("x-amz-content-sha256")?.to_str().ok()?;
    if said == "UNSIGNED-PAYLOAD" {
        return Some(PayloadHash::Unsigned);
    }
    let mut hash = [0; 32];
    hex::decode_to_slice(said, &mut hash).ok()?;
    Some(PayloadHash::Sha256(hash))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn an_object_has_a_key() {
        let named = |uri: &str, addressing| {
            names_an_object(&Request::get(uri).body(()).unwrap().into_parts().0, addressing)
        };
        for (path, object) in
            [("/", false), ("/b", false), ("/b/", false), ("/b/k", true), ("/b//k", true)]
        {
            let uri = format!("http://s.example{path}?x");
            assert_eq!(named(&uri, Addressing::Path), object, "{path}");
        }
        assert!(!named("http://b.s.example/?list-type=2", Addressing::Virtual));
        assert!(named("http://b.s.example/k", Addressing::Virtual));
    }

    #[test]
    fn a_body_is_signed_as_a_whole_or_not_at_all() {
        let payload = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-amz-content-sha256", text.parse().unwrap());
            payload_of(&headers)
        };
        assert_eq!(payload(&"07".repeat(32)), Some(PayloadHash::Sha256([7; 32])));
        assert_eq!(payload("UNSIGNED-PAYLOAD"), Some(PayloadHash::Unsigned));
        assert_eq!(payload("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), None);
        assert_eq!(payload_of(&HeaderMap::new()), None);
    }
}

//! Taking every trace of the client's authentication off a request, before the store's is put on.
//!
//! Names are compared after decoding and without regard to case, as for verifying: what a lenient
//! store could read as a signature must not reach it. `X-Fence-Token` is not authentication; the
//! pipeline takes it off.

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderName, Uri, header};

use super::canonical::{decode_parameter, raw_parameters};

const HEADERS: [&str; 7] = [
    "x-amz-date",
    "x-amz-content-sha256",
    "x-amz-security-token",
    "x-amz-s3session-token",
    "x-amz-region-set",
    "x-goog-date",
    "x-goog-content-sha256",
];

const PARAMETERS: [&[u8]; 19] = [
    b"x-amz-algorithm",
    b"x-amz-credential",
    b"x-amz-date",
    b"x-amz-expires",
    b"x-amz-signedheaders",
    b"x-amz-signature",
    b"x-amz-security-token",
    b"x-amz-content-sha256",
    b"x-amz-s3session-token",
    b"x-amz-region-set",
    // Google's V4, and the name of its V2.
    b"x-goog-algorithm",
    b"x-goog-credential",
    b"x-goog-date",
    b"x-goog-expires",
    b"x-goog-signedheaders",
    b"x-goog-signature",
    b"googleaccessid",
    // Signature Version 2; its third, `Expires`, goes with the first.
    b"awsaccesskeyid",
    b"signature",
];

/// Removes the client's signature, date, session token and payload hash from headers and query.
/// The other parameters keep their bytes and their order.
///
/// `Date` goes too: it is the client's, and a store may take it for the time of signing.
pub fn strip_client_auth(parts: &mut Parts) {
    parts.headers.remove(header::AUTHORIZATION);
    parts.headers.remove(header::DATE);
    for name in HEADERS {
        parts.headers.remove(HeaderName::from_static(name));
    }
    let Some(query) = parts.uri.query() else { return };
    let is_v2 = names(query).any(|name| name == b"awsaccesskeyid");
    let is_auth = |name: &[u8]| PARAMETERS.contains(&name) || (is_v2 && name == b"expires");
    if !names(query).any(|name| is_auth(&name)) {
        return;
    }
    let kept: Vec<&str> =
        raw_parameters(query).filter(|parameter| !is_auth(&name_of(parameter))).collect();
    let path_and_query = join(parts.uri.path(), &kept.join("&"));
    parts.uri = with_path_and_query(&parts.uri, &path_and_query)
        .expect("a URI that had a query has one with fewer parameters");
}

fn names(query: &str) -> impl Iterator<Item = Vec<u8>> {
    raw_parameters(query).map(name_of)
}

/// The decoded name of a raw parameter, in lower case.
fn name_of(parameter: &str) -> Vec<u8> {
    decode_parameter(parameter).0.to_ascii_lowercase()
}

/// `path?query`, without `?` where there is no query.
pub(super) fn join(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// `uri` with another path and query.
pub(super) fn with_path_and_query(uri: &Uri, path_and_query: &str) -> Result<Uri, http::Error> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path_and_query)?);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn stripped(uri: &str) -> String {
        let mut parts = Request::get(uri).body(()).unwrap().into_parts().0;
        strip_client_auth(&mut parts);
        parts.uri.to_string()
    }

    #[test]
    fn other_parameters_keep_their_bytes_and_order() {
        let cases = [
            ("/b/k", "/b/k"),
            ("/b/k?z=%2f&a=+&&versionId", "/b/k?z=%2f&a=+&&versionId"),
            ("/b/k?z=%2f&X-Amz-Signature=ab&a=+", "/b/k?z=%2f&a=+"),
            ("/b/k?X-Amz-Signature=ab", "/b/k"),
            ("/b/k?x%2Damz%2dsignature=ab&uploads", "/b/k?uploads"),
            (
                "http://h:1/b/k?X-Amz-Algorithm=1&X-Amz-Credential=1&X-Amz-Date=1&X-Amz-Expires=1\
                 &X-Amz-SignedHeaders=1&X-Amz-Security-Token=1&X-Amz-Content-Sha256=1&x=1",
                "http://h:1/b/k?x=1",
            ),
            ("/b/k?AWSAccessKeyId=1&Signature=1&Expires=1&x=1", "/b/k?x=1"),
            ("/b/k?Expires=1&response-expires=2", "/b/k?Expires=1&response-expires=2"),
        ];
        for (sent, left) in cases {
            assert_eq!(stripped(sent), left);
        }
    }

    #[test]
    fn only_authentication_headers_go() {
        let mut request = Request::put("/b/k");
        for name in HEADERS.into_iter().chain(["authorization", "date"]) {
            request = request.header(name, "1");
        }
        let kept = ["host", "x-amz-meta-a", "content-md5", "if-match", "x-fence-token"];
        for name in kept {
            request = request.header(name, "1");
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        strip_client_auth(&mut parts);
        assert_eq!(parts.headers.len(), kept.len());
        assert!(kept.iter().all(|name| parts.headers.contains_key(*name)));
    }
}

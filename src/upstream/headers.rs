//! Which headers go on to the other side.
//!
//! Everything end-to-end passes as it came. What concerns one connection alone does not, nor does
//! what is the proxy's own: the fence token, and the conditions that the fence sets itself.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::auth::remove_chunked_framing;
use crate::fence::{OperationId, Precondition, Token};
use crate::s3::EtagQuotes;

/// The token's own header.
pub const FENCE_TOKEN: HeaderName = HeaderName::from_static("x-fence-token");

/// The token stamped on an object (F10).
pub const STAMP_TOKEN: HeaderName = HeaderName::from_static("x-amz-meta-fencepost-token");

/// The operation id stamped on an object (F10).
pub const STAMP_OPERATION: HeaderName = HeaderName::from_static("x-amz-meta-fencepost-operation");

/// Headers that concern one connection (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes what concerns the connection alone.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// What a client's headers become for the store, but for the signature and the length.
#[must_use]
pub fn for_store(mut headers: HeaderMap) -> HeaderMap {
    let takes_trailers = headers.get_all(header::TE).iter().any(names_trailers);
    remove_hop_by_hop(&mut headers);
    remove_chunked_framing(&mut headers);
    for name in [header::HOST, header::CONTENT_LENGTH, header::EXPECT, header::TRAILER] {
        headers.remove(name);
    }
    let own: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("x-fence-")).cloned().collect();
    for name in own {
        headers.remove(name);
    }
    if takes_trailers {
        // Of the connection to the store as well: what the client takes, the proxy passes on.
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
    headers
}

/// Removes the client's conditions on the object that is written.
pub(super) fn remove_preconditions(headers: &mut HeaderMap) {
    headers.remove(header::IF_MATCH);
    headers.remove(header::IF_NONE_MATCH);
}

/// Whether a `TE` says that trailers are welcome (RFC 9110, section 10.1.4).
fn names_trailers(te: &HeaderValue) -> bool {
    let te = te.to_str().unwrap_or_default();
    te.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// Sets the precondition (F3), in the client's condition's place.
pub(super) fn set_precondition(
    headers: &mut HeaderMap,
    precondition: &Precondition,
    quotes: EtagQuotes,
) {
    remove_preconditions(headers);
    match precondition {
        Precondition::IfNoneMatchAny => {
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        Precondition::IfMatch(etag) => {
            let value = HeaderValue::from_str(&quotes.write(etag))
                .expect("an ETag that came in a header can go in one");
            headers.insert(header::IF_MATCH, value);
        }
    }
}

/// Stamps what is written with its token and operation (F10). The names are the proxy's: what a
/// client sent under them (a copy of what it read elsewhere) is replaced.
pub fn stamp(headers: &mut HeaderMap, token: Token, operation: OperationId) {
    let operation = HeaderValue::from_str(&operation.to_string());
    headers.insert(STAMP_TOKEN, HeaderValue::from(token.get()));
    headers.insert(STAMP_OPERATION, operation.expect("it is hexadecimal"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn what_is_the_connections_or_the_proxys_stays_here() {
        let kept = for_store(headers(&[
            ("host", "h"),
            ("connection", "x-private, keep-alive"),
            ("x-private", "1"),
            ("keep-alive", "1"),
            ("transfer-encoding", "chunked"),
            ("content-length", "3"),
            ("expect", "100-continue"),
            ("x-fence-token", "7"),
            ("x-fence-anything", "7"),
            ("content-type", "text/plain"),
            ("x-amz-meta-a", "b"),
        ]));
        assert_eq!(kept, headers(&[("content-type", "text/plain"), ("x-amz-meta-a", "b")]));
    }

    #[test]
    fn a_client_that_takes_trailers_is_one_in_front_of_a_proxy_that_does() {
        let te = [("te", "trailers"), ("connection", "te")];
        assert_eq!(for_store(headers(&[("te", "gzip;q=0.5, Trailers")])), headers(&te));
        assert_eq!(for_store(headers(&[("te", "gzip")])), headers(&[]));
    }

    #[test]
    fn the_fences_condition_replaces_the_clients() {
        let mut map = headers(&[("if-match", "\"theirs\""), ("if-none-match", "*")]);
        set_precondition(&mut map, &Precondition::IfMatch("e".into()), EtagQuotes::Quoted);
        assert_eq!(map, headers(&[("if-match", "\"e\"")]));
        set_precondition(&mut map, &Precondition::IfNoneMatchAny, EtagQuotes::Bare);
        assert_eq!(map, headers(&[("if-none-match", "*")]));
    }

    #[test]
    fn a_stamp_replaces_one_that_was_copied_along() {
        let mut map = headers(&[("x-amz-meta-fencepost-operation", "old")]);
        stamp(&mut map, Token::new(9).unwrap(), OperationId::new(1));
        assert_eq!(map.get_all(STAMP_OPERATION).iter().count(), 1);
        assert_eq!(map[STAMP_TOKEN], "9");
    }
}

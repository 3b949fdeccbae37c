//! The request target and the host, before anybody uses them.
//!
//! The path and query that reach a handler are the bytes of the request line: nothing is decoded,
//! normalised or merged (`//`, `.`, `..`, `%2F` stay), because signatures cover them and keys are
//! made of them. What hyper and `http::Uri` do on the way:
//!
//! | in the target | what happens |
//! |---|---|
//! | `!` to `~`, but for the next three lines | kept, also where RFC 3986 wants it encoded |
//! | `<`, `>` and `` ` `` in the path | 400 by hyper; clients send `%3C`, `%3E`, `%60` |
//! | `<`, `>` and `"` in the query | 400 by hyper |
//! | bytes from 0x80 on that are UTF-8 | kept |
//! | bytes from 0x80 on that are not UTF-8 | 400 by hyper |
//! | control characters, space | 400 by hyper |
//! | `#` and what follows | **cut off** by `http::Uri`: a target has no fragment, clients send `%23` |
//! | `http://host/path` (absolute form) | accepted when `host` is the `Host`, see [`check`] |
//! | `*`, `host:port` (CONNECT) | 400 by [`check`] |
//! | more than 65 534 bytes | 414 by hyper |
//!
//! On HTTP/2 the target is `:path` and the host is `:authority`. The same bytes are kept and cut
//! off; what is 400 by hyper is a stream that h2 resets with `PROTOCOL_ERROR`, because such a
//! request is malformed (RFC 9113, 8.1.1), and so is a request with `Connection` and its like.
//!
//! hyper drops `Content-Length` beside `Transfer-Encoding: chunked`, and the body is then read as
//! chunked. Bodies are framed anew towards the store, so nothing can be smuggled behind one.

use http::{HeaderValue, Method, Version, header, request};

/// Writes down what HTTP/2 says in its own way as HTTP/1 says it, which is what signatures, the
/// store and everything in between know: the authority as `Host`, cookies in one header
/// (RFC 9113, 8.2.3).
pub(super) fn as_in_http1(request: &mut request::Parts) {
    if request.version != Version::HTTP_2 {
        return;
    }
    if !request.headers.contains_key(header::HOST)
        && let Some(authority) = request.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        request.headers.insert(header::HOST, host);
    }
    let cookies: Vec<_> = request.headers.get_all(header::COOKIE).iter().collect();
    if cookies.len() > 1 {
        let joined =
            cookies.iter().map(|cookie| cookie.as_bytes()).collect::<Vec<_>>().join(&b"; "[..]);
        let joined = HeaderValue::from_bytes(&joined).expect("values that are allowed are, joined");
        request.headers.insert(header::COOKIE, joined);
    }
}

/// Refuses what HTTP does not allow or what could mean two things.
pub(super) fn check(request: &request::Parts) -> Result<(), &'static str> {
    let mut hosts = request.headers.get_all(header::HOST).iter();
    let host = hosts.next();
    // RFC 9112, 3.2: a server must refuse a request with no Host, or with several.
    if hosts.next().is_some() {
        return Err("more than one Host header");
    }
    if host.is_none() && request.version != Version::HTTP_10 {
        return Err("no Host header");
    }
    if request.method == Method::CONNECT || !request.uri.path().starts_with('/') {
        return Err("the request target is not a path");
    }
    if let Some(authority) = request.uri.authority() {
        // By RFC 9112, 3.2.2 the target would replace Host; but Host is what the signature
        // covers and what names a bucket, so the two must not differ.
        let host = host.map(http::HeaderValue::as_bytes).unwrap_or_default();
        if !authority.as_str().as_bytes().eq_ignore_ascii_case(host) {
            return Err("the request target names another host than the Host header");
        }
        if authority.as_str().contains('@') {
            return Err("the request target names a user");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn checked(build: http::request::Builder) -> Result<(), &'static str> {
        check(&build.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_request_has_one_host() {
        let one = || Request::get("/b/k").header("host", "a");
        assert_eq!(checked(one()), Ok(()));
        assert_eq!(checked(one().header("host", "a")), Err("more than one Host header"));
        assert_eq!(checked(Request::get("/b/k")), Err("no Host header"));
        assert_eq!(checked(Request::get("/b/k").version(Version::HTTP_10)), Ok(()));
    }

    #[test]
    fn a_target_is_a_path_on_that_host() {
        let of = |target: &str| Request::get(target).header("host", "store.test:9000");
        assert_eq!(checked(of("http://Store.Test:9000/b/k?x")), Ok(()));
        assert!(checked(of("http://other.test/b/k")).is_err());
        assert!(checked(of("http://user@store.test:9000/b/k")).is_err());
        assert!(checked(of("*")).is_err());
        let connect = Request::connect("store.test:9000").header("host", "store.test:9000");
        assert!(checked(connect).is_err());
    }
}

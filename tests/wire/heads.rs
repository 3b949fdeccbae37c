//! Status, headers and trailers, as one side sent them and the other got them.

use super::support::header;
use super::{Stage, ask};

/// The headers of a head, sorted, without those that `own` names.
fn headers(head: &str, own: &[&str]) -> Vec<String> {
    let lines = head.lines().skip(1).filter(|line| !line.is_empty());
    let mut headers: Vec<String> = lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            format!("{}: {}", name.to_ascii_lowercase(), value.trim())
        })
        .filter(|line| !own.iter().any(|own| line.starts_with(&format!("{own}: "))))
        .collect();
    headers.sort();
    headers
}

/// Plays one answer after another on every connection.
async fn answers(texts: &'static [&'static str]) -> Stage {
    Stage::set("", move |mut wire| async move {
        for text in texts {
            let Some(_) = wire.request().await else { return };
            wire.send(text).await;
        }
    })
    .await
}

/// The third request shows that nobody took a body for there, or waited for one.
#[tokio::test]
async fn answers_without_a_body_keep_their_length() {
    let stage = answers(&[
        "HTTP/1.1 200 OK\r\nContent-Length: 5000000000\r\nETag: \"e\"\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 123\r\nETag: \"e\"\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nx-amz-delete-marker: true\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 77\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlast",
    ])
    .await;
    let mut caller = stage.caller().await;
    let requests = [
        (ask("HEAD", "k", ""), "200 OK", Some("5000000000")),
        (ask("GET", "k", "If-None-Match: \"e\"\r\n"), "304 Not Modified", Some("123")),
        (ask("GET", "k", "If-None-Match: \"e\"\r\n"), "304 Not Modified", None),
        (ask("DELETE", "k", ""), "204 No Content", None),
        (ask("HEAD", "none", ""), "404 Not Found", Some("77")),
        (ask("HEAD", "k", ""), "200 OK", None),
    ];
    for (request, status, length) in requests {
        caller.send(&request).await;
        let head = caller.until("\r\n\r\n").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}{head}");
        assert_eq!(header(&head, "content-length"), length, "{request}{head}");
    }
    caller.send(ask("GET", "k", "")).await;
    assert_eq!(caller.answer().await.1, b"last");
}

#[tokio::test]
async fn nothing_is_added_to_an_answer_but_a_request_id() {
    const HEAD: &str = "HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\nServer: a store\r\n\
                        Date: Sun, 29 Nov 2026 00:00:00 GMT\r\nx-amz-meta-a: caf\u{e9} \u{1f512}\r\n\
                        X-Odd: 1\r\nX-Odd: 2, 3\r\nx-odd:\r\nContent-Range: bytes 0-1/9\r\n\
                        x-amz-request-id: 0123\r\nAlt-Svc: clear\r\nWarning: 199 - \"w\"\r\n";
    let stage = Stage::set("", move |mut wire| async move {
        let Some(_) = wire.request().await else { return };
        let hop = "Connection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n";
        wire.send(format!("{HEAD}{hop}\r\nok")).await;
    })
    .await;
    let mut caller = stage.caller().await;
    caller.send(ask("GET", "k", "Range: bytes=0-1\r\n")).await;
    let (head, body) = caller.answer().await;
    assert!(head.starts_with("HTTP/1.1 206 Partial Content\r\n"), "{head}");
    assert_eq!(headers(&head, &["x-fencepost-request-id"]), headers(HEAD, &[]));
    assert_eq!(header(&head, "x-fencepost-request-id").map(str::len), Some(16));
    assert_eq!(body, b"ok");
}

#[tokio::test]
async fn nothing_is_added_to_a_request_but_a_signature() {
    let stage = answers(&["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]).await;
    let mut caller = stage.caller().await;
    let sent = "Content-Type: text/caf\u{e9}\r\nx-amz-meta-a: 1\r\nx-amz-meta-a: 2\r\n\
                X-Unknown:  a  b \r\nAccept-Encoding: br\r\nUser-Agent: u/1 (x)\r\n\
                If-None-Match: *\r\nAccept: */*\r\nForwarded: for=1.2.3.4\r\nVia: 1.1 a\r\n\
                Content-Length: 4\r\n";
    let hop = "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-Fence-Token: 7\r\n";
    caller.send(ask("PUT", "k", &format!("{sent}{hop}")) + "body").await;
    caller.answer().await;
    let ours = ["host", "authorization", "x-amz-date", "x-amz-content-sha256"];
    let got = stage.store.heads().remove(0);
    assert_eq!(headers(&got, &ours), headers(&format!("PUT\r\n{sent}"), &[]));
    assert_eq!(got.lines().next(), Some("PUT /data/k HTTP/1.1"));
}

#[tokio::test]
async fn the_stores_trailers_reach_a_client_that_takes_them() {
    let stage = answers(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
                           Trailer: x-amz-checksum-crc32\r\n\r\n\
                           4\r\nbody\r\n0\r\nx-amz-checksum-crc32: AAAAAA==\r\n\r\n"])
    .await;
    let mut caller = stage.caller().await;
    caller.send(ask("GET", "k", "TE: trailers\r\nConnection: TE, close\r\n")).await;
    let head = caller.until("\r\n\r\n").await;
    assert_eq!(header(&head, "trailer"), Some("x-amz-checksum-crc32"), "{head}");
    let rest = caller.rest().await;
    assert_eq!(
        String::from_utf8_lossy(&rest),
        "4\r\nbody\r\n0\r\nx-amz-checksum-crc32: AAAAAA==\r\n\r\n"
    );
    let asked = stage.store.heads().remove(0);
    assert_eq!(header(&asked, "te"), Some("trailers"), "a store need not send them unasked");
    assert_eq!(header(&asked, "connection"), Some("te"), "TE concerns this connection");
}

/// The version is that of the connection, and not something that passes through.
#[tokio::test]
async fn an_old_store_does_not_make_the_proxy_old() {
    let stage = answers(&["HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"]).await;
    let mut caller = stage.caller().await;
    for _ in 0..2 {
        caller.send(ask("GET", "k", "")).await;
        let (head, body) = caller.answer().await;
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert_eq!(body, b"ok");
    }
}

#[tokio::test]
async fn errors_pass_whole_whatever_they_are() {
    let stage = answers(&[
        "HTTP/1.1 409 Conflict\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nno <X>",
        "HTTP/1.1 418 I'm a teapot\r\nContent-Length: 3\r\n\r\n\0\u{7f}!",
        "HTTP/1.1 599 Odd\r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ])
    .await;
    let mut caller = stage.caller().await;
    for (status, body) in [(409, "no <X>"), (418, "\0\u{7f}!"), (599, "1\r\nx\r\n0\r\n\r\n")] {
        caller.send(super::put("k", "b")).await;
        let head = caller.until("\r\n\r\n").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!(caller.until(body).await, body);
    }
}

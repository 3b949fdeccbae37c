//! Which requests reach a handler, and with which bytes.

use crate::{LIMITS, ask, get, server};

#[tokio::test]
async fn the_bytes_of_a_target_reach_the_handler_as_they_were_sent() {
    let server = server(LIMITS).await;
    let kept: [&[u8]; 10] = [
        b"/b/k",
        b"//b//k//",
        b"/b/../k/./x",
        b"/b/%2e%2E/%2F%2f%00%FF",
        b"/b/a+b%20c;d=e,f:g@h!$&'()*~-_",
        b"/b/k?list-type=2&prefix=a%2Fb&x",
        b"/b/k?",
        b"/b/k??a=b?c",
        "/b/sn\u{f6}/\u{1f512}".as_bytes(),
        b"/b/%zz%1",
    ];
    for target in kept {
        let mut head = b"GET ".to_vec();
        head.extend_from_slice(target);
        head.extend_from_slice(b" HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = ask(server.address, head).await;
        let text = String::from_utf8_lossy(target);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{text}: {answer}");
        assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, text);
    }
    // A fragment has no place in a target and is cut off by the URI parser; a client sends %23.
    let answer = ask(server.address, get("/b/k#fragment")).await;
    assert!(answer.ends_with("\r\n\r\n/b/k"), "{answer}");
    let absolute = ask(server.address, get("http://A/b/k?x")).await;
    assert!(absolute.ends_with("\r\n\r\n/b/k?x"), "{absolute}");
}

/// What the table in `listener::target` says, byte by byte. A change of the HTTP libraries that
/// makes another key of the same bytes is noticed here.
#[tokio::test]
async fn every_printable_byte_of_a_target_is_kept_or_refused() {
    let server = server(LIMITS).await;
    for (before, refused) in [("/b/", "<>`"), ("/b/?", "\"<>")] {
        let mut found = String::new();
        for byte in (b'!'..=b'~').filter(|byte| *byte != b'#').map(char::from) {
            let target = format!("{before}{byte}x");
            let answer = ask(server.address, get(&target)).await;
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            if head.starts_with("HTTP/1.1 400 ") {
                found.push(byte);
            } else {
                assert_eq!(body, target);
            }
        }
        assert_eq!(found, refused, "after {before}");
    }
}

#[tokio::test]
async fn what_http_does_not_allow_is_400() {
    let server = server(LIMITS).await;
    let ours = [
        ("GET /b/k HTTP/1.1\r\n\r\n", "no Host header"),
        ("GET /b/k HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "more than one Host header"),
        ("GET http://b/b/k HTTP/1.1\r\nHost: a\r\n\r\n", "names another host than the Host header"),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "the request target is not a path"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "the request target is not a path"),
    ];
    for (head, why) in ours {
        let answer = ask(server.address, head).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with(why), "{head}: {answer}");
    }
    let hypers: [&[u8]; 6] = [
        b"GET /b/\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /b/\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET b/k HTTP/1.1\r\nHost: a\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"PUT /b/k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    ];
    for head in hypers {
        let answer = ask(server.address, head).await;
        let text = String::from_utf8_lossy(head);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{text}: {answer}");
    }
}

#[tokio::test]
async fn every_request_has_an_id_of_its_own() {
    let server = server(LIMITS).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = ask(server.address, get("/id")).await;
        let line = answer.lines().last().unwrap().to_owned();
        let (id, client) = line.split_once(' ').unwrap();
        let upper_hex = |c: char| c.is_ascii_digit() || ('A'..='F').contains(&c);
        assert!(id.len() == 16 && id.chars().all(upper_hex), "{id}");
        assert!(client.starts_with("127.0.0.1:"), "{client}");
        ids.push(id.to_owned());
    }
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn bytes_are_counted_in_both_directions() {
    let server = server(LIMITS).await;
    let chunked = "PUT /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n0\r\n\r\n";
    let answer = ask(server.address, chunked).await;
    assert!(answer.ends_with("5 bytes"), "{answer}");
    assert_eq!(server.traffic.received_bytes.get(), 5);
    assert_eq!(server.traffic.sent_bytes.get(), 7);
}

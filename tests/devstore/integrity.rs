//! What is not what was sent, and what is not signed as it should be, is never stored.

use crate::raw::Raw;
use crate::{BUCKET, get, outcome, put, start};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, ChecksumMode};
use fencepost::devstore::Profile;
use std::time::Duration;

/// SHA-256 of `hello`.
const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

#[tokio::test]
async fn a_body_that_is_not_the_claimed_one_is_not_stored() {
    let (running, client) = start(Profile::Aws).await;
    let put = || Raw::new("PUT", "k");
    let md5 = "XUFAKrxLKna5cZ2REBfFkg==";
    let crc32 = "NhCmhg==";
    let trailer = |value: &str| format!("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:{value}\r\n\r\n");
    let streamed = || {
        let put = put().payload_hash("STREAMING-UNSIGNED-PAYLOAD-TRAILER");
        let put = put.header("content-encoding", "aws-chunked");
        put.header("x-amz-decoded-content-length", "5")
            .header("x-amz-trailer", "x-amz-checksum-crc32")
    };
    let refused = [
        (put().header("content-md5", md5), "hullo".to_owned(), "400 BadDigest"),
        (put().header("content-md5", "AAAA"), "hello".to_owned(), "400 InvalidDigest"),
        (put().header("x-amz-checksum-crc32", crc32), "hullo".to_owned(), "400 BadDigest"),
        (put().payload_hash(HELLO), "hullo".to_owned(), "400 XAmzContentSHA256Mismatch"),
        (streamed(), trailer("AAAAAA=="), "400 BadDigest"),
        (streamed(), "5\r\nhello\r\n0\r\n\r\n".to_owned(), "400 MalformedTrailerError"),
        (streamed(), "5\r\nhello\r\n".to_owned(), "400 MalformedTrailerError"),
        (streamed(), "4\r\nhell\r\n".to_owned(), "400 IncompleteBody"),
        (streamed(), "9\r\nhell\r\n".to_owned(), "400 IncompleteBody"),
    ];
    for (request, body, expected) in refused {
        assert_eq!(request.send(&running, &body).await, expected, "{body:?}");
        assert_eq!(get(&client, "k").await, None, "{body:?}");
    }
    assert!(running.store().history().is_empty());

    assert_eq!(put().payload_hash(HELLO).send(&running, "hello").await, "ok");
    assert_eq!(put().header("content-md5", md5).send(&running, "hello").await, "ok");
    assert_eq!(put().header("x-amz-checksum-crc32", crc32).send(&running, "hello").await, "ok");
    assert_eq!(streamed().send(&running, &trailer(crc32)).await, "ok");
    let head = client.head_object().bucket(BUCKET).key("k").checksum_mode(ChecksumMode::Enabled);
    let head = head.send().await.unwrap();
    assert_eq!(head.content_encoding(), None, "aws-chunked is about the transfer");
    assert_eq!(head.checksum_crc32(), Some(crc32));
    assert_eq!(get(&client, "k").await.as_deref(), Some("hello"));
}

#[tokio::test]
async fn checksums_come_back() {
    let (_running, client) = start(Profile::Aws).await;
    let algorithms = [
        ChecksumAlgorithm::Crc32,
        ChecksumAlgorithm::Crc32C,
        ChecksumAlgorithm::Crc64Nvme,
        ChecksumAlgorithm::Sha1,
        ChecksumAlgorithm::Sha256,
    ];
    for algorithm in algorithms {
        let put = client.put_object().bucket(BUCKET).key("k").checksum_algorithm(algorithm);
        put.body(ByteStream::from_static(b"hello")).send().await.unwrap();
        // The client verifies what it is sent when the mode is enabled.
        let got = client.get_object().bucket(BUCKET).key("k").checksum_mode(ChecksumMode::Enabled);
        let got = got.send().await.unwrap();
        assert_eq!(got.checksum_type().map(|t| t.as_str()), Some("FULL_OBJECT"));
        assert_eq!(got.body.collect().await.unwrap().to_vec(), b"hello");
    }
}

#[tokio::test]
async fn signatures() {
    let (running, client) = start(Profile::Aws).await;
    put(&client, "k", "v").await;
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let old = Raw::new("GET", "k").age(minutes(16));
    assert_eq!(old.send(&running, "").await, "403 RequestTimeTooSkewed");
    assert_eq!(Raw::new("GET", "k").age(minutes(14)).send(&running, "").await, "ok");
    let expired = Raw::new("GET", "k").presigned(minutes(1)).age(minutes(2));
    assert_eq!(expired.send(&running, "").await, "403 AccessDenied");
    assert_eq!(Raw::new("GET", "k").presigned(minutes(1)).send(&running, "").await, "ok");
    let injected = Raw::new("PUT", "k").unsigned("x-amz-meta-token", "99");
    assert_eq!(injected.send(&running, "w").await, "403 AccessDenied");
    let injected = Raw::new("PUT", "k").presigned(minutes(1)).unsigned("x-amz-copy-source", "b/s");
    assert_eq!(injected.send(&running, "").await, "403 AccessDenied");
    assert_eq!(get(&client, "k").await.as_deref(), Some("v"));

    let config = client.config().to_builder();
    let wrong = aws_credential_types::Credentials::new("fencepost-dev", "wrong", None, None, "");
    let wrong = aws_sdk_s3::Client::from_conf(config.credentials_provider(wrong).build());
    let answer = wrong.get_object().bucket(BUCKET).key("k").send().await;
    assert_eq!(outcome(answer), "403 SignatureDoesNotMatch");
}

#[tokio::test]
async fn the_clock_can_be_shifted() {
    let (running, client) = start(Profile::Aws).await;
    put(&client, "k", "v").await;
    let date = async || {
        let text = Raw::new("GET", "k").presigned(Duration::from_secs(7200));
        let text = text.open(&running, 0).await.answer_text().await;
        let line = text.lines().find_map(|line| line.strip_prefix("date: ")).unwrap().to_owned();
        httpdate::parse_http_date(&line).unwrap()
    };
    let now = date().await;
    assert!(now.elapsed().unwrap() < Duration::from_secs(10));
    running.store().set_clock_offset_ms(3_600_000);
    let later = date().await.duration_since(now).unwrap();
    assert!((3600..3610).contains(&later.as_secs()));
    let skewed = Raw::new("GET", "k").send(&running, "").await;
    assert_eq!(skewed, "403 RequestTimeTooSkewed");
    running.store().set_clock_offset_ms(0);
    assert_eq!(outcome(client.head_object().bucket(BUCKET).key("k").send().await), "ok");
}

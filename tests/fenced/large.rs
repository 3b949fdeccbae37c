//! Bodies that are too large to be held: they stream, and their last bytes wait for the fence.

use std::time::Duration;

use bytes::Bytes;
use fencepost::devstore::{Effect, Profile};
use http::Method;
use sha2::{Digest as _, Sha256};

use super::support::{
    Answer, Backend, Feed, Payload, Proxy, S3, feed, signed_chunks, soon,
    unsigned_chunks_with_crc32,
};
use super::{IMPATIENT, UNIQUE, on_data, on_every_store, tokens};

/// Small, so that a body need not be large to be too large.
const SETTINGS: &str = "limits.body_buffer_bytes_max = 65536\n\
                        fence.contention_wait_seconds_max = 1\n\
                        fence.settle_delay_milliseconds = 60000\n";

/// More than is held.
const LARGE: usize = 1024 * 1024;

fn large(byte: u8) -> Bytes {
    vec![byte; LARGE].into()
}

/// An upload under way: the first half of `body` has been sent.
async fn half(client: S3, body: &Bytes) -> (Feed, tokio::task::JoinHandle<Answer>) {
    let (sender, stream) = feed();
    let payload = Payload::Stream(stream, body.len() as u64, "UNSIGNED-PAYLOAD".into());
    let upload = tokio::spawn(async move { client.put("k", payload).await });
    for piece in body.slice(..body.len() / 2).chunks(64 * 1024) {
        assert!(sender.send(Bytes::copy_from_slice(piece)).await);
    }
    // Long enough for it to be on its way to the store.
    tokio::time::sleep(Duration::from_millis(100)).await;
    (sender, upload)
}

/// The other half; whoever refuses it half-way does not take it all.
async fn finish(sender: Feed, body: &Bytes) {
    for piece in body.slice(body.len() / 2..).chunks(64 * 1024) {
        if !sender.send(Bytes::copy_from_slice(piece)).await {
            return;
        }
    }
}

#[tokio::test]
async fn a_large_body_is_admitted_and_the_next_stale_one_refused() {
    let body = Bytes::from(vec![b'x'; 12 * 1024 * 1024]);
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        // The default limit: 8 MiB.
        let proxy = backend.proxy(&format!("{IMPATIENT}{regime}")).await;
        let answer = soon("an upload", proxy.token(7).put("k", body.clone())).await;
        assert_eq!(answer.short(), "200", "{profile}");
        let stored = backend.store().object("data", "k").await.unwrap().unwrap();
        assert!(stored.body == body, "{profile}: byte for byte");
        assert_eq!(stored.etag, answer.etag());
        assert_eq!(stored.metadata["fencepost-token"], "7");
        let again = soon("an upload", proxy.token(8).put("k", body.clone())).await;
        assert_eq!(again.short(), "200", "{profile}: over itself");
        let stale = soon("a refusal", proxy.token(7).put("k", body.clone())).await;
        assert_eq!(stale.short(), "409 StaleFenceToken", "{profile}");
        assert_eq!(tokens(&backend, "k"), [7, 8], "{profile}");
    })
    .await;
}

/// The refusal needs the head alone: not one byte of the body has to come.
#[tokio::test]
async fn a_stale_token_is_refused_before_its_body() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let settings = format!("{SETTINGS}{regime}");
        let (warm, cold) = backend.proxies(&settings).await;
        assert_eq!(warm.token(7).put("k", "one").await.short(), "200");
        for proxy in [&warm, &cold] {
            let (sender, stream) = feed();
            let payload = Payload::Stream(stream, LARGE as u64, "UNSIGNED-PAYLOAD".into());
            let stale = soon("a refusal", proxy.token(6).put("k", payload)).await;
            assert_eq!(stale.short(), "409 StaleFenceToken", "{profile}");
            drop(sender);
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_that_is_overtaken_during_its_upload_changes_nothing() {
    on_every_store(async |profile, regime| {
        for exists in [false, true] {
            let backend = Backend::embedded(profile).await;
            let settings = format!("{SETTINGS}{regime}");
            let (older, newer) = backend.proxies(&settings).await;
            if exists {
                assert_eq!(older.token(10).put("k", "idle").await.short(), "200");
            }
            let before = tokens(&backend, "k").len();
            let body = large(b'l');
            let (sender, upload) = half(older.token(11), &body).await;
            let overtaking = soon("the newer holder", newer.token(12).put("k", "new")).await;
            assert_eq!(overtaking.short(), "200", "{profile} {exists}");
            finish(sender, &body).await;
            let late = soon("the older holder's answer", upload).await.unwrap();
            assert_eq!(late.short(), "409 StaleFenceToken", "{profile} {exists}");
            assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"new"[..]));
            assert_eq!(tokens(&backend, "k")[before..], [12], "{profile} {exists}");
        }
    })
    .await;
}

/// The same token, the same lock: the later one has lost a race and is told to try again.
#[tokio::test]
async fn an_upload_that_its_own_holder_overtakes_is_told_to_try_again() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let settings = format!("{SETTINGS}{regime}");
        let (one, other) = backend.proxies(&settings).await;
        assert_eq!(one.token(10).put("k", "idle").await.short(), "200");
        let body = large(b'l');
        let (sender, upload) = half(one.token(11), &body).await;
        assert_eq!(other.token(11).put("k", "new").await.short(), "200", "{profile}");
        finish(sender, &body).await;
        let late = soon("its answer", upload).await.unwrap();
        assert_eq!(late.short(), "503 FenceContended", "{profile}");
        assert_eq!(tokens(&backend, "k"), [10, 11], "{profile}");
    })
    .await;
}

/// Other writers of the same proxy are not kept waiting by a slow upload.
#[tokio::test]
async fn an_upload_does_not_hold_up_its_scope() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(SETTINGS).await;
    let body = large(b'l');
    let (sender, upload) = half(proxy.token(11), &body).await;
    assert_eq!(proxy.token(12).put("k", "new").await.short(), "200");
    finish(sender, &body).await;
    assert_eq!(soon("its answer", upload).await.unwrap().short(), "409 StaleFenceToken");
}

#[tokio::test]
async fn an_upload_that_breaks_off_never_completes() {
    on_every_store(async |profile, regime| {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(&format!("{SETTINGS}{regime}")).await;
        assert_eq!(proxy.token(10).put("k", "idle").await.short(), "200");
        let body = large(b'l');
        let (sender, stream) = feed();
        let payload = Payload::Stream(stream, LARGE as u64, "UNSIGNED-PAYLOAD".into());
        let client = proxy.token(11);
        let upload =
            tokio::spawn(async move { client.try_send(Method::PUT, "/data/k", payload).await });
        // All of it but the last byte.
        assert!(sender.send(body.slice(1..)).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
        sender.cut().await;
        let _ = soon("its end", upload).await.unwrap();
        assert_eq!(proxy.token(11).put("k", "after").await.short(), "200", "{profile}");
        assert_eq!(tokens(&backend, "k"), [10, 11], "{profile}");
    })
    .await;
}

/// Every way to promise something of a body and not keep it.
async fn wrong_uploads(proxy: &Proxy, body: &Bytes) -> Vec<(&'static str, Answer, &'static str)> {
    let client = proxy.token(11);
    let length = body.len().to_string();
    let sha256 = hex::encode(Sha256::digest(b"something else"));
    let hashed = client.put("k", Payload::Claimed(body.clone(), sha256)).await;

    let checksum = client.clone().with("x-amz-checksum-crc32", "AAAAAA==");
    let checksum = checksum.put("k", body.clone()).await;

    let chunks: Vec<Bytes> = body.chunks(64 * 1024).map(Bytes::copy_from_slice).collect();
    let declared = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let headers = [("x-amz-decoded-content-length", &*length), ("content-encoding", "aws-chunked")];
    let seed = client.seed("/data/k", declared, &headers);
    let signed = signed_chunks(&seed, &chunks, Some(chunks.len() - 1));
    let last = seed.client.put("k", Payload::Claimed(signed, declared.into())).await;
    let signed = signed_chunks(&seed, &chunks, Some(chunks.len()));
    let end = seed.client.put("k", Payload::Claimed(signed, declared.into())).await;

    let trailer = client
        .with("x-amz-decoded-content-length", &length)
        .with("content-encoding", "aws-chunked")
        .with("x-amz-trailer", "x-amz-checksum-crc32");
    let unsigned = unsigned_chunks_with_crc32(&chunks, b"something else");
    let declared = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    let trailed = trailer.put("k", Payload::Claimed(unsigned, declared.into())).await;
    vec![
        ("sha256", hashed, "400 XAmzContentSHA256Mismatch"),
        ("checksum header", checksum, "400 BadDigest"),
        ("last chunk's signature", last, "403 SignatureDoesNotMatch"),
        ("end's signature", end, "403 SignatureDoesNotMatch"),
        ("trailing checksum", trailed, "400 BadDigest"),
    ]
}

#[tokio::test]
async fn a_body_that_is_not_what_was_signed_never_completes_on_the_store() {
    on_every_store(async |profile, regime| {
        // Held in memory, and streamed.
        for body in [Bytes::from_static(b"small"), large(b'w')] {
            let backend = Backend::embedded(profile).await;
            let proxy = backend.proxy(&format!("{SETTINGS}{regime}")).await;
            assert_eq!(proxy.token(10).put("k", "idle").await.short(), "200");
            for (what, answer, expected) in wrong_uploads(&proxy, &body).await {
                assert_eq!(answer.short(), expected, "{profile} {what} {}", body.len());
            }
            assert_eq!(tokens(&backend, "k"), [10], "{profile}");
            let uploads = backend.sdk(None).list_multipart_uploads().bucket("data").send().await;
            assert!(uploads.unwrap().uploads().is_empty(), "{profile}: no parts are left behind");
            assert_eq!(proxy.token(11).put("k", "after").await.short(), "200", "{profile}");
        }
    })
    .await;
}

/// What makes the test above worth something: the same with what was promised.
#[tokio::test]
async fn a_body_that_is_what_was_signed_arrives_byte_for_byte() {
    for body in [Bytes::from_static(b"small"), large(b'r')] {
        let backend = Backend::embedded(Profile::Aws).await;
        let proxy = backend.proxy(SETTINGS).await;
        let client = proxy.token(7);
        let length = body.len().to_string();
        let chunks: Vec<Bytes> = body.chunks(64 * 1024).map(Bytes::copy_from_slice).collect();
        let headers =
            [("x-amz-decoded-content-length", &*length), ("content-encoding", "aws-chunked")];

        let declared = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
        let seed = client.seed("/data/k", declared, &headers);
        let signed = Payload::Claimed(signed_chunks(&seed, &chunks, None), declared.into());
        assert_eq!(seed.client.put("k", signed).await.short(), "200");
        assert!(backend.bytes("k").await.unwrap() == body);
        assert_eq!(backend.direct().head("k").await.header("content-encoding"), "");

        let trailer = headers
            .iter()
            .fold(client, |client, (name, value)| client.with(name, value))
            .with("x-amz-trailer", "x-amz-checksum-crc32");
        let declared = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
        let unsigned = unsigned_chunks_with_crc32(&chunks, &body);
        let unsigned = Payload::Claimed(unsigned, declared.into());
        assert_eq!(trailer.put("l", unsigned).await.short(), "200");
        assert!(backend.bytes("l").await.unwrap() == body);
        // The store has checked it too, and keeps it.
        let stored = backend.direct().with("x-amz-checksum-mode", "ENABLED").head("l").await;
        assert_eq!(stored.header("x-amz-checksum-crc32").len(), 8, "{stored:?}");
        assert_eq!(stored.header("content-encoding"), "");
    }
}

/// F4 for a stream: which tag it leaves is known at its end only, so that it takes the other form
/// from the start.
#[tokio::test]
async fn while_an_older_request_is_open_a_stream_takes_the_one_part_form() {
    let idle = large(b'i');
    for profile in [Profile::Aws, Profile::Minio] {
        let backend = Backend::embedded(profile).await;
        let (older, newer) = backend.proxies(SETTINGS).await;
        assert_eq!(older.token(10).put("k", idle.clone()).await.short(), "200");
        let parked = backend.faults().add(on_data(Effect::Hold, Method::PUT));
        let client = older.token(11);
        let late = tokio::spawn(async move { client.put("k", "late").await });
        soon("a parked request", parked.wait_parked(1)).await;
        let busy = soon("an upload", newer.token(12).put("k", large(b'b'))).await;
        assert_eq!(busy.short(), "200", "{profile}");
        let back = soon("an upload", newer.token(12).put("k", idle.clone())).await;
        assert_eq!(back.short(), "200", "{profile}");
        assert!(back.etag().ends_with("-1"), "{profile}: {}", back.etag());
        parked.release();
        let late = soon("the older holder's answer", late).await.unwrap();
        assert_eq!(late.short(), "409 StaleFenceToken", "{profile}");
        assert!(backend.bytes("k").await.unwrap() == idle, "{profile}");
        assert_eq!(
            backend.store().object("data", "k").await.unwrap().unwrap().metadata["fencepost-token"],
            "12",
            "{profile}: the one-part form is stamped as well"
        );
        newer.stop().await;
        older.stop().await;
        assert!(backend.intents("k").await.is_empty(), "{profile}");
    }
}

#[tokio::test]
async fn an_upload_whose_answer_is_lost_is_recognised() {
    for (profile, regime) in [(Profile::Aws, ""), (Profile::AwsKms, UNIQUE)] {
        let backend = Backend::embedded(profile).await;
        let proxy = backend.proxy(&format!("{SETTINGS}{regime}")).await;
        backend.faults().add(on_data(Effect::LoseAnswer, Method::PUT));
        let answer = soon("an upload", proxy.token(7).put("k", large(b'x'))).await;
        assert_eq!(answer.short(), "200", "{profile}");
        assert_eq!(tokens(&backend, "k"), [7], "{profile}");
    }
}

/// A store that says no before it has all of a body cannot have taken it.
#[tokio::test]
async fn an_upload_that_the_store_refuses_half_way_changes_nothing() {
    let backend = Backend::embedded(Profile::Aws).await;
    let proxy = backend.proxy(SETTINGS).await;
    assert_eq!(proxy.token(10).put("k", "idle").await.short(), "200");
    let body = large(b'l');
    let (sender, upload) = half(proxy.token(11), &body).await;
    // Straight to the store: an unfenced writer, whom the promise does not cover.
    let rude = backend.direct().put("k", "rude").await;
    assert_eq!(rude.short(), "200");
    finish(sender, &body).await;
    let late = soon("its answer", upload).await.unwrap();
    assert_eq!(late.short(), "503 FenceContended");
    assert_eq!(backend.bytes("k").await.as_deref(), Some(&b"rude"[..]));
}

//! The `gcs` profile in Google's own dialect; for S3's conditions there see `profiles`.

use crate::goog4::{Goog, generation, header};
use crate::raw::Raw;
use crate::{BUCKET, get, outcome, put, start};
use fencepost::devstore::{DevStore, Effect, Profile, Rule, RunningStore};
use futures_util::future::join_all;
use std::time::Duration;

const FAILED: &str = "412 PreconditionFailed";

async fn put_goog(running: &RunningStore, key: &str, body: &str) -> u64 {
    generation(&Goog::new("PUT", key).text(running, body).await)
}

async fn head(running: &RunningStore, key: &str) -> String {
    Goog::new("HEAD", key).text(running, "").await
}

#[tokio::test]
async fn generations_never_repeat() {
    let (running, client) = start(Profile::Gcs).await;
    let mut last = 0;
    for _ in 0..3 {
        let written = put_goog(&running, "k", "same").await;
        assert!(written > last, "{written} after {last}");
        last = written;
        assert_eq!(generation(&head(&running, "k").await), written);
        client.delete_object().bucket(BUCKET).key("k").send().await.unwrap();
        // Of the same clock: not even then.
        running.store().set_clock_offset_ms(-60_000);
    }
}

#[tokio::test]
async fn generations_do_not_repeat_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = async || {
        let store = DevStore::builder().profile(Profile::Gcs).data_dir(directory.path());
        let running = store.build().unwrap().start().await.unwrap();
        running.store().create_bucket(BUCKET).await.unwrap();
        running
    };
    let running = open().await;
    let first = put_goog(&running, "kept", "v").await;
    let gone = put_goog(&running, "gone", "v").await;
    assert_eq!(Goog::new("DELETE", "gone").send(&running, "").await, "ok");
    running.shutdown().await;
    let running = open().await;
    assert_eq!(generation(&head(&running, "kept").await), first);
    assert!(put_goog(&running, "gone", "v").await > gone);
}

#[tokio::test]
async fn conditions_on_generations() {
    let (running, client) = start(Profile::Gcs).await;
    let running = &running;
    let with = |method, wanted: u64| Goog::new(method, "k").generation(wanted);
    let copy = |wanted| with("PUT", wanted).header("x-goog-copy-source", "/bucket/source");
    put(&client, "source", "copied").await;

    assert_eq!(with("PUT", 1).send(running, "x").await, FAILED, "of what does not exist");
    assert_eq!(with("DELETE", 1).send(running, "").await, "404 NoSuchKey");
    assert_eq!(with("PUT", 0).send(running, "a").await, "ok");
    assert_eq!(with("PUT", 0).send(running, "b").await, FAILED);
    let stale = generation(&head(running, "k").await);
    assert_eq!(with("PUT", stale).send(running, "a").await, "ok");
    assert_eq!(with("PUT", stale).send(running, "b").await, FAILED, "the bytes are the same");
    assert_eq!(copy(stale).send(running, "").await, FAILED);
    assert_eq!(copy(0).send(running, "").await, FAILED);
    assert_eq!(with("DELETE", stale).send(running, "").await, FAILED);
    assert_eq!(with("DELETE", 0).send(running, "").await, FAILED);
    assert_eq!(with("GET", stale).send(running, "").await, FAILED);
    assert_eq!(get(&client, "k").await.as_deref(), Some("a"));

    let right = generation(&head(running, "k").await);
    assert_eq!(with("GET", right).send(running, "").await, "ok");
    assert_eq!(copy(right).send(running, "").await, "ok");
    assert_eq!(get(&client, "k").await.as_deref(), Some("copied"));
    let right = generation(&head(running, "k").await);
    let metageneration =
        |wanted: &str| Goog::new("PUT", "k").header("x-goog-if-metageneration-match", wanted);
    assert_eq!(metageneration("2").send(running, "b").await, FAILED);
    assert_eq!(with("DELETE", right).send(running, "").await, "ok");
    assert_eq!(metageneration("1").send(running, "b").await, FAILED, "of what does not exist");
    assert_eq!(with("PUT", 0).send(running, "c").await, "ok");
    assert_eq!(metageneration("1").send(running, "d").await, "ok");
    let no_number = Goog::new("PUT", "k").header("x-goog-if-generation-match", "\"x\"");
    assert_eq!(no_number.send(running, "e").await, "400 InvalidArgument");
    // Of tags they know nothing on writes.
    let tag = Goog::new("PUT", "k").header("if-match", "\"x\"").header("if-none-match", "*");
    assert_eq!(tag.send(running, "f").await, "ok");
}

#[tokio::test]
async fn copies_with_conditions_on_their_source() {
    let (running, client) = start(Profile::Gcs).await;
    let source = put_goog(&running, "source", "copied").await;
    let copy = || Goog::new("PUT", "k").header("x-goog-copy-source", "/bucket/source");
    let of =
        |wanted: u64| copy().header("x-goog-copy-source-if-generation-match", &wanted.to_string());
    assert_eq!(of(source - 1).send(&running, "").await, FAILED);
    let pinned = |tag: &str| copy().header("x-goog-copy-source-if-match", tag);
    assert_eq!(pinned("\"00000000000000000000000000000000\"").send(&running, "").await, FAILED);
    let multipart = "\"00000000000000000000000000000000-2\"";
    assert_eq!(pinned(multipart).send(&running, "").await, "400 InvalidArgument");
    assert_eq!(get(&client, "k").await, None);
    let answer = of(source).text(&running, "").await;
    assert!(generation(&answer) > source, "{answer}");
    assert_eq!(get(&client, "k").await.as_deref(), Some("copied"));
}

#[tokio::test]
async fn uploads_in_parts_know_no_conditions() {
    let (running, client) = start(Profile::Gcs).await;
    let running = &running;
    put(&client, "k", "old").await;
    let post = || Goog::new("POST", "k");
    let refused = post().with("uploads", "").generation(0).send(running, "").await;
    assert_eq!(refused, "400 NotImplemented");
    // Not even a length of nothing.
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let bodyless = post().with("uploads", "").open(running, None, empty).await.answer().await;
    assert_eq!(bodyless, "411 MissingContentLength");

    let begun = post().with("uploads", "").text(running, "").await;
    let id = begun.split_once("<UploadId>").unwrap().1.split_once('<').unwrap().0;
    let part = || Goog::new("PUT", "k").with("partNumber", "1").with("uploadId", id);
    let copied = part().header("x-goog-copy-source", "/bucket/k").send(running, "").await;
    assert_eq!(copied, "400 NotImplemented");
    let answer = part().text(running, "part").await;
    let tag = header(&answer, "etag").unwrap();
    let parts = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    let complete = post().with("uploadId", id).generation(0).send(running, &parts).await;
    assert_eq!(complete, "ok");
    assert_eq!(get(&client, "k").await.as_deref(), Some("part"), "the condition was ignored");
}

#[tokio::test]
async fn metadata_has_the_name_of_the_dialect_that_asks() {
    let (running, client) = start(Profile::Gcs).await;
    let goog = Goog::new("PUT", "k").header("x-goog-meta-token", "7").text(&running, "v").await;
    assert!(goog.starts_with("HTTP/1.1 200"), "{goog}");
    assert_eq!(header(&goog, "x-goog-metageneration"), Some("1"));
    let hash = header(&goog, "x-goog-hash").unwrap();
    assert!(hash.contains("md5=njZp0ZtnW9VwWP1GZCBdKg=="), "{hash}");
    let s3 = client.head_object().bucket(BUCKET).key("k").send().await.unwrap();
    assert_eq!(s3.metadata().unwrap()["token"], "7");
    let s3 = Raw::new("HEAD", "k").open(&running, 0).await.answer_text().await;
    assert_eq!(header(&s3, "x-amz-meta-token"), Some("7"));
    assert_eq!(generation(&s3), generation(&goog), "shown here too");
    let read = head(&running, "k").await;
    assert_eq!(header(&read, "x-goog-meta-token"), Some("7"));
    assert!(!read.contains("x-amz-meta"), "{read}");
    let wrong = Goog::new("PUT", "k").header("x-goog-hash", "md5=njZp0ZtnW9VwWP1GZCBdKg==");
    assert_eq!(wrong.send(&running, "w").await, "400 BadDigest");
}

#[tokio::test]
async fn signatures() {
    let (running, client) = start(Profile::Gcs).await;
    let running = &running;
    put(&client, "k", "v").await;
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let read = || Goog::new("GET", "k");
    let write = || Goog::new("PUT", "k");
    assert_eq!(read().send(running, "").await, "ok");
    assert_eq!(read().with("a", "b c/+").send(running, "").await, "ok");
    assert_eq!(read().secret("other").send(running, "").await, "403 SignatureDoesNotMatch");
    assert_eq!(read().age(minutes(14)).send(running, "").await, "ok");
    assert_eq!(read().age(minutes(16)).send(running, "").await, "403 RequestTimeTooSkewed");
    let injected = write().unsigned("x-goog-if-generation-match", "0");
    assert_eq!(injected.send(running, "w").await, "400 MalformedSecurityHeader");
    let other = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let answer = write().payload(other).send(running, "w").await;
    assert_eq!(answer, "400 XAmzContentSHA256Mismatch");
    let answer = write().payload(other).send(running, "").await;
    assert_eq!(answer, "400 XAmzContentSHA256Mismatch");
    let streamed = write().payload("STREAMING-UNSIGNED-PAYLOAD-TRAILER");
    assert_eq!(streamed.send(running, "w").await, "400 InvalidArgument");
    assert_eq!(get(&client, "k").await.as_deref(), Some("v"));
    assert_eq!(write().payload("UNSIGNED-PAYLOAD").send(running, "w").await, "ok");

    let url = |seconds| read().signed_url(seconds);
    assert_eq!(url(60).send(running, "").await, "ok");
    assert_eq!(url(60).age(minutes(2)).send(running, "").await, "400 ExpiredToken");
    assert_eq!(url(60).secret("other").send(running, "").await, "403 SignatureDoesNotMatch");
    let fenced = write().signed_url(60).generation(0);
    assert_eq!(fenced.send(running, "x").await, FAILED);
    let injected = write().signed_url(60).unsigned("x-goog-if-generation-match", "0");
    assert_eq!(injected.send(running, "w").await, "400 MalformedSecurityHeader");
}

#[tokio::test]
async fn one_dialect_in_one_request() {
    let (running, client) = start(Profile::Gcs).await;
    put(&client, "k", "v").await;
    let amazon = Raw::new("PUT", "k").header("x-goog-if-generation-match", "0");
    assert_eq!(amazon.send(&running, "w").await, "400 ExcessHeaderValues");
    let google = Goog::new("PUT", "k").header("x-amz-meta-a", "1");
    assert_eq!(google.send(&running, "w").await, "400 ExcessHeaderValues");
    assert_eq!(get(&client, "k").await.as_deref(), Some("v"));
}

#[tokio::test]
async fn tokens() {
    let (running, client) = start(Profile::Gcs).await;
    let expires = fencepost::clock::now() + Duration::from_secs(3600);
    running.store().add_bearer_token("good", expires);
    let put = |token| Goog::new("PUT", "k").bearer(token).generation(0);
    assert_eq!(put("bad").send(&running, "v").await, "401 AuthenticationRequired");
    assert_eq!(put("good").send(&running, "v").await, "ok");
    assert_eq!(put("good").send(&running, "w").await, FAILED);
    running.store().set_clock_offset_ms(3_600_000);
    assert_eq!(put("good").send(&running, "w").await, "401 AuthenticationRequired");
    running.store().set_clock_offset_ms(0);
    assert_eq!(get(&client, "k").await.as_deref(), Some("v"));
    // Elsewhere a token is nobody's.
    let (running, _client) = start(Profile::Aws).await;
    running.store().add_bearer_token("good", expires);
    let answer = Goog::new("GET", "k").bearer("good").send(&running, "").await;
    assert_ne!(answer, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_writers_wins() {
    let (running, client) = start(Profile::Gcs).await;
    let running = &running;
    for round in 0..8 {
        let wanted = put_goog(running, "k", "first").await;
        let write = |n: usize| {
            let method = if (n + round).is_multiple_of(2) { "PUT" } else { "DELETE" };
            let body = if method == "PUT" { "won" } else { "" };
            Goog::new(method, "k").generation(wanted).send(running, body)
        };
        let answers = join_all((0..12).map(write)).await;
        let winners = answers.iter().filter(|answer| *answer == "ok").count();
        assert_eq!(winners, 1, "round {round}: {answers:?}");
        let told = [FAILED, "404 NoSuchKey", "ok"];
        assert!(answers.iter().all(|answer| told.contains(&answer.as_str())), "{answers:?}");
        if get(&client, "k").await.is_none() {
            put(&client, "k", "back").await;
        }
    }
}

#[tokio::test]
async fn a_half_sent_body_that_is_overtaken() {
    let (running, client) = start(Profile::Gcs).await;
    let sha256 = "UNSIGNED-PAYLOAD";
    for (exists, same) in [(true, true), (true, false), (false, false)] {
        let wanted = if exists { put_goog(&running, "k", "v").await } else { 0 };
        let seen = Rule::new(Effect::Observe).header("x-goog-if-generation-match", "");
        let seen = running.store().faults().add(seen);
        let slow = Goog::new("PUT", "k").generation(wanted);
        let mut slow = slow.open(&running, Some(9), sha256).await;
        slow.write("slow ").await;
        seen.wait_hits(1).await;
        put_goog(&running, "k", if same { "v" } else { "other" }).await;
        slow.write("body").await;
        assert_eq!(slow.answer().await, FAILED, "{exists}, {same}");
        assert_ne!(get(&client, "k").await.as_deref(), Some("slow body"));
        let gone = client.delete_object().bucket(BUCKET).key("k").send().await;
        assert_eq!(outcome(gone), "ok");
    }
}

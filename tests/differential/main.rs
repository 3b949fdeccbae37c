//! The same requests straight to the store and through the proxy, in a scope that is not fenced,
//! have the same answers.
//!
//! A sequence of requests is made up from a seed (`requests.rs`) and played twice, each time
//! against a bucket of its own: straight to the store, and through the proxy. After each request
//! status, headers, body and trailers of the two answers are compared (`answers.rs`), but for what
//! must differ: ids, dates, the server's name.
//!
//! The seed is printed. `FENCEPOST_TEST_SEED` sets another, `FENCEPOST_TEST_DIFFERENTIAL_REQUESTS`
//! another number of requests.

#![cfg(feature = "embedded-store")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod requests;

use std::collections::HashMap;

use bytes::Bytes;
use fencepost::config::Environment;
use fencepost::devstore::Profile;
use http::Method;

use answers::{Names, compared};
use requests::{Framing, Maker, Step};
use support::{Answer, Backend, Payload, S3, signed_chunks, unsigned_chunks_with_crc32};

/// As many as issue after issue has been found with, in a few seconds.
const REQUESTS: usize = 400;

/// Nothing is fenced. The bodies of the sequence are held in memory: the embedded store resets a
/// connection when it refuses a body that it has not read, and the answer is lost or not by chance.
const SETTINGS: &str = "fence.mode = \"off\"\n";

/// How many differences are shown before a test gives up.
const SHOWN_MAX: usize = 8;

fn setting(name: &str) -> Option<u64> {
    Environment::of_process().get(name).map(|text| text.parse().unwrap())
}

/// One of the two ways, with a bucket of its own.
struct Side {
    client: S3,
    bucket: String,
    names: Names,
    /// What the answers to earlier requests named, by the number of the request.
    learnt: HashMap<(char, usize), String>,
}

impl Side {
    fn new(client: S3, bucket: &str) -> Self {
        let (bucket, names) = (bucket.to_owned(), Names::default());
        Self { client, bucket, names, learnt: HashMap::new() }
    }

    /// Fills in the bucket (`{B}`), and what was learnt: `{U7}` is the upload that request 7 has
    /// created, `{E7}` the ETag and `{V7}` the version that it was answered with.
    fn filled(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').unwrap();
            filled.push_str(before);
            if name == "B" {
                filled.push_str(&self.bucket);
            } else {
                let (kind, number) = name.split_at(1);
                let known = (kind.chars().next().unwrap(), number.parse().unwrap());
                filled.push_str(self.learnt.get(&known).map_or("unknown", String::as_str));
            }
            rest = after;
        }
        filled + rest
    }

    async fn play(&mut self, number: usize, step: &Step) -> Answer {
        let target = self.filled(&step.target);
        let mut client = self.client.clone();
        for (name, value) in &step.headers {
            client = client.with(name, &self.filled(value));
        }
        let body = match &step.text {
            Some(text) => Bytes::from(self.filled(text)),
            None => step.bytes.clone(),
        };
        let answer = match step.framing {
            Framing::Whole => client.send(step.method.clone(), &target, body).await,
            Framing::Unsigned => client.send(step.method.clone(), &target, unsigned(&body)).await,
            Framing::Signed => signed(&client, &target, &body).await,
        };
        self.learn(number, &answer);
        answer
    }

    fn learn(&mut self, number: usize, answer: &Answer) {
        let header = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
        let etag = header("etag").map(str::to_owned);
        let etag = etag.or_else(|| answer.element("ETag").map(|etag| etag.replace("&quot;", "\"")));
        let found = [
            ('U', answer.element("UploadId").map(str::to_owned)),
            ('E', etag),
            ('V', header("x-amz-version-id").map(str::to_owned)),
        ];
        for (kind, value) in found {
            if let Some(value) = value {
                self.learnt.insert((kind, number), value);
            }
        }
    }
}

fn pieces(body: &Bytes) -> Vec<Bytes> {
    body.chunks(8192).map(Bytes::copy_from_slice).collect()
}

fn unsigned(body: &Bytes) -> Payload {
    let framed = unsigned_chunks_with_crc32(&pieces(body), body);
    Payload::Claimed(framed, "STREAMING-UNSIGNED-PAYLOAD-TRAILER".into())
}

async fn signed(client: &S3, target: &str, body: &Bytes) -> Answer {
    let declared = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let seed = client.seed(target, declared, &[]);
    let framed = signed_chunks(&seed, &pieces(body), None);
    seed.client.send(Method::PUT, target, Payload::Claimed(framed, declared.into())).await
}

/// Plays one sequence on both sides.
async fn same_answers(backend: &Backend, versioned: bool, seed: u64) {
    let seed = setting("FENCEPOST_TEST_SEED").unwrap_or(seed);
    let count = setting("FENCEPOST_TEST_DIFFERENTIAL_REQUESTS");
    let count = count.map_or(REQUESTS, |count| usize::try_from(count).unwrap());
    println!("{count} requests of seed {seed}, versioned: {versioned}");
    let proxy = backend.proxy(SETTINGS).await;
    let version = if versioned { "v" } else { "u" };
    let [straight, through] = ["a", "b"].map(|side| format!("{}-{version}{side}", backend.bucket));
    for bucket in [&straight, &through] {
        backend.sdk(None).create_bucket().bucket(bucket).send().await.unwrap();
    }
    let mut straight = Side::new(backend.direct().signing_canonical(), &straight);
    let mut through = Side::new(proxy.plain().signing_canonical(), &through);
    let mut maker = Maker::new(seed, versioned);
    let (mut differences, mut statuses) = (Vec::new(), HashMap::<u16, usize>::new());
    for number in 0..count {
        let step = maker.step(number);
        let theirs = straight.play(number, &step).await;
        let ours = through.play(number, &step).await;
        *statuses.entry(theirs.status).or_default() += 1;
        let buckets = [straight.bucket.as_str(), &through.bucket];
        let theirs = compared(&theirs, &buckets, &mut straight.names);
        let ours = compared(&ours, &buckets, &mut through.names);
        if theirs != ours {
            let what = step.what();
            differences.push(format!(
                "request {number}: {what}\n--- straight\n{theirs}--- through the proxy\n{ours}"
            ));
        }
        if differences.len() == SHOWN_MAX {
            break;
        }
    }
    let differences = differences.join("\n");
    assert!(differences.is_empty(), "seed {seed}, versioned: {versioned}\n{differences}");
    let mut statuses: Vec<_> = statuses.into_iter().collect();
    statuses.sort_unstable();
    println!("answered with {statuses:?}");
    // Errors are as interesting as the rest, and a sequence of errors alone is worth nothing.
    let good: usize = statuses.iter().filter(|(status, _)| *status < 300).map(|(_, n)| n).sum();
    assert!(good > count / 3 && good < count, "{good} of {count} succeeded");
}

#[tokio::test]
async fn answers_are_the_embedded_stores() {
    let backend = Backend::embedded(Profile::Aws).await;
    same_answers(&backend, false, 1).await;
    same_answers(&backend, true, 2).await;
}

#[tokio::test]
async fn answers_are_seaweedfs() {
    let Some(backend) = Backend::seaweedfs().await else { return };
    same_answers(&backend, false, 3).await;
    same_answers(&backend, true, 4).await;
}

//! One walk for every operation that can change something in a fenced scope: admitted, stale,
//! without a token, with a malformed one, and with a store that fails midway.

use bytes::Bytes;
use fencepost::devstore::{Effect, Profile, Rule};
use fencepost::s3::{Footprint, Operation, Write};
use http::Method;

use super::support::{Answer, Backend, S3, until};

on_real_stores! { every_row }

/// Waits long enough for a real store, withdraws at once, and lets buckets be reconfigured.
const SETTINGS: &str = "fence.settle_delay_milliseconds = 0\nledger.timeout_seconds = 30\n\
                        fence.bucket_operations = \"allow\"\n";

/// A request of one operation.
struct Request {
    method: Method,
    target: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// Where a walk takes place.
struct Place<'a> {
    backend: &'a Backend,
    /// One for each walk.
    key: String,
    /// An upload of one part, if the operation wants one.
    upload: String,
    part: String,
}

const TAGS: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";

/// A request that the store carries out if it knows the operation. `None`: nothing is fenced by it,
/// or no request can be.
fn request(operation: Operation, place: &Place<'_>) -> Option<Request> {
    use Operation as O;
    let object = format!("/{}/{}", place.backend.bucket, place.key);
    let source = ("x-amz-copy-source", object.clone());
    let upload = format!("uploadId={}", place.upload);
    let part = format!("partNumber=1&{upload}");
    let list = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{}</ETag></Part>\
         </CompleteMultipartUpload>",
        place.part
    );
    let keys = format!("<Delete><Object><Key>{}</Key></Object></Delete>", place.key);
    let on = |method: Method, query: &str, body: &str| Request {
        method,
        target: if query.is_empty() { object.clone() } else { format!("{object}?{query}") },
        headers: Vec::new(),
        body: body.to_owned(),
    };
    let with = |request: Request, headers: &[(&'static str, String)]| Request {
        headers: headers.to_vec(),
        ..request
    };
    let replace = ("x-amz-metadata-directive", "REPLACE".to_owned());
    Some(match operation {
        O::PutObject => on(Method::PUT, "", "new"),
        O::DeleteObject => on(Method::DELETE, "", ""),
        O::CopyObject => with(on(Method::PUT, "", ""), &[source, replace]),
        O::CreateMultipartUpload => on(Method::POST, "uploads", ""),
        O::UploadPart => on(Method::PUT, &part, "part"),
        O::UploadPartCopy => with(on(Method::PUT, &part, ""), &[source]),
        O::CompleteMultipartUpload => on(Method::POST, &upload, &list),
        O::AbortMultipartUpload => on(Method::DELETE, &upload, ""),
        O::DeleteObjectVersion => on(Method::DELETE, "versionId=null", ""),
        O::DeleteObjects => Request {
            method: Method::POST,
            target: format!("/{}?delete", place.backend.bucket),
            headers: Vec::new(),
            body: keys,
        },
        O::PutObjectTagging => on(Method::PUT, "tagging", TAGS),
        O::DeleteObjectTagging => on(Method::DELETE, "tagging", ""),
        O::PutObjectAcl => with(on(Method::PUT, "acl", ""), &[("x-amz-acl", "private".into())]),
        O::PutObjectRetention => on(Method::PUT, "retention", "<Retention/>"),
        O::PutObjectLegalHold => on(Method::PUT, "legal-hold", "<LegalHold/>"),
        O::RestoreObject => on(Method::POST, "restore", "<RestoreRequest/>"),
        // A form is posted to the bucket and has a test of its own, as have bucket operations.
        O::PostObject | O::CreateBucket | O::DeleteBucket | O::WriteBucketSubresource => {
            return None;
        }
        // Refused whatever the token.
        O::AppendObject
        | O::RenameObject
        | O::PutObjectAnnotation
        | O::DeleteObjectAnnotation
        | O::UpdateObjectEncryption
        | O::WriteObjectSubresource
        | O::Unknown => return None,
        O::GetObject
        | O::HeadObject
        | O::ListObjects
        | O::ListObjectsV2
        | O::ListBuckets
        | O::HeadBucket
        | O::GetBucketLocation
        | O::ReadSubresource
        | O::SelectObjectContent => return None,
    })
}

impl Place<'_> {
    /// The object, last written with token 7, and an upload of token 7 with its part.
    async fn prepare(&mut self, holder: &S3) {
        let object = format!("/{}/{}", self.backend.bucket, self.key);
        assert_eq!(holder.send(Method::PUT, &object, "old").await.short(), "200");
        let created = holder.send(Method::POST, &format!("{object}?uploads"), "").await;
        self.upload = created.element("UploadId").unwrap().to_owned();
        let target = format!("{object}?partNumber=1&uploadId={}", self.upload);
        let part = holder.send(Method::PUT, &target, "part").await;
        self.part = part.etag().to_owned();
    }

    async fn state(&self) -> (u16, String, Bytes) {
        let object = format!("/{}/{}", self.backend.bucket, self.key);
        let answer = self.backend.direct().send(Method::GET, &object, "").await;
        (answer.status, answer.header("last-modified").to_owned(), answer.body)
    }
}

async fn send(client: &S3, request: &Request) -> Answer {
    let headers = request.headers.iter();
    let client = headers.fold(client.clone(), |client, (name, value)| client.with(name, value));
    client.send(request.method.clone(), &request.target, request.body.clone()).await
}

/// The first `<Code>`, also of a key's result in a 200, or the status.
fn verdict(answer: &Answer) -> String {
    answer.element("Code").map_or_else(|| answer.status.to_string(), str::to_owned)
}

/// What the keys of the one scope that holds many begin with.
const MANY: &str = "many/";

/// Every row, on objects that are fenced each for itself and on such that share a fence.
async fn every_row(backend: &Backend) {
    for (operation, _) in fenced() {
        for prefix in ["", MANY] {
            walk(backend, operation, prefix).await;
        }
    }
}

async fn walk(backend: &Backend, operation: Operation, prefix: &str) {
    let scope = format!(
        "[[scope]]\nbucket = \"{}\"\nprefix = \"{MANY}\"\nper = \"prefix\"\n",
        backend.bucket
    );
    let proxy = backend.proxy(&format!("{SETTINGS}{scope}")).await;
    let key = format!("{prefix}walk-{}", operation.name());
    let mut place = Place { backend, key, upload: String::new(), part: String::new() };
    place.prepare(&proxy.token(7)).await;
    let request = request(operation, &place).expect("it has been seen before");
    let before = place.state().await;
    let name = format!("{prefix}{}", operation.name());

    let malformed = send(&proxy.plain().with("x-fence-token", "seven"), &request).await;
    assert_eq!(verdict(&malformed), "InvalidFenceToken", "{name}");
    let stale = send(&proxy.token(6), &request).await;
    assert_eq!(verdict(&stale), "StaleFenceToken", "{name}");
    // What belongs to an upload goes by the token that the upload is bound to.
    let bound = request.target.contains("uploadId=");
    if !bound {
        let without = send(&proxy.plain(), &request).await;
        assert_eq!(verdict(&without), "FenceTokenRequired", "{name}");
    }
    assert_eq!(place.state().await, before, "{name}: refused, and nothing was changed");

    // What the store says of it, of an object that nobody fences.
    let mut twin =
        Place { backend, key: format!("twin-{name}"), upload: String::new(), part: String::new() };
    twin.prepare(&backend.direct()).await;
    let expected = send(&backend.direct(), &self::request(operation, &twin).unwrap()).await;
    let client = if bound { proxy.plain() } else { proxy.token(7) };
    let admitted = send(&client, &request).await;
    // A store that does not know the operation may say so in other words: ours is signed otherwise.
    let carried_out = expected.status < 300;
    assert_eq!(admitted.status < 300, carried_out, "{name}: {admitted:?} {expected:?}");
    assert!(!carried_out || admitted.short() == expected.short(), "{name}: {admitted:?}");
    let (ours, theirs) = (place.state().await, twin.state().await);
    assert_eq!(ours.0, theirs.0, "{name}");
    // The body of an error names the key.
    assert!(ours.0 != 200 || ours.2 == theirs.2, "{name}: {ours:?} {theirs:?}");
}

/// The store has the request and does not carry it out, and nobody hears of it.
async fn fail_midway(
    profile: Profile,
    operation: Operation,
    write: Option<Write>,
    failure: &Effect,
) {
    let backend = Backend::embedded(profile).await;
    let settings = format!("{SETTINGS}fence.contention_wait_seconds_max = 1\n");
    let proxy = backend.proxy(&settings).await;
    let mut place =
        Place { backend: &backend, key: "k".into(), upload: String::new(), part: String::new() };
    place.prepare(&proxy.token(7)).await;
    let before = place.state().await;
    let request = request(operation, &place).expect("it has been seen before");
    let method =
        if operation == Operation::DeleteObjects { Method::DELETE } else { request.method.clone() };
    let fault = Rule::new(failure.clone()).method(method).bucket(&backend.bucket);
    let fault = backend.faults().add(fault);
    let answer = send(&proxy.token(7), &request).await;
    let name = format!("{profile} {} {failure:?}", operation.name());
    assert_eq!(fault.hits(), 1, "{name}: it is sent once");
    let expected = match (failure, write) {
        // The store's own word that nothing was done is the client's answer.
        (Effect::Status(409, code), _) => code,
        (_, Some(_)) => "FenceOutcomeUnknown",
        // No object changes: whatever became of it does no harm.
        (Effect::CutBefore, None) if operation == Operation::CreateMultipartUpload => {
            "FenceUnavailable"
        }
        (_, None) => "InternalError",
    };
    assert_eq!(verdict(&answer), expected, "{name}: {answer:?}");
    assert_eq!(place.state().await, before, "{name}");
    if matches!(failure, Effect::Status(409, _)) {
        until("no intent is left", async || backend.intents("k").await.is_empty()).await;
    }
}

fn fenced() -> impl Iterator<Item = (Operation, Option<Write>)> {
    Operation::all().filter_map(|operation| match operation.footprint() {
        Footprint::Object(write) => Some((operation, Some(write))),
        Footprint::Objects => Some((operation, Some(Write::Delete))),
        Footprint::Upload => Some((operation, None)),
        Footprint::Reads
        | Footprint::Form
        | Footprint::CreatesBucket
        | Footprint::Bucket
        | Footprint::Refused => None,
    })
}

#[tokio::test]
async fn every_row_on_the_embedded_store() {
    for profile in [Profile::Aws, Profile::Minio] {
        every_row(&Backend::embedded(profile).await).await;
    }
    assert_eq!(fenced().count(), 16, "a new operation needs a request here");
}

#[tokio::test]
async fn every_row_with_a_store_that_fails_midway() {
    for (operation, write) in fenced() {
        for profile in [Profile::Aws, Profile::Minio] {
            for failure in [
                Effect::CutBefore,
                Effect::Status(500, "InternalError"),
                Effect::Status(409, "InvalidBucketState"),
            ] {
                fail_midway(profile, operation, write, &failure).await;
            }
        }
    }
}

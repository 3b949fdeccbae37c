//! The AWS SDK for Rust: does the operations named by the arguments, and prints a line of JSON for each.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a program of its own, which its environment tells what to do"
)]

use std::env::{args, var};
use std::fs;
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Builder, Config, Region};
use aws_sdk_s3::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier};
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use serde_json::{Value, json};

const PART_BYTES: usize = 8 << 20;

// docs:begin
fn config(token: Option<&str>) -> Builder {
    let session = token.map(|token| format!("fence:{token}"));
    Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(setting("S3_ENDPOINT"))
        .region(Region::new(setting("S3_REGION")))
        .credentials_provider(Credentials::new(
            setting("S3_ACCESS_KEY"),
            setting("S3_SECRET_KEY"),
            session,
            None,
            "lock",
        ))
        .force_path_style(true)
}
// docs:end

/// The value of an environment variable that the test sets.
fn setting(name: &str) -> String {
    var(name).unwrap()
}

/// Trusts the authority in `S3_CA_FILE`, if there is one, and the system's.
fn http_client() -> SharedHttpClient {
    let mut trust = TrustStore::default();
    if let Ok(file) = var("S3_CA_FILE") {
        trust = trust.with_pem_certificate(fs::read(file).unwrap());
    }
    aws_smithy_http_client::Builder::new()
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .tls_context(TlsContext::builder().with_trust_store(trust).build().unwrap())
        .build_https()
}

/// What an operation gives beside its success, or how it was refused.
type Outcome = Result<Value, Value>;

fn refused<E: ProvideErrorMetadata + std::error::Error + 'static>(
    error: SdkError<E, HttpResponse>,
) -> Value {
    let status = error.raw_response().map(|response| response.status().as_u16());
    let code = error.code().map(str::to_owned);
    json!({ "ok": false, "status": status, "code": code, "said": DisplayErrorContext(error).to_string() })
}

struct Program {
    s3: Client,
    bucket: String,
    prefix: String,
    /// For an operation's own configuration: the header that carries the token, if one does.
    header: Option<String>,
}

/// Sends an operation, with the token in its header if that is the way.
macro_rules! send {
    ($program:expr, $operation:expr) => {
        match &$program.header {
            None => $operation.send().await,
            Some(token) => {
                let token = token.clone();
                // docs:begin header
                $operation
                    .customize()
                    .mutate_request(move |request| {
                        request.headers_mut().insert("x-fence-token", token.clone());
                    })
                    .send()
                    .await
                // docs:end
            }
        }
        .map_err(refused)
    };
}

impl Program {
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    async fn run(&self, operation: &str) -> Outcome {
        match operation {
            "put" => self.put().await,
            "get" => self.get().await,
            "list" => self.list().await,
            "copy" => self.copy().await,
            "multipart" => self.multipart().await,
            "delete-batch" => self.delete_batch().await,
            "presign" => self.presign().await,
            other => Err(json!({ "ok": false, "said": format!("no operation {other}") })),
        }
    }

    async fn put(&self) -> Outcome {
        let body = fs::read(setting("SMALL_FILE")).unwrap().into();
        send!(self, self.s3.put_object().bucket(&self.bucket).key(self.key("put")).body(body))?;
        Ok(json!({}))
    }

    async fn get(&self) -> Outcome {
        let answer =
            send!(self, self.s3.get_object().bucket(&self.bucket).key(self.key("source")))?;
        let body = answer.body.collect().await.unwrap().to_vec();
        Ok(json!({ "body": String::from_utf8(body).unwrap() }))
    }

    async fn list(&self) -> Outcome {
        let answer = send!(
            self,
            self.s3.list_objects_v2().bucket(&self.bucket).prefix(self.key("listed/"))
        )?;
        Ok(json!({ "keys": answer.contents().iter().map(|entry| entry.key()).collect::<Vec<_>>() }))
    }

    async fn copy(&self) -> Outcome {
        let source = format!("{}/{}", self.bucket, self.key("source"));
        let copy = self.s3.copy_object().bucket(&self.bucket).key(self.key("copy"));
        send!(self, copy.copy_source(source))?;
        Ok(json!({}))
    }

    async fn multipart(&self) -> Outcome {
        let content = fs::read(setting("LARGE_FILE")).unwrap();
        let (bucket, key) = (&self.bucket, self.key("multipart"));
        let upload = send!(self, self.s3.create_multipart_upload().bucket(bucket).key(&key))?;
        let upload_id = upload.upload_id().unwrap();
        let mut parts = CompletedMultipartUpload::builder();
        for (number, piece) in (1..).zip(content.chunks(PART_BYTES)) {
            let part = self.s3.upload_part().bucket(bucket).key(&key).upload_id(upload_id);
            let answer = send!(self, part.part_number(number).body(piece.to_vec().into()))?;
            let part = CompletedPart::builder().part_number(number);
            let part = part.set_e_tag(answer.e_tag).set_checksum_crc32(answer.checksum_crc32);
            parts = parts.parts(part.build());
        }
        let complete = self.s3.complete_multipart_upload().bucket(bucket).key(&key);
        send!(self, complete.upload_id(upload_id).multipart_upload(parts.build()))?;
        Ok(json!({}))
    }

    async fn delete_batch(&self) -> Outcome {
        let objects = ["a", "b", "c"].map(|name| {
            ObjectIdentifier::builder().key(self.key(&format!("batch/{name}"))).build().unwrap()
        });
        let delete = Delete::builder().set_objects(Some(objects.into())).build().unwrap();
        let answer = send!(self, self.s3.delete_objects().bucket(&self.bucket).delete(delete))?;
        match answer.errors() {
            [] => Ok(json!({})),
            [first, ..] => Err(json!({
                "ok": false, "code": first.code(), "said": format!("{:?}", answer.errors()),
            })),
        }
    }

    async fn presign(&self) -> Outcome {
        let expiry = || PresigningConfig::expires_in(Duration::from_secs(60)).unwrap();
        let put = self.s3.put_object().bucket(&self.bucket).key(self.key("presigned"));
        let get = self.s3.get_object().bucket(&self.bucket).key(self.key("source"));
        let put = put.presigned(expiry()).await.map_err(refused)?;
        let get = get.presigned(expiry()).await.map_err(refused)?;
        Ok(json!({ "links": { "PUT": put.uri(), "GET": get.uri() } }))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let token = var("FENCE_TOKEN").ok();
    let in_header = setting("FENCE_CARRIER") == "header";
    let (session, header) = if in_header { (None, token) } else { (token, None) };
    let config = config(session.as_deref()).http_client(http_client()).build();
    let program = Program {
        s3: Client::from_conf(config),
        bucket: setting("S3_BUCKET"),
        prefix: setting("S3_PREFIX"),
        header,
    };
    for operation in args().skip(1) {
        let mut line = json!({ "operation": operation, "ok": true });
        let outcome = program.run(&operation).await.unwrap_or_else(|refused| refused);
        line.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
        println!("{line}");
    }
}

//! Browser forms: a policy signed with aws-sigv4, and the form that it allows.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::{Answer, S3};

const BOUNDARY: &str = "----formBoundary7MA4YWxkTrZu0gW";

/// A form to be sent to a bucket.
#[derive(Clone)]
pub(crate) struct Form {
    client: S3,
    fields: Vec<(String, String)>,
    conditions: Vec<Value>,
    pub(crate) target: String,
    pub(crate) expiration: String,
    pub(crate) file_name: String,
    file: Bytes,
}

impl Form {
    /// A form for `key`, with a policy that allows it, good for the rest of this century.
    pub(crate) fn new(client: &S3, key: &str, file: impl Into<Bytes>) -> Self {
        let form = Self {
            client: client.clone(),
            fields: Vec::new(),
            conditions: vec![json!({"bucket": client.bucket()})],
            target: format!("/{}", client.bucket()),
            expiration: "2099-12-31T00:00:00Z".into(),
            file_name: "file.txt".into(),
            file: file.into(),
        };
        let form = form.field("key", key);
        let signature = client.policy_fields();
        signature.into_iter().fold(form, |form, (name, value)| form.field(name, &value))
    }

    /// With a field, and a condition that it has this value.
    pub(crate) fn field(self, name: &str, value: &str) -> Self {
        self.condition(json!({name: value})).only_field(name, value)
    }

    /// With a field that the policy does not speak of.
    pub(crate) fn only_field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// With one more condition.
    pub(crate) fn condition(mut self, condition: Value) -> Self {
        self.conditions.push(condition);
        self
    }

    /// With a token.
    pub(crate) fn token(self, token: u64) -> Self {
        self.field("x-fence-token", &token.to_string())
    }

    /// Without the fields of this name; the policy stays.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(found, _)| found != name);
        self
    }

    /// The fields, with the policy and its signature.
    pub(crate) fn signed_fields(&self) -> Vec<(String, String)> {
        let policy = json!({"expiration": self.expiration, "conditions": self.conditions});
        let policy = STANDARD.encode(policy.to_string());
        let signature = self.client.sign_policy(&policy);
        let mut fields = self.fields.clone();
        fields.push(("policy".into(), policy));
        fields.push(("x-amz-signature".into(), signature));
        fields
    }

    /// The body, with these fields and the file at its end.
    pub(crate) fn body(&self, fields: &[(String, String)]) -> Bytes {
        let mut body = Vec::new();
        for (name, value) in fields {
            body.extend(format!("--{BOUNDARY}\r\nContent-Disposition: form-data; ").bytes());
            body.extend(format!("name=\"{name}\"\r\n\r\n{value}\r\n").bytes());
        }
        body.extend(format!("--{BOUNDARY}\r\nContent-Disposition: form-data; ").bytes());
        body.extend(format!("name=\"file\"; filename=\"{}\"\r\n", self.file_name).bytes());
        body.extend(b"Content-Type: text/plain\r\n\r\n");
        body.extend_from_slice(&self.file);
        body.extend(format!("\r\n--{BOUNDARY}--\r\n").bytes());
        body.into()
    }

    /// Sends it.
    pub(crate) async fn send(&self) -> Answer {
        self.send_body(self.body(&self.signed_fields())).await
    }

    /// Sends it without policy and signature.
    pub(crate) async fn send_unsigned(&self) -> Answer {
        self.send_body(self.body(&self.fields)).await
    }

    /// Sends another body in its place.
    pub(crate) async fn send_body(&self, body: Bytes) -> Answer {
        let client = self.client.clone().with("content-type", &Self::content_type());
        client.send_presigned(Method::POST, &self.target, body).await
    }

    /// The type of every form.
    pub(crate) fn content_type() -> String {
        format!("multipart/form-data; boundary={BOUNDARY}")
    }
}

//! The policy language that AWS, Ceph, SeaweedFS and MinIO share, as far as it is needed here
//! (<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html>).

use serde::Serialize;
use serde_json::{Value, json};

/// A statement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Statement {
    pub(super) sid: &'static str,
    pub(super) effect: Effect,
    /// Absent in the policies of identities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<&'static str>,
    pub(super) action: Vec<&'static str>,
    pub(super) resource: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) condition: Option<Value>,
}

impl Statement {
    /// Of the policy of an identity.
    pub(super) fn allow(
        sid: &'static str,
        action: Vec<&'static str>,
        resource: Vec<String>,
    ) -> Self {
        Self { sid, effect: Effect::Allow, principal: None, action, resource, condition: None }
    }
}

/// What a statement does.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) enum Effect {
    Allow,
    Deny,
}

/// Everybody.
pub(super) const ANYONE: Option<&str> = Some("*");

/// The whole policy.
pub(super) fn policy(statements: &[Statement]) -> Value {
    json!({ "Version": "2012-10-17", "Statement": statements })
}

/// What changes an object, or what belongs to one. With wildcards, so that what a store learns
/// later is covered; `s3:Put*` is also what the parts of a multipart upload are written by.
pub(super) const CHANGES_OBJECTS: [&str; 7] = [
    "s3:AbortMultipartUpload",
    "s3:BypassGovernanceRetention",
    "s3:Delete*",
    "s3:Put*",
    "s3:Replicate*",
    "s3:RestoreObject",
    "s3:Update*",
];

/// What makes the store itself change or remove objects later, or makes ETags repeat again.
/// `s3:PutBucketPolicy` is not among them: nobody could take the policy back but the root user.
pub(super) const CHANGES_OBJECTS_LATER: [&str; 5] = [
    "s3:DeleteBucket",
    "s3:PutBucketVersioning",
    "s3:PutEncryptionConfiguration",
    "s3:PutLifecycleConfiguration",
    "s3:PutReplicationConfiguration",
];

/// What the proxy asks of a bucket itself. Without `s3:ListBucket` AWS answers 403 for a key that
/// is not there, and the fence could never see that an object is absent.
pub(super) const NEEDED_OF_BUCKETS: [&str; 2] = ["s3:GetBucketVersioning", "s3:ListBucket"];

/// What the proxy asks of objects: conditions with an ETag want the right to read as well
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html>).
pub(super) const NEEDED_OF_OBJECTS: [&str; 4] =
    ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"];

/// What clients may ask for through the proxy, which signs it with its own credentials.
pub(super) const ASKED_OF_BUCKETS: [&str; 3] =
    ["s3:GetBucketLocation", "s3:ListBucketMultipartUploads", "s3:ListBucketVersions"];

/// The same of objects. Copies read and write the tags of objects.
pub(super) const ASKED_OF_OBJECTS: [&str; 6] = [
    "s3:DeleteObjectTagging",
    "s3:GetObjectTagging",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionTagging",
    "s3:ListMultipartUploadParts",
    "s3:PutObjectTagging",
];

//! Amazon S3: a policy for each bucket that denies writes to everybody but the proxy's role, and
//! the policy of that role.
//!
//! A `Deny` wins over every `Allow`, in whatever policy it is, so that nobody's rights have to be
//! looked through. The proxy is exempted by `aws:PrincipalArn`, which is the role's ARN for all its
//! sessions, and not by `NotPrincipal`, which would have to list every session
//! (<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html>).
//! Anonymous requests and AWS's own services have no such key, which a negated operator takes for
//! "another", so they are denied, too.

use serde_json::{Value, json};

use super::statement::{
    ANYONE, ASKED_OF_BUCKETS, ASKED_OF_OBJECTS, CHANGES_OBJECTS, CHANGES_OBJECTS_LATER, Effect,
    NEEDED_OF_BUCKETS, NEEDED_OF_OBJECTS, Statement, policy,
};
use super::{Document, Documents, NoDocuments, Principal, Wanted};

const NOTES: [&str; 5] = [
    "Apply the role's policy first, then check that the proxy starts, then the bucket policies. A \
     bucket has one policy: merge these statements into one that is there already.",
    "The account's root user, and whoever may call s3:PutBucketPolicy or s3:DeleteBucketPolicy, can \
     lift this; keep those rights from people and programs that write data.",
    "A lifecycle rule and a replication that exist already go on: no policy stops the store's own \
     work. Versions that S3 removes or restores by a rule are outside of the fence.",
    "Statement ClientsMayAskFor of the role's policy is what clients can do through the proxy beyond \
     the plain operations; take out what yours do not need. ACLs, retention, legal holds, restores, \
     and deleting versions by their ids are not in it. Where a data bucket keeps versions, what the \
     proxy tries there stays behind as a small version under fencepost-doctor/ without the last of \
     these.",
    "S3 Express One Zone (directory buckets) knows other actions (s3express:CreateSession): these \
     documents do not fit there.",
];

const REQUIRE_CONDITIONS: &str = "\
     --require-conditions denies every PutObject, CompleteMultipartUpload and CopyObject without \
     If-Match or If-None-Match, also by the proxy's role. It fits where all of this holds: mode is \
     \"require\" for the whole bucket (writes without a token carry no condition); the proxy plans \
     Complete and Copy as conditional, because `fencepost doctor --save` has found them so or \
     backend.conditional_complete and backend.conditional_copy say so, or clients neither assemble \
     multipart uploads nor copy (exclusive operations carry no condition); and nobody examines the \
     bucket itself, which writes without a condition as well: `fencepost doctor` does in the bucket \
     that it is given, and the proxy does before its first fenced write where `tags` is \"unique\" \
     (unless backend.unsafe_trust_backend names \"tags\"), or where versions are kept and no such \
     bucket was examined by `fencepost doctor --versioned-bucket … --save`. DELETE is left out: \
     deleting what is absent has no condition to carry. The ledger's bucket is left out: what binds \
     a token to a multipart upload is written without one.";

pub(super) fn documents(wanted: &Wanted, proxy: &Principal) -> Result<Documents, NoDocuments> {
    for key in &wanted.kms_keys {
        let parts: Vec<&str> = key.split(':').collect();
        let is_key = matches!(parts[..], ["arn", _, "kms", _, _, id] if id.starts_with("key/"));
        if !is_key {
            return Err(NoDocuments::KmsKey(key.clone()));
        }
    }
    let mut documents = vec![role_policy(wanted, proxy)];
    for bucket in &wanted.buckets {
        documents.push(bucket_policy(bucket, proxy, wanted.require_conditions));
    }
    documents.push(bucket_policy(&wanted.ledger, proxy, false));
    let mut notes: Vec<String> = NOTES.map(str::to_owned).to_vec();
    if wanted.require_conditions {
        notes.push(REQUIRE_CONDITIONS.to_owned());
    }
    Ok(Documents { documents, notes })
}

fn bucket_policy(bucket: &str, proxy: &Principal, require_conditions: bool) -> Document {
    let others = json!({ "ArnNotEquals": { "aws:PrincipalArn": proxy.as_str() } });
    let deny = |sid, action: &[&'static str], resource, condition: Value| Statement {
        sid,
        effect: Effect::Deny,
        principal: ANYONE,
        action: action.to_vec(),
        resource: vec![resource],
        condition: Some(condition),
    };
    let (whole, objects) = (proxy.bucket_arn(bucket), proxy.objects_arn(bucket));
    let mut statements = vec![
        deny("OnlyTheProxyWrites", &CHANGES_OBJECTS, objects.clone(), others.clone()),
        deny("NoChangesByTheStoreItself", &CHANGES_OBJECTS_LATER, whole, others),
    ];
    if require_conditions {
        // CreateMultipartUpload, UploadPart and UploadPartCopy make no object and take no
        // condition; of them the key is false
        // (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes-enforce.html).
        let unconditional = json!({
            "Null": { "s3:if-match": "true", "s3:if-none-match": "true" },
            "Bool": { "s3:ObjectCreationOperation": "true" },
        });
        statements.push(deny(
            "NoWriteWithoutACondition",
            &["s3:PutObject"],
            objects,
            unconditional,
        ));
    }
    Document {
        name: format!("bucket-policy/{bucket}"),
        json: policy(&statements),
        apply: format!("aws s3api put-bucket-policy --bucket {bucket} --policy file://FILE"),
    }
}

fn role_policy(wanted: &Wanted, proxy: &Principal) -> Document {
    let data = || wanted.buckets.iter();
    let buckets = || data().chain([&wanted.ledger]);
    let whole = |buckets: &mut dyn Iterator<Item = &String>| -> Vec<String> {
        buckets.map(|bucket| proxy.bucket_arn(bucket)).collect()
    };
    let objects = |buckets: &mut dyn Iterator<Item = &String>| -> Vec<String> {
        buckets.map(|bucket| proxy.objects_arn(bucket)).collect()
    };
    let asked_of = [&ASKED_OF_BUCKETS[..], &ASKED_OF_OBJECTS[..]].concat();
    let mut of_data = whole(&mut data());
    of_data.extend(objects(&mut data()));
    let mut statements = vec![
        Statement::allow("SeeWhatIsThere", NEEDED_OF_BUCKETS.to_vec(), whole(&mut buckets())),
        Statement::allow("ReadAndWrite", NEEDED_OF_OBJECTS.to_vec(), objects(&mut buckets())),
        Statement::allow("ClientsMayAskFor", asked_of, of_data),
    ];
    // Where the ledger's bucket keeps versions, this is how the doctor removes what it wrote.
    let ledger = [&wanted.ledger];
    let mut of_ledger = whole(&mut ledger.into_iter());
    of_ledger.extend(objects(&mut ledger.into_iter()));
    let tidy = vec!["s3:DeleteObjectVersion", "s3:ListBucketVersions"];
    statements.push(Statement::allow("TidyUpTheLedger", tidy, of_ledger));
    if !wanted.kms_keys.is_empty() {
        // Decrypt is for reads, and for the parts of multipart uploads.
        let actions = vec!["kms:Decrypt", "kms:GenerateDataKey"];
        statements.push(Statement::allow("UseTheKeys", actions, wanted.kms_keys.clone()));
    }
    let (kind, name) = (if proxy.is_user() { "user" } else { "role" }, proxy.short_name());
    Document {
        name: "role-policy".to_owned(),
        json: policy(&statements),
        apply: format!(
            "aws iam put-{kind}-policy --{kind}-name {name} --policy-name fencepost \
             --policy-document file://FILE"
        ),
    }
}

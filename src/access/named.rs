//! Ceph RGW and SeaweedFS: bucket policies that deny writes to every user but the proxy's.
//!
//! Neither knows `aws:PrincipalArn`: Ceph RGW 16 takes such a policy, and it denies nobody;
//! SeaweedFS 4.48 refuses the ARN operators, and with a string operator denies everybody. Both know
//! `aws:username` (measured; a test runs these very documents on both).

use serde_json::json;

use super::statement::{ANYONE, CHANGES_OBJECTS, CHANGES_OBJECTS_LATER, Effect, Statement, policy};
use super::{Document, Documents, Principal, StoreKind, Wanted};

/// Actions that Ceph RGW 16 does not know; it refuses a policy that names one (measured).
const UNKNOWN_TO_CEPH: [&str; 3] = ["s3:PutEncryptionConfiguration", "s3:Replicate*", "s3:Update*"];

const NOTES: [&str; 2] = [
    "It holds for the owner of the bucket as well. Whoever may set the bucket's policy can lift it: \
     on Ceph that is the owner, so let another user than those who write own the bucket.",
    "The proxy's user needs the right to read, write and list the buckets from elsewhere: a policy \
     that denies gives nobody anything.",
];

const CEPH: &str = "On Ceph a user that is not the owner is let in by an Allow: statement \
                    TheProxyMayDoAll is that. The user is named by its --uid. Users of tenants were \
                    not tried.";

const SEAWEEDFS: &str = "On SeaweedFS what an identity may do is in its `actions` (s3.json, or \
                         `weed shell`): Read, Write, List and Tagging for the proxy's, Read and \
                         List for everybody else's. With that alone others are kept out, too.";

pub(super) fn documents(wanted: &Wanted, proxy: &Principal) -> Documents {
    let buckets = wanted.buckets.iter().chain([&wanted.ledger]);
    let documents = buckets.map(|bucket| bucket_policy(wanted.store, bucket, proxy)).collect();
    let mut notes: Vec<String> = NOTES.map(str::to_owned).to_vec();
    let own = if wanted.store == StoreKind::Ceph { CEPH } else { SEAWEEDFS };
    notes.push(own.to_owned());
    Documents { documents, notes }
}

fn bucket_policy(store: StoreKind, bucket: &str, proxy: &Principal) -> Document {
    let user = proxy.as_str();
    let other = json!({ "StringNotEquals": { "aws:username": user } });
    let (whole, objects) = (proxy.bucket_arn(bucket), proxy.objects_arn(bucket));
    let statement = |sid, effect, action, resource, condition| Statement {
        sid,
        effect,
        principal: ANYONE,
        action,
        resource,
        condition: Some(condition),
    };
    let mut statements = Vec::new();
    if store == StoreKind::Ceph {
        let itself = json!({ "StringEquals": { "aws:username": user } });
        let resource = vec![whole.clone(), objects.clone()];
        statements.push(statement(
            "TheProxyMayDoAll",
            Effect::Allow,
            vec!["s3:*"],
            resource,
            itself,
        ));
    }
    let known = |actions: &[&'static str]| -> Vec<&'static str> {
        let all = actions.iter().copied();
        all.filter(|action| store != StoreKind::Ceph || !UNKNOWN_TO_CEPH.contains(action)).collect()
    };
    let mut deny = |sid, actions: &[&'static str], resource| {
        let resource = vec![resource];
        statements.push(statement(sid, Effect::Deny, known(actions), resource, other.clone()));
    };
    deny("OnlyTheProxyWrites", &CHANGES_OBJECTS, objects);
    deny("NoChangesByTheStoreItself", &CHANGES_OBJECTS_LATER, whole);
    Document {
        name: format!("bucket-policy/{bucket}"),
        json: policy(&statements),
        apply: format!(
            "aws --endpoint-url STORE s3api put-bucket-policy --bucket {bucket} --policy \
             file://FILE"
        ),
    }
}

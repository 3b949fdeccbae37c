//! MinIO: a policy for the proxy's user, and one for everybody else.
//!
//! MinIO has no bucket policies for users that are signed in (its bucket policies are for anonymous
//! requests): who has the readers' policy and no other cannot write. It was not run here, and is
//! written from MinIO's documentation.

use super::statement::{
    ASKED_OF_BUCKETS, ASKED_OF_OBJECTS, NEEDED_OF_BUCKETS, NEEDED_OF_OBJECTS, Statement, policy,
};
use super::{Document, Documents, Principal, Wanted};

const NOTES: [&str; 3] = [
    "There is no policy that denies the rest: detach readwrite, consoleAdmin and every other policy \
     that can write from all other users and groups, and give them fencepost-reader. Access keys \
     of the root user are never limited by a policy.",
    "Anonymous access is another matter: `mc anonymous get ALIAS/BUCKET` should say private or \
     download.",
    "MinIO ignores If-Match on DELETE; before RELEASE.2025-09-07T16-13-09Z a PUT with If-Match of \
     an object that is absent creates it. `fencepost doctor` tells.",
];

pub(super) fn documents(wanted: &Wanted, proxy: &Principal) -> Documents {
    let user = proxy.as_str();
    let whole = |buckets: &[&String]| -> Vec<String> {
        buckets.iter().map(|bucket| proxy.bucket_arn(bucket)).collect()
    };
    let objects = |buckets: &[&String]| -> Vec<String> {
        buckets.iter().map(|bucket| proxy.objects_arn(bucket)).collect()
    };
    let data: Vec<&String> = wanted.buckets.iter().collect();
    let all = [&data[..], &[&wanted.ledger]].concat();
    let of_buckets = [&NEEDED_OF_BUCKETS[..], &ASKED_OF_BUCKETS].concat();
    let of_objects = [&NEEDED_OF_OBJECTS[..], &ASKED_OF_OBJECTS].concat();
    let writer = policy(&[
        Statement::allow("SeeWhatIsThere", of_buckets, whole(&all)),
        Statement::allow("ReadAndWrite", of_objects, objects(&all)),
    ]);
    let reader = policy(&[
        Statement::allow(
            "SeeWhatIsThere",
            vec!["s3:GetBucketLocation", "s3:ListBucket"],
            whole(&data),
        ),
        Statement::allow("Read", vec!["s3:GetObject", "s3:GetObjectVersion"], objects(&data)),
    ]);
    let documents = vec![
        Document {
            name: "proxy-policy".to_owned(),
            json: writer,
            apply: format!(
                "mc admin policy create ALIAS fencepost-proxy FILE && mc admin policy attach ALIAS \
                 fencepost-proxy --user {user}"
            ),
        },
        Document {
            name: "reader-policy".to_owned(),
            json: reader,
            apply: "mc admin policy create ALIAS fencepost-reader FILE && mc admin policy attach \
                    ALIAS fencepost-reader --user READER"
                .to_owned(),
        },
    ];
    Documents { documents, notes: NOTES.map(str::to_owned).to_vec() }
}

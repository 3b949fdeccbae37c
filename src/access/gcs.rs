//! Google Cloud Storage: a role for the proxy's service account, and the bindings of each bucket.
//!
//! IAM on a bucket only ever grants: what an account may do by its project's or folder's policy,
//! nothing in a bucket's policy takes away. It was not run here, and is written from
//! <https://cloud.google.com/storage/docs/access-control/iam-roles> and
//! <https://cloud.google.com/storage/docs/access-control/iam-xml>.

use serde_json::{Value, json};

use super::{Document, Documents, Principal, Wanted};

/// What the proxy needs of Cloud Storage. `buckets.get` is for asking whether the ledger's bucket
/// is there; to overwrite an object takes `objects.delete` beside `objects.create`.
const PERMISSIONS: [&str; 10] = [
    "storage.buckets.get",
    "storage.multipartUploads.abort",
    "storage.multipartUploads.create",
    "storage.multipartUploads.list",
    "storage.multipartUploads.listParts",
    "storage.objects.create",
    "storage.objects.delete",
    "storage.objects.get",
    "storage.objects.list",
    "storage.objects.update",
];

const ROLE_ID: &str = "fencepost";

const NOTES: [&str; 5] = [
    "IAM on a bucket cannot deny. Whoever may write by the policy of the project, a folder or the \
     organisation (roles/editor, roles/storage.admin, roles/storage.objectAdmin and the like) still \
     can: look for them with `gcloud asset analyze-iam-policy` or `gcloud projects get-iam-policy`, \
     and take those rights away.",
    "set-iam-policy puts a policy in place of the one that is there, which may be what lets you \
     administer the bucket: fetch it with `gcloud storage buckets get-iam-policy gs://BUCKET`, and \
     merge the bindings. In a new bucket it lets projectEditor and projectOwner write by \
     roles/storage.legacyBucketOwner and roles/storage.legacyObjectOwner: leave those out.",
    "Switch uniform bucket-level access on (`gcloud storage buckets update gs://BUCKET \
     --uniform-bucket-level-access`): otherwise ACLs of single objects let others write.",
    "There is no condition on preconditions in IAM: nothing corresponds to --require-conditions. Nor \
     do policies stop lifecycle rules.",
    "An HMAC key for the proxy: `gcloud storage hmac create SERVICE_ACCOUNT`. It acts as the service \
     account, so the bindings hold for it. Give it to nobody else, and make no HMAC keys for \
     accounts that may write.",
];

pub(super) fn documents(wanted: &Wanted, proxy: &Principal) -> Documents {
    let account = proxy.as_str();
    // PROJECT.iam.gserviceaccount.com; other kinds of accounts do not tell their project.
    let project = account.split_once('@').and_then(|(_, domain)| {
        domain.strip_suffix(".iam.gserviceaccount.com").filter(|project| !project.is_empty())
    });
    let project = project.unwrap_or("PROJECT");
    let role = json!({
        "title": "Fencepost",
        "description": "What the fencing proxy needs of the buckets that it writes to",
        "stage": "GA",
        "includedPermissions": PERMISSIONS,
    });
    let mut documents = vec![Document {
        name: "role".to_owned(),
        json: role,
        apply: format!("gcloud iam roles create {ROLE_ID} --project {project} --file FILE"),
    }];
    let readers = |ledger: bool| if ledger { &[][..] } else { &wanted.readers[..] };
    let buckets = wanted.buckets.iter().map(|bucket| (bucket, false));
    for (bucket, is_ledger) in buckets.chain([(&wanted.ledger, true)]) {
        documents.push(Document {
            name: format!("iam-policy/{bucket}"),
            json: bindings(project, account, readers(is_ledger)),
            apply: format!("gcloud storage buckets set-iam-policy gs://{bucket} FILE"),
        });
    }
    Documents { documents, notes: NOTES.map(str::to_owned).to_vec() }
}

fn bindings(project: &str, account: &str, readers: &[String]) -> Value {
    let mut bindings = vec![json!({
        "role": format!("projects/{project}/roles/{ROLE_ID}"),
        "members": [format!("serviceAccount:{account}")],
    })];
    if !readers.is_empty() {
        bindings.push(json!({ "role": "roles/storage.objectViewer", "members": readers }));
    }
    json!({ "bindings": bindings })
}

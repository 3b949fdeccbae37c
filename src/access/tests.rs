//! Which names are taken, and what the documents say. That stores understand them so is tested on
//! the stores themselves, in `tests/stores/test_policies.py`.

use serde_json::json;

use super::*;

const ROLE: &str = "arn:aws:iam::111122223333:role/data/fencepost";

fn wanted(store: StoreKind, proxy: &str) -> Wanted {
    Wanted {
        store,
        buckets: vec!["warehouse".into(), "jobs".into()],
        ledger: "fencepost-ledger".into(),
        proxy: proxy.into(),
        require_conditions: false,
        kms_keys: Vec::new(),
        readers: Vec::new(),
    }
}

fn refused(wanted: &Wanted) -> String {
    documents(wanted).expect_err("it is to be refused").to_string()
}

fn json_of(wanted: &Wanted) -> Value {
    documents(wanted).expect("it is right").to_json()
}

#[test]
fn roles_and_users_of_every_partition_are_taken() {
    for proxy in [
        ROLE,
        "arn:aws:iam::111122223333:role/fencepost",
        "arn:aws:iam::111122223333:user/fencepost",
        "arn:aws-cn:iam::111122223333:role/fencepost",
        "arn:aws-us-gov:iam::111122223333:role/a/b/fence+=,.@_-post",
    ] {
        assert!(documents(&wanted(StoreKind::Aws, proxy)).is_ok(), "{proxy}");
    }
    let china = json_of(&wanted(StoreKind::Aws, "arn:aws-cn:iam::111122223333:role/fencepost"));
    let statement = &china["bucket-policy/jobs"]["Statement"][0];
    assert_eq!(statement["Resource"], json!(["arn:aws-cn:s3:::jobs/*"]));
}

#[test]
fn what_is_no_principal_of_its_own_is_refused() {
    for (proxy, says) in [
        ("fencepost", "not the ARN of a role or a user"),
        ("arn:aws:iam::111122223333:role/", "not the ARN"),
        ("arn:aws:iam::111122223333:role/*", "not the ARN"),
        ("arn:aws:iam::1111:role/fencepost", "not the ARN"),
        ("arn:aws:iam:eu-west-1:111122223333:role/fencepost", "not the ARN"),
        ("arn:gcp:iam::111122223333:role/fencepost", "not the ARN"),
        ("arn:aws:s3:::warehouse", "not the ARN"),
        ("arn:aws:iam::111122223333:group/writers", "not the ARN"),
        ("arn:aws:iam::111122223333:root", "a whole account"),
        (
            "arn:aws:sts::111122223333:assumed-role/fencepost/i-0123",
            "give its ARN, arn:aws:iam::111122223333:role/fencepost,",
        ),
    ] {
        let text = refused(&wanted(StoreKind::Aws, proxy));
        assert!(text.contains(says), "{proxy}: {text}");
    }
    for store in [StoreKind::Ceph, StoreKind::SeaweedFs, StoreKind::Minio] {
        for proxy in ["", "*", "a b", "arn:aws:iam:::user/fencepost"] {
            let text = refused(&wanted(store, proxy));
            assert!(text.contains("not the name of a user"), "{proxy}: {text}");
        }
    }
    for proxy in ["fencepost", "a@b@iam.gserviceaccount.com", "ann@example.com", "*@x"] {
        let text = refused(&wanted(StoreKind::Gcs, proxy));
        assert!(text.contains("not the e-mail address of a service account"), "{text}");
    }
}

#[test]
fn buckets_are_named_rightly_and_once() {
    for bucket in ["*", "ab", "Warehouse", "a/b", "-ab", "ab-", "arn:aws:s3:::ab", "wäre"] {
        let buckets = vec![bucket.to_owned()];
        let text = refused(&Wanted { buckets, ..wanted(StoreKind::Aws, ROLE) });
        assert!(text.contains("is not the name of a bucket"), "{bucket}: {text}");
        let ledger = bucket.to_owned();
        let text = refused(&Wanted { ledger, ..wanted(StoreKind::Aws, ROLE) });
        assert!(text.contains("is not the name of a bucket"), "{bucket}: {text}");
    }
    let buckets = vec!["jobs".to_owned(), "jobs".to_owned()];
    let text = refused(&Wanted { buckets, ..wanted(StoreKind::Aws, ROLE) });
    assert!(text.contains("named twice"), "{text}");
    let text = refused(&Wanted { ledger: "jobs".into(), ..wanted(StoreKind::Aws, ROLE) });
    assert!(text.contains("both a data bucket and the ledger's"), "{text}");
}

#[test]
fn options_of_one_store_are_refused_at_another() {
    let minio = || wanted(StoreKind::Minio, "fencepost");
    let text = refused(&Wanted { require_conditions: true, ..minio() });
    assert!(text.contains("--require-conditions is for --store aws"), "{text}");
    let text = refused(&Wanted { kms_keys: vec!["k".into()], ..minio() });
    assert!(text.contains("--kms-key"), "{text}");
    let text = refused(&Wanted { readers: vec!["user:a@b".into()], ..minio() });
    assert!(text.contains("--reader"), "{text}");
    let text = refused(&Wanted { kms_keys: vec!["k".into()], ..wanted(StoreKind::Aws, ROLE) });
    assert!(text.contains("not the ARN of a KMS key"), "{text}");
}

#[test]
fn on_aws_everybody_but_the_role_is_denied_in_every_bucket() {
    let all = json_of(&wanted(StoreKind::Aws, ROLE));
    for bucket in ["warehouse", "jobs", "fencepost-ledger"] {
        let statements = all[format!("bucket-policy/{bucket}")]["Statement"].as_array();
        let statements = statements.expect("it has statements");
        assert_eq!(statements.len(), 2, "{bucket}");
        for statement in statements {
            assert_eq!(statement["Effect"], "Deny");
            assert_eq!(statement["Principal"], "*");
            assert_eq!(statement["Condition"], json!({"ArnNotEquals": {"aws:PrincipalArn": ROLE}}));
        }
        assert_eq!(statements[0]["Resource"], json!([format!("arn:aws:s3:::{bucket}/*")]));
        assert_eq!(statements[1]["Resource"], json!([format!("arn:aws:s3:::{bucket}")]));
        // Nobody could take it back.
        let locked = statements.iter().any(|one| one.to_string().contains("BucketPolicy"));
        assert!(!locked, "{bucket}");
    }
}

#[test]
fn conditions_are_required_of_data_alone() {
    let strict = Wanted { require_conditions: true, ..wanted(StoreKind::Aws, ROLE) };
    let all = json_of(&strict);
    let third = |bucket: &str| all[format!("bucket-policy/{bucket}")]["Statement"][2].clone();
    assert_eq!(third("fencepost-ledger"), Value::Null);
    assert_eq!(third("jobs")["Action"], json!(["s3:PutObject"]));
    assert_eq!(
        third("jobs")["Condition"],
        json!({
            "Null": { "s3:if-match": "true", "s3:if-none-match": "true" },
            "Bool": { "s3:ObjectCreationOperation": "true" },
        })
    );
}

#[test]
fn the_role_may_do_what_the_proxy_does() {
    let keys = vec!["arn:aws:kms:eu-west-1:111122223333:key/1".to_owned()];
    let all = json_of(&Wanted { kms_keys: keys, ..wanted(StoreKind::Aws, ROLE) });
    let statements = all["role-policy"]["Statement"].as_array().expect("it has statements");
    let allows = |action: &str, resource: &str| {
        statements.iter().any(|one| {
            let has = |field: &str, text: &str| {
                one[field].as_array().is_some_and(|list| list.contains(&json!(text)))
            };
            one["Effect"] == "Allow" && has("Action", action) && has("Resource", resource)
        })
    };
    for bucket in ["warehouse", "fencepost-ledger"] {
        assert!(allows("s3:ListBucket", &format!("arn:aws:s3:::{bucket}")));
        for action in ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        {
            assert!(allows(action, &format!("arn:aws:s3:::{bucket}/*")), "{action}");
        }
    }
    assert!(allows("kms:GenerateDataKey", "arn:aws:kms:eu-west-1:111122223333:key/1"));
    assert!(!allows("s3:PutObjectTagging", "arn:aws:s3:::fencepost-ledger/*"));
}

#[test]
fn each_store_has_documents_of_its_own() {
    let names = |store, proxy| -> Vec<String> {
        let documents = documents(&wanted(store, proxy)).expect("it is right");
        assert!(!documents.notes.is_empty());
        assert!(documents.documents.iter().all(|one| one.apply.contains("FILE")));
        documents.documents.into_iter().map(|one| one.name).collect()
    };
    let policies = ["warehouse", "jobs", "fencepost-ledger"];
    let policies = policies.map(|bucket| format!("bucket-policy/{bucket}"));
    assert_eq!(names(StoreKind::Aws, ROLE)[0], "role-policy");
    assert_eq!(names(StoreKind::Aws, ROLE)[1..], policies);
    assert_eq!(names(StoreKind::Ceph, "fencepost"), policies);
    assert_eq!(names(StoreKind::SeaweedFs, "fencepost"), policies);
    assert_eq!(names(StoreKind::Minio, "fencepost"), ["proxy-policy", "reader-policy"]);
    let account = "fencepost@my-project.iam.gserviceaccount.com";
    assert_eq!(names(StoreKind::Gcs, account)[0], "role");
    let gcs = Wanted { readers: vec!["user:a@b".into()], ..wanted(StoreKind::Gcs, account) };
    let all = json_of(&gcs);
    let bindings = &all["iam-policy/jobs"]["bindings"];
    assert_eq!(bindings[0]["role"], "projects/my-project/roles/fencepost");
    assert_eq!(bindings[1]["members"], json!(["user:a@b"]));
    assert_eq!(all["iam-policy/fencepost-ledger"]["bindings"].as_array().map(Vec::len), Some(1));
}

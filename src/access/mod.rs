//! Documents that keep other writers out of the buckets.
//!
//! The fence orders the writes that come through the proxy, and no others ("What is outside the
//! promise" in `docs/protocol.md`): whoever may write to the store directly goes round it. Here are
//! the policies that leave the proxy as the only writer, and those that give the proxy itself what
//! it needs. Everything is built from names, nothing is asked of a store, and nothing is applied.
//!
//! Which documents a store takes, and how it names principals, is in a file of its own:
//! `aws`, `named` (Ceph RGW and SeaweedFS, which know users and not roles), `gcs`,
//! `minio`.

mod aws;
mod gcs;
mod minio;
mod named;
mod principal;
mod statement;

use std::collections::BTreeSet;
use std::str::FromStr;

use serde_json::{Map, Value};

pub use self::principal::{NotAPrincipal, Principal};

/// What the documents are for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where the buckets are.
    pub store: StoreKind,
    /// The data buckets, at least one.
    pub buckets: Vec<String>,
    /// The bucket of the ledger.
    pub ledger: String,
    /// Who the proxy is to the store, as the store writes it.
    pub proxy: String,
    /// Whether writes without a precondition shall be refused, whoever sends them.
    pub require_conditions: bool,
    /// The KMS keys that encrypt the data buckets.
    pub kms_keys: Vec<String>,
    /// Who else may read, in the words of the store; GCS alone takes them.
    pub readers: Vec<String>,
}

/// A store, by how it is told who may do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Amazon S3: bucket policies, and an identity policy for the role.
    Aws,
    /// Ceph RGW: bucket policies that name a user.
    Ceph,
    /// SeaweedFS: the same.
    SeaweedFs,
    /// MinIO: policies of users.
    Minio,
    /// Google Cloud Storage: bindings of roles, and a role for the proxy.
    Gcs,
}

impl StoreKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Aws, Self::Ceph, Self::SeaweedFs, Self::Minio, Self::Gcs];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Ceph => "ceph",
            Self::SeaweedFs => "seaweedfs",
            Self::Minio => "minio",
            Self::Gcs => "gcs",
        }
    }
}

/// No store has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no store of this name; there are aws, ceph, seaweedfs, minio and gcs")]
pub struct NotAStore;

impl FromStr for StoreKind {
    type Err = NotAStore;

    fn from_str(text: &str) -> Result<Self, NotAStore> {
        Self::ALL.into_iter().find(|store| store.name() == text).ok_or(NotAStore)
    }
}

/// One document, and what is done with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its name: `bucket-policy/warehouse`, `role-policy`.
    pub name: String,
    /// Itself.
    pub json: Value,
    /// How it is applied: a command line with `FILE` where the document goes.
    pub apply: String,
}

/// What is printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Documents {
    /// In the order in which they are best applied: what lets the proxy in comes first.
    pub documents: Vec<Document>,
    /// What the documents do not do. Sentences for people.
    pub notes: Vec<String>,
}

impl Documents {
    /// All documents in one object, by their names.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let pairs = self.documents.iter().map(|one| (one.name.clone(), one.json.clone()));
        Value::Object(pairs.collect::<Map<_, _>>())
    }
}

/// Why there are no documents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDocuments {
    /// The name of the proxy is none to this store.
    #[error(transparent)]
    Principal(#[from] NotAPrincipal),
    /// A name that no bucket has.
    #[error("{0:?} is not the name of a bucket: {rules}", rules = BUCKET_RULES)]
    Bucket(String),
    /// A bucket was named twice.
    #[error("bucket {0:?} is named twice")]
    Twice(String),
    /// The ledger's bucket is one of the data buckets.
    #[error(
        "{0:?} is both a data bucket and the ledger's: clients could reach the records, and a rule \
         for the one would hold for the other. Give the ledger a bucket of its own (--ledger-bucket)"
    )]
    LedgerIsData(String),
    /// An option that this store has no use for.
    #[error("{option} is for {stores} alone")]
    NotForThisStore {
        /// The option.
        option: &'static str,
        /// Who takes it.
        stores: &'static str,
    },
    /// A KMS key that is no ARN.
    #[error("{0:?} is not the ARN of a KMS key, such as arn:aws:kms:eu-west-1:111122223333:key/ID")]
    KmsKey(String),
}

const BUCKET_RULES: &str = "3 to 63 lower-case letters, digits, dots and hyphens, a letter or a \
                            digit at both ends";

/// Writes the documents.
///
/// # Errors
///
/// [`NoDocuments`], when a name is wrong.
pub fn documents(wanted: &Wanted) -> Result<Documents, NoDocuments> {
    let mut seen = BTreeSet::new();
    for bucket in wanted.buckets.iter().chain([&wanted.ledger]) {
        if !is_bucket(bucket) {
            return Err(NoDocuments::Bucket(bucket.clone()));
        }
    }
    for bucket in &wanted.buckets {
        if !seen.insert(bucket) {
            return Err(NoDocuments::Twice(bucket.clone()));
        }
    }
    if seen.contains(&wanted.ledger) {
        return Err(NoDocuments::LedgerIsData(wanted.ledger.clone()));
    }
    let only = |given: bool, option, stores, takes: bool| match given && !takes {
        true => Err(NoDocuments::NotForThisStore { option, stores }),
        false => Ok(()),
    };
    let (is_aws, is_gcs) = (wanted.store == StoreKind::Aws, wanted.store == StoreKind::Gcs);
    only(wanted.require_conditions, "--require-conditions", "--store aws", is_aws)?;
    only(!wanted.kms_keys.is_empty(), "--kms-key", "--store aws", is_aws)?;
    only(!wanted.readers.is_empty(), "--reader", "--store gcs", is_gcs)?;
    let proxy = Principal::parse(wanted.store, &wanted.proxy)?;
    match wanted.store {
        StoreKind::Aws => aws::documents(wanted, &proxy),
        StoreKind::Ceph | StoreKind::SeaweedFs => Ok(named::documents(wanted, &proxy)),
        StoreKind::Minio => Ok(minio::documents(wanted, &proxy)),
        StoreKind::Gcs => Ok(gcs::documents(wanted, &proxy)),
    }
}

/// Stricter than a setting is, because a policy that means another bucket protects none
/// (<https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html>; GCS takes
/// underscores too).
fn is_bucket(name: &str) -> bool {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let known = |b: u8| edge(b) || matches!(b, b'.' | b'-' | b'_');
    let bytes = name.as_bytes();
    (3..=63).contains(&bytes.len())
        && bytes.iter().all(|b| known(*b))
        && bytes.first().is_some_and(|b| edge(*b))
        && bytes.last().is_some_and(|b| edge(*b))
}

#[cfg(test)]
mod tests;

//! `fencepost policy`: prints what keeps other writers out of the buckets.

use std::process::ExitCode;

use clap::Args;
use fencepost::access::{self, Document, Documents, StoreKind, Wanted};

use super::exit::Usage;
use super::remote::print_json;
use super::{Failure, print_error};

pub(super) const HELP: &str = "\
Examples:
  fencepost policy --bucket warehouse --role arn:aws:iam::111122223333:role/fencepost
  fencepost policy --bucket warehouse --role arn:aws:iam::111122223333:role/fencepost \\
      --only bucket-policy/warehouse >warehouse.json
  fencepost policy --store ceph --bucket warehouse --role fencepost
  fencepost policy --store gcs --bucket warehouse --role fencepost@my-project.iam.gserviceaccount.com

Standard output is JSON: an object of all documents by their names, or with --only one of them as
the store wants it. Standard error says how each is applied, and what they do not do. Nothing is
applied, and no store is asked.";

/// Flags of `policy`.
#[derive(Args, Clone, Debug)]
pub(crate) struct PolicyFlags {
    /// A bucket that clients write to through the proxy; may be given several times
    #[arg(long, value_name = "BUCKET", required = true)]
    bucket: Vec<String>,
    /// Who the proxy is to the store: the ARN of a role (aws), a user (ceph, seaweedfs, minio), or
    /// a service account (gcs)
    #[arg(long, value_name = "PRINCIPAL")]
    role: String,
    /// Bucket that holds the records of the fence
    #[arg(long, value_name = "BUCKET", default_value = "fencepost-ledger")]
    ledger_bucket: String,
    /// Which store: aws, ceph, seaweedfs, minio or gcs
    #[arg(long, value_name = "STORE", default_value = "aws")]
    store: StoreKind,
    /// aws: deny writes without a precondition as well, also by the proxy's own role; see what is
    /// said of it on standard error
    #[arg(long)]
    require_conditions: bool,
    /// aws: a KMS key that encrypts the buckets; may be given several times
    #[arg(long, value_name = "ARN")]
    kms_key: Vec<String>,
    /// gcs: who else may read, as in user:ann@example.com; may be given several times
    #[arg(long, value_name = "MEMBER")]
    reader: Vec<String>,
    /// Print one document alone, by its name
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// Prints the documents.
pub(crate) fn run(flags: PolicyFlags) -> Result<ExitCode, Failure> {
    let wanted = Wanted {
        store: flags.store,
        buckets: flags.bucket,
        ledger: flags.ledger_bucket,
        proxy: flags.role,
        require_conditions: flags.require_conditions,
        kms_keys: flags.kms_key,
        readers: flags.reader,
    };
    let documents = access::documents(&wanted).map_err(|error| Usage(error.to_string()))?;
    match flags.only {
        None => {
            print_json(&documents.to_json());
            print_error(&explained(&documents));
        }
        Some(name) => print_json(&one(&documents, &name)?.json),
    }
    Ok(ExitCode::SUCCESS)
}

fn one<'a>(documents: &'a Documents, name: &str) -> Result<&'a Document, Usage> {
    documents.documents.iter().find(|document| document.name == name).ok_or_else(|| {
        let names: Vec<&str> = documents.documents.iter().map(|one| one.name.as_str()).collect();
        Usage(format!("no document is named {name:?}; there are {}", names.join(", ")))
    })
}

/// How they are applied, and what they do not do.
fn explained(documents: &Documents) -> String {
    let mut text = String::from("apply, each document from a file (--only prints it):\n");
    for document in &documents.documents {
        text.push_str(&format!("{}\n    {}\n", document.name, document.apply));
    }
    for note in &documents.notes {
        text.push_str(&format!("- {note}\n"));
    }
    text
}

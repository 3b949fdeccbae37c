//! Who the proxy is to a store, in the store's own words.

use super::StoreKind;

/// A principal that a store can know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// As it was given.
    text: String,
    /// `aws`, `aws-cn` or `aws-us-gov`; `aws` where there are no partitions.
    partition: String,
}

/// A name that this store has for nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAPrincipal {
    /// The session of a role.
    #[error(
        "{given:?} is the session of a role. Policies see the role itself in `aws:PrincipalArn`, \
         whatever the session: give its ARN, {role}, with its path if it has one (`aws iam get-role \
         --role-name {name}` shows it)"
    )]
    Session {
        /// What was given.
        given: String,
        /// The role's ARN, if it has no path.
        role: String,
        /// The role's name.
        name: String,
    },
    /// An account, or its root user.
    #[error(
        "{0:?} is a whole account: everybody in it could write. Give the ARN of the proxy's own \
         role"
    )]
    Account(String),
    /// No ARN, or that of something else.
    #[error(
        "{0:?} is not the ARN of a role or a user, such as arn:aws:iam::111122223333:role/fencepost"
    )]
    Arn(String),
    /// No user of a store that has users.
    #[error("{0:?} is not the name of a user: letters, digits and - _ . @, and no wildcard")]
    User(String),
    /// No service account.
    #[error(
        "{0:?} is not the e-mail address of a service account, such as \
         fencepost@my-project.iam.gserviceaccount.com"
    )]
    ServiceAccount(String),
}

impl Principal {
    /// Takes a principal as `store` writes it.
    pub(super) fn parse(store: StoreKind, text: &str) -> Result<Self, NotAPrincipal> {
        let partition = match store {
            StoreKind::Aws => partition_of(text)?,
            StoreKind::Ceph | StoreKind::SeaweedFs | StoreKind::Minio => {
                user(text)?;
                "aws"
            }
            StoreKind::Gcs => {
                service_account(text)?;
                "aws"
            }
        };
        Ok(Self { text: text.to_owned(), partition: partition.to_owned() })
    }

    /// As the store writes it.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The ARN of a bucket, in this principal's partition.
    pub(super) fn bucket_arn(&self, bucket: &str) -> String {
        format!("arn:{}:s3:::{bucket}", self.partition)
    }

    /// The ARN of every object of a bucket.
    pub(super) fn objects_arn(&self, bucket: &str) -> String {
        format!("{}/*", self.bucket_arn(bucket))
    }

    /// The name of a role or a user, without its path.
    pub(super) fn short_name(&self) -> &str {
        self.text.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it is the ARN of a user, whose policies are set by another command.
    pub(super) fn is_user(&self) -> bool {
        self.text.contains(":user/")
    }
}

/// The partition of the ARN of a role or a user
/// (<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html>).
fn partition_of(text: &str) -> Result<&str, NotAPrincipal> {
    let wrong = || NotAPrincipal::Arn(text.to_owned());
    let parts: Vec<&str> = text.split(':').collect();
    let ["arn", partition, service, "", account, resource] = parts[..] else { return Err(wrong()) };
    let known = ["aws", "aws-cn", "aws-us-gov"].contains(&partition);
    let twelve_digits = account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit());
    if !known || !twelve_digits {
        return Err(wrong());
    }
    if let ("sts", Some(session)) = (service, resource.strip_prefix("assumed-role/")) {
        let name = session.split('/').next().unwrap_or_default().to_owned();
        let role = format!("arn:{partition}:iam::{account}:role/{name}");
        return Err(NotAPrincipal::Session { given: text.to_owned(), role, name });
    }
    if (service, resource) == ("iam", "root") {
        return Err(NotAPrincipal::Account(text.to_owned()));
    }
    let name = resource.strip_prefix("role/").or_else(|| resource.strip_prefix("user/"));
    let fits = |segment: &str| {
        let known = |b: u8| b.is_ascii_alphanumeric() || b"+=,.@_-".contains(&b);
        !segment.is_empty() && segment.bytes().all(known)
    };
    match name {
        Some(name) if service == "iam" && name.split('/').all(fits) => Ok(partition),
        Some(_) | None => Err(wrong()),
    }
}

fn user(text: &str) -> Result<(), NotAPrincipal> {
    let known = |b: u8| b.is_ascii_alphanumeric() || b"-_.@".contains(&b);
    let fits = !text.is_empty() && text.len() <= 128 && text.bytes().all(known);
    if fits { Ok(()) } else { Err(NotAPrincipal::User(text.to_owned())) }
}

fn service_account(text: &str) -> Result<(), NotAPrincipal> {
    let known = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let fits = text.split_once('@').is_some_and(|(name, domain)| {
        !name.is_empty()
            && name.bytes().all(known)
            && domain.bytes().all(known)
            && domain.ends_with("gserviceaccount.com")
    });
    if fits { Ok(()) } else { Err(NotAPrincipal::ServiceAccount(text.to_owned())) }
}

//! Which real store the embedded one behaves like.
//!
//! A profile changes only what a fence depends on: which preconditions are honoured and by which
//! operations, whether they are honoured atomically, and whether entity tags repeat. It does not
//! imitate error texts, limits or extra operations of the store that it is named after.
//!
//! A profile is a name; what it means is a [`Behaviour`], a row of a table. Nothing else in the
//! store asks which profile it has.

mod behaviour;

pub(super) use behaviour::{Behaviour, Commit, Interleaving, Operation, Reads, Tags};

use std::fmt;
use std::str::FromStr;

/// The behaviour of the embedded store where real stores differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Amazon S3, general purpose bucket without SSE-KMS: conditions are atomic, an entity tag is
    /// the MD5 of the bytes (so it repeats), and a write that lands while a conditional upload is
    /// still arriving is noticed (409 `ConditionalRequestConflict`).
    #[default]
    Aws,
    /// As [`Aws`](Self::Aws), but every write gets a new random entity tag, as under SSE-KMS.
    AwsKms,
    /// `MinIO`: as [`Aws`](Self::Aws), but DELETE ignores `If-Match` (single and batch), and nothing
    /// is ever answered with 409: a condition is judged on the state found when the write commits.
    Minio,
    /// Ignores every precondition of every operation, reads included, and answers success.
    Liar,
    /// Checks the precondition, waits, then acts without looking again.
    Racy,
}

impl Profile {
    /// Every profile, in the order of the documentation.
    pub const ALL: [Self; 5] = [Self::Aws, Self::AwsKms, Self::Minio, Self::Liar, Self::Racy];

    /// The name that [`FromStr`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::AwsKms => "aws-kms",
            Self::Minio => "minio",
            Self::Liar => "liar",
            Self::Racy => "racy",
        }
    }

    /// What it stands for.
    pub(super) fn behaviour(self) -> &'static Behaviour {
        match self {
            Self::Aws => &behaviour::AWS,
            Self::AwsKms => &behaviour::AWS_KMS,
            Self::Minio => &behaviour::MINIO,
            Self::Liar => &behaviour::LIAR,
            Self::Racy => &behaviour::RACY,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownProfile(String);

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Profile::ALL.map(Profile::name).join(", ");
        write!(f, "unknown profile {:?}: expected one of {names}", self.0)
    }
}

impl std::error::Error for UnknownProfile {}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name() == text)
            .ok_or_else(|| UnknownProfile(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert!("AWS".parse::<Profile>().is_err());
    }
}

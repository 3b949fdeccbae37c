//! Which real store the embedded one behaves like.
//!
//! A profile changes only what a fence depends on: which preconditions are honoured, whether they
//! are honoured atomically, and whether entity tags repeat. It does not imitate error texts,
//! limits or extra operations of the store that it is named after.

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
    AwsUniqueTags,
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
    pub const ALL: [Self; 5] =
        [Self::Aws, Self::AwsUniqueTags, Self::Minio, Self::Liar, Self::Racy];

    /// The name that [`FromStr`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::AwsUniqueTags => "aws-unique-tags",
            Self::Minio => "minio",
            Self::Liar => "liar",
            Self::Racy => "racy",
        }
    }

    /// Whether every write leaves an entity tag that was never there before.
    pub(super) fn tags_are_unique(self) -> bool {
        match self {
            Self::AwsUniqueTags => true,
            Self::Aws | Self::Minio | Self::Liar | Self::Racy => false,
        }
    }

    /// Whether conditions are looked at, at all.
    pub(super) fn honours_conditions(self) -> bool {
        match self {
            Self::Aws | Self::AwsUniqueTags | Self::Minio | Self::Racy => true,
            Self::Liar => false,
        }
    }

    /// Whether DELETE and `DeleteObjects` look at entity tags.
    pub(super) fn honours_delete_conditions(self) -> bool {
        match self {
            Self::Aws | Self::AwsUniqueTags | Self::Racy => true,
            Self::Minio | Self::Liar => false,
        }
    }

    /// Whether a change that lands while an upload is arriving is told from one before it.
    pub(super) fn detects_interleaving(self) -> bool {
        match self {
            Self::Aws | Self::AwsUniqueTags => true,
            Self::Minio | Self::Liar | Self::Racy => false,
        }
    }

    /// Whether the check and the act are two steps with a pause between them.
    pub(super) fn checks_then_acts(self) -> bool {
        match self {
            Self::Racy => true,
            Self::Aws | Self::AwsUniqueTags | Self::Minio | Self::Liar => false,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile {0:?}: expected one of aws, aws-unique-tags, minio, liar, racy")]
pub struct UnknownProfile(String);

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

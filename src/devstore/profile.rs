//! Which real store the embedded one behaves like.
//!
//! A profile changes only what a fence depends on: which preconditions are honoured and by which
//! operations, whether they are honoured atomically, and whether entity tags repeat. It does not
//! imitate error texts, limits or extra operations of the store that it is named after.
//!
//! A profile is a name; what it means is a [`Behaviour`], a row of a table. Nothing else in the
//! store asks which profile it has.

mod behaviour;
mod table;

pub(super) use behaviour::{
    Absent, Behaviour, Commit, CopyHeaders, DeleteAbsent, Dialect, Interleaving, Keys, Offer,
    Operation, Reads, Spelling, Tags, TooFast, Trailers,
};

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
    /// Amazon S3, directory bucket (S3 Express One Zone): every write gets a new entity tag that is
    /// no MD5, and there are no versions.
    AwsExpress,
    /// As [`Aws`](Self::Aws), but every write gets a new random entity tag, as under SSE-KMS.
    AwsKms,
    /// `MinIO`: DELETE (single and batch) and the destination of a copy ignore conditions, and
    /// nothing is ever answered with 409: a condition is judged on the state found when the write
    /// commits. Keys are paths.
    Minio,
    /// Cloudflare R2: DELETE ignores conditions, a copy has headers of its own for them, a key is
    /// written once in a second, and keys are in Unicode's normalisation form C.
    R2,
    /// Ceph RGW 16: conditions on PUT alone, tags without quotes, 500 for the losers of a race.
    Ceph,
    /// Wasabi: ignores every condition of a write.
    Wasabi,
    /// Garage: ignores every condition of a write.
    Garage,
    /// `DigitalOcean` Spaces: conditions on PUT alone.
    Spaces,
    /// Google Cloud Storage, its XML API: conditions on generations in requests of Google's dialect,
    /// none on uploads in parts, and none of S3's on any write. Generations never repeat.
    Gcs,
    /// Ignores every precondition of every operation, reads included, and answers success.
    Liar,
    /// Checks the precondition, waits, then acts without looking again.
    Racy,
}

impl Profile {
    /// Every profile, in the order of the documentation.
    pub const ALL: [Self; 12] = [
        Self::Aws,
        Self::AwsExpress,
        Self::AwsKms,
        Self::Minio,
        Self::R2,
        Self::Ceph,
        Self::Wasabi,
        Self::Garage,
        Self::Spaces,
        Self::Gcs,
        Self::Liar,
        Self::Racy,
    ];

    /// The name that [`FromStr`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::AwsExpress => "aws-express",
            Self::AwsKms => "aws-kms",
            Self::Minio => "minio",
            Self::R2 => "r2",
            Self::Ceph => "ceph",
            Self::Wasabi => "wasabi",
            Self::Garage => "garage",
            Self::Spaces => "spaces",
            Self::Gcs => "gcs",
            Self::Liar => "liar",
            Self::Racy => "racy",
        }
    }

    /// What it stands for.
    pub(super) fn behaviour(self) -> &'static Behaviour {
        match self {
            Self::Aws => &table::AWS,
            Self::AwsExpress => &table::AWS_EXPRESS,
            Self::AwsKms => &table::AWS_KMS,
            Self::Minio => &table::MINIO,
            Self::R2 => &table::R2,
            Self::Ceph => &table::CEPH,
            Self::Wasabi => &table::WASABI,
            Self::Garage => &table::GARAGE,
            Self::Spaces => &table::SPACES,
            Self::Gcs => &table::GCS,
            Self::Liar => &table::LIAR,
            Self::Racy => &table::RACY,
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

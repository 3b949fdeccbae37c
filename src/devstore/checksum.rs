//! Checksums of bodies: the five algorithms of S3, and the MD5 that makes the entity tag.
//!
//! Hashing itself is `s3s`'s; here is only which ones a request wants and whether they agree.
//! `CRC64NVME` is not computed for uploads that ask for no checksum, which Amazon does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderMap;
use md5::{Digest as _, Md5};
use s3s::checksum::ChecksumHasher;
use s3s::crypto::Checksum as _;
use s3s::{S3Result, s3_error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A checksum algorithm of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

impl Algorithm {
    const ALL: [Self; 5] = [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    /// As `x-amz-checksum-algorithm` and XML spell it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    pub(super) fn from_header(header: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.header().eq_ignore_ascii_case(header))
    }
}

/// Checksum values, in base64.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checksums {
    values: BTreeMap<Algorithm, String>,
    /// Checksums of the parts' checksums (`…-3`), not of the bytes.
    composite: bool,
}

impl Checksums {
    /// The values that the headers (or trailers) claim.
    pub(super) fn claimed(headers: &HeaderMap) -> Self {
        let claim = |algorithm: Algorithm| {
            let value = headers.get(algorithm.header())?.to_str().ok()?;
            (!value.is_empty()).then(|| (algorithm, value.to_owned()))
        };
        Self { values: Algorithm::ALL.into_iter().filter_map(claim).collect(), composite: false }
    }

    pub(super) fn get(&self, algorithm: Algorithm) -> Option<&String> {
        self.values.get(&algorithm)
    }

    pub(super) fn algorithms(&self) -> impl Iterator<Item = Algorithm> + '_ {
        self.values.keys().copied()
    }

    /// The algorithms whose value is of the whole object: a composite one ends in `-<parts>`.
    pub(super) fn full_object_algorithms(&self) -> impl Iterator<Item = Algorithm> + '_ {
        let full = self.values.iter().filter(|(_, value)| !value.contains('-'));
        full.map(|(algorithm, _)| *algorithm)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// `FULL_OBJECT` or `COMPOSITE`; `None` when there are no values.
    pub(super) fn type_name(&self) -> Option<&'static str> {
        let name = if self.composite { "COMPOSITE" } else { "FULL_OBJECT" };
        (!self.is_empty()).then_some(name)
    }

    /// Every claimed value must be the computed one.
    pub(super) fn verify(&self, claimed: &Self) -> S3Result<()> {
        for (algorithm, claim) in &claimed.values {
            if self.values.get(algorithm) != Some(claim) {
                return Err(s3_error!(
                    BadDigest,
                    "The {} you specified did not match the calculated checksum.",
                    algorithm.name()
                ));
            }
        }
        Ok(())
    }

    /// The composite checksum of a multipart object, for the algorithms that every part has.
    pub(super) fn composite(parts: &[&Self]) -> Self {
        let value = |algorithm: Algorithm| {
            let mut hasher = Hasher::new([algorithm]);
            for part in parts {
                hasher.update(&BASE64.decode(part.get(algorithm)?).ok()?);
            }
            let sum = hasher.finish().1.values.remove(&algorithm)?;
            Some((algorithm, format!("{sum}-{}", parts.len())))
        };
        // CRC64NVME has no composite form.
        let composable = Algorithm::ALL.into_iter().filter(|a| *a != Algorithm::Crc64Nvme);
        Self { values: composable.filter_map(value).collect(), composite: true }
    }
}

/// MD5 and any of the other algorithms over the same bytes.
pub(super) struct Hasher {
    md5: Md5,
    others: ChecksumHasher,
}

impl Hasher {
    pub(super) fn new(algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let mut others = ChecksumHasher::default();
        for algorithm in algorithms {
            match algorithm {
                Algorithm::Crc32 => others.crc32 = Some(s3s::crypto::Crc32::new()),
                Algorithm::Crc32c => others.crc32c = Some(s3s::crypto::Crc32c::new()),
                Algorithm::Crc64Nvme => others.crc64nvme = Some(s3s::crypto::Crc64Nvme::new()),
                Algorithm::Sha1 => others.sha1 = Some(s3s::crypto::Sha1::new()),
                Algorithm::Sha256 => others.sha256 = Some(s3s::crypto::Sha256::new()),
            }
        }
        Self { md5: Md5::new(), others }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.md5.update(bytes);
        self.others.update(bytes);
    }

    pub(super) fn finish(self) -> ([u8; 16], Checksums) {
        let sums = self.others.finalize();
        let values = [
            (Algorithm::Crc32, sums.checksum_crc32),
            (Algorithm::Crc32c, sums.checksum_crc32c),
            (Algorithm::Crc64Nvme, sums.checksum_crc64nvme),
            (Algorithm::Sha1, sums.checksum_sha1),
            (Algorithm::Sha256, sums.checksum_sha256),
        ];
        let values = values.into_iter().filter_map(|(a, value)| Some((a, value?))).collect();
        (self.md5.finalize().into(), Checksums { values, composite: false })
    }
}

/// `Content-MD5`, as 16 bytes.
pub(super) fn parse_content_md5(value: &str) -> S3Result<[u8; 16]> {
    let bytes = BASE64.decode(value).ok().and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    bytes.ok_or_else(|| s3_error!(InvalidDigest, "The Content-MD5 you specified is not valid."))
}

/// Copies checksum values into an output of `s3s` that has the five fields.
macro_rules! set_checksums {
    ($output:expr, $checksums:expr) => {{
        use crate::devstore::checksum::Algorithm;
        let checksums = $checksums;
        $output.checksum_crc32 = checksums.get(Algorithm::Crc32).cloned();
        $output.checksum_crc32c = checksums.get(Algorithm::Crc32c).cloned();
        $output.checksum_crc64nvme = checksums.get(Algorithm::Crc64Nvme).cloned();
        $output.checksum_sha1 = checksums.get(Algorithm::Sha1).cloned();
        $output.checksum_sha256 = checksums.get(Algorithm::Sha256).cloned();
    }};
}
pub(super) use set_checksums;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let mut hasher = Hasher::new(Algorithm::ALL);
        hasher.update(b"1234");
        hasher.update(b"56789");
        let (md5, sums) = hasher.finish();
        assert_eq!(hex::encode(md5), "25f9e794323b453885f5181f1b624d0b");
        // The check values of the CRC catalogue for "123456789".
        let value = |a| BASE64.decode(sums.get(a).unwrap()).unwrap();
        assert_eq!(value(Algorithm::Crc32), 0xCBF4_3926_u32.to_be_bytes());
        assert_eq!(value(Algorithm::Crc32c), 0xE306_9283_u32.to_be_bytes());
        assert_eq!(value(Algorithm::Crc64Nvme), 0xAE8B_1486_0A79_9888_u64.to_be_bytes());
        assert_eq!(sums.type_name(), Some("FULL_OBJECT"));
    }

    #[test]
    fn a_wrong_claim_is_refused() {
        let (_, sums) = Hasher::new([Algorithm::Crc32]).finish();
        assert!(sums.verify(&sums).is_ok());
        assert!(sums.verify(&Checksums::default()).is_ok());
        let mut claim = sums.clone();
        claim.values.insert(Algorithm::Crc32, "AAAAAQ==".to_owned());
        assert!(sums.verify(&claim).is_err());
    }
}

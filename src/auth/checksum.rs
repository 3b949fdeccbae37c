//! The checksums that S3 knows, computed while a body passes.
//!
//! CRC and SHA come from aws-smithy-checksums where it has them. The xxHash family has no
//! verifier here: such a *header* is forwarded and the store checks it; such a *trailer* is
//! refused, because the trailer does not reach the store.

use aws_smithy_checksums::http::HttpChecksum;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::{HeaderName, HeaderValue};
use md5::Md5;
use sha2::{Digest, Sha512};
use subtle::ConstantTimeEq;

/// A checksum that can be verified here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumAlgorithm {
    /// CRC-32 (ISO-HDLC).
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// MD5, as `x-amz-checksum-md5`.
    Md5,
}

impl ChecksumAlgorithm {
    const ALL: [Self; 7] = [
        Self::Crc32,
        Self::Crc32c,
        Self::Crc64Nvme,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Md5,
    ];

    /// The algorithm whose value travels in the header or trailer `name`.
    #[must_use]
    pub fn of_header(name: &HeaderName) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.header() == *name)
    }

    /// The header or trailer that carries the value, in base64.
    #[must_use]
    pub fn header(self) -> HeaderName {
        HeaderName::from_static(match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
            Self::Sha512 => "x-amz-checksum-sha512",
            Self::Md5 => "x-amz-checksum-md5",
        })
    }

    /// The length of a value, in bytes before base64.
    fn len(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// The length of a value as text.
    #[must_use]
    pub fn text_len(self) -> usize {
        self.len().div_ceil(3) * 4
    }

    /// Decodes a value: base64 of the right length.
    pub(super) fn decode(self, value: &[u8]) -> Option<Vec<u8>> {
        BASE64.decode(value).ok().filter(|decoded| decoded.len() == self.len())
    }

    /// The value as its header states it.
    pub(super) fn encode(value: &[u8]) -> HeaderValue {
        HeaderValue::from_str(&BASE64.encode(value)).expect("base64 is visible ASCII")
    }

    /// Begins to compute.
    pub(super) fn start(self) -> Running {
        use aws_smithy_checksums::ChecksumAlgorithm as Smithy;
        match self {
            Self::Crc32 => Running::Smithy(Smithy::Crc32.into_impl()),
            Self::Crc32c => Running::Smithy(Smithy::Crc32c.into_impl()),
            Self::Crc64Nvme => Running::Smithy(Smithy::Crc64Nvme.into_impl()),
            Self::Sha1 => Running::Smithy(Smithy::Sha1.into_impl()),
            Self::Sha256 => Running::Smithy(Smithy::Sha256.into_impl()),
            Self::Sha512 => Running::Sha512(Box::default()),
            Self::Md5 => Running::Md5(Box::default()),
        }
    }
}

/// A checksum half way.
pub(super) enum Running {
    /// One of aws-smithy-checksums.
    Smithy(Box<dyn HttpChecksum>),
    /// SHA-512.
    Sha512(Box<Sha512>),
    /// MD5.
    Md5(Box<Md5>),
}

impl Running {
    /// Takes more of the body.
    pub(super) fn update(&mut self, data: &[u8]) {
        match self {
            Self::Smithy(checksum) => checksum.update(data),
            Self::Sha512(hash) => hash.update(data),
            Self::Md5(hash) => hash.update(data),
        }
    }

    /// Whether the checksum of all that was taken is `expected`.
    pub(super) fn matches(self, expected: &[u8]) -> bool {
        match self {
            Self::Smithy(checksum) => checksum.finalize().ct_eq(expected).into(),
            Self::Sha512(hash) => hash.finalize().as_slice().ct_eq(expected).into(),
            Self::Md5(hash) => hash.finalize().as_slice().ct_eq(expected).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published check values of `123456789`, and RFC 1321, FIPS 180 for `abc`.
    #[test]
    fn known_values() {
        let cases = [
            (ChecksumAlgorithm::Crc32, "123456789", "cbf43926"),
            (ChecksumAlgorithm::Crc32c, "123456789", "e3069283"),
            (ChecksumAlgorithm::Crc64Nvme, "123456789", "ae8b14860a799888"),
            (ChecksumAlgorithm::Md5, "abc", "900150983cd24fb0d6963f7d28e17f72"),
            (ChecksumAlgorithm::Sha1, "abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                ChecksumAlgorithm::Sha256,
                "abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
            (
                ChecksumAlgorithm::Sha512,
                "abc",
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                 2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
        ];
        for (algorithm, text, expected) in cases {
            let expected = hex::decode(expected).unwrap();
            assert_eq!(expected.len(), algorithm.len());
            for split in 0..text.len() {
                let mut running = algorithm.start();
                running.update(&text.as_bytes()[..split]);
                running.update(&text.as_bytes()[split..]);
                assert!(running.matches(&expected), "{algorithm:?}");
            }
            assert!(!algorithm.start().matches(&expected));
            assert_eq!(ChecksumAlgorithm::of_header(&algorithm.header()), Some(algorithm));
        }
    }

    #[test]
    fn the_length_of_a_value_is_known_beforehand() {
        for algorithm in ChecksumAlgorithm::ALL {
            let value = ChecksumAlgorithm::encode(&vec![0; algorithm.len()]);
            assert_eq!(value.len(), algorithm.text_len(), "{algorithm:?}");
        }
    }

    #[test]
    fn values_are_base64_of_the_right_length() {
        let crc32 = ChecksumAlgorithm::Crc32;
        assert_eq!(crc32.decode(b"AAAAAA=="), Some(vec![0; 4]));
        for bad in ["", "AAAA", "AAAAAA", "AAAAAA==-3", "AAAAAAA=", " AAAAAA==", "AAAAAB=="] {
            assert_eq!(crc32.decode(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(
            ChecksumAlgorithm::of_header(&HeaderName::from_static("x-amz-checksum-xxhash3")),
            None
        );
    }
}

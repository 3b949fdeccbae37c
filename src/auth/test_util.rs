//! What the tests of this module share: the credentials of the AWS documentation, requests signed
//! by aws-sigv4, and a small deterministic generator.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation,
    SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use http::Request;
use http::request::Parts;

use super::{AccessKeyId, KeyRing, SecretKey};

pub(super) const AKID: &str = "AKIAIOSFODNN7EXAMPLE";
pub(super) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// 2013-05-24T00:00:00Z, the day of every example in the S3 documentation.
pub(super) fn example_day() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600)
}

pub(super) fn ring() -> KeyRing {
    KeyRing::single(AccessKeyId::new(AKID).unwrap(), SecretKey::new(SECRET).unwrap())
}

/// The head of a request from its method, target and `name: value` lines.
pub(super) fn head(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// Where and how aws-sigv4 signs a request in these tests.
pub(super) struct Reference<'a> {
    pub(super) token: Option<&'a str>,
    pub(super) expires: Option<Duration>,
    pub(super) body: SignableBody<'static>,
}

impl Reference<'_> {
    /// Signs with aws-sigv4 in S3's settings. Gives the request with the signature, and the
    /// signature. `target` is what is signed.
    pub(super) fn sign(
        &self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
    ) -> (Parts, String) {
        let credentials = Credentials::new(AKID, SECRET, self.token.map(str::to_owned), None, "t");
        let identity = credentials.into();
        let mut settings = SigningSettings::default();
        settings.percent_encoding_mode = PercentEncodingMode::Single;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        if self.expires.is_some() {
            settings.signature_location = SignatureLocation::QueryParams;
            settings.expires_in = self.expires;
        } else {
            settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        }
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region("us-east-1")
            .name("s3")
            .time(example_day())
            .settings(settings)
            .build()
            .unwrap()
            .into();
        let url = format!("http://host.example:9000{target}");
        let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let signable = SignableRequest::new(method, url, pairs, self.body.clone()).unwrap();
        let (instructions, signature) = sign(signable, &params).unwrap().into_parts();
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut request = request.header("host", "host.example:9000").body(()).unwrap();
        instructions.apply_to_request_http1x(&mut request);
        (request.into_parts().0, signature)
    }
}

/// A generator of numbers and texts, the same in every run (SplitMix64).
pub(super) struct Generator(pub(super) u64);

impl Generator {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub(super) fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    /// Up to `pieces_max` of `from`, joined.
    pub(super) fn text(&mut self, from: &[&str], pieces_max: usize) -> String {
        (0..self.below(pieces_max + 1)).map(|_| self.pick(from)).collect()
    }
}

/// Pieces of object keys and of parameters that are worth a test.
pub(super) const PIECES: [&str; 20] = [
    "a",
    "B",
    "9",
    "-",
    ".",
    "_",
    "~",
    "/",
    "//",
    "..",
    " ",
    "+",
    "%",
    "%2F",
    "=",
    "&",
    "é",
    "日本",
    "?#",
    "!*'();:@,$[]",
];

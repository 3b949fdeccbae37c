//! Authentication: verifying what clients signed, and signing what goes to the store.
//!
//! Three parts, each pure (the time is passed in, nothing here reads a clock, a file or the
//! environment):
//!
//! 1. [`verify`] checks the head of a request: SigV4 in the header or in the query (presigned).
//!    It yields a [`Verified`]: who signed, which headers the signature covers, and what the body
//!    has to be.
//! 2. [`VerifiedBody`] decodes the body (aws-chunked or plain) and checks every promise made about
//!    it: payload hash, chunk signatures, checksums, length. It holds the last bytes back until all
//!    of them hold, so a wrong upload is never complete on the store.
//! 3. [`Signer`] signs the request again, with the store's credentials, after
//!    [`strip_client_auth`] has removed every trace of the client's: with Signature Version 4, or
//!    in Google's words (GOOG4-HMAC-SHA256). [`bear_token`] puts an OAuth token in its place.
//!
//! Raw bytes are what is verified and what is forwarded; [`canonical`] says where that meets its
//! limits. This module does *not* decide what an identity may do, does not know operations or
//! tokens, and does not write answers: [`AuthError`] and [`BodyError`] name their S3 code and
//! status, and the pipeline turns them into XML.
//!
//! A browser's form is signed in another way: [`verify_post`] checks the signature of its policy, and
//! its fields against the policy.
//!
//! Not supported, and refused with a message that says so: Signature Version 2, and SigV4A
//! (multi-Region access points).

mod amz_date;
mod body;
mod body_checks;
mod body_error;
pub mod canonical;
mod checksum;
mod chunked;
mod error;
mod keyring;
mod payload;
mod post_policy;
mod presented;
mod sign;
mod strip;
mod verify;

#[cfg(test)]
mod test_util;

pub use body::{BodyOutcome, BufferedBody, VerifiedBody};
pub use body_checks::{BodyChecks, ChecksumHeaders};
pub use body_error::BodyError;
pub use checksum::ChecksumAlgorithm;
pub use error::AuthError;
pub use keyring::{AccessKeyId, CredentialsError, KeyRing, SecretKey};
pub use payload::{ChunkSeed, ChunkSignatures, Payload, remove_chunked_framing};
pub use post_policy::{PostPolicyError, VerifiedPost, verify_post};
pub use sign::{PayloadHash, SignError, SignatureForm, Signer, bear_token};
pub use strip::strip_client_auth;
pub use verify::{Form, SessionToken, SignedHeaders, Verified, verify};

//! `[auth]`: who may speak to the proxy.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::values::optional;

/// Settings of client authentication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// Whether clients have to sign.
    pub mode: AuthMode,
    /// The key pairs that clients may sign with. Not set: the backend's own pair.
    #[serde(with = "optional")]
    pub credentials_file: Option<PathBuf>,
    /// Permits `mode = "none"` on an address that other machines can reach.
    pub allow_none_beyond_loopback: bool,
    /// Whether the header `X-Fence-Token` must be among the signed headers.
    pub token_signature: TokenSignature,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            mode: AuthMode::Sigv4,
            credentials_file: None,
            allow_none_beyond_loopback: false,
            token_signature: TokenSignature::Signed,
        }
    }
}

/// Whether clients have to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuthMode {
    /// AWS Signature Version 4, in the header or in the query.
    Sigv4,
    /// Whoever can connect may do whatever the proxy may. For a sidecar on loopback.
    None,
}

/// What is asked of the header `X-Fence-Token`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenSignature {
    /// It must be signed: a middlebox or the holder of a presigned URL cannot change it.
    Signed,
    /// It may be unsigned, for clients that add headers after signing (rclone, mc).
    Any,
}

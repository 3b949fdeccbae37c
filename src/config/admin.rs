//! `[admin]`: who may look at scopes and reset them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::values::optional;

/// Settings of the admin API, which is beside `/metrics` on the admin listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdminConfig {
    /// The names and tokens of those who may use the API. Not set: the API is off.
    #[serde(with = "optional")]
    pub token_file: Option<PathBuf>,
    /// Permits the API on an address that other machines can reach, where its tokens travel
    /// unencrypted.
    pub allow_beyond_loopback: bool,
}

//! `[tls]`: the proxy's certificate, and what is asked of clients.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::values::{Seconds, optional};

/// Settings of TLS on the data listener. Without a certificate it speaks plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// A PEM file with the certificate, followed by those that lead to its authority's.
    #[serde(with = "optional")]
    pub certificate_file: Option<PathBuf>,
    /// A PEM file with the certificate's private key.
    #[serde(with = "optional")]
    pub key_file: Option<PathBuf>,
    /// A PEM file of certificate authorities. When it is given, clients have to show a certificate
    /// by one of them.
    #[serde(with = "optional")]
    pub client_ca_file: Option<PathBuf>,
    /// The longest time for a TLS handshake.
    pub handshake_timeout_seconds: Seconds<1, 600>,
    /// How often the files are looked at.
    pub reload_seconds: Seconds<1, 86_400>,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            certificate_file: None,
            key_file: None,
            client_ca_file: None,
            handshake_timeout_seconds: Seconds::new(10),
            reload_seconds: Seconds::new(10),
        }
    }
}

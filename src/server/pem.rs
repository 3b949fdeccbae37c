//! PEM files: certificates and private keys.

use rustls::pki_types::pem::{Error, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// All certificates in `pem`, one at least, or what is wrong with it.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("it is not a PEM file: {error}"))?;
    if found.is_empty() {
        return Err("there is no certificate in it".to_owned());
    }
    Ok(found)
}

/// The first private key in `pem`, or what is wrong with it.
pub(super) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        if matches!(error, Error::NoItemsFound) {
            "there is no private key in it (PKCS#8, PKCS#1 or SEC1, not encrypted)".to_owned()
        } else {
            // What cannot be read might be a part of the key, and is not repeated.
            "it is not a PEM file".to_owned()
        }
    })
}

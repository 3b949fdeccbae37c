//! The store's credentials, kept until shortly before they expire.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};

use crate::clock;

/// How long before their expiry credentials are replaced.
const RENEWAL_MARGIN: Duration = Duration::from_secs(300);

/// Asks the provider once, and again when its answer is about to expire.
#[derive(Debug)]
pub(super) struct CachedCredentials {
    provider: SharedCredentialsProvider,
    current: RwLock<Option<Credentials>>,
}

impl CachedCredentials {
    pub(super) fn new(provider: SharedCredentialsProvider) -> Self {
        Self { provider, current: RwLock::new(None) }
    }

    pub(super) async fn get(&self) -> Result<Credentials, CredentialsError> {
        let fresh = |credentials: &Credentials| {
            credentials.expiry().is_none_or(|expiry| clock::now() + RENEWAL_MARGIN < expiry)
        };
        let kept = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(credentials) = kept.filter(fresh) {
            return Ok(credentials);
        }
        let credentials = self.provider.provide_credentials().await?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(credentials.clone());
        Ok(credentials)
    }
}

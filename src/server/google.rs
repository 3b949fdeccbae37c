//! OAuth access tokens for Google Cloud Storage: of a service account, by its key file, or of the
//! machine, by the metadata server.
//!
//! The exchange is `gcp_auth`'s. Here a token is kept until shortly before its end, and asking for
//! one takes a limited time.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gcp_auth::{CustomServiceAccount, MetadataServiceAccount, TokenProvider};
use tokio::sync::Mutex;

use crate::clock;
use crate::upstream::{AccessToken, TokenSource, error_chain};

/// The least that reading, writing and deleting objects takes.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

/// For how long Google's tokens are good, in seconds; one that is good for longer is not used, as
/// the bounds of F9 count on it.
pub(super) const TOKEN_SECONDS_MAX: u32 = 3600;

/// How long before its end a token is replaced. The metadata server hands out the same one until
/// five minutes before its end.
const RENEWAL_MARGIN: Duration = Duration::from_secs(60);

/// The longest time that asking for a token may take.
const ASKING_MAX: Duration = Duration::from_secs(20);

/// Keeps one token.
#[derive(Debug)]
pub(super) struct GoogleTokens {
    provider: Provider,
    current: Mutex<Option<AccessToken>>,
}

struct Provider(Arc<dyn TokenProvider>);

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Provider")
    }
}

impl GoogleTokens {
    /// Tokens of the service account whose key is in `file`, or without one of the machine's, and
    /// the first of them.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) async fn begin(file: Option<&Path>) -> Result<Self, String> {
        let provider: Arc<dyn TokenProvider> = match file {
            Some(file) => Arc::new(
                CustomServiceAccount::from_file(file)
                    .map_err(|error| format!("{}: {}", file.display(), error_chain(&error)))?,
            ),
            None => {
                let machine = tokio::time::timeout(ASKING_MAX, MetadataServiceAccount::new());
                let machine = machine.await.map_err(|_| "the metadata server is silent")?;
                Arc::new(machine.map_err(|error| {
                    format!("the metadata server has none: {}", error_chain(&error))
                })?)
            }
        };
        let tokens = Self { provider: Provider(provider), current: Mutex::new(None) };
        tokens.token().await.map(|_| tokens)
    }
}

#[async_trait::async_trait]
impl TokenSource for GoogleTokens {
    async fn token(&self) -> Result<AccessToken, String> {
        // One asks, the others wait for its answer.
        let mut current = self.current.lock().await;
        if let Some(token) = current.as_ref()
            && clock::now() + RENEWAL_MARGIN < token.expires
        {
            return Ok(token.clone());
        }
        let scopes = [SCOPE];
        let asked = tokio::time::timeout(ASKING_MAX, self.provider.0.token(&scopes)).await;
        let token = asked
            .map_err(|_| format!("no answer within {} s", ASKING_MAX.as_secs()))?
            .map_err(|error| error_chain(&error))?;
        let token = AccessToken {
            secret: token.as_str().to_owned(),
            expires: SystemTime::from(token.expires_at()),
        };
        *current = Some(token.clone());
        Ok(token)
    }
}

//! The edge: what leaves for the store is put into its words and signed; what comes back is put
//! into S3's.
//!
//! There is one, for the proxy's own client and for the SDK's that the ledger uses. In front of an
//! S3 store it signs, and that is all. In front of Google Cloud Storage with an HMAC key it leaves
//! what a client reads as it came (Google answers S3 requests as S3 does), and translates what the
//! proxy sends of its own: fenced writes, because only Google's words carry a precondition, and the
//! looks at objects, because only Google's answers are sure to name the generation. With an OAuth
//! token everything is in Google's words, because `x-amz-*` is understood beside AWS's signature
//! alone.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::provider::SharedCredentialsProvider;
use http::HeaderMap;
use http::request::Parts;

use super::credentials::CachedCredentials;
use super::dialect::Dialect;
use super::{SendError, google};
use crate::auth::{PayloadHash, SignatureForm, Signer, bear_token};

/// An OAuth access token.
#[derive(Clone)]
pub struct AccessToken {
    /// What is sent.
    pub secret: String,
    /// When it is refused from.
    pub expires: SystemTime,
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessToken").field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// Where OAuth access tokens come from. It keeps them: it is asked before every request.
#[async_trait::async_trait]
pub trait TokenSource: std::fmt::Debug + Send + Sync {
    /// A token that is good now.
    ///
    /// # Errors
    ///
    /// Why there is none.
    async fn token(&self) -> Result<AccessToken, String>;
}

/// What the proxy shows to the store.
#[derive(Debug)]
pub enum Identity {
    /// A key pair, which signs every request: AWS's, or an HMAC key of Google's.
    Keys(SharedCredentialsProvider),
    /// OAuth tokens. A request with one does not expire by itself (F9): it is good for as long as
    /// its token is.
    Tokens {
        /// Where they come from.
        source: Arc<dyn TokenSource>,
        /// How long after the time of signing the token of a request may be good, in seconds; what
        /// is signed in the query form otherwise, and what is signed in the header.
        bodiless_seconds: u32,
        /// The same for other requests.
        seconds: u64,
    },
}

/// On whose behalf a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// A client: what it sends passes as it came, where that is safe.
    Client,
    /// The proxy, which has to know the tags.
    Proxy,
}

/// The mark on a request whose answer comes in Google's words.
#[derive(Clone, Copy, Debug)]
struct Translated;

#[derive(Debug)]
enum Seal {
    Keys(CachedCredentials),
    Tokens { source: Arc<dyn TokenSource>, bodiless_seconds: u32, seconds: u64 },
}

/// What is said to the store, and what its answers say here: the one edge of the proxy.
#[derive(Debug)]
pub struct Edge {
    dialect: Dialect,
    region: String,
    seal: Seal,
}

impl Edge {
    /// An edge to a store that speaks `dialect`; `region` is what Signature Version 4 names.
    #[must_use]
    pub fn new(dialect: Dialect, region: impl Into<String>, identity: Identity) -> Self {
        let seal = match identity {
            Identity::Keys(provider) => Seal::Keys(CachedCredentials::new(provider)),
            Identity::Tokens { source, bodiless_seconds, seconds } => {
                Seal::Tokens { source, bodiless_seconds, seconds }
            }
        };
        Self { dialect, region: region.into(), seal }
    }

    /// What the store speaks.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The first header of a client's that a request of the kind cannot be sent with.
    pub(crate) fn unspeakable<'a>(
        &self,
        headers: &'a HeaderMap,
        speaker: Speaker,
    ) -> Option<&'a str> {
        let translates = match (self.dialect, &self.seal, speaker) {
            (Dialect::S3, _, _) | (Dialect::Gcs, Seal::Keys(_), Speaker::Client) => false,
            (Dialect::Gcs, Seal::Keys(_), Speaker::Proxy)
            | (Dialect::Gcs, Seal::Tokens { .. }, _) => true,
        };
        translates.then(|| google::unspeakable(headers)).flatten()
    }

    /// Makes a request in S3's form one that the store takes from the proxy, as of `at`.
    ///
    /// # Errors
    ///
    /// [`SendError::Unsent`].
    pub(crate) async fn seal(
        &self,
        parts: &mut Parts,
        speaker: Speaker,
        payload: PayloadHash,
        at: SystemTime,
        form: SignatureForm,
    ) -> Result<(), SendError> {
        match &self.seal {
            Seal::Keys(credentials) => {
                let credentials = credentials.get().await.map_err(|error| {
                    SendError::Unsent(format!("there are no credentials for the store: {error}"))
                })?;
                let translates = self.dialect == Dialect::Gcs
                    && (speaker == Speaker::Proxy || google::is_conditional_write(parts));
                let signer = if translates {
                    translate(parts)?;
                    Signer::google(credentials)
                } else {
                    Signer::new(credentials, &self.region)
                };
                Ok(signer.sign(parts, payload, at, form)?)
            }
            Seal::Tokens { source, bodiless_seconds, seconds } => {
                let token = source.token().await.map_err(|error| {
                    SendError::Unsent(format!("there is no access token for the store: {error}"))
                })?;
                let bound = match form {
                    SignatureForm::Header => *seconds,
                    SignatureForm::Query { .. } => (*bodiless_seconds).into(),
                };
                if token.expires > at + Duration::from_secs(bound) {
                    return Err(SendError::Unsent(format!(
                        "the access token is good for longer than {bound} s after the operation \
                         began"
                    )));
                }
                translate(parts)?;
                Ok(bear_token(parts, &token.secret)?)
            }
        }
    }
}

fn translate(parts: &mut Parts) -> Result<(), SendError> {
    google::outbound(parts).map_err(|error| SendError::Unsent(error.to_string()))?;
    parts.extensions.insert(Translated);
    Ok(())
}

/// How the answer to a request is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading(Option<Translated>);

impl Reading {
    /// That of the answer to a request with these extensions.
    pub(crate) fn of(extensions: &http::Extensions) -> Self {
        Self(extensions.get().copied())
    }

    /// Puts the headers of the answer into S3's words.
    pub(crate) fn read(self, headers: &mut HeaderMap) {
        if let Some(Translated) = self.0 {
            google::inbound(headers);
        }
    }
}

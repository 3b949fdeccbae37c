//! The admin port: scopes, listed, inspected and reset.

use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::error::ClientError;
use super::retry::{Repeat, repeated};
use super::{Location, Server};
use crate::admin::parse_tokens;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The secret by which the admin port knows who asks. Prints as nothing.
#[derive(Clone)]
pub struct AdminToken(String);

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken")
    }
}

/// Why a file has no token for this client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminTokenError {
    /// It is not a file of tokens.
    #[error("{0}")]
    File(String),
    /// It has several.
    #[error("there are tokens of {names} in it; say whose to use with --admin-name")]
    Several {
        /// Whose.
        names: String,
    },
    /// It has none of that name.
    #[error("there is no token of {name} in it")]
    Nobody {
        /// The name.
        name: String,
    },
}

impl AdminToken {
    /// The token of `name` in the text of a token file, as the proxy has it. Without a name, the
    /// only one.
    ///
    /// # Errors
    ///
    /// [`AdminTokenError`]. No error shows a token.
    pub fn find(text: &str, name: Option<&str>) -> Result<Self, AdminTokenError> {
        let tokens =
            parse_tokens(text).map_err(|error| AdminTokenError::File(error.to_string()))?;
        let mut found = tokens.iter().filter(|(whose, _)| name.is_none_or(|name| whose == name));
        match (found.next(), found.next(), name) {
            (Some((_, token)), None, _) => Ok(Self(token.clone())),
            (None, _, name) => {
                Err(AdminTokenError::Nobody { name: name.unwrap_or_default().to_owned() })
            }
            (Some(_), Some(_), _) => {
                let names: Vec<&str> = tokens.iter().map(|(name, _)| name.as_str()).collect();
                Err(AdminTokenError::Several { names: names.join(", ") })
            }
        }
    }
}

/// A client of the admin port. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AdminClient {
    server: Server,
    token: AdminToken,
}

impl AdminClient {
    /// A client that shows this token.
    #[must_use]
    pub fn new(server: Server, token: AdminToken) -> Self {
        Self { server, token }
    }

    /// One page of scopes, those of `bucket` or all, behind `after`.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn scopes(
        &self,
        bucket: Option<&str>,
        after: Option<&str>,
        max: Option<u32>,
        until: Instant,
    ) -> Result<Value, ClientError> {
        let max = max.map(|max| max.to_string());
        let parameters = [("bucket", bucket), ("after", after), ("max", max.as_deref())];
        let query: Vec<String> = parameters
            .into_iter()
            .filter_map(|(name, value)| {
                Some(format!("{name}={}", utf8_percent_encode(value?, NON_ALPHANUMERIC)))
            })
            .collect();
        let path = match query.is_empty() {
            true => "/scopes".to_owned(),
            false => format!("/scopes?{}", query.join("&")),
        };
        self.repeated(Repeat::Always, until, &Method::GET, &path, &Bytes::new()).await
    }

    /// Everything that is known of a scope.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn inspect(&self, location: &Location, until: Instant) -> Result<Value, ClientError> {
        let path = format!("/scopes{}", location.to_request_path());
        self.repeated(Repeat::Always, until, &Method::GET, &path, &Bytes::new()).await
    }

    /// Sets the highest token of a scope. Sent once more only when it was not carried out: each
    /// reset is one on record.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`Code::ResetRefused`](super::Code) when it goes down and is not forced.
    pub async fn reset(
        &self,
        location: &Location,
        to: u64,
        reason: &str,
        force: bool,
        until: Instant,
    ) -> Result<Value, ClientError> {
        let path = format!("/scopes{}", location.to_request_path());
        let body = json!({
            "action": "reset",
            "to": to.to_string(),
            "reason": reason,
            "force": force,
        });
        let body = Bytes::from(body.to_string());
        self.repeated(Repeat::Unchanged, until, &Method::POST, &path, &body).await
    }

    async fn repeated(
        &self,
        repeat: Repeat,
        until: Instant,
        method: &Method,
        path: &str,
        body: &Bytes,
    ) -> Result<Value, ClientError> {
        let bearer = format!("Bearer {}", self.token.0);
        let mut bearer = HeaderValue::from_str(&bearer)
            .map_err(|_| ClientError::Unsigned("the token cannot stand in a header".to_owned()))?;
        bearer.set_sensitive(true);
        repeated(repeat, until, async || {
            let mut request = Request::new(body.clone());
            *request.method_mut() = method.clone();
            *request.uri_mut() = self.server.uri(path)?;
            request.headers_mut().insert(header::AUTHORIZATION, bearer.clone());
            if !body.is_empty() {
                let json = HeaderValue::from_static("application/json");
                request.headers_mut().insert(header::CONTENT_TYPE, json);
            }
            self.server.send(request, ANSWER_MAX).await
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# who may reset\nanna:0123456789abcdef\nbob:fedcba9876543210\n";

    #[test]
    fn a_client_says_whose_token_it_shows_where_there_are_several() {
        let find = |name| AdminToken::find(FILE, name).map(|token| token.0);
        assert_eq!(find(Some("bob")).unwrap(), "fedcba9876543210");
        let names = "anna, bob".to_owned();
        assert_eq!(find(None), Err(AdminTokenError::Several { names }));
        assert_eq!(find(Some("eve")), Err(AdminTokenError::Nobody { name: "eve".to_owned() }));
        let one = AdminToken::find("anna:0123456789abcdef", None).unwrap();
        assert_eq!(format!("{} {one:?}", one.0), "0123456789abcdef AdminToken");
    }

    #[test]
    fn no_error_shows_a_token() {
        let error = AdminToken::find("0123456789abcdef\n", None).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("0123"), "{error}");
    }
}

//! Why a request to the proxy came to nothing.

use std::path::PathBuf;

use http::StatusCode;
use serde_json::Value;

use super::retry::Repeat;

/// Why there is no answer, or not the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The client cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// The file of certificate authorities.
    #[error("the authorities in {path} cannot be used: {reason}", path = .path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The request cannot be written, or not be signed.
    #[error("the request cannot be signed: {0}")]
    Unsigned(String),
    /// No connection. Nothing was sent.
    #[error("{url} cannot be reached: {reason}")]
    Unreachable {
        /// Where to.
        url: String,
        /// Why.
        reason: String,
    },
    /// The request was sent, and its answer did not come. It may have been carried out.
    #[error("{url} gave no answer: {reason}")]
    Lost {
        /// Where to.
        url: String,
        /// Why.
        reason: String,
    },
    /// The answer is not one of this API.
    #[error("{url} does not answer as a Fencepost does: status {status}{detail}")]
    NotTheApi {
        /// Where to.
        url: String,
        /// Its status.
        status: StatusCode,
        /// The code of an S3 error, if it is one.
        detail: String,
    },
    /// The proxy has refused.
    #[error(transparent)]
    Refused(Box<Refused>),
}

/// A refusal by the proxy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct Refused {
    /// The status.
    pub status: StatusCode,
    /// What it means.
    pub code: Code,
    /// The code, as it was written.
    pub name: String,
    /// Why, in words.
    pub message: String,
    /// The whole answer.
    pub document: Value,
}

/// What the code of a refusal means to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The token is older than one that was admitted: the lock is lost.
    Stale,
    /// The lease has another holder.
    LeaseHeld,
    /// The lease is no longer that of this id.
    LeaseLost,
    /// Writes with older tokens are on their way.
    Barrier,
    /// There is no such scope.
    NotAScope,
    /// Not now; nothing was changed.
    TryAgain,
    /// Nobody knows whether it was carried out.
    OutcomeUnknown,
    /// A reset that goes down, and is not forced.
    ResetRefused,
    /// The credentials are missing, wrong or not enough.
    Denied,
    /// Anything else.
    Other,
}

impl Code {
    fn of(status: StatusCode, name: &str) -> Self {
        match name {
            "StaleFenceToken" => Self::Stale,
            "FenceLeaseHeld" => Self::LeaseHeld,
            "FenceLeaseLost" => Self::LeaseLost,
            "FenceBarrier" => Self::Barrier,
            "FenceNotAScope" => Self::NotAScope,
            "FenceContended" | "FenceUnavailable" | "SlowDown" | "ServiceUnavailable" => {
                Self::TryAgain
            }
            "FenceOutcomeUnknown" => Self::OutcomeUnknown,
            "FenceResetRefused" => Self::ResetRefused,
            _ if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN => {
                Self::Denied
            }
            // What the proxy does not know the outcome of has this status, whatever its name.
            _ if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                Self::OutcomeUnknown
            }
            _ => Self::Other,
        }
    }
}

impl Refused {
    /// Reads an answer of the API; `None` when it has no code.
    pub(super) fn read(status: StatusCode, document: Value) -> Option<Self> {
        let name = document.get("code")?.as_str()?.to_owned();
        let message = document.get("message").and_then(Value::as_str).unwrap_or_default();
        let code = Code::of(status, &name);
        Some(Self { status, code, name, message: message.to_owned(), document })
    }

    /// A text of the answer.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.document.get(name).and_then(Value::as_str)
    }

    /// A number of the answer.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.document.get(name).and_then(Value::as_u64)
    }
}

impl ClientError {
    /// The meaning of a refusal.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(refused) => Some(refused.code),
            Self::Tls(_)
            | Self::CaFile { .. }
            | Self::Unsigned(_)
            | Self::Unreachable { .. }
            | Self::Lost { .. }
            | Self::NotTheApi { .. } => None,
        }
    }

    /// Whether the request may have been carried out all the same.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        match self {
            Self::Tls(_) | Self::CaFile { .. } | Self::Unsigned(_) | Self::Unreachable { .. } => {
                false
            }
            Self::Lost { .. } => true,
            // A load balancer in front of the proxy, which may have given up waiting for it.
            Self::NotTheApi { status, .. } => status.is_server_error(),
            Self::Refused(refused) => refused.code == Code::OutcomeUnknown,
        }
    }

    /// Whether sending the request again may help and does no harm.
    #[must_use]
    pub fn may_be_repeated(&self, repeat: Repeat) -> bool {
        if self.is_ambiguous() {
            return repeat == Repeat::Always;
        }
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refused) => match refused.code {
                Code::TryAgain | Code::Barrier | Code::LeaseHeld => true,
                Code::Stale
                | Code::LeaseLost
                | Code::NotAScope
                | Code::OutcomeUnknown
                | Code::ResetRefused
                | Code::Denied
                | Code::Other => false,
            },
            Self::Tls(_)
            | Self::CaFile { .. }
            | Self::Unsigned(_)
            | Self::Lost { .. }
            | Self::NotTheApi { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, name: &str) -> ClientError {
        let document = serde_json::json!({ "code": name, "message": "m", "holder": "h" });
        let status = StatusCode::from_u16(status).unwrap();
        ClientError::Refused(Box::new(Refused::read(status, document).unwrap()))
    }

    #[test]
    fn only_what_was_not_carried_out_is_repeated_where_that_matters() {
        let url = || "http://p".to_owned();
        let lost = ClientError::Lost { url: url(), reason: String::new() };
        let unsent = ClientError::Unreachable { url: url(), reason: String::new() };
        let gateway = ClientError::NotTheApi {
            url: url(),
            status: StatusCode::BAD_GATEWAY,
            detail: String::new(),
        };
        // The error, repeated if it does no harm twice, repeated in any case.
        let cases = [
            (unsent, true, true),
            (lost, true, false),
            (gateway, true, false),
            (refused(503, "FenceContended"), true, true),
            (refused(503, "SlowDown"), true, true),
            (refused(503, "FenceBarrier"), true, true),
            (refused(409, "FenceLeaseHeld"), true, true),
            (refused(503, "FenceOutcomeUnknown"), true, false),
            (refused(500, "InternalError"), true, false),
            (refused(409, "StaleFenceToken"), false, false),
            (refused(409, "FenceLeaseLost"), false, false),
            (refused(409, "FenceResetRefused"), false, false),
            (refused(403, "SignatureDoesNotMatch"), false, false),
            (refused(400, "InvalidArgument"), false, false),
            (refused(501, "NotImplemented"), false, false),
        ];
        for (error, safe, always) in cases {
            assert_eq!(error.may_be_repeated(Repeat::Always), safe, "{error}");
            assert_eq!(error.may_be_repeated(Repeat::Unchanged), always, "{error}");
        }
    }

    #[test]
    fn a_refusal_keeps_what_it_says() {
        let ClientError::Refused(refused) = refused(409, "FenceLeaseHeld") else { unreachable!() };
        assert_eq!(refused.to_string(), "FenceLeaseHeld: m");
        assert_eq!((refused.text("holder"), refused.number("expires_at")), (Some("h"), None));
        assert!(Refused::read(StatusCode::OK, serde_json::json!({ "Code": "x" })).is_none());
    }
}

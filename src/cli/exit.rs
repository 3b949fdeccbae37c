//! Exit codes, and what to do about a failure.
//!
//! | code | means |
//! |---|---|
//! | 0 | done |
//! | 1 | failed, or refused for another reason than those below |
//! | 2 | the command line or the configuration is wrong, and nothing was begun |
//! | 69 | the proxy, or the doctor's store, cannot be reached, or cannot do it now |
//! | 73 | not got within `--wait`: somebody else has the lease, or older writes are on their way |
//! | 75 | lost: the lease has ended, or a newer token was seen |
//! | 77 | the credentials are missing, wrong or not enough |
//!
//! From 69 on they are those of `sysexits.h` (`EX_UNAVAILABLE`, `EX_CANTCREAT`, `EX_TEMPFAIL`,
//! `EX_NOPERM`). `lease run` has the command's own besides.

use std::error::Error;

use fencepost::client::{ClientError, Code, Refused};
use fencepost::config::ConfigError;
use fencepost::doctor::ExaminationError;
use fencepost::server::examine::ExamineError;

use super::table::when;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const UNAVAILABLE: u8 = 69;
const NOT_GOT: u8 = 73;
pub(super) const LOST: u8 = 75;
const DENIED: u8 = 77;

/// The codes as a help text has them.
pub(super) const HELP: &str = "\
Exit codes:
   0  done
   1  failed, or refused for another reason than those below
   2  the command line or the configuration is wrong; nothing was begun
  69  the proxy cannot be reached, or cannot do it now
  73  not got within --wait: somebody else has the lease, or older writes are on their way
  75  lost: the lease has ended, or a newer token was seen
  77  the credentials are missing, wrong or not enough";

/// The command line or the environment is wrong, in a way that only shows when it is used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Usage(pub(super) String);

/// The code of a command that failed.
pub(super) fn code(failure: &(dyn Error + 'static)) -> u8 {
    if let Some(error) = failure.downcast_ref::<ClientError>() {
        return code_of_client(error);
    }
    if let Some(ExamineError::Examination(error)) = failure.downcast_ref() {
        return match error {
            ExaminationError::Denied(_) => DENIED,
            ExaminationError::Silent(_)
            | ExaminationError::NoSuchBucket(_)
            | ExaminationError::Unusable { .. } => UNAVAILABLE,
        };
    }
    let misused = failure.is::<ConfigError>() || failure.is::<Usage>();
    if misused { USAGE } else { FAILED }
}

fn code_of_client(error: &ClientError) -> u8 {
    match error {
        ClientError::Tls(_) | ClientError::CaFile { .. } => USAGE,
        ClientError::Unsigned(_) => FAILED,
        ClientError::Unreachable { .. } | ClientError::Lost { .. } => UNAVAILABLE,
        ClientError::NotTheApi { status, .. } if status.is_server_error() => UNAVAILABLE,
        ClientError::NotTheApi { .. } => FAILED,
        ClientError::Refused(refused) => match refused.code {
            Code::Stale | Code::LeaseLost => LOST,
            Code::LeaseHeld | Code::Barrier => NOT_GOT,
            Code::TryAgain | Code::OutcomeUnknown => UNAVAILABLE,
            Code::Denied => DENIED,
            Code::NotAScope | Code::ResetRefused | Code::Other => FAILED,
        },
    }
}

/// What to do about it, in lines of their own; empty when the message says it.
pub(super) fn advice(failure: &(dyn Error + 'static)) -> String {
    let Some(error) = failure.downcast_ref::<ClientError>() else { return String::new() };
    match error {
        ClientError::Unreachable { .. } => "Is a proxy running there? --proxy, FENCEPOST_PROXY or \
                                            AWS_ENDPOINT_URL say where it is; for the admin port \
                                            that is --admin-url or FENCEPOST_ADMIN_URL."
            .to_owned(),
        ClientError::Lost { .. } => {
            "It may have been carried out. `fencepost lease show` and `fencepost inspect` tell."
                .to_owned()
        }
        ClientError::NotTheApi { .. } => {
            "Is it a store, the other port of the proxy, or an older version?".to_owned()
        }
        ClientError::Refused(refused) => advice_on(refused),
        ClientError::Tls(_) | ClientError::CaFile { .. } | ClientError::Unsigned(_) => {
            String::new()
        }
    }
}

fn advice_on(refused: &Refused) -> String {
    match refused.code {
        Code::Stale => "The lock is lost: stop, and get a new token.".to_owned(),
        Code::LeaseLost => {
            "Stop, and acquire it anew: writes with its token may be refused by now.".to_owned()
        }
        Code::LeaseHeld => match (refused.text("holder"), refused.number("expires_at")) {
            (Some(holder), Some(until)) => {
                let now = refused.number("store_time");
                format!("{holder} has it until {}. --wait waits longer.", when(until, now))
            }
            _ => "--wait waits longer.".to_owned(),
        },
        Code::Barrier => {
            let mut text = waited_for(refused);
            text.push_str("Nothing is lost by asking again; --wait waits longer.");
            text
        }
        Code::NotAScope => {
            "`fencepost scope explain` says which scope a key is in; [[scope]] with \
                            per = \"prefix\" makes a prefix one."
                .to_owned()
        }
        Code::TryAgain => "Nothing was changed; try again.".to_owned(),
        Code::OutcomeUnknown => {
            "It may have been carried out; `fencepost inspect` tells.".to_owned()
        }
        Code::ResetRefused => "If older tokens shall be taken again, say --force: what their \
                               holders still have on its way may then be written."
            .to_owned(),
        Code::Denied => String::new(),
        Code::Other => String::new(),
    }
}

/// The writes that a claim is waiting for, a line each.
fn waited_for(refused: &Refused) -> String {
    let list = refused.document.get("waiting_for").and_then(serde_json::Value::as_array);
    let mut text = String::new();
    for intent in list.into_iter().flatten() {
        let field = |name: &str| intent.get(name).and_then(serde_json::Value::as_str);
        let key = field("key").unwrap_or("?");
        let token = field("token").unwrap_or("?");
        text.push_str(&format!("  waiting for a write of {key} with token {token}"));
        if let Some(until) = intent.get("expires_at").and_then(serde_json::Value::as_u64) {
            let now = refused.number("store_time");
            text.push_str(&format!(", until {} at the latest", when(until, now)));
        }
        text.push('\n');
    }
    text
}

//! Writes without a token (F13).

use super::permit::UnfencedPermit;
use super::{Compare, Snapshot, Token};

/// What the fence does with a write that carries no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The scope is not fenced: everything passes.
    Off,
    /// It passes while no token has been seen in the scope, and is refused from then on.
    IfFenced,
    /// It is refused.
    Require,
}

/// Why a write without a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRequired {
    /// The scope's mode says so.
    ByMode,
    /// The scope has seen this token.
    Since(Token),
}

/// Whether the ledger has to be asked before [`admit_unfenced`] can decide.
#[must_use]
pub fn needs_record(mode: Mode) -> bool {
    mode == Mode::IfFenced
}

/// Decides on a write that carries no token.
///
/// `snapshot` is what the ledger answered *now*; a remembered "there is no record" is no ground
/// for letting a write pass (F12, F13). It is looked at in mode `if-fenced` only.
///
/// # Errors
///
/// When the write has to carry a token.
pub fn admit_unfenced(
    mode: Mode,
    snapshot: Option<&Snapshot>,
) -> Result<UnfencedPermit, TokenRequired> {
    match (mode, snapshot) {
        (Mode::Off, _) => Ok(UnfencedPermit::new()),
        (Mode::Require, _) | (Mode::IfFenced, None) => Err(TokenRequired::ByMode),
        (Mode::IfFenced, Some(snapshot)) => match snapshot.highest() {
            None => Ok(UnfencedPermit::new()),
            Some(highest) => Err(TokenRequired::Since(highest)),
        },
    }
}

/// Decides on a step of a multipart upload that changes no object: nothing is registered, and a
/// remembered record is as good as a fresh one (F12). What it lets through that should not be is
/// stopped when the upload is to become an object.
///
/// # Errors
///
/// The token that shuts it out.
pub fn admit_upload_step(
    compare: Compare,
    token: Token,
    highest: Option<Token>,
) -> Result<UnfencedPermit, Token> {
    match highest {
        Some(highest) if compare.refuses(token, highest) => Err(highest),
        Some(_) | None => Ok(UnfencedPermit::new()),
    }
}

/// Lets a multipart upload be thrown away by whoever created it, however old its token is: no
/// object changes, and nobody else misses it.
pub fn admit_abort_of_own_upload() -> UnfencedPermit {
    UnfencedPermit::new()
}

/// Lets a bucket be created, or be deleted after it was seen to be empty: no object changes, and
/// the records of its scopes stay.
pub fn admit_bucket_operation() -> UnfencedPermit {
    UnfencedPermit::new()
}

#[cfg(test)]
mod tests {
    use super::super::{Record, RecordVersion};
    use super::*;

    #[test]
    fn a_step_of_an_upload_is_refused_by_a_newer_token_alone() {
        let token = |value| Token::new(value).unwrap();
        let step = |value, highest| admit_upload_step(Compare::AtLeast, token(value), highest);
        assert!(step(7, None).is_ok());
        assert!(step(7, Some(token(7))).is_ok());
        assert_eq!(step(7, Some(token(8))), Err(token(8)));
        let strict = admit_upload_step(Compare::StrictlyGreater, token(7), Some(token(7)));
        assert_eq!(strict, Err(token(7)));
    }

    #[test]
    fn a_write_without_a_token_passes_only_where_no_token_was_seen() {
        let none = Snapshot { record: None, version: RecordVersion::Absent, time: None };
        let token = Token::new(7).unwrap();
        let some = Snapshot {
            record: Some(Record::new(token, Vec::new())),
            version: RecordVersion::Tag("v".into()),
            time: None,
        };
        assert!(admit_unfenced(Mode::Off, Some(&some)).is_ok());
        assert!(admit_unfenced(Mode::IfFenced, Some(&none)).is_ok());
        assert_eq!(admit_unfenced(Mode::IfFenced, Some(&some)), Err(TokenRequired::Since(token)));
        assert_eq!(admit_unfenced(Mode::IfFenced, None), Err(TokenRequired::ByMode));
        assert_eq!(admit_unfenced(Mode::Require, Some(&none)), Err(TokenRequired::ByMode));
    }
}

//! Setting a record's token by hand: the way out when a token source has gone back.
//!
//! It is the one change that may lower a token, so it is counted in the record: what a proxy
//! remembers from before the last reset proves nothing any more.

use super::{Bearer, Leasing, Record, Reset, Resets, Snapshot, Token};

/// A reset, as a person orders it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The lowest token that is admitted from then on.
    pub to: Token,
    /// Whether the token may go down.
    pub force: bool,
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// Why there is no reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoReset {
    /// The scope has no record: every token is admitted already.
    NoRecord,
    /// It would lower this token, and was not told to.
    WouldLower(Token),
    /// Every token is newer than 1, so that the operations which are still open could not be told
    /// from those to come. They settle or expire; or another token will do.
    OperationsOpen,
    /// The store has not told its time.
    TimeUnknown,
}

/// The record after the reset, whose lock, holder and lease are nobody's.
///
/// What is still open becomes older than any token that is admitted from then on, whatever number it
/// had: those who come next avoid it and wait for it (F4, F5) as for any older holder's.
///
/// # Errors
///
/// [`NoReset`].
pub fn reset(snapshot: &Snapshot, order: &Order) -> Result<Record, NoReset> {
    let record = snapshot.record.as_ref().ok_or(NoReset::NoRecord)?;
    let at = snapshot.time.ok_or(NoReset::TimeUnknown)?;
    let (from, to) = (record.token, order.to);
    if to < from && !order.force {
        return Err(NoReset::WouldLower(from));
    }
    let below = Token::new(to.get() - 1);
    let mut intents = record.intents.clone();
    for intent in &mut intents {
        if intent.token >= to {
            intent.token = below.ok_or(NoReset::OperationsOpen)?;
        }
    }
    let last = Reset { by: order.by.clone(), reason: order.reason.clone(), from, to, at };
    Ok(Record {
        token: to,
        bearer: Bearer::default(),
        intents,
        leasing: Leasing { issued: record.leasing.issued, lease: None },
        resets: Resets { count: record.resets.count.saturating_add(1), last: Some(Box::new(last)) },
    })
}

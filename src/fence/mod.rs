//! The fence protocol, pure: rules F1–F14 of `docs/protocol.md`.
//!
//! `std` only: no async, no clock, no HTTP, and keys only as opaque names. The proxy, the model
//! checker and the simulation run this very code. [`Attempt`] is one operation's way through the
//! protocol; [`Record`] is what the ledger keeps; [`WritePermit`] is the leave to change an object,
//! which nothing but this module can give.
//!
//! It does *not* talk to anyone: the driver carries out each [`Effect`] and reports its
//! [`Outcome`].

mod admission;
mod attempt;
mod bearer;
mod effect;
pub mod lease;
mod memory;
mod permit;
mod protocol;
mod record;
pub mod reset;
mod token;
mod unfenced;

pub use admission::{Contention, Refusal};
pub use attempt::Attempt;
pub use bearer::{Bearer, Lock, LockMode, Mismatch};
pub use effect::{Effect, Outcome, Verdict};
pub use lease::{Lease, LeaseId, Leasing};
pub use memory::{Memory, Swap};
pub use permit::{Form, Precondition, StreamPermit, Terms, UnfencedPermit, WritePermit};
pub use protocol::{
    Assembly, Change, ClientCondition, ClientMatch, Compare, ConditionFailure, Contents,
    Enforcement, Forms, Keys, Operation, Protocol, Rule, Rules, Tags,
};
pub use record::{
    Action, Intent, IntentId, KeyId, Record, RecordVersion, Reset, Resets, Snapshot, StoreTime, Tag,
};
pub use token::{OperationId, Token, TokenError};
pub use unfenced::{
    Mode, TokenRequired, admit_abort_of_own_upload, admit_bucket_operation, admit_unfenced,
    admit_upload_step, needs_record,
};

#[cfg(test)]
mod tests;

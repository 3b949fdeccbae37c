//! The words between the state machine and its driver: [`Effect`]s out, [`Outcome`]s in, and the
//! [`Verdict`] at the end. An unknown outcome is a word of its own: it is neither success nor
//! refusal.

use super::{
    ConditionFailure, Contention, Forms, Intent, KeyId, Mismatch, OperationId, RecordVersion,
    Refusal, Snapshot, StreamPermit, Swap, Tag, Token, WritePermit,
};

/// What the driver has to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the store for the object's tag and the operation id stamped on it.
    Observe,
    /// Load the record from the ledger; a remembered one will not do.
    Load,
    /// Ask the store for the tags of these keys, each of them once (F5).
    Look(Vec<KeyId>),
    /// Start sending the body, all but its last bytes.
    Begin(StreamPermit),
    /// Swap the record.
    Swap(Swap),
    /// Send the request; of a begun stream, its last bytes.
    Send(WritePermit),
    /// Wait a little, then go on.
    Pause,
    /// The operation is over. A stream that was begun and not sent must be cut off.
    Finish(Verdict),
}

/// What came of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing yet: the first call.
    Start,
    /// The store showed the object.
    Observed {
        /// Its tag.
        tag: Tag,
        /// The operation id stamped on it (F10).
        stamp: Option<OperationId>,
    },
    /// The store showed the tags of the keys that were to be looked at, one by one.
    Looked(Vec<(KeyId, Tag)>),
    /// The store could not be asked.
    ObserveFailed,
    /// The ledger gave the record.
    Loaded(Snapshot),
    /// The ledger took the record, which now has this version.
    Swapped(RecordVersion),
    /// The ledger took a record into which this operation and others have entered together.
    SwappedTogether(Snapshot),
    /// The record had another version; nothing was changed.
    SwapLost,
    /// The ledger could not be asked, or its answer was lost. Of a swap: it may have landed.
    LedgerFailed,
    /// The body has arrived whole and verified, but for the bytes held back.
    Received(Forms),
    /// The client's body broke off, or was wrong.
    BodyFailed,
    /// The store applied the request and the object has this tag.
    Applied(Tag),
    /// The store refused the precondition: the request has changed nothing and never will.
    Refused,
    /// The store refused the request for another reason: it has changed nothing and never will.
    Rejected,
    /// The upload that was to become the object is not there any more: this request has changed
    /// nothing and never will, and an earlier one may have completed it.
    Consumed,
    /// The store carried out a request that leaves no tag to tell of.
    Done,
    /// It is not known what became of the request: it may have landed, and may yet land.
    Unknown,
    /// The pause is over.
    Paused,
    /// The pause is over, and the operation has waited as long as it may.
    OutOfPatience,
}

impl From<Refusal> for Verdict {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Stale { highest } => Self::Stale { highest },
            Refusal::Mismatched(mismatch) => Self::Mismatched(mismatch),
        }
    }
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It was applied, once.
    Applied {
        /// The tag that it left.
        tag: Tag,
        /// The store's own answer was lost or was a refusal; the object's stamp shows it (F10).
        recognised: bool,
    },
    /// It was carried out, once, and there is no tag to tell of.
    Done,
    /// The token has entered, and every lower one is out (F14). Nothing was changed.
    Claimed,
    /// A DELETE of an object that is not there: nothing was sent, and no lower token can bring it
    /// into being.
    AlreadyAbsent,
    /// The token is too old (F1). Nothing was changed.
    Stale {
        /// The highest token admitted.
        highest: Token,
    },
    /// The token is of another lock or holder than the record's. Nothing was changed.
    Mismatched(Mismatch),
    /// "Try again": these open operations with a lower token may still take effect (F5). Nothing
    /// was changed.
    Barred(Vec<Intent>),
    /// The client's own precondition does not hold. Nothing was changed.
    ConditionFailed(ConditionFailure),
    /// The store refused the request. Nothing was changed; its answer is the client's.
    Rejected,
    /// The client's body broke off, or was wrong. Nothing was changed.
    BodyFailed,
    /// "Try again". Nothing was changed.
    Contended(Contention),
    /// The ledger or the store cannot be asked (F11). Nothing was changed.
    Unavailable,
    /// It may have been applied, or may yet be (F7).
    OutcomeUnknown,
    /// The driver reported what cannot have happened: a bug. No success is claimed.
    Broken,
}

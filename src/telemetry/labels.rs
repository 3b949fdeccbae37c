//! The values that labels can have. All are enums; buckets, the exception, are in `buckets.rs`.

/// Why a request was refused by the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its token is lower than the scope's highest (F1).
    Stale,
    /// Its token is one of another lock than the scope's.
    LockMismatch,
    /// Its token has been used by another holder.
    HolderMismatch,
    /// It has no token and the scope wants one (F13).
    MissingToken,
    /// Its token cannot be read, or is not signed where it has to be.
    InvalidToken,
    /// It carries two different tokens.
    ConflictingTokens,
    /// It could change something in a way that cannot be fenced.
    UnsupportedOperation,
}

impl Reason {
    /// All of them; every bucket's counters exist from its first request on.
    pub const ALL: [Self; 7] = [
        Self::Stale,
        Self::LockMismatch,
        Self::HolderMismatch,
        Self::MissingToken,
        Self::InvalidToken,
        Self::ConflictingTokens,
        Self::UnsupportedOperation,
    ];

    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::LockMismatch => "lock_mismatch",
            Self::HolderMismatch => "holder_mismatch",
            Self::MissingToken => "missing_token",
            Self::InvalidToken => "invalid_token",
            Self::ConflictingTokens => "conflicting_tokens",
            Self::UnsupportedOperation => "unsupported_operation",
        }
    }
}

/// What came of the renewal of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseRenewal {
    /// It lasts longer.
    Renewed,
    /// It is lost.
    Lost,
    /// The ledger could not be asked.
    Failed,
}

impl LeaseRenewal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Renewed, Self::Lost, Self::Failed];

    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Renewed => "renewed",
            Self::Lost => "lost",
            Self::Failed => "failed",
        }
    }
}

/// What was asked of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LedgerOperation {
    /// Read a record.
    Load,
    /// Compare-and-swap a record.
    Swap,
}

impl LedgerOperation {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Load, Self::Swap];

    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Swap => "swap",
        }
    }
}

/// How the ledger answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LedgerResult {
    /// Loaded, or swapped.
    Ok,
    /// Somebody else swapped first.
    Conflict,
    /// It said no, and nothing has changed.
    Error,
    /// No answer that tells whether the swap happened.
    Unknown,
}

impl LedgerResult {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Conflict, Self::Error, Self::Unknown];

    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Conflict => "conflict",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
}

/// Which way bytes went, as seen by the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Request bodies, from clients.
    Received,
    /// Response bodies, to clients.
    Sent,
}

impl Direction {
    /// The label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Sent => "sent",
        }
    }
}

//! What the ledger keeps for one scope: the highest token admitted, and the intents still open.
//!
//! A record is data. Which record may follow which is decided in `admission`; how it is written
//! down is the ledger's business.

use super::{Bearer, Leasing, OperationId, Token};

/// The version tag of a data object, as the store shows it.
///
/// An ETag is opaque and held without the quotes, which are a matter of the wire: some stores want
/// them and some do not (Ceph 16 answers 412 to a quoted `If-Match` of the right ETag).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tag {
    /// There is no such object.
    Absent,
    /// The object's ETag (or generation), without quotes.
    Version(String),
}

/// An object key as the fence sees it: an opaque name, compared for equality alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(Vec<u8>);

impl KeyId {
    /// The key with these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A moment by the *store's* clock, in whole seconds since the Unix epoch (F9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(pub u64);

/// The name of one intent: the operation it belongs to, and which copy of that operation's request
/// it stands for. A retry adds an intent, it replaces none (F7), so the two are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentId {
    /// The client operation.
    pub operation: OperationId,
    /// 0 for the first request sent for it, 1 for the next.
    pub copy: u32,
}

/// What an intent's request needs in order to take effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The request carries a precondition that the store enforces: it takes effect only on this
    /// tag (F3).
    Conditional {
        /// The tag it expects to find.
        expects: Tag,
    },
    /// The store enforces no precondition for it: it takes effect whenever it arrives (F8).
    Exclusive,
}

/// An announced change: written down before the store is asked for it (F2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Intent {
    /// Its name.
    pub id: IntentId,
    /// The token it was admitted with.
    pub token: Token,
    /// The key it changes.
    pub key: KeyId,
    /// What its request needs.
    pub action: Action,
    /// When it entered the record, by the store's clock; for people, nothing rests on it.
    pub registered_at: Option<StoreTime>,
    /// When the store has certainly stopped accepting its request, by the store's clock (F9).
    pub expires_at: StoreTime,
}

/// The record of one scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The highest token ever admitted. It never goes down (F1), but by a person's reset.
    pub token: Token,
    /// Whose token it is, as far as its requests have said.
    pub bearer: Bearer,
    /// The intents whose outcome is not known for every copy of their request (F6).
    pub intents: Vec<Intent>,
    /// The tokens that Fencepost itself has handed out for the scope.
    pub leasing: Leasing,
    /// How often the token was set by hand, and the last time.
    pub resets: Resets,
}

impl Record {
    /// The record of a token that nobody has said more of.
    #[must_use]
    pub fn new(token: Token, intents: Vec<Intent>) -> Self {
        let (bearer, leasing, resets) = Default::default();
        Self { token, bearer, intents, leasing, resets }
    }
}

/// The resets of a record. What a proxy remembers of a record holds until the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resets {
    /// How many there were.
    pub count: u64,
    /// The last one.
    pub last: Option<Box<Reset>>,
}

/// One reset, as a person ordered it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reset {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// The token before.
    pub from: Token,
    /// The token after.
    pub to: Token,
    /// When, by the store's clock.
    pub at: StoreTime,
}

/// The ledger's name for one version of a record; compare-and-swap compares it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RecordVersion {
    /// There is no record.
    Absent,
    /// The record's own ETag, which never repeats because every version carries a fresh nonce.
    Tag(String),
}

/// A record as it was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The record, if there is one.
    pub record: Option<Record>,
    /// Its version.
    pub version: RecordVersion,
    /// The store's clock at that moment, if the store told it.
    pub time: Option<StoreTime>,
}

impl Snapshot {
    /// The highest token admitted so far.
    #[must_use]
    pub fn highest(&self) -> Option<Token> {
        self.record.as_ref().map(|record| record.token)
    }

    /// How often the record was reset.
    #[must_use]
    pub fn resets(&self) -> u64 {
        self.record.as_ref().map_or(0, |record| record.resets.count)
    }

    /// The open intents, none if there is no record.
    #[must_use]
    pub fn intents(&self) -> &[Intent] {
        self.record.as_ref().map_or(&[], |record| &record.intents)
    }
}

impl Intent {
    /// Whether its request takes effect on an object in this state.
    #[must_use]
    pub fn takes_effect_on(&self, tag: &Tag) -> bool {
        match &self.action {
            Action::Conditional { expects } => expects == tag,
            Action::Exclusive => true,
        }
    }
}

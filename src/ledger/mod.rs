//! The record store: one small object for each scope, changed only by compare-and-swap.
//!
//! [`Ledger`] is the seam; [`MemoryLedger`] and [`ObjectLedger`] stand behind it, and one suite
//! ([`conformance`]) is passed by both and by every real store. A ledger does *not* decide
//! anything: what may follow what is the fence's business.

mod binding;
mod codec;
#[doc(hidden)]
pub mod conformance;
mod memory;
mod object;

use std::fmt;

pub use crate::scope::Scope;
pub use binding::{Binding, Upload};
pub use codec::{CodecError, decode, encode};
pub use memory::MemoryLedger;
pub use object::{LedgerBucketError, ObjectLedger, ObjectLedgerConfig};

use crate::fence::{Record, RecordVersion, Snapshot};
use crate::s3::Bucket;

/// What came of a compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwapOutcome {
    /// The record is in, at this version.
    Swapped(RecordVersion),
    /// The record had another version. Nothing was changed, and this swap never will.
    Lost,
}

/// Some of the ledger's scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopePage {
    /// The scopes, with their records.
    pub scopes: Vec<(Scope, Snapshot)>,
    /// Where the page ends, if there are more.
    pub next: Option<String>,
}

/// The ledger could not be asked, or its answer was lost. A swap may have landed, and may yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ledger is unavailable: {0}")]
pub struct LedgerUnavailable(pub String);

/// Keeps the records.
///
/// Everything the protocol needs of a ledger: a load shows every swap that was acknowledged before
/// it began; of two swaps from one version at most one lands; a version never comes back.
#[async_trait::async_trait]
pub trait Ledger: fmt::Debug + Send + Sync {
    /// The scope's record as it is now.
    ///
    /// # Errors
    ///
    /// When it cannot be told, including when what is stored is not a record.
    async fn load(&self, scope: &Scope) -> Result<Snapshot, LedgerUnavailable>;

    /// Replaces the record by `next` if its version is `base`.
    ///
    /// # Errors
    ///
    /// When it is not known whether `next` is in.
    async fn swap(
        &self,
        scope: &Scope,
        base: &RecordVersion,
        next: &Record,
    ) -> Result<SwapOutcome, LedgerUnavailable>;

    /// Some of the scopes that have a record, in an order of the ledger's own; for people. A
    /// record that comes or goes meanwhile may be in it or not.
    ///
    /// `bucket`: only this one's. `after`: where the page before has ended.
    ///
    /// # Errors
    ///
    /// When they cannot be told, including when what is stored is not a record.
    async fn scopes(
        &self,
        bucket: Option<&Bucket>,
        after: Option<&str>,
        max: usize,
    ) -> Result<ScopePage, LedgerUnavailable>;

    /// Remembers what a multipart upload was created with. Its name is the store's, and new.
    ///
    /// # Errors
    ///
    /// When it is not known whether it is remembered.
    async fn bind(&self, upload: &Upload, binding: &Binding) -> Result<(), LedgerUnavailable>;

    /// What a multipart upload was created with; `None` if it was created without a token.
    ///
    /// # Errors
    ///
    /// When it cannot be told, including when what is stored is not a binding.
    async fn binding(&self, upload: &Upload) -> Result<Option<Binding>, LedgerUnavailable>;

    /// Forgets an upload that is over. If it fails, that costs space and nothing else.
    ///
    /// # Errors
    ///
    /// When it is not known whether it is forgotten.
    async fn unbind(&self, upload: &Upload) -> Result<(), LedgerUnavailable>;
}

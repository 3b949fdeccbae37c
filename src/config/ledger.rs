//! `[ledger]`: where the records of the fence are kept.

use serde::{Deserialize, Serialize};

use super::names::BucketName;
use super::values::{Count, FromText as _, Seconds};

/// Settings of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LedgerConfig {
    /// The bucket that holds the records. Clients cannot reach it through the proxy.
    pub bucket: BucketName,
    /// Create the bucket at start when it is missing.
    pub create: bool,
    /// What the keys of all records begin with. Proxies share their fences when bucket and prefix
    /// are the same.
    pub prefix: String,
    /// How many records are remembered in order to refuse stale tokens at once (F12).
    pub hint_entries_max: Count<0, 100_000_000>,
    /// The longest wait for one load or swap of a record.
    pub timeout_seconds: Seconds<1, 600>,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self {
            bucket: BucketName::from_text("fencepost-ledger")
                .expect("the default is a bucket name"),
            create: false,
            prefix: String::new(),
            hint_entries_max: Count::new(100_000),
            timeout_seconds: Seconds::new(10),
        }
    }
}

//! What the proxy says about itself: metrics and log lines.
//!
//! Neither ever holds an object key, a token's owner or a credential. Metrics are for machines
//! and bounded in number ([`metrics`]); log lines are for people ([`log`]).

mod buckets;
pub mod labels;
mod leases;
pub mod log;
pub mod metrics;

pub use self::labels::{Direction, LeaseRenewal, LedgerOperation, LedgerResult, Reason};
pub use self::log::LogFormat;
pub use self::metrics::{Metrics, Traffic};

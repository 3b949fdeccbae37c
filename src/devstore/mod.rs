//! The embedded S3 store: what `fencepost dev` and `fencepost demo` put behind the proxy, and what
//! the tests judge it by.
//!
//! The wire, XML and signatures are the `s3s` crate's; the storage is its own, because what it is
//! for is exactly what stores differ in: conditional writes that are atomic as on Amazon S3
//! ([`Profile::Aws`]), on some operations alone ([`Profile::Ceph`]), by another protocol
//! ([`Profile::Gcs`]) or not at all ([`Profile::Liar`], [`Profile::Racy`]), and everything that can
//! happen to a request on its way ([`Faults`]). With the history on, a test can look at what really
//! happened ([`Change`]).
//!
//! It keeps objects in memory, or in a directory too ([`DevStoreBuilder::data_dir`]), which
//! survives `kill -9`. Keys are kept byte for byte: `a//b`, `a/./b` and two spellings of one
//! accent are different keys, except where the store of a profile has it otherwise (`keys`).
//!
//! The life of a PUT: `serve` (faults, body time-out) → `gcs` (in its profile: Google's signatures
//! and names) → `s3s` (signature, parsing) → `access` (age
//! of the signature, unsigned headers) → `ops::object` → `ingest` (stream, checksums) → `index`
//! (condition and commit under one lock) → `disk` → `history`.
//!
//! What it is not: a store for production, a model of any provider's permissions, encryption,
//! lifecycle, object lock or ACLs, or virtual-hosted style. Errors do not carry Amazon's extra XML
//! elements (`<Condition>`, `<Key>`). A malformed `Range` is refused instead of ignored.
//!
//! ```no_run
//! # async fn run() -> std::io::Result<()> {
//! use fencepost::devstore::{DevStore, Effect, Profile, Rule};
//!
//! let running = DevStore::start_for_test(Profile::Aws).await?;
//! running.store().create_bucket("data").await?;
//! let lost = running.store().faults().add(Rule::new(Effect::LoseAnswer).key_prefix("state/"));
//! // … an S3 client on `running.endpoint()` …
//! lost.wait_finished(1).await;
//! assert_eq!(running.store().history().len(), 1);
//! running.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod access;
mod body;
mod buckets;
mod builder;
mod checksum;
mod clock;
mod conditions;
mod disk;
mod errors;
mod fault_spec;
mod faults;
mod gcs;
mod generation;
mod history;
mod index;
mod ingest;
mod keys;
mod listing;
mod multipart;
mod object;
mod ops;
mod pace;
mod persist;
mod profile;
mod serve;
mod store;
mod uploads;

pub use builder::{
    ACCESS_KEY_ID, DevStore, DevStoreBuilder, RunningStore, SECRET_ACCESS_KEY, StoredObject,
};
pub use fault_spec::InvalidFault;
pub use faults::{Effect, Faults, Rule, RuleHandle};
pub use history::{Change, ChangeKind, HISTORY_CHANGES_MAX};
pub use profile::{Profile, UnknownProfile};

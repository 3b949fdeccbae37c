//! Fencepost: a proxy in front of S3 storage that refuses the writes of a stale lock holder.
//!
//! The life of a request, in eight lines:
//!
//! 1. [`listener`] accepts it and gives it a task of its own; its body waits;
//! 2. [`s3`] reads off its head which bucket, key and operation it is, and what that can change;
//! 3. [`auth`] verifies who signed it, and what its body has to be;
//! 4. [`pipeline::token`] finds the fencing token, and [`policy`] what a missing one means;
//! 5. [`fence`] decides, one effect at a time, and alone can give leave to write;
//! 6. [`ledger`] loads and swaps the record of the highest token and of the writes under way;
//! 7. [`upstream`] signs anew and sends to the store what the permit says;
//! 8. [`pipeline`] makes the verdict an answer, and [`telemetry`] counts it.
//!
//! [`server`] puts it together from the [`config`], once [`doctor`] has seen that the store can be
//! fenced on; [`admin`] says how it does. The protocol's rules (F1, F2, …) are in
//! `docs/protocol.md`, the reasons for this layout in `docs/architecture.md`.
//!
//! The library is the binary's own, and that of its tests: its interface follows their needs and
//! promises nothing to others.

pub mod access;
pub mod admin;
pub mod auth;
pub mod client;
pub mod clock;
pub mod config;
#[cfg(feature = "embedded-store")]
pub mod demo;
#[cfg(feature = "embedded-store")]
pub mod devstore;
pub mod doctor;
pub mod fence;
pub mod ledger;
pub mod listener;
pub mod pipeline;
pub mod policy;
pub mod s3;
pub mod scope;
pub mod server;
pub mod telemetry;
pub mod upstream;

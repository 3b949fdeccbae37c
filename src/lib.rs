//! Fencepost: a fencing-enforcing proxy for S3-compatible storage.

pub mod admin;
pub mod auth;
pub mod clock;
pub mod config;
#[cfg(feature = "embedded-store")]
pub mod demo;
#[cfg(feature = "embedded-store")]
pub mod devstore;
pub mod fence;
pub mod ledger;
pub mod listener;
pub mod pipeline;
pub mod policy;
pub mod probe;
pub mod s3;
pub mod server;
pub mod telemetry;
pub mod upstream;

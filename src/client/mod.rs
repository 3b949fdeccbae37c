//! A client of the proxy's own API, for the command line and for tests.
//!
//! | port | requests | signed by |
//! |---|---|---|
//! | data | [`DataClient`]: claims; leases, acquired, renewed, released and shown | the key pair, as any S3 request |
//! | admin | [`AdminClient`]: scopes, listed, inspected and reset | a bearer token |
//!
//! Requests are repeated, with pauses that grow and differ, as long as the caller gives them time
//! and only where a repetition does no harm ([`Repeat`]): a claim and a renewal do nothing twice,
//! an acquisition carries an id by which the proxy knows it again, and what was certainly not
//! carried out may always be sent anew.
//!
//! It does *not* fence anything, hold a lease or watch a clock: whoever needs that does it
//! (`fencepost lease run`). It speaks to a proxy, not to a store.

mod admin;
mod data;
mod error;
mod location;
mod retry;
mod transport;

pub use self::admin::{AdminClient, AdminToken, AdminTokenError};
pub use self::data::{
    Acquire, Acquired, Answer, Claimed, DataClient, Grant, HeldLease, KeyPair, LeaseState, Released,
};
pub use self::error::{ClientError, Code, Refused};
pub use self::location::{Location, NotALocation};
pub use self::retry::Repeat;
pub use self::transport::Server;

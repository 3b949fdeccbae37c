//! The S3 request model: what a request is about, said in the S3 documentation's words.
//!
//! Method, path, query and headers become a [`Target`] (bucket and key) and an [`Operation`].
//! Bytes stay untouched: a key is what its path decodes to, once, and nothing is normalised.
//! This module does *not* know of tokens, scopes or signatures.

mod error;
mod etag;
mod operation;
mod query;
mod target;

pub use error::S3Error;
pub use etag::{EtagQuotes, InvalidEtag, parse_if_match, parse_if_none_match, strip_quotes};
pub use operation::{Footprint, Operation, side_door};
pub use query::{Query, percent_decode, percent_encode_key};
pub use target::{Bucket, HostSuffixes, ObjectKey, Target, TargetError};

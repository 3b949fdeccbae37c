//! The S3 request model: what a request is about, said in the S3 documentation's words.
//!
//! Method, path, query and headers become a [`Target`] (bucket and key) and an [`Operation`].
//! Bytes stay untouched: a key is what its path decodes to, once, and nothing is normalised.
//! This module does *not* know of tokens, scopes or signatures.

mod complete_upload;
mod copy_source;
mod delete_objects;
mod error;
mod etag;
mod form;
mod multipart;
mod operation;
mod post_object;
mod query;
mod results;
mod target;
mod xml;

pub use complete_upload::{CompletedPart, assembled_etag, parse_complete_upload};
pub use copy_source::CopySource;
pub use delete_objects::{
    DeleteObjectsRequest, DeleteOutcome, DeletedObject, ObjectToDelete, parse_delete_objects,
    parse_delete_result, write_delete_objects, write_delete_result,
};
pub use error::S3Error;
pub use etag::{EtagQuotes, InvalidEtag, parse_if_match, parse_if_none_match, strip_quotes};
pub use form::{FormError, FormFile, PostForm, read_form};
pub use operation::{Footprint, Operation, Write, document, side_door, unknown_write_header};
pub use post_object::{OnSuccess, PostObject};
pub use query::{Query, percent_decode, percent_encode_key};
pub use results::{complete_upload_result, copy_result};
pub use target::{Bucket, HostSuffixes, ObjectKey, Target, TargetError};
pub use xml::DocumentError;

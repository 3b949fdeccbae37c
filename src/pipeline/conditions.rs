//! What a client asks of a fenced write besides the write: its own preconditions, and headers that
//! the fence cannot see through.

use http::header::{self, HeaderMap};

use super::fenced_write::unrecorded;
use super::{Proxy, respond};
use crate::fence::{ClientCondition, ClientMatch, Operation, Protocol, Tags};
use crate::s3::{S3Error, parse_if_match, parse_if_none_match};
use crate::upstream::Dialect;

/// The client's own preconditions.
pub(super) fn client_condition(
    headers: &HeaderMap,
    dialect: Dialect,
) -> Result<ClientCondition, S3Error> {
    let mut condition = ClientCondition::default();
    if let Some(value) = single(headers, &header::IF_MATCH)? {
        condition.if_match = Some(client_match(value, dialect)?);
    }
    if let Some(value) = single(headers, &header::IF_NONE_MATCH)? {
        parse_if_none_match(value)
            .map_err(|error| respond::invalid_condition(header::IF_NONE_MATCH, error))?;
        condition.if_none_match_any = true;
    }
    Ok(condition)
}

/// The value of a client's `If-Match`.
pub(super) fn client_match(value: &str, dialect: Dialect) -> Result<ClientMatch, S3Error> {
    parse_if_match(value)
        .map(|etag| etag.map_or(ClientMatch::Any, |etag| dialect.client_match(etag)))
        .map_err(|error| respond::invalid_condition(header::IF_MATCH, error))
}

fn single<'a>(
    headers: &'a HeaderMap,
    name: &header::HeaderName,
) -> Result<Option<&'a str>, S3Error> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    let malformed = || respond::malformed_header(name.clone());
    match (first, second) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(malformed()),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| malformed()),
    }
}

/// Where ordinary writes are not on record, nobody knows which of them
/// could still change what a condition was judged on; the store would have to judge it.
pub(super) fn refuse_unjudged_condition(
    protocol: &Protocol,
    operation: &Operation,
) -> Result<(), S3Error> {
    let unjudged = operation.is_exclusive(protocol) && !operation.condition.is_none();
    if unjudged && unrecorded(protocol) {
        return Err(respond::unjudged_condition());
    }
    Ok(())
}

/// Encryption that the fence cannot see through: with SSE-C, HEAD needs the customer's key; where
/// tags are said to be unique, another encryption could bring an earlier tag back. A generation of
/// Google's comes with every encryption.
fn refuse_encryption(headers: &HeaderMap, tags: Tags, dialect: Dialect) -> Result<(), S3Error> {
    const SSE: &str = "x-amz-server-side-encryption";
    const SSE_C: &str = "x-amz-server-side-encryption-customer-algorithm";
    if headers.contains_key(SSE_C) {
        return Err(respond::unsupported_encryption(SSE_C));
    }
    let named = headers.get(SSE).map(|value| value.as_bytes());
    let keeps_tags_unique = named.is_none_or(|value| value.starts_with(b"aws:kms"));
    if tags == Tags::Unique && dialect == Dialect::S3 && !keeps_tags_unique {
        return Err(respond::unsupported_encryption(SSE));
    }
    Ok(())
}

impl Proxy {
    /// Refuses a fenced write for a header that the fence cannot see through, or that cannot be
    /// said to the store.
    pub(super) fn refuse_headers(&self, headers: &HeaderMap, tags: Tags) -> Result<(), S3Error> {
        let upstream = &self.0.upstream;
        refuse_encryption(headers, tags, upstream.dialect())?;
        match upstream.unspeakable_write(headers) {
            Some(header) => Err(respond::unspeakable_header(header)),
            None => Ok(()),
        }
    }
}

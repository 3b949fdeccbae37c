//! How a record is written down: JSON, readable by a person with any S3 client.
//!
//! Tokens are strings, because many JSON readers round numbers beyond 2^53. Keys are
//! percent-encoded, because they are bytes. A nonce makes every version's bytes, and so its ETag,
//! its own.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Scope;
use crate::fence::{Action, Intent, IntentId, KeyId, OperationId, Record, StoreTime, Tag, Token};
use crate::s3::{percent_decode, percent_encode_key};

/// The format that this version reads and writes. A record of a later format is not understood,
/// and what is not understood is never overwritten (F11).
const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordJson {
    format: u32,
    bucket: String,
    key: String,
    token: String,
    nonce: String,
    intents: Vec<IntentJson>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IntentJson {
    operation: String,
    copy: u32,
    token: String,
    key: String,
    action: ActionJson,
    expires_at: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum ActionJson {
    ExpectsAbsent,
    ExpectsEtag { etag: String },
    Exclusive,
}

/// Why stored bytes are not the record they should be.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// Not JSON of this shape.
    #[error("it is not a record: {0}")]
    Json(#[from] serde_json::Error),
    /// A later format.
    #[error("its format is {0}, and this version of fencepost reads format {FORMAT}")]
    Format(u32),
    /// Another scope's record, or another upload's.
    #[error("it is the record of another scope")]
    OtherScope,
    /// A field that does not hold what it should.
    #[error("its {0} is not valid")]
    Field(&'static str),
}

/// Writes a record down. `nonce` must be random.
#[must_use]
pub fn encode(scope: &Scope, record: &Record, nonce: u128) -> Vec<u8> {
    let json = RecordJson {
        format: FORMAT,
        bucket: scope.bucket.as_str().to_owned(),
        key: scope.key.to_string(),
        token: record.token.to_string(),
        nonce: format!("{nonce:032x}"),
        intents: record.intents.iter().map(encode_intent).collect(),
    };
    serde_json::to_vec_pretty(&json).expect("strings and numbers can be written as JSON")
}

fn encode_intent(intent: &Intent) -> IntentJson {
    IntentJson {
        operation: intent.id.operation.to_string(),
        copy: intent.id.copy,
        token: intent.token.to_string(),
        key: percent_encode_key(intent.key.as_bytes()),
        action: match &intent.action {
            Action::Conditional { expects: Tag::Absent } => ActionJson::ExpectsAbsent,
            Action::Conditional { expects: Tag::Version(etag) } => {
                ActionJson::ExpectsEtag { etag: etag.clone() }
            }
            Action::Exclusive => ActionJson::Exclusive,
        },
        expires_at: intent.expires_at.0,
    }
}

/// Reads a record and its nonce.
///
/// # Errors
///
/// When the bytes are not the record of this scope in a format that is understood.
pub fn decode(scope: &Scope, bytes: &[u8]) -> Result<(Record, u128), CodecError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format } = serde_json::from_slice(bytes)?;
    if format != FORMAT {
        return Err(CodecError::Format(format));
    }
    let json: RecordJson = serde_json::from_slice(bytes)?;
    if json.bucket != scope.bucket.as_str()
        || percent_decode(json.key.as_bytes()) != scope.key.as_bytes()
    {
        return Err(CodecError::OtherScope);
    }
    let nonce = u128::from_str_radix(&json.nonce, 16).map_err(|_| CodecError::Field("nonce"))?;
    let intents = json.intents.into_iter().map(decode_intent).collect::<Result<_, _>>()?;
    Ok((Record { token: parse(&json.token, "token")?, intents }, nonce))
}

fn decode_intent(json: IntentJson) -> Result<Intent, CodecError> {
    Ok(Intent {
        id: IntentId {
            operation: parse::<OperationId>(&json.operation, "operation")?,
            copy: json.copy,
        },
        token: parse::<Token>(&json.token, "token")?,
        key: KeyId::new(percent_decode(json.key.as_bytes())),
        action: match json.action {
            ActionJson::ExpectsAbsent => Action::Conditional { expects: Tag::Absent },
            ActionJson::ExpectsEtag { etag } => Action::Conditional { expects: Tag::Version(etag) },
            ActionJson::Exclusive => Action::Exclusive,
        },
        expires_at: StoreTime(json.expires_at),
    })
}

fn parse<T: FromStr>(text: &str, field: &'static str) -> Result<T, CodecError> {
    text.parse().map_err(|_| CodecError::Field(field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::{Bucket, ObjectKey};

    fn scope(key: &[u8]) -> Scope {
        Scope { bucket: Bucket::new("b"), key: ObjectKey::new(key).unwrap() }
    }

    fn record() -> Record {
        let intent = |copy, action| Intent {
            id: IntentId { operation: OperationId::new(7), copy },
            token: Token::new(u64::MAX).unwrap(),
            key: KeyId::new(&b"a/\xff%2F+"[..]),
            action,
            expires_at: StoreTime(1_796_000_000),
        };
        Record {
            token: Token::new(u64::MAX).unwrap(),
            intents: vec![
                intent(0, Action::Conditional { expects: Tag::Absent }),
                intent(1, Action::Conditional { expects: Tag::Version("e-1".into()) }),
                intent(2, Action::Exclusive),
            ],
        }
    }

    #[test]
    fn a_record_round_trips() {
        let scope = scope(b"a/\xff%2F+");
        let bytes = encode(&scope, &record(), 99);
        assert_eq!(decode(&scope, &bytes).unwrap(), (record(), 99));
    }

    #[test]
    fn two_versions_of_one_record_differ_in_their_bytes() {
        let scope = scope(b"k");
        assert_ne!(encode(&scope, &record(), 1), encode(&scope, &record(), 2));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let scope = scope(b"k");
        let text = String::from_utf8(encode(&scope, &record(), 1)).unwrap();
        let broken = [
            ("", ""),
            ("\"format\": 1", "\"format\": 2"),
            ("\"bucket\": \"b\"", "\"bucket\": \"c\""),
            ("\"key\": \"k\"", "\"key\": \"l\""),
            ("\"format\": 1", "\"format\": 1, \"unknown\": 1"),
            ("\"token\": \"18446744073709551615\"", "\"token\": \"0\""),
            ("\"exclusive\"", "\"unheard-of\""),
            ("\"nonce\": \"", "\"nonce\": \"z"),
        ];
        for (from, to) in broken {
            let changed = if from.is_empty() { String::new() } else { text.replacen(from, to, 1) };
            assert_ne!(changed, text, "{from}");
            assert!(decode(&scope, changed.as_bytes()).is_err(), "{from} -> {to}");
        }
    }
}

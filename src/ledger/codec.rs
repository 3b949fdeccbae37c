//! How a record is written down: JSON, readable by a person with any S3 client.
//!
//! Tokens are strings, because many JSON readers round numbers beyond 2^53. Keys are
//! percent-encoded, because they are bytes. A nonce makes every version's bytes, and so its ETag,
//! its own.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Scope;
use crate::fence::{
    Action, Bearer, Intent, IntentId, KeyId, Lease, LeaseId, Leasing, Lock, LockMode, OperationId,
    Record, Reset, Resets, StoreTime, Tag, Token,
};
use crate::s3::{Bucket, ObjectKey, percent_decode, percent_encode_key};
use crate::scope::Extent;

/// The format that this version writes; it reads the first one as well, which knew objects and
/// intents alone. A record of a later format is not understood, and what is not understood is
/// never overwritten (F11).
const FORMAT: u32 = 2;

/// A record with more intents is written without white space.
const PRETTY_INTENTS_MAX: usize = 16;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordJson {
    format: u32,
    bucket: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lock: Option<LockJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    nonce: String,
    intents: Vec<IntentJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    issued: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseJson>,
    #[serde(default, skip_serializing_if = "is_zero")]
    resets: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_reset: Option<ResetJson>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockJson {
    name: String,
    mode: LockModeJson,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LockModeJson {
    Exclusive,
    Shared,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseJson {
    id: String,
    holder: String,
    token: String,
    ttl_seconds: u64,
    acquired_at: u64,
    expires_at: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResetJson {
    by: String,
    reason: String,
    from: String,
    to: String,
    at: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IntentJson {
    operation: String,
    copy: u32,
    token: String,
    key: String,
    action: ActionJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    registered_at: Option<u64>,
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
    let name = percent_encode_key(scope.bytes());
    let (key, prefix) = match scope.extent {
        Extent::Object(_) => (Some(name), None),
        Extent::Prefix(_) => (None, Some(name)),
    };
    let json = RecordJson {
        format: FORMAT,
        bucket: scope.bucket.as_str().to_owned(),
        key,
        prefix,
        token: record.token.to_string(),
        lock: record.bearer.lock.as_ref().map(|lock| LockJson {
            name: lock.name.clone(),
            mode: match lock.mode {
                LockMode::Exclusive => LockModeJson::Exclusive,
                LockMode::Shared => LockModeJson::Shared,
            },
        }),
        holder: record.bearer.holder.clone(),
        nonce: format!("{nonce:032x}"),
        intents: record.intents.iter().map(encode_intent).collect(),
        issued: record.leasing.issued.map(|token| token.to_string()),
        lease: record.leasing.lease.as_deref().map(encode_lease),
        resets: record.resets.count,
        last_reset: record.resets.last.as_ref().map(|reset| ResetJson {
            by: reset.by.clone(),
            reason: reset.reason.clone(),
            from: reset.from.to_string(),
            to: reset.to.to_string(),
            at: reset.at.0,
        }),
    };
    // For people as long as people would read it.
    let written = match record.intents.len() {
        0..=PRETTY_INTENTS_MAX => serde_json::to_vec_pretty(&json),
        _ => serde_json::to_vec(&json),
    };
    written.expect("strings and numbers can be written as JSON")
}

fn encode_lease(lease: &Lease) -> LeaseJson {
    LeaseJson {
        id: format!("{:032x}", lease.id.0),
        holder: lease.holder.clone(),
        token: lease.token.to_string(),
        ttl_seconds: lease.ttl_seconds,
        acquired_at: lease.acquired_at.0,
        expires_at: lease.expires_at.0,
    }
}

fn decode_lease(json: LeaseJson) -> Result<Lease, CodecError> {
    let id = u128::from_str_radix(&json.id, 16).map_err(|_| CodecError::Field("lease"))?;
    Ok(Lease {
        id: LeaseId(id),
        holder: json.holder,
        token: parse(&json.token, "lease")?,
        ttl_seconds: json.ttl_seconds,
        acquired_at: StoreTime(json.acquired_at),
        expires_at: StoreTime(json.expires_at),
    })
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
        registered_at: intent.registered_at.map(|at| at.0),
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
    if !(1..=FORMAT).contains(&format) {
        return Err(CodecError::Format(format));
    }
    let json: RecordJson = serde_json::from_slice(bytes)?;
    let name = match scope.extent {
        Extent::Object(_) => json.key.filter(|_| json.prefix.is_none()),
        Extent::Prefix(_) => json.prefix.filter(|_| json.key.is_none()),
    };
    let is_its_own = name.is_some_and(|name| percent_decode(name.as_bytes()) == scope.bytes());
    if json.bucket != scope.bucket.as_str() || !is_its_own {
        return Err(CodecError::OtherScope);
    }
    let nonce = u128::from_str_radix(&json.nonce, 16).map_err(|_| CodecError::Field("nonce"))?;
    let intents = json.intents.into_iter().map(decode_intent).collect::<Result<_, _>>()?;
    let lock = json.lock.map(|lock| Lock {
        name: lock.name,
        mode: match lock.mode {
            LockModeJson::Exclusive => LockMode::Exclusive,
            LockModeJson::Shared => LockMode::Shared,
        },
    });
    let record = Record {
        token: parse(&json.token, "token")?,
        bearer: Bearer { lock, holder: json.holder },
        intents,
        leasing: Leasing {
            issued: json.issued.map(|issued| parse(&issued, "issued")).transpose()?,
            lease: json.lease.map(decode_lease).transpose()?.map(Box::new),
        },
        resets: Resets {
            count: json.resets,
            last: json.last_reset.map(decode_reset).transpose()?.map(Box::new),
        },
    };
    Ok((record, nonce))
}

fn decode_reset(json: ResetJson) -> Result<Reset, CodecError> {
    Ok(Reset {
        by: json.by,
        reason: json.reason,
        from: parse(&json.from, "reset")?,
        to: parse(&json.to, "reset")?,
        at: StoreTime(json.at),
    })
}

/// Reads which scope stored bytes are the record of.
///
/// # Errors
///
/// When they are no record in a format that is understood.
pub(super) fn scope_of(bytes: &[u8]) -> Result<Scope, CodecError> {
    #[derive(Deserialize)]
    struct Named {
        format: u32,
        bucket: String,
        key: Option<String>,
        prefix: Option<String>,
    }
    let named: Named = serde_json::from_slice(bytes)?;
    if !(1..=FORMAT).contains(&named.format) {
        return Err(CodecError::Format(named.format));
    }
    let bucket = Bucket::new(&named.bucket);
    match (named.key, named.prefix) {
        (Some(key), None) => ObjectKey::new(percent_decode(key.as_bytes()))
            .map(|key| Scope::object(bucket, key))
            .ok_or(CodecError::Field("key")),
        (None, Some(prefix)) => Ok(Scope::prefix(bucket, percent_decode(prefix.as_bytes()))),
        (Some(_), Some(_)) | (None, None) => Err(CodecError::Field("key")),
    }
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
        registered_at: json.registered_at.map(StoreTime),
        expires_at: StoreTime(json.expires_at),
    })
}

fn parse<T: FromStr>(text: &str, field: &'static str) -> Result<T, CodecError> {
    text.parse().map_err(|_| CodecError::Field(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(key: &[u8]) -> Scope {
        Scope::object(Bucket::new("b"), ObjectKey::new(key).unwrap())
    }

    fn record() -> Record {
        let intent = |copy, action| Intent {
            id: IntentId { operation: OperationId::new(7), copy },
            token: Token::new(u64::MAX).unwrap(),
            key: KeyId::new(&b"a/\xff%2F+"[..]),
            action,
            registered_at: (copy > 0).then_some(StoreTime(1_795_000_000)),
            expires_at: StoreTime(1_796_000_000),
        };
        let token = |value| Token::new(value).unwrap();
        Record {
            token: token(u64::MAX),
            bearer: Bearer {
                lock: Some(Lock { name: "a \"lock\"/\u{e9}".into(), mode: LockMode::Shared }),
                holder: Some("host:1".into()),
            },
            intents: vec![
                intent(0, Action::Conditional { expects: Tag::Absent }),
                intent(1, Action::Conditional { expects: Tag::Version("e-1".into()) }),
                intent(2, Action::Exclusive),
            ],
            leasing: Leasing {
                issued: Some(token(u64::MAX)),
                lease: Some(Box::new(Lease {
                    id: LeaseId(u128::MAX),
                    holder: "host:2".into(),
                    token: token(8),
                    ttl_seconds: 30,
                    acquired_at: StoreTime(1),
                    expires_at: StoreTime(31),
                })),
            },
            resets: Resets {
                count: 2,
                last: Some(Box::new(Reset {
                    by: "ops".into(),
                    reason: "the counter went back".into(),
                    from: token(9),
                    to: token(7),
                    at: StoreTime(5),
                })),
            },
        }
    }

    #[test]
    fn a_record_round_trips() {
        let scope = scope(b"a/\xff%2F+");
        let bytes = encode(&scope, &record(), 99);
        assert_eq!(decode(&scope, &bytes).unwrap(), (record(), 99));
        assert_eq!(scope_of(&bytes).unwrap(), scope);
        let plain = Record::new(Token::new(1).unwrap(), Vec::new());
        assert_eq!(decode(&scope, &encode(&scope, &plain, 1)).unwrap(), (plain, 1));
    }

    #[test]
    fn a_prefix_is_not_the_object_of_that_name() {
        let object = scope(b"a/");
        let prefix = Scope::prefix(Bucket::new("b"), b"a/");
        for (own, other) in [(&object, &prefix), (&prefix, &object)] {
            let bytes = encode(own, &record(), 1);
            assert!(decode(own, &bytes).is_ok());
            assert_eq!(scope_of(&bytes).unwrap(), *own);
            assert!(matches!(decode(other, &bytes), Err(CodecError::OtherScope)));
        }
        let whole = Scope::prefix(Bucket::new("b"), b"");
        assert!(decode(&whole, &encode(&whole, &record(), 1)).is_ok());
    }

    #[test]
    fn the_first_format_is_read() {
        let text = r#"{"format":1,"bucket":"b","key":"k","token":"7",
            "nonce":"00000000000000000000000000000009","intents":[]}"#;
        let read = decode(&scope(b"k"), text.as_bytes()).unwrap();
        assert_eq!(read, (Record::new(Token::new(7).unwrap(), Vec::new()), 9));
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
            ("\"format\": 2", "\"format\": 3"),
            ("\"format\": 2", "\"format\": 0"),
            ("\"key\": \"k\"", "\"key\": \"k\", \"prefix\": \"k\""),
            ("\"mode\": \"shared\"", "\"mode\": \"other\""),
            ("\"issued\": \"18446744073709551615\"", "\"issued\": \"-1\""),
            ("\"id\": \"ffffffff", "\"id\": \"xfffffff"),
            ("\"from\": \"9\"", "\"from\": \"0\""),
            ("\"bucket\": \"b\"", "\"bucket\": \"c\""),
            ("\"key\": \"k\"", "\"key\": \"l\""),
            ("\"format\": 2", "\"format\": 2, \"unknown\": 1"),
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

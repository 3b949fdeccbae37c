//! What a client's multipart upload was created with: its token, and the stamp on its object.
//!
//! Clients that send the token only when they create an upload (s3cmd) are fenced by it in all that
//! follows, through whatever proxy; and the stamp tells whether the object that is there was made
//! by this upload (F10). A binding is written once and never changed, so it needs no
//! compare-and-swap.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::CodecError;
use crate::fence::{OperationId, Token};
use crate::s3::{Bucket, ObjectKey, percent_decode};

/// The format that this version reads and writes.
const FORMAT: u32 = 1;

/// A multipart upload: an id is unique within its key only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Upload {
    /// The bucket.
    pub bucket: Bucket,
    /// The key that it is going to make.
    pub key: ObjectKey,
    /// The store's name for it.
    pub id: String,
}

/// What an upload was created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The token.
    pub token: Token,
    /// The operation id that its object is stamped with.
    pub stamp: OperationId,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BindingJson {
    format: u32,
    bucket: String,
    key: String,
    upload: String,
    token: String,
    stamp: String,
}

impl Upload {
    /// A name for it that is as short for every key and id, and says nothing.
    pub(super) fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        // No bucket holds a zero byte, and the length tells the key from the id.
        hasher.update(self.bucket.as_str());
        hasher.update([0]);
        hasher.update((self.key.as_bytes().len() as u64).to_be_bytes());
        hasher.update(self.key.as_bytes());
        hasher.update(self.id.as_bytes());
        hex::encode(hasher.finalize())
    }
}

pub(super) fn encode(upload: &Upload, binding: &Binding) -> Vec<u8> {
    let json = BindingJson {
        format: FORMAT,
        bucket: upload.bucket.as_str().to_owned(),
        key: upload.key.to_string(),
        upload: upload.id.clone(),
        token: binding.token.to_string(),
        stamp: binding.stamp.to_string(),
    };
    serde_json::to_vec_pretty(&json).expect("strings can be written as JSON")
}

pub(super) fn decode(upload: &Upload, bytes: &[u8]) -> Result<Binding, CodecError> {
    let json: BindingJson = serde_json::from_slice(bytes)?;
    if json.format != FORMAT {
        return Err(CodecError::Format(json.format));
    }
    let same = json.bucket == upload.bucket.as_str()
        && percent_decode(json.key.as_bytes()) == upload.key.as_bytes()
        && json.upload == upload.id;
    if !same {
        return Err(CodecError::OtherScope);
    }
    Ok(Binding {
        token: json.token.parse().map_err(|_| CodecError::Field("token"))?,
        stamp: json.stamp.parse().map_err(|_| CodecError::Field("stamp"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(key: &str, id: &str) -> Upload {
        let key = ObjectKey::new(key).unwrap();
        Upload { bucket: Bucket::new("b"), key, id: id.into() }
    }

    #[test]
    fn a_binding_round_trips_and_is_nobody_elses() {
        let binding =
            Binding { token: Token::new(u64::MAX).unwrap(), stamp: OperationId::new(u128::MAX) };
        let mine = upload("a/\u{e9}%2F+", "id/+=\"<");
        let bytes = encode(&mine, &binding);
        assert_eq!(decode(&mine, &bytes).unwrap(), binding);
        for other in [upload("a", "id/+=\"<"), upload("a/\u{e9}%2F+", "id")] {
            assert!(decode(&other, &bytes).is_err());
        }
        let text = String::from_utf8(bytes).unwrap();
        for (from, to) in [
            ("\"format\": 1", "\"format\": 2"),
            ("\"format\": 1", "\"format\": 1, \"more\": 1"),
            ("\"token\": \"18446744073709551615\"", "\"token\": \"0\""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            assert!(decode(&mine, changed.as_bytes()).is_err(), "{to}");
        }
    }

    #[test]
    fn key_and_id_do_not_run_into_each_other() {
        assert_ne!(upload("ab", "c").digest(), upload("a", "bc").digest());
    }
}

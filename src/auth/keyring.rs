//! The credentials that clients sign with.
//!
//! A [`KeyRing`] maps access key ids to secrets. It says nothing about what an identity may do:
//! every pair in it is equal. Secrets cannot be printed: their `Debug` shows nothing, there is no
//! `Display`, and no error of this file carries a value out of the credentials file.

use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest access key id that is taken, in bytes. AWS allows 128.
const ACCESS_KEY_ID_BYTES_MAX: usize = 128;

/// The public half of a key pair, such as `AKIAIOSFODNN7EXAMPLE`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessKeyId(String);

impl AccessKeyId {
    /// Takes 1 to 128 visible ASCII characters without `,`, `=`, `;` and `"`, which would be ambiguous in
    /// an `Authorization` header.
    ///
    /// # Errors
    ///
    /// [`CredentialsError::AccessKeyId`] for anything else.
    pub fn new(id: impl Into<String>) -> Result<Self, CredentialsError> {
        let id = id.into();
        let fits = (1..=ACCESS_KEY_ID_BYTES_MAX).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_graphic() && !b",=;\"".contains(&b));
        if fits { Ok(Self(id)) } else { Err(CredentialsError::AccessKeyId { line: None }) }
    }

    /// The id as clients spell it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for AccessKeyId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccessKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The secret half of a key pair. Prints as nothing.
#[derive(Clone)]
pub struct SecretKey(Box<str>);

impl SecretKey {
    /// Takes any text that is not empty and has no white space or control characters in it; those
    /// would be a slip of copy and paste.
    ///
    /// # Errors
    ///
    /// [`CredentialsError::SecretKey`] for anything else.
    pub fn new(secret: impl Into<String>) -> Result<Self, CredentialsError> {
        let secret = secret.into();
        let fits =
            !secret.is_empty() && !secret.contains(|c: char| c.is_whitespace() || c.is_control());
        if fits {
            Ok(Self(secret.into_boxed_str()))
        } else {
            Err(CredentialsError::SecretKey { line: None })
        }
    }

    /// The secret itself, for the arithmetic of this module alone.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

/// The key pairs that clients may sign with.
#[derive(Clone, Debug, Default)]
pub struct KeyRing {
    secrets: HashMap<AccessKeyId, SecretKey>,
}

impl KeyRing {
    /// A ring of one pair.
    #[must_use]
    pub fn single(id: AccessKeyId, secret: SecretKey) -> Self {
        Self { secrets: HashMap::from([(id, secret)]) }
    }

    /// Parses the text of a credentials file, TOML with one table per pair:
    ///
    /// ```toml
    /// [[credential]]
    /// access_key_id = "AKIAIOSFODNN7EXAMPLE"
    /// secret_access_key = "..."
    /// ```
    ///
    /// # Errors
    ///
    /// [`CredentialsError`], with the line, when the text is not of that shape, holds an unknown
    /// key, an id twice, or no pair at all. No error shows a value of the file.
    pub fn parse_file(text: &str) -> Result<Self, CredentialsError> {
        let root = DeTable::parse(text).map_err(|error| CredentialsError::Syntax {
            line: error.span().map(|span| line_of(text, span.start)),
        })?;
        let mut ring = Self::default();
        if let Some(key) = root.get_ref().keys().find(|key| key.get_ref() != "credential") {
            return Err(unknown_key(text, key));
        }
        if let Some(value) = root.get_ref().get("credential") {
            let entries = value.get_ref().as_array().ok_or_else(|| CredentialsError::Shape {
                key: "credential",
                expected: "an array of tables, written [[credential]]",
                line: line_of(text, value.span().start),
            })?;
            for entry in entries.iter() {
                ring.add(text, entry)?;
            }
        }
        if ring.is_empty() { Err(CredentialsError::Empty) } else { Ok(ring) }
    }

    fn add(&mut self, text: &str, entry: &Spanned<DeValue<'_>>) -> Result<(), CredentialsError> {
        let line = line_of(text, entry.span().start);
        let table = entry.get_ref().as_table().ok_or(CredentialsError::Shape {
            key: "credential",
            expected: "an array of tables, written [[credential]]",
            line,
        })?;
        for key in table.keys() {
            if !["access_key_id", "secret_access_key"].contains(&key.get_ref().as_ref()) {
                return Err(unknown_key(text, key));
            }
        }
        let (id, id_line) = string(text, table, "access_key_id", line)?;
        let (secret, secret_line) = string(text, table, "secret_access_key", line)?;
        let id = AccessKeyId::new(id)
            .map_err(|_| CredentialsError::AccessKeyId { line: Some(id_line) })?;
        let secret = SecretKey::new(secret)
            .map_err(|_| CredentialsError::SecretKey { line: Some(secret_line) })?;
        if self.secrets.insert(id, secret).is_some() {
            return Err(CredentialsError::Duplicate { line: id_line });
        }
        Ok(())
    }

    /// The pair whose access key id is `id`, when the ring holds it.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<(&AccessKeyId, &SecretKey)> {
        self.secrets.get_key_value(id)
    }

    /// The number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// Whether no client can sign anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }
}

fn string<'t>(
    text: &str,
    table: &'t DeTable<'_>,
    key: &'static str,
    line: usize,
) -> Result<(&'t str, usize), CredentialsError> {
    let value = table.get(key).ok_or(CredentialsError::Missing { key, line })?;
    let line = line_of(text, value.span().start);
    match value.get_ref().as_str() {
        Some(string) => Ok((string, line)),
        None => Err(CredentialsError::Shape { key, expected: "a string", line }),
    }
}

fn unknown_key(text: &str, key: &Spanned<Cow<'_, str>>) -> CredentialsError {
    CredentialsError::UnknownKey {
        key: key.get_ref().clone().into_owned(),
        line: line_of(text, key.span().start),
    }
}

/// The line, counted from 1, of the byte at `offset`.
fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|&&b| b == b'\n').count()
}

/// Why credentials could not be taken. Lines count from 1; no value is ever shown, because a
/// value in the wrong place may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Not TOML. The parser's own message quotes the line, so it is not passed on.
    #[error("the credentials file is not valid TOML{}", at(*line))]
    Syntax {
        /// Where the parser stopped, if it says so.
        line: Option<usize>,
    },
    /// A value of the wrong type.
    #[error("`{key}` must be {expected} (line {line})")]
    Shape {
        /// The key.
        key: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// The line of the value.
        line: usize,
    },
    /// A key that this file does not have.
    #[error(
        "unknown key `{key}` (line {line}); a [[credential]] has `access_key_id` and `secret_access_key`"
    )]
    UnknownKey {
        /// The key as written.
        key: String,
        /// Its line.
        line: usize,
    },
    /// One half of a pair is not there.
    #[error("the [[credential]] of line {line} has no `{key}`")]
    Missing {
        /// The key that is missing.
        key: &'static str,
        /// The line of the table.
        line: usize,
    },
    /// The same access key id twice.
    #[error("the `access_key_id` of line {line} was given before")]
    Duplicate {
        /// The line of the second one.
        line: usize,
    },
    /// An access key id that no client could sign with.
    #[error("an access key id is 1 to {ACCESS_KEY_ID_BYTES_MAX} visible ASCII characters without , = ; or \"{}", at(*line))]
    AccessKeyId {
        /// The line, when it comes from a file.
        line: Option<usize>,
    },
    /// A secret that is empty or was copied with white space.
    #[error("a secret access key is not empty and has no white space in it{}", at(*line))]
    SecretKey {
        /// The line, when it comes from a file.
        line: Option<usize>,
    },
    /// No pair at all: nobody could sign anything.
    #[error("the credentials file holds no [[credential]]")]
    Empty,
}

fn at(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" (line {line})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    fn error(text: &str) -> CredentialsError {
        let error = KeyRing::parse_file(text).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("wJalr"), "a secret leaked: {shown}");
        error
    }

    #[test]
    fn several_pairs() {
        let ring = KeyRing::parse_file(&format!(
            "[[credential]]\naccess_key_id = 'A1'\nsecret_access_key = '{SECRET}'\n\
             [[credential]]\nsecret_access_key = 's2'\naccess_key_id = 'B2'\n"
        ))
        .unwrap();
        assert_eq!(ring.len(), 2);
        assert_eq!(ring.get("A1").unwrap().1.expose(), SECRET);
        assert_eq!(ring.get("B2").unwrap().1.expose(), "s2");
        assert!(ring.get("a1").is_none());
    }

    #[test]
    fn nothing_prints_a_secret() {
        let ring =
            KeyRing::single(AccessKeyId::new("AKID").unwrap(), SecretKey::new(SECRET).unwrap());
        let shown = format!("{ring:?} {:?}", ring.get("AKID"));
        assert!(!shown.contains("wJalr"), "{shown}");
        assert!(shown.contains("AKID"));
    }

    #[test]
    fn errors_name_the_line_and_the_key_and_no_value() {
        let id = "[[credential]]\naccess_key_id = \"A\"\n";
        let secret = format!("secret_access_key = \"{SECRET}\"\n");
        let cases = [
            (String::new(), CredentialsError::Empty),
            (format!("{id}{secret}x = = {SECRET}"), CredentialsError::Syntax { line: Some(4) }),
            (
                format!("{id}{secret}region = \"{SECRET}\"\n"),
                CredentialsError::UnknownKey { key: "region".into(), line: 4 },
            ),
            (
                format!("{secret}\n{id}"),
                CredentialsError::UnknownKey { key: "secret_access_key".into(), line: 1 },
            ),
            (id.to_owned(), CredentialsError::Missing { key: "secret_access_key", line: 1 }),
            (
                format!("[[credential]]\n{secret}"),
                CredentialsError::Missing { key: "access_key_id", line: 1 },
            ),
            (format!("{id}{secret}{id}{secret}"), CredentialsError::Duplicate { line: 5 }),
            (
                format!("{id}secret_access_key = 77\n"),
                CredentialsError::Shape { key: "secret_access_key", expected: "a string", line: 3 },
            ),
            (
                format!("{id}secret_access_key = \" {SECRET}\"\n"),
                CredentialsError::SecretKey { line: Some(3) },
            ),
            (
                format!("[[credential]]\naccess_key_id = \"a b\"\n{secret}"),
                CredentialsError::AccessKeyId { line: Some(2) },
            ),
            (
                "credential = 1\n".to_owned(),
                CredentialsError::Shape {
                    key: "credential",
                    expected: "an array of tables, written [[credential]]",
                    line: 1,
                },
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(error(&text), expected, "for {text:?}");
        }
    }
}

//! The admin API's bearer tokens: a file with a line `name:token` for each who may use it.
//!
//! ```text
//! # Lines like this one, and empty ones, are left out.
//! anna:4c1f0b5a9d7e46a0a6f1
//! ```
//!
//! The name is what the audit log says; it is no secret. Of the tokens only hashes are kept, and
//! they are compared in constant time.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// The fewest characters of a token. Half of what `openssl rand -hex 16` makes: not guessed over a
/// network, and long enough to keep a word or a name from being one.
const TOKEN_CHARACTERS_MIN: usize = 16;

const TOKEN_CHARACTERS_MAX: usize = 512;
const NAME_CHARACTERS_MAX: usize = 64;

/// Who may use the API.
#[derive(Clone)]
pub struct AdminTokens(Vec<(String, [u8; 32])>);

impl fmt::Debug for AdminTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Why the text is no token file. Lines count from 1; no token is ever shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// A line of another form.
    #[error("line {line} is not NAME:TOKEN")]
    Form {
        /// The line.
        line: usize,
    },
    /// A name that an audit log should not hold.
    #[error("the name in line {line} is not 1 to {NAME_CHARACTERS_MAX} visible ASCII characters")]
    Name {
        /// The line.
        line: usize,
    },
    /// A token that is short, or cannot stand in a header.
    #[error(
        "the token in line {line} is not {TOKEN_CHARACTERS_MIN} to {TOKEN_CHARACTERS_MAX} visible \
         ASCII characters; `openssl rand -hex 32` makes a good one"
    )]
    Token {
        /// The line.
        line: usize,
    },
    /// The same name or the same token twice: the audit log could not tell who it was.
    #[error("the name or the token in line {line} was given before")]
    Duplicate {
        /// The line of the second one.
        line: usize,
    },
    /// None at all.
    #[error("there is no line NAME:TOKEN in it")]
    Empty,
}

/// The names and tokens in the text of a token file.
///
/// # Errors
///
/// [`TokenFileError`].
pub fn parse_tokens(text: &str) -> Result<Vec<(String, String)>, TokenFileError> {
    let mut tokens: Vec<(String, String)> = Vec::new();
    for (line, content) in (1..).zip(text.lines().map(str::trim)) {
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let (name, token) = content.split_once(':').ok_or(TokenFileError::Form { line })?;
        let visible = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if name.is_empty() || name.len() > NAME_CHARACTERS_MAX || !visible(name) {
            return Err(TokenFileError::Name { line });
        }
        let lengths = TOKEN_CHARACTERS_MIN..=TOKEN_CHARACTERS_MAX;
        if !lengths.contains(&token.len()) || !visible(token) {
            return Err(TokenFileError::Token { line });
        }
        if tokens.iter().any(|(other, secret)| other == name || secret == token) {
            return Err(TokenFileError::Duplicate { line });
        }
        tokens.push((name.to_owned(), token.to_owned()));
    }
    if tokens.is_empty() { Err(TokenFileError::Empty) } else { Ok(tokens) }
}

impl AdminTokens {
    /// Those of the text of a token file.
    ///
    /// # Errors
    ///
    /// [`TokenFileError`].
    pub fn parse_file(text: &str) -> Result<Self, TokenFileError> {
        let hashed = |(name, token): (String, String)| (name, Sha256::digest(token).into());
        Ok(Self(parse_tokens(text)?.into_iter().map(hashed).collect()))
    }

    /// Whose token this is. Takes the same time for every token, whether it is one or not.
    #[must_use]
    pub fn name_of(&self, token: &[u8]) -> Option<&str> {
        let presented: [u8; 32] = Sha256::digest(token).into();
        let mut found = None;
        for (name, hash) in &self.0 {
            if bool::from(hash.ct_eq(&presented)) {
                found = Some(name.as_str());
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_name() {
        let text = "# a comment\n\nanna:0123456789abcdef\r\n bob:a:b:c:d:e:f:g:h:i \n";
        let tokens = AdminTokens::parse_file(text).unwrap();
        assert_eq!(tokens.name_of(b"0123456789abcdef"), Some("anna"));
        assert_eq!(tokens.name_of(b"a:b:c:d:e:f:g:h:i"), Some("bob"));
        for wrong in [&b""[..], b"anna", b"0123456789abcde", b"0123456789abcdef ", b"\xff"] {
            assert_eq!(tokens.name_of(wrong), None);
        }
        assert_eq!(format!("{tokens:?}"), "[\"anna\", \"bob\"]");
    }

    #[test]
    fn errors_name_the_line_and_no_token() {
        let cases = [
            ("", TokenFileError::Empty),
            ("# nothing\n", TokenFileError::Empty),
            ("\n0123456789abcdef", TokenFileError::Form { line: 2 }),
            (":0123456789abcdef", TokenFileError::Name { line: 1 }),
            ("an na:0123456789abcdef", TokenFileError::Name { line: 1 }),
            ("anna:0123456789abcde", TokenFileError::Token { line: 1 }),
            ("anna: 0123456789abcdef", TokenFileError::Token { line: 1 }),
            ("a:0123456789abcdef\na:0123456789abcdeF", TokenFileError::Duplicate { line: 2 }),
            ("a:0123456789abcdef\nb:0123456789abcdef", TokenFileError::Duplicate { line: 2 }),
        ];
        for (text, expected) in cases {
            let error = AdminTokens::parse_file(text).unwrap_err();
            assert_eq!(error, expected, "for {text:?}");
            assert!(!error.to_string().contains("0123"), "{error}");
        }
    }
}

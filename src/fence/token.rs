//! Fencing tokens and operation ids.
//!
//! A token is the number that a lock service hands out with a lock: larger is newer. This file
//! parses and prints them; it does *not* know where in a request a token rides (`pipeline`).

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// A fencing token: `1 ..= 2^64 - 1`, larger is newer. Zero means "no token" and is not a value of
/// this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(NonZeroU64);

/// Why a string is not a [`Token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Nothing was given.
    Empty,
    /// A character is not an ASCII digit: a sign, white space, a point, hexadecimal.
    NotDecimal,
    /// Zero, which means "no token".
    Zero,
    /// More than `2^64 - 1`.
    TooLarge,
}

impl Token {
    /// The token `value`, or `None` for zero.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        match NonZeroU64::new(value) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl FromStr for Token {
    type Err = TokenError;

    /// Decimal digits only; leading zeros are accepted, everything else is refused.
    fn from_str(text: &str) -> Result<Self, TokenError> {
        if text.is_empty() {
            return Err(TokenError::Empty);
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(TokenError::NotDecimal);
        }
        let value = text.parse::<u64>().map_err(|_| TokenError::TooLarge)?;
        Self::new(value).ok_or(TokenError::Zero)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::NotDecimal => "it is not a decimal number",
            Self::Zero => "it is zero, and zero means no token",
            Self::TooLarge => "it is larger than 18446744073709551615",
        })
    }
}

impl std::error::Error for TokenError {}

/// A random id of one client operation, stamped on the object that it writes (F10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(u128);

impl OperationId {
    /// The id with these 128 bits; they have to be random for ids not to repeat.
    #[must_use]
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for OperationId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_u64_and_nothing_else() {
        assert_eq!("1".parse(), Ok(Token::new(1).unwrap()));
        assert_eq!("0000042".parse(), Ok(Token::new(42).unwrap()));
        assert_eq!("18446744073709551615".parse(), Ok(Token::new(u64::MAX).unwrap()));
        let bad = [
            ("", TokenError::Empty),
            ("0", TokenError::Zero),
            ("000", TokenError::Zero),
            ("+1", TokenError::NotDecimal),
            ("-1", TokenError::NotDecimal),
            (" 1", TokenError::NotDecimal),
            ("1 ", TokenError::NotDecimal),
            ("1 2", TokenError::NotDecimal),
            ("1.0", TokenError::NotDecimal),
            ("1e3", TokenError::NotDecimal),
            ("0x1f", TokenError::NotDecimal),
            ("\u{0661}", TokenError::NotDecimal),
            ("1_000", TokenError::NotDecimal),
            ("18446744073709551616", TokenError::TooLarge),
            ("99999999999999999999999999", TokenError::TooLarge),
        ];
        for (text, error) in bad {
            assert_eq!(text.parse::<Token>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn operation_ids_round_trip() {
        let id = OperationId::new(0x1234);
        assert_eq!(id.to_string().len(), 32);
        assert_eq!(id.to_string().parse(), Ok(id));
    }
}

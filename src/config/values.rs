//! The kinds of value a setting can have: numbers with a range and a unit, addresses, names.
//!
//! A value that parsed is a value that is allowed: the range is part of the type, so no code
//! behind the configuration has to test it again. What depends on *two* settings is checked in
//! [`super::validate`].

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::de::{self, Deserializer, Unexpected, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A whole number from `MIN` to `MAX`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Count<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Count<MIN, MAX> {
    /// Holds `value`.
    ///
    /// # Panics
    ///
    /// When `value` is outside of the range; meant for constants.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        assert!(MIN <= value && value <= MAX, "a default lies within its own range");
        Self(value)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number, for sizes in memory; saturates where addresses have fewer than 64 bits.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// The number, for ranges that lie within 32 bits; saturates where they do not.
    #[must_use]
    pub fn as_u32(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(InRange { min: MIN, max: MAX, unit: "" }).map(Self)
    }
}

/// A time in whole seconds, from `MIN` to `MAX`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Seconds<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Seconds<MIN, MAX> {
    /// Holds `seconds`.
    ///
    /// # Panics
    ///
    /// When `seconds` is outside of the range; meant for constants.
    #[must_use]
    pub const fn new(seconds: u64) -> Self {
        assert!(MIN <= seconds && seconds <= MAX, "a default lies within its own range");
        Self(seconds)
    }

    /// The time.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Seconds<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(InRange { min: MIN, max: MAX, unit: " seconds" }).map(Self)
    }
}

/// A time in whole milliseconds, from `MIN` to `MAX`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Milliseconds<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Milliseconds<MIN, MAX> {
    /// Holds `milliseconds`.
    ///
    /// # Panics
    ///
    /// When `milliseconds` is outside of the range; meant for constants.
    #[must_use]
    pub const fn new(milliseconds: u64) -> Self {
        assert!(MIN <= milliseconds && milliseconds <= MAX, "a default lies within its own range");
        Self(milliseconds)
    }

    /// The time.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Milliseconds<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_u64(InRange { min: MIN, max: MAX, unit: " milliseconds" })
            .map(Self)
    }
}

struct InRange {
    min: u64,
    max: u64,
    unit: &'static str,
}

impl Visitor<'_> for InRange {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {} to {}{}", self.min, self.max, self.unit)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<u64, E> {
        if (self.min..=self.max).contains(&value) {
            Ok(value)
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(value), &self))
        }
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<u64, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(value), &self)),
        }
    }
}

/// What a text value must look like, and how it is read.
pub(super) trait FromText: Sized {
    /// Completes the sentence "expected …".
    const EXPECTED: &'static str;

    /// Whether a wrong value may be repeated in the error; not where it could hold a password.
    const MAY_BE_SHOWN: bool = true;

    /// `None` when `text` is not of that form.
    fn from_text(text: &str) -> Option<Self>;
}

/// For `#[serde(deserialize_with)]` and hand-written `Deserialize`: a string that is parsed.
pub(super) fn from_text<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromText,
    D: Deserializer<'de>,
{
    struct Text<T>(std::marker::PhantomData<T>);
    impl<T: FromText> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(T::EXPECTED)
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            let shown =
                if T::MAY_BE_SHOWN { Unexpected::Str(text) } else { Unexpected::Other("URL") };
            T::from_text(text).ok_or_else(|| E::invalid_value(shown, &self))
        }
    }
    deserializer.deserialize_str(Text(std::marker::PhantomData))
}

impl FromText for SocketAddr {
    const EXPECTED: &'static str = "an IP address and port, such as 127.0.0.1:9000 or [::1]:9000";

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// A setting that may be unset: an empty string stands for "not set", so that every setting has
/// a line in the file and a variable can clear what the file sets.
pub(super) mod optional {
    use super::{Deserialize, Deserializer, Serialize, Serializer, de};
    use serde::de::IntoDeserializer;

    pub(in crate::config) fn serialize<T, S>(value: &Option<T>, out: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize,
        S: Serializer,
    {
        match value {
            Some(value) => value.serialize(out),
            None => out.serialize_str(""),
        }
    }

    pub(in crate::config) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(None);
        }
        let text: de::value::StringDeserializer<D::Error> = text.into_deserializer();
        T::deserialize(text).map(Some)
    }
}

//! Which settings there are, learnt from the structs themselves.
//!
//! A derived `Deserialize` tells the format which fields its struct has. [`fields_of`] is a
//! format that remembers this answer and nothing else, so there is no second list of keys that
//! could differ from the code.

use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};
use toml::Value;

use super::{
    AdminConfig, AuthConfig, BackendConfig, BucketRule, Config, FenceConfig, LedgerConfig,
    LimitsConfig, ScopeRule, TlsConfig,
};

/// What the variables' names begin with.
pub(super) const VARIABLE_PREFIX: &str = "FENCEPOST_";

type Fields = &'static [&'static str];

/// The tables of the file, and what each may hold.
pub(super) static SECTIONS: LazyLock<[(&str, Fields); 7]> = LazyLock::new(|| {
    [
        ("tls", fields_of::<TlsConfig>()),
        ("backend", fields_of::<BackendConfig>()),
        ("auth", fields_of::<AuthConfig>()),
        ("admin", fields_of::<AdminConfig>()),
        ("ledger", fields_of::<LedgerConfig>()),
        ("fence", fields_of::<FenceConfig>()),
        ("limits", fields_of::<LimitsConfig>()),
    ]
});

/// The tables that may be given many times, and what each may hold.
pub(super) static LISTS: LazyLock<[(&str, Fields); 2]> =
    LazyLock::new(|| [("bucket", fields_of::<BucketRule>()), ("scope", fields_of::<ScopeRule>())]);

/// All settings, in the order of the file.
static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let defaults = Value::try_from(Config::default()).expect("the defaults can be written");
    let setting = |key: String| {
        let default = key.split('.').try_fold(&defaults, |table, part| table.get(part));
        let kind = match default {
            Some(Value::Integer(_)) => Kind::Number,
            Some(Value::Boolean(_)) => Kind::Flag,
            Some(Value::Array(_)) => Kind::Names,
            Some(Value::String(_)) => Kind::Text,
            // The lists are left out of the defaults because they are empty.
            Some(Value::Float(_) | Value::Datetime(_) | Value::Table(_)) | None => Kind::Rules,
        };
        Setting { key, kind }
    };
    let is_section = |name: &str| SECTIONS.iter().any(|(section, _)| *section == name);
    let top = fields_of::<Config>().iter().filter(|name| !is_section(name));
    let nested = SECTIONS
        .iter()
        .flat_map(|(section, keys)| keys.iter().map(move |key| format!("{section}.{key}")));
    top.map(|key| (*key).to_owned()).chain(nested).map(setting).collect()
});

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// `section.key`, or just `key` at the top.
    pub key: String,
    /// How its value is written where all is text: in variables and flags.
    pub kind: Kind,
}

impl Setting {
    /// The variable that sets it.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.key.replace('.', "_").to_ascii_uppercase())
    }
}

/// How a value is written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As it is.
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Flag,
    /// Texts with commas between them.
    Names,
    /// A TOML array of tables: `[{ name = "photos", tags = "unique" }]`.
    Rules,
}

/// All settings, in the order of the file.
#[must_use]
pub fn settings() -> &'static [Setting] {
    &SETTINGS
}

/// The setting of that name.
pub(super) fn setting(key: &str) -> Option<&'static Setting> {
    settings().iter().find(|setting| setting.key == key)
}

/// `known` without those that look nothing like `given`, the closest one.
pub(super) fn closest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Two of five letters may differ; `lisen` is `listen`, `colour` is nothing.
    const LIKENESS_MIN: f64 = 0.6;
    known
        .map(|name| (strsim::normalized_damerau_levenshtein(given, name), name))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

/// Says that a key is unknown, and what may have been meant.
pub(super) fn unknown<'a>(
    key: &str,
    section: &str,
    known: impl Iterator<Item = &'a str>,
) -> String {
    if let Some(close) = closest(key, known) {
        return format!("is not a setting; did you mean {close}?");
    }
    let leaf = |setting: &&Setting| setting.key.rsplit('.').next() == Some(key);
    match settings().iter().find(leaf) {
        Some(elsewhere) => format!("is not a setting here; did you mean {}?", elsewhere.key),
        None if section.is_empty() => "is not a setting".to_owned(),
        None => format!("is not a setting of [{section}]"),
    }
}

/// The fields of a struct that derives `Deserialize`.
pub(super) fn fields_of<'de, T: Deserialize<'de>>() -> Fields {
    let mut fields: Fields = &[];
    let refused = T::deserialize(Recorder(&mut fields));
    debug_assert!(refused.is_err(), "the recorder has no values to give");
    fields
}

struct Recorder<'a>(&'a mut Fields);

impl<'de> Deserializer<'de> for Recorder<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: Fields,
        _visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("the fields are recorded"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

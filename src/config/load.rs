//! From the file, the environment and the flags to a [`Config`], or to all that is wrong.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::Deserialize as _;
use toml::de::{DeValue, ValueDeserializer};
use toml::{Table, Value};

use super::environment::{CLIENT_VARIABLES, Environment};
use super::file::{ConfigFile, Reader};
use super::flags::FlagSetting;
use super::problem::{ConfigError, Origin, Problem};
use super::schema::{self, Kind};
use super::{Config, GoogleCredentials, validate};

/// What the configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A proxy before a real store: needs `backend.url`.
    Serve,
    /// Anything else.
    Other,
}

/// Where settings may come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file, if there is one.
    pub file: Option<ConfigFile>,
    /// The variables.
    pub environment: Environment,
    /// The flags, the ones that win last.
    pub flags: Vec<FlagSetting>,
}

/// One setting that somebody gave.
pub(super) struct Given {
    pub(super) key: String,
    pub(super) value: Value,
    pub(super) origin: Origin,
}

impl Config {
    /// Merges the sources over the defaults and checks the result.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, not only the first. Rules between settings are checked once
    /// every single value is right.
    pub fn load(sources: &Sources, purpose: Purpose) -> Result<Self, ConfigError> {
        let mut problems = Vec::new();
        let mut given = Vec::new();
        if let Some(file) = &sources.file {
            Reader { file, given: &mut given, problems: &mut problems }.read();
        }
        read_environment(&sources.environment, &mut given, &mut problems);
        read_flags(&sources.flags, &mut given, &mut problems);

        let mut merged = Table::new();
        let mut origins = HashMap::new();
        for Given { key, value, origin } in given {
            // Alone over the defaults, so that a wrong value is blamed on who gave it, even if
            // somebody else overrides it.
            match Self::deserialize(Value::Table(nested(&key, value.clone()))) {
                Ok(_) => {
                    overlay(&mut merged, &key, value);
                    origins.insert(key, origin);
                }
                Err(error) => problems.push(Problem {
                    origin,
                    key: Some(key),
                    message: error.message().to_owned(),
                }),
            }
        }
        let mut config = Self::deserialize(Value::Table(merged))
            .expect("settings that are right one by one are right together");
        if config.backend.google_credentials == GoogleCredentials::Oauth
            && config.backend.google_service_account_file.is_none()
        {
            let file = sources.environment.google_credentials().map(PathBuf::from);
            config.backend.google_service_account_file = file;
        }
        if problems.is_empty() {
            problems.extend(validate::broken_rules(&config).into_iter().map(|broken| Problem {
                origin: origins.get(broken.key).cloned().unwrap_or(Origin::Nowhere),
                key: Some(broken.key.to_owned()),
                message: broken.message,
            }));
        }
        if purpose == Purpose::Serve
            && config.backend.url.is_none()
            && !problems.iter().any(|problem| problem.key.as_deref() == Some("backend.url"))
        {
            problems.push(validate::backend_url_missing());
        }
        problems.sort_by_key(|problem| problem.origin.rank());
        ConfigError::unless_empty(problems, config)
    }
}

fn read_environment(
    environment: &Environment,
    given: &mut Vec<Given>,
    problems: &mut Vec<Problem>,
) {
    let names: Vec<_> = schema::settings().iter().map(schema::Setting::variable).collect();
    for (name, text) in environment.settings().filter(|(name, _)| *name != super::flags::CONFIG) {
        let origin = Origin::Variable(name.to_owned());
        let Some(index) = names.iter().position(|known| known == name) else {
            let hint = closest_variable(name, &names)
                .map_or_else(String::new, |close| format!("; did you mean {close}?"));
            // The value stays out of the message: it might be a secret.
            let message = format!("is not the variable of a setting{hint}");
            problems.push(Problem { origin, key: None, message });
            continue;
        };
        give_text(&schema::settings()[index].key, text, origin, given, problems);
    }
}

/// Without the prefix, which would make any two names look alike.
fn closest_variable(name: &str, known: &[String]) -> Option<String> {
    let bare = |name| str::strip_prefix(name, schema::VARIABLE_PREFIX).unwrap_or(name);
    let others = CLIENT_VARIABLES.into_iter().chain([super::flags::CONFIG]);
    let all = known.iter().map(String::as_str).chain(others);
    schema::closest(bare(name), all.map(bare))
        .map(|close| format!("{}{close}", schema::VARIABLE_PREFIX))
}

fn read_flags(flags: &[FlagSetting], given: &mut Vec<Given>, problems: &mut Vec<Problem>) {
    for FlagSetting { flag, key, text } in flags {
        let origin = Origin::Flag(flag.clone());
        if schema::setting(key).is_some() {
            give_text(key, text, origin, given, problems);
        } else {
            let all = schema::settings().iter().map(|setting| setting.key.as_str());
            let message = schema::unknown(key, "", all);
            problems.push(Problem { origin, key: Some(key.clone()), message });
        }
    }
}

/// A value written as text, as variables and flags have it.
fn give_text(
    key: &str,
    text: &str,
    origin: Origin,
    given: &mut Vec<Given>,
    problems: &mut Vec<Problem>,
) {
    let kind = schema::setting(key).map_or(Kind::Text, |setting| setting.kind);
    let value = match kind {
        Kind::Text => Ok(Value::String(text.to_owned())),
        // Not a number: the setting's own type says what it expects.
        Kind::Number => {
            Ok(text.trim().parse().map_or(Value::String(text.to_owned()), Value::Integer))
        }
        Kind::Flag => {
            Ok(text.trim().parse().map_or(Value::String(text.to_owned()), Value::Boolean))
        }
        Kind::Names => {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            Ok(Value::Array(names.map(|name| Value::String(name.to_owned())).collect()))
        }
        Kind::Rules => DeValue::parse(text)
            .and_then(|value| Value::deserialize(ValueDeserializer::from(value))),
    };
    match value {
        Ok(value) => given.push(Given { key: key.to_owned(), value, origin }),
        Err(error) => {
            let message =
                format!("{}, expected a TOML array such as [{{ … = \"…\" }}]", error.message());
            problems.push(Problem { origin, key: Some(key.to_owned()), message });
        }
    }
}

/// `a.b` and a value: `{ a: { b: value } }`.
fn nested(key: &str, value: Value) -> Table {
    let mut table = Table::new();
    overlay(&mut table, key, value);
    table
}

/// Puts `value` at `key`, in place of what is there.
fn overlay(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((section, key)) => {
            let inner = table
                .entry(section.to_owned())
                .or_insert_with(|| Value::Table(Table::new()))
                .as_table_mut()
                .expect("only settings are overlaid, and no setting is a section");
            overlay(inner, key, value);
        }
    }
}

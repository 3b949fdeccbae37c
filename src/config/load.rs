//! From the file, the environment and the flags to a [`Config`], or to all that is wrong.

use std::collections::HashMap;
use std::path::Path;
use std::{fs, io};

use serde::Deserialize as _;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};

use super::environment::Environment;
use super::flags::FlagSetting;
use super::problem::{ConfigError, Origin, Problem};
use super::schema::{self, Kind, LISTS, SECTIONS};
use super::{BucketRule, Config, ScopeRule, validate};

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

/// A configuration file that has been read.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// How the user named it; used in messages.
    pub name: String,
    /// Its content.
    pub text: String,
}

impl ConfigFile {
    /// Reads `path`.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        fs::read_to_string(path).map(|text| Self { name: name.clone(), text }).map_err(|error| {
            let message = if error.kind() == io::ErrorKind::NotFound {
                "there is no such file".to_owned()
            } else {
                format!("cannot be read: {error}")
            };
            Problem { origin: Origin::File { name, line: 0 }, key: None, message }.into()
        })
    }
}

/// One setting that somebody gave.
struct Given {
    key: String,
    value: Value,
    origin: Origin,
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
        let config = Self::deserialize(Value::Table(merged))
            .expect("settings that are right one by one are right together");
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
        ConfigError::unless_empty(problems, config)
    }
}

/// Takes a file apart into its settings.
struct Reader<'a> {
    file: &'a ConfigFile,
    given: &'a mut Vec<Given>,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn read(&mut self) {
        let document = match DeTable::parse(&self.file.text) {
            Ok(document) => document.into_inner(),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                return self.problem(at, None, format!("not TOML: {}", error.message()));
            }
        };
        let mut entries: Vec<_> = document.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let (at, name) = (key.span().start, key.into_inner().into_owned());
            if let Some((_, known)) = SECTIONS.iter().find(|(section, _)| *section == name) {
                self.section(at, &name, known, value);
            } else if let Some((_, known)) = LISTS.iter().find(|(list, _)| *list == name) {
                self.list(at, &name, known, value);
            } else if schema::setting(&name).is_some() {
                self.give(at, name, value);
            } else {
                let sections = SECTIONS.iter().map(|(name, _)| *name);
                let lists = LISTS.iter().map(|(name, _)| *name);
                let top = schema::settings().iter().map(|setting| setting.key.as_str());
                let top = top.filter(|key| !key.contains('.'));
                let message = unknown(&name, "", sections.chain(lists).chain(top));
                self.problem(at, Some(name), message);
            }
        }
    }

    fn section(&mut self, at: usize, name: &str, known: &[&str], value: Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = value.into_inner() else {
            let message = format!("is a section: write [{name}], and its settings below");
            return self.problem(at, Some(name.to_owned()), message);
        };
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let (at, key) = (key.span().start, key.into_inner());
            let path = format!("{name}.{key}");
            if known.contains(&key.as_ref()) {
                self.give(at, path, value);
            } else {
                self.problem(at, Some(path), unknown(&key, name, known.iter().copied()));
            }
        }
    }

    /// `[[bucket]]` and `[[scope]]`: the keys and values of every entry are looked at one by one,
    /// the list is given as a whole.
    fn list(&mut self, at: usize, name: &str, known: &[&str], value: Spanned<DeValue<'_>>) {
        let DeValue::Array(entries) = value.get_ref() else {
            let message = format!("is a list: write [[{name}]] for every entry");
            return self.problem(at, Some(name.to_owned()), message);
        };
        let before = self.problems.len();
        for entry in entries {
            let DeValue::Table(table) = entry.get_ref() else {
                let message = format!("is a list of tables: write [[{name}]] for every entry");
                self.problem(entry.span().start, Some(name.to_owned()), message);
                continue;
            };
            let strangers = self.problems.len();
            for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
                let path = format!("{name}.{}", key.get_ref());
                let message = unknown(key.get_ref(), name, known.iter().copied());
                self.problem(key.span().start, Some(path), message);
            }
            if self.problems.len() > strangers {
                continue;
            }
            let deserializer = ValueDeserializer::from(entry.clone());
            let read = match name {
                "bucket" => BucketRule::deserialize(deserializer).err(),
                _ => ScopeRule::deserialize(deserializer).err(),
            };
            if let Some(error) = read {
                let wrong = error.span();
                let key = table.iter().find(|(_, value)| Some(value.span()) == wrong);
                let path =
                    key.map_or(name.to_owned(), |(key, _)| format!("{name}.{}", key.get_ref()));
                let at = wrong.map_or(entry.span().start, |span| span.start);
                self.problem(at, Some(path), error.message().to_owned());
            }
        }
        if self.problems.len() == before {
            self.give(at, name.to_owned(), value);
        }
    }

    fn give(&mut self, at: usize, key: String, value: Spanned<DeValue<'_>>) {
        let origin = self.at(at);
        match Value::deserialize(ValueDeserializer::from(value)) {
            Ok(value) => self.given.push(Given { key, value, origin }),
            Err(error) => self.problem(at, Some(key), error.message().to_owned()),
        }
    }

    fn problem(&mut self, at: usize, key: Option<String>, message: String) {
        self.problems.push(Problem { origin: self.at(at), key, message });
    }

    fn at(&self, offset: usize) -> Origin {
        let before = self.file.text.as_bytes().iter().take(offset);
        let line = 1 + before.filter(|b| **b == b'\n').count();
        Origin::File { name: self.file.name.clone(), line }
    }
}

fn read_environment(
    environment: &Environment,
    given: &mut Vec<Given>,
    problems: &mut Vec<Problem>,
) {
    let names: Vec<_> = schema::settings().iter().map(schema::Setting::variable).collect();
    for (name, text) in environment.iter().filter(|(name, _)| *name != super::flags::CONFIG) {
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
    let all = known.iter().map(String::as_str).chain([super::flags::CONFIG]);
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
            let message = unknown(key, "", all);
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

/// Says that a key is unknown, and what may have been meant.
fn unknown<'a>(key: &str, section: &str, known: impl Iterator<Item = &'a str>) -> String {
    if let Some(close) = schema::closest(key, known) {
        return format!("is not a setting; did you mean {close}?");
    }
    let leaf = |setting: &&schema::Setting| setting.key.rsplit('.').next() == Some(key);
    match schema::settings().iter().find(leaf) {
        Some(elsewhere) => format!("is not a setting here; did you mean {}?", elsewhere.key),
        None if section.is_empty() => "is not a setting".to_owned(),
        None => format!("is not a setting of [{section}]"),
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

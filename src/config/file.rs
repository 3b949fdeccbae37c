//! The file: read, taken apart into its settings, each with its line.

use std::path::Path;
use std::{fs, io};

use serde::Deserialize as _;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Value};

use super::load::Given;
use super::problem::{ConfigError, Origin, Problem};
use super::schema::{self, LISTS, SECTIONS, unknown};
use super::{BucketRule, ScopeRule};

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

/// Takes a file apart into its settings.
pub(super) struct Reader<'a> {
    pub(super) file: &'a ConfigFile,
    pub(super) given: &'a mut Vec<Given>,
    pub(super) problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    pub(super) fn read(&mut self) {
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

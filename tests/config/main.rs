//! The configuration as a user meets it: the sample file, precedence, and what errors say.
//! This file has what the tests in its modules share.

#![expect(clippy::unwrap_used, reason = "a test may end at the first surprise")]

mod command;
mod errors;
mod sample;
mod sources;

use fencepost::config::flags::FlagSetting;
use fencepost::config::{Config, ConfigFile, Environment, Purpose, Sources};

const SAMPLE: &str = include_str!("../../config/fencepost.toml");

/// What is wrong with these sources, one line a problem, in order.
fn problems(sources: &Sources, purpose: Purpose) -> Vec<String> {
    match Config::load(sources, purpose) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems().iter().map(ToString::to_string).collect(),
    }
}

fn file(text: &str) -> Sources {
    let file = ConfigFile { name: "test.toml".to_owned(), text: text.to_owned() };
    Sources { file: Some(file), ..Sources::default() }
}

fn in_file(text: &str) -> Vec<String> {
    problems(&file(text), Purpose::Other)
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn variables(variables: &[(&str, &str)]) -> Sources {
    Sources { environment: environment(variables), ..Sources::default() }
}

fn set(key: &str, text: &str) -> FlagSetting {
    FlagSetting { flag: "--set".to_owned(), key: key.to_owned(), text: text.to_owned() }
}

/// The sample with every setting's line in force.
fn uncommented() -> String {
    let is_setting = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    let line = |line: &'static str| match line.strip_prefix('#') {
        Some(rest) if is_setting(rest) => rest,
        Some(_) | None => line,
    };
    SAMPLE.lines().map(line).collect::<Vec<_>>().join("\n")
}

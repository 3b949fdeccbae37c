//! `config/fencepost.toml` and the code say the same.

use std::collections::BTreeSet;

use fencepost::config::{
    AuthMode, Compare, Config, FenceMode, Kind, Purpose, Sources, StaleStatus, Tags, settings,
};

use crate::{SAMPLE, environment, file, uncommented};

#[test]
fn the_sample_shows_the_defaults() {
    let as_it_is = Config::load(&file(SAMPLE), Purpose::Other).unwrap();
    assert_eq!(as_it_is, Config::default());
    let all_lines = Config::load(&file(&uncommented()), Purpose::Other).unwrap();
    assert_eq!(all_lines, Config::default());
}

#[test]
fn the_sample_shows_every_setting_once() {
    let table: toml::Table = uncommented().parse().unwrap();
    let mut shown = BTreeSet::new();
    for (name, value) in &table {
        match value.as_table() {
            Some(section) => shown.extend(section.keys().map(|key| format!("{name}.{key}"))),
            None => {
                shown.insert(name.clone());
            }
        }
    }
    let known: BTreeSet<_> = settings()
        .iter()
        .filter(|setting| setting.kind != Kind::Rules)
        .map(|setting| setting.key.clone())
        .collect();
    assert_eq!(shown, known);
}

#[test]
fn the_examples_in_the_sample_show_every_key_of_a_rule() {
    let examples: String = SAMPLE
        .lines()
        .filter_map(|line| line.strip_prefix("#     "))
        .flat_map(|line| [line, "\n"])
        .collect();
    let config = Config::load(&file(&examples), Purpose::Other).unwrap();
    let [bucket] = &config.buckets[..] else { panic!("one bucket: {config:?}") };
    assert_eq!(bucket.tags, Tags::Unique);
    assert_eq!(bucket.mode, Some(FenceMode::Require));
    assert_eq!(bucket.compare, Some(Compare::StrictlyGreater));
    let [scope] = &config.scopes[..] else { panic!("one scope: {config:?}") };
    assert_eq!((scope.prefix.as_str(), scope.mode), ("scratch/", Some(FenceMode::Off)));
}

#[test]
fn the_default_is_safe_without_any_configuration() {
    let config = Config::load(&Sources::default(), Purpose::Other).unwrap();
    assert_eq!(config, Config::default());
    assert!(config.listen.ip().is_loopback() && config.admin_listen.ip().is_loopback());
    assert_eq!(config.auth.mode, AuthMode::Sigv4);
    assert_eq!(config.fence.mode, FenceMode::IfFenced);
    assert_eq!(config.fence.stale_status, StaleStatus::Conflict);
    assert!(!config.ledger.create);
}

#[test]
fn the_printed_configuration_reads_back_to_itself() {
    let mut sources = file(&uncommented());
    sources.environment = environment(&[
        ("FENCEPOST_BACKEND_URL", "https://store.test"),
        ("FENCEPOST_BUCKET", "[{ name = \"photos\", mode = \"off\" }]"),
        ("FENCEPOST_SCOPE", "[{ bucket = \"photos\", prefix = \"a\\\"b\" }]"),
        ("FENCEPOST_HOST_SUFFIXES", "a.test,b.test"),
    ]);
    let config = Config::load(&sources, Purpose::Serve).unwrap();
    let printed = config.to_toml();
    let again = Config::load(&file(&printed), Purpose::Serve).unwrap();
    assert_eq!(again, config, "{printed}");
}

//! `docs/stores.md`: its tables are those that the inputs in `docs/stores` give.
//!
//! The inputs are reports of `fencepost doctor --json` over stores that were run, and a list of
//! what was read about others. The prose of the page is written by hand. Whether a store still does
//! what its report says is tested by `tests/stores`, not here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use fencepost::devstore::Profile;
use fencepost::doctor::report::{
    BucketReport, Depth, FORMAT, Operation, Plan, Report, TagsFound, Versioning,
};
use serde::Deserialize;

const BEGIN: &str = "<!-- written by `FENCEPOST_TEST_WRITE_DOCS=1 cargo test --test docs` -->";
const END: &str = "<!-- end -->";

/// `docs/stores/sources.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sources {
    examined: Vec<Examined>,
    read: Vec<Read>,
}

/// A store that was run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Examined {
    file: String,
    store: String,
}

/// A store of which something was read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    store: String,
    put: Expected,
    complete: Expected,
    copy: Expected,
    delete: Expected,
    delete_objects: Expected,
    tags: String,
    sure: Sure,
    /// The embedded store's profile that does the same.
    profile: Option<String>,
    notes: String,
    sources: Vec<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Expected {
    Conditional,
    Exclusive,
    Refused,
    #[serde(rename = "?")]
    Unknown,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Sure {
    H,
    M,
    L,
}

impl Expected {
    fn shown(self) -> &'static str {
        match self {
            Self::Conditional => shown(Plan::Conditional),
            Self::Exclusive => shown(Plan::Exclusive),
            Self::Refused => shown(Plan::Refused),
            Self::Unknown => "?",
        }
    }
}

fn shown(plan: Plan) -> &'static str {
    match plan {
        Plan::Conditional => "conditional",
        Plan::Exclusive => "exclusive",
        Plan::Refused => "**refused**",
    }
}

fn folder() -> PathBuf {
    Path::new(super::ROOT).join("docs/stores")
}

fn sources() -> Sources {
    let text = fs::read_to_string(folder().join("sources.toml")).expect("the sources can be read");
    toml::from_str(&text).expect("the sources are well-formed")
}

fn report(file: &str) -> Report {
    let text = fs::read_to_string(folder().join(file)).expect("the report can be read");
    let report: Report = serde_json::from_str(&text).expect("the report is one");
    assert_eq!(report.format, FORMAT, "{file} is of another format: run the doctor again");
    assert_eq!(report.depth, Depth::Full, "{file} is of a quick examination");
    report
}

/// The table of the stores that were run, a row for each bucket that differs.
fn examined(sources: &Sources) -> String {
    let mut text = String::from(
        "| store | bucket | PUT | Complete | Copy | DELETE | DeleteObjects | fence safe | tags |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for Examined { file, store } in &sources.examined {
        let report = report(file);
        let tags = match report.facts.tags {
            Some(TagsFound::Repeat) => "repeat",
            Some(TagsFound::Unique) => "unique",
            None => "not found out",
        };
        for bucket in &report.buckets {
            let put = bucket.verdicts.get(&Operation::Put).map(|verdict| verdict.plan);
            let safe = report.safe && put == Some(Plan::Conditional);
            let safe = if safe { "yes" } else { "**no**" };
            let kind = match bucket.versioning {
                Versioning::Off => "unversioned",
                Versioning::Enabled => "versioned",
                Versioning::Suspended => "versioning suspended",
                Versioning::Unknown => "does not say",
            };
            let row = row_of(bucket);
            writeln!(text, "| [{store}](stores/{file}) | {kind} | {row} | {safe} | {tags} |")
                .expect("a string can be written to");
        }
    }
    text.push('\n');
    for Examined { file, store } in &sources.examined {
        writeln!(text, "**{store}**").expect("a string can be written to");
        let report = report(file);
        for remark in &report.remarks {
            writeln!(text, "- {}", plain(remark)).expect("a string can be written to");
        }
        for bucket in &report.buckets {
            text.push_str(&reasons(bucket));
        }
        text.push('\n');
    }
    text
}

fn row_of(bucket: &BucketReport) -> String {
    let columns = [
        Operation::Put,
        Operation::Complete,
        Operation::Copy,
        Operation::Delete,
        Operation::DeleteObjects,
    ];
    let cell = |operation| bucket.verdicts.get(&operation).map_or("–", |one| shown(one.plan));
    columns.map(cell).join(" | ")
}

/// Why an operation is not conditional. Operations with the same reason share a line.
fn reasons(bucket: &BucketReport) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (operation, verdict) in &bucket.verdicts {
        if verdict.plan != Plan::Conditional {
            by_reason.entry(&verdict.because).or_default().push(operation.api_name());
        }
    }
    let kind = if bucket.versioning.keeps_versions() { ", versioned" } else { "" };
    by_reason.iter().fold(String::new(), |mut text, (because, operations)| {
        let operations = operations.join(", ");
        writeln!(text, "- {operations}{kind}: {}", plain(because))
            .expect("a string can be written to");
        text
    })
}

/// The table of what was read.
fn read(sources: &Sources) -> String {
    let mut text = String::from(
        "| store | PUT | Complete | Copy | DELETE | DeleteObjects | tags | sure | profile | notes \
         and sources |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for one in &sources.read {
        let plans = [one.put, one.complete, one.copy, one.delete, one.delete_objects];
        let plans = plans.map(Expected::shown).join(" | ");
        let profile = one.profile.as_deref().map_or(String::new(), |name| format!("`{name}`"));
        let (store, tags, sure, notes) = (&one.store, &one.tags, one.sure, &one.notes);
        let links: Vec<String> = one.sources.iter().map(|source| linked(source)).collect();
        let links = links.join(", ");
        writeln!(text, "| {store} | {plans} | {tags} | {sure:?} | {profile} | {notes}. {links} |")
            .expect("a string can be written to");
    }
    text
}

/// `https://… (where)` as a link.
fn linked(source: &str) -> String {
    match source.split_once(' ') {
        Some((url, place)) if url.starts_with("https://") => format!("<{url}> {place}"),
        None if source.starts_with("https://") => format!("<{source}>"),
        Some(_) | None => source.to_owned(),
    }
}

/// Text of a store, which may hold what Markdown takes for its own.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}

/// The page with `tables` between its markers.
fn with_tables(page: &str, tables: &[String; 2]) -> String {
    let mut parts = page.split(BEGIN);
    let mut text = parts.next().expect("a split has a first part").to_owned();
    for (part, table) in parts.zip(tables) {
        let (_, rest) = part.split_once(END).expect("what begins also ends");
        write!(text, "{BEGIN}\n\n{}\n\n{END}{rest}", table.trim_end())
            .expect("a string can be written to");
    }
    text
}

/// `FENCEPOST_TEST_WRITE_DOCS=1` writes them anew.
#[test]
fn the_tables_of_stores_are_what_the_inputs_give() {
    let path = Path::new(super::ROOT).join("docs/stores.md");
    let sources = sources();
    let tables = [examined(&sources), read(&sources)];
    let page = fs::read_to_string(&path).expect("the page can be read");
    assert_eq!(page.matches(BEGIN).count(), tables.len(), "a table each");
    let wanted = with_tables(&page, &tables);
    #[expect(clippy::disallowed_methods, reason = "a switch of the test, not of the proxy")]
    if std::env::var_os("FENCEPOST_TEST_WRITE_DOCS").is_some() {
        fs::write(&path, &wanted).expect("the page can be written");
        return;
    }
    assert!(page == wanted, "docs/stores.md is not what docs/stores gives: WRITE_DOCS=1");
}

#[test]
fn every_report_is_shown_and_every_profile_exists() {
    let sources = sources();
    let shown: Vec<&str> = sources.examined.iter().map(|one| one.file.as_str()).collect();
    for entry in fs::read_dir(folder()).expect("the folder can be read") {
        let name = entry.expect("the folder can be read").file_name();
        let name = name.to_string_lossy();
        assert!(!name.ends_with(".json") || shown.contains(&&*name), "{name} is not shown");
    }
    for one in &sources.read {
        if let Some(name) = &one.profile {
            assert!(name.parse::<Profile>().is_ok(), "{}: no profile {name}", one.store);
        }
    }
}

//! The rules of `docs/architecture.md` that the compiler does not know, checked by reading the
//! sources: which module may import which, who reads the clock and the environment, and what
//! every file owes its reader.
//!
//! It reads text, not syntax: comments and test modules are cut away first, and what is looked for
//! is plain enough to be found that way.

use std::fs;
use std::path::{Path, PathBuf};

const LINES_MAX: usize = 500;

/// A source file: its path below `src`, its whole text, and its text without comments and tests.
struct Source {
    path: String,
    text: String,
    code: String,
}

impl Source {
    /// Whether the file belongs to this top-level module.
    fn is_in(&self, module: &str) -> bool {
        self.path == format!("{module}.rs") || self.path.starts_with(&format!("{module}/"))
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.contains("/tests/")
    }

    /// Whether the code names this module of the crate, in any of the ways it can.
    fn imports(&self, module: &str) -> bool {
        let mut found = self.code.contains(&format!("crate::{module}::"))
            || self.code.contains(&format!("crate::{module};"))
            || self.code.contains(&format!("crate::{module} "));
        // `use crate::{a, b::c};`
        for list in self.code.split("crate::{").skip(1) {
            let list = list.split(';').next().unwrap_or_default();
            found |= words(list).any(|word| word == module);
        }
        found
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

fn files(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the sources can be listed") {
        let path = entry.expect("the sources can be listed").path();
        if path.is_dir() {
            files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// Without comments, and without what follows `#[cfg(test)]` up to the end of the file: tests are
/// at the bottom.
fn code(text: &str) -> String {
    let text = match text.find("#[cfg(test)]\nmod tests {") {
        Some(tests) => &text[..tests],
        None => text,
    };
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn sources(directory: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut paths = Vec::new();
    files(&root, &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "there are sources in {directory}");
    let source = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("sources are UTF-8");
        let path = path.strip_prefix(&root).expect("it was found there");
        let path = path.to_string_lossy().replace('\\', "/");
        Source { path, code: code(&text), text }
    };
    paths.into_iter().map(source).collect()
}

/// Fails with the paths of all sources that are against the rule.
fn nobody(rule: &str, against: impl Iterator<Item = String>) {
    let against: Vec<String> = against.collect();
    assert!(against.is_empty(), "{rule}:\n  {}", against.join("\n  "));
}

fn offenders(
    sources: &[Source],
    against: impl Fn(&Source) -> bool,
) -> impl Iterator<Item = String> {
    sources.iter().filter(move |source| against(source)).map(|source| source.path.clone())
}

#[test]
fn the_fence_imports_std_only() {
    let sources = sources("src");
    let foreign = |source: &Source| {
        source.is_in("fence")
            && source.code.lines().map(str::trim).any(|line| {
                let line = line.trim_start_matches("pub ").trim_start_matches("pub(super) ");
                let inside = ["use super", "use std::", "use self::", "use core::"];
                let own = ["use admission", "use attempt", "use effect", "use memory"]
                    .iter()
                    .chain(&["use permit", "use protocol", "use record", "use token"])
                    .chain(&["use unfenced", "use bearer", "use lease"]);
                line.starts_with("use ")
                    && !inside.iter().chain(own).any(|start| line.starts_with(start))
            })
            || source.is_in("fence") && source.code.contains("crate::")
    };
    nobody("fence/ is pure: `std` only", offenders(&sources, foreign));
    let impure =
        ["async ", "SystemTime", "Instant", "std::net", "std::fs", "std::env", "std::thread"];
    let impure = |source: &Source| {
        source.is_in("fence") && impure.iter().any(|word| source.code.contains(word))
    };
    nobody("fence/ neither waits, nor asks, nor knows the time", offenders(&sources, impure));
}

#[test]
fn imports_go_down_only() {
    let leaves = ["s3", "auth", "policy", "fence", "ledger", "upstream", "clock"];
    let above = ["pipeline", "listener", "admin", "config", "demo"];
    let sources = sources("src");
    for leaf in leaves {
        for module in above {
            let against = |source: &Source| source.is_in(leaf) && source.imports(module);
            nobody(&format!("{leaf} never imports {module}"), offenders(&sources, against));
        }
    }
    for leaf in ["s3", "auth", "policy"] {
        for module in ["ledger", "upstream"] {
            let against = |source: &Source| source.is_in(leaf) && source.imports(module);
            nobody(&format!("{leaf} never imports {module}"), offenders(&sources, against));
        }
    }
    // A proxy is no client of proxies. (The commands name the library by its name.)
    let against = |source: &Source| !source.is_in("client") && source.imports("client");
    nobody("nothing in the library imports client", offenders(&sources, against));
    for (leaf, only) in [("s3", &[][..]), ("policy", &["s3", "fence"])] {
        for module in ["auth", "policy", "fence", "telemetry", "s3"] {
            let allowed = leaf == module || only.contains(&module);
            let against =
                |source: &Source| !allowed && source.is_in(leaf) && source.imports(module);
            nobody(&format!("{leaf} never imports {module}"), offenders(&sources, against));
        }
    }
}

/// The codes that the fence answers with; whoever wants one asks `respond`.
#[test]
fn only_respond_knows_refusals() {
    let codes = [
        "StaleFenceToken",
        "FenceTokenRequired",
        "FenceUnsupportedOperation",
        "FenceContended",
        "FenceUnavailable",
        "FenceOutcomeUnknown",
    ];
    // The demo and the client are told those answers, they do not give them.
    let against = |source: &Source| {
        !source.path.starts_with("pipeline/respond")
            && !source.is_test()
            && !source.is_in("demo")
            && !source.is_in("client")
            && codes.iter().any(|code| source.code.contains(&format!("\"{code}\"")))
    };
    nobody("only pipeline/respond gives refusals", offenders(&sources("src"), against));
}

#[test]
fn environment_time_and_randomness_have_one_home_each() {
    let sources = sources("src");
    let environment = |source: &Source| {
        !source.is_in("config")
            && !source.is_test()
            && ["env::var", "env::vars", "env::set_var"]
                .iter()
                .any(|word| source.code.contains(word))
    };
    nobody("only config reads the environment", offenders(&sources, environment));
    let time = |source: &Source| {
        !source.is_in("clock")
            && !source.is_test()
            && ["SystemTime::now", "Instant::now"].iter().any(|word| source.code.contains(word))
    };
    nobody("only clock reads the time", offenders(&sources, time));
    let random = |source: &Source| !source.is_in("clock") && source.code.contains("getrandom::");
    nobody("only clock draws random numbers", offenders(&sources, random));
}

#[test]
fn no_rule_of_the_fence_is_switched_off() {
    let against = |source: &Source| {
        // A switch of the tests, or its definition.
        source.path != "fence/protocol.rs"
            && !source.is_test()
            && (source.code.contains(".without(") || source.code.contains("Rules::without"))
    };
    nobody("Rules::without is for models and tests", offenders(&sources("src"), against));
}

#[test]
fn what_no_fence_guards_is_the_doctors_alone() {
    let sources = sources("src");
    let uses = |source: &Source| source.code.contains("for_examination");
    let known = |source: &Source| source.is_in("doctor") || source.path == "fence/permit.rs";
    assert!(sources.iter().any(|source| source.is_in("doctor") && uses(source)));
    let against = |source: &Source| uses(source) && !known(source);
    nobody("UnfencedPermit::for_examination is for scratch objects", offenders(&sources, against));
}

#[test]
fn every_file_says_what_it_is_and_is_short() {
    for directory in ["src", "tests"] {
        let sources = sources(directory);
        let silent = |source: &Source| !source.text.starts_with("//! ");
        nobody("a file begins with //!", offenders(&sources, silent));
        let long = |source: &Source| source.text.lines().count() > LINES_MAX;
        nobody("a file has 500 lines at most", offenders(&sources, long));
    }
}

#[test]
fn nothing_is_left_undone_or_skipped() {
    for directory in ["src", "tests"] {
        let against = |source: &Source| {
            // Spelt in two halves, so that this file may hold them.
            let words = [("todo", "!("), ("unimplemented", "!("), ("#[ign", "ore"), ("dbg", "!(")];
            // A process that a test starts by the test runner's own means is no test itself.
            let lines = source.text.lines().filter(|line| !line.contains("kills; not a test"));
            let mut lines = lines.map(str::to_owned);
            lines.any(|line| {
                words.iter().any(|(head, tail)| line.contains(&format!("{head}{tail}")))
            })
        };
        nobody("no stub, no test that is not run", offenders(&sources(directory), against));
    }
}

#[test]
fn the_checks_find_what_they_look_for() {
    let source =
        |code: &str| Source { path: "s3/mod.rs".into(), text: String::new(), code: code.into() };
    assert!(source("use crate::ledger::Ledger;").imports("ledger"));
    assert!(source("use crate::ledger;").imports("ledger"));
    assert!(source("use crate::{s3, ledger::Ledger};").imports("ledger"));
    assert!(source("fn f(x: crate::ledger::Ledger) {}").imports("ledger"));
    assert!(!source("use crate::s3; // not crate::ledgers").imports("ledger"));
    assert_eq!(code("a // b\n#[cfg(test)]\nmod tests {\nc"), "a ");
}

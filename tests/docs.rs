//! The documents, held to the code: what they link to is there, and what they name exists.
//!
//! It reads the Markdown files and the sources as text, which is enough for names. It does not
//! judge whether a sentence is true, run commands, or fetch what is on the network.

#[path = "docs/stores.rs"]
mod stores;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A Markdown file.
struct Document {
    /// Its path in the repository.
    path: PathBuf,
    /// Its lines outside of code blocks.
    prose: Vec<String>,
}

#[test]
fn relative_links_resolve() {
    let documents = documents();
    let mut links = 0;
    for document in &documents {
        for target in document.prose.iter().flat_map(|line| links_of(line)) {
            if target.contains("://") {
                continue;
            }
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => document.path.clone(),
                file => normal(&document.path.with_file_name("").join(file)),
            };
            let shown = document.path.display();
            assert!(Path::new(ROOT).join(&path).exists(), "{shown}: {target} is not there");
            if !anchor.is_empty() {
                let linked = documents.iter().find(|document| document.path == path);
                let has = linked.is_some_and(|document| anchors_of(document).contains(anchor));
                assert!(has, "{shown}: {target} has no such anchor");
            }
        }
    }
    assert!(links > 20, "only {links} links were found");
}

#[test]
fn paths_of_the_repository_exist() {
    let mut paths = 0;
    for (document, span) in code_spans_of_all() {
        let of_the_repository = ["src/", "config/", "docker/", "docs/", ".ci/run"]
            .iter()
            .any(|top| span.starts_with(top));
        if of_the_repository && !span.contains([' ', '*']) {
            paths += 1;
            assert!(Path::new(ROOT).join(&span).exists(), "{document}: `{span}` is not there");
        }
    }
    assert!(paths > 40, "only {paths} paths were found");
}

#[test]
fn settings_exist_and_have_the_defaults_that_are_stated() {
    let settings = settings();
    let sections: BTreeSet<&str> =
        settings.keys().filter_map(|name| Some(name.split_once('.')?.0)).collect();
    for (document, span) in code_spans_of_all() {
        let name = span.split(" = ").next().unwrap_or_default();
        let Some((section, key)) = name.split_once('.') else { continue };
        let is_setting = sections.contains(section)
            && !["rs", "toml", "md"].contains(&key)
            && is_setting_name(key);
        assert!(!is_setting || settings.contains_key(name), "{document}: no setting `{name}`");
    }

    let mut stated = 0;
    for row in rows("setting").iter().filter(|row| row.len() >= 2) {
        for name in code_spans(&row[0]) {
            stated += 1;
            let default = settings.get(&name);
            assert!(default.is_some(), "no setting `{name}`");
            assert_eq!(default, code_spans(&row[1]).first(), "the default of `{name}`");
        }
    }
    assert!(stated > 5, "only {stated} defaults are stated");
}

#[test]
fn the_metrics_of_the_readme_are_those_of_the_code() {
    let in_code: BTreeSet<String> = sources("src/telemetry")
        .iter()
        .flat_map(|source| literals(source))
        .map(|literal| literal.text)
        .filter(|name| is_metric(name))
        .collect();
    let in_readme: BTreeSet<String> =
        rows("metric").iter().flat_map(|row| code_spans(&row[0])).collect();
    assert_eq!(in_readme, in_code, "left: README.md, right: src/telemetry");

    for (document, span) in code_spans_of_all() {
        let name = span.split('{').next().unwrap_or_default();
        assert!(!is_metric(name) || in_code.contains(name), "{document}: no metric `{name}`");
    }
}

#[test]
fn the_error_codes_of_the_readme_are_those_of_the_code() {
    let source = sources("src/pipeline/respond").concat();
    let in_code: BTreeSet<String> = literals(&source)
        .into_iter()
        .filter(|literal| !literal.after.ends_with("element("))
        .map(|literal| literal.text)
        .filter(|text| is_error_code(text))
        .collect();
    let in_readme: BTreeSet<String> =
        rows("status").iter().flat_map(|row| code_spans(&row[1])).collect();
    assert_eq!(in_readme, in_code, "left: README.md, right: src/pipeline/respond");
}

/// `FENCEPOST_TEST_WRITE_DOCS=1` writes it anew.
#[test]
fn the_page_of_operations_is_the_table() {
    let path = Path::new(ROOT).join("docs/operations.md");
    let table = fencepost::s3::document();
    #[expect(clippy::disallowed_methods, reason = "a switch of the test, not of the proxy")]
    if std::env::var_os("FENCEPOST_TEST_WRITE_DOCS").is_some() {
        fs::write(&path, &table).expect("the page can be written");
    }
    let page = fs::read_to_string(&path).expect("the page can be read");
    assert!(page == table, "docs/operations.md is not the table; FENCEPOST_TEST_WRITE_DOCS=1");
}

#[test]
fn rules_that_are_cited_are_in_the_protocol() {
    let documents = documents();
    let protocol = documents.iter().find(|document| document.path.ends_with("protocol.md"));
    let anchors = anchors_of(protocol.expect("docs/protocol.md is a document"));
    let comments = sources("src").join("\n");
    let comments = comments.lines().filter_map(|line| Some(line.split_once("//")?.1.to_owned()));
    let prose = documents.iter().flat_map(|document| document.prose.clone());
    let cited: BTreeSet<String> = comments.chain(prose).flat_map(|line| rules_of(&line)).collect();
    assert!(cited.len() > 10, "only {cited:?} are cited");
    for rule in cited {
        assert!(anchors.contains(&rule.to_lowercase()), "docs/protocol.md has no rule {rule}");
    }
}

// ---- documents ----------------------------------------------------------------------------------

fn documents() -> Vec<Document> {
    let mut paths = vec!["README.md".into(), "CONTRIBUTING.md".into(), "CHANGELOG.md".into()];
    for folder in ["docs", "docker"] {
        files(Path::new(folder), "md", &mut paths);
    }
    let read = |path: PathBuf| Document { prose: prose(&text(&path)), path };
    paths.into_iter().map(read).collect()
}

/// The files with this extension, at any depth, as paths in the repository.
fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).expect("the folder can be read");
    for entry in entries {
        let entry = entry.expect("the folder can be read");
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).expect("the file can be read")
}

/// The lines outside of fenced code blocks.
fn prose(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn links_of(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0))
}

/// `a/b/../c` as `a/c`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path {
        if part == ".." {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

/// The ids of `<a id="…">`, and those that a forge gives to headings.
fn anchors_of(document: &Document) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in &document.prose {
        if let Some((_, rest)) = line.split_once("<a id=\"") {
            anchors.extend(rest.split('"').next().map(str::to_owned));
        }
        if line.starts_with('#') {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            anchors.insert(kept.collect::<String>().replace(' ', "-"));
        }
    }
    anchors
}

fn code_spans(line: &str) -> Vec<String> {
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Every code span of every document, with the document's name.
fn code_spans_of_all() -> Vec<(String, String)> {
    let mut spans = Vec::new();
    for document in documents() {
        let name = document.path.display().to_string();
        // A span may be broken over two lines, but not over two paragraphs.
        let text = document.prose.join("\n");
        for paragraph in text.split("\n\n") {
            let joined = paragraph.replace('\n', " ");
            spans.extend(code_spans(&joined).into_iter().map(|span| (name.clone(), span)));
        }
    }
    spans
}

/// The rows of the tables of all documents whose first column has this heading, as cells.
fn rows(first_heading: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for document in documents() {
        let mut wanted = false;
        let mut row_number = 0;
        for line in &document.prose {
            if !line.starts_with('|') {
                row_number = 0;
                continue;
            }
            let cells: Vec<String> =
                line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            if row_number == 0 {
                wanted = cells[0] == first_heading;
            } else if row_number > 1 && wanted {
                rows.push(cells);
            }
            row_number += 1;
        }
    }
    rows
}

/// The rules that a text cites: `F4`, not `0xF4` and not `F-4`.
fn rules_of(text: &str) -> Vec<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "%\\_".contains(c)))
        .filter(|word| {
            let number = word.strip_prefix('F').unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
        .map(str::to_owned)
        .collect()
}

// ---- the code -----------------------------------------------------------------------------------

/// The setting of each name, with its default as `config/fencepost.toml` writes it.
fn settings() -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut section = String::new();
    for line in text(Path::new("config/fencepost.toml")).lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = format!("{}.", name.trim_end_matches(']'));
        }
        let Some((name, default)) = line.strip_prefix('#').and_then(|line| line.split_once(" = "))
        else {
            continue;
        };
        if is_setting_name(name) {
            settings.insert(format!("{section}{name}"), default.to_owned());
        }
    }
    settings
}

fn is_setting_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The sources at or below a path, without their tests.
fn sources(path: &str) -> Vec<String> {
    let mut paths = Vec::new();
    if path.ends_with(".rs") {
        paths.push(path.into());
    } else {
        files(Path::new(path), "rs", &mut paths);
    }
    let without_tests = |path: &PathBuf| {
        let text = text(path);
        text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned()
    };
    paths.iter().map(without_tests).collect()
}

/// A string literal of a source.
struct Literal {
    text: String,
    /// What stands before it.
    after: String,
}

/// The literals outside of comments. Those with a quote inside come out in pieces, which are no
/// names.
fn literals(source: &str) -> Vec<Literal> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code: String = source.lines().filter(is_code).map(|line| format!("{line}\n")).collect();
    let code = code.replace("\\\"", "");
    let pieces: Vec<&str> = code.split('"').collect();
    let literal =
        |pair: &[&str]| Literal { text: pair[1].to_owned(), after: pair[0].trim_end().to_owned() };
    pieces.chunks(2).filter(|pair| pair.len() == 2).map(literal).collect()
}

fn is_metric(text: &str) -> bool {
    (text.starts_with("fence_") || text.starts_with("fencepost_"))
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// S3's codes are several words in one, each with a capital.
fn is_error_code(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphabetic())
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().filter(u8::is_ascii_uppercase).count() > 1
}

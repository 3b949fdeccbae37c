//! `fencepost scope explain`: which scope a key is in, by the configuration alone.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use fencepost::client::Location;
use fencepost::config::flags::CommonFlags;
use fencepost::config::{Config, Environment, Purpose};
use fencepost::fence::{Compare, Mode, Tags};
use fencepost::policy::{Per, Place, Rule};
use fencepost::s3::{Bucket, ObjectKey, percent_encode_key};
use fencepost::server::settings;
use serde_json::{Value, json};

use super::remote::{self, print_json};
use super::table::columns;
use super::{Failure, print};

const HELP: &str = "\
Examples:
  fencepost scope explain s3://warehouse/tables/orders/a.parquet --config fencepost.toml
  fencepost scope explain s3://warehouse/tables/orders/ --json

It reads the configuration as `serve` would, variables included, and asks nobody. What the proxy
knows of a scope is shown by `fencepost inspect`.";

/// What can be done with a scope, without a proxy.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum ScopeCommand {
    /// Say which scope a key is in and how it is fenced, by the configuration
    #[command(after_help = HELP)]
    Explain(ExplainFlags),
}

/// Flags of `scope explain`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExplainFlags {
    /// The key, or a prefix: s3://BUCKET/KEY
    #[arg(value_name = "S3-URL", value_parser = remote::location())]
    location: Location,
    /// The configuration file of the proxy [default: FENCEPOST_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is said of a key.
struct Explained {
    place: Place,
    per: Per,
    tags: Tags,
    /// Where it is written, as a person would look for it.
    rule: String,
    /// Whether the name itself can be claimed or leased.
    is_scope: bool,
    /// Whether it is that of a bucket whose objects have several scopes.
    has_several: bool,
}

/// Explains.
pub(crate) fn run(command: &ScopeCommand) -> Result<ExitCode, Failure> {
    let ScopeCommand::Explain(flags) = command;
    let common = CommonFlags { config: flags.config.clone(), ..CommonFlags::default() };
    let sources = common.sources(Vec::new(), Environment::of_process())?;
    let config = Config::load(&sources, Purpose::Other)?;
    let explained = explain(&config, &flags.location)?;
    if flags.json {
        print_json(&explained.to_json());
    } else {
        print(&explained.to_text());
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(config: &Config, location: &Location) -> Result<Explained, Failure> {
    if location.bucket() == config.ledger.bucket.as_str() {
        return Err(format!(
            "{} is the ledger's bucket, which clients cannot reach through the proxy",
            location.bucket()
        )
        .into());
    }
    let (policy, bucket) = (settings::policy(config), Bucket::new(location.bucket()));
    // Any key of the bucket, where none is named.
    let whole_bucket = location.path().is_empty();
    let key = ObjectKey::new(location.path()).or_else(|| ObjectKey::new("*"));
    let key = key.ok_or("a key is not empty")?;
    let rule = policy.rule_of(&bucket, &key).cloned();
    let place = policy.place(&bucket, key);
    let many = place.scope.holds_many();
    let is_scope = place.fencing.mode != Mode::Off
        && if whole_bucket {
            many && place.scope.bytes().is_empty()
        } else {
            many || !location.path().ends_with(b"/")
        };
    Ok(Explained {
        per: rule.as_ref().map_or(Per::Object, |rule| rule.per),
        tags: policy.tags_of(&bucket),
        rule: where_it_is_written(config, rule.as_ref()),
        is_scope,
        has_several: whole_bucket && !(many && place.scope.bytes().is_empty()),
        place,
    })
}

/// The entry of the file that decides. A bucket's and a scope's rule may have the same, empty
/// prefix; the scope's is in force then.
fn where_it_is_written(config: &Config, rule: Option<&Rule>) -> String {
    let Some(rule) = rule else { return "[fence], the defaults of every bucket".to_owned() };
    let (bucket, prefix) = (rule.bucket.as_str(), percent_encode_key(&rule.prefix));
    let is_scope = config.scopes.iter().any(|entry| {
        entry.bucket.as_str() == bucket && entry.prefix.as_bytes() == rule.prefix.as_slice()
    });
    if is_scope {
        format!("[[scope]] of bucket {bucket}, prefix \"{prefix}\"")
    } else {
        format!("[[bucket]] {bucket}")
    }
}

impl Explained {
    fn to_json(&self) -> Value {
        json!({
            "scope": (!self.has_several).then(|| self.place.scope.to_string()),
            "mode": mode(self.place.fencing.mode).0,
            "compare": compare(self.place.fencing.compare).0,
            "per": self.per.to_string(),
            "tags": tags(self.tags),
            "rule": self.rule,
            "can_be_claimed": self.is_scope,
        })
    }

    fn to_text(&self) -> String {
        let row = |name: &str, text: String| vec![name.to_owned(), text];
        let with = |(word, meaning): (&str, &str)| format!("{word}: {meaning}");
        let shares = if self.place.scope.holds_many() {
            "all its keys share one fence, but for those of a rule with a longer prefix"
        } else {
            "this object has a fence of its own"
        };
        let scope = if self.has_several {
            "the bucket has several; below is what holds for a key that no other rule is for"
                .to_owned()
        } else {
            format!("{}: {shares}", self.place.scope)
        };
        let claim = match (self.is_scope, self.place.fencing.mode) {
            (true, _) => "yes, by this name",
            (false, Mode::Off) => "no, because it is not fenced",
            (false, Mode::IfFenced | Mode::Require) => {
                "no: below this prefix each object, or each directory, has a fence of its own"
            }
        };
        columns(&[
            row("scope", scope),
            row("mode", with(mode(self.place.fencing.mode))),
            row("compare", with(compare(self.place.fencing.compare))),
            row("per", self.per.to_string()),
            row("tags", tags(self.tags).to_owned()),
            row("by", self.rule.clone()),
            row("claims, leases", claim.to_owned()),
        ])
    }
}

/// As the configuration has it, and what it means.
fn mode(mode: Mode) -> (&'static str, &'static str) {
    match mode {
        Mode::Off => ("off", "nothing is fenced, tokens are ignored"),
        Mode::IfFenced => {
            ("if-fenced", "a write without a token passes until the scope has seen a token")
        }
        Mode::Require => ("require", "a write without a token is refused"),
    }
}

/// As the configuration has it, and what it means.
fn compare(compare: Compare) -> (&'static str, &'static str) {
    match compare {
        Compare::AtLeast => ("at-least", "the same token may write again"),
        Compare::StrictlyGreater => ("strictly-greater", "every write needs a token of its own"),
    }
}

fn tags(tags: Tags) -> &'static str {
    match tags {
        Tags::Repeat => "repeat",
        Tags::Unique => "unique",
    }
}

#[cfg(test)]
mod tests {
    use fencepost::config::{ConfigFile, Sources};

    use super::*;

    const FILE: &str = "\
[fence]\nmode = \"if-fenced\"\n\
[[bucket]]\nname = \"logs\"\nmode = \"off\"\n\
[[scope]]\nbucket = \"warehouse\"\nprefix = \"tables/\"\nmode = \"require\"\nper = \"depth:1\"\n\
[[scope]]\nbucket = \"warehouse\"\nprefix = \"tables/raw/\"\nmode = \"off\"\n\
[[scope]]\nbucket = \"warehouse\"\nprefix = \"jobs/a b/\"\nper = \"prefix\"\ncompare = \"strictly-greater\"\n\
[[scope]]\nbucket = \"jobs\"\nprefix = \"\"\nper = \"prefix\"\n";

    fn explained(location: &str) -> Value {
        let file = ConfigFile { name: "test.toml".to_owned(), text: FILE.to_owned() };
        let sources = Sources { file: Some(file), ..Sources::default() };
        let config = Config::load(&sources, Purpose::Other).unwrap();
        explain(&config, &Location::parse(location.as_bytes()).unwrap()).unwrap().to_json()
    }

    #[test]
    fn a_key_is_explained_by_the_rule_that_decides() {
        // The location; its scope, mode, per, rule; whether it can be claimed.
        let cases = [
            ("s3://photos/a", "s3://photos/a", "if-fenced", "object", "[fence]", true),
            ("s3://photos/a/", "s3://photos/a/", "if-fenced", "object", "[fence]", false),
            ("s3://photos", "-", "if-fenced", "object", "[fence]", false),
            ("s3://logs/a", "s3://logs/a", "off", "object", "[[bucket]] logs", false),
            (
                "s3://warehouse/tables/orders/x/y",
                "s3://warehouse/tables/orders/*",
                "require",
                "depth:1",
                "prefix \"tables/\"",
                true,
            ),
            (
                "s3://warehouse/tables/orders/",
                "s3://warehouse/tables/orders/*",
                "require",
                "depth:1",
                "prefix \"tables/\"",
                true,
            ),
            (
                "s3://warehouse/tables/top",
                "s3://warehouse/tables/top",
                "require",
                "depth:1",
                "prefix \"tables/\"",
                true,
            ),
            (
                "s3://warehouse/tables/",
                "s3://warehouse/tables/",
                "require",
                "depth:1",
                "prefix \"tables/\"",
                false,
            ),
            (
                "s3://warehouse/tables/raw/a",
                "s3://warehouse/tables/raw/a",
                "off",
                "object",
                "prefix \"tables/raw/\"",
                false,
            ),
            (
                "s3://warehouse/jobs/a b/c",
                "s3://warehouse/jobs/a%20b/*",
                "if-fenced",
                "prefix",
                "prefix \"jobs/a%20b/\"",
                true,
            ),
            ("s3://jobs", "s3://jobs/*", "if-fenced", "prefix", "[[scope]] of bucket jobs", true),
        ];
        for (location, scope, mode, per, rule, claimed) in cases {
            let explained = explained(location);
            assert_eq!(explained["scope"].as_str().unwrap_or("-"), scope, "{location}");
            assert_eq!(explained["mode"], mode, "{location}");
            assert_eq!(explained["per"], per, "{location}");
            assert!(explained["rule"].as_str().unwrap().contains(rule), "{location}: {explained}");
            assert_eq!(explained["can_be_claimed"], claimed, "{location}");
        }
        assert_eq!(explained("s3://warehouse/jobs/a b/c")["compare"], "strictly-greater");
    }
}

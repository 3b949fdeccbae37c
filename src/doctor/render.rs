//! A report for people.

use std::fmt::Write as _;

use super::catalogue::entry_of;
use super::report::{BucketReport, Depth, Facts, Plan, Quotes, Report, TagsFound, Versioning};

/// The whole report, in lines.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let store = &report.store;
    let server = store.server.as_deref().unwrap_or("no Server header");
    line(&mut text, &format!("Store    {} ({server}), region {}", store.url, store.region));
    let depth = match report.depth {
        Depth::Quick => "quick",
        Depth::Full => "full",
    };
    let checks: usize = report.buckets.iter().map(|bucket| bucket.checks.len()).sum();
    let seconds = report.took_milliseconds.div_ceil(1000);
    let races = format!("{} rounds of {} requests a race", report.rounds, report.writers);
    line(&mut text, &format!("Checks   {checks} in {seconds} s ({depth}), {races}"));
    facts(&mut text, &report.facts);
    for bucket in &report.buckets {
        bucket_section(&mut text, bucket);
    }
    text.push('\n');
    for remark in &report.remarks {
        line(&mut text, &format!("Note: {remark}."));
    }
    line(&mut text, &conclusion(report));
    text
}

/// The last line: safe or not, and why not.
#[must_use]
pub fn conclusion(report: &Report) -> String {
    let first = report.buckets.first();
    let put = first.and_then(|bucket| bucket.verdicts.get(&super::report::Operation::Put));
    match (report.safe, put) {
        (true, _) if refused_with_versions(report) => {
            "A fence on this store is safe in buckets that keep no versions, and NOT in others."
                .to_owned()
        }
        (true, _) => "A fence on this store is safe.".to_owned(),
        (false, Some(put)) => {
            format!("A fence on this store is NOT safe. PutObject: {}.", put.because)
        }
        (false, None) => "A fence on this store is NOT safe: nothing was tried.".to_owned(),
    }
}

fn refused_with_versions(report: &Report) -> bool {
    report.buckets.iter().skip(1).any(|bucket| {
        let put = bucket.verdicts.get(&super::report::Operation::Put);
        put.is_some_and(|verdict| verdict.plan == Plan::Refused)
    })
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn facts(text: &mut String, facts: &Facts) {
    let tags = match facts.tags {
        Some(TagsFound::Repeat) => "repeat: the same bytes have the same tag (tags = \"repeat\")",
        Some(TagsFound::Unique) => {
            "unique: every write left another (tags = \"unique\" may be set)"
        }
        None => "not found out; taken to repeat",
    };
    line(text, &format!("Tags     {tags}"));
    let quotes = match facts.etag_quotes {
        Some(Quotes::Quoted) => "quoted",
        Some(Quotes::Bare) => "bare",
        None => "not found out",
    };
    let pin = match facts.pins_copy_source {
        Some(true) => "; the source of a copy can be pinned",
        Some(false) => "; the source of a copy cannot be pinned",
        None => "",
    };
    line(text, &format!("ETags    {quotes} in If-Match{pin}"));
    if !facts.aliases.is_empty() {
        let aliases: Vec<&str> = facts.aliases.iter().map(|alias| alias.described()).collect();
        line(text, &format!("Keys     {}", aliases.join("; ")));
    }
    if let Some(skew) = facts.clock_skew_seconds {
        line(text, &format!("Clock    {skew} s ahead of this machine's"));
    }
    for forbidden in &facts.forbidden {
        line(text, &format!("Refused  {forbidden}"));
    }
}

fn bucket_section(text: &mut String, bucket: &BucketReport) {
    let versions = match bucket.versioning {
        Versioning::Off => "keeps no versions",
        Versioning::Enabled => "keeps versions",
        Versioning::Suspended => "kept versions",
        Versioning::Unknown => "does not say whether it keeps versions",
    };
    line(text, &format!("\nBucket   {} ({versions})\n", bucket.bucket));
    let mut rows = vec![["OPERATION".to_owned(), "VERDICT".to_owned(), "BECAUSE".to_owned()]];
    rows.extend(bucket.verdicts.iter().map(|(operation, verdict)| {
        let plan = match verdict.plan {
            Plan::Refused => "REFUSED".to_owned(),
            Plan::Conditional | Plan::Exclusive => verdict.plan.to_string(),
        };
        [operation.api_name().to_owned(), plan, verdict.because.clone()]
    }));
    table(text, &rows);
    text.push('\n');
    let mut rows = vec![["CHECK".to_owned(), "RESULT".to_owned(), "EVIDENCE".to_owned()]];
    rows.extend(bucket.checks.iter().map(|check| {
        let says = entry_of(&check.id).map_or("", |entry| entry.says);
        let evidence = format!("{says}: {}", check.evidence);
        [check.id.clone(), check.outcome.word().to_owned(), evidence]
    }));
    table(text, &rows);
}

/// Three columns, the last of which is as wide as it is.
fn table(text: &mut String, rows: &[[String; 3]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let (first, second) = (width(0).unwrap_or(0), width(1).unwrap_or(0));
    for [one, two, three] in rows {
        writeln!(text, "{one:first$}  {two:second$}  {three}")
            .expect("writing to a string cannot fail");
    }
}

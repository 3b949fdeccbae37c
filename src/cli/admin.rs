//! `fencepost scopes`, `inspect` and `reset`: the admin API, for people and for scripts.

use std::process::ExitCode;

use clap::Args;
use fencepost::client::Location;
use fencepost::fence::Token;
use serde_json::{Value, json};

use super::remote::{self, AdminFlags, PATIENCE, after, print_json};
use super::table::{columns, when};
use super::{Failure, print};

pub(crate) const SCOPES_HELP: &str = "\
Examples:
  fencepost scopes --admin-token-file admin.tokens
  fencepost scopes --bucket warehouse --json | jq -r '.scopes[].scope'

The scopes that have a record: those that have seen a token or a lease.";

pub(crate) const INSPECT_HELP: &str = "\
Example:
  fencepost inspect s3://warehouse/tables/orders/2026/a.parquet --admin-token-file admin.tokens

It shows the scope that the key is in: how it is fenced, the highest token, the writes that are on
their way or whose outcome is not known, the lease, and the last reset.";

pub(crate) const RESET_HELP: &str = "\
Examples:
  fencepost reset s3://warehouse/tables/orders/ --to 1000 --reason \"etcd restored from a backup\"
  fencepost reset s3://warehouse/state --to 5 --force --reason \"new lock service, counts from 1\"

For a source of tokens that has begun anew or gone back, so that its new tokens are refused. Raise
it above every token that may still be in use; --force lowers it, and then what an old holder still
has on its way may be written. The proxy logs who did it, and why.";

/// Flags of `scopes`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScopesFlags {
    /// Only those of this bucket
    #[arg(long, value_name = "BUCKET")]
    bucket: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Flags of `inspect`.
#[derive(Args, Clone, Debug)]
pub(crate) struct InspectFlags {
    /// A key of the scope, or its prefix: s3://BUCKET/KEY
    #[arg(value_name = "S3-URL", value_parser = remote::location())]
    location: Location,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Flags of `reset`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ResetFlags {
    /// A key of the scope, or its prefix: s3://BUCKET/KEY
    #[arg(value_name = "S3-URL", value_parser = remote::location())]
    location: Location,
    /// The highest token from then on
    #[arg(long, value_name = "N", value_parser = remote::token)]
    to: Token,
    /// Why; it is kept in the record and in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Even if the token goes down
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminFlags,
}

/// Lists all scopes, page by page. For people each page is printed as it comes.
pub(crate) async fn scopes(flags: ScopesFlags) -> Result<ExitCode, Failure> {
    let client = flags.admin.connect()?;
    let (mut after_this, mut all, mut rows) = (None::<String>, Vec::new(), Vec::new());
    rows.push(["SCOPE", "TOKEN", "INTENTS", "LEASE"].map(str::to_owned).to_vec());
    loop {
        let bucket = flags.bucket.as_deref();
        let page = client.scopes(bucket, after_this.as_deref(), None, after(PATIENCE)).await?;
        let scopes = page.get("scopes").and_then(Value::as_array).cloned().unwrap_or_default();
        if flags.json {
            all.extend(scopes);
        } else {
            rows.extend(scopes.iter().map(scope_row));
        }
        let next = text(&page, "next");
        // A place that does not change would be asked for until the end of time.
        if next.is_none() || next == after_this {
            break;
        }
        after_this = next;
    }
    if flags.json {
        print_json(&json!({ "scopes": all }));
    } else {
        print(&columns(&rows));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows one scope.
pub(crate) async fn inspect(flags: InspectFlags) -> Result<ExitCode, Failure> {
    let client = flags.admin.connect()?;
    let inspection = client.inspect(&flags.location, after(PATIENCE)).await?;
    if flags.json {
        print_json(&inspection);
    } else {
        print(&described(&inspection));
    }
    Ok(ExitCode::SUCCESS)
}

/// Sets the highest token of a scope.
pub(crate) async fn reset(flags: ResetFlags) -> Result<ExitCode, Failure> {
    let client = flags.admin.connect()?;
    let (location, to) = (&flags.location, flags.to.get());
    let done = client.reset(location, to, &flags.reason, flags.force, after(PATIENCE)).await?;
    if flags.json {
        print_json(&done);
    } else {
        let from = text(&done, "from").unwrap_or_else(|| "no token".to_owned());
        let scope = text(&done, "scope").unwrap_or_else(|| location.to_string());
        let to = text(&done, "to").unwrap_or_else(|| to.to_string());
        print(&format!("{scope}: the highest token was {from} and is {to}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn scope_row(scope: &Value) -> Vec<String> {
    let lease = match scope.get("lease") {
        None | Some(Value::Null) => String::new(),
        Some(lease) => held_by(lease, None),
    };
    vec![cell(scope, "scope"), cell(scope, "token"), cell(scope, "intents"), lease]
}

/// Name and value, a line each, and the intents as a table.
fn described(inspection: &Value) -> String {
    let now = inspection.get("store_time").and_then(Value::as_u64);
    let mut rows = Vec::new();
    let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), text]);
    for name in ["scope", "mode", "compare", "per"] {
        row(name, cell(inspection, name));
    }
    let record = match inspection.get("record") {
        None | Some(Value::Null) => {
            row("record", "none: no token has been seen".to_owned());
            return columns(&rows);
        }
        Some(record) => record,
    };
    row("token", cell(record, "token"));
    for (name, shown) in [("issued", "issued by leases"), ("lock", "lock"), ("holder", "holder")] {
        if let Some(value) = shown_value(record.get(name)) {
            row(shown, value);
        }
    }
    match record.get("lease") {
        None | Some(Value::Null) => row("lease", "none".to_owned()),
        Some(lease) => row("lease", held_by(lease, now)),
    }
    row("resets", cell(record, "resets"));
    if let Some(reset) = record.get("last_reset").filter(|reset| reset.is_object()) {
        let at = reset.get("at").and_then(Value::as_u64);
        let at = at.map_or_else(|| "-".to_owned(), |at| when(at, now));
        let (from, to) = (cell(reset, "from"), cell(reset, "to"));
        row("  the last", format!("from {from} to {to} by {}, {at}", cell(reset, "by")));
        row("  because", cell(reset, "reason"));
    }
    let intents = record.get("intents").and_then(Value::as_array);
    let intents = intents.map(Vec::as_slice).unwrap_or_default();
    row("open intents", intents.len().to_string());
    let mut text = columns(&rows);
    if !intents.is_empty() {
        text.push('\n');
        text.push_str(&columns(&intent_rows(intents, now)));
    }
    text
}

fn intent_rows(intents: &[Value], now: Option<u64>) -> Vec<Vec<String>> {
    let head = ["TOKEN", "KEY", "ACTION", "EXPECTS", "REGISTERED", "EXPIRES", "OPERATION"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for intent in intents {
        let moment = |name: &str| {
            let seconds = intent.get(name).and_then(Value::as_u64);
            seconds.map_or_else(|| "-".to_owned(), |seconds| when(seconds, now))
        };
        rows.push(vec![
            cell(intent, "token"),
            cell(intent, "key"),
            cell(intent, "action"),
            cell(intent, "expects"),
            moment("registered_at"),
            moment("expires_at"),
            cell(intent, "operation"),
        ]);
    }
    rows
}

fn held_by(lease: &Value, now: Option<u64>) -> String {
    let (holder, token) = (cell(lease, "holder"), cell(lease, "token"));
    let until = lease.get("expires_at").and_then(Value::as_u64);
    let until = until.map_or_else(|| "-".to_owned(), |until| when(until, now));
    let expired = lease.get("expired").and_then(Value::as_bool).unwrap_or(false);
    let verb = if expired { "ended" } else { "until" };
    format!("{holder}, token {token}, {verb} {until}")
}

/// A member as text; a dash for what is not there.
fn cell(value: &Value, name: &str) -> String {
    shown_value(value.get(name)).unwrap_or_else(|| "-".to_owned())
}

fn shown_value(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Some(other.to_string())
        }
    }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_without_a_record_says_so() {
        let inspection = json!({
            "scope": "s3://b/p/*", "mode": "require", "compare": "at-least", "per": "prefix",
            "record": null, "store_time": 1_700_000_000,
        });
        let text = described(&inspection);
        assert!(text.contains("mode     require\n"), "{text}");
        assert!(text.ends_with("record   none: no token has been seen\n"), "{text}");
    }

    #[test]
    fn a_record_is_shown_with_its_intents() {
        let inspection = json!({
            "scope": "s3://b/p/*", "mode": "require", "compare": "at-least", "per": "prefix",
            "record": {
                "token": "43", "issued": null, "lock": null, "holder": null, "resets": 1,
                "last_reset": { "by": "anna", "reason": "a backup", "from": "50", "to": "40",
                                "at": 1_699_999_940 },
                "intents": [
                    { "operation": "00ff", "copy": 0, "token": "42", "key": "p/a%20b",
                      "action": "conditional", "expects": "absent",
                      "registered_at": 1_699_999_990, "expires_at": 1_700_000_060 },
                ],
                "lease": { "token": "43", "holder": "h:1", "expires_at": 1_700_000_012,
                           "expired": false },
            },
            "store_time": 1_700_000_000,
        });
        let text = described(&inspection);
        for line in [
            "token         43\n",
            "lease         h:1, token 43, until 2023-11-14T22:13:32Z (in 12 s)\n",
            "  the last    from 50 to 40 by anna, 2023-11-14T22:12:20Z (1 min 0 s ago)\n",
            "  because     a backup\n",
            "open intents  1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        let intent = text.lines().last().unwrap();
        assert!(intent.starts_with("42     p/a%20b  conditional  absent   2023-"), "{text}");
    }
}

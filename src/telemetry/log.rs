//! Log lines: to standard error, as text for people or as JSON for collectors.

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// One line for a person; coloured on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends the process's events to standard error from here on.
///
/// `filter` is in the syntax of [`EnvFilter`]; a level alone is that of this program's own events,
/// because the libraries below print whole requests when they debug. Parts of it that do not
/// parse are left out, which cannot happen to one that came through the configuration.
///
/// # Errors
///
/// When the process has a subscriber already.
pub fn init(format: LogFormat, filter: &str) -> Result<(), TryInitError> {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(own_events(filter)))
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            use std::io::IsTerminal as _;
            builder.with_ansi(std::io::stderr().is_terminal()).finish().try_init()
        }
        LogFormat::Json => {
            builder.json().flatten_event(true).with_current_span(true).finish().try_init()
        }
    }
}

/// Of the libraries, a level alone lets warnings through.
fn own_events(filter: &str) -> String {
    let level_alone = filter.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match filter {
        "off" | "error" | "warn" => filter.to_owned(),
        // The embedded store's wire logs every 404 and 412 as an error.
        level if level_alone => format!("warn,s3s=off,fencepost={level}"),
        directives => directives.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_alone_is_this_programs() {
        assert_eq!(own_events("debug"), "warn,s3s=off,fencepost=debug");
        assert_eq!(own_events("info,hyper=trace"), "info,hyper=trace");
    }
}

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

/// Of the libraries, a level alone lets warnings through. What is written for an audit is not a
/// matter of taste: only a filter that names it can leave it out.
fn own_events(filter: &str) -> String {
    let level_alone = filter.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let events = match filter {
        "off" | "error" | "warn" => filter.to_owned(),
        // The embedded store's wire logs every 404 and 412 as an error.
        level if level_alone => format!("warn,s3s=off,fencepost={level}"),
        directives => directives.to_owned(),
    };
    // Of two directives for one target the last one counts.
    format!("fencepost::audit=info,{events}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_alone_is_this_programs() {
        let audit = "fencepost::audit=info,";
        assert_eq!(own_events("debug"), format!("{audit}warn,s3s=off,fencepost=debug"));
        assert_eq!(own_events("info,hyper=trace"), format!("{audit}info,hyper=trace"));
    }

    #[test]
    fn only_its_own_name_silences_the_audit() {
        let kept = |filter: &str| {
            let (lines, filter) = (Lines::default(), EnvFilter::new(own_events(filter)));
            let writer = lines.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_env_filter(filter)
                .with_writer(move || writer.clone())
                .finish();
            tracing::subscriber::with_default(subscriber, || {
                tracing::info!(target: "fencepost::audit", "audited");
                tracing::info!("ordinary");
            });
            let text = lines.0.lock().unwrap().clone();
            let text = String::from_utf8(text).unwrap();
            (text.contains("audited"), text.contains("ordinary"))
        };
        assert_eq!(kept("info"), (true, true));
        assert_eq!(kept("error"), (true, false));
        assert_eq!(kept("off"), (true, false));
        assert_eq!(kept("warn,fencepost=info"), (true, true));
        assert_eq!(kept("info,fencepost::audit=off"), (false, true));
    }

    #[derive(Clone, Default)]
    struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}

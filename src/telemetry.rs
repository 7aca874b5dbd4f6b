//! Logs: to stderr, as text for people or as JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt};

/// What is logged; the form of tracing-subscriber's `EnvFilter`, for example `info,threadline=debug`.
pub const FILTER_VARIABLE: &str = "THREADLINE_LOG";
/// `json` for one JSON object a line.
pub const FORMAT_VARIABLE: &str = "THREADLINE_LOG_FORMAT";

/// Sets logging up for the whole process. A filter that makes no sense falls back to `info`.
pub fn init() {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second set-up, as in tests, changes nothing.
    let _ = if std::env::var(FORMAT_VARIABLE).is_ok_and(|format| format == "json") {
        builder.json().try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init()
    };
}

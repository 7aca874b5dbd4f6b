//! Logs: to stderr, as text for people or as JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::{EnvFilter, fmt};

/// Checks a log filter in the syntax of tracing-subscriber's `EnvFilter`, for example `info,threadline=debug`.
pub fn filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Sets up logging for the process. An invalid filter falls back to `info`.
pub fn init(filter: &str, json: bool) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    // A line that cannot be written is lost: reporting that on stderr, which has failed, would be a panic.
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    // A second call, as in tests, changes nothing.
    let _ = if json {
        builder.json().try_init()
    } else {
        builder.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init()
    };
}

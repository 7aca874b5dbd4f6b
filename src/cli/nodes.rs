//! `threadline nodes`: the nodes of an installation, as their last beats describe them.

use std::io::Write;

use serde_json::Value;

use super::{connect::ConnectArgs, error::CliError, output::shown};

/// Prints a line per node: id, state, name, version, and the times of its start and its last beat.
pub async fn run(connect: &ConnectArgs, out: &mut impl Write) -> Result<(), CliError> {
    let found = connect.client()?.nodes().await?;
    for node in found["nodes"].as_array().into_iter().flatten() {
        let [id, state, name, version, started, beat] =
            ["nodeId", "state", "name", "version", "startedAt", "lastBeatAt"].map(|member| text(&node[member]));
        let skew = node["skewMs"].as_i64().map_or_else(String::new, |skew| format!("  skew {skew} ms"));
        writeln!(out, "{id}  {state:<7}  {name}  {version}  started {started}  last beat {beat}{skew}")?;
    }
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().map(|text| shown(text, usize::MAX)).unwrap_or_default()
}

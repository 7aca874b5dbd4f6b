//! What Prometheus and people read: the text is strictly OpenMetrics, every metric is explained in OPERATIONS.md, and
//! the alarms name none that does not exist.

use std::{collections::BTreeSet, fs, io::Write, path::Path, process};

use serde_json::{Value, json};

use crate::harness::{Backend, Options, Server, run};

/// The text of a server that has been used in every way that leaves a mark.
async fn text() -> String {
    let mut text = String::new();
    run(Options::new(Backend::Production), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        dev.append("t", "r", 1, json!([{ "type": "A" }, { "type": "RUN_FINISHED" }])).await.ok(200);
        let mut socket = server.socket("dev").await;
        socket.send_text("no JSON").await;
        socket.closed().await;
        dev.get("/v1/threads/t/events").await.ok(200);
        dev.get("/v1/threads/none").await.problem(404, "thread-not-found");
        text = dev.get("/metrics").await.text().to_owned();
    })
    .await;
    text
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The name and type of each metric, without what the text adds to it.
fn exposed(text: &str) -> BTreeSet<(String, String)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    lines.map(|line| line.split_once(' ').expect("a type")).map(|(name, kind)| (name.into(), kind.into())).collect()
}

/// Names of metrics in a text: words with an underscore that begin like one of ours.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("threadline_") || word.starts_with("process_")).collect()
}

/// As queries name it: what is counted ends in `_total`, histograms have three names.
fn queried(name: &str, kind: &str) -> Vec<String> {
    match kind {
        "counter" => vec![format!("{name}_total")],
        "histogram" => ["bucket", "count", "sum"].map(|part| format!("{name}_{part}")).into(),
        "info" => vec![format!("{name}_info")],
        _ => vec![name.to_owned()],
    }
}

#[tokio::test]
async fn the_reference_parser_reads_it() {
    let text = text().await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/checker-venv.sh");
    let python = process::Command::new(script).output().expect("scripts/checker-venv.sh runs");
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let mut parser = process::Command::new(String::from_utf8(python.stdout).expect("a path").trim())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/openmetrics.py"))
        .stdin(process::Stdio::piped())
        .stdout(process::Stdio::piped())
        .stderr(process::Stdio::piped())
        .spawn()
        .expect("Python runs");
    parser.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    let output = parser.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let found = found.as_object().expect("metrics");
    let read = found.iter().map(|(name, family)| (name.clone(), family["type"].as_str().expect("a type").to_owned()));
    assert_eq!(read.collect::<BTreeSet<_>>(), exposed(&text));
    // What this use must have left in it.
    for name in ["threadline_http_requests", "threadline_commit_duration_seconds", "threadline_socket_closes"] {
        assert!(found[name]["samples"].as_u64().is_some_and(|samples| samples > 0), "{name}");
    }
}

#[tokio::test]
async fn every_metric_is_explained_and_every_alarm_can_ring() {
    let text = text().await;
    let exposed: BTreeSet<String> = exposed(&text).iter().flat_map(|(name, kind)| queried(name, kind)).collect();
    let page = read("OPERATIONS.md");
    let table = page.split("## What each metric means").nth(1).expect("the section of metrics");
    let table = table.split("\n## ").next().expect("its text");
    // One row each: histograms by what they have in common.
    let rows: BTreeSet<String> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next())
        .flat_map(|name| match name {
            name if name.ends_with("_seconds") && !name.starts_with("process")
                || name.ends_with("_appends") && name.contains("size") =>
            {
                queried(name, "histogram")
            }
            name => vec![name.to_owned()],
        })
        .collect();
    assert_eq!(rows, exposed, "the table in OPERATIONS.md is not what a server exposes");
    for file in ["deploy/alerts.yml", "OPERATIONS.md"] {
        let text = read(file);
        let unknown: Vec<_> = named(&text)
            .into_iter()
            .filter(|name| !exposed.contains(*name) && !exposed.contains(&format!("{name}_count")))
            .collect();
        assert!(unknown.is_empty(), "{file} names metrics that do not exist: {unknown:?}");
    }
    let alerts = read("deploy/alerts.yml");
    let rules = alerts.matches("- alert: ").count();
    assert!(rules >= 10, "{rules}");
    for part in ["expr: ", "for: ", "severity: ", "summary: "] {
        assert_eq!(alerts.matches(part).count(), rules, "{part}");
    }
    // Each one is in the table of alarms, which says what to do.
    for line in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(page.contains(&format!("| `{line}` |")), "OPERATIONS.md does not say what to do at {line}");
    }
}

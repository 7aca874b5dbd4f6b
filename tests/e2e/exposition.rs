//! What Prometheus and people read: the text is strictly OpenMetrics, every metric is explained in OPERATIONS.md, and
//! the alarms name none that does not exist.

use std::{collections::BTreeSet, fs, io::Write, path::Path, process, sync::Arc};

use serde_json::{Value, json};

use threadline_engine::limits::Space;

use crate::harness::{Backend, Options, Server, eventually, run};

/// The text of a server that has been used in every way that leaves a mark.
async fn text() -> String {
    let mut text = String::new();
    let space = Space { free: 1 << 40, total: 1 << 41 };
    let options = Options { space: Some(Arc::new(move || Ok(space))), ..Options::new(Backend::Production) };
    run(options, async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        dev.append("t", "r", 1, json!([{ "type": "A" }, { "type": "RUN_FINISHED" }])).await.ok(200);
        let mut socket = server.socket("dev").await;
        socket.send_text("no JSON").await;
        socket.closed().await;
        dev.get("/v1/threads/t/events").await.ok(200);
        dev.get("/v1/threads/none").await.problem(404, "thread-not-found");
        text = eventually("the disk is measured", async || {
            let text = dev.get("/metrics").await.text().to_owned();
            text.contains("threadline_storage_free_bytes{").then_some(text)
        })
        .await;
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

/// Names of metrics in a text: words with an underscore that begin like one of Threadline's. A path of Rust, which a log
/// filter names, is one word and none of them.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let words = words.map(|word| word.trim_matches(':')).filter(|word| !word.contains("::"));
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

/// What one of the checkers beside this file says of its input.
fn checked(script: &str, arguments: &[&Path], input: &str) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = process::Command::new(root.join("scripts/checker-venv.sh")).output().expect("the script runs");
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let mut checker = process::Command::new(String::from_utf8(python.stdout).expect("a path").trim())
        .arg(root.join("tests/e2e").join(script))
        .args(arguments)
        .stdin(process::Stdio::piped())
        .stdout(process::Stdio::piped())
        .stderr(process::Stdio::piped())
        .spawn()
        .expect("Python runs");
    checker.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    let output = checker.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}\n{input}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[tokio::test]
async fn the_reference_parser_reads_it() {
    let text = text().await;
    let found = checked("openmetrics.py", &[], &text);
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
        .filter_map(|line| {
            let (name, kind) = line.strip_prefix("| `")?.split_once("` | ")?;
            let (name, kind) = (name.split('{').next()?, kind.split(" |").next()?);
            // The table has the names that queries use, but for those of a histogram's parts.
            Some(if kind == "histogram" { queried(name, kind) } else { vec![name.to_owned()] })
        })
        .flatten()
        .collect();
    assert_eq!(rows, exposed, "the table in OPERATIONS.md is not what a server exposes");
    let unknown: Vec<_> = named(&page)
        .into_iter()
        .filter(|name| !exposed.contains(*name) && !exposed.contains(&format!("{name}_count")))
        .collect();
    assert!(unknown.is_empty(), "OPERATIONS.md names metrics that do not exist: {unknown:?}");
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/alerts.yml");
    let alarms = checked("alarms.py", &[&rules], "");
    let alarms = alarms.as_array().expect("alarms");
    assert!(alarms.len() >= 10, "{}", alarms.len());
    // Readers that hints did not reach are not slow, and a lock that answers may still take nothing.
    let asks = |name: &str| {
        let alarm = alarms.iter().find(|alarm| alarm["alert"] == name).unwrap_or_else(|| panic!("no alarm {name}"));
        alarm["asks"][0].clone()
    };
    let behind = asks("ThreadlineReadersFallBehind");
    assert_eq!(
        (&behind["metric"], &behind["picks"]["cause"]),
        (&json!("threadline_fell_behind_total"), &json!("slow"))
    );
    assert_eq!(asks("ThreadlineLockErrors")["metric"], "threadline_lock_errors_total");
    for alarm in alarms {
        let name = alarm["alert"].as_str().expect("a name");
        assert!(page.contains(&format!("| `{name}` |")), "OPERATIONS.md does not say what to do at {name}");
        for asked in alarm["asks"].as_array().expect("selectors") {
            let metric = asked["metric"].as_str().expect("a name");
            // Prometheus itself tells whether it could ask, and names the job.
            assert!(metric == "up" || exposed.contains(metric), "{name} asks for {metric}, which does not exist");
            for label in asked["labels"].as_array().expect("labels").iter().filter(|label| *label != "job") {
                let label = format!("{}=\"", label.as_str().expect("a label"));
                let has = text.lines().any(|line| line.starts_with(&format!("{metric}{{")) && line.contains(&label));
                assert!(has, "{name} asks {metric} for {label}, which it does not have");
            }
        }
    }
}

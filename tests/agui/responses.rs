//! Streams of responses of generated runs, as OpenAI's clients take them: the npm and the Python package accept all, and
//! accumulate the response that the fold has at each moment.

use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::{Value, value::RawValue};
use threadline_core::{
    Timestamp,
    projection::response::{Echo, Header, ResponseEvent, ResponseStream, items, read_input},
};

use crate::{
    compare::{fold, whole},
    generate::stream,
    node::lines_of,
    rng::{Rng, seed},
};

const STREAMS: u64 = 150;

/// Stream of a run, or of its beginning.
struct Told {
    /// Text of the event stream, as it goes over HTTP.
    text: String,
    response: String,
    has_ended: bool,
}

fn header() -> Header {
    Header {
        id: "resp_1".to_owned(),
        model: "agent".to_owned(),
        created_at: Timestamp(1_700_000_000_000),
        conversation: None,
        previous_response_id: Some("resp_0".to_owned()),
        background: true,
        store: true,
        echo: Echo::read(r#"{"instructions":"Be brief."}"#).expect("an echo"),
    }
}

/// Streams of the events of one run: the whole one, and one that is cut somewhere.
fn told(events: &[String], rng: &mut Rng) -> [Told; 2] {
    let cut = rng.between(1, events.len() as u64) as usize;
    [events.len(), cut].map(|end| {
        let (mut stream, mut out) = (ResponseStream::new(header()), Vec::new());
        for (place, event) in (0..).zip(&events[..end]) {
            stream.observe(event.as_bytes(), Timestamp(1_700_000_001_000 + place), &mut out);
        }
        Told { text: out.iter().map(frame).collect(), response: stream.response(), has_ended: stream.has_ended() }
    })
}

fn frame(event: &ResponseEvent) -> String {
    format!("event: {}\ndata: {}\n\n", event.kind, std::str::from_utf8(&event.json).expect("UTF-8"))
}

/// Runs of a stream of events.
fn runs(events: &[String]) -> Vec<Vec<String>> {
    let mut runs: Vec<Vec<String>> = Vec::new();
    for event in events {
        if runs.is_empty() || event.contains("\"RUN_STARTED\"") {
            runs.push(Vec::new());
        }
        runs.last_mut().expect("a run").push(event.clone());
    }
    runs
}

/// Responses that a program accumulates from the same streams.
fn accumulated(mut program: Command, told: &[Told]) -> Vec<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agui");
    program.current_dir(here);
    let lines: Vec<String> = told.iter().map(|told| Value::from(told.text.as_str()).to_string()).collect();
    lines_of(program, &lines)
}

/// Python with OpenAI's package.
fn python() -> Command {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/pipe-openai-newest/bin/python");
    assert!(python.exists(), "openai for Python is missing: `make setup-test` installs it");
    let mut command = Command::new(python);
    command.arg("responses.py");
    command
}

#[test]
fn items_of_conversations_are_of_the_types_of_openai_and_come_back() {
    let seed = seed();
    let (mut lines, mut back, mut kinds) = (Vec::new(), 0, BTreeMap::<String, usize>::new());
    for number in 0..STREAMS {
        for message in fold(&stream(seed, number)).messages() {
            let mut json = Vec::new();
            message.write_json(&mut json);
            let list = items(std::str::from_utf8(&json).expect("UTF-8"));
            let items: Vec<Value> = list.iter().map(|item| serde_json::from_str(item).expect("JSON")).collect();
            for item in &items {
                *kinds.entry(item["type"].as_str().expect("a type").to_owned()).or_default() += 1;
            }
            lines.push(Value::from(items.clone()).to_string());
            let read = read_input(&items.into(), || "new".to_owned()).expect("an input that is ours");
            if let ("user" | "system" | "developer" | "tool", [again]) = (message.role(), &read.messages[..]) {
                let message: Value = serde_json::from_slice(&json).unwrap_or_default();
                if message["content"].is_string() && message["content"] != "" {
                    back += 1;
                    assert_eq!((&again["id"], &again["content"]), (&message["id"], &message["content"]), "seed {seed}");
                }
            }
        }
    }
    let mut program = python();
    program.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agui"));
    for (line, answer) in lines.iter().zip(lines_of(program, &lines)) {
        assert_eq!(answer, "[]", "seed {seed}, of the items {line}");
    }
    let all = ["function_call", "function_call_output", "message", "reasoning"];
    assert_eq!(kinds.keys().map(String::as_str).collect::<Vec<_>>(), all);
    assert!(kinds.values().all(|count| *count > 50) && back > 100, "{kinds:?}, {back} came back");
}

#[test]
fn the_clients_of_openai_accumulate_the_response_of_the_fold() {
    let seed = seed();
    let mut rng = Rng::new(seed, STREAMS);
    let events = (0..STREAMS).flat_map(|number| runs(&stream(seed, number)));
    let all: Vec<Told> = events.flat_map(|run| told(&run, &mut rng)).collect();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert!(here.join("tests/agui/node_modules/openai").exists(), "openai is missing: `make setup-test` installs it");
    let mut node = Command::new("node");
    node.arg("responses.mjs");
    let mut items = 0;
    for (program, client) in [(node, "npm"), (python(), "Python")] {
        for (told, line) in all.iter().zip(accumulated(program, &all)) {
            let what = || format!("{client}, seed {seed}, of the stream\n{}", told.text);
            let built: Vec<&RawValue> = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}: {}", what()));
            let expected = whole(&told.response);
            for response in built {
                assert_eq!(whole(response.get()), expected, "{}", what());
            }
            items += expected["output"].as_array().map_or(0, Vec::len);
        }
    }
    for kind in ["message", "reasoning", "function_call", "mcp_call", "mcp_approval_request"] {
        let kind = format!("{{\"type\":\"{kind}\"");
        let having = all.iter().filter(|told| told.response.contains(&kind)).count();
        assert!(having > 20, "{having} responses have {kind}");
    }
    let ended = all.iter().filter(|told| told.has_ended).count();
    assert!(
        ended > 200 && all.len() - ended > 50 && items > 500,
        "{} streams, {ended} ended, {items} items",
        all.len()
    );
}

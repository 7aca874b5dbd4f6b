//! Chunks of generated runs, as the AI SDK takes them: `ai` 6 and 7 accept all, and build the message that the fold builds.

use std::{path::Path, process::Command};

use serde_json::value::RawValue;
use threadline_core::projection::ui_message::{Chunk, UiMessage, UiStream, continues};

use crate::{
    compare::{Json, whole},
    generate::stream,
    node::lines_of,
    rng::seed,
};

const STREAMS: u64 = 160;

/// UI message of some runs: its chunks, and the fold of them.
struct Built {
    chunks: Vec<String>,
    message: String,
}

/// Messages of a stream of events: a run that continues the message before is a part of it.
fn messages(events: &[String]) -> Vec<Built> {
    let mut built: Vec<(UiStream, Vec<Chunk>)> = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let starts = event.contains("\"RUN_STARTED\"");
        match built.last_mut() {
            Some((stream, _)) if starts && continues(event) => stream.continued(&format!("run{number}"), true),
            Some(_) if !starts => {}
            _ => built.push((UiStream::new(&format!("run{number}")), Vec::new())),
        }
        let (stream, chunks) = built.last_mut().expect("a message");
        stream.observe(event.as_bytes(), chunks);
    }
    let fold = |(_, chunks): (UiStream, Vec<Chunk>)| {
        let mut message = UiMessage::default();
        let texts = chunks.iter().map(Chunk::to_json).collect();
        chunks.into_iter().for_each(|chunk| message.observe(chunk));
        Built { chunks: texts, message: message.to_json() }
    };
    built.into_iter().map(fold).collect()
}

/// Messages that the packages build from the same chunks.
fn built_by_packages(messages: &[Built]) -> Vec<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agui");
    assert!(here.join("node_modules/ai7").exists(), "the AI SDK is missing: `make setup-test` installs it");
    let mut command = Command::new("node");
    command.arg("ui-messages.mjs").current_dir(here);
    let lines: Vec<String> = messages.iter().map(|message| format!("[{}]", message.chunks.join(","))).collect();
    lines_of(command, &lines)
}

/// The message without the decisions on approvals, which only the fold knows.
fn decided(text: &str) -> Json {
    whole(&text.replace(",\"approved\":true", "").replace(",\"approved\":false", ""))
}

#[test]
fn the_ai_sdk_builds_the_messages_of_the_fold() {
    let seed = seed();
    let all: Vec<Built> = (0..STREAMS).flat_map(|number| messages(&stream(seed, number))).collect();
    let (mut texts, mut tools) = (0, 0);
    for (message, line) in all.iter().zip(built_by_packages(&all)) {
        let what = || format!("seed {seed}, of the chunks\n{}", message.chunks.join("\n"));
        let by_packages: Vec<&RawValue> = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}: {}", what()));
        for (built, version) in by_packages.iter().zip(["6", "7"]) {
            assert_eq!(decided(&message.message), decided(built.get()), "ai {version}, {}", what());
        }
        let kind = |name: &str| message.chunks.iter().filter(|chunk| chunk.contains(name)).count();
        texts += kind("\"text-start\"");
        tools += kind("\"tool-input-available\"");
    }
    assert!(all.len() > 150 && texts > 150 && tools > 40, "{} messages, {texts} texts, {tools} calls", all.len());
    // A replay of the same events has the same chunks.
    let again: Vec<Built> = (0..STREAMS).flat_map(|number| messages(&stream(seed, number))).collect();
    assert!(all.iter().zip(&again).all(|(one, other)| one.chunks == other.chunks));
}

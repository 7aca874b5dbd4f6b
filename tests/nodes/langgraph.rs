//! LangGraph's protocol: every node gives an event the same bytes under the same number, also from a log that is compressed.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use threadline_core::NewEvents;
use tokio::{task::JoinHandle, time::Instant};

use crate::cluster::*;

/// Makes the compression of the log due; nodes look for such jobs every second.
const DUE: &str =
    "INSERT INTO jobs SELECT 'seal', key::text, 0 FROM threads ON CONFLICT (kind, ref) DO UPDATE SET due_at = 0";
/// True once a segment has most events of the run.
const SEALED: &str =
    "SELECT coalesce(bool_or(last_seq - first_seq > 200 AND octet_length(body) < raw), false) FROM log";

/// Frames of a stream by their numbers, up to the end of a run.
async fn frames(node: String, since: Option<u64>) -> Vec<(u64, String)> {
    let channels = ["values", "checkpoints", "messages", "tools", "lifecycle", "input", "custom"];
    let url = format!("{node}/langgraph/threads/t/stream/events");
    let asked = reqwest::Client::new().post(url).json(&json!({ "channels": channels, "since": since })).send();
    let mut response = asked.await.expect("an answer").error_for_status().expect("a stream");
    let (mut text, mut frames) = (Vec::new(), Vec::new());
    loop {
        while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
            let frame = String::from_utf8(text.drain(..end + 2).collect()).expect("text");
            let Some((_, id)) = frame.split_once("\nid: ") else { continue };
            let number = id.split_once('\n').expect("lines").0.parse().expect("a number");
            let ends = frame.starts_with("event: lifecycle\n") && frame.contains("\"event\":\"completed\"");
            frames.push((number, frame));
            if ends {
                return frames;
            }
        }
        text.extend_from_slice(&response.chunk().await.expect("a piece").expect("the stream stays open"));
    }
}

/// Frames without those of values and checkpoints, of which a stream that reads several events at once has fewer.
fn lasting(frames: &[(u64, String)]) -> Vec<&str> {
    let is_lasting = |frame: &&str| !frame.starts_with("event: values\n") && !frame.starts_with("event: checkpoints\n");
    frames.iter().map(|(_, frame)| frame.as_str()).filter(is_lasting).collect()
}

fn numbered_frames(frames: &[(u64, String)]) -> BTreeMap<u64, &str> {
    frames.iter().map(|(number, frame)| (*number, frame.as_str())).collect()
}

/// Fails unless two streams of a run have the same bytes under the same numbers, and end with the same values.
fn assert_same(one: &[(u64, String)], other: &[(u64, String)]) {
    assert_eq!(lasting(one), lasting(other));
    let (known, found) = (numbered_frames(one), numbered_frames(other));
    assert!(found.iter().all(|(number, frame)| known.get(number).is_none_or(|known| known == frame)));
    // The end of a run is preceded by its last checkpoint and values.
    assert_eq!(one[one.len() - 3..], other[other.len() - 3..]);
    assert!(one.windows(2).all(|two| two[0].0 < two[1].0));
}

fn events(events: &[Value]) -> NewEvents {
    NewEvents::from_ndjson(events.iter().map(Value::to_string).collect::<Vec<_>>().join("\n").as_bytes())
        .expect("events")
}

fn deltas(message: &str) -> impl Iterator<Item = Value> {
    (0..150).map(move |n| json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": format!("{n} ") }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_has_the_same_bytes_on_every_node_also_when_it_is_sealed() {
    let cluster = Cluster::start(2);
    let producer = cluster.client(0);
    let urls: Vec<String> = cluster.nodes.iter().map(|node| node.url.clone()).collect();
    make_thread(&producer, "t").await;
    let mut run = producer.run("t", options("r")).await.expect("starts");
    let mut half = vec![
        json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "input": { "messages": [{ "id": "u", "role": "user", "content": "hi" }] } }),
        json!({ "type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant" }),
    ];
    half.extend(deltas("m"));
    run.append(events(&half)).await.expect("appends");
    let live: Vec<JoinHandle<_>> = urls.iter().map(|url| tokio::spawn(frames(url.clone(), None))).collect();
    eventually("both are read", async || {
        let readers =
            reqwest::get(format!("{}/v1/threads/t/subscriptions", urls[0])).await.ok()?.json::<Value>().await.ok()?;
        (readers["subscriptions"].as_array()?.len() == 2).then_some(())
    })
    .await;
    let mut rest: Vec<Value> = deltas("m").collect();
    rest.extend([
        json!({ "type": "TEXT_MESSAGE_END", "messageId": "m" }),
        json!({ "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "pay", "parentMessageId": "m" }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{\"to\":\"ann\"}" }),
        json!({ "type": "TOOL_CALL_END", "toolCallId": "c" }),
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "p", "toolCallId": "c", "content": "paid" }),
        json!({ "type": "STATE_SNAPSHOT", "snapshot": { "paid": true } }),
        json!({ "type": "CUSTOM", "name": "chart", "value": [1, 2] }),
    ]);
    run.append(events(&rest)).await.expect("appends");
    run.finish().await.expect("finishes");
    let mut told = Vec::new();
    for reader in live {
        told.push(in_time(PATIENCE, "a live stream", reader).await.expect("frames"));
    }
    assert_same(&told[0], &told[1]);
    let half = told[0][told[0].len() / 2].0;
    let after: Vec<_> = told[0].iter().filter(|(number, _)| *number > half).cloned().collect();
    let replayed = async |url: &String| {
        assert_same(&told[0], &in_time(PATIENCE, "a replay", frames(url.clone(), None)).await);
        assert_eq!(lasting(&in_time(PATIENCE, "the rest", frames(url.clone(), Some(half))).await), lasting(&after));
    };
    for url in &urls {
        replayed(url).await;
    }
    let mut sql = PgConnection::connect(&cluster.database).await.expect("connects");
    let mut due: Option<Instant> = None;
    eventually("the run is sealed", async || {
        if due.is_none_or(|at| at.elapsed() > LEASE) {
            sqlx::raw_sql(DUE).execute(&mut sql).await.expect("SQL");
            due = Some(Instant::now());
        }
        sqlx::query_scalar::<_, bool>(SEALED).fetch_one(&mut sql).await.expect("SQL").then_some(())
    })
    .await;
    // This node has nothing of the log in memory.
    let fresh = tokio::task::block_in_place(|| cluster.node());
    for url in [&urls[0], &urls[1], &fresh.url] {
        replayed(url).await;
    }
}

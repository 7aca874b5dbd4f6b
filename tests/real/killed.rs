//! A server that runs a real agent is killed in the middle of it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use threadline_client::{CreateThread, RunStatus, StartRun};
use tokio::time::timeout;

use crate::{
    follow::{Reader, Seen, client, log},
    process::{agent, ask, node, port, threadline},
};

/// Time in which the run is ended after its server has died, with the time of the start.
const ENDED: Duration = Duration::from_secs(10);

fn run(id: &str, messages: Value) -> StartRun {
    StartRun {
        run_id: Some(id.into()),
        agent_id: Some("trips".into()),
        input: Some(json!({ "messages": messages })),
        ..StartRun::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_died_with_its_server_is_closed_and_tried_again() {
    let data = tempfile::tempdir().expect("a directory");
    let (_agent, trips) = agent(6);
    let port = port();
    let (mut server, url) = threadline(data.path(), port, Some(&trips));
    let api = client(&url);
    let thread = CreateThread { thread_id: Some("trip".into()), ..CreateThread::default() };
    api.create_thread(&thread).await.expect("a thread");
    let (stays, mut leaves) = (Reader::start(&url, "trip"), Reader::start(&url, "trip"));

    let question = json!({ "id": "question", "role": "user", "content": "Plan a Saturday" });
    api.start_run("trip", &run("first", json!([question]))).await.expect("a run");
    leaves.counts(100).await;
    let away_from = leaves.leave().await as usize;
    stays.counts(away_from + 150).await;
    let active = api.thread("trip").await.expect("the thread").active_run;
    assert_eq!(active.map(|run| run.run_id).as_deref(), Some("first"), "the run was to be under way");
    server.kill();
    let killed = Instant::now();
    let before = stays.events();

    let (_server, again) = threadline(data.path(), port, Some(&trips));
    assert_eq!(again, url);
    // Its reader is back while the run still seems to be under way: history first, then what ends it.
    leaves.come_back();
    stays.sees_end_of("first").await;
    let took = killed.elapsed();
    assert!(took < ENDED, "the run was closed only {took:?} after its server had died");
    let first = api.run_record("trip", "first").await.expect("the run");
    assert_eq!(
        (first.status, first.error_code.as_deref()),
        (RunStatus::Error, Some("recovery-unsafe")),
        "the agent has called tools"
    );

    // The AG-UI client whose connection broke with the server sends its request again, and gets the rest of its run.
    let input = json!({ "threadId": "trip", "runId": "first", "messages": [question] });
    let epoch = api.thread("trip").await.expect("the thread").epoch;
    let request = reqwest::Client::new()
        .post(format!("{url}/agui/trips"))
        .header("Last-Event-ID", format!("{epoch}:{away_from}"));
    let request = request.header("Content-Type", "application/json").body(input.to_string());
    let rest = request.send().await.expect("an answer").error_for_status().expect("good").text().await.expect("a text");
    let expected = |event: &Seen| format!("id: {epoch}:{}\ndata: {}\n\n", event.seq, event.payload);
    assert_eq!(rest, stays.events()[away_from..].iter().map(expected).collect::<String>());

    // The user tries again: the same message in a new run. One of the readers misses half of that, too.
    leaves.sees_end_of("first").await;
    let begins = stays.count();
    api.start_run("trip", &run("second", json!([question]))).await.expect("a run");
    leaves.counts(begins + 100).await;
    leaves.leave().await;
    stays.counts(begins + 400).await;
    leaves.come_back();
    stays.sees_end_of("second").await;
    leaves.sees_end_of("second").await;
    let second = api.run_record("trip", "second").await.expect("the run");
    assert_eq!(second.status, RunStatus::Finished);

    let (text, events) = log(&url, "trip").await;
    assert_eq!(stays.events(), events, "the reader that stayed");
    assert_eq!(leaves.events(), events, "the reader that was away");
    assert_eq!(events[..before.len()], before[..], "what was delivered before the kill is still there");
    assert!(events.iter().map(|event| event.seq).eq(1..=events.len() as u64), "seqs are dense");
    is_closed_well(&events);

    // The messages, as the real client folds them from the same events.
    let messages = api.messages("trip", None).await.expect("messages");
    let state = api.state("trip", None).await.expect("a state");
    let mut fold = node();
    fold.arg("fold.mjs");
    let fold = tokio::task::spawn_blocking(move || ask(fold, &text));
    let fold = timeout(Duration::from_secs(60), fold).await.expect("in time").expect("a fold");
    let fold: Value = serde_json::from_str(&fold).expect("JSON");
    assert_eq!(json!(messages.messages), fold["messages"]);
    assert_eq!(state.state, fold["state"]);
    let asked: Vec<_> = messages.messages.iter().filter(|message| message["role"] == "user").collect();
    assert_eq!(asked, [&question], "the question was asked once");
    let stored: Vec<_> = events.iter().filter(|event| event.kind() == "RUN_STARTED").map(Seen::event).collect();
    let stored: Vec<_> = stored.iter().flat_map(|event| event["input"]["messages"].as_array()).flatten().collect();
    assert_eq!(stored, [&question], "and stored once");
    let answer = messages.messages.last().expect("a message")["content"].as_str().expect("a text");
    assert!(answer.starts_with("Here is your Saturday"), "{answer}");
    assert_eq!(state.state["stops"][1]["status"], "booked");
}

/// The first run ends with RUN_ERROR after the closing events of all open messages, and has no event after that.
fn is_closed_well(events: &[Seen]) {
    let first: Vec<_> = events.iter().filter(|event| event.run == "first").collect();
    let end = first.last().expect("events");
    assert_eq!(end.kind(), "RUN_ERROR");
    assert_eq!(end.event()["code"], "recovery-unsafe");
    assert_eq!(events[first.len()].run, "second");
    for (begin, close, id) in [
        ("TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "messageId"),
        ("REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "messageId"),
        ("TOOL_CALL_START", "TOOL_CALL_END", "toolCallId"),
    ] {
        let ids = |kind: &str| {
            let mut ids: Vec<_> = first.iter().filter(|event| event.kind() == kind).collect();
            ids.sort_by_key(|event| event.seq);
            ids.into_iter().map(|event| event.event()[id].to_string()).collect::<Vec<_>>()
        };
        let (mut begun, mut closed) = (ids(begin), ids(close));
        begun.sort();
        closed.sort();
        assert_eq!(begun, closed, "{close}");
    }
}

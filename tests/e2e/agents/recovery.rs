//! Recovery: a question that was accepted is answered, or ends with a reason, whatever becomes of the server that drives it.

use serde_json::{Value, json};
use threadline_core::{
    Clock, NodeId, ProjectId, RunId, ThreadId,
    limits::{MAX_ATTEMPTS, MAX_FUTILE_ATTEMPTS},
};
use threadline_store::{
    ClaimTurns, LogStore, RunStore, StatusStore, StopOutcome, TakeTurn, ThreadStore, TurnStore, sqlite::SqliteStore,
};

use super::*;
use crate::harness::{Backend, Options, Server, agent::Call, intercept::Failing};

/// A server whose agent has been called for run `r` and has said nothing.
async fn driving() -> (tempfile::TempDir, Server, FakeAgent, Call) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent(&dev).await;
    dev.post("/v1/threads/t/runs", ask("r", json!([user("u", "hi")]))).await.ok(201);
    let call = agent.call().await;
    (directory, server, agent, call)
}

/// A server that stops while the agent is in the middle of run `r`, and the one after it.
pub(super) async fn restarted(definition: Value, said: &[Value]) -> (tempfile::TempDir, Server, FakeAgent, Call) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent_that(&dev, definition).await;
    let mut body = ask("r", json!([user("u", "hi")]));
    body["input"]["state"] = json!({ "n": 1 });
    body["input"]["tools"] = json!([{ "name": "map", "description": "", "parameters": {} }]);
    body["input"]["forwardedProps"] = json!({ "token": "x" });
    body["input"]["future"] = json!([1]);
    dev.post("/v1/threads/t/runs", body).await.ok(201);
    let mut call = agent.call().await;
    if !said.is_empty() {
        call.say(said).await;
    }
    eventually("it is in the log", async || (types_of(&dev, "r").await.len() == 2 + said.len()).then_some(())).await;
    server.stop().await;
    call.hung_up().await;
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    (directory, server, agent, call)
}

pub(super) fn header<'a>(call: &'a Call, name: &str) -> &'a str {
    call.head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default()
}

/// A tool call of an agent.
pub(super) fn called(id: &str) -> Vec<Value> {
    vec![
        json!({ "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "pay" }),
        json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": "{}" }),
    ]
}

#[tokio::test]
async fn a_half_answer_is_superseded_and_the_agent_gets_the_same_input_again() {
    let delta = json!({ "type": "STATE_DELTA", "delta": [{ "op": "replace", "path": "/n", "value": 2 }] });
    let mut half = said("a0", "half")[..2].to_vec();
    half.push(delta);
    let (_directory, server, agent, before) = restarted(json!({}), &half).await;
    let dev = server.client();
    let call = agent.call().await;
    assert_eq!(call.input(), before.input());
    assert_eq!(header(&call, "idempotency-key: "), header(&before, "idempotency-key: "));
    assert!(header(&call, "idempotency-key: ").len() > 20);
    assert_eq!((header(&before, "threadline-attempt: "), header(&call, "threadline-attempt: ")), ("1", "2"));
    assert_eq!(header(&call, "threadline-thread: "), header(&before, "threadline-thread: "));
    assert_eq!(messages(&dev).await["messages"].as_array().map(Vec::len), Some(1));
    assert_eq!(dev.get("/v1/threads/t/state").await.ok(200)["state"], json!({ "n": 1 }));
    call.finish(&whole("r", "a0", "all of it")).await;
    let run = ended(&dev, "r").await;
    assert_eq!((&run["status"], &run["attempt"], &run["author"]), (&json!("finished"), &json!(2), &json!("agent:a")));
    let events = events_of(&dev, "r").await;
    let types: Vec<_> = events.iter().map(|event| text(event, "type")).collect();
    let half = ["RUN_STARTED", "STATE_SNAPSHOT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "STATE_DELTA"];
    let between = ["TEXT_MESSAGE_END", "CUSTOM", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"];
    let whole = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"];
    assert_eq!(types, [&half[..], &between, &whole].concat());
    let named = json!({ "attempt": 2, "reason": "hand-over", "superseded": [3, 5] });
    assert_eq!((&events[6]["name"], &events[6]["value"]), (&json!("threadline.attempt"), &named));
    let document = messages(&dev).await;
    let last = &document["messages"][1];
    assert_eq!((&last["id"], &last["content"]), (&json!("a0"), &json!("all of it")));
    assert_eq!((document["messages"].as_array().map(Vec::len), agent.requests()), (Some(2), 2));
    server.stop().await;
}

#[tokio::test]
async fn a_subagent_that_the_next_attempt_begins_again_begins_once_for_clients() {
    let begin = |id: &str| json!({ "type": "SUBAGENT_STARTED", "subagentRunId": id, "name": "n" });
    let end = |id: &str| json!({ "type": "SUBAGENT_FINISHED", "subagentRunId": id });
    let (_directory, server, agent, _) = restarted(json!({}), &[begin("s")]).await;
    let dev = server.client();
    let mut events = vec![begin("s"), begin("other"), end("other"), end("s")];
    events.extend(whole("r", "a0", "hello"));
    agent.call().await.finish(&events).await;
    assert_eq!(ended(&dev, "r").await["status"], "finished");
    let events = events_of(&dev, "r").await;
    let of_subagents = events.iter().filter(|event| text(event, "type").starts_with("SUBAGENT_"));
    let named: Vec<_> = of_subagents.map(|event| (text(event, "type"), text(event, "subagentRunId"))).collect();
    let (started, finished) = ("SUBAGENT_STARTED", "SUBAGENT_FINISHED");
    assert_eq!(named, [(started, "s"), (finished, "s"), (started, "other"), (finished, "other")]);
    server.stop().await;
}

#[tokio::test]
async fn a_question_of_which_the_agent_has_said_nothing_is_asked_again_without_a_trace() {
    let (_directory, server, agent, _) = restarted(json!({}), &[]).await;
    let dev = server.client();
    agent.call().await.finish(&whole("r", "a0", "hello")).await;
    assert_eq!(ended(&dev, "r").await["status"], "finished");
    let whole = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"];
    assert_eq!(types_of(&dev, "r").await, [&["RUN_STARTED", "STATE_SNAPSHOT"][..], &whole].concat());
    server.stop().await;
}

#[tokio::test]
async fn a_tool_call_that_was_logged_is_not_repeated_in_silence() {
    let (_directory, server, agent, _) = restarted(json!({}), &called("c")).await;
    let dev = server.client();
    let run = ended(&dev, "r").await;
    assert_eq!((&run["status"], &run["errorCode"]), (&json!("error"), &json!("recovery-unsafe")));
    assert!(text(&run, "errorMessage").ends_with("tools were called: pay."), "{run}");
    assert_eq!(agent.requests(), 1);
    // The thread is free.
    dev.post("/v1/threads/t/runs", ask("next", json!([]))).await.ok(201);
    agent.call().await.finish(&[finished("next")]).await;
    assert_eq!(ended(&dev, "next").await["status"], "finished");
    server.stop().await;
}

#[tokio::test]
async fn an_agent_whose_tools_may_run_twice_is_called_again() {
    let (_directory, server, agent, _) = restarted(json!({ "toolsRepeatable": true }), &called("c")).await;
    let dev = server.client();
    agent.call().await.finish(&whole("r", "a0", "paid")).await;
    assert_eq!(ended(&dev, "r").await["status"], "finished");
    let document = messages(&dev).await;
    assert!(document["messages"][1]["toolCalls"].is_null(), "{document}");
    server.stop().await;
}

#[tokio::test]
async fn a_run_that_was_approved_is_not_repeated_in_silence() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent(&dev).await;
    dev.post("/v1/threads/t/runs", ask("q", json!([user("u", "pay")]))).await.ok(201);
    let interrupts = json!([{ "id": "i", "reason": "approval" }]);
    let outcome = json!({ "type": "interrupt", "interrupts": interrupts });
    let asks = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "q", "outcome": outcome });
    agent.call().await.finish(&[asks]).await;
    ended(&dev, "q").await;
    let mut body = ask("r", json!([]));
    body["input"]["resume"] = json!([{ "interruptId": "i", "status": "resolved", "payload": true }]);
    dev.post("/v1/threads/t/runs", body).await.ok(201);
    let mut call = agent.call().await;
    server.stop().await;
    call.hung_up().await;
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let run = ended(&server.client(), "r").await;
    assert_eq!((&run["status"], &run["errorCode"]), (&json!("error"), &json!("recovery-unsafe")));
    assert_eq!(agent.requests(), 2);
    server.stop().await;
}

#[tokio::test]
async fn a_run_whose_agent_was_removed_ends_with_the_reason() {
    let (directory, server, _agent, _call) = driving().await;
    server.client().delete("/v1/agents/a").await;
    server.stop().await;
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    assert_eq!(ended(&server.client(), "r").await["errorCode"], "agent-gone");
    server.stop().await;
}

#[tokio::test]
async fn a_run_whose_thread_is_too_large_to_read_ends_with_the_reason() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    let dev = server.client();
    dev.thread("t").await;
    let state = json!({ "type": "STATE_SNAPSHOT", "snapshot": vec![0; 300_000] });
    dev.put("/v1/threads/t/runs/before", json!([state])).await.ok(201);
    let agent = agent(&dev).await;
    dev.post("/v1/threads/t/runs", ask("r", json!([user("u", "hi")]))).await.ok(201);
    let mut call = agent.call().await;
    server.stop().await;
    call.hung_up().await;
    // A server with less memory than the tree takes.
    let mut options = Options::new(Backend::Sqlite);
    options.limits.memory = 8 * 1_024 * 1_024;
    let server = Server::in_directory(directory.path(), options).await;
    let dev = server.client();
    dev.get("/v1/threads/t/state").await.problem(422, "conversation-too-large");
    assert_eq!(ended(&dev, "r").await["errorCode"], "recovery-too-large");
    assert_eq!(agent.requests(), 1);
    server.stop().await;
}

#[tokio::test]
async fn a_question_whose_start_was_committed_without_an_answer_is_asked() {
    let options = Options::memory().with_glass();
    let server = Server::start(options).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent(&dev).await;
    server.intercept().fail(&[Failing::After]);
    let body = ask("r", json!([user("u", "hi")]));
    dev.post("/v1/threads/t/runs", body.clone()).await.problem(503, "store-unavailable");
    let call = agent.call().await;
    assert_eq!(dev.post("/v1/threads/t/runs", body).await.ok(200)["run"]["runId"], "r");
    call.finish(&whole("r", "a0", "hello")).await;
    assert_eq!(ended(&dev, "r").await["status"], "finished");
    assert_eq!((agent.requests(), messages(&dev).await["messages"].as_array().map(Vec::len)), (1, Some(2)));
    server.stop().await;
}

/// Lets a node that is gone take run `r` over, this often.
async fn taken_over(directory: &std::path::Path, times: u64, futile: u64) {
    let store = SqliteStore::open(directory, Clock::system()).await.expect("opens");
    let (project, id) = (ProjectId::new("default").expect("id"), ThreadId::new("t").expect("id"));
    let key = store.thread_named(&project, &id).await.expect("looks").thread().expect("is there").key;
    let node = NodeId(404);
    store.claim_turns(&ClaimTurns { node, judges: true, own: Vec::new(), limit: 1 }).await.expect("claims");
    for _ in 0..times {
        let head = store.heads(&[key]).await.expect("heads").pop().expect("a head");
        let (run, fence) = (RunId::new("r").expect("id"), head.write_fence());
        let take = TakeTurn { key, run, fence, tail: head.tail, driver: node, events: None, futile, input: None };
        store.take_turn(take).await.expect("takes").expect("taken");
    }
    store.shut_down().await;
}

#[tokio::test]
async fn a_run_whose_servers_are_lost_again_and_again_ends() {
    let complete = said("a0", "first");
    let cases = [
        // Attempts of which nothing is kept, in a row.
        (json!({}), &[][..], 1, MAX_FUTILE_ATTEMPTS - 1),
        // All attempts, whatever each has completed.
        (json!({ "recovery": "continue" }), &complete[..], MAX_ATTEMPTS - 1, 0),
    ];
    for (definition, said, times, futile) in cases {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent_that(&dev, definition.clone()).await;
        dev.post("/v1/threads/t/runs", ask("r", json!([user("u", "hi")]))).await.ok(201);
        let mut call = agent.call().await;
        if !said.is_empty() {
            call.say(said).await;
        }
        eventually("it is in the log", async || (types_of(&dev, "r").await.len() == 1 + said.len()).then_some(()))
            .await;
        server.stop().await;
        call.hung_up().await;
        taken_over(directory.path(), times, futile).await;
        let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
        let run = ended(&server.client(), "r").await;
        assert_eq!(
            (&run["errorCode"], &run["attempt"]),
            (&json!("recovery-exhausted"), &json!(times + 1)),
            "{definition}"
        );
        assert_eq!(agent.requests(), 1);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_run_whose_stop_was_requested_meanwhile_stops() {
    let (directory, server, agent, _call) = driving().await;
    server.stop().await;
    let store = SqliteStore::open(directory.path(), Clock::system()).await.expect("opens");
    let (project, id) = (ProjectId::new("default").expect("id"), ThreadId::new("t").expect("id"));
    let key = store.thread_named(&project, &id).await.expect("looks").thread().expect("is there").key;
    let asked = store.request_stop(key, &RunId::new("r").expect("id"), None, true).await.expect("asks");
    assert!(matches!(asked, StopOutcome::Asked(..)));
    store.shut_down().await;
    let server = Server::in_directory(directory.path(), Options::new(Backend::Sqlite)).await;
    assert_eq!(ended(&server.client(), "r").await["status"], "stopped");
    assert_eq!(agent.requests(), 1);
    server.stop().await;
}

#[tokio::test]
async fn an_agent_cannot_name_attempts() {
    let server = Server::start(Options::memory()).await;
    let dev = server.client();
    dev.thread("t").await;
    let agent = agent(&dev).await;
    dev.post("/v1/threads/t/runs", ask("r", json!([user("u", "hi")]))).await.ok(201);
    let named = json!({ "type": "CUSTOM", "name": "threadline.attempt", "value": { "attempt": 9 } });
    let other = json!({ "type": "CUSTOM", "name": "threadlines", "value": 1 });
    agent.call().await.finish(&[named, other, finished("r")]).await;
    ended(&dev, "r").await;
    assert_eq!(types_of(&dev, "r").await, ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]);
    server.stop().await;
}

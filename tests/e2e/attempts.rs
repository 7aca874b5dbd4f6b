//! Attempts at runs of producers: a second process takes a run up, and the first one is displaced.

use serde_json::{Value, json};

use crate::harness::{Answer, Client, Options, everywhere, number, run};

const RUNS: &str = "/v1/threads/t/runs";
const EVENTS: &str = "/v1/threads/t/runs/r/events";

fn opening() -> Value {
    json!([{ "type": "RUN_STARTED", "threadId": "t", "runId": "r",
        "input": { "messages": [{ "id": "u", "role": "user", "content": "Hi" }] } }])
}

/// Start of run `r` by a process.
async fn start(dev: &Client, attempt: &str, on_existing: &str) -> Answer {
    let body = json!({ "runId": "r", "attemptId": attempt, "onExisting": on_existing, "events": opening(), "leaseSeconds": 600 });
    dev.post(RUNS, body).await
}

/// Number, id and producerSeq of the attempt that a start answers with.
fn attempt(answer: &Value) -> (u64, &str, u64) {
    assert_eq!(answer["run"]["attempt"], answer["attempt"]);
    (number(answer, "attempt"), answer["attemptId"].as_str().unwrap_or_default(), number(&answer["run"], "producerSeq"))
}

/// Events of a complete message.
fn said(id: &str, text: &str) -> Vec<Value> {
    vec![
        json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" }),
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text }),
        json!({ "type": "TEXT_MESSAGE_END", "messageId": id }),
    ]
}

async fn append(dev: &Client, attempt: u64, seq: u64, events: Value) -> Answer {
    dev.post(&format!("{EVENTS}?producerSeq={seq}&attempt={attempt}"), events).await
}

/// Ids and texts of the messages.
async fn messages(dev: &Client) -> Vec<(String, String)> {
    let found = dev.get("/v1/threads/t/messages").await.ok(200);
    let text = |message: &Value, name: &str| message[name].as_str().unwrap_or_default().to_owned();
    found["messages"].as_array().expect("messages").iter().map(|it| (text(it, "id"), text(it, "content"))).collect()
}

/// The value of the newest event that names an attempt.
async fn named(dev: &Client) -> Value {
    let page = dev.get("/v1/threads/t/events?limit=1000").await.ok(200);
    let mut events = page["events"].as_array().expect("events").iter().map(|event| &event["event"]);
    events.rfind(|event| event["name"] == "threadline.attempt").expect("an attempt")["value"].clone()
}

fn all(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(id, text)| ((*id).to_owned(), (*text).to_owned())).collect()
}

everywhere! {
    async fn a_second_process_takes_the_run_up(server) {
        let dev = server.client();
        dev.thread("t").await;
        let first = start(&dev, "a", "restart").await.ok(201);
        assert_eq!(attempt(&first), (1, "a", 1));
        assert_eq!(dev.types("t").await, ["RUN_STARTED"], "no reader sees the run without it");
        // A lost answer, in every mode; and another process that leaves the run as it is.
        for mode in ["restart", "continue", "return"] {
            assert_eq!(start(&dev, "a", mode).await.ok(200), first, "{mode}");
        }
        assert_eq!(start(&dev, "b", "return").await.ok(200), first);
        let half = json!([said("m", "whole"), said("n", "half")].concat()[..5]);
        let stored = append(&dev, 1, 2, half.clone()).await.ok(200);

        let second = start(&dev, "b", "continue").await.ok(200);
        let (before, value) = (dev.types("t").await, named(&dev).await);
        assert_eq!(before[6..], ["TEXT_MESSAGE_END", "CUSTOM", "MESSAGES_SNAPSHOT"]);
        assert_eq!(attempt(&second), (2, "b", before.len() as u64), "behind what the server wrote");
        let expected = json!({ "attempt": 2, "reason": "taken-up", "superseded": [2, 6], "kept": ["m"], "unverified": [] });
        assert_eq!(value, expected);
        assert_eq!(messages(&dev).await, all(&[("u", "Hi"), ("m", "whole")]));
        assert_eq!(start(&dev, "b", "continue").await.ok(200), second, "a lost answer");
        assert_eq!(dev.get("/v1/threads/t/runs/r").await.ok(200), second["run"]);

        // The first process: what it has stored is answered first, and nothing else is taken.
        assert_eq!(number(&append(&dev, 1, 2, half.clone()).await.ok(200), "lastSeq"), number(&stored, "lastSeq"));
        let last = json!([{ "type": "TEXT_MESSAGE_CONTENT", "messageId": "n", "delta": "." }]);
        let base = "/v1/threads/t/runs/r";
        for (what, answer) in [
            ("its next event", append(&dev, 1, 7, last.clone()).await),
            ("an event that the server has in its place", append(&dev, 1, 8, last.clone()).await),
            ("an event behind all", append(&dev, 1, 10, last.clone()).await),
            ("an event without a number", dev.post(EVENTS, last.clone()).await),
            ("an attempt that is not there", append(&dev, 3, 10, last.clone()).await),
            ("heartbeat", dev.act("t", "r", "heartbeat").await),
            ("finish", dev.act("t", "r", "finish").await),
            ("fail", dev.act("t", "r", "fail").await),
            ("release", dev.act("t", "r", "release").await),
            ("heartbeat of an attempt that is not there", dev.post(&format!("{base}/heartbeat?attempt=3"), json!({})).await),
        ] {
            let refused = answer.problem(409, "run-fenced");
            assert_eq!((&refused["attempt"], &refused["run"]["status"]), (&json!(2), &json!("running")), "{what}");
        }
        assert_eq!(dev.types("t").await, before, "nothing of it is in the log");

        dev.post(&format!("{base}/heartbeat?attempt=2"), json!({})).await.ok(200);
        append(&dev, 2, 10, json!(said("n", "other"))).await.ok(200);
        let third = start(&dev, "c", "restart").await.ok(200);
        let value = named(&dev).await;
        assert_eq!(value, json!({ "attempt": 3, "reason": "taken-up", "superseded": [2, 12] }));
        assert_eq!(messages(&dev).await, all(&[("u", "Hi")]), "all since the begin is superseded");
        let next = number(&third["run"], "producerSeq") + 1;
        append(&dev, 3, next, json!(said("o", "at last"))).await.ok(200);
        let ended = dev.post(&format!("{base}/finish?attempt=3&producerSeq={}", next + 2), json!({})).await.ok(200);
        assert_eq!((&ended["status"], &ended["attempt"]), (&json!("finished"), &json!(3)));
        assert_eq!(messages(&dev).await, all(&[("u", "Hi"), ("o", "at last")]));

        // The run has ended: nothing is written, and a displaced process learns of the attempt that ended it.
        let (log, record) = (dev.types("t").await, start(&dev, "d", "restart").await.ok(200));
        assert_eq!((attempt(&record).0, &record["attemptId"], &record["run"]), (3, &Value::Null, &ended));
        assert_eq!(dev.post(&format!("{base}/fail?attempt=3"), json!({})).await.ok(200), ended);
        assert_eq!(dev.act("t", "r", "finish").await.problem(409, "run-fenced")["attempt"], 3);
        assert_eq!(number(&append(&dev, 1, 2, half).await.ok(200), "firstSeq"), 2);
        assert_eq!(dev.types("t").await, log);
    }
}

everywhere! {
    async fn a_displaced_start_does_not_displace_its_successor(server) {
        let dev = server.client();
        dev.thread("t").await;
        start(&dev, "a", "continue").await.ok(201);
        append(&dev, 1, 2, json!(said("m", "whole"))).await.ok(200);
        let second = start(&dev, "b", "continue").await.ok(200);
        let log = dev.types("t").await;
        for mode in ["continue", "restart"] {
            let refused = start(&dev, "a", mode).await.problem(409, "run-fenced");
            assert_eq!((&refused["attempt"], &refused["run"]["status"]), (&json!(2), &json!("running")), "{mode}");
        }
        assert_eq!(start(&dev, "a", "return").await.ok(200), second, "it may look");
        assert_eq!(start(&dev, "b", "continue").await.ok(200), second);
        assert_eq!(dev.types("t").await, log, "nothing was written");

        // A run that was taken up twice knows both; and who was displaced does not end what it no longer produces.
        assert_eq!(attempt(&start(&dev, "c", "restart").await.ok(200)).0, 3);
        dev.act("t", "r", "stop").await.ok(202);
        for displaced in ["a", "b"] {
            assert_eq!(start(&dev, displaced, "restart").await.problem(409, "run-fenced")["attempt"], 3, "{displaced}");
        }
        assert_eq!(dev.get("/v1/threads/t/runs/r").await.ok(200)["status"], "running");
        let end = dev.post("/v1/threads/t/runs/r/finish?attempt=3", json!({})).await.ok(200);
        assert_eq!(end["status"], "stopped");
        assert_eq!(start(&dev, "a", "restart").await.ok(200)["run"], end, "the record, as for everybody");
    }
}

everywhere! {
    async fn effects_are_repeated_only_if_the_producer_says_so(server) {
        let dev = server.client();
        dev.thread("t").await;
        start(&dev, "a", "restart").await.ok(201);
        let call = json!([{ "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "pay" }]);
        append(&dev, 1, 2, call).await.ok(200);
        let refused = start(&dev, "b", "restart").await.problem(409, "recovery-unsafe");
        assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("pay")), "{refused}");
        assert_eq!((&refused["run"]["attempt"], dev.types("t").await.len()), (&json!(1), 2), "nothing was changed");
        let body = json!({ "runId": "r", "attemptId": "b", "onExisting": "restart", "toolsRepeatable": true });
        assert_eq!(attempt(&dev.post(RUNS, body).await.ok(200)).0, 2);
        // The call of the first attempt stays in the log, so the third one must be as careful.
        start(&dev, "c", "restart").await.problem(409, "recovery-unsafe");
        let call = json!([{ "type": "TOOL_CALL_CHUNK", "toolCallId": "d", "toolCallName": "pay", "delta": "{}" }]);
        dev.post(&format!("{EVENTS}?attempt=2"), call).await.ok(200);
        start(&dev, "c", "continue").await.ok(200);
        let unverified = json!([{ "toolCallId": "d", "name": "pay", "arguments": "{}" }]);
        assert_eq!(named(&dev).await["unverified"], unverified);
        start(&dev, "d", "continue").await.ok(200);
        assert_eq!(named(&dev).await["unverified"], unverified, "the next one is told, too");
        dev.post("/v1/threads/t/runs/r/fail?attempt=4", json!({ "code": "recovery-unsafe" })).await.ok(200);

        // What an answer to an interrupt has approved may have been done before anything is logged.
        let answers = json!([{ "type": "RUN_STARTED", "input": { "resume": [{ "interruptId": "i", "status": "resolved" }] } }]);
        let body = |attempt: &str, repeatable: bool| {
            json!({ "runId": "s", "attemptId": attempt, "onExisting": "restart", "events": answers, "toolsRepeatable": repeatable })
        };
        dev.post(RUNS, body("a", false)).await.ok(201);
        dev.post(RUNS, body("b", false)).await.problem(409, "recovery-unsafe");
        // The same if the answer came after a start without events.
        dev.thread("later").await;
        let runs = "/v1/threads/later/runs";
        dev.post(runs, json!({ "runId": "r" })).await.ok(201);
        dev.post(&format!("{runs}/r/events"), answers.clone()).await.ok(200);
        let again = json!({ "runId": "r", "attemptId": "b", "onExisting": "restart" });
        dev.post(runs, again).await.problem(409, "recovery-unsafe");
        assert_eq!(attempt(&dev.post(RUNS, body("b", true)).await.ok(200)), (2, "b", 1), "nothing was said, so nothing is written");
    }
}

everywhere! {
    async fn a_run_whose_stop_was_asked_is_not_taken_up(server) {
        let dev = server.client();
        dev.thread("t").await;
        let first = start(&dev, "a", "continue").await.ok(201);
        append(&dev, 1, 2, json!(said("m", "x")[..2])).await.ok(200);
        dev.act("t", "r", "stop").await.ok(202);
        assert_eq!(start(&dev, "a", "continue").await.ok(200)["attempt"], first["attempt"], "its own process may end it");
        let stopped = start(&dev, "b", "restart").await.ok(200);
        assert_eq!((&stopped["run"]["status"], &stopped["attempt"]), (&json!("stopped"), &json!(1)));
        assert_eq!(dev.types("t").await[3..], ["TEXT_MESSAGE_END", "RUN_FINISHED"]);
        assert_eq!(dev.act("t", "r", "finish").await.ok(200)["status"], "stopped");
    }
}

#[tokio::test]
async fn a_start_says_what_it_means() {
    run(Options::memory(), async |server| {
        let dev = server.client();
        dev.thread("t").await;
        let long = "x".repeat(65);
        for body in [
            json!({ "onExisting": "continue" }),
            json!({ "onExisting": "other", "attemptId": "a" }),
            json!({ "attemptId": "" }),
            json!({ "attemptId": long }),
            json!({ "events": {} }),
            json!({ "events": [{ "type": "RUN_FINISHED" }] }),
            json!({ "agentId": "demo", "input": {}, "events": [] }),
            json!({ "agentId": "demo", "input": {}, "attemptId": "a" }),
            json!({ "agentId": "demo", "input": {}, "onExisting": "return" }),
            json!({ "agentId": "demo", "input": {}, "toolsRepeatable": false }),
        ] {
            let answer = dev.post(RUNS, body.clone()).await;
            assert!(matches!(answer.status, 400 | 422), "{body}: {}", answer.text());
        }
        assert_eq!(dev.get("/v1/threads/t").await.ok(200)["lastRun"], Value::Null);
        start(&dev, "a", "return").await.ok(201);
        for attempt in ["0", "-1", "x", "9007199254740992"] {
            dev.post(&format!("{EVENTS}?attempt={attempt}"), opening()).await.problem(400, "invalid-request");
            dev.post(&format!("{RUNS}/r/finish?attempt={attempt}"), json!({})).await.problem(400, "invalid-request");
        }
        assert_eq!(dev.types("t").await, ["RUN_STARTED"]);
    })
    .await;
}

/// A list of messages that no event can hold cannot be brought back.
#[tokio::test]
async fn a_conversation_that_no_event_can_hold_is_not_taken_up() {
    run(Options::memory(), async |server| {
        let dev = server.client();
        dev.thread("t").await;
        let long = "x".repeat(5_000_000);
        for id in ["1", "2"] {
            dev.put(&format!("{RUNS}/{id}"), json!(said(id, &long))).await.ok(201);
        }
        start(&dev, "a", "restart").await.ok(201);
        start(&dev, "b", "restart").await.ok(200);
        append(&dev, 2, 2, json!(said("m", "x"))).await.ok(200);
        let refused = start(&dev, "c", "restart").await.problem(409, "recovery-too-large");
        assert_eq!(refused["run"]["attempt"], 2);
        assert_eq!(attempt(&start(&dev, "c", "continue").await.ok(200)).0, 3, "what is complete stays");
    })
    .await;
}

/// AG-UI clients refuse a run that does not begin with RUN_STARTED. The log keeps what the producer wrote.
#[tokio::test]
async fn an_ag_ui_client_gets_the_start_that_a_producer_left_out() {
    run(Options::memory(), async |server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.post(RUNS, json!({ "runId": "r", "agentId": "demo" })).await.ok(201);
        append(&dev, 1, 1, json!(said("m", "x"))).await.ok(200);
        dev.act("t", "r", "finish").await.ok(200);
        let input = json!({ "threadId": "t", "runId": "r", "messages": [], "tools": [], "context": [], "state": {}, "forwardedProps": {} });
        let answer = dev.post("/agui/demo", input.clone()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let events: Vec<Value> =
            answer.text().lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
        assert_eq!(events[0], json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" }));
        assert_eq!((events.len(), dev.types("t").await.len()), (5, 4));
        // A client that resumes has received it.
        let seen = format!("{}:1", dev.epoch("t").await);
        let request = dev.request(reqwest::Method::POST, "/agui/demo").header("Last-Event-ID", seen).json(&input);
        assert!(!crate::harness::http::send(request).await.text().contains("RUN_STARTED"));
    })
    .await;
}

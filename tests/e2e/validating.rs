//! Events that are validated as AG-UI: on every way in, for the requests and the projects that ask for it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Options, Server, everywhere, run};

fn started() -> Value {
    json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" })
}

fn start(id: &str) -> Value {
    json!({ "type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant" })
}

fn content(id: &str) -> Value {
    json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": "x" })
}

fn end(id: &str) -> Value {
    json!({ "type": "TEXT_MESSAGE_END", "messageId": id })
}

async fn append(client: &Client, run: &str, query: &str, events: Value) -> Answer {
    client.post(&format!("/v1/threads/t/runs/{run}/events?{query}"), events).await
}

/// Asserts the refusal of an event: its index, the member and what belongs there.
fn refused(answer: &Answer, index: usize, path: &str) {
    let problem = answer.problem(422, "invalid-event");
    assert_eq!((&problem["index"], &problem["path"]), (&json!(index), &json!(path)), "{problem}");
    assert!(problem["expected"].as_str().is_some_and(|expected| !expected.is_empty()), "{problem}");
}

everywhere! {
    async fn a_batch_that_is_not_as_ag_ui_has_it_is_refused_and_its_run_goes_on(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let checked = |from: u64| format!("validate=ag-ui&producerSeq={from}");
        refused(&append(&dev, "r", &checked(1), json!([start("m")])).await, 0, "/type");
        append(&dev, "r", &checked(1), json!([started(), start("m")])).await.ok(200);
        // Shape, order, and what came before: the message that an earlier append began is open.
        let shape = json!([content("m"), { "type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": 5 }]);
        refused(&append(&dev, "r", &checked(3), shape).await, 1, "/delta");
        refused(&append(&dev, "r", &checked(3), json!([content("m"), content("other")])).await, 1, "/messageId");
        refused(&append(&dev, "r", &checked(3), json!([{ "type": "MY_EVENT" }])).await, 0, "/type");
        assert_eq!(dev.types("t").await, ["RUN_STARTED", "TEXT_MESSAGE_START"], "nothing of a refused batch is stored");
        append(&dev, "r", &checked(3), json!([content("m")])).await.ok(200);
        append(&dev, "r", &checked(3), json!([content("m")])).await.ok(200);
        // Partly stored: only what is new is judged, after what is stored.
        refused(&append(&dev, "r", &checked(3), json!([content("m"), end("m"), end("m")])).await, 2, "/messageId");
        append(&dev, "r", &checked(6), json!([end("m")])).await.problem(409, "producer-seq-gap");
        // Requests that do not ask append what they like; those that do go on from there.
        append(&dev, "r", "producerSeq=4", json!([{ "type": "MY_EVENT" }, end("m")])).await.ok(200);
        refused(&append(&dev, "r", "validate=ag-ui", json!([content("m")])).await, 0, "/messageId");
        append(&dev, "r", "validate=ag-ui", json!([start("n"), end("n")])).await.ok(200);
        append(&dev, "r", "validate=other", json!([start("n")])).await.problem(400, "invalid-request");
        let finished = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" });
        append(&dev, "r", &checked(8), json!([finished])).await.ok(200);
    }
}

everywhere! {
    async fn every_way_in_is_validated_if_the_project_says_so(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        let validation = |level: &str| json!({ "validation": level });
        server.project().put("/v1/projects/default", validation("strict")).await.problem(400, "invalid-request");
        server.project().put("/v1/projects/default", validation("ag-ui")).await.ok(201);
        let bad = json!([started(), content("m")]);
        let good = json!([started(), start("m"), content("m"), end("m")]);
        refused(&ann.put("/v1/threads/t/runs/whole", bad.clone()).await, 1, "/messageId");
        ann.get("/v1/threads/t/runs/whole").await.problem(404, "run-not-found");
        ann.put("/v1/threads/t/runs/whole", good).await.ok(201);
        ann.run("t", "r").await;
        refused(&append(&ann, "r", "producerSeq=1", bad.clone()).await, 1, "/messageId");
        let mut socket = server.socket("ann").await;
        socket.send(json!({ "id": "1", "append": { "threadId": "t", "runId": "r", "producerSeq": 1, "events": bad } })).await;
        let answer = socket.any().await;
        assert_eq!((&answer["error"]["index"], &answer["error"]["path"]), (&json!(1), &json!("/messageId")), "{answer}");
        append(&ann, "r", "producerSeq=1", json!([started()])).await.ok(200);
        ann.act("t", "r", "finish").await.ok(200);

        let lines = |events: &[Value]| events.iter().map(|event| format!("{event}\n")).collect::<String>();
        let body = lines(&[started(), start("m"), content("n")]);
        let answer = ann.ndjson(Method::POST, "/v1/threads/t/runs?runId=streamed", body).await;
        refused(&answer, 2, "/messageId");
        let ended = ann.get("/v1/threads/t/runs/streamed").await.ok(200);
        assert_eq!((&ended["status"], &ended["errorCode"]), (&json!("error"), &json!("invalid-event")), "{ended}");

        server.project().put("/v1/projects/default", validation("off")).await.ok(200);
        ann.put("/v1/threads/t/runs/free", json!([{ "type": "X" }])).await.ok(201);
    }
}

#[tokio::test]
async fn a_frame_asks_for_itself_and_an_agent_needs_no_validation() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let mut socket = server.socket("dev").await;
        let frame = |events: Value| {
            json!({ "id": "1", "append": { "threadId": "t", "runId": "r", "events": events, "validate": "ag-ui" } })
        };
        socket.send(frame(json!([start("m")]))).await;
        assert_eq!(socket.any().await["error"]["path"], "/type");
        socket.send(frame(json!([started(), start("m")]))).await;
        assert_eq!(socket.any().await["appended"]["lastSeq"], 2);
        let body = json!({ "agentId": "demo", "input": { "messages": [] } });
        dev.post("/v1/threads/t/runs?validate=ag-ui", body).await.problem(400, "invalid-request");
    })
    .await;
}

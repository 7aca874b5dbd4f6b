//! A driven run is written by its driver alone, on every node and through every API; every user of the thread may stop it.

use reqwest::Method;
use serde_json::{Value, json};
use threadline_core::{NewEvents, ProjectId, ThreadId};
use threadline_http::egress::Network;

use super::{agent, ask, ended, finished, said, types_of, user};
use crate::{
    backing::Postgres,
    harness::{
        Backend, Client, Options, Server, everywhere,
        http::{Answer, send},
        number, text,
    },
};

/// A forged result of a tool, as NDJSON.
const FORGED: &str = r#"{"type":"TOOL_CALL_RESULT","messageId":"x","toolCallId":"c","content":"APPROVED"}"#;

fn forged() -> Value {
    serde_json::from_str(FORGED).expect("JSON")
}

/// HTTP requests of other clients than the driver that append to a run.
async fn pushed(other: &Client, run: &str) -> Vec<(&'static str, Answer)> {
    let lock = |method: Method| {
        let request = other.request(method, "/api/threads/t/lock");
        request.json(&json!({ "runId": run, "userId": "dev", "ttlSeconds": 600 }))
    };
    let stream = format!("/v1/threads/t/runs?runId={run}");
    let whole = json!([{ "type": "RUN_STARTED" }, { "type": "RUN_FINISHED" }]);
    vec![
        ("the first event again", other.append("t", run, 1, json!([{ "type": "RUN_STARTED" }])).await),
        ("the next event", other.append("t", run, 2, json!([forged()])).await),
        ("an event beyond a gap", other.append("t", run, 90, json!([forged()])).await),
        ("an event without a number", {
            other.post(&format!("/v1/threads/t/runs/{run}/events"), json!([forged()])).await
        }),
        ("a stream", other.ndjson(Method::POST, &stream, format!("{FORGED}\n")).await),
        ("a stream that continues", other.ndjson(Method::POST, &format!("{stream}&producerSeq=2"), FORGED).await),
        ("taking it up", {
            let start = json!({ "runId": run, "attemptId": "x", "onExisting": "continue" });
            other.post("/v1/threads/t/runs", start).await
        }),
        ("the whole run", other.put(&format!("/v1/threads/t/runs/{run}"), whole).await),
        ("finish", other.act("t", run, "finish").await),
        ("fail", other.act("t", run, "fail").await),
        ("heartbeat", other.act("t", run, "heartbeat").await),
        ("release", other.act("t", run, "release").await),
        ("renewing the lock", send(lock(Method::PATCH)).await),
        ("releasing the lock", send(lock(Method::DELETE)).await),
    ]
}

async fn all_refused(other: &Client, run: &str) {
    for (what, answer) in pushed(other, run).await {
        assert_eq!(answer.status, 409, "{what}: {}", answer.text());
        let problem = answer.problem(409, "run-driven");
        let detail = text(&problem, "detail");
        for named in [run, "thread t", "agent a"] {
            assert!(detail.contains(named), "{what}: {detail}");
        }
        assert_eq!((&problem["retryable"], text(&problem["run"], "runId")), (&json!(false), run), "{what}");
    }
}

everywhere! {
    async fn a_driven_run_accepts_events_only_from_its_driver(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&server.project()).await;
        dev.post("/v1/threads/t/runs", ask("r", json!([user("u", "hi")]))).await.ok(201);
        let mut call = agent.call().await;
        call.say(&said("m", "Hello")[..2]).await;
        let before = crate::harness::eventually("the agent is heard", async || {
            Some(dev.types("t").await).filter(|types| types.len() == 3)
        })
        .await;
        // The asker themselves, their token, and the operator.
        let scopes = json!({ "userId": "dev", "scopes": ["read", "chat", "approve", "produce"] });
        let token = text(&server.project().post("/v1/tokens", scopes).await.ok(201), "token").to_owned();
        let token = Client { key: Some(token), ..server.project() };
        for other in [&dev, &token, &server.project()] {
            all_refused(other, "r").await;
        }
        // The same through sockets.
        let mut socket = server.socket("dev").await;
        let append = json!({ "threadId": "t", "runId": "r", "producerSeq": 4, "events": [forged()] });
        socket.send(json!({ "id": "1", "append": append })).await;
        assert_eq!(socket.problem("1", 409, "run-driven").await["threadId"], "t");
        socket.send(json!({ "id": "2", "heartbeat": { "threadId": "t", "runId": "r" } })).await;
        socket.problem("2", 409, "run-driven").await;
        let mut runner = crate::copilotkit::Frames::runner(server).await.expect("joined");
        let refused = runner.joins_run("t", "r").await.expect_err("refused");
        assert_eq!((text(&refused, "reason"), &refused["retryable"]), ("run_driven", &json!(false)), "{refused}");
        assert_eq!(dev.types("t").await, before, "nothing of it is in the log");
        // Starting it again is the same run, and brings nothing.
        dev.post("/v1/threads/t/runs", ask("r", json!([user("u", "hi")]))).await.ok(200);
        let mut rest = said("m", "Hello")[2..].to_vec();
        rest.push(finished("r"));
        call.finish(&rest).await;
        assert_eq!(ended(&dev, "r").await["status"], "finished");
        let whole = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"];
        assert_eq!(types_of(&dev, "r").await, whole);
        // It stays so for the whole life of the run.
        all_refused(&dev, "r").await;
        // Other clients may stop the run.
        dev.post("/v1/threads/t/runs", ask("s", json!([]))).await.ok(201);
        let mut call = agent.call().await;
        call.begin().await;
        dev.stop("t", "s").await;
        call.hung_up().await;
        assert_eq!(ended(&dev, "s").await["status"], "stopped");
    }
}

everywhere! {
    /// Events that every API refuses: a restored backup may contain them.
    async fn events_that_are_not_the_agents_end_its_run(server: |options| options.with_glass()) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
        let mut call = agent.call().await;
        let store = &server.intercept().inner;
        let (project, thread) = (ProjectId::new("default").expect("an id"), ThreadId::new("t").expect("an id"));
        let key = store.thread_named(&project, &thread).await.expect("a store").thread().expect("a thread").key;
        let fence = store.heads(&[key]).await.expect("a store")[0].write_fence();
        let events = NewEvents::from_array(br#"[{"type":"FOREIGN"}]"#).expect("events");
        let append = threadline_store::Append { key, fence, epoch: None, producer_seq: Some(2), events };
        assert!(store.append(&[append]).await.expect("a store")[0].is_some());
        let begun = std::time::Instant::now();
        call.say(&said("m", "one")).await;
        call.hung_up().await;
        assert_eq!(ended(&dev, "r").await["errorCode"], "agent-displaced");
        assert!(begun.elapsed().as_secs() < 15, "not by its lease: {:?}", begun.elapsed());
        assert_eq!(types_of(&dev, "r").await, ["RUN_STARTED", "FOREIGN", "RUN_ERROR"]);
    }
}

#[tokio::test]
async fn another_node_refuses_as_well() {
    let database = Postgres::shared().fresh_database();
    let options = || Options::new(Backend::Production);
    let driving = Server::in_database(&database, options()).await;
    let other = Server::in_database(&database, options()).await;
    let dev = driving.client();
    dev.thread("t").await;
    let agent = agent(&dev).await;
    dev.post("/v1/threads/t/runs", ask("r", json!([]))).await.ok(201);
    let mut call = agent.call().await;
    call.begin().await;
    all_refused(&other.client(), "r").await;
    other.client().stop("t", "r").await;
    call.hung_up().await;
    assert_eq!(ended(&other.client(), "r").await["status"], "stopped");
    assert_eq!(number(&other.client().get("/v1/threads/t").await.ok(200), "tail"), 2);
    driving.stop().await;
    other.stop().await;
}

//! Claims of tool calls: of several pages that show a thread, one runs the tool.

use threadline_core::limits::{DEFAULT_CLAIM_LEASE, MAX_CLAIM_LEASE};

use super::*;
use crate::harness::{Answer, Options, everywhere, run};

const CLAIM: &str = "/v1/threads/t/tool-calls/c1/claim";

/// A thread whose agent waits for the result of a call for each of these ids.
async fn waiting(client: &Client, calls: &[&str]) -> FakeAgent {
    client.thread("t").await;
    let agent = agent(client).await;
    let mut body = ask("first", json!([user("u1", "Where am I?")]));
    body["input"]["tools"] = json!([{ "name": "locate", "description": "", "parameters": {} }]);
    client.post("/v1/threads/t/runs", body).await.ok(201);
    let mut events = Vec::new();
    for call in calls {
        events.push(json!({ "type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": "locate" }));
        events.push(json!({ "type": "TOOL_CALL_END", "toolCallId": call }));
    }
    events.push(finished("first"));
    agent.call().await.finish(&events).await;
    ended(client, "first").await;
    agent
}

fn tab(name: &str) -> Value {
    json!({ "clientId": name })
}

fn result(call: &str) -> Value {
    json!({ "id": format!("result-of-{call}"), "role": "tool", "toolCallId": call, "content": "Berlin" })
}

/// The body of a start with the results of these calls, each with the claim of this client.
fn results(run: &str, calls: &[&str], client: &str) -> Value {
    let mut body = ask(run, calls.iter().map(|call| result(call)).collect());
    body["claims"] = calls.iter().map(|call| json!({ "toolCallId": call, "clientId": client })).collect();
    body
}

async fn give_up(client: &Client, name: &str) -> Answer {
    client.delete(&format!("{CLAIM}?clientId={name}")).await
}

everywhere! {
    async fn one_of_two_clients_gets_a_call_and_brings_its_result(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        let agent = waiting(&dev, &["c1"]).await;
        let (left, right) = tokio::join!(dev.post(CLAIM, tab("left")), dev.post(CLAIM, tab("right")));
        let (winner, loser) = match (left.status, right.status) {
            (200, 409) => ("left", "right"),
            (409, 200) => ("right", "left"),
            other => panic!("{other:?}: {} {}", left.text(), right.text()),
        };
        let (won, lost) = if winner == "left" { (left, right) } else { (right, left) };
        let until = server.clock.now().plus(DEFAULT_CLAIM_LEASE).to_string();
        assert_eq!(won.ok(200), json!({ "toolCallId": "c1", "clientId": winner, "until": until }));
        let problem = lost.problem(409, "claimed");
        assert_eq!((&problem["toolCallId"], &problem["until"]), (&json!("c1"), &json!(until)));
        assert!(!lost.text().contains(winner), "it is not said who holds it: {}", lost.text());

        // The holder renews, and a result under the claim of the other one starts nothing.
        server.pass(20);
        let later = server.clock.now().plus(2 * DEFAULT_CLAIM_LEASE).to_string();
        let renewed = dev.post(CLAIM, json!({ "clientId": winner, "leaseSeconds": 60 })).await.ok(200);
        assert_eq!(renewed["until"], later);
        let refused = dev.post("/v1/threads/t/runs", results("no", &["c1"], loser)).await.problem(409, "claim-lost");
        assert_eq!(refused["toolCallId"], "c1");
        dev.get("/v1/threads/t/runs/no").await.problem(404, "run-not-found");
        assert_eq!(agent.requests(), 1);

        let answer = results("second", &["c1"], winner);
        dev.post("/v1/threads/t/runs", answer.clone()).await.ok(201);
        let call = agent.call().await;
        assert_eq!(call.message_ids().last().map(String::as_str), Some("result-of-c1"));
        assert_eq!(dev.post("/v1/threads/t/runs", answer).await.ok(200)["run"]["runId"], "second", "repeated");
        call.finish(&whole("second", "m1", "In Berlin.")).await;
        ended(&dev, "second").await;
        for client in [winner, loser] {
            dev.post(CLAIM, tab(client)).await.problem(409, "tool-call-not-pending");
            dev.post("/v1/threads/t/runs", results("late", &["c1"], client)).await.problem(409, "claim-lost");
        }
        assert_eq!(agent.requests(), 2);
    }
}

everywhere! {
    async fn a_call_is_free_again_after_its_lease_and_when_it_is_given_up(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        let agent = waiting(&dev, &["c1", "c2"]).await;
        dev.post(CLAIM, tab("left")).await.ok(200);
        assert_eq!(give_up(&dev, "right").await.status, 204, "it has nothing to give up");
        dev.post(CLAIM, tab("right")).await.problem(409, "claimed");
        assert_eq!(give_up(&dev, "left").await.status, 204);
        dev.post(CLAIM, tab("right")).await.ok(200);
        server.pass(DEFAULT_CLAIM_LEASE.as_secs());
        // The lease of one call is over and nobody has taken it; the other one was never claimed, and is now.
        dev.post("/v1/threads/t/tool-calls/c2/claim", tab("left")).await.ok(200);
        dev.post("/v1/threads/t/runs", results("no", &["c1", "c2"], "right")).await.problem(409, "claim-lost");
        give_up(&dev, "right").await;
        dev.post(CLAIM, json!({ "clientId": "left", "leaseSeconds": MAX_CLAIM_LEASE.as_secs() })).await.ok(200);
        server.pass(DEFAULT_CLAIM_LEASE.as_secs());
        dev.post("/v1/threads/t/runs", results("second", &["c1", "c2"], "left")).await.ok(201);
        agent.call().await.finish(&whole("second", "m1", "In Berlin.")).await;
        ended(&dev, "second").await;
    }
}

#[tokio::test]
async fn results_that_name_no_claim_are_taken_and_end_it() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        let agent = waiting(&dev, &["c1"]).await;
        dev.post(CLAIM, tab("left")).await.ok(200);
        dev.post("/v1/threads/t/runs", ask("second", json!([result("c1")]))).await.ok(201);
        agent.call().await.finish(&whole("second", "m1", "In Berlin.")).await;
        ended(&dev, "second").await;
        dev.post(CLAIM, tab("left")).await.problem(409, "tool-call-not-pending");
        dev.post("/v1/threads/t/runs", results("late", &["c1"], "left")).await.problem(409, "claim-lost");
    })
    .await;
}

#[tokio::test]
async fn claims_do_not_wait_and_are_of_one_thread() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        let agent = waiting(&dev, &["c1"]).await;
        dev.post(CLAIM, tab("left")).await.ok(200);
        let starts = |body: Value| dev.post("/v1/threads/t/runs", body);
        let with = |name: &str, value: Value| {
            let mut body = results("no", &["c1"], "left");
            body[name] = value;
            body
        };
        for busy in ["enqueue", "interrupt"] {
            starts(with("busy", json!(busy))).await.problem(400, "invalid-request");
        }
        starts(with("fork", json!({ "regenerate": "m" }))).await.problem(400, "invalid-request");
        starts(json!({ "runId": "no", "claims": with("x", json!(1))["claims"] })).await.problem(400, "invalid-request");
        starts(with("input", json!({ "messages": [] }))).await.problem(400, "invalid-request");
        let many: Vec<_> = (0..101).map(|n| json!({ "toolCallId": format!("c{n}"), "clientId": "left" })).collect();
        starts(with("claims", json!(many))).await.problem(400, "invalid-request");

        // An agent that prefers to queue does not queue these results.
        dev.put("/v1/agents/a", json!({ "url": agent.url, "busy": "enqueue" })).await.ok(200);
        starts(ask("other", json!([user("u2", "Hello?")]))).await.ok(201);
        let call = agent.call().await;
        starts(results("second", &["c1"], "left")).await.problem(409, "run-active");
        call.finish(&whole("other", "m1", "Hi.")).await;
        ended(&dev, "other").await;
        // A fork has no claims.
        let fork = dev.post("/v1/threads/t/forks", json!({ "threadId": "f" })).await.ok(201);
        assert_eq!(fork["threadId"], "f");
        dev.post("/v1/threads/f/tool-calls/c1/claim", tab("right")).await.ok(200);
        dev.post(CLAIM, tab("right")).await.problem(409, "claimed");
        starts(results("second", &["c1"], "left")).await.ok(201);
        agent.call().await.finish(&whole("second", "m2", "In Berlin.")).await;
        ended(&dev, "second").await;
    })
    .await;
}

#[tokio::test]
async fn invalid_claims_are_refused() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        let _agent = waiting(&dev, &["c1"]).await;
        for body in [
            json!({}),
            json!({ "clientId": "" }),
            json!({ "clientId": "x".repeat(257) }),
            json!({ "clientId": "a", "leaseSeconds": 0 }),
            json!({ "clientId": "a", "leaseSeconds": MAX_CLAIM_LEASE.as_secs() + 1 }),
            json!({ "clientId": "a", "other": 1 }),
        ] {
            dev.post(CLAIM, body).await.problem(400, "invalid-request");
        }
        dev.delete(CLAIM).await.problem(400, "invalid-request");
        dev.post("/v1/threads/t/tool-calls/c2/claim", tab("a")).await.problem(409, "tool-call-not-pending");
        dev.post("/v1/threads/none/tool-calls/c1/claim", tab("a")).await.problem(404, "thread-not-found");
        let none = dev.delete("/v1/threads/none/tool-calls/c1/claim?clientId=a").await;
        none.problem(404, "thread-not-found");
    })
    .await;
}

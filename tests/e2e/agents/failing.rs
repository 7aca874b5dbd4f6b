//! Agents that fail: the run ends with the reason, and keeps its earlier events.

use serde_json::{Value, json};

use super::{agent, agent_that, ask, ended, events_of, finished, said, types_of, user, whole};
use crate::harness::{
    Client,
    agent::{Call, FakeAgent},
    everywhere, text,
};

/// Starts a run, lets the agent do something, and looks at how the run has ended: its code, and its events after
/// RUN_STARTED but the last. Then the thread is free again.
async fn code(client: &Client, agent: &FakeAgent, run: &str, act: impl AsyncFnOnce(Call)) -> (String, Vec<Value>) {
    client.post("/v1/threads/t/runs", ask(run, json!([user(&format!("u-{run}"), "hi")]))).await.ok(201);
    act(agent.call().await).await;
    failed(client, agent, run).await
}

async fn failed(client: &Client, agent: &FakeAgent, run: &str) -> (String, Vec<Value>) {
    let ended = ended(client, run).await;
    assert_eq!(ended["status"], "error", "{ended}");
    let mut events = events_of(client, run).await;
    let last = events.pop().expect("events");
    assert_eq!(
        (&last["type"], &last["code"], &last["message"]),
        (&json!("RUN_ERROR"), &ended["errorCode"], &ended["errorMessage"])
    );
    let port = agent.url.rsplit(':').next().expect("a port").trim_end_matches('/').to_owned();
    assert!(!last.to_string().contains(&port) && !last.to_string().contains("127.0.0.1"), "{last}");
    assert_eq!(events.remove(0)["type"], "RUN_STARTED");
    (text(&ended, "errorCode").to_owned(), events)
}

/// The thread takes the next run.
async fn free(client: &Client, agent: &FakeAgent) {
    client.post("/v1/threads/t/runs", ask("next", json!([]))).await.ok(201);
    agent.call().await.finish(&whole("next", "last", "fine")).await;
    assert_eq!(ended(client, "next").await["status"], "finished");
}

/// An answer that is no event stream.
fn answer(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

everywhere! {
    async fn answers_that_are_no_streams(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let html = "<html>secret page</html>";
        for (number, (head, expected)) in [
            ("200 OK\r\nContent-Type: text/html", "agent-unreachable"),
            ("200 OK", "agent-unreachable"),
            ("500 Internal Server Error\r\nContent-Type: text/html", "agent-unreachable"),
            ("500 Internal Server Error\r\nContent-Type: text/event-stream", "agent-unreachable"),
            ("404 Not Found", "agent-unreachable"),
            ("302 Found\r\nLocation: http://127.0.0.1:1/", "agent-unreachable"),
        ]
        .into_iter()
        .enumerate()
        {
            let (found, events) = code(&dev, &agent, &format!("r{number}"), async |mut call| {
                call.write(answer(head, html)).await;
                call.hung_up().await;
            })
            .await;
            assert_eq!((found.as_str(), events.len()), (expected, 0), "{head}");
        }
        // A server that does not speak HTTP; one that closes the connection; no server at all.
        let (found, _) = code(&dev, &agent, "ssh", async |mut call| call.write("SSH-2.0-OpenSSH_9.6\r\n").await).await;
        assert_eq!(found, "agent-broken");
        assert_eq!(code(&dev, &agent, "gone", async |call| drop(call)).await.0, "agent-broken");
        free(&dev, &agent).await;
        let log = dev.get("/v1/threads/t/events").await;
        assert!(!log.text().contains("secret page") && !log.text().contains("127.0.0.1"));
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
        dev.put("/v1/agents/a", json!({ "url": format!("http://{closed}/") })).await.ok(200);
        dev.post("/v1/threads/t/runs", ask("nobody", json!([]))).await.ok(201);
        assert_eq!(failed(&dev, &agent, "nobody").await.0, "agent-unreachable");
    }
}

everywhere! {
    async fn streams_that_break_or_end_too_early(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let open = &said("m", "half a")[..2];
        let closed = |found: Vec<Value>| {
            let types: Vec<_> = found.iter().map(|event| text(event, "type").to_owned()).collect();
            assert_eq!(types, ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]);
            assert_eq!((&found[..2], &found[2]["messageId"]), (open, &json!("m")));
        };
        let (found, events) = code(&dev, &agent, "dies", async |mut call| call.say(open).await).await;
        assert_eq!(found, "agent-broken");
        closed(events);
        let (found, events) = code(&dev, &agent, "torn", async |mut call| {
            call.say(open).await;
            call.send("data: {\"type\":\"LOST\"}\n").await;
            call.end().await;
        })
        .await;
        assert_eq!(found, "agent-incomplete", "an event without its blank line is none");
        closed(events);
        let (found, events) = code(&dev, &agent, "empty", async |mut call| call.end().await).await;
        assert_eq!((found.as_str(), events.len()), ("agent-incomplete", 0));
        let nested = json!([
            { "type": "STEP_STARTED", "stepName": "s" },
            { "type": "REASONING_START", "messageId": "t" },
            { "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "n" },
        ]);
        let nested = nested.as_array().expect("events");
        let (_, events) = code(&dev, &agent, "open", async |mut call| {
            call.say(nested).await;
            call.end().await;
        })
        .await;
        assert_eq!(events[3..], [
            json!({ "type": "TOOL_CALL_END", "toolCallId": "c" }),
            json!({ "type": "REASONING_END", "messageId": "t" }),
            json!({ "type": "STEP_FINISHED", "stepName": "s" }),
        ]);
        free(&dev, &agent).await;
    }
}

everywhere! {
    async fn events_that_cannot_be_stored(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let deep = format!("{{\"type\":\"A\",\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        let garbage =
            ["not JSON", "[{\"type\":\"A\"}]", "{\"type\":7}", "{\"kind\":\"A\"}", "\"RUN_STARTED\"", "{} {}", &deep];
        for (number, garbage) in garbage.iter().enumerate() {
            let before = json!({ "type": "CUSTOM", "name": "before", "value": number });
            let (found, events) = code(&dev, &agent, &format!("r{number}"), async |mut call| {
                call.send(&format!("data: {before}\n\ndata: {garbage}\n\ndata: {{\"type\":\"AFTER\"}}\n\n")).await;
                call.hung_up().await;
            })
            .await;
            assert_eq!((found.as_str(), events), ("agent-invalid-event", vec![before]), "{garbage}");
        }
        let (found, _) = code(&dev, &agent, "latin1", async |mut call| {
            call.begin().await;
            call.write(b"14\r\ndata: {\"type\":\"\xe9\"}\n\n\r\n").await;
            call.hung_up().await;
        })
        .await;
        assert_eq!(found, "agent-invalid-event");
        free(&dev, &agent).await;
    }
}

everywhere! {
    async fn an_event_that_is_too_large_is_refused_before_its_end(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        let (found, events) = code(&dev, &agent, "large", async |mut call| {
            call.say(&said("m", "small")).await;
            call.send(&format!("data: {{\"type\":\"A\",\"a\":\"{}", "x".repeat(8 * 1_024 * 1_024))).await;
            call.hung_up().await;
        })
        .await;
        assert_eq!((found.as_str(), events), ("agent-invalid-event", said("m", "small")));
        free(&dev, &agent).await;
    }
}

everywhere! {
    async fn responses_of_agents_outside_the_protocol(server) {
        let dev = server.client();
        dev.thread("t").await;
        let agent = agent(&dev).await;
        // A RUN_STARTED of its own, keep-alives, unknown events, odd spellings; then words after the last one.
        dev.post("/v1/threads/t/runs", ask("r", json!([user("u", "hi")]))).await.ok(201);
        let mut call = agent.call().await;
        let own = "data: {\"type\":\"RUN_STARTED\",\"threadId\":\"x\",\"runId\":\"y\"}\n\n";
        let odd = "{ \"type\" : \"TO_COME\",  \"n\": 1.0, \"n\": 2 }";
        call.send(&format!(": hello\n\n{own}data:\n\nevent: x\nid: 7\ndata: {odd}\n\n{own}")).await;
        call.say(&said("m", "RUN_STARTED")).await;
        call.say(&[finished("r"), json!({ "type": "CUSTOM", "name": "late" }), finished("r")]).await;
        // The agent keeps the connection open; no client waits for it.
        call.hung_up().await;
        assert_eq!(ended(&dev, "r").await["status"], "finished");
        let types = types_of(&dev, "r").await;
        assert_eq!((types.len(), types[0].as_str(), types[1].as_str()), (6, "RUN_STARTED", "TO_COME"));
        assert_eq!(types[5], "RUN_FINISHED");
        assert!(dev.get("/v1/threads/t/events").await.text().contains(odd), "byte for byte");
        // Its own RUN_ERROR is passed on.
        dev.post("/v1/threads/t/runs", ask("e", json!([]))).await.ok(201);
        let error = json!({ "type": "RUN_ERROR", "message": "no credit", "code": "credit" });
        agent.call().await.finish(std::slice::from_ref(&error)).await;
        let run = ended(&dev, "e").await;
        assert_eq!((&run["errorCode"], &run["errorMessage"]), (&json!("credit"), &json!("no credit")));
        assert_eq!(events_of(&dev, "e").await[1], error);
        free(&dev, &agent).await;
    }
}

everywhere! {
    async fn agents_that_fall_silent(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.thread("u").await;
        let agent = agent_that(&dev, json!({ "idleTimeoutSeconds": 1 })).await;
        // Before the head, and in the middle: both at once, for the time that it takes.
        dev.post("/v1/threads/u/runs", ask("mute", json!([]))).await.ok(201);
        let mut mute = agent.call().await;
        let (found, events) = code(&dev, &agent, "r", async |mut call| {
            call.say(&said("m", "and then")[..2]).await;
            call.hung_up().await;
        })
        .await;
        assert_eq!((found.as_str(), events.len()), ("agent-silent", 3));
        mute.hung_up().await;
        let run = crate::harness::eventually("the other run ends", async || {
            let run = dev.get("/v1/threads/u/runs/mute").await.ok(200);
            (run["status"] != "running").then_some(run)
        })
        .await;
        let message = json!("the agent sent nothing for 1 s");
        assert_eq!((&run["errorCode"], &run["errorMessage"]), (&json!("agent-silent"), &message));
    }
}

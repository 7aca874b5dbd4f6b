//! The agent of a thread that was made without one: that of its first run, whichever API began it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Client, after, eventually, everywhere, http::send};

const LINES: &str = "{\"type\":\"CUSTOM\",\"name\":\"x\",\"value\":1}\n";

/// Begins the first run of a thread.
async fn begin(dev: &Client, by: &str, thread: &str) -> u16 {
    let runs = format!("/v1/threads/{thread}/runs");
    let input = json!({ "messages": [{ "id": "u", "role": "user", "content": "hi" }] });
    let mut asked =
        json!({ "threadId": thread, "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {} });
    asked["messages"] = input["messages"].clone();
    let answer = match by {
        "start" => dev.post(&runs, json!({ "runId": "r", "agentId": "demo" })).await,
        "start by query" => dev.post(&format!("{runs}?agentId=demo"), json!({ "runId": "r" })).await,
        "lines" => dev.ndjson(Method::POST, &format!("{runs}?runId=r&agentId=demo"), LINES).await,
        "whole" => dev.put(&format!("{runs}/r?agentId=demo"), json!([{ "type": "A" }])).await,
        "whole as lines" => dev.ndjson(Method::PUT, &format!("{runs}/r?agentId=demo"), LINES).await,
        "agent" => dev.post(&runs, json!({ "runId": "r", "agentId": "demo", "input": input })).await,
        "AG-UI" => send(dev.request(Method::POST, "/agui/demo").json(&asked)).await,
        "CopilotKit" => send(dev.request(Method::POST, "/copilotkit/agent/demo/run").json(&asked)).await,
        "CopilotKit's Node runtime" => {
            let lock = json!({ "runId": "r", "userId": "dev", "agentId": "demo" });
            dev.post(&format!("/api/threads/{thread}/lock"), lock).await
        }
        "conversation" => {
            let list = json!({ "messages": input["messages"], "agentId": "demo" });
            dev.put(&format!("/v1/conversations/{thread}"), list).await
        }
        other => panic!("{other}"),
    };
    answer.status
}

everywhere! {
    async fn a_thread_takes_the_agent_of_its_first_run_through_every_api(server) {
        let dev = server.client();
        let ways = [
            "start", "start by query", "lines", "whole", "whole as lines", "agent", "AG-UI", "CopilotKit",
            "CopilotKit's Node runtime", "conversation",
        ];
        for (at, by) in ways.into_iter().enumerate() {
            let thread = format!("t{at}");
            assert_eq!(dev.thread(&thread).await["agentId"], Value::Null);
            // The cursor starts after the feed's entry for the new thread.
            let mut place = eventually("the feed tells the thread", async || {
                let feed = dev.get("/v1/feed?limit=500").await.ok(200);
                let entries = feed["entries"].as_array().expect("entries");
                entries.iter().any(|entry| entry["threadId"] == *thread).then(|| after(&feed))
            })
            .await;
            let status = begin(&dev, by, &thread).await;
            assert!((200..300).contains(&status), "{by}: {status}");
            assert_eq!(dev.get(&format!("/v1/threads/{thread}")).await.ok(200)["agentId"], "demo", "{by}");
            eventually("the feed tells its agent", async || {
                let feed = dev.get(&format!("/v1/feed?{place}&wait=10")).await.ok(200);
                place = after(&feed);
                let entries = feed["entries"].as_array().expect("entries");
                entries
                    .iter()
                    .any(|entry| entry["threadId"] == *thread && entry["thread"]["agentId"] == "demo")
                    .then_some(())
            })
            .await;
        }
        // Lists by agent have them all, CopilotKit's too.
        for list in ["/v1/threads?agentId=demo", "/copilotkit/threads?agentId=demo", "/api/threads?userId=dev&agentId=demo"] {
            let threads = dev.get(list).await.ok(200)["threads"].as_array().map(Vec::len);
            assert_eq!(threads, Some(ways.len()), "{list}");
        }
        // A thread stays its agent's.
        dev.put("/v1/threads/t3/runs/other?agentId=other", json!([{ "type": "A" }])).await.ok(201);
        assert_eq!(dev.get("/v1/threads/t3").await.ok(200)["agentId"], "demo");
    }
}

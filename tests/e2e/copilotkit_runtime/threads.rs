//! Thread lists and inspectors of the browser packages.

use serde_json::{Value, json};

use super::{agent, finished, said, user, whole};
use crate::{
    harness::{Client, Options, Server, everywhere, text},
    identity::token,
};

async fn list(client: &Client, query: &str) -> Value {
    client.get(&format!("/copilotkit/threads?{query}")).await.ok(200)
}

fn ids(list: &Value) -> Vec<&str> {
    list["threads"].as_array().expect("threads").iter().map(|thread| text(thread, "id")).collect()
}

everywhere! {
    async fn threads_are_listed_by_agent_in_pages(server) {
        let dev = server.client();
        for (id, agent) in [("t1", "a"), ("t2", "a"), ("other", "b"), ("t3", "a")] {
            dev.post("/v1/threads", json!({ "threadId": id, "agentId": agent })).await.ok(201);
        }
        let (mut found, mut cursor) = (Vec::new(), String::new());
        let code = text(&list(&dev, "").await, "joinCode").to_owned();
        assert!(code.len() >= 16);
        loop {
            let page = list(&dev, &format!("agentId=a&limit=2{cursor}")).await;
            assert_eq!(text(&page, "joinCode"), code, "the same in each list");
            found.extend(ids(&page).into_iter().map(str::to_owned));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        found.sort();
        assert_eq!(found, ["t1", "t2", "t3"]);
        dev.get("/copilotkit/threads?cursor=x").await.problem(400, "invalid-cursor");
        for bad in ["limit=x", "limit=NaN", "includeArchived=maybe"] {
            dev.get(&format!("/copilotkit/threads?{bad}")).await.problem(400, "invalid-request");
        }
        let unknown = dev.get("/copilotkit/threads?agentId=a&future=1").await.problem(400, "unknown-parameter");
        assert_eq!(unknown["parameter"], "future");
        assert!(!text(&dev.post("/copilotkit/threads/subscribe", json!({})).await.ok(200), "joinToken").is_empty());
    }
}

everywhere! {
    async fn threads_are_renamed_archived_and_deleted(server) {
        let dev = server.client();
        // An id is whatever the application has chosen.
        let (id, path) = ("t/1 é", "/copilotkit/threads/t%2F1%20%C3%A9");
        dev.post("/v1/threads", json!({ "threadId": id, "agentId": "a" })).await.ok(201);
        let named = dev.patch(path, json!({ "agentId": "a", "name": "N", "createdById": "eve" })).await.ok(200);
        assert_eq!((text(&named, "id"), text(&named, "name"), text(&named, "createdById")), (id, "N", "dev"));
        let archived = dev.post(&format!("{path}/archive"), json!({ "agentId": "a" })).await.ok(200);
        assert_eq!(archived, json!({ "threadId": id, "archived": true }));
        assert_eq!(ids(&list(&dev, "agentId=a").await), [] as [&str; 0]);
        assert_eq!(ids(&list(&dev, "agentId=a&includeArchived=true").await), [id]);
        assert_eq!(dev.patch(path, json!({ "agentId": "a", "archived": false })).await.ok(200)["archived"], false);
        assert_eq!(ids(&list(&dev, "agentId=a").await), [id]);
        let delete = dev.request(reqwest::Method::DELETE, path).json(&json!({ "agentId": "a" }));
        assert_eq!(crate::harness::http::send(delete).await.ok(200), json!({ "threadId": id, "deleted": true }));
        assert_eq!(ids(&list(&dev, "agentId=a").await), [] as [&str; 0]);
        dev.patch(path, json!({ "name": "x" })).await.problem(404, "thread-not-found");
    }
}

everywhere! {
    async fn inspectors_read_the_events_of_a_thread(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let call = [
            json!({ "type": "STATE_SNAPSHOT", "snapshot": { "n": 1 } }),
            json!({ "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f" }),
            json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}" }),
            json!({ "type": "TOOL_CALL_END", "toolCallId": "c" }),
        ];
        let events = [&call[..], &said("m", "Hello"), &[finished("r")]].concat();
        whole(&dev, &agent, "r", json!([user("u", "hi")]), &events).await;
        let part = async |name: &str| dev.get(&format!("/copilotkit/threads/t/{name}")).await.ok(200);
        assert_eq!(
            part("messages").await["messages"],
            json!([
                { "id": "u", "role": "user", "content": "hi" },
                { "id": "c", "role": "assistant", "toolCalls": [{ "id": "c", "name": "f", "args": "{}" }] },
                { "id": "m", "role": "assistant", "content": "Hello" },
            ]),
        );
        assert_eq!(part("state").await, json!({ "state": { "n": 1 } }));
        let all = part("events").await["events"].take();
        assert_eq!(all.as_array().expect("events")[1..], events);
        dev.thread("empty").await;
        assert_eq!(dev.get("/copilotkit/threads/empty/state").await.ok(200), json!({ "state": null }));
        for name in ["messages", "events", "state"] {
            dev.get(&format!("/copilotkit/threads/none/{name}")).await.problem(404, "thread-not-found");
        }
    }
}

#[tokio::test]
async fn a_list_is_its_users() {
    crate::harness::run(Options::memory().with_key("secret"), async |server: &Server| {
        let (ann, eve) = (token(server, "ann").await, token(server, "eve").await);
        ann.thread("t").await;
        let (hers, other) = (list(&ann, "").await, list(&eve, "").await);
        assert_eq!((ids(&hers), ids(&other)), (vec!["t"], vec![]));
        assert_ne!(hers["joinCode"], other["joinCode"]);
        let pass = async |client: &Client| client.post("/copilotkit/threads/subscribe", json!({})).await.ok(200);
        assert_ne!(pass(&ann).await, pass(&eve).await);
    })
    .await;
}

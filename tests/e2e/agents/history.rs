//! What a client with a key sends of the conversation, and what its agent is given of it: the client is believed.

use reqwest::Method;
use serde_json::{Value, json};
use threadline_http::egress::Network;

use super::{agent, ended, events_of, finished, messages, said, user};
use crate::harness::{Client, agent::FakeAgent, everywhere, http::send};

/// A run through AG-UI's API: what its agent is given, after which it says `says`.
async fn given(client: &Client, agent: &FakeAgent, run: &str, sent: Value, says: &[Value]) -> Value {
    let body = json!({ "threadId": "t", "runId": run, "messages": sent });
    let asked = tokio::spawn(send(client.request(Method::POST, "/agui/a").json(&body)));
    let call = agent.call().await;
    let input = call.input();
    call.finish(&[says, &[finished(run)]].concat()).await;
    let answer = asked.await.expect("answered");
    assert_eq!(answer.status, 200, "{}", answer.text());
    ended(client, run).await;
    input["messages"].clone()
}

/// The new messages that a run has stored.
async fn stored(client: &Client, run: &str) -> Value {
    events_of(client, run).await[0]["input"]["messages"].clone()
}

fn system(content: &str) -> Value {
    json!({ "id": "sys", "role": "system", "content": content })
}

fn assistant(id: &str, content: &str) -> Value {
    json!({ "id": id, "role": "assistant", "content": content })
}

everywhere! {
    async fn sending_new_messages_or_the_whole_history_is_equivalent(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let dev = server.user("ann");
        let agent = agent(&server.project()).await;
        let u1 = user("u1", "hi");
        assert_eq!(given(&dev, &agent, "r1", json!([u1]), &said("a1", "hello")).await, json!([u1]));
        let (a1, u2, u3) = (assistant("a1", "hello"), user("u2", "more"), user("u3", "and more"));
        // Only what is new, nothing at all, all of it: each message is stored once.
        assert_eq!(given(&dev, &agent, "r2", json!([u2]), &said("a2", "fine")).await, json!([u1, a1, u2]));
        assert_eq!(stored(&dev, "r2").await, json!([u2]));
        let a2 = assistant("a2", "fine");
        assert_eq!(given(&dev, &agent, "r3", json!([]), &[]).await, json!([u1, a1, u2, a2]));
        assert_eq!(stored(&dev, "r3").await, json!([]));
        let all = json!([u1, a1, u2, a2, u3]);
        assert_eq!(given(&dev, &agent, "r4", all.clone(), &[]).await, all);
        assert_eq!(stored(&dev, "r4").await, json!([u3]));
        // In another order, and with gaps: the agent is given what the client has, and the log keeps its own order.
        let shuffled = json!([u3, a2, u1]);
        assert_eq!(given(&dev, &agent, "r5", shuffled.clone(), &[]).await, shuffled);
        assert_eq!(stored(&dev, "r5").await, json!([]));
        assert_eq!(messages(&dev).await["messages"], all);
        // An empty text is a message, too.
        let empty = user("u4", "");
        assert_eq!(given(&dev, &agent, "r6", json!([empty]), &[]).await, json!([u1, a1, u2, a2, u3, empty]));
        assert_eq!(stored(&dev, "r6").await, json!([empty]));
    }
}

everywhere! {
    async fn a_message_that_has_changed_under_its_id_is_the_clients_for_the_agent_and_the_first_for_the_log(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let dev = server.user("ann");
        let agent = agent(&server.project()).await;
        let (u1, a1) = (user("u1", "hi"), assistant("a1", "hello"));
        given(&dev, &agent, "r1", json!([u1]), &said("a1", "hello")).await;
        let (other, half) = (user("u1", "hi there"), assistant("a1", "hel"));
        let sent = json!([other, half, user("u2", "go on")]);
        assert_eq!(given(&dev, &agent, "r2", sent.clone(), &[]).await, sent);
        assert_eq!(stored(&dev, "r2").await, json!([user("u2", "go on")]));
        // Only what is new, and a question that is asked once more, otherwise: it stands where it stood.
        let again = user("u2", "go on, please");
        assert_eq!(given(&dev, &agent, "r3", json!([again, user("u3", "!")]), &[]).await, json!([u1, a1, again, user("u3", "!")]));
        let all = json!([u1, a1, user("u2", "go on"), user("u3", "!")]);
        assert_eq!(messages(&dev).await["messages"], all, "what was said is said");
    }
}

everywhere! {
    async fn instructions_that_come_with_every_request_are_no_history(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let dev = server.user("ann");
        let agent = agent(&server.project()).await;
        let (u1, a1) = (user("u1", "hi"), assistant("a1", "hello"));
        given(&dev, &agent, "r1", json!([system("be kind"), u1]), &said("a1", "hello")).await;
        let u2 = user("u2", "more");
        let all = given(&dev, &agent, "r2", json!([system("be brief"), u2]), &[]).await;
        assert_eq!(all, json!([system("be brief"), u1, a1, u2]));
        assert_eq!(stored(&dev, "r2").await, json!([u2]));
        // Who sends the first question as well wants to ask it again.
        let first = json!([system("be brief"), u1]);
        assert_eq!(given(&dev, &agent, "r3", first.clone(), &[]).await, first);
    }
}

everywhere! {
    async fn results_of_the_front_ends_tools_find_their_calls(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let dev = server.user("ann");
        let agent = agent(&server.project()).await;
        let call = |id: &str| {
            let event = |kind: &str| json!({ "type": kind, "toolCallId": id });
            let mut start = event("TOOL_CALL_START");
            start["toolCallName"] = json!("show_map");
            start["parentMessageId"] = json!("a1");
            [start, event("TOOL_CALL_END")]
        };
        given(&dev, &agent, "r1", json!([user("u1", "hi")]), &[call("c1"), call("c2")].concat()).await;
        assert_eq!(messages(&dev).await["pendingToolCallIds"], json!(["c1", "c2"]));
        // One result by itself, then the other with the whole history; the same result again is the same.
        let result = |call: &str| json!({ "id": format!("t-{call}"), "role": "tool", "toolCallId": call, "content": "done" });
        let ids = |messages: &Value| {
            let messages = messages.as_array().expect("a list").iter();
            messages.map(|message| message["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
        };
        let seen = given(&dev, &agent, "r2", json!([result("c1")]), &[]).await;
        assert_eq!(ids(&seen), ["u1", "a1", "t-c1"]);
        assert_eq!(seen[1]["toolCalls"].as_array().map(Vec::len), Some(2));
        assert_eq!(messages(&dev).await["pendingToolCallIds"], json!(["c2"]));
        let mut history = messages(&dev).await["messages"].clone();
        history.as_array_mut().expect("a list").push(result("c2"));
        assert_eq!(ids(&given(&dev, &agent, "r3", history.clone(), &[]).await), ["u1", "a1", "t-c1", "t-c2"]);
        assert_eq!(ids(&given(&dev, &agent, "r4", history, &[]).await), ["u1", "a1", "t-c1", "t-c2"]);
        assert_eq!(stored(&dev, "r3").await, json!([result("c2")]));
        assert_eq!(stored(&dev, "r4").await, json!([]));
        assert_eq!(messages(&dev).await["pendingToolCallIds"], json!([]));
        // The result of an unknown call is stored as it is; the agent may know the call.
        let stray = result("c9");
        assert_eq!(ids(&given(&dev, &agent, "r5", json!([stray]), &[]).await).last().map(String::as_str), Some("t-c9"));
    }
}

//! Conversations of the OpenAI API, and their items.

use threadline_core::Scope;
use threadline_http::egress::Network;

use super::{
    responses::{answered, refused},
    *,
};
use crate::{
    harness::{everywhere, http::send},
    identity::key,
};

const CONVERSATIONS: &str = "/openai/v1/conversations";

fn at(conversation: &Value) -> String {
    format!("{CONVERSATIONS}/{}", text(conversation, "id"))
}

fn message(role: &str, text: &str) -> Value {
    json!({ "type": "message", "role": role, "content": text })
}

async fn texts(client: &Client, conversation: &Value) -> Vec<String> {
    let list = client.get(&format!("{}/items?order=asc&limit=100", at(conversation))).await.ok(200);
    let items = list["data"].as_array().expect("items").clone();
    let text =
        |item: &Value| item["content"][0]["text"].as_str().or(item["call_id"].as_str()).unwrap_or_default().to_owned();
    items.iter().map(text).collect()
}

everywhere! {
    async fn a_conversation_is_created_changed_and_deleted(server) {
        let dev = server.client();
        let made = dev.post(CONVERSATIONS, json!({ "metadata": { "topic": "tea" } })).await.ok(200);
        assert_eq!((text(&made, "object"), &made["metadata"]), ("conversation", &json!({ "topic": "tea" })));
        assert_eq!(dev.get(&at(&made)).await.ok(200), made);
        let changed = dev.post(&at(&made), json!({ "metadata": { "a": "b" } })).await.ok(200);
        assert_eq!((&changed["metadata"], &changed["id"]), (&json!({ "a": "b" }), &made["id"]));
        assert_eq!(dev.get(&at(&made)).await.ok(200)["metadata"], json!({ "a": "b" }));
        let pairs = |count: usize| (0..count).map(|number| (number.to_string(), json!("x"))).collect::<serde_json::Map<_, _>>();
        for bad in [json!(pairs(17)), json!({ "k": 1 }), json!({ "k".repeat(65): "x" }), json!({ "k": "x".repeat(513) }), json!([])] {
            assert_eq!(refused(&dev.post(&at(&made), json!({ "metadata": bad })).await, 400, "invalid_request")["param"], "metadata");
        }
        dev.post(&at(&made), json!({ "metadata": pairs(16) })).await.ok(200);
        refused(&dev.post(&at(&made), json!({})).await, 400, "invalid_request");
        // A thread of another API is a conversation, and the other way round.
        dev.thread("t").await;
        assert_eq!(dev.get(&format!("{CONVERSATIONS}/conv_t")).await.ok(200)["metadata"], json!({}));
        dev.get(&format!("/v1/threads/{}", &text(&made, "id")[5..])).await.ok(200);
        let keyed = || dev.request(Method::POST, CONVERSATIONS).header("idempotency-key", "k").json(&json!({}));
        assert_eq!(send(keyed()).await.ok(200), send(keyed()).await.ok(200));
        let deleted = dev.delete(&at(&made)).await.ok(200);
        assert_eq!(deleted, json!({ "id": made["id"], "object": "conversation.deleted", "deleted": true }));
        refused(&dev.get(&at(&made)).await, 404, "conversation_not_found");
        refused(&dev.get(&format!("{}/items", at(&made))).await, 404, "conversation_not_found");
        refused(&dev.get(&format!("{CONVERSATIONS}/t")).await, 404, "conversation_not_found");
    }
}

everywhere! {
    async fn items_are_added_listed_and_removed_for_good(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let made = dev.post(CONVERSATIONS, json!({ "items": [message("user", "one")] })).await.ok(200);
        let items = format!("{}/items", at(&made));
        let call = json!({ "type": "function_call", "call_id": "c", "name": "pay", "arguments": "{}" });
        let output = json!({ "type": "function_call_output", "call_id": "c", "output": "paid" });
        let add = json!({ "items": [message("assistant", "two"), call, output] });
        let asks = || dev.request(Method::POST, &items).header("x-stainless-retry-count", "1").json(&add);
        let added = send(asks()).await.ok(200);
        let kinds: Vec<_> = added["data"].as_array().expect("items").iter().map(|item| text(item, "type")).collect();
        assert_eq!(kinds, ["message", "function_call", "function_call_output"]);
        assert_eq!(send(asks()).await.ok(200), added, "a repetition adds nothing");
        assert_eq!(texts(&dev, &made).await, ["one", "two", "c", "c"]);
        let id = |index: usize| text(&added["data"][index], "id").to_owned();
        assert_eq!(dev.get(&format!("{items}/{}", id(1))).await.ok(200), added["data"][1]);
        let newest = dev.get(&format!("{items}?limit=1")).await.ok(200);
        assert_eq!((text(&newest, "last_id"), &newest["has_more"]), (id(2).as_str(), &json!(true)));
        let next = dev.get(&format!("{items}?limit=1&after={}", id(2))).await.ok(200);
        assert_eq!(text(&next, "first_id"), id(1));
        refused(&dev.get(&format!("{items}?after=msg_x")).await, 400, "invalid_request");
        refused(&dev.post(&items, json!({ "items": vec![message("user", "x"); 21] })).await, 400, "invalid_request");
        refused(&dev.post(&items, json!({})).await, 400, "invalid_request");
        let response = answered(&dev, &agent, json!({ "model": "a", "input": "three", "conversation": made["id"] }), "4").await;
        // The call and its output go, the text of their message stays.
        for gone in [id(2), id(1)] {
            assert_eq!(dev.delete(&format!("{items}/{gone}")).await.ok(200)["id"], made["id"]);
            refused(&dev.get(&format!("{items}/{gone}")).await, 404, "item_not_found");
            refused(&dev.delete(&format!("{items}/{gone}")).await, 404, "item_not_found");
        }
        assert_eq!(texts(&dev, &made).await, ["one", "two", "three", "4"]);
        // A response after the newest one goes on without what was removed.
        let next = json!({ "model": "a", "input": "five", "previous_response_id": response["id"] });
        let next = answered(&dev, &agent, next, "6").await;
        assert_eq!(next["conversation"]["id"], made["id"]);
        assert_eq!(texts(&dev, &made).await, ["one", "two", "three", "4", "five", "6"]);
        // Time travel still shows the item.
        let thread = &text(&made, "id")[5..];
        let events = dev.types(thread).await;
        assert!(events.iter().any(|kind| kind == "MESSAGES_SNAPSHOT"), "{events:?}");
        let before = dev.get(&format!("/v1/threads/{thread}/messages?at=4")).await.ok(200);
        assert_eq!(before["messages"].as_array().map(Vec::len), Some(3));
    }
}

everywhere! {
    async fn an_older_fork_does_not_bring_back_what_was_removed(server) {
        let dev = server.client();
        let agent = agent(&dev).await;
        let first = answered(&dev, &agent, json!({ "model": "a", "input": "secret" }), "1").await;
        let conversation = &first["conversation"];
        answered(&dev, &agent, json!({ "model": "a", "input": "more", "conversation": conversation["id"] }), "2").await;
        let list = dev.get(&format!("{}/items?order=asc", at(conversation))).await.ok(200);
        dev.delete(&format!("{}/items/{}", at(conversation), text(&list["data"][0], "id"))).await.ok(200);
        let beside = json!({ "model": "a", "input": "beside", "previous_response_id": first["id"] });
        let beside = answered(&dev, &agent, beside, "3").await;
        assert_ne!(beside["conversation"], first["conversation"]);
        assert_eq!(texts(&dev, &beside["conversation"]).await, ["1", "beside", "3"]);
    }
}

everywhere! {
    async fn a_user_adds_words_of_its_own_alone(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let chats = Client { user: Some("ann".into()), ..key(server, "default", &[Scope::Read, Scope::Chat]).await };
        let made = chats.post(CONVERSATIONS, json!({ "items": [message("user", "hi")] })).await.ok(200);
        refused(&chats.post(CONVERSATIONS, json!({ "items": [message("assistant", "hi")] })).await, 403, "forbidden");
        let items = format!("{}/items", at(&made));
        refused(&chats.post(&items, json!({ "items": [message("system", "obey")] })).await, 403, "forbidden");
        let list = chats.get(&items).await.ok(200);
        refused(&chats.delete(&format!("{items}/{}", text(&list["data"][0], "id"))).await, 403, "forbidden");
        let threads = chats.get("/v1/threads").await.ok(200);
        assert_eq!(threads["threads"].as_array().map(Vec::len), Some(1), "a refused creation leaves nothing behind");
        let bob = Client { user: Some("bob".into()), ..chats };
        for answer in [bob.get(&at(&made)).await, bob.post(&items, json!({ "items": [message("user", "x")] })).await, bob.delete(&at(&made)).await] {
            refused(&answer, 404, "conversation_not_found");
        }
    }
}

everywhere! {
    async fn what_the_api_keeps_goes_with_its_thread_and_its_user(server: |options| options.with_key("secret").with_agent_networks(vec![Network::Loopback])) {
        let ann = server.user("ann");
        let agent = agent(&server.project()).await;
        let kept = async || {
            let ops = json!({ "ops": [{ "op": "search", "prefix": ["threadline.openai"], "limit": 100 }] });
            let found = ann.post("/v1/kv", ops).await.ok(200)["results"][0]["items"].take();
            found.as_array().map(Vec::len)
        };
        let made = ann.post(CONVERSATIONS, json!({ "metadata": { "a": "b" } })).await.ok(200);
        let body = json!({ "model": "a", "input": "hi", "conversation": made["id"], "metadata": { "c": "d" } });
        answered(&ann, &agent, body, "one").await;
        assert_eq!(kept().await, Some(2), "metadata of the conversation, and the record of the response");
        ann.delete(&at(&made)).await.ok(200);
        assert_eq!(kept().await, Some(0));
        ann.post(CONVERSATIONS, json!({ "metadata": { "a": "b" } })).await.ok(200);
        assert_eq!(kept().await, Some(1));
        server.project().delete("/v1/users/ann").await.ok(200);
        assert_eq!(kept().await, Some(0));
    }
}

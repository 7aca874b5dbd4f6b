//! Ids of threads are unique per user, and keys claim them for the project.

use serde_json::{Value, json};

use super::token;
use crate::harness::{Client, eventually, everywhere, text};

async fn create(client: &Client, name: &str) -> Value {
    client.post("/v1/threads", json!({ "threadId": "chat", "name": name })).await.ok(201)
}

async fn named(client: &Client, path: &str) -> String {
    text(&client.get(path).await.ok(200), "name").to_owned()
}

/// Words of the events of a thread.
async fn words(client: &Client) -> Vec<String> {
    let page = client.get("/v1/threads/chat/events").await.ok(200);
    page["events"].as_array().expect("events").iter().map(|event| text(&event["event"], "type").to_owned()).collect()
}

everywhere! {
    async fn two_users_have_a_thread_of_one_id(server: |options| options.with_key("secret")) {
        let (ann, bob) = (token(server, "ann").await, token(server, "bob").await);
        let (hers, his) = (create(&ann, "hers").await, create(&bob, "his").await);
        assert_ne!(hers["epoch"], his["epoch"]);
        // The same runs, numbers and words: each log has its own.
        for (client, word) in [(&ann, "A"), (&bob, "B")] {
            client.run("chat", "r").await;
            client.append("chat", "r", 1, json!([{ "type": word }])).await.ok(200);
        }
        assert_eq!((words(&ann).await, words(&bob).await), (vec!["A".to_owned()], vec!["B".to_owned()]));
        for (client, name) in [(&ann, "hers"), (&bob, "his")] {
            let list = client.get("/v1/threads").await.ok(200);
            assert_eq!((list["threads"].as_array().map(Vec::len), &list["threads"][0]["name"]), (Some(1), &json!(name)));
            eventually("the feed has the thread", async || {
                let feed = client.get("/v1/feed").await.ok(200);
                let entries = feed["entries"].as_array().expect("entries").clone();
                assert!(!feed.to_string().contains(if name == "his" { "hers" } else { "his" }), "{feed}");
                (entries.len() == 1).then_some(())
            })
            .await;
        }
        // A run is in the way of its own thread alone.
        bob.act("chat", "r", "finish").await.ok(200);
        assert_eq!(ann.get("/v1/threads/chat/runs/r").await.ok(200)["status"], "running");
        assert_eq!(ann.delete("/v1/threads/chat").await.status, 204);
        assert_eq!(ann.delete("/v1/threads/chat").await.status, 204, "again");
        ann.get("/v1/threads/chat").await.problem(404, "thread-not-found");
        assert_eq!(named(&bob, "/v1/threads/chat").await, "his");
        create(&ann, "anew").await;
        assert_eq!(words(&ann).await, [""; 0]);
        assert_eq!(words(&bob).await, ["B", "RUN_FINISHED"]);
    }
}

everywhere! {
    async fn a_key_claims_an_id_and_names_the_user_of_an_ambiguous_one(server: |options| options.with_key("secret")) {
        let (ann, bob, project) = (token(server, "ann").await, token(server, "bob").await, server.project());
        create(&ann, "hers").await;
        assert_eq!(named(&project, "/v1/threads/chat").await, "hers", "the only one");
        create(&bob, "his").await;
        project.get("/v1/threads/chat").await.problem(409, "thread-ambiguous");
        for (user, name) in [("ann", "hers"), ("bob", "his")] {
            assert_eq!(named(&server.user(user), "/v1/threads/chat").await, name);
        }
        server.user("cat").get("/v1/threads/chat").await.problem(404, "thread-not-found");
        for (method, path, body) in [
            ("PATCH", "/v1/threads/chat", json!({ "name": "N" })),
            ("DELETE", "/v1/threads/chat", json!({})),
            ("PUT", "/v1/conversations/chat", json!({ "messages": [] })),
            ("POST", "/v1/threads/chat/runs", json!({})),
            ("POST", "/agui/demo", json!({ "threadId": "chat", "messages": [] })),
        ] {
            let request = project.request(method.parse().expect("a method"), path).json(&body);
            crate::harness::http::send(request).await.problem(409, "thread-ambiguous");
        }
        // A backend's thread has the id in the whole project, beside those that users made.
        let cat = server.user("cat");
        create(&cat, "claimed").await;
        for _ in 0..2 {
            assert_eq!(named(&project, "/v1/threads/chat").await, "claimed");
        }
        let dan = server.user("dan").post("/v1/threads", json!({ "threadId": "chat" })).await;
        dan.problem(409, "thread-exists");
        assert!(!dan.text().contains("cat") && !dan.text().contains("claimed"), "{}", dan.text());
        // A key meets the thread that its user has, claimed or not.
        server.user("ann").post("/v1/threads", json!({ "threadId": "chat", "name": "hers" })).await.ok(200);
        let other = server.user("ann").post("/v1/threads", json!({ "threadId": "chat", "name": "other" })).await;
        other.problem(409, "thread-exists");
        // CopilotKit's API tells only the holder of the key.
        project.get("/api/threads/chat?userId=dan").await.problem(403, "foreign-thread");
        project.post("/api/threads", json!({ "threadId": "chat", "userId": "dan" })).await.problem(409, "thread-exists");
        let shown = project.get("/api/threads/chat?userId=bob").await.ok(200);
        assert_eq!(shown["thread"]["name"], "his");
        let eve = token(server, "eve").await;
        eve.get("/api/threads/chat?userId=eve").await.problem(404, "thread-not-found");
        create(&eve, "fourth").await;
        assert_eq!(named(&project, "/v1/threads/chat").await, "claimed");
        // Without the claimed thread the id is ambiguous again, and then free for another claim.
        assert_eq!(cat.delete("/v1/threads/chat").await.status, 204);
        project.get("/v1/threads/chat").await.problem(409, "thread-ambiguous");
        project.get("/api/threads/chat?userId=dan").await.problem(404, "thread-not-found");
        create(&server.user("dan"), "next").await;
        assert_eq!(named(&project, "/v1/threads/chat").await, "next");
    }
}

everywhere! {
    async fn the_erasure_of_a_user_leaves_the_threads_of_others(server: |options| options.with_key("secret")) {
        let (ann, bob) = (token(server, "ann").await, token(server, "bob").await);
        create(&ann, "hers").await;
        create(&bob, "his").await;
        let receipt = server.project().delete("/v1/users/ann").await.ok(200);
        assert_eq!(receipt["erased"]["threads"], 1, "{receipt}");
        assert_eq!(named(&bob, "/v1/threads/chat").await, "his");
        assert_eq!(named(&server.project(), "/v1/threads/chat").await, "his", "the only one");
    }
}

//! Annotations: stored as CopilotKit's Node runtime sends them, read through the native API.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Client, everywhere, http::send, text};

async fn annotate(client: &Client, id: &str, body: Value) -> crate::harness::Answer {
    client.put(&format!("/connector/annotate/{id}"), body).await
}

fn note(thread: &str, payload: Value) -> Value {
    json!({ "type": "user_action", "userId": "ann", "threadId": thread, "payload": payload })
}

async fn ids(user: &Client, thread: &str) -> Vec<String> {
    let page = user.get(&format!("/v1/threads/{thread}/annotations")).await.ok(200);
    let all = page["annotations"].as_array().expect("annotations");
    all.iter().map(|annotation| text(annotation, "annotationId").to_owned()).collect()
}

everywhere! {
    async fn actions_of_a_user_are_recorded_once_and_read_unchanged(server: |options| options.with_key("secret")) {
        let (platform, ann) = (server.project(), server.user("ann"));
        ann.thread("t").await;
        ann.thread("other").await;
        // As its client sends it: every byte of the payload is kept.
        let sent = "{\"type\":\"user_action\",\"userId\":\"ann\",\"threadId\":\"t\",\"learning\":\"passed over\",\
                    \"payload\":{\"title\" : \"N\u{e9}w\",\n\"after\":1.0,\"after\":2,\"half\":\"\\ud800\"},\
                    \"occurredAt\":\"2026-11-21T12:11:15.12+02:00\"}";
        let put = || {
            let request = platform.request(Method::PUT, "/connector/annotate/a%20%2F%C3%A9");
            send(request.header("content-type", "application/json").body(sent))
        };
        assert_eq!(put().await.ok(200), json!({ "id": "a /\u{e9}", "duplicate": false }));
        assert_eq!(put().await.ok(200), json!({ "id": "a /\u{e9}", "duplicate": true }));
        let again = annotate(&platform, "a%20%2F%C3%A9", note("t", json!("something else"))).await.ok(200);
        assert_eq!(again, json!({ "id": "a /\u{e9}", "duplicate": true }), "what was stored first stays");
        let read = ann.get("/v1/threads/t/annotations").await;
        let payload = "\"payload\":{\"title\" : \"N\u{e9}w\", \"after\":1.0,\"after\":2,\"half\":\"\\ud800\"},";
        assert_eq!(read.status, 200);
        assert_eq!(read.text().matches(payload).count(), 1, "{}", read.text());
        assert!(read.text().contains("\"occurredAt\":\"2026-11-21T10:11:15.120Z\""), "{}", read.text());

        for n in 0..4 {
            annotate(&platform, &format!("n{n}"), note("t", json!(n))).await.ok(200);
        }
        let bare = json!({ "type": "x", "userId": "ann", "threadId": "other" });
        annotate(&platform, "n0", bare).await.ok(200);
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = ann.get(&format!("/v1/threads/t/annotations?limit=2{cursor}")).await;
            // Half of a surrogate pair is in the first one, which is no tree.
            let tail = page.text().rsplit_once("\"nextCursor\":").expect("a cursor").1.trim_end_matches('}').to_owned();
            found.extend(page.text().split("\"annotationId\":\"").skip(1).map(|part| part[..2].to_owned()));
            if tail == "null" {
                break;
            }
            cursor = format!("&cursor={}", tail.trim_matches('"'));
        }
        // The cursor belongs to this thread, and to no other list.
        let next = ann.get(&format!("/v1/threads/t/annotations?limit=2{cursor}")).await;
        assert_eq!(next.status, 200);
        ann.get(&format!("/v1/threads/other/annotations?limit=2{cursor}")).await.problem(410, "log-replaced");
        ann.get(&format!("/v1/threads/t/runs?limit=2{cursor}")).await.problem(400, "invalid-cursor");
        ann.get("/v1/threads/t/annotations?cursor=2").await.problem(400, "invalid-cursor");
        assert_eq!(found, ["a ", "n0", "n1", "n2", "n3"]);
        let page = ann.get("/v1/threads/other/annotations").await.ok(200);
        let only = &page["annotations"][0];
        assert_eq!((&only["type"], &only["payload"], &only["occurredAt"]), (&json!("x"), &json!(null), &json!(null)));
        assert_eq!(page["annotations"].as_array().map(Vec::len), Some(1), "ids are of one thread each");
        // Nothing of it is an event.
        assert_eq!(ann.types("t").await, [""; 0]);
    }
}

everywhere! {
    async fn invalid_annotations_are_refused(server: |options| options.with_key("secret")) {
        let (platform, ann) = (server.project(), server.user("ann"));
        ann.thread("t").await;
        let with = |name: &str, value: Value| {
            let mut body = note("t", json!(1));
            body[name] = value;
            body
        };
        for bad in [
            json!({}),
            with("threadId", Value::Null),
            with("threadId", json!("")),
            with("type", json!("")),
            with("type", json!("x".repeat(257))),
            with("type", json!("a\0b")),
            with("payload", json!("x".repeat(64 * 1_024))),
            with("occurredAt", json!("yesterday")),
            with("occurredAt", json!(1_795_255_875_120_i64)),
        ] {
            annotate(&platform, "a", bad).await.problem(400, "invalid-request");
        }
        annotate(&platform, &"x".repeat(257), note("t", json!(1))).await.problem(400, "invalid-request");
        annotate(&platform, "a", note("t", json!("x".repeat(256 * 1_024)))).await.problem(413, "too-large");
        annotate(&platform, "a", with("userId", json!("bob"))).await.problem(403, "foreign-thread");
        annotate(&platform, "a", note("none", json!(1))).await.problem(404, "thread-not-found");
        ann.get("/v1/threads/none/annotations").await.problem(404, "thread-not-found");
        server.user("bob").get("/v1/threads/t/annotations").await.problem(404, "thread-not-found");
        assert_eq!(ids(&ann, "t").await, [""; 0]);
        let largest = note("t", json!("x".repeat(64 * 1_024 - 2)));
        annotate(&platform, "a", largest).await.ok(200);
        assert_eq!(ids(&ann, "t").await, ["a"]);
    }
}

everywhere! {
    async fn annotations_go_with_their_thread_and_their_user(server: |options| options.with_key("secret")) {
        let (platform, ann) = (server.project(), server.user("ann"));
        for thread in ["gone", "kept"] {
            ann.thread(thread).await;
            annotate(&platform, "a", note(thread, json!(1))).await.ok(200);
        }
        assert_eq!(ann.delete("/v1/threads/gone").await.status, 204);
        ann.get("/v1/threads/gone/annotations").await.problem(404, "thread-not-found");
        annotate(&platform, "b", note("gone", json!(1))).await.problem(404, "thread-not-found");
        ann.thread("gone").await;
        assert_eq!(ids(&ann, "gone").await, [""; 0], "made again it is another one");
        let receipt = platform.delete("/v1/users/ann").await.ok(200);
        assert_eq!(receipt["erased"]["annotations"], 1, "{receipt}");
        ann.thread("kept").await;
        assert_eq!(ids(&ann, "kept").await, [""; 0]);
    }
}

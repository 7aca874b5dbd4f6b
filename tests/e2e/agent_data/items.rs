//! Item lists of threads.

use reqwest::Method;
use serde_json::{Value, json};
use threadline_core::Scope;

use crate::{
    harness::{Answer, Client, everywhere, http::send},
    identity::{bearer, key, token},
};

const LIST: &str = "/v1/threads/t/items/session";

async fn add(client: &Client, key: &str, items: Value) -> Answer {
    client.post(LIST, json!({ "key": key, "items": items })).await
}

async fn pop(client: &Client, key: &str, count: u64) -> Answer {
    client.post(&format!("{LIST}/pop"), json!({ "key": key, "count": count })).await
}

/// Items that the list has, with its count.
async fn read(client: &Client, query: &str) -> Value {
    client.get(&format!("{LIST}{query}")).await.ok(200)
}

fn items(page: &Value) -> Vec<Value> {
    page["items"].as_array().expect("items").iter().map(|item| item["item"].clone()).collect()
}

everywhere! {
    async fn items_are_added_and_read_byte_for_byte(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        let empty = read(&ann, "").await;
        assert_eq!(empty, json!({ "list": "session", "tag": null, "count": 0, "items": [], "hasMore": false }));
        let sent = "{\"key\":\"1\",\"items\":[{\"b\" : 1.0,\n\"a\":2,\"a\":3,\"half\":\"\\ud800\"}, 7,null]}";
        let request = ann.request(Method::POST, LIST).header("content-type", "application/json").body(sent);
        let added = send(request).await.ok(200);
        assert_eq!((&added["firstPos"], &added["lastPos"], &added["count"]), (&json!(1), &json!(3), &json!(3)));
        let page = ann.get(LIST).await;
        assert!(page.text().contains("\"items\":[{\"pos\":1,\"item\":{\"b\" : 1.0, \"a\":2,\"a\":3,\"half\":\"\\ud800\"}},{\"pos\":2,\"item\":7}"), "{}", page.text());
        add(&ann, "2", json!([8, 9])).await.ok(200);
        let page = read(&ann, "?limit=2").await;
        assert_eq!((items(&page), &page["hasMore"], &page["count"]), (vec![json!(8), json!(9)], &json!(true), &json!(5)));
        let page = read(&ann, "?limit=2&before=5").await;
        assert_eq!((items(&page), &page["hasMore"]), (vec![json!(null), json!(8)], &json!(true)));
        let page = read(&ann, "?after=3").await;
        assert_eq!((items(&page), &page["hasMore"]), (vec![json!(8), json!(9)], &json!(false)));
        // The log knows nothing of it.
        assert_eq!(ann.get("/v1/threads/t").await.ok(200)["tail"], 0);
    }
}

everywhere! {
    async fn a_request_is_repeated_without_effect(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        let first = add(&ann, "1", json!([1, 2, 3])).await.ok(200);
        let popped = pop(&ann, "2", 2).await.ok(200);
        assert_eq!((items(&popped), &popped["count"]), (vec![json!(2), json!(3)], &json!(1)));
        add(&ann, "3", json!([4])).await.ok(200);
        assert_eq!(add(&ann, "1", json!([1, 2, 3])).await.ok(200), first);
        assert_eq!(pop(&ann, "2", 2).await.ok(200), popped, "the same items");
        add(&ann, "1", json!([5])).await.problem(422, "items-conflict");
        pop(&ann, "1", 1).await.problem(422, "items-conflict");
        // Whatever else a request says belongs to it: its condition, and for whom it writes.
        let conditional = json!({ "key": "1", "items": [1, 2, 3], "ifTag": first["tag"] });
        ann.post(LIST, conditional).await.problem(422, "items-conflict");
        server.project().post(LIST, json!({ "key": "1", "items": [1, 2, 3] })).await.problem(422, "items-conflict");
        let page = read(&ann, "").await;
        assert_eq!(items(&page), [json!(1), json!(4)]);
        assert_eq!(page["items"][1]["pos"], 4, "no position is used twice");
    }
}

everywhere! {
    async fn a_list_is_changed_only_as_it_was_seen(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        let with = |key: &str, tag: Value| json!({ "key": key, "items": [key], "ifTag": tag });
        ann.post(LIST, with("1", json!("x"))).await.problem(412, "items-changed");
        let made = ann.post(LIST, with("1", json!(null))).await.ok(200);
        ann.post(LIST, with("2", json!(null))).await.problem(412, "items-changed");
        ann.put(LIST, with("2", made["tag"].clone())).await.ok(200);
        ann.post(LIST, with("3", made["tag"].clone())).await.problem(412, "items-changed");
        let stale = json!({ "key": "4", "ifTag": made["tag"] });
        ann.post(&format!("{LIST}/pop"), stale).await.problem(412, "items-changed");
        assert_eq!(items(&read(&ann, "").await), [json!("2")]);
    }
}

everywhere! {
    async fn entries_are_stored_in_the_commit_of_the_list(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        let put = |value: u64, wanted: Value| {
            json!({ "op": "put", "ns": ["revision"], "key": "t", "value": value, "tag": format!("r{value}"), "ifTag": wanted, "threadId": "t" })
        };
        let with = |key: &str, op: Value| json!({ "key": key, "items": [key], "kv": [op] });
        ann.post(LIST, with("1", put(1, json!(null)))).await.ok(200);
        let refused = ann.post(LIST, with("2", put(2, json!("r9")))).await.problem(412, "kv-changed");
        assert_eq!(refused["index"], 0);
        ann.post(LIST, with("2", put(2, json!("r1")))).await.ok(200);
        assert_eq!(items(&read(&ann, "").await), [json!("1"), json!("2")]);
        let get = json!({ "ops": [{ "op": "get", "ns": ["revision"], "key": "t" }] });
        assert_eq!(ann.post("/v1/kv", get.clone()).await.ok(200)["results"][0]["item"]["tag"], "r2");
        let reads = with("3", json!({ "op": "search" }));
        ann.post(LIST, reads).await.problem(400, "invalid-request");
        assert_eq!(ann.delete("/v1/threads/t").await.status, 204);
        assert_eq!(ann.post("/v1/kv", get).await.ok(200)["results"][0]["item"], json!(null), "it goes with the thread");
        ann.get(LIST).await.problem(404, "thread-not-found");
        ann.thread("t").await;
        assert_eq!(read(&ann, "").await["tag"], json!(null), "another thread has another list");
    }
}

everywhere! {
    async fn items_are_copied_inside_one_user(server: |options| options.with_key("secret")) {
        let (ann, project) = (server.user("ann"), server.project());
        ann.thread("t").await;
        ann.thread("u").await;
        server.user("bob").thread("b").await;
        add(&ann, "1", json!([1, 2, 3])).await.ok(200);
        let copy = |thread: &str| json!({ "key": "c", "fromThreadId": thread, "fromList": "session", "uptoPos": 2 });
        let made = ann.post("/v1/threads/u/items/session/copy", copy("t")).await.ok(200);
        assert_eq!((&made["firstPos"], &made["count"]), (&json!(1), &json!(2)));
        assert_eq!(ann.delete("/v1/threads/t").await.status, 204);
        let kept = ann.get("/v1/threads/u/items/session").await.ok(200);
        assert_eq!(items(&kept), [json!(1), json!(2)], "the copies live alone");
        // A key of the project sees both threads, and what one user's agent keeps is still not copied to another user.
        project.post("/v1/threads/b/items/session/copy", copy("u")).await.problem(404, "thread-not-found");
        server.user("bob").post("/v1/threads/b/items/session/copy", copy("u")).await.problem(404, "thread-not-found");
    }
}

everywhere! {
    async fn invalid_requests_are_refused(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        for (path, body) in [
            (LIST, json!({ "items": [1] })),
            (LIST, json!({ "key": "", "items": [1] })),
            (LIST, json!({ "key": "k", "items": 1 })),
            (LIST, json!({ "key": "k", "items": [1], "noSuchMember": 1 })),
            (LIST, json!({ "key": "k", "items": [1], "ifTag": "" })),
            ("/v1/threads/t/items/a%20b", json!({ "key": "k", "items": [1] })),
            ("/v1/threads/t/items/session/pop", json!({ "key": "k", "count": 0 })),
            ("/v1/threads/t/items/session/pop", json!({ "key": "k", "count": 1_001 })),
            ("/v1/threads/t/items/session/copy", json!({ "key": "k", "fromThreadId": "t" })),
            ("/v1/threads/t/items/session/copy", json!({ "key": "k", "fromList": "l" })),
        ] {
            ann.post(path, body).await.problem(400, "invalid-request");
        }
        for query in ["?limit=0", "?limit=1001", "?before=1&after=1"] {
            ann.get(&format!("{LIST}{query}")).await.problem(400, "invalid-request");
        }
        let large = json!({ "key": "k", "items": ["x".repeat(8 * 1_024 * 1_024)] });
        ann.post(LIST, large).await.problem(413, "too-large");
        assert_eq!(read(&ann, "").await["tag"], json!(null), "nothing was stored");
        for n in 0..16 {
            ann.post(&format!("{LIST}{n}"), json!({ "key": "k", "items": [1] })).await.ok(200);
        }
        add(&ann, "k", json!([1])).await.problem(413, "too-large");
    }
}

everywhere! {
    async fn items_are_not_for_users(server: |options| options.with_key("secret")) {
        server.user("ann").thread("t").await;
        let all = json!({ "userId": "ann", "scopes": ["read", "chat", "approve", "produce"] });
        let made = server.project().post("/v1/tokens", all).await.ok(201);
        let producer = bearer(server, made["token"].as_str().expect("a token"));
        for client in [producer, token(server, "ann").await] {
            client.get(LIST).await.problem(403, "forbidden");
            add(&client, "1", json!([1])).await.problem(403, "forbidden");
        }
        let key = key(server, "default", &[Scope::Produce]).await;
        add(&key, "1", json!([1])).await.ok(200);
        assert_eq!(items(&read(&server.user("ann"), "").await), [json!(1)]);
    }
}

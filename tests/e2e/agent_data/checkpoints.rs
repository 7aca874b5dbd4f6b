//! Checkpoints of threads.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::Method;
use serde_json::{Value, json};
use threadline_core::Scope;

use crate::{
    harness::{Client, everywhere, http::send},
    identity::{bearer, key, token},
};

const PATH: &str = "/v1/threads/t/checkpoints";

fn encoded(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

fn blob(channel: &str, version: &str, bytes: &[u8]) -> Value {
    json!({ "channel": channel, "version": version, "type": "msgpack", "data": encoded(bytes) })
}

/// A checkpoint that brings the blobs of its channels.
fn whole(id: &str, metadata: Value, channels: &[(&str, &str)]) -> Value {
    let blobs: Vec<_> = channels.iter().map(|(channel, version)| blob(channel, version, channel.as_bytes())).collect();
    json!({ "type": "json", "data": encoded(id.as_bytes()), "metadata": metadata, "channels": channels, "blobs": blobs })
}

async fn put(client: &Client, query: &str, body: Value) -> Value {
    client.put(&format!("{PATH}{query}"), body).await.ok(200)
}

fn ids(page: &Value) -> Vec<&str> {
    page["checkpoints"].as_array().expect("checkpoints").iter().map(|one| one["id"].as_str().expect("an id")).collect()
}

everywhere! {
    async fn a_checkpoint_reads_back_as_written(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        ann.get(PATH).await.problem(404, "checkpoint-not-found");
        assert_eq!(ann.post(&format!("{PATH}/blobs?ns=n%7C1"), json!({ "blobs": [blob("a", "1", &[0, 255])] })).await.status, 204);
        let sent = format!(
            "{{\"parentId\":\"before\",\"type\":\"x+aes\",\"data\":\"{}\",\"metadata\":{{\"b\" : 1.0,\n\"a\":2,\"a\":3}},\"runId\":\"r\",\
             \"channels\":[[\"b\",\"2\"],[\"a\",\"1\"]],\"blobs\":[{}]}}",
            encoded(&[10, 0, 13]),
            blob("b", "2", b""),
        );
        let request = ann.request(Method::PUT, &format!("{PATH}?ns=n%7C1&id=i")).header("content-type", "application/json");
        let done = send(request.body(sent.clone())).await.ok(200);
        assert_eq!(done, json!({ "threadId": "t", "ns": "n|1", "id": "i" }));
        let answer = ann.get(&format!("{PATH}?ns=n%7C1&id=i")).await;
        assert!(answer.text().contains("\"metadata\":{\"b\" : 1.0, \"a\":2,\"a\":3}"), "{}", answer.text());
        let mut found = answer.ok(200);
        assert!(found["createdAt"].is_string());
        found["createdAt"] = json!(null);
        let wanted = json!({
            "threadId": "t", "ns": "n|1", "id": "i", "parentId": "before", "runId": "r", "type": "x+aes", "data": encoded(&[10, 0, 13]),
            "metadata": { "b": 1.0, "a": 3 }, "channels": [["b", "2"], ["a", "1"]], "createdAt": null,
            "blobs": [blob("b", "2", b""), blob("a", "1", &[0, 255])], "writes": [],
        });
        assert_eq!(found, wanted);
        let request = ann.request(Method::PUT, &format!("{PATH}?ns=n%7C1&id=i")).header("content-type", "application/json");
        send(request.body(sent)).await.ok(200);
        ann.get(PATH).await.problem(404, "checkpoint-not-found");
        // The log knows nothing of it.
        assert_eq!(ann.get("/v1/threads/t").await.ok(200)["tail"], 0);
    }
}

everywhere! {
    async fn a_checkpoint_is_seen_only_when_whole(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        let new = json!({ "type": "", "data": "", "channels": [["a", "1"], ["b", "7"]], "blobs": [blob("a", "1", b"first")] });
        let problem = ann.put(&format!("{PATH}?id=i"), new).await.problem(422, "blob-missing");
        assert_eq!((&problem["channel"], &problem["version"]), (&json!("b"), &json!("7")));
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("\"b\"")), "{problem}");
        ann.get(PATH).await.problem(404, "checkpoint-not-found");
        put(&ann, "?id=i", whole("i", json!({}), &[("a", "1"), ("b", "7")])).await;
        let found = ann.get(PATH).await.ok(200);
        assert_eq!(found["blobs"][0]["data"], encoded(b"first"), "the first one of a version wins");
        put(&ann, "?id=j", json!({ "type": "", "data": "", "channels": [["b", "7"]] })).await;
        assert_eq!(ann.get(PATH).await.ok(200)["id"], "j", "the newest one, by its id");
        put(&ann, "?id=j", json!({ "type": "", "data": "", "channels": [["a", "1"]] })).await;
        assert_eq!(ann.get(PATH).await.ok(200)["channels"], json!([["a", "1"]]), "replaced");
    }
}

everywhere! {
    async fn writes_come_beside_a_checkpoint_in_order(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        let write = |idx: i64, bytes: &str| json!({ "idx": idx, "channel": "c", "type": "t", "data": encoded(bytes.as_bytes()) });
        let path = format!("{PATH}/writes?id=i");
        for (task, place, writes) in [
            ("k", "p", json!([write(1, "b"), write(0, "a"), write(-1, "error")])),
            ("k", "p", json!([write(0, "other"), write(-1, "resolved")])),
            ("j", "p", json!([write(0, "c")])),
            ("z", "a", json!([write(0, "d")])),
        ] {
            assert_eq!(ann.put(&path, json!({ "taskId": task, "taskPath": place, "writes": writes })).await.status, 204);
        }
        put(&ann, "?id=i", whole("i", json!({}), &[])).await;
        let found = ann.get(&format!("{PATH}?id=i")).await.ok(200);
        let brief = |write: &Value| format!("{} {} {}", write["taskId"].as_str().unwrap_or_default(), write["idx"], write["data"].as_str().unwrap_or_default());
        let got: Vec<_> = found["writes"].as_array().expect("writes").iter().map(brief).collect();
        let wanted = [("z", 0, "d"), ("j", 0, "c"), ("k", -1, "resolved"), ("k", 0, "a"), ("k", 1, "b")];
        assert_eq!(got, wanted.map(|(task, idx, bytes)| format!("{task} {idx} {}", encoded(bytes.as_bytes()))));
        let one = ann.get(&format!("{path}&taskId=k&idx=-1")).await.ok(200);
        assert_eq!(one, json!({ "taskId": "k", "taskPath": "p", "idx": -1, "channel": "c", "type": "t", "data": encoded(b"resolved") }));
        ann.get(&format!("{path}&taskId=k&idx=5")).await.problem(404, "checkpoint-not-found");
    }
}

everywhere! {
    async fn lists_go_from_the_newest_on(server: |options| options.with_key("secret")) {
        let (ann, project) = (server.user("ann"), server.project());
        ann.thread("t").await;
        ann.thread("u").await;
        server.user("bob").thread("b").await;
        for step in 0..5 {
            put(&ann, &format!("?id=a{step}"), whole(&format!("a{step}"), json!({ "step": step, "source": "loop" }), &[("c", "1")])).await;
        }
        put(&ann, "?ns=sub&id=a2", whole("a2", json!({ "source": "sub" }), &[("c", "1")])).await;
        for (client, path) in [(&ann, "/v1/threads/u/checkpoints?id=a9"), (&server.user("bob"), "/v1/threads/b/checkpoints?id=a8")] {
            client.put(path, whole("x", json!({ "source": "loop" }), &[])).await.ok(200);
        }
        let list = async |query: &str| ann.get(&format!("{PATH}/list{query}")).await.ok(200);
        assert_eq!(ids(&list("").await), ["a4", "a3", "a2", "a2", "a1", "a0"]);
        assert_eq!(ids(&list("?ns=").await), ["a4", "a3", "a2", "a1", "a0"]);
        assert_eq!(ids(&list("?ns=sub&before=a3").await), ["a2"]);
        assert_eq!(ids(&list("?before=a1").await), ["a0"]);
        assert_eq!(ids(&list("?filter=%7B%22step%22%3A3.0%7D").await), ["a3"]);
        assert_eq!(ids(&list("?filter=%7B%22step%22%3A3%2C%22source%22%3A%22sub%22%7D").await), Vec::<&str>::new());
        let (mut query, mut seen) = ("?limit=2".to_owned(), Vec::new());
        loop {
            let page = list(&query).await;
            seen.extend(page["checkpoints"].as_array().expect("checkpoints").clone());
            let Some(cursor) = page["cursor"].as_str() else { break };
            query = format!("?limit=2&cursor={cursor}");
        }
        assert_eq!(seen, *list("").await["checkpoints"].as_array().expect("checkpoints"));
        assert_eq!(seen[0]["blobs"], json!([blob("c", "1", b"c")]));
        let head = list("?fields=head&limit=1").await;
        assert_eq!(head["checkpoints"][0]["blobs"], json!([{ "channel": "c", "version": "1", "type": "msgpack" }]));
        assert_eq!((&head["checkpoints"][0]["data"], &head["checkpoints"][0]["metadata"]["step"]), (&json!(null), &json!(4)));
        let all = "/v1/checkpoints/list?limit=3";
        assert_eq!(ids(&ann.get(all).await.ok(200)), ["a9", "a4", "a3"], "those of the user");
        assert_eq!(ids(&project.get(all).await.ok(200)), ["a9", "a8", "a4"], "those of the project");
        assert_eq!(ids(&project.get("/v1/checkpoints/list?ns=sub").await.ok(200)), ["a2"]);
    }
}

everywhere! {
    async fn answers_have_bounded_bytes(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        let large = |byte: u8| vec![byte; 6 * 1_024 * 1_024];
        for channel in 0..3 {
            let body = json!({ "blobs": [blob(&format!("c{channel}"), "1", &large(channel))] });
            assert_eq!(ann.post(&format!("{PATH}/blobs"), body).await.status, 204);
        }
        let new = json!({ "type": "", "data": "", "channels": [["c0", "1"], ["c1", "1"], ["c2", "1"]] });
        for id in ["1", "2"] {
            put(&ann, &format!("?id={id}"), new.clone()).await;
        }
        let found = ann.get(PATH).await.ok(200);
        let has: Vec<_> = found["blobs"].as_array().expect("blobs").iter().map(|blob| blob["data"].is_string()).collect();
        assert_eq!(has, [true, true, false]);
        let rest = ann.get(&format!("{PATH}/blobs?channel=c2&version=1")).await.ok(200);
        assert!(rest["data"] == encoded(&large(2)));
        let page = ann.get(&format!("{PATH}/list")).await.ok(200);
        assert_eq!(ids(&page), ["2"], "the next one has no room");
        let next = ann.get(&format!("{PATH}/list?cursor={}", page["cursor"].as_str().expect("a cursor"))).await.ok(200);
        assert_eq!(ids(&next), ["1"]);
    }
}

everywhere! {
    async fn checkpoints_are_deleted_and_copied(server: |options| options.with_key("secret")) {
        let (ann, project) = (server.user("ann"), server.project());
        for thread in ["t", "u"] {
            ann.thread(thread).await;
        }
        server.user("bob").thread("b").await;
        for (id, version, run) in [("1", "1", "r"), ("2", "2", "r"), ("3", "2", "q")] {
            let mut new = whole(id, json!({}), &[("a", version), ("both", "1")]);
            new["runId"] = json!(run);
            put(&ann, &format!("?id={id}"), new).await;
            let write = json!({ "taskId": "k", "writes": [{ "idx": 0, "channel": "c", "type": "", "data": "" }] });
            assert_eq!(ann.put(&format!("{PATH}/writes?id={id}"), write).await.status, 204);
        }
        let before = ann.get(&format!("{PATH}/list")).await.ok(200);
        let copy = json!({ "fromThreadId": "t" });
        for _ in 0..2 {
            assert_eq!(ann.post("/v1/threads/u/checkpoints/copy", copy.clone()).await.ok(200), json!({ "copied": 3 }));
        }
        // A thread gets nothing from itself.
        assert_eq!(ann.post(&format!("{PATH}/copy"), copy.clone()).await.ok(200), json!({ "copied": 0 }));
        // A key of the project sees both threads, and what one user's agent keeps is still not copied to another user.
        project.post("/v1/threads/b/checkpoints/copy", copy.clone()).await.problem(404, "thread-not-found");
        server.user("bob").post("/v1/threads/b/checkpoints/copy", copy).await.problem(404, "thread-not-found");
        let delete = async |body: Value| ann.post(&format!("{PATH}/delete"), body).await.ok(200)["deleted"].clone();
        assert_eq!(delete(json!({ "ids": ["1", "none"] })).await, 1);
        ann.get(&format!("{PATH}/blobs?channel=a&version=1")).await.problem(404, "checkpoint-not-found");
        ann.get(&format!("{PATH}/writes?id=1&taskId=k&idx=0")).await.problem(404, "checkpoint-not-found");
        ann.get(&format!("{PATH}/blobs?channel=both&version=1")).await.ok(200);
        assert_eq!(delete(json!({ "ns": "other" })).await, 0);
        assert_eq!(delete(json!({})).await, 2);
        ann.get(&format!("{PATH}/blobs?channel=both&version=1")).await.problem(404, "checkpoint-not-found");
        let mut kept = ann.get("/v1/threads/u/checkpoints/list").await.ok(200);
        for checkpoint in kept["checkpoints"].as_array_mut().expect("checkpoints") {
            checkpoint["threadId"] = json!("t");
        }
        assert_eq!(kept, before, "the copies live alone");
        assert_eq!(server.user("bob").delete("/v1/checkpoints?runId=r").await.ok(200), json!({ "deleted": 0 }));
        assert_eq!(ann.delete("/v1/checkpoints?runId=r").await.ok(200), json!({ "deleted": 2 }));
        assert_eq!(ids(&ann.get("/v1/checkpoints/list").await.ok(200)), ["3"]);
        assert_eq!(ann.delete("/v1/threads/u").await.status, 204);
        ann.get("/v1/threads/u/checkpoints").await.problem(404, "thread-not-found");
        ann.thread("u").await;
        ann.get("/v1/threads/u/checkpoints").await.problem(404, "checkpoint-not-found");
    }
}

everywhere! {
    async fn invalid_requests_are_refused(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        ann.thread("t").await;
        let new = || json!({ "type": "", "data": "", "channels": [] });
        let with = |name: &str, value: Value| {
            let mut body = new();
            body[name] = value;
            body
        };
        let mut bad = vec![
            ("", new()),
            ("?id=", new()),
            ("?id=i", json!({})),
            ("?id=i", json!({ "type": "", "data": "" })),
            ("?id=i", with("data", json!("AAE"))),
            ("?id=i", with("data", json!("not base64"))),
            ("?id=i", with("metadata", json!([1]))),
            ("?id=i", with("channels", json!([["a"]]))),
            ("?id=i", with("channels", json!([["a", 1]]))),
            ("?id=i", with("channels", json!([["", "1"]]))),
            ("?id=i", with("parentId", json!(""))),
            ("?id=i", with("noSuchMember", json!(1))),
            ("?id=i", with("channels", json!(vec![["a", "1"]; 10_001]))),
        ];
        let (ns, id) = (format!("?id=i&ns={}", "x".repeat(1_025)), format!("?id={}", "x".repeat(257)));
        bad.extend([(&*ns, new()), (&*id, new())]);
        for (query, body) in bad {
            ann.put(&format!("{PATH}{query}"), body).await.problem(400, "invalid-request");
        }
        for (path, body) in [
            ("writes?id=i", json!({ "writes": [] })),
            ("writes?id=i", json!({ "taskId": "k" })),
            ("writes", json!({ "taskId": "k", "writes": [] })),
        ] {
            ann.put(&format!("{PATH}/{path}"), body).await.problem(400, "invalid-request");
        }
        for body in [json!({}), json!({ "blobs": [{ "channel": "a", "version": "1", "data": "" }] })] {
            ann.post(&format!("{PATH}/blobs"), body).await.problem(400, "invalid-request");
        }
        ann.post(&format!("{PATH}/copy"), json!({})).await.problem(400, "invalid-request");
        let many: Vec<_> = (0..1_001).map(|n| format!("{n}")).collect();
        ann.post(&format!("{PATH}/delete"), json!({ "ids": many })).await.problem(400, "invalid-request");
        for query in ["limit=0", "limit=1001", "filter=1", "filter=x", "fields=some"] {
            ann.get(&format!("{PATH}/list?{query}")).await.problem(400, "invalid-request");
        }
        let filter = |count: usize| {
            let members = (0..count).map(|n| format!("%22m{n}%22%3A1")).collect::<Vec<_>>();
            format!("{PATH}/list?filter=%7B{}%7D", members.join("%2C"))
        };
        let problem = ann.get(&filter(65)).await.problem(400, "invalid-request");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("65 conditions, but at most 64")));
        ann.get(&filter(64)).await.ok(200);
        let large = vec![0; 8 * 1_024 * 1_024 + 1];
        ann.put(&format!("{PATH}?id=i"), with("data", json!(encoded(&large)))).await.problem(413, "too-large");
        ann.post(&format!("{PATH}/blobs"), json!({ "blobs": [blob("a", "1", &large)] })).await.problem(413, "too-large");
        let metadata = with("metadata", json!({ "x": "x".repeat(1_024 * 1_024) }));
        ann.put(&format!("{PATH}?id=i"), metadata).await.problem(413, "too-large");
        assert_eq!(ids(&ann.get(&format!("{PATH}/list")).await.ok(200)), Vec::<&str>::new());
    }
}

everywhere! {
    async fn checkpoints_are_not_for_users(server: |options| options.with_key("secret")) {
        server.user("ann").thread("t").await;
        let all = json!({ "userId": "ann", "scopes": ["read", "chat", "approve", "produce"] });
        let made = server.project().post("/v1/tokens", all).await.ok(201);
        let producer = bearer(server, made["token"].as_str().expect("a token"));
        for client in [producer, token(server, "ann").await] {
            client.get(PATH).await.problem(403, "forbidden");
            client.get("/v1/checkpoints/list").await.problem(403, "forbidden");
            client.put(&format!("{PATH}?id=i"), whole("i", json!({}), &[])).await.problem(403, "forbidden");
        }
        let key = key(server, "default", &[Scope::Produce]).await;
        put(&key, "?id=i", whole("i", json!({}), &[])).await;
        assert_eq!(server.user("ann").get(PATH).await.ok(200)["id"], "i");
    }
}

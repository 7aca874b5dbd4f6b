//! Who follows a thread, and where they are.

use serde_json::{Value, json};

use crate::harness::{Client, Options, Server, Socket, eventually, http::open, run};

async fn of(client: &Client, thread: &str) -> Vec<Value> {
    let view = client.get(&format!("/v1/threads/{thread}/subscriptions")).await.ok(200);
    let all = view["subscriptions"].as_array().expect("subscriptions").clone();
    assert_eq!((view["nodes"].as_u64(), view["count"].as_u64()), (Some(1), Some(all.len() as u64)), "{view}");
    all
}

/// Waits until so many follow, and gives them without what differs each time.
async fn settled(client: &Client, thread: &str, count: usize) -> Vec<Value> {
    eventually("so many follow", async || {
        let mut all = of(client, thread).await;
        all.iter_mut().for_each(|each| {
            let each = each.as_object_mut().expect("an object");
            let (node, since) = (each.remove("nodeId").expect("a node"), each.remove("since").expect("a time"));
            assert!(node.as_str().is_some_and(|node| node.len() == 16) && since.is_string(), "{node} {since}");
        });
        (all.len() == count).then_some(all)
    })
    .await
}

#[tokio::test]
async fn every_follower_is_listed_with_its_cursor_until_it_leaves() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        let (ann, project) = (server.user("ann"), server.project());
        ann.thread("t").await;
        ann.run("t", "r").await;
        ann.append("t", "r", 1, json!([{ "type": "A" }, { "type": "B" }])).await.ok(200);
        assert_eq!(of(&project, "t").await, Vec::<Value>::new());

        let mut socket = Socket::open(&ann).await;
        let epoch = ann.epoch("t").await;
        socket.send(json!({ "subscribe": { "threadId": "t", "after": 1, "epoch": epoch } })).await;
        socket.until("caughtUp").await;
        let follower = |transport: &str, user: Value, run: Value, cursor: u64| {
            json!({ "transport": transport, "userId": user, "credential": "operator", "runId": run, "cursor": cursor })
        };
        let on_socket = |cursor| follower("socket", json!("ann"), Value::Null, cursor);
        assert_eq!(settled(&project, "t", 1).await, [on_socket(2)]);
        // A project's key without a user, bounded to the run; it has read nothing of what there is yet.
        let stream = project.request(reqwest::Method::GET, "/v1/threads/t/events?runId=r");
        let mut stream = open(stream.header("accept", "text/event-stream")).await;
        while !String::from_utf8_lossy(&stream.chunk().await.expect("a chunk").expect("more")).contains("caught") {}
        let by_events = |cursor| follower("sse", Value::Null, json!("r"), cursor);
        assert_eq!(settled(&project, "t", 2).await, [on_socket(2), by_events(2)]);
        let poll = tokio::spawn({
            let ann = ann.clone();
            let path = format!("/v1/threads/t/events?after=2&epoch={epoch}&wait=20");
            async move { ann.get(&path).await.ok(200) }
        });
        let waiting = follower("long-poll", json!("ann"), Value::Null, 2);
        assert_eq!(settled(&project, "t", 3).await, [on_socket(2), by_events(2), waiting]);

        ann.append("t", "r", 3, json!([{ "type": "C" }])).await.ok(200);
        poll.await.expect("an answer");
        socket.until("events").await;
        let moved = eventually("they have gone on", async || {
            let all = settled(&project, "t", 2).await;
            all.iter().all(|each| each["cursor"] == 3).then_some(all)
        });
        assert_eq!(moved.await, [on_socket(3), by_events(3)]);
        drop(stream);
        assert_eq!(settled(&project, "t", 1).await, [on_socket(3)]);
        socket.send(json!({ "unsubscribe": { "threadId": "t" } })).await;
        settled(&project, "t", 0).await;
        // The followers of a deleted thread are removed, and no longer listed.
        ann.delete("/v1/threads/t").await;
        project.get("/v1/threads/t/subscriptions").await.problem(404, "thread-not-found");
    })
    .await;
}

#[tokio::test]
async fn an_end_user_does_not_see_the_keys_of_others() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        let project = server.project();
        let key = project.post("/v1/keys", json!({ "keyId": "backend" })).await.ok(201);
        let backend = Client { key: key["key"].as_str().map(str::to_owned), ..server.user("ann") };
        let token = backend.post("/v1/tokens", json!({})).await.ok(201);
        let page = Client { key: token["token"].as_str().map(str::to_owned), ..project.clone() };
        backend.thread("t").await;
        let mut sockets = Vec::new();
        for client in [&backend, &page] {
            let mut socket = Socket::open(client).await;
            socket.send(json!({ "subscribe": { "threadId": "t" } })).await;
            socket.until("caughtUp").await;
            sockets.push(socket);
        }
        let credentials = |all: Vec<Value>| all.iter().map(|each| each["credential"].clone()).collect::<Vec<_>>();
        assert_eq!(credentials(settled(&backend, "t", 2).await), ["key:backend", "user"]);
        assert_eq!(credentials(settled(&page, "t", 2).await), ["key", "user"]);
    })
    .await;
}

//! Threads that retention has put in the trash: gone for users, and restored by administrators.

use serde_json::{Value, json};

use crate::harness::{Client, Server, Socket, eventually, everywhere, number, text};

const DAY: u64 = 24 * 3_600;

/// A thread of one run, which has ended: three events.
async fn fill(user: &Client, thread: &str) -> Value {
    user.thread(thread).await;
    user.run(thread, "r").await;
    user.append(thread, "r", 1, json!([{ "type": "A" }, { "type": "B" }])).await.ok(200);
    user.act(thread, "r", "finish").await.ok(200);
    user.get(&format!("/v1/threads/{thread}")).await.ok(200)
}

/// Retention that trashes after a day, and these threads of ann, which it has trashed.
async fn trashed(server: &Server, threads: &[&str]) -> Vec<Value> {
    let settings = json!({ "retention": { "deleteAfterDays": 1, "graceDays": 2 } });
    server.project().put("/v1/projects/default", settings).await;
    let mut before = Vec::new();
    for thread in threads {
        before.push(fill(&server.user("ann"), thread).await);
    }
    server.pass(DAY + 1);
    retained(server, threads.len()).await;
    before
}

/// Has retention take so many threads: a pass leaves out a thread that another statement has locked.
async fn retained(server: &Server, count: usize) {
    eventually("retention takes the threads", async || {
        server.retain().await;
        (listed(server).await.len() >= count).then_some(())
    })
    .await;
}

async fn listed(server: &Server) -> Vec<String> {
    let page = server.project().get("/v1/trash").await.ok(200);
    let threads = page["threads"].as_array().expect("threads").iter();
    threads.map(|trashed| text(&trashed["thread"], "threadId").to_owned()).collect()
}

everywhere! {
    async fn a_thread_in_the_trash_is_gone_for_its_user_and_comes_back(server: |options| {
        options.with_key("secret").with_manual_clock()
    }) {
        let ann = server.user("ann");
        let mut socket = Socket::open(&ann).await;
        let settings = json!({ "retention": { "deleteAfterDays": 1, "graceDays": 2 } });
        server.project().put("/v1/projects/default", settings).await.ok(201);
        let before = fill(&ann, "t").await;
        let from = json!({ "threadId": "t", "after": 3, "epoch": before["epoch"] });
        socket.send(json!({ "id": "1", "subscribe": from })).await;
        socket.until("caughtUp").await;
        server.pass(DAY + 1);
        retained(server, 1).await;
        assert_eq!(socket.until("ended").await.1["reason"], "thread-deleted");
        for path in ["/v1/threads/t", "/v1/threads/t/events", "/v1/threads/t/messages", "/v1/threads/t/runs"] {
            ann.get(path).await.problem(404, "thread-not-found");
        }
        // Also what looked the thread up before: the run was written over this connection.
        let again = [json!({ "type": "A" }), json!({ "type": "B" })];
        ann.append("t", "r", 1, json!(again)).await.problem(404, "thread-not-found");
        ann.post("/v1/threads/t/runs", json!({ "runId": "s" })).await.problem(404, "thread-not-found");
        eventually("the feed reports a deletion", async || {
            let page = ann.get("/v1/feed").await.ok(200);
            (page["entries"][0]["type"] == "delete").then_some(())
        })
        .await;
        let page = server.project().get("/v1/trash").await.ok(200);
        let found = &page["threads"][0];
        assert_eq!((&found["thread"], &page["nextCursor"]), (&before, &Value::Null));
        assert_eq!(text(found, "trashedAt"), server.clock.now().to_string());
        assert_eq!(text(found, "purgeAt"), server.clock.now().plus(std::time::Duration::from_secs(2 * DAY)).to_string());

        // A cursor from before continues, and a retry is the same.
        for _ in 0..2 {
            let back = server.project().post("/v1/trash/t/restore", json!({})).await.ok(200);
            assert_eq!(back, before);
        }
        let query = format!("/v1/threads/t/events?after=1&epoch={}", text(&before, "epoch"));
        assert_eq!(ann.get(&query).await.ok(200)["events"].as_array().map(Vec::len), Some(2));
        assert_eq!(listed(server).await, [""; 0]);
        eventually("the feed reports the thread", async || {
            let page = ann.get("/v1/feed").await.ok(200);
            (page["entries"][0]["type"] == "upsert").then_some(())
        })
        .await;
        let audit = server.project().get("/v1/audit?limit=1").await.ok(200);
        let entry = &audit["entries"][0];
        assert_eq!((text(entry, "action"), &entry["facts"]), ("thread.restored", &json!({ "threadId": "t" })));
        // The restoration counts as use; then it is trashed again, and goes on as before.
        server.retain().await;
        assert_eq!(listed(server).await, [""; 0]);
        ann.run("t", "s").await;
        ann.append("t", "s", 1, json!([{ "type": "C" }])).await.ok(200);
    }
}

everywhere! {
    async fn the_trash_is_emptied_when_its_time_has_come(server: |options| {
        options.with_key("secret").with_manual_clock()
    }) {
        let ann = server.user("ann");
        trashed(server, &["a", "b", "c"]).await;
        assert_eq!(listed(server).await, ["a", "b", "c"]);
        let first = server.project().get("/v1/trash?limit=2").await.ok(200);
        let next = text(&first, "nextCursor");
        let rest = server.project().get(&format!("/v1/trash?limit=2&cursor={next}")).await.ok(200);
        assert_eq!((&rest["threads"][0]["thread"]["threadId"], &rest["nextCursor"]), (&json!("c"), &Value::Null));
        server.project().get("/v1/trash?cursor=nonsense").await.problem(400, "invalid-cursor");
        // Another thread took the id.
        ann.thread("a").await;
        server.project().post("/v1/trash/a/restore", json!({})).await.problem(409, "thread-exists");
        server.project().post("/v1/trash/none/restore", json!({})).await.problem(404, "thread-not-found");
        server.project().post("/v1/trash/b/restore", json!({})).await.ok(200);
        server.pass(2 * DAY - 1);
        assert_eq!(listed(server).await, ["a", "c"]);
        server.pass(1);
        eventually("the trash is empty", async || listed(server).await.is_empty().then_some(())).await;
        server.project().post("/v1/trash/c/restore", json!({})).await.problem(404, "thread-not-found");
        assert_eq!(number(&ann.get("/v1/threads/b").await.ok(200), "tail"), 3);
    }
}

everywhere! {
    async fn what_people_delete_is_not_in_the_trash(server: |options| options.with_key("secret").with_manual_clock()) {
        fill(&server.user("cat"), "deleted").await;
        server.user("cat").delete("/v1/threads/deleted").await;
        trashed(server, &["a"]).await;
        assert_eq!(listed(server).await, ["a"]);
        server.project().post("/v1/trash/deleted/restore", json!({})).await.problem(404, "thread-not-found");
        // The erasure of a user takes the trash as well.
        fill(&server.user("bob"), "b").await;
        server.pass(DAY + 1);
        // A thread whose head another task holds is left to the next pass.
        eventually("the thread is in the trash", async || {
            server.retain().await;
            (listed(server).await == ["b", "a"]).then_some(())
        })
        .await;
        let receipt = server.project().delete("/v1/users/ann").await.ok(200);
        assert_eq!(number(&receipt["erased"], "tombstones"), 1, "{receipt}");
        assert_eq!(listed(server).await, ["b"]);
        server.project().post("/v1/trash/a/restore", json!({})).await.problem(404, "thread-not-found");
        server.project().post("/v1/trash/b/restore", json!({})).await.ok(200);
    }
}

everywhere! {
    async fn retention_that_would_take_a_large_part_of_a_project_waits_for_an_approval(server: |options| {
        options.with_key("secret").with_manual_clock()
    }) {
        let ann = server.user("ann");
        let settings = json!({ "retention": { "deleteAfterDays": 1 } });
        server.project().put("/v1/projects/default", settings).await.ok(201);
        let approve = async |count: u64| {
            server.project().post("/v1/projects/default/retention/approve", json!({ "count": count })).await
        };
        let audited = async |action: &str| {
            let audit = server.project().get("/v1/audit?limit=500").await.ok(200);
            let entries = audit["entries"].as_array().expect("entries").iter();
            entries.filter(|entry| entry["action"] == action).map(|entry| entry["facts"].clone()).collect::<Vec<_>>()
        };
        approve(1).await.problem(409, "retention-not-held");
        approve(0).await.problem(400, "invalid-request");
        for n in 0..101 {
            ann.thread(&format!("t{n}")).await;
        }
        server.pass(2 * DAY);
        for n in 0..2 {
            ann.thread(&format!("new{n}")).await;
        }
        let left = async || {
            let page = server.project().get("/v1/trash?limit=500").await.ok(200);
            page["threads"].as_array().map_or(0, Vec::len)
        };
        for _ in 0..2 {
            server.retain().await;
            assert_eq!(left().await, 0, "101 of 103 threads are more than 100 and than a fifth");
        }
        assert_eq!(audited("retention.held").await, [json!({ "idle": 101, "threads": 103 })], "once");
        // The pass takes as many as were approved, and no more.
        let hold = approve(40).await.ok(200);
        assert_eq!(hold, json!({ "projectId": "default", "idle": 101, "threads": 103, "approved": 40 }));
        eventually("the next pass", async || (left().await >= 40).then_some(())).await;
        assert_eq!(left().await, 40);
        assert_eq!(audited("retention.approved").await, [json!({ "count": 40, "idle": 101, "threads": 103 })]);
        eventually("the approval is spent", async || {
            server.store.holds().await.expect("lists").is_empty().then_some(())
        })
        .await;
        approve(1).await.problem(409, "retention-not-held");
        // The rest is no large number any more.
        server.retain().await;
        assert_eq!(left().await, 101);
        assert_eq!(ids(&ann).await, ["new0", "new1"]);
        // Archiving is no loss, and waits for no one.
        let settings = json!({ "retention": { "archiveAfterDays": 1 } });
        server.project().put("/v1/projects/default", settings).await.ok(200);
        server.pass(2 * DAY);
        eventually("all are archived", async || {
            server.retain().await;
            ids(&ann).await.is_empty().then_some(())
        })
        .await;
    }
}

/// Ids of a user's threads that are not archived.
async fn ids(user: &Client) -> Vec<String> {
    let list = user.get("/v1/threads").await.ok(200);
    let mut ids: Vec<_> =
        list["threads"].as_array().expect("threads").iter().map(|thread| text(thread, "threadId").to_owned()).collect();
    ids.sort();
    ids
}

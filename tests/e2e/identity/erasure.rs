//! Erasing a user, and retention.

use std::sync::atomic::Ordering::SeqCst;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use threadline_core::{Timestamp, hex};
use threadline_http::auth::secret;
use threadline_store::IdentityStore;

use crate::harness::{Client, Server, Socket, after, everywhere, http::send, number, soon, sse::Events, text};

const DAY: u64 = 24 * 3_600;

async fn fill(user: &Client, thread: &str) {
    user.post("/v1/threads", json!({ "threadId": thread, "name": "A private name" })).await.ok(201);
    user.run(thread, "r").await;
    user.append(thread, "r", 1, json!([{ "type": "PRIVATE" }, { "type": "PRIVATE" }])).await.ok(200);
}

async fn ids(user: &Client) -> Vec<String> {
    let list = user.get("/v1/threads?includeArchived=true").await.ok(200);
    let mut ids: Vec<_> =
        list["threads"].as_array().expect("threads").iter().map(|thread| text(thread, "threadId").to_owned()).collect();
    ids.sort();
    ids
}

everywhere! {
    async fn an_erased_user_leaves_only_the_receipt(server: |options| options.with_key("secret")) {
        let (ann, bob) = (server.user("ann"), server.user("bob"));
        for thread in ["a", "b", "gone"] {
            fill(&ann, thread).await;
        }
        fill(&bob, "c").await;
        ann.act("a", "r", "finish").await.ok(200);
        ann.delete("/v1/threads/gone").await;
        let elsewhere = server.project().put("/v1/projects/q", json!({})).await;
        assert_eq!(elsewhere.status, 201);
        let namesake = ann.request(reqwest::Method::POST, "/v1/threads").header("threadline-project", "q");
        send(namesake.json(&json!({ "threadId": "a" }))).await.ok(201);
        let mut socket = Socket::open(&ann).await;
        let epoch = ann.epoch("b").await;
        socket.send(json!({ "id": "1", "subscribe": { "threadId": "b", "after": 2, "epoch": epoch } })).await;
        socket.frame("hello").await;
        socket.frame("caughtUp").await;

        let receipt = server.project().delete("/v1/users/ann").await.ok(200);
        let erased = &receipt["erased"];
        assert_eq!((number(erased, "threads"), number(erased, "runs")), (2, 2), "{receipt}");
        assert_eq!(number(erased, "events"), 5, "two of each thread, and the end of a run: {receipt}");
        let key = server.store.digest_key("erasure").expect("a key");
        assert_eq!(receipt["userDigest"], hex(&key.digest(&["default", "ann"])));
        assert_ne!(receipt["userDigest"], hex(&Sha256::digest("ann")), "nobody can find the user by trying ids");
        assert_eq!(socket.frame("ended").await["reason"], "thread-deleted");
        assert_eq!(ids(&ann).await, [""; 0]);
        for thread in ["a", "b", "gone"] {
            ann.get(&format!("/v1/threads/{thread}/events")).await.problem(404, "thread-not-found");
        }
        let page = ann.get("/v1/feed").await.ok(200);
        assert_eq!((&page["entries"], text(&page, "epoch")), (&json!([]), "0000000000000000"));
        assert_eq!(ids(&bob).await, ["c"]);
        let namesake = ann.request(reqwest::Method::GET, "/v1/threads/a").header("threadline-project", "q");
        send(namesake).await.ok(200);
        // The audit has the receipt, but not the user's id.
        let audit = server.project().get("/v1/audit?limit=1").await;
        assert!(!audit.text().contains("\"ann\""));
        let entry = &audit.ok(200)["entries"][0];
        assert_eq!((text(entry, "action"), &entry["facts"]["userDigest"]), ("user.erased", &receipt["userDigest"]));
        // Again there is nothing to erase, and a new beginning is possible.
        let again = server.project().delete("/v1/users/ann").await.ok(200);
        assert_eq!(again["userDigest"], receipt["userDigest"]);
        assert!(again["erased"].as_object().expect("counts").values().all(|count| *count == 0), "{again}");
        fill(&ann, "a").await;
        assert_eq!(ids(&ann).await, ["a"]);
        crate::harness::eventually("the new thread is in the feed", async || {
            let feed = ann.get("/v1/feed").await.ok(200);
            feed["entries"].as_array().is_some_and(|entries| entries.len() == 1).then_some(())
        })
        .await;
    }
}

everywhere! {
    async fn old_tickets_of_an_erased_user_are_removed(
        server: |options| options.with_key("secret").with_manual_clock().with_glass()
    ) {
        crate::harness::eventually("a node sweeps them by itself", async || {
            (server.intercept().sweeps.load(SeqCst) > 0).then_some(())
        })
        .await;
        // Of this user there is nothing else.
        let made = server.user("ann").post("/v1/socket-tickets", json!({})).await.ok(201);
        server.pass(61);
        server.project().delete("/v1/users/ann").await.ok(200);
        assert_eq!(server.intercept().forgets.load(SeqCst), 1, "whatever was counted");
        // By a slow clock the ticket could still be redeemed, if it existed.
        let kept = server.intercept().take_ticket(&secret::digest(text(&made, "ticket")), Timestamp(0)).await;
        assert_eq!(kept.expect("answers"), None);
    }
}

everywhere! {
    async fn the_feed_of_an_erased_user_ends_for_its_followers(server: |options| options.with_key("secret")) {
        let ann = server.user("ann");
        fill(&ann, "a").await;
        let mut socket = Socket::open(&ann).await;
        socket.send(json!({ "id": "1", "subscribeFeed": { "after": 0 } })).await;
        socket.until("feedCaughtUp").await;
        let before = crate::harness::eventually("the thread is in the feed", async || {
            let page = ann.get("/v1/feed").await.ok(200);
            (number(&page, "cursor") > 0).then_some(page)
        })
        .await;
        let follow = || ann.request(reqwest::Method::GET, "/v1/feed");
        let id = format!("{}:{}", text(&before, "epoch"), number(&before, "cursor"));
        let mut stream = Events::open(follow().header("last-event-id", &id)).await;
        while stream.next().await.expect("an event").event.as_deref() != Some("caught_up") {}
        server.project().delete("/v1/users/ann").await.ok(200);
        let (_, ended) = soon(socket.until("feedEnded")).await;
        assert_eq!((text(&ended, "reason"), &ended["commonUpTo"]), ("log-replaced", &json!(null)));
        // The stream says so as well, as its last event.
        let mut last = None;
        soon(async {
            while let Some(event) = stream.next().await {
                last = Some(event);
            }
        })
        .await;
        let last = last.expect("an event");
        assert_eq!(last.event.as_deref(), Some("ended"));
        assert_eq!(last.json(), ended, "as on the socket");
        // A reader that starts from the beginning sees the new threads, and costs no more than any other.
        socket.send(json!({ "id": "2", "subscribeFeed": { "after": 0 } })).await;
        socket.until("feedCaughtUp").await;
        fill(&ann, "b").await;
        let (_, feed) = socket.until("feed").await;
        assert_eq!(feed["entries"][0]["threadId"], "b", "{feed}");
        // A cursor of the erased feed continues nowhere, though the new one has given its position, too.
        let now = crate::harness::eventually("the new feed has as many positions", async || {
            ann.patch("/v1/threads/b", json!({ "archived": true })).await.ok(200);
            ann.patch("/v1/threads/b", json!({ "archived": false })).await.ok(200);
            let page = ann.get("/v1/feed").await.ok(200);
            (number(&page, "cursor") >= number(&before, "cursor")).then_some(page)
        })
        .await;
        assert_ne!(before["epoch"], now["epoch"]);
        let (query, cursor) = (after(&before), text(&before, "nextCursor"));
        let paths = [query.to_string(), format!("{query}&wait=10"), format!("cursor={cursor}")];
        for path in paths.map(|query| format!("/v1/feed?{query}")) {
            let problem = ann.get(&path).await.problem(410, "log-replaced");
            assert_eq!((&problem["epoch"], &problem["commonUpTo"]), (&now["epoch"], &json!(null)));
        }
        ann.get_as(&format!("/v1/feed?{query}"), "text/event-stream").await.problem(410, "log-replaced");
        let reconnect = follow().header("accept", "text/event-stream").header("last-event-id", &id);
        send(reconnect).await.problem(410, "log-replaced");
        let mut socket = Socket::open(&ann).await;
        let old = json!({ "after": before["cursor"], "epoch": before["epoch"] });
        for old in [old, json!({ "cursor": before["nextCursor"] })] {
            socket.send(json!({ "id": "3", "subscribeFeed": old })).await;
            socket.problem("3", 410, "log-replaced").await;
        }
        // Nor does a position that names no feed.
        ann.get("/v1/feed?after=1").await.problem(400, "invalid-cursor");
        send(follow().header("last-event-id", "1")).await.problem(400, "invalid-cursor");
        socket.send(json!({ "id": "4", "subscribeFeed": { "after": 1 } })).await;
        socket.problem("4", 400, "invalid-cursor").await;
    }
}

async fn audited(server: &Server, action: &str) -> Option<Value> {
    let audit = server.project().get("/v1/audit").await.ok(200);
    audit["entries"].as_array().expect("entries").iter().find(|entry| entry["action"] == action).cloned()
}

everywhere! {
    async fn unused_threads_are_archived_and_then_put_in_the_trash(server: |options| {
        options.with_key("secret").with_manual_clock()
    }) {
        let ann = server.user("ann");
        let settings = json!({ "retention": { "archiveAfterDays": 30, "deleteAfterDays": 90 } });
        server.project().put("/v1/projects/default", settings).await.ok(201);
        for thread in ["old", "used"] {
            ann.thread(thread).await;
            ann.run(thread, "r").await;
            ann.act(thread, "r", "finish").await.ok(200);
        }
        server.pass(29 * DAY);
        server.retain().await;
        assert_eq!(audited(server, "retention.archives").await, None);
        ann.run("used", "s").await;
        ann.act("used", "s", "finish").await.ok(200);
        server.pass(2 * DAY);
        server.retain().await;
        let archived = async |thread: &str| ann.get(&format!("/v1/threads/{thread}")).await.ok(200)["archived"] == true;
        assert!(archived("old").await && !archived("used").await);
        let entry = audited(server, "retention.archives").await.expect("it is in the audit");
        assert_eq!((text(&entry, "actor"), &entry["facts"]["threads"]), ("retention", &json!(["old"])));
        // Archived, it is not archived again; and who comes back to it keeps it.
        server.pass(58 * DAY);
        server.retain().await;
        assert_eq!(ids(&ann).await, ["old", "used"]);
        server.pass(2 * DAY);
        server.retain().await;
        assert_eq!(ids(&ann).await, ["used"]);
        let facts = audited(server, "retention.trashes").await.expect("audited")["facts"].clone();
        assert_eq!(facts, json!({ "afterDays": 90, "graceDays": 7, "threads": ["old"] }));
        // A thread with a run under way is in use, however long ago the run began.
        ann.post("/v1/threads/used/runs", json!({ "runId": "long", "leaseSeconds": 3_600 })).await.ok(201);
        server.retain().await;
        assert_eq!(ids(&ann).await, ["used"]);
    }
}

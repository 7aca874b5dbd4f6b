//! Threads over REST.

use serde_json::{Value, json};

use crate::harness::{after, eventually, everywhere, number, text};

fn ids(page: &Value) -> Vec<String> {
    page["threads"].as_array().expect("threads").iter().map(|thread| text(thread, "threadId").to_owned()).collect()
}

everywhere! {
    async fn create_is_idempotent_and_a_taken_id_is_a_bare_conflict(server) {
        let dev = server.client();
        let wanted = json!({ "threadId": "t", "name": "N", "agentId": "a", "metadata": { "k": 1 } });
        let made = dev.post("/v1/threads", wanted.clone()).await.ok(201);
        assert_eq!(made["userId"], "dev");
        assert_eq!(made["nameSource"], "person");
        assert_eq!((made["tail"].as_u64(), made["activeRun"].is_null()), (Some(0), true));
        assert_eq!(dev.post("/v1/threads", wanted.clone()).await.ok(200), made);
        // The same create again, after the thread has changed: the thread as it is now.
        dev.patch("/v1/threads/t", json!({ "name": "M" })).await.ok(200);
        let again = dev.post("/v1/threads", wanted.clone()).await.ok(200);
        assert_eq!((&again["name"], &again["epoch"]), (&json!("M"), &made["epoch"]));
        // A second create by the owner, and a create by another user, receive the same answer.
        let own = dev.post("/v1/threads", json!({ "threadId": "t" })).await;
        own.problem(409, "thread-exists");
        let foreign = server.user("eve").post("/v1/threads", wanted).await;
        foreign.problem(409, "thread-exists");
        assert_eq!(own.body, foreign.body);
        assert!(!own.text().contains("dev") && !own.text().contains("epoch"));
        // Without an id every create is another thread.
        let one = dev.post("/v1/threads", json!({})).await.ok(201);
        let two = dev.post("/v1/threads", json!({})).await.ok(201);
        assert_ne!(one["threadId"], two["threadId"]);
    }
}

everywhere! {
    async fn lists_are_ordered_paged_and_filtered(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        for index in 0..7 {
            let agent = if index % 2 == 0 { "even" } else { "odd" };
            dev.post("/v1/threads", json!({ "threadId": format!("t{index}"), "agentId": agent })).await.ok(201);
            // Two of them at the same moment, so that the id decides.
            if index != 3 {
                server.pass(1);
            }
        }
        server.user("eve").thread("eves").await;
        let all = |order: &'static str| {
            let dev = dev.clone();
            async move {
                let mut found = Vec::new();
                let mut path = format!("/v1/threads?limit=2{order}");
                loop {
                    let page = dev.get(&path).await.ok(200);
                    assert!(ids(&page).len() <= 2);
                    found.extend(ids(&page));
                    let Some(next) = page["nextCursor"].as_str() else { return found };
                    path = format!("/v1/threads?limit=2{order}&cursor={next}");
                }
            }
        };
        assert_eq!(all("&order=created").await, ["t0", "t1", "t2", "t3", "t4", "t5", "t6"]);
        let recent = all("").await;
        assert_eq!((recent.len(), recent[0].as_str(), recent[6].as_str()), (7, "t6", "t0"));
        assert_eq!(all("&agentId=odd&order=created").await, ["t1", "t3", "t5"]);
        assert!(all("&agentId=none").await.is_empty());
        // A run brings its thread to the front, an append does not move it again.
        dev.run("t1", "r").await;
        server.pass(1);
        dev.patch("/v1/threads/t0", json!({ "name": "x" })).await.ok(200);
        server.pass(1);
        dev.append("t1", "r", 1, json!([{ "type": "A" }])).await.ok(200);
        let front = |recent: Vec<String>| recent[..2].to_vec();
        assert_eq!(front(all("").await), ["t0", "t1"]);
        dev.act("t1", "r", "finish").await.ok(200);
        assert_eq!(front(all("").await), ["t1", "t0"]);
        // Archived ones are hidden unless asked for.
        dev.patch("/v1/threads/t1", json!({ "archived": true })).await.ok(200);
        assert!(!all("").await.contains(&"t1".to_owned()));
        assert!(all("&includeArchived=true").await.contains(&"t1".to_owned()));
        dev.patch("/v1/threads/t1", json!({ "archived": false })).await.ok(200);
        assert!(all("").await.contains(&"t1".to_owned()));
        dev.get("/v1/threads?cursor=nonsense").await.problem(400, "invalid-cursor");
    }
}

everywhere! {
    async fn the_last_run_stands_on_the_thread_and_selects_it(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        for id in ["new", "runs", "failed", "abandoned", "stopped", "finished", "again"] {
            let made = dev.post("/v1/threads", json!({ "threadId": id, "agentId": "a" })).await.ok(201);
            assert!(made["lastRun"].is_null(), "{made}");
            server.pass(1);
        }
        let failure = json!([{ "type": "RUN_ERROR", "message": "no", "code": "broken" }]);
        for id in ["runs", "failed", "stopped", "finished", "again"] {
            dev.put(&format!("/v1/threads/{id}/runs/first"), failure.clone()).await.ok(201);
        }
        for id in ["runs", "stopped", "finished", "again", "abandoned"] {
            let lease = if id == "abandoned" { 1 } else { 600 };
            let start = json!({ "runId": "second", "leaseSeconds": lease });
            dev.post(&format!("/v1/threads/{id}/runs"), start).await.ok(201);
            let shown = dev.get(&format!("/v1/threads/{id}")).await.ok(200);
            let running = json!({ "runId": "second", "status": "running", "errorCode": null, "endedAt": null });
            assert_eq!((&shown["lastRun"], &shown["activeRun"]["runId"]), (&running, &json!("second")));
        }
        server.pass(1);
        dev.act("stopped", "second", "stop").await.ok(202);
        for (id, end) in [("stopped", json!([{ "type": "RUN_FINISHED" }])), ("again", failure)] {
            dev.append(id, "second", 1, end).await.ok(200);
        }
        dev.act("finished", "second", "finish").await.ok(200);
        server.pass(2);
        let last = async |id: &str| dev.get(&format!("/v1/threads/{id}")).await.ok(200)["lastRun"].clone();
        eventually("the reaper ends what nobody ended", async || {
            (last("abandoned").await["status"] == "abandoned").then_some(())
        })
        .await;
        // Exactly what the record of the newest run says, wherever the thread is shown.
        let list = dev.get("/v1/threads").await.ok(200);
        let feed = async || {
            let feed = dev.get("/v1/feed?limit=500").await.ok(200);
            feed["entries"].as_array().expect("entries").iter().map(|entry| entry["thread"].clone()).collect::<Vec<_>>()
        };
        for thread in list["threads"].as_array().expect("threads") {
            let id = text(thread, "threadId");
            let newest = &dev.get(&format!("/v1/threads/{id}/runs?limit=1")).await.ok(200)["runs"][0];
            for member in ["runId", "status", "errorCode", "endedAt"] {
                assert_eq!(thread["lastRun"][member], newest[member], "{member} of {id}");
            }
            eventually("the feed has it", async || {
                feed().await.iter().any(|fed| fed["threadId"] == id && fed["lastRun"] == thread["lastRun"]).then_some(())
            })
            .await;
        }
        assert_eq!((last("failed").await["status"].clone(), last("failed").await["errorCode"].clone()), (json!("error"), json!("broken")));
        let found = async |query: &str| {
            let (mut found, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = dev.get(&format!("/v1/threads?order=created&limit=1&{query}{cursor}")).await.ok(200);
                found.extend(ids(&page));
                let Some(next) = page["nextCursor"].as_str() else { return found };
                cursor = format!("&cursor={next}");
            }
        };
        assert_eq!(found("status=running").await, ["runs"]);
        assert_eq!(found("status=failed").await, ["failed", "abandoned", "again"]);
        assert_eq!(found("status=idle").await, ["new", "stopped", "finished"]);
        assert_eq!(found("status=failed&agentId=a&includeArchived=true").await.len(), 3);
        assert_eq!(found("status=failed&agentId=b").await, [""; 0]);
        dev.patch("/v1/threads/again", json!({ "name": "Caf\u{e9}" })).await.ok(200);
        assert_eq!(found("status=failed&search=cafe").await, ["again"]);
        assert_eq!(found("status=idle&search=cafe").await, [""; 0]);
        assert_eq!(found("status=waiting").await, [""; 0]);
        for bad in ["stopped", "FAILED", "", "running,failed"] {
            dev.get(&format!("/v1/threads?status={bad}")).await.problem(400, "invalid-request");
        }
    }
}

everywhere! {
    async fn a_page_is_not_shifted_by_threads_created_meanwhile(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        for index in 0..4 {
            dev.thread(&format!("t{index}")).await;
            server.pass(1);
        }
        let first = dev.get("/v1/threads?limit=2").await.ok(200);
        assert_eq!(ids(&first), ["t3", "t2"]);
        dev.thread("t4").await;
        let second = dev.get(&format!("/v1/threads?limit=2&cursor={}", text(&first, "nextCursor"))).await.ok(200);
        assert_eq!(ids(&second), ["t1", "t0"]);
        // The list plus the feed after its cursor is complete.
        let mut place = after(&first);
        loop {
            // Older changes may get their positions after the list was read, and come first.
            let feed = dev.get(&format!("/v1/feed?{place}&wait=10")).await.ok(200);
            let entries = feed["entries"].as_array().expect("entries");
            assert!(!entries.is_empty(), "t4 never came");
            if entries.iter().any(|entry| entry["threadId"] == "t4" && entry["type"] == "upsert") {
                break;
            }
            place = after(&feed);
        }
    }
}

everywhere! {
    async fn edits_tell_null_from_absence_and_merge(server) {
        let dev = server.client();
        let create = json!({ "threadId": "t", "name": "N", "metadata": { "a": 1, "b": { "c": 2, "d": 3 } } });
        let made = dev.post("/v1/threads", create).await.ok(201);
        let patch = |body| dev.patch("/v1/threads/t", body);
        let same = patch(json!({})).await.ok(200);
        assert_eq!((&same["name"], &same["metadata"]), (&made["name"], &made["metadata"]));
        let merged = patch(json!({ "metadata": { "a": null, "b": { "c": null, "e": [1] }, "f": "g" } })).await.ok(200);
        assert_eq!(merged["metadata"], json!({ "b": { "d": 3, "e": [1] }, "f": "g" }));
        assert_eq!(merged["name"], "N");
        let unnamed = patch(json!({ "name": null })).await.ok(200);
        assert_eq!((&unnamed["name"], &unnamed["nameSource"]), (&Value::Null, &Value::Null));
        let named = patch(json!({ "name": "Zoë \u{1} 🦀" })).await.ok(200);
        assert_eq!((&named["name"], &named["nameSource"]), (&json!("Zoë \u{1} 🦀"), &json!("person")));
        assert_eq!(dev.get("/v1/threads/t").await.ok(200)["name"], named["name"]);
        for bad in [json!({ "name": "" }), json!({ "name": "a\u{0}b" }), json!({ "name": "x".repeat(1025) }), json!({ "archived": null, "x": 1 })] {
            patch(bad).await.problem(400, "invalid-request");
        }
        let large = json!({ "metadata": { "x": "y".repeat(70_000) } });
        patch(large).await.problem(400, "invalid-request");
        assert_eq!(dev.get("/v1/threads/t").await.ok(200)["metadata"], merged["metadata"]);
    }
}

everywhere! {
    async fn a_deleted_thread_is_gone_and_its_id_free(server) {
        let dev = server.client();
        let before = dev.thread("t").await;
        dev.run("t", "r").await;
        dev.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200);
        let deleted = dev.delete("/v1/threads/t").await;
        assert_eq!((deleted.status, deleted.body.len()), (204, 0));
        // Sent again: the same answer. To others it is as if it had never been.
        assert_eq!(dev.delete("/v1/threads/t").await.status, 204);
        server.user("other").delete("/v1/threads/t").await.problem(404, "thread-not-found");
        dev.append("t", "r", 2, json!([{ "type": "B" }])).await.problem(404, "thread-not-found");
        dev.get("/v1/threads/t/events").await.problem(404, "thread-not-found");
        // The log that is made now is another one.
        let after = dev.thread("t").await;
        assert_ne!(before["epoch"], after["epoch"]);
        assert_eq!(after["tail"], 0);
        dev.get("/v1/threads/t/runs/r").await.problem(404, "run-not-found");
        let replaced = dev.get(&format!("/v1/threads/t/events?epoch={}", text(&before, "epoch"))).await;
        let replaced = replaced.problem(410, "log-replaced");
        assert_eq!((&replaced["epoch"], &replaced["tail"]), (&after["epoch"], &json!(0)));
        let feed = dev.get("/v1/feed?wait=10").await.ok(200);
        assert!(number(&feed, "cursor") > 0);
    }
}

everywhere! {
    async fn unknown_and_foreign_threads_look_the_same(server) {
        let (dev, eve) = (server.client(), server.user("eve"));
        dev.thread("t").await;
        for verb in ["GET", "DELETE", "PATCH"] {
            let ask = |id: &'static str| {
                let method = verb.parse().expect("a method");
                let request = eve.request(method, &format!("/v1/threads/{id}"));
                crate::harness::http::send(request.header("content-type", "application/json").body("{}"))
            };
            let (foreign, unknown) = (ask("t").await, ask("u").await);
            foreign.problem(404, "thread-not-found");
            assert_eq!(foreign.body, unknown.body, "{verb}");
        }
        dev.get("/v1/threads/t").await.ok(200);
    }
}

everywhere! {
    async fn an_edit_sent_again_changes_nothing(server: |options| options.with_manual_clock()) {
        let dev = server.client();
        dev.thread("t").await;
        let edit = json!({ "name": "N", "archived": true, "metadata": { "a": { "b": 1 } } });
        server.pass(1);
        let edited = dev.patch("/v1/threads/t", edit.clone()).await.ok(200);
        server.pass(1);
        assert_eq!(dev.patch("/v1/threads/t", edit).await.ok(200), edited);
        assert_eq!(dev.patch("/v1/threads/t", json!({})).await.ok(200), edited);
        // The same name with another meaning is a change.
        let unnamed = dev.patch("/v1/threads/t", json!({ "name": null })).await.ok(200);
        assert_ne!(unnamed["updatedAt"], edited["updatedAt"]);
    }
}

everywhere! {
    async fn a_body_is_an_object_and_no_list_of_members(server) {
        let dev = server.client();
        dev.post("/v1/threads", json!(["x"])).await.problem(400, "invalid-request");
        dev.get("/v1/threads/x").await.problem(404, "thread-not-found");
        dev.thread("t").await;
        dev.patch("/v1/threads/t", json!(["renamed"])).await.problem(400, "invalid-request");
        assert_eq!(dev.get("/v1/threads/t").await.ok(200)["name"], Value::Null);
    }
}

//! Stored bytes and threads have limits, of users and of projects; closing, reading and deleting do not depend on them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use reqwest::Method;
use serde_json::{Value, json};
use threadline_core::{Limit, ProjectId, Usage, UserId};
use threadline_engine::limits::Space;

use crate::{
    backing::Postgres,
    harness::{Answer, Client, Options, Server, Socket, eventually, everywhere, http::send, number, run},
    identity::{key, token},
    table::{fill, needed},
    wire::STORING,
};

const GIB: u64 = 1_024 * 1_024 * 1_024;

/// A refusal, with all that is promised of it.
fn full(answer: &Answer, limit: &str, value: u64) {
    let problem = answer.problem(507, "storage-full");
    assert_eq!(
        (&problem["limit"], &problem["value"], &problem["retryable"]),
        (&json!(limit), &json!(value), &json!(false))
    );
    let detail = problem["detail"].as_str().expect("a detail");
    assert!(detail.contains(&value.to_string()), "{detail}");
}

/// Events of about 60 kB.
fn large() -> Value {
    json!([{ "type": "A", "pad": "x".repeat(60_000) }])
}

fn said(id: &str) -> Value {
    json!([
        { "type": "TEXT_MESSAGE_START", "messageId": id, "role": "user" },
        { "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": "hello" },
        { "type": "TEXT_MESSAGE_END", "messageId": id },
    ])
}

/// Usage of the project, as an admin sees it.
async fn usage(server: &Server) -> (u64, u64) {
    let project = server.project().get("/v1/projects/default").await.ok(200);
    (number(&project["usage"], "bytes"), number(&project["usage"], "threads"))
}

everywhere! {
    async fn a_user_who_is_full_reads_closes_and_deletes(server: |options| options.with_key("secret").with_limits(|limits| {
        limits.user.stored_bytes = 100_000;
    })) {
        let (ann, bob, backend) = (token(server, "ann").await, token(server, "bob").await, server.user("ann"));
        for thread in ["t", "u", "w"] {
            ann.thread(thread).await;
        }
        for (thread, run) in [("t", "r"), ("u", "q"), ("w", "p")] {
            ann.run(thread, run).await;
        }
        ann.append("t", "r", 1, large()).await.ok(200);
        // The last one may pass the limit.
        ann.append("t", "r", 2, large()).await.ok(200);
        let whole = json!([{ "type": "B" }]);
        let stream = "{\"type\":\"A\"}\n";
        let mut refused = vec![
            ann.append("t", "r", 3, whole.clone()).await,
            ann.append("u", "q", 1, large()).await,
            ann.post("/v1/threads", json!({ "threadId": "v" })).await,
            ann.post("/v1/threads/t/runs", json!({ "runId": "s" })).await,
            ann.put("/v1/threads/t/runs/whole", said("m")).await,
            ann.post("/v1/threads/t/runs", json!({ "agentId": "demo", "input": { "messages": [] } })).await,
            ann.ndjson(Method::POST, "/v1/threads/t/runs?runId=z", stream).await,
            ann.put("/v1/conversations/doc", json!({ "messages": [{ "id": "1", "role": "user", "content": "x" }] })).await,
            ann.put("/connector/annotate/a", json!({ "type": "x", "userId": "ann", "threadId": "t" })).await,
            ann.post("/agui/demo", json!({ "threadId": "t2", "messages": [{ "id": "1", "role": "user", "content": "x" }] })).await,
        ];
        // An append that ends its run is no way around.
        refused.push(ann.append("u", "q", 1, json!([large()[0], large()[0], { "type": "RUN_FINISHED" }])).await);
        for answer in refused {
            full(&answer, "userStoredBytes", 100_000);
        }
        let mut socket = Socket::open(&ann).await;
        let append = json!({ "threadId": "u", "runId": "q", "producerSeq": 1, "events": whole });
        socket.send(json!({ "id": "1", "append": append })).await;
        socket.problem("1", 507, "storage-full").await;
        // A stored append gets its receipt again.
        ann.append("t", "r", 2, large()).await.ok(200);
        assert_eq!(ann.types("t").await, ["A", "A"]);
        // A key stores for the same user, and other users are free.
        backend.append("t", "r", 3, json!([{ "type": "B" }])).await.ok(200);
        bob.thread("b").await;
        // Heartbeats, and all ends of runs.
        ann.act("t", "r", "heartbeat").await.ok(200);
        ann.act("t", "r", "stop").await.ok(202);
        ann.append("t", "r", 4, json!([{ "type": "RUN_FINISHED" }])).await.ok(200);
        ann.act("u", "q", "finish").await.ok(200);
        ann.act("w", "p", "release").await.ok(200);
        ann.act("w", "p", "fail").await.ok(200);
        assert!(server.limited().iter().any(|(limit, count)| *limit == Limit::UserStoredBytes && *count >= 12));
        assert_eq!(ann.delete("/v1/threads/t").await.status, 204);
        eventually("the purge frees the space", async || {
            let made = ann.post("/v1/threads", json!({ "threadId": "v" })).await;
            (made.status == 201).then_some(())
        })
        .await;
        ann.run("v", "r").await;
        ann.append("v", "r", 1, large()).await.ok(200);
    }
}

#[tokio::test]
async fn every_route_that_stores_is_refused() {
    let options = Options::memory().with_key("secret").with_limits(|limits| limits.project.stored_bytes = 1);
    run(options, async |server: &Server| {
        let ann = server.user("ann");
        ann.thread("t").await;
        ann.thread("free").await;
        ann.run("t", "r").await;
        ann.append("t", "r", 1, json!([{ "type": "A" }])).await.ok(200);
        let messages = json!([{ "id": "1", "role": "user", "content": "x" }]);
        let input = json!({
            "threadId": "free", "runId": "x", "messages": messages, "state": {}, "tools": [], "context": [], "forwardedProps": {},
        });
        let single = json!({ "method": "agent/run", "params": { "agentId": "demo" }, "body": input });
        for (method, path) in STORING {
            let body = match (*method, *path) {
                ("POST", "/copilotkit") => single.clone(),
                ("PUT", "/v1/threads/{threadId}/runs/{runId}") => said("m"),
                (_, path) if path.ends_with("/events") => json!([{ "type": "B" }]),
                (_, path) if path.ends_with("/forks") => json!({}),
                (_, path) if path.starts_with("/v1/conversations/") => json!({ "messages": messages }),
                (_, path) if path.starts_with("/connector/") => json!({ "type": "x", "userId": "ann", "threadId": "t" }),
                (_, path) if path.starts_with("/api/") => json!({ "userId": "ann", "runId": "x", "threadId": "new" }),
                ("POST", "/ai/{agentId}") => json!({ "id": "free", "message": { "role": "user", "parts": [{ "type": "text", "text": "x" }] } }),
                (_, path) if path.ends_with("/commands") => {
                    let params = json!({ "assistant_id": "demo", "input": { "messages": "x" } });
                    json!({ "id": 1, "method": "run.start", "params": params })
                }
                ("POST", "/langgraph/threads/{threadId}/runs") => {
                    json!({ "assistant_id": "demo", "input": { "messages": "x" } })
                }
                ("POST", "/openai/v1/responses") => json!({ "model": "demo", "input": "x" }),
                ("POST", "/openai/v1/conversations/{conversationId}") => json!({ "metadata": { "a": "b" } }),
                (_, path) if path.starts_with("/openai/") => json!({ "items": [{ "role": "user", "content": "x" }] }),
                (_, path) if path.contains("{agentId}") => input.clone(),
                ("POST", "/v1/threads") => json!({ "threadId": "new" }),
                (_, path) if path.ends_with("/checkpoints") => json!({ "type": "t", "data": "", "channels": [] }),
                (_, path) if path.ends_with("/checkpoints/blobs") => json!({ "blobs": [] }),
                (_, path) if path.ends_with("/checkpoints/writes") => json!({ "taskId": "k", "writes": [] }),
                (_, path) if path.ends_with("/checkpoints/copy") => json!({ "fromThreadId": "t" }),
                (_, path) if path.ends_with("/copy") => json!({ "key": "k", "fromThreadId": "t", "fromList": "l" }),
                (_, path) if path.contains("/items/") => json!({ "key": "k", "items": [1] }),
                ("POST", "/v1/kv") => json!({ "ops": [{ "op": "put", "ns": [], "key": "k", "value": 1 }] }),
                _ => json!({ "runId": "x" }),
            };
            let run = if *method == "PUT" { "whole" } else { "r" };
            let is_free = ["/v1/conversations/", "/openai/", "/langgraph/"].iter().any(|prefix| path.starts_with(prefix));
            let thread = if is_free { "free" } else { "t" };
            let request = ann.request(method.parse().expect("a method"), &format!("{}{}", fill(path, thread, run), needed(method, path))).json(&body);
            let answer = send(request).await;
            if path.starts_with("/openai/") {
                assert_eq!(answer.ok(507)["error"]["code"], "storage_full", "{path}");
            } else {
                full(&answer, "projectStoredBytes", 1);
            }
        }
        ann.act("t", "r", "finish").await.ok(200);
    })
    .await;
}

everywhere! {
    async fn threads_of_a_user_are_counted(server: |options| options.with_key("secret").with_limits(|limits| {
        limits.user.threads = 2;
    })) {
        let ann = token(server, "ann").await;
        ann.thread("a").await;
        ann.thread("b").await;
        full(&ann.post("/v1/threads", json!({ "threadId": "c" })).await, "userThreads", 2);
        full(&ann.post("/agui/demo", json!({ "threadId": "c", "messages": [] })).await, "userThreads", 2);
        // A repeated creation has its answer, and what is there goes on.
        ann.post("/v1/threads", json!({ "threadId": "a" })).await.ok(200);
        ann.put("/v1/threads/a/runs/r", said("m")).await.ok(201);
        server.user("ann").thread("by-key").await;
        // The backend has made the user's third thread, so the end of one is not enough.
        for thread in ["a", "b"] {
            assert_eq!(ann.delete(&format!("/v1/threads/{thread}")).await.status, 204);
        }
        eventually("the purge makes room", async || {
            let made = ann.post("/v1/threads", json!({ "threadId": "c" })).await;
            (made.status == 201).then_some(())
        })
        .await;
        full(&ann.post("/v1/threads", json!({ "threadId": "d" })).await, "userThreads", 2);
    }
}

everywhere! {
    async fn limits_of_a_project_hold_for_keys(server: |options| options.with_key("secret")) {
        let operator = server.project();
        let limits = json!({ "projectStoredBytes": 50_000, "projectThreads": 2 });
        operator.put("/v1/projects/small", json!({ "limits": limits })).await.ok(201);
        let scopes = [threadline_core::Scope::Read, threadline_core::Scope::Chat, threadline_core::Scope::Produce];
        let small = key(server, "small", &scopes).await;
        let of = |user: &str| Client { user: Some(user.to_owned()), ..small.clone() };
        of("ann").thread("a").await;
        of("bob").thread("b").await;
        full(&of("carl").post("/v1/threads", json!({ "threadId": "c" })).await, "projectThreads", 2);
        of("ann").run("a", "r").await;
        of("bob").run("b", "r").await;
        of("ann").append("a", "r", 1, large()).await.ok(200);
        full(&of("bob").append("b", "r", 1, json!([{ "type": "B" }])).await, "projectStoredBytes", 50_000);
        of("bob").act("b", "r", "finish").await.ok(200);
        let shown = operator.get("/v1/projects/small").await.ok(200);
        assert_eq!(number(&shown["usage"], "threads"), 2);
        assert!(number(&shown["usage"], "bytes") > 60_000, "{shown}");
        // Another project has room, and this one once its limits are raised.
        server.user("ann").thread("a").await;
        operator.put("/v1/projects/small", json!({ "limits": { "projectThreads": 3 } })).await.ok(200);
        eventually("the new limits hold", async || {
            (of("carl").post("/v1/threads", json!({ "threadId": "c" })).await.status == 201).then_some(())
        })
        .await;
        of("ann").append("a", "r", 2, large()).await.ok(200);
    }
}

everywhere! {
    async fn a_run_that_the_server_drives_goes_on_to_its_end(server: |options| options.with_key("secret").with_limits(|limits| {
        limits.user.stored_bytes = 10;
    })) {
        let ann = token(server, "ann").await;
        let input = json!({ "threadId": "t", "messages": [{ "id": "1", "role": "user", "content": "hello" }] });
        let answer = ann.post("/agui/demo", input).await;
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("RUN_FINISHED"), "{}", answer.text());
        assert!(usage(server).await.0 > 100);
        full(&ann.post("/v1/threads/t/runs", json!({ "runId": "next" })).await, "userStoredBytes", 10);
        // Sums are shown to admins only.
        ann.get("/v1/projects/default").await.problem(403, "forbidden");
    }
}

everywhere! {
    async fn a_daily_count_corrects_a_wrong_sum(server: |options| options.with_key("secret").with_manual_clock()) {
        let ann = server.user("ann");
        ann.thread("t").await;
        ann.put("/v1/threads/t/runs/r", said("m")).await.ok(201);
        let right = usage(server).await;
        assert!(right.0 > 100 && right.1 == 1, "{right:?}");
        server.write_sums().await;
        let (project, user) = (ProjectId::new("default").expect("id"), UserId::new("ann").expect("id"));
        let wrong = [(project, user, Usage { bytes: 5_000_000, threads: -9 })];
        server.store.add_usage(&wrong).await.expect("adds");
        server.pass(25 * 3_600);
        eventually("the count corrects the sum", async || (usage(server).await == right).then_some(())).await;
    }
}

/// Starts a server over the same data, which has to know what was stored before.
async fn restart(open: impl AsyncFn(Options) -> Server) {
    let options = || Options::new(crate::harness::Backend::Sqlite).with_key("secret");
    let options = || options().with_limits(|limits| limits.user.stored_bytes = 50_000);
    let server = open(options()).await;
    let ann = token(&server, "ann").await;
    ann.thread("t").await;
    ann.run("t", "r").await;
    ann.append("t", "r", 1, large()).await.ok(200);
    let before = usage(&server).await;
    server.stop().await;
    let server = open(options()).await;
    let ann = token(&server, "ann").await;
    full(&ann.append("t", "r", 2, json!([{ "type": "B" }])).await, "userStoredBytes", 50_000);
    assert_eq!(usage(&server).await, before);
    server.stop().await;
}

#[tokio::test]
async fn a_restart_keeps_the_sums_of_a_data_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    restart(async |options| Server::in_directory(directory.path(), options).await).await;
}

#[tokio::test]
async fn a_restart_keeps_the_sums_of_a_database() {
    let url = Postgres::shared().fresh_database();
    restart(async |options| Server::in_database(&url, options).await).await;
}

/// A free space that the test sets, of a disk of 100 GiB.
fn disk() -> (Arc<AtomicU64>, Options) {
    let free = Arc::new(AtomicU64::new(50 * GIB));
    let measured = free.clone();
    let probe = move || Ok(Space { free: measured.load(Ordering::Relaxed), total: 100 * GIB });
    (free, Options { space: Some(Arc::new(probe)), ..Options::memory().with_key("secret") })
}

#[tokio::test]
async fn a_disk_that_fills_up_refuses_untrusted_clients_first() {
    let (free, options) = disk();
    run(options, async |server: &Server| {
        let (ann, backend) = (token(server, "ann").await, server.user("ann"));
        ann.thread("t").await;
        ann.run("t", "r").await;
        free.store(2 * GIB - 1, Ordering::Relaxed);
        let refused = eventually("it is noticed", async || {
            Some(ann.post("/v1/threads", json!({})).await).filter(|answer| answer.status != 201)
        });
        full(&refused.await, "storageFreeBytes", 2 * GIB);
        full(&ann.append("t", "r", 1, large()).await, "storageFreeBytes", 2 * GIB);
        backend.thread("by-key").await;
        backend.run("by-key", "r").await;
        let metrics = backend.get("/metrics").await;
        assert!(
            metrics.text().contains(&format!("threadline_storage_free_bytes{{directory=\"data\"}} {}", 2 * GIB - 1)),
            "{}",
            metrics.text()
        );
        free.store(GIB - 1, Ordering::Relaxed);
        let refused = eventually("it is noticed", async || {
            let answer = backend.post("/v1/threads", json!({})).await;
            Some(answer).filter(|answer| answer.status != 201)
        });
        full(&refused.await, "storageFreeBytes", GIB);
        full(&backend.post("/v1/threads/t/runs", json!({})).await, "storageFreeBytes", GIB);
        // Requests that make space or end a run pass.
        ann.act("t", "r", "stop").await.ok(202);
        ann.act("t", "r", "finish").await.ok(200);
        backend.act("by-key", "r", "heartbeat").await.ok(200);
        backend.act("by-key", "r", "fail").await.ok(200);
        assert_eq!(ann.types("t").await.last().map(String::as_str), Some("RUN_FINISHED"));
        assert_eq!(ann.delete("/v1/threads/t").await.status, 204);
        server.project().delete("/v1/users/ann").await.ok(200);
        assert!(server.limited().iter().any(|(limit, count)| *limit == Limit::StorageFree && *count >= 4));
        free.store(50 * GIB, Ordering::Relaxed);
        eventually("there is space again", async || {
            (backend.post("/v1/threads", json!({})).await.status == 201).then_some(())
        })
        .await;
    })
    .await;
}

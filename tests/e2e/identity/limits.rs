//! Limits of users with tokens; keys of their project are exempt.

use serde_json::json;
use tokio_tungstenite::tungstenite;

use super::token;
use crate::harness::{Options, Server, Socket, eventually, raw::Raw, run, socket::handshake};

#[tokio::test]
async fn a_token_is_held_to_the_limits_of_a_user_and_a_key_is_not() {
    let options = Options::memory().with_key("secret").with_limits(|limits| {
        limits.user.requests_per_second = 1;
        limits.user.request_burst = 20;
        limits.user.sockets = 1;
        limits.user.runs = 1;
        limits.user.append_bytes_per_second = 1_000;
        limits.user.append_byte_burst = 1_000;
    });
    run(options, async |server: &Server| {
        let (ann, bob, key) = (token(server, "ann").await, token(server, "bob").await, server.user("ann"));
        for thread in ["t1", "t2"] {
            ann.thread(thread).await;
        }
        ann.run("t1", "r").await;
        let refused = ann.post("/v1/threads/t2/runs", json!({})).await.problem(429, "rate-limited");
        assert_eq!(refused["limit"], "userRuns");
        key.run("t2", "r").await;
        let large = json!([{ "type": "A", "pad": "x".repeat(60_000) }]);
        ann.append("t1", "r", 1, large.clone()).await.ok(200);
        let refused = ann.append("t1", "r", 2, large.clone()).await.problem(429, "rate-limited");
        assert_eq!(refused["limit"], "userAppendBytesPerSecond");
        key.append("t1", "r", 2, large).await.ok(200);
        let _socket = Socket::open(&ann).await;
        match Socket::connect(handshake(&ann)).await {
            Err(tungstenite::Error::Http(response)) => assert_eq!(response.status(), 429),
            other => panic!("{:?}", other.map(|_| "a socket")),
        }
        let _others = (Socket::open(&bob).await, Socket::open(&key).await, Socket::open(&key).await);
        for _ in 0..100 {
            key.get("/v1/threads").await.ok(200);
        }
        let mut refused = ann.get("/v1/threads").await;
        for _ in 0..40 {
            if refused.status == 200 {
                refused = ann.get("/v1/threads").await;
            }
        }
        assert_eq!(refused.problem(429, "rate-limited")["limit"], "userRequestsPerSecond");
        bob.get("/v1/threads").await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_run_refused_by_a_limit_creates_no_thread() {
    let options = Options::memory().with_key("secret").with_limits(|limits| limits.user.runs = 1);
    run(options, async |server: &Server| {
        let ann = token(server, "ann").await;
        ann.thread("t").await;
        ann.run("t", "r").await;
        let input =
            json!({ "threadId": "new", "runId": "r", "messages": [{ "id": "m", "role": "user", "content": "Hi" }] });
        let refused = ann.post("/agui/demo", input).await.problem(429, "rate-limited");
        assert_eq!(refused["limit"], "userRuns");
        ann.get("/v1/threads/new").await.problem(404, "thread-not-found");
    })
    .await;
}

#[tokio::test]
async fn open_requests_count_against_the_limit() {
    let options = Options::memory().with_key("secret").with_limits(|limits| limits.user.sockets = 1);
    run(options, async |server: &Server| {
        let ann = token(server, "ann").await;
        ann.thread("t").await;
        let socket = Socket::open(&ann).await;
        for (path, form) in [
            ("/v1/threads/t/events", "text/event-stream"),
            ("/v1/threads/t/events", "application/x-ndjson"),
            ("/v1/threads/t/events?wait=60", "application/json"),
            ("/v1/feed", "text/event-stream"),
            ("/v1/feed?wait=60", "application/json"),
        ] {
            let refused = ann.get_as(path, form).await.problem(429, "rate-limited");
            assert_eq!(refused["limit"], "userSockets", "{path} {form}");
        }
        // A page that waits for nothing stays open for nothing.
        ann.get("/v1/threads/t/events").await.ok(200);
        drop(socket);
        eventually("the place is free", async || {
            (ann.get_as("/v1/threads/t/events", "application/x-ndjson").await.status == 200).then_some(())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_users_frames_are_small_and_a_keys_are_not() {
    run(Options::memory().with_key("secret"), async |server: &Server| {
        let (ann, key) = (token(server, "ann").await, server.user("ann"));
        ann.thread("t").await;
        ann.run("t", "r").await;
        let frame = json!({ "id": "1", "append": {
            "threadId": "t", "runId": "r", "events": [{ "type": "A", "pad": "x".repeat(1_100_000) }]
        } });
        let mut socket = Socket::open(&key).await;
        socket.send(frame.clone()).await;
        socket.frame("appended").await;
        let mut socket = Socket::open(&ann).await;
        socket.send(frame).await;
        assert_eq!(socket.frame("closing").await["code"], 4509);
    })
    .await;
}

#[tokio::test]
async fn partial_bodies_with_a_token_block_no_other() {
    const MIB: usize = 1_024 * 1_024;
    let options = Options::memory().with_key("secret").with_limits(|limits| limits.body_memory = 32 * MIB);
    let options = options.with_timeouts(|patience| patience.room = std::time::Duration::from_secs(2));
    run(options, async |server: &Server| {
        let (ann, bob) = (token(server, "ann").await, token(server, "bob").await);
        ann.thread("a").await;
        ann.run("a", "r").await;
        bob.thread("b").await;
        bob.run("b", "r").await;
        // More than all the room there is, of which a user has half here.
        let mut half_sent = Vec::new();
        for _ in 0..5 {
            let mut raw = Raw::connect(server.addr).await;
            let key = ann.key.as_deref().expect("a token");
            let length = 16 * MIB;
            raw.write(&format!(
                "POST /v1/threads/a/runs/r/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\
                 Content-Length: {length}\r\n\r\n"
            ))
            .await;
            raw.write(vec![b' '; 7 * MIB]).await;
            half_sent.push(raw);
        }
        let large = json!([{ "type": "A", "pad": "x".repeat(6 * MIB) }]);
        eventually("no room for ann", async || {
            let answer = ann.append("a", "r", 1, large.clone()).await;
            (answer.status == 503).then(|| assert_eq!(answer.problem(503, "busy")["limit"], "bodyMemoryBytes"))
        })
        .await;
        bob.append("b", "r", 1, large.clone()).await.ok(200);
        server.user("ann").append("a", "r", 1, large).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn a_user_repays_the_work_that_was_done_before_the_next_request() {
    let options = Options::memory().with_key("secret").with_limits(|limits| {
        limits.user.work_per_second = 1;
        limits.user.work_burst = 10;
    });
    run(options, async |server: &Server| {
        let (ann, bob, key) = (token(server, "ann").await, token(server, "bob").await, server.user("ann"));
        key.thread("t").await;
        key.run("t", "r").await;
        let event = json!({ "type": "A", "pad": "x".repeat(100_000) });
        key.append("t", "r", 1, json!(vec![event; 12])).await.ok(200);
        // More than a megabyte: 18 units and a request.
        ann.get("/v1/threads/t/messages").await.ok(200);
        let refused = ann.get("/v1/threads").await.problem(429, "rate-limited");
        assert_eq!((&refused["limit"], &refused["value"]), (&json!("userWorkPerSecond"), &json!(1)));
        for other in [bob, key] {
            other.get("/v1/threads").await.ok(200);
        }
    })
    .await;
}

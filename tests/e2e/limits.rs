//! Limits of users and projects: each one exceeded, without effect on others.
//!
//! In development mode limits of users hold only if they are set: here they are, so that users need no tokens.

use std::time::{Duration, Instant};

use futures_util::stream;
use reqwest::Method;
use serde_json::{Value, json};
use threadline_core::{Limit, limits::USER_SOCKETS};
use tokio_tungstenite::tungstenite;

use crate::harness::{
    Answer, Backend, Client, Options, Server, Socket, eventually, everywhere, http::open, number, raw::Raw, run,
    socket::handshake,
};

/// A refusal, with all that is promised of it.
fn refused(answer: &Answer, limit: &str, value: u64) -> Duration {
    let problem = answer.problem(429, "rate-limited");
    assert_eq!(
        (&problem["limit"], &problem["value"], &problem["retryable"]),
        (&json!(limit), &json!(value), &json!(true))
    );
    let wait = number(&problem, "retryAfterMs");
    assert_eq!(answer.header("retry-after"), wait.div_ceil(1_000).max(1).to_string(), "{problem}");
    Duration::from_millis(wait)
}

/// Asks until it is refused: how often it was not, and the refusal.
async fn until_refused(client: &Client) -> (usize, Answer) {
    for passed in 0..100 {
        let answer = client.get("/v1/threads").await;
        if answer.status != 200 {
            return (passed, answer);
        }
    }
    panic!("never refused");
}

#[tokio::test]
async fn requests_of_a_user() {
    let options = Options::memory().with_limits(|limits| {
        limits.development.requests_per_second = 2;
        limits.development.request_burst = 10;
    });
    run(options, async |server: &Server| {
        let (ann, bob) = (server.user("ann"), server.user("bob"));
        let (passed, answer) = until_refused(&ann).await;
        assert!(passed >= 10, "{passed}");
        let wait = refused(&answer, "userRequestsPerSecond", 2);
        assert!(wait <= Duration::from_millis(500), "{wait:?}");
        bob.get("/v1/threads").await.ok(200);
        ann.get("/livez").await.ok(200);
        assert_eq!(server.limited(), [(Limit::UserRequests, 1)]);
        tokio::time::sleep(wait).await;
        ann.get("/v1/threads").await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn requests_of_a_project() {
    let options = Options::memory().with_key("secret").with_limits(|limits| limits.project.requests_per_second = 5);
    run(options, async |server: &Server| {
        let (passed, answer) = until_refused(&server.user("ann")).await;
        assert!(passed >= 5, "{passed}");
        refused(&answer, "projectRequestsPerSecond", 5);
        // All its users and keys together; a request without credentials is refused as such.
        let anonymous = Client { key: None, ..server.project() };
        anonymous.get("/v1/threads").await.problem(401, "unauthorized");
        let (_, answer) = until_refused(&server.project()).await;
        refused(&answer, "projectRequestsPerSecond", 5);
    })
    .await;
}

#[tokio::test]
async fn appended_bytes() {
    let options = Options::memory().with_limits(|limits| limits.development.append_bytes_per_second = 1_000);
    run(options, async |server: &Server| {
        let (ann, bob) = (server.user("ann"), server.user("bob"));
        for (client, thread) in [(&ann, "t"), (&bob, "u")] {
            client.thread(thread).await;
            client.run(thread, "r").await;
        }
        let large = json!([{ "type": "A", "pad": "x".repeat(60_000) }]);
        ann.append("t", "r", 1, large.clone()).await.ok(200);
        let answer = ann.append("t", "r", 2, json!([{ "type": "B" }])).await;
        let wait = refused(&answer, "userAppendBytesPerSecond", 1_000);
        assert!((30..=60).contains(&wait.as_secs()), "{wait:?}");
        // Whichever way it comes in.
        for answer in [
            ann.put("/v1/threads/t/runs/whole", json!([{ "type": "B" }])).await,
            ann.post("/v1/threads/t/runs", json!({ "agentId": "demo", "input": { "messages": [] } })).await,
            ann.post("/agui/demo", json!({ "threadId": "t", "messages": [] })).await,
            ann.put("/connector/annotate/a", json!({ "type": "x", "userId": "ann", "threadId": "t" })).await,
        ] {
            refused(&answer, "userAppendBytesPerSecond", 1_000);
        }
        assert_eq!(ann.types("t").await, ["A"]);
        bob.append("u", "r", 1, large).await.ok(200);
    })
    .await;
}

#[tokio::test]
async fn bytes_of_a_refused_body() {
    let options = Options::memory().with_limits(|limits| limits.development.append_bytes_per_second = 1_000);
    run(options, async |server: &Server| {
        let pad = "x".repeat(60_000);
        let bodies = [
            ("unknown", json!({ "messages": [], "unknown": pad }), 400),
            ("role", json!({ "messages": [{ "role": "", "content": pad }] }), 422),
            ("unchanged", json!({ "messages": [{ "role": "user", "content": pad }] }), 201),
        ];
        for (user, body, status) in bodies {
            let client = server.user(user);
            let answer = client.put(&format!("/v1/conversations/{user}"), body).await;
            assert_eq!(answer.status, status, "{user}");
            let again = client.put(&format!("/v1/conversations/{user}"), json!({ "messages": [] })).await;
            refused(&again, "userAppendBytesPerSecond", 1_000);
            // A body that holds no input passes, and its bytes count.
            client.post("/v1/threads", json!({ "threadId": format!("{user}-2"), "name": "n" })).await.ok(201);
        }
    })
    .await;
}

async fn no_socket(client: &Client) -> Value {
    match Socket::connect(handshake(client)).await {
        Err(tungstenite::Error::Http(response)) => {
            assert_eq!(
                (response.status().as_u16(), &response.headers()["retry-after"]),
                (429, &"1".parse().expect("a value"))
            );
            let body = response.body().as_deref().expect("a problem");
            serde_json::from_slice(body).expect("JSON")
        }
        other => panic!("{:?}", other.map(|_| "a socket")),
    }
}

#[tokio::test]
async fn sockets_and_event_streams() {
    let options = Options::memory().with_limits(|limits| limits.development.sockets = 2);
    run(options, async |server: &Server| {
        let ann = server.user("ann");
        ann.thread("t").await;
        let first = server.socket("ann").await;
        let second = open(ann.request(Method::GET, "/v1/threads/t/events").header("accept", "text/event-stream")).await;
        assert_eq!(second.status(), 200);
        let problem = no_socket(&ann).await;
        assert_eq!((&problem["limit"], &problem["value"]), (&json!("userSockets"), &json!(2)));
        for path in ["/v1/threads/t/events", "/v1/feed"] {
            refused(&ann.get_as(path, "text/event-stream").await, "userSockets", 2);
        }
        let demo = json!({ "threadId": "u", "messages": [{ "id": "1", "role": "user", "content": "Hello" }] });
        refused(&ann.post("/agui/demo", demo).await, "userSockets", 2);
        ann.get("/v1/threads/u").await.problem(404, "thread-not-found");
        // Pages are no streams.
        ann.get("/v1/feed").await.ok(200);
        server.socket("bob").await;
        // A stream that ends frees its permit, whatever its kind.
        drop(first);
        let opened = async || Socket::connect(handshake(&ann)).await.ok();
        let _third = eventually("a socket", opened).await;
        drop(second);
        let _fourth = eventually("another socket", opened).await;
    })
    .await;
    let options = Options::memory().with_key("secret").with_limits(|limits| limits.project.sockets = 1);
    run(options, async |server: &Server| {
        let _first = server.socket("ann").await;
        assert_eq!(no_socket(&server.user("bob")).await["limit"], "projectSockets");
    })
    .await;
}

everywhere! {
    async fn runs_of_a_user(server: |options| options.with_limits(|limits| limits.development.runs = 2)) {
        let (ann, bob) = (server.user("ann"), server.user("bob"));
        for thread in ["t1", "t2", "t3"] {
            ann.thread(thread).await;
        }
        bob.thread("u").await;
        ann.run("t1", "r").await;
        ann.run("t2", "r").await;
        let start = json!({ "runId": "r", "leaseSeconds": 600 });
        let wait = refused(&ann.post("/v1/threads/t3/runs", start.clone()).await, "userRuns", 2);
        assert_eq!(wait, Duration::from_secs(1));
        // A start that is repeated gets its answer again, and so does a finished run that is appended whole.
        ann.post("/v1/threads/t2/runs", start.clone()).await.ok(200);
        ann.put("/v1/threads/t3/runs/whole", json!([{ "type": "A" }])).await.ok(201);
        bob.run("u", "r").await;
        ann.act("t1", "r", "finish").await.ok(200);
        ann.post("/v1/threads/t3/runs", start).await.ok(201);
    }
}

#[tokio::test]
async fn runs_of_a_project() {
    let options = Options::memory().with_key("secret").with_limits(|limits| limits.project.runs = 1);
    run(options, async |server: &Server| {
        let (ann, bob) = (server.user("ann"), server.user("bob"));
        ann.thread("t").await;
        bob.thread("u").await;
        ann.run("t", "r").await;
        refused(&bob.post("/v1/threads/u/runs", json!({})).await, "projectRuns", 1);
        let lines = "{\"type\":\"A\"}\n";
        refused(&bob.ndjson(Method::POST, "/v1/threads/u/runs", lines).await, "projectRuns", 1);
        let demo =
            json!({ "agentId": "demo", "input": { "messages": [{ "id": "1", "role": "user", "content": "Hi" }] } });
        refused(&bob.post("/v1/threads/u/runs", demo).await, "projectRuns", 1);
        assert!(bob.types("u").await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn in_development_no_limit_applies_unless_it_is_set() {
    run(Options::new(Backend::Memory), async |server: &Server| {
        let dev = server.client();
        let mut sockets = Vec::new();
        for index in 0..=USER_SOCKETS {
            let thread = format!("t{index}");
            dev.thread(&thread).await;
            dev.run(&thread, "r").await;
            sockets.push(server.socket("dev").await);
        }
        for _ in 0..1_000 {
            sockets[0].send(json!({ "ping": {} })).await;
        }
        for _ in 0..1_000 {
            sockets[0].frame("pong").await;
        }
        assert_eq!(server.limited(), []);
    })
    .await;
}

#[tokio::test]
async fn a_socket_that_sends_too_much_is_read_no_further_and_served_as_before() {
    let options = Options::memory().with_timeouts(|patience| patience.heartbeat = Duration::from_millis(100));
    let options = options.with_limits(|limits| {
        // A minute for what comes below.
        limits.development.append_bytes_per_second = 1_000;
        limits.socket_idle = Duration::from_secs(2);
    });
    run(options, async |server: &Server| {
        let ann = server.user("ann");
        ann.thread("t").await;
        ann.run("t", "r").await;
        let mut socket = server.socket("ann").await;
        socket.send(json!({ "subscribeFeed": {} })).await;
        socket.until("feedCaughtUp").await;
        let events = json!([{ "type": "A", "pad": "x".repeat(60_000) }]);
        socket.send(json!({ "append": { "threadId": "t", "runId": "r", "producerSeq": 1, "events": events } })).await;
        socket.send(json!({ "ping": {} })).await;
        // The server sends answers, notices and heartbeats meanwhile. The pong is not there yet.
        socket.frame("appended").await;
        ann.thread("u").await;
        socket.frame("feed").await;
        // For longer than a client may be silent: this one is not, it is not listened to.
        for _ in 0..25 {
            socket.frame("heartbeat").await;
        }
        assert_eq!(server.limited(), [(Limit::UserAppendBytes, 1)]);
        // Another one is read as before.
        let mut other = server.socket("bob").await;
        other.send(json!({ "ping": {} })).await;
        other.frame("pong").await;
    })
    .await;
}

#[tokio::test]
async fn frames_count_as_requests() {
    let options = Options::memory().with_key("secret").with_limits(|limits| {
        limits.project.requests_per_second = 40;
        limits.project.request_burst = 10;
    });
    run(options, async |server: &Server| {
        let mut socket = server.socket("ann").await;
        let begun = Instant::now();
        for _ in 0..50 {
            socket.send(json!({ "ping": {} })).await;
        }
        for _ in 0..50 {
            socket.frame("pong").await;
        }
        assert!(begun.elapsed() >= Duration::from_millis(950), "{:?}", begun.elapsed());
    })
    .await;
}

#[tokio::test]
async fn a_streamed_run_is_read_more_slowly_and_not_broken_off() {
    let options = Options::memory().with_limits(|limits| {
        limits.development.append_bytes_per_second = 20_000;
        limits.development.append_byte_burst = 10_000;
    });
    run(options, async |server: &Server| {
        let ann = server.user("ann");
        ann.thread("t").await;
        let line = format!("{}\n", json!({ "type": "A", "pad": "x".repeat(4_970) }));
        let pieces = stream::iter(vec![line; 8].into_iter().map(Ok::<_, std::io::Error>));
        let begun = Instant::now();
        let body = reqwest::Body::wrap_stream(pieces);
        ann.ndjson(Method::POST, "/v1/threads/t/runs?runId=r", body).await.ok(201);
        assert!(begun.elapsed() >= Duration::from_millis(1_400), "{:?}", begun.elapsed());
        assert_eq!(ann.types("t").await.len(), 9);
    })
    .await;
}

#[tokio::test]
async fn half_sent_bodies_wait_for_room_and_small_requests_do_not() {
    const MIB: usize = 1_024 * 1_024;
    let options = Options::memory().with_timeouts(|patience| patience.room = Duration::from_secs(2));
    let options = options.with_limits(|limits| limits.body_memory = 2 * MIB);
    run(options, async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let head = format!(
            "POST /v1/threads/t/runs/r/events HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            2 * MIB
        );
        // A few of them, each half sent, take all that a project may hold.
        let half = async || {
            let mut raw = Raw::connect(server.addr).await;
            raw.write(&head).await;
            raw.write(vec![b' '; MIB / 2]).await;
            raw
        };
        let mut half_sent = vec![half().await, half().await, half().await];
        let large = json!([{ "type": "A", "pad": "x".repeat(MIB) }]);
        let answer = eventually("no room", async || {
            let answer = dev.append("t", "r", 1, large.clone()).await;
            // Until the others have arrived there was room; and one of them may have been refused because of this one.
            if answer.status == 200 {
                half_sent.push(half().await);
                return None;
            }
            Some(answer)
        })
        .await;
        let problem = answer.problem(503, "busy");
        assert_eq!((&problem["limit"], &problem["retryable"]), (&json!("bodyMemoryBytes"), &json!(true)));
        assert_eq!(answer.header("retry-after"), "1");
        dev.thread("u").await;
        // They go, and give back what they had.
        drop(half_sent);
        eventually("room again", async || (dev.append("t", "r", 1, large.clone()).await.status == 200).then_some(()))
            .await;
    })
    .await;
}

#[tokio::test]
async fn the_head_of_a_request_is_read_up_to_32_kib() {
    run(Options::memory(), async |server: &Server| {
        let ask = async |bytes: usize, end: &str| {
            let mut head = "GET /v1/threads HTTP/1.1\r\nHost: localhost\r\n".to_owned();
            while head.len() < bytes {
                head.push_str(&format!("X-Pad: {}\r\n", "x".repeat(1_000)));
            }
            let mut raw = Raw::connect(server.addr).await;
            raw.write(head + end).await;
            raw.beginning().await.split(' ').nth(1).expect("a status").to_owned()
        };
        assert_eq!(ask(30 * 1024, "\r\n").await, "200");
        // Its end is not waited for.
        assert_eq!(ask(34 * 1024, "").await, "431");
    })
    .await;
}

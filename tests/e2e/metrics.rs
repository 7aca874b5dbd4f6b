//! Each figure of `/metrics` moves for what it counts, and for nothing else.

use std::{collections::BTreeMap, ops::Sub};

use reqwest::Method;
use serde_json::json;

use crate::harness::{Options, Server, eventually, everywhere, run, sse::Events};

/// What a server counts, by name and labels as they stand in the text.
#[derive(Debug, Clone)]
pub struct Figures(BTreeMap<String, f64>);

impl Figures {
    pub async fn of(server: &Server) -> Self {
        let answer = server.project().get("/metrics").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
        Self::read(answer.text())
    }

    pub fn read(text: &str) -> Self {
        assert!(text.ends_with("# EOF\n"), "{text}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pair = |line: &str| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        };
        Self(lines.map(pair).collect())
    }

    /// 0 for what has not been counted yet, but for a misspelt name.
    pub fn get(&self, name: &str) -> f64 {
        let family = name.split('{').next().expect("a name");
        let family = family.trim_end_matches("_total");
        let known = self.0.keys().any(|key| key.starts_with(family));
        assert!(known || family.contains("http"), "there is no {name}: {self:?}");
        self.0.get(name).copied().unwrap_or(0.0)
    }
}

impl Sub for &Figures {
    type Output = Figures;
    fn sub(self, before: &Figures) -> Figures {
        let moved = self.0.iter().map(|(name, now)| (name.clone(), now - before.0.get(name).unwrap_or(&0.0)));
        Figures(moved.collect())
    }
}

#[track_caller]
fn assert_moved(moved: &Figures, wanted: &[(&str, f64)]) {
    for (name, by) in wanted {
        assert_eq!(moved.get(name), *by, "{name}");
    }
}

/// Answers are sent a moment before what follows them is counted.
async fn once(server: &Server, before: &Figures, name: &str, by: f64) -> Figures {
    eventually(name, async || {
        let moved = &Figures::of(server).await - before;
        (moved.get(name) >= by).then_some(moved)
    })
    .await
}

const APPEND: &str = "route=\"/v1/threads/{threadId}/runs/{runId}/events\",method=\"POST\"";

everywhere! {
    async fn appends_commits_and_runs_are_counted(server) {
        let dev = server.client();
        dev.thread("t").await;
        let before = Figures::of(server).await;
        dev.run("t", "r").await;
        let events = json!([{ "type": "A" }, { "type": "B" }]);
        dev.append("t", "r", 1, events.clone()).await.ok(200);
        dev.append("t", "r", 1, events).await.ok(200);
        dev.append("t", "r", 9, json!([{ "type": "A" }])).await.problem(409, "producer-seq-gap");
        dev.append("t", "r", 3, json!([{ "type": "RUN_ERROR", "message": "m" }])).await.ok(200);
        dev.put("/v1/threads/t/runs/w", json!([{ "type": "C" }])).await.ok(201);
        dev.run("t", "s").await;
        dev.act("t", "s", "finish").await.ok(200);
        let moved = &Figures::of(server).await - &before;
        let bytes = "{\"type\":\"A\"}\n{\"type\":\"B\"}{\"type\":\"RUN_ERROR\",\"message\":\"m\"}".len() as f64;
        assert!(moved.get("threadline_appended_bytes_total") > bytes);
        assert_moved(&moved, &[
            ("threadline_appends_total{outcome=\"committed\"}", 2.0),
            ("threadline_appends_total{outcome=\"repeated\"}", 1.0),
            ("threadline_appends_total{outcome=\"refused\"}", 1.0),
            ("threadline_appends_total{outcome=\"failed\"}", 0.0),
            // A and B, RUN_ERROR; C and RUN_FINISHED; RUN_STARTED and RUN_FINISHED of one without events.
            ("threadline_appended_events_total", 7.0),
            ("threadline_appended_batches_total", 4.0),
            // Each append came alone: two committed, two to be checked.
            ("threadline_commit_size_appends_count", 4.0),
            ("threadline_commit_size_appends_sum", 4.0),
            ("threadline_commit_duration_seconds_count", 4.0),
            ("threadline_commit_failures_total", 0.0),
            ("threadline_runs_started_total{kind=\"open\"}", 2.0),
            ("threadline_runs_started_total{kind=\"whole\"}", 1.0),
            ("threadline_runs_ended_total{outcome=\"error\"}", 1.0),
            ("threadline_runs_ended_total{outcome=\"finished\"}", 2.0),
            ("threadline_runs_ended_total{outcome=\"abandoned\"}", 0.0),
            ("threadline_runs_reaped_total{by=\"reaper\"}", 0.0),
            (&format!("threadline_http_requests_total{{{APPEND},status=\"2xx\"}}"), 3.0),
            (&format!("threadline_http_requests_total{{{APPEND},status=\"4xx\"}}"), 1.0),
            (&format!("threadline_http_request_duration_seconds_count{{{APPEND}}}"), 4.0),
        ]);
        assert!(moved.get("threadline_commit_duration_seconds_sum") > 0.0);
        assert!(moved.get("threadline_store_reads_total{reader=\"retry\"}") >= 1.0);
        let before = Figures::of(server).await;
        dev.get("/v1/threads/t/events").await.ok(200);
        dev.get("/v1/threads/t/messages").await.ok(200);
        let moved = &Figures::of(server).await - &before;
        // The log is short: one page, of which a second look finds the end.
        assert!(moved.get("threadline_store_reads_total{reader=\"page\"}") >= 1.0);
        assert!(moved.get("threadline_store_reads_total{reader=\"fold\"}") >= 1.0);
    }
}

everywhere! {
    async fn a_second_start_is_a_conflict_and_a_silent_run_is_reaped(server) {
        let dev = server.client();
        for thread in ["t", "silent"] {
            dev.thread(thread).await;
        }
        let before = Figures::of(server).await;
        dev.run("t", "r").await;
        dev.post("/v1/threads/t/runs", json!({ "runId": "s" })).await.problem(409, "run-active");
        let moved = &Figures::of(server).await - &before;
        let by = |who: &str| moved.get(&format!("threadline_lock_conflicts_total{{decided_by=\"{who}\"}}"));
        assert_eq!((by("lock"), by("store")), (1.0, 0.0), "the lock knew it first");
        dev.act("t", "r", "finish").await.ok(200);
        let before = Figures::of(server).await;
        dev.post("/v1/threads/silent/runs", json!({ "runId": "r", "leaseSeconds": 1 })).await.ok(201);
        let moved = once(server, &before, "threadline_runs_reaped_total{by=\"reaper\"}", 1.0).await;
        assert_moved(
            &moved,
            &[
                ("threadline_runs_ended_total{outcome=\"abandoned\"}", 1.0),
                ("threadline_runs_reaped_total{by=\"next-start\"}", 0.0),
            ],
        );
        // One whose lock was given back is ended by the start after it.
        let before = Figures::of(server).await;
        dev.run("t", "u").await;
        dev.append("t", "u", 1, json!([{ "type": "A" }])).await.ok(200);
        dev.act("t", "u", "release").await.ok(200);
        dev.run("t", "v").await;
        let moved = &Figures::of(server).await - &before;
        assert_moved(&moved, &[
            ("threadline_runs_reaped_total{by=\"next-start\"}", 1.0),
            ("threadline_runs_ended_total{outcome=\"error\"}", 1.0),
            ("threadline_runs_started_total{kind=\"open\"}", 2.0),
        ]);
    }
}

everywhere! {
    async fn followers_and_deliveries_are_counted_by_how_they_are_served(server) {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        dev.append("t", "r", 1, json!([{ "type": "OLD" }])).await.ok(200);
        let before = Figures::of(server).await;
        let mut socket = server.socket("dev").await;
        socket.send(json!({ "subscribe": { "threadId": "t" } })).await;
        socket.send(json!({ "subscribeFeed": {} })).await;
        socket.until("caughtUp").await;
        let mut events = Events::open(dev.request(Method::GET, "/v1/threads/t/events")).await;
        while events.next().await.is_some_and(|event| event.event.as_deref() != Some("caught_up")) {}
        let mut feed = Events::open(dev.request(Method::GET, "/v1/feed")).await;
        feed.next().await;
        let poll = tokio::spawn({
            let dev = dev.clone();
            let path = format!("/v1/threads/t/events?after=1&epoch={}&wait=60", dev.epoch("t").await);
            async move { dev.get(&path).await }
        });
        let there = once(server, &before, "threadline_subscribers{transport=\"poll\",follows=\"thread\"}", 1.0).await;
        assert_moved(&there, &[
            ("threadline_subscribers{transport=\"socket\",follows=\"thread\"}", 1.0),
            ("threadline_subscribers{transport=\"socket\",follows=\"feed\"}", 1.0),
            ("threadline_subscribers{transport=\"sse\",follows=\"thread\"}", 1.0),
            ("threadline_subscribers{transport=\"sse\",follows=\"feed\"}", 1.0),
            ("threadline_followed_threads", 1.0),
            ("threadline_sockets", 1.0),
            // History is as old as it is: only what comes live can be late.
            ("threadline_delivery_duration_seconds_count{transport=\"socket\"}", 0.0),
            ("threadline_delivery_duration_seconds_count{transport=\"sse\"}", 0.0),
        ]);
        assert!(there.get("threadline_connections") >= 3.0, "{there:?}");
        assert!(there.get("threadline_store_reads_total{reader=\"follower\"}") >= 1.0);
        let hits = there.get("threadline_ring_hits_total");
        dev.append("t", "r", 2, json!([{ "type": "NEW" }])).await.ok(200);
        poll.await.expect("answered").ok(200);
        socket.until("events").await;
        events.message().await;
        let live = once(server, &before, "threadline_delivery_duration_seconds_count{transport=\"socket\"}", 1.0).await;
        assert_moved(&live, &[
            ("threadline_delivery_duration_seconds_count{transport=\"sse\"}", 1.0),
            ("threadline_subscribers{transport=\"poll\",follows=\"thread\"}", 0.0),
            ("threadline_fell_behind_total{cause=\"slow\"}", 0.0),
            ("threadline_fell_behind_total{cause=\"hint\"}", 0.0),
        ]);
        // The three of them, from memory.
        assert!(live.get("threadline_ring_hits_total") >= hits + 3.0, "{live:?}");
        let seconds = live.get("threadline_delivery_duration_seconds_sum{transport=\"socket\"}");
        assert!((0.0..20.0).contains(&seconds), "{seconds}");
        drop((socket, events, feed));
        eventually("they have gone", async || {
            let left = Figures::of(server).await;
            let gone = ["socket", "sse"].into_iter().flat_map(|by| ["thread", "feed"].map(|what| (by, what))).all(
                |(by, what)| left.get(&format!("threadline_subscribers{{transport=\"{by}\",follows=\"{what}\"}}")) == 0.0,
            );
            (gone && left.get("threadline_sockets") == 0.0).then_some(())
        })
        .await;
    }
}

/// Two nodes without a bus between them behave like two nodes while Redis is unreachable: a node finds the other's commits
/// with its recheck, or when it commits an event after them.
#[tokio::test]
async fn readers_that_keep_up_are_not_called_slow_while_hints_are_missing() {
    let store = std::sync::Arc::new(threadline_store::memory::MemoryStore::new(Options::memory().clock));
    let (writing, reading) =
        (Server::over(store.clone(), Options::memory()).await, Server::over(store, Options::memory()).await);
    let (dev, reader) = (writing.client(), reading.client());
    dev.thread("t").await;
    dev.run("t", "r").await;
    let mut readers = Vec::new();
    for _ in 0..4 {
        let mut events = Events::open(reader.request(Method::GET, "/v1/threads/t/events")).await;
        events.named("hello").await;
        events.named("caught_up").await;
        let (seen, newest) = tokio::sync::watch::channel(0);
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Some(seq) = event.id.and_then(|id| id.rsplit(':').next()?.parse::<u64>().ok()) {
                    seen.send_replace(seq);
                }
            }
        });
        readers.push(newest);
    }
    // A producer behind a balancer: its appends come to either node.
    for turn in 0..6 {
        dev.append("t", "r", 2 * turn + 1, json!([{ "type": "A" }])).await.ok(200);
        reader.append("t", "r", 2 * turn + 2, json!([{ "type": "A" }])).await.ok(200);
        for reader in &mut readers {
            let all = crate::harness::soon(reader.wait_for(|seq| *seq == 2 * turn + 2)).await;
            all.map(drop).expect("it continues");
        }
    }
    let figures = Figures::of(&reading).await;
    assert!(figures.get("threadline_fell_behind_total{cause=\"hint\"}") > 0.0, "nothing was tried: {figures:?}");
    assert_eq!(figures.get("threadline_fell_behind_total{cause=\"slow\"}"), 0.0, "they keep up");
    writing.stop().await;
    reading.stop().await;
}

#[tokio::test]
async fn a_follower_that_falls_out_of_memory_and_a_socket_that_is_closed_are_counted() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        dev.run("t", "r").await;
        let before = Figures::of(server).await;
        let mut events = Events::open(dev.request(Method::GET, "/v1/threads/t/events")).await;
        events.named("hello").await;
        events.named("caught_up").await;
        // More than the buffers between the two hold, unread so far.
        let large = "x".repeat(1024 * 1024);
        for n in 1..=24 {
            dev.append("t", "r", n, json!([{ "type": "A", "large": large }])).await.ok(200);
        }
        while events.next().await.expect("it continues").event.as_deref() != Some("fell_behind") {}
        let moved = &Figures::of(server).await - &before;
        assert!(moved.get("threadline_fell_behind_total{cause=\"slow\"}") >= 1.0);
        assert_eq!(moved.get("threadline_fell_behind_total{cause=\"hint\"}"), 0.0);
        let mut socket = server.socket("dev").await;
        socket.send_text("no JSON").await;
        assert_eq!(socket.closed().await.1, 4500);
        let moved = &Figures::of(server).await - &before;
        assert_eq!(moved.get("threadline_socket_closes_total{reason=\"bad-frame\"}"), 1.0);
    })
    .await;
}

#[tokio::test]
async fn active_runs_of_agents_are_counted() {
    run(Options::memory(), async |server: &Server| {
        let dev = server.client();
        dev.thread("t").await;
        let run = json!({ "agentId": "demo", "input": { "messages": [{ "role": "user", "content": "long" }] } });
        let id = dev.post("/v1/threads/t/runs", run).await.ok(201)["run"]["runId"].as_str().expect("an id").to_owned();
        let begun = eventually("it is under way", async || {
            let now = Figures::of(server).await;
            (now.get("threadline_agent_runs") == 1.0).then_some(now)
        })
        .await;
        dev.act("t", &id, "stop").await.ok(202);
        let ended = eventually("it is over", async || {
            let now = Figures::of(server).await;
            (now.get("threadline_agent_runs") == 0.0).then_some(now)
        })
        .await;
        assert_moved(&(&ended - &begun), &[("threadline_runs_ended_total{outcome=\"finished\"}", 1.0)]);
    })
    .await;
}

#[tokio::test]
async fn a_failing_store_is_counted_and_no_client_input_is_a_label() {
    run(Options::memory().with_glass(), async |server: &Server| {
        let dev = server.client();
        dev.thread("a-thread-of-mine").await;
        dev.run("a-thread-of-mine", "a-run-of-mine").await;
        let before = Figures::of(server).await;
        server.intercept().fail(&[crate::harness::intercept::Failing::Before]);
        let append = json!([{ "type": "A" }]);
        dev.append("a-thread-of-mine", "a-run-of-mine", 1, append).await.problem(503, "store-unavailable");
        for path in ["/made/up/by-a-client", "/v1/threads/a-thread-of-mine/nothing", "/v1/threads?secret=1"] {
            dev.get(path).await;
        }
        let brew = Method::from_bytes(b"BREW").expect("a method");
        crate::harness::http::send(dev.request(brew, "/v1/threads")).await.problem(405, "method-not-allowed");
        let moved = &Figures::of(server).await - &before;
        assert_moved(
            &moved,
            &[
                ("threadline_commit_failures_total", 1.0),
                ("threadline_appends_total{outcome=\"failed\"}", 1.0),
                ("threadline_appended_events_total", 0.0),
                (&format!("threadline_http_requests_total{{{APPEND},status=\"5xx\"}}"), 1.0),
                ("threadline_http_requests_total{route=\"none\",method=\"GET\",status=\"4xx\"}", 2.0),
                ("threadline_http_requests_total{route=\"/v1/threads\",method=\"other\",status=\"4xx\"}", 1.0),
            ],
        );
        let text = server.project().get("/metrics").await.text().to_owned();
        for word in ["mine", "made", "secret", "BREW", "dev"] {
            assert!(!text.contains(word), "{word} in\n{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn servers_of_one_process_count_for_themselves() {
    let (one, other) = (Server::start(Options::memory()).await, Server::start(Options::memory()).await);
    one.client().thread("t").await;
    one.client().run("t", "r").await;
    let figures = Figures::of(&other).await;
    assert_eq!(figures.get("threadline_runs_started_total{kind=\"open\"}"), 0.0);
    assert_eq!(Figures::of(&one).await.get("threadline_runs_started_total{kind=\"open\"}"), 1.0);
    one.stop().await;
    other.stop().await;
}

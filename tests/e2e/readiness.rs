//! Whether a node is alive, whether it is ready, and by what name a request is found again.

use std::sync::atomic::Ordering::SeqCst;

use crate::{
    backing::{Postgres, Redis, Standby},
    harness::{Backend, Client, Options, Server, eventually, everywhere, http::send, raw::Raw, run},
};
use reqwest::Method;
use serde_json::{Value, json};
use threadline::app::{App, ServeConfig, StoreChoice};
use threadline_store::Durability;

everywhere! {
    async fn a_node_reports_its_dependencies(server) {
        let ready = eventually("ready", async || {
            let ready = server.client().get("/readyz").await;
            (ready.status == 200 && ready.json()["status"] == "ready").then(|| ready.json())
        });
        let ready = ready.await;
        assert_eq!((&ready["status"], &ready["dependencies"]["store"]), (&json!("ready"), &json!("ok")));
        assert_eq!(ready["dependencies"]["redis"].is_null(), ready["redis"].is_null(), "{ready}");
        assert_eq!(server.client().get("/livez").await.ok(200), json!({ "status": "ok" }));
    }
}

#[tokio::test]
async fn redis_is_named_where_there_is_one() {
    run(Options::new(Backend::Production), async |server: &Server| {
        let good =
            async || (server.client().get("/readyz").await.ok(200)["dependencies"]["redis"] == "ok").then_some(());
        eventually("the checks pass", good).await;
        let ready = server.client().get("/readyz").await.ok(200);
        assert_eq!(ready["redis"], json!({ "role": true, "write": true, "publish": true }));
        let figures = server.client().get("/metrics").await;
        for check in ["role", "write", "publish"] {
            let line = format!("threadline_redis_check{{check=\"{check}\"}} 1\n");
            assert!(figures.text().contains(&line), "{}", figures.text());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_commits_do_not_wait_for_is_a_finding() {
    let primary = Postgres::start(&[]);
    let (database, standby) = (primary.fresh_database(), Standby::of(&primary));
    standby.catch_up(&primary);
    let server = Server::in_database(&database, Options::new(Backend::Production)).await;
    let found = eventually("the check", async || {
        let ready = server.client().get("/readyz").await;
        (ready.status == 200 && !ready.json()["findings"].is_null()).then(|| ready.json())
    });
    let found = found.await;
    assert_eq!((&found["status"], &found["findings"]), (&json!("degraded"), &json!(["async-standby"])), "{found}");
    let figures = server.client().get("/metrics").await;
    for line in ["single\"} 0", "synchronous\"} 0", "async-standby\"} 1"] {
        assert!(
            figures.text().contains(&format!("threadline_store_durability{{state=\"{line}\n")),
            "{}",
            figures.text()
        );
    }
    primary.psql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.psql("postgres", "SELECT pg_reload_conf()");
    let waits = async || (server.store.durability().await.ok() == Some(Durability::Synchronous)).then_some(());
    eventually("the server's sessions have the setting", waits).await;
    server.stop().await;
}

#[tokio::test]
async fn a_store_that_does_not_commit_makes_the_node_unready() {
    run(Options::memory().with_glass(), async |server: &Server| {
        let dev = server.client();
        let ready = async || (dev.get("/readyz").await.status == 200).then_some(());
        eventually("ready", ready).await;
        let pane = &server.intercept();
        pane.beat_gate.hold();
        let unready = eventually("no beat for five seconds", async || {
            let answer = dev.get("/readyz").await;
            (answer.status == 503).then_some(answer)
        });
        let problem = unready.await.problem(503, "store-unavailable");
        let facts = (&problem["why"], &problem["dependencies"]["store"], &problem["retryable"]);
        assert_eq!(facts, (&json!("store-does-not-commit"), &json!("unavailable"), &json!(true)));
        // One beat is in progress, however many probes ask.
        let begun = pane.beats.load(SeqCst);
        for _ in 0..20 {
            dev.get("/readyz").await.problem(503, "store-unavailable");
        }
        assert_eq!(pane.beats.load(SeqCst), begun);
        let text = dev.get("/metrics").await.text().to_owned();
        assert!(text.contains("threadline_dependency_up{dependency=\"store\"} 0\n"), "{text}");
        // The node is alive nevertheless: a restart would not bring the store back.
        dev.get("/livez").await.ok(200);
        pane.beat_gate.open();
        eventually("ready again", ready).await;
        assert!(pane.beats.load(SeqCst) > begun, "one beat after the one that was held");
    })
    .await;
}

everywhere! {
    async fn nodes_are_listed_with_their_beats(server) {
        let dev = server.client();
        let list = async || dev.get("/v1/nodes").await.ok(200)["nodes"].as_array().expect("a list").clone();
        let beats = async || list().await.iter().find(|node| node["state"] == "live").and_then(|node| node["beats"].as_u64());
        let first = eventually("a beat", beats).await;
        eventually("another one", async || beats().await.filter(|next| *next > first)).await;
        let node = list().await.into_iter().find(|node| node["state"] == "live").expect("a live node");
        assert_eq!(node["version"], env!("CARGO_PKG_VERSION"));
        assert!(node["skewMs"].as_i64().is_some_and(|skew| skew.abs() < 60_000), "{node}");
        assert_eq!(node["nodeId"].as_str().map(str::len), Some(16));
    }
}

#[tokio::test]
async fn a_node_that_has_shut_down_is_listed_as_leaving() {
    let database = Postgres::shared().fresh_database();
    let first = Server::in_database(&database, Options::new(Backend::Production)).await;
    let second = Server::in_database(&database, Options::new(Backend::Production)).await;
    let states = async || {
        let nodes = second.client().get("/v1/nodes").await.ok(200)["nodes"].as_array().expect("a list").clone();
        let mut states: Vec<_> =
            nodes.iter().map(|node| node["state"].as_str().unwrap_or_default().to_owned()).collect();
        states.sort_unstable();
        states
    };
    eventually("two live nodes", async || (states().await == ["live", "live"]).then_some(())).await;
    first.stop().await;
    let states = states().await;
    assert!(states == ["leaving", "live"] || states == ["ended", "live"], "{states:?}");
    second.stop().await;
}

#[tokio::test]
async fn a_node_over_a_standby_is_not_ready_until_it_is_promoted() {
    let postgres = Postgres::start(&[]);
    let database = postgres.fresh_database();
    let server = Server::in_database(&database, Options::new(Backend::Production)).await;
    let dev = server.client();
    dev.thread("t").await;
    dev.get("/readyz").await.ok(200);
    let read_only = async |server: &Server| {
        let dev = server.client();
        let problem = eventually("the standby is noticed", async || {
            let answer = dev.get("/readyz").await;
            (answer.status == 503 && answer.json()["why"] == "store-read-only").then_some(answer)
        });
        let problem = problem.await.problem(503, "store-unavailable");
        assert_eq!((&problem["dependencies"]["store"], &problem["retryable"]), (&json!("read-only"), &json!(true)));
        let text = dev.get("/metrics").await.text().to_owned();
        assert!(text.contains("threadline_dependency_up{dependency=\"store\"} 0\n"), "{text}");
        // Nothing is served from a standby, which may lag.
        dev.get("/v1/threads/t").await.problem(503, "store-unavailable");
        dev.post("/v1/threads", json!({ "threadId": "u" })).await.problem(503, "store-unavailable");
    };
    // The server becomes one later …
    postgres.restart_as_standby();
    read_only(&server).await;
    // … or is one when the node starts.
    let second = Server::in_database(&database, Options::new(Backend::Production)).await;
    read_only(&second).await;
    postgres.psql("postgres", "SELECT pg_promote()");
    for server in [&server, &second] {
        let ready = async || (server.client().get("/readyz").await.status == 200).then_some(());
        eventually("ready after the promotion", ready).await;
    }
    dev.post("/v1/threads", json!({ "threadId": "u" })).await.ok(201);
    server.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_database_that_is_set_to_read_only_makes_it_unready() {
    let postgres = Postgres::start(&[]);
    let server = Server::in_database(&postgres.fresh_database(), Options::new(Backend::Production)).await;
    let dev = server.client();
    dev.get("/readyz").await.ok(200);
    postgres.psql("postgres", "ALTER SYSTEM SET default_transaction_read_only = on");
    postgres.psql("postgres", "SELECT pg_reload_conf()");
    let why = async || (dev.get("/readyz").await.json()["why"] == "store-read-only").then_some(());
    eventually("it is noticed", why).await;
    postgres.psql("postgres", "ALTER SYSTEM RESET default_transaction_read_only");
    postgres.psql("postgres", "SELECT pg_reload_conf()");
    eventually("ready again", async || (dev.get("/readyz").await.status == 200).then_some(())).await;
    server.stop().await;
}

/// Answers of a node on this Redis: its readiness, and its metrics after starts.
async fn readiness_on(redis: &Redis) -> (Value, String) {
    let (dev, stop, task) = node_on(redis).await;
    let ready = dev.get("/readyz").await.ok(200);
    // Starts continue: the store decides alone, and the starts without the lock are counted.
    for thread in ["a", "b", "c"] {
        dev.thread(thread).await;
        dev.run(thread, "r").await;
    }
    let figures = dev.get("/metrics").await.text().to_owned();
    drop(stop);
    task.await.expect("it ends");
    (ready, figures)
}

#[tokio::test]
async fn a_redis_that_answers_but_takes_no_locks_is_reported_as_failing() {
    let closed = crate::backing::ports::free_port().to_string();
    let replica = Redis::start(&[("replicaof", &format!("127.0.0.1 {closed}"))]);
    // A node of a Redis Cluster which has some of the slots, so that some locks would work.
    let cluster = Redis::start(&[("cluster-enabled", "yes"), ("cluster-require-full-coverage", "no")]);
    assert_eq!(cluster.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "12000"]), "OK");
    let full = Redis::start(&[("maxmemory", "1")]);
    let findings = ["redis-is-no-master", "redis-takes-no-locks", "redis-takes-no-locks"];
    for (redis, why) in [&replica, &cluster, &full].into_iter().zip(findings) {
        let (ready, figures) = readiness_on(redis).await;
        let facts = (&ready["status"], &ready["dependencies"]["redis"], &ready["findings"]);
        assert_eq!(facts, (&json!("degraded"), &json!("unavailable"), &json!([why])));
        assert!(figures.contains("threadline_dependency_up{dependency=\"redis\"} 0\n"), "{figures}");
        let errors = figures.lines().find_map(|line| line.strip_prefix("threadline_lock_errors_total "));
        assert!(why != "redis-is-no-master" || errors == Some("3"), "{errors:?}");
    }
}

/// A node on this Redis, and a client of it.
async fn node_on(redis: &Redis) -> (Client, tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<bool>) {
    let config = ServeConfig {
        store: StoreChoice::Postgres(Postgres::shared().fresh_database()),
        redis: Some(redis.url()),
        ..ServeConfig::embedded("127.0.0.1:0".parse().expect("an address"), "/nowhere".into())
    };
    let app = App::start(config).await.expect("started");
    let addr = app.local_addr().expect("an address");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(app.run(async { drop(stopped.await) }));
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().expect("a client");
    (Client { http, addr, key: None, user: None }, stop, task)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_loses_its_role_or_delivers_nothing_is_reported_and_keeps_the_node_in_rotation() {
    let redis = Redis::start(&[]);
    let (dev, stop, task) = node_on(&redis).await;
    // Every answer is 200: Redis is no reason to take a node out of rotation.
    let findings = async |wanted: serde_json::Value| {
        let look = async || (dev.get("/readyz").await.ok(200)["findings"] == wanted).then_some(());
        let begun = std::time::Instant::now();
        eventually(&format!("the findings {wanted}"), look).await;
        println!("{wanted} after {:?}", begun.elapsed());
    };
    findings(Value::Null).await;
    redis.stop_signal();
    findings(json!(["redis-unreachable"])).await;
    redis.cont();
    findings(Value::Null).await;
    let closed = crate::backing::ports::free_port().to_string();
    redis.command(&["REPLICAOF", "127.0.0.1", &closed]);
    findings(json!(["redis-is-no-master"])).await;
    redis.command(&["REPLICAOF", "NO", "ONE"]);
    findings(Value::Null).await;
    // Writes pass, and messages are not allowed.
    redis.command(&["ACL", "SETUSER", "default", "resetchannels"]);
    findings(json!(["redis-delivers-no-messages"])).await;
    let figures = dev.get("/metrics").await;
    assert!(figures.text().contains("threadline_redis_check{check=\"publish\"} 0\n"), "{}", figures.text());
    redis.command(&["ACL", "SETUSER", "default", "allchannels"]);
    findings(Value::Null).await;
    drop(stop);
    task.await.expect("it ends");
}

#[tokio::test]
async fn a_node_that_is_shutting_down_is_alive_and_not_ready() {
    let mut server = Server::start(Options::memory()).await;
    // Idle connections are closed; half a request is waited for.
    let mut halves = Vec::new();
    for path in ["/readyz", "/livez", "/v1/openapi.json"] {
        let mut raw = Raw::connect(server.addr).await;
        raw.write(format!("GET {path} HTTP/1.1\r\n")).await;
        halves.push(raw);
    }
    // The server has read these by the time that it has answered the later request.
    server.client().get("/livez").await.ok(200);
    server.drain();
    server.draining().await;
    for raw in &mut halves {
        raw.write("Host: localhost\r\n\r\n").await;
    }
    let problem = halves[0].answer().await.problem(503, "draining");
    assert_eq!(problem["dependencies"], json!({ "store": "ok" }));
    assert_eq!(halves[1].answer().await.ok(200), json!({ "status": "ok" }));
    halves[2].answer().await.ok(200);
    server.stop().await;
}

#[tokio::test]
async fn every_answer_has_the_id_of_its_request() {
    run(Options::memory().with_key("k"), async |server: &Server| {
        let dev = server.client();
        let with = async |id: &str| {
            let answer = send(dev.request(Method::GET, "/v1/threads").header("x-request-id", id)).await;
            assert_eq!(answer.headers.get_all("x-request-id").iter().count(), 1);
            answer.header("x-request-id").to_owned()
        };
        let mine = "0af7651916cd43dd-8448eb211c80319c";
        assert_eq!(with(mine).await, mine);
        for bad in ["two words", "a\"b", "{}", &"x".repeat(129)] {
            assert_ne!(with(bad).await, bad);
        }
        let mut seen = std::collections::BTreeSet::new();
        for path in ["/livez", "/v1/threads", "/v1/threads/none", "/nothing", "/v1/threads?order=none"] {
            let answer = dev.get(path).await;
            assert!(answer.header("x-request-id").len() > 30, "{path}");
            assert!(seen.insert(answer.header("x-request-id").to_owned()), "an id is given once");
        }
        // Refusals, too.
        let anonymous = crate::harness::Client { key: None, ..dev.clone() };
        assert!(anonymous.get("/v1/threads").await.headers.contains_key("x-request-id"));
    })
    .await;
}

//! Whether a node is alive, whether it is ready, and by what name a request is found again.

use std::sync::atomic::Ordering::SeqCst;

use reqwest::Method;
use serde_json::json;
use tokio::time::{self, Duration};

use crate::harness::{Backend, Options, Server, everywhere, http::send, raw::Raw, run};

everywhere! {
    async fn a_node_says_what_it_stands_on(server) {
        let ready = server.client().get("/readyz").await.ok(200);
        assert_eq!((&ready["status"], &ready["dependencies"]["store"]), (&json!("ready"), &json!("ok")));
        assert!(ready["dependencies"]["redis"].is_null() || ready["dependencies"]["redis"] == "ok", "{ready}");
        assert_eq!(server.client().get("/healthz").await.ok(200), json!({ "status": "ok" }));
    }
}

#[tokio::test]
async fn redis_is_named_where_there_is_one() {
    run(Options::new(Backend::Production), async |server: &Server| {
        assert_eq!(server.client().get("/readyz").await.ok(200)["dependencies"]["redis"], "ok");
    })
    .await;
}

#[tokio::test]
async fn a_store_that_does_not_answer_makes_it_unready_and_is_asked_once() {
    run(Options::memory().with_glass(), async |server: &Server| {
        let dev = server.client();
        let pane = &server.glass();
        pane.probe_gate.hold();
        let begun = time::Instant::now();
        // All of them wait for the same answer, which does not come.
        let probes = (0..20).map(|_| {
            let dev = dev.clone();
            tokio::spawn(async move { dev.get("/readyz").await })
        });
        for probe in probes.collect::<Vec<_>>() {
            let problem = probe.await.expect("answered").problem(503, "store-unavailable");
            assert_eq!(
                (&problem["dependencies"]["store"], &problem["retryable"]),
                (&json!("unavailable"), &json!(true))
            );
        }
        // Not one behind the other.
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        // Later ones as well: there is one question under way, not one a probe.
        for _ in 0..2 {
            time::sleep(Duration::from_millis(1_050)).await;
            dev.get("/readyz").await.problem(503, "store-unavailable");
        }
        assert_eq!(pane.probes.load(SeqCst), 1);
        let text = dev.get("/metrics").await.text().to_owned();
        assert!(text.contains("threadline_dependency_up{dependency=\"store\"} 0\n"), "{text}");
        // Alive it is all the same: starting it anew would not bring the store back.
        dev.get("/healthz").await.ok(200);
        pane.probe_gate.open();
        crate::harness::eventually("ready again", async || (dev.get("/readyz").await.status == 200).then_some(()))
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_node_that_is_shutting_down_is_alive_and_not_ready() {
    let mut server = Server::start(Options::memory()).await;
    // Idle connections are let go; half a request is waited for.
    let mut halves = Vec::new();
    for path in ["/readyz", "/healthz", "/v1/openapi.json"] {
        let mut raw = Raw::connect(server.addr).await;
        raw.write(format!("GET {path} HTTP/1.1\r\n")).await;
        halves.push(raw);
    }
    // The server has these by the time that it has answered what came behind them.
    server.client().get("/healthz").await.ok(200);
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
        for path in ["/healthz", "/v1/threads", "/v1/threads/none", "/nothing", "/v1/threads?order=none"] {
            let answer = dev.get(path).await;
            assert!(answer.header("x-request-id").len() > 30, "{path}");
            assert!(seen.insert(answer.header("x-request-id").to_owned()), "an id is given once");
        }
        // Refusals, too.
        let stranger = crate::harness::Client { key: None, ..dev.clone() };
        assert!(stranger.get("/v1/threads").await.headers.contains_key("x-request-id"));
    })
    .await;
}

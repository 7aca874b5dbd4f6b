//! The reports of a node while Redis or Postgres is unreachable: to balancers, to Prometheus and in its log.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::time;

use crate::{backing::Postgres, cluster::*, server::Server};

/// The status and the text of an answer.
pub async fn get(node: &Server, path: &str) -> (u16, String) {
    let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().expect("a client");
    let answer = http.get(format!("{}{path}", node.url)).header("x-request-id", format!("asked-for{path}"));
    let answer = answer.send().await.expect("an answer");
    let status = answer.status().as_u16();
    (status, answer.text().await.expect("a text"))
}

pub async fn figure(node: &Server, name: &str) -> f64 {
    let (status, text) = get(node, "/metrics").await;
    assert_eq!(status, 200, "{text}");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("there is no {name} in\n{text}")).parse().expect("a number")
}

/// Asks until `/readyz` answers so.
pub async fn ready(node: &Server, status: u16, said: &str) -> Value {
    let wait = async {
        loop {
            let (found, text) = get(node, "/readyz").await;
            if found == status && text.contains(said) {
                return serde_json::from_str(&text).expect("JSON");
            }
            time::sleep(Duration::from_millis(100)).await;
        }
    };
    in_time(PATIENCE, said, wait).await
}

const REDIS_UP: &str = "threadline_dependency_up{dependency=\"redis\"}";
const RESYNCS: &str = "threadline_bus_resyncs_total";
const LOCK_ERRORS: &str = "threadline_lock_errors_total";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_a_node_is_degraded_and_receives_a_resync_when_redis_is_back() {
    let cluster = Cluster::start(1);
    let (a, node) = (cluster.client(0), &cluster.nodes[0]);
    make_thread(&a, "t").await;
    let mut reader = Reader::open(&a, "t");
    in_time(PATIENCE, "live", reader.caught_up()).await;
    ready(node, 200, "\"redis\":\"ok\"").await;
    assert_eq!(figure(node, REDIS_UP).await, 1.0);
    let (resyncs, errors) = (figure(node, RESYNCS).await, figure(node, LOCK_ERRORS).await);
    cluster.redis.kill();
    let degraded = ready(node, 200, "degraded").await;
    assert_eq!(degraded["dependencies"]["redis"], "unavailable");
    assert_eq!(figure(node, REDIS_UP).await, 0.0);
    a.run("t", options("r")).await.expect("the store alone decides").finish().await.expect("finishes");
    assert!(figure(node, LOCK_ERRORS).await > errors);
    cluster.redis.restart();
    ready(node, 200, "\"status\":\"ready\"").await;
    let heard = async {
        while figure(node, RESYNCS).await <= resyncs {
            time::sleep(Duration::from_millis(100)).await;
        }
    };
    in_time(PATIENCE, "a resync is heard", heard).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_store_a_node_is_alive_but_not_ready_and_logs_refused_requests() {
    let postgres = Postgres::start(&[]);
    let mut cluster = Cluster::over(postgres.fresh_database(), 0);
    let mut command = cluster.command(&cluster.database, &cluster.redis.url());
    command.env("THREADLINE_LOG", "warn,threadline_http::observe=info").env("THREADLINE_LOG_FORMAT", "json");
    cluster.nodes.push(Server::start(command));
    let (a, node) = (cluster.client(0), &cluster.nodes[0]);
    make_thread(&a, "t").await;
    ready(node, 200, "\"store\":\"ok\"").await;
    postgres.kill();
    let problem = ready(node, 503, "store-unavailable").await;
    assert_eq!(problem["dependencies"]["store"], "unavailable");
    assert_eq!(get(node, "/livez").await.0, 200);
    assert_eq!(figure(node, "threadline_dependency_up{dependency=\"store\"}").await, 0.0);
    let (status, text) = get(node, "/v1/threads/t?not=logged").await;
    assert!(status == 400 || status == 503, "{text}");
    let (status, text) = get(node, "/v1/threads/t").await;
    assert_eq!(status, 503, "{text}");
    let refusal = |said: &str| {
        let mut lines = said.lines().filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok());
        lines.find(|line| line["span"]["id"] == "asked-for/v1/threads/t" && line["fields"]["status"] == 503)
    };
    // What it has written is read a moment later.
    let logged = async {
        loop {
            if let Some(line) = refusal(&node.said()) {
                return line;
            }
            time::sleep(Duration::from_millis(20)).await;
        }
    };
    let line = in_time(PATIENCE, "the refusal is logged", logged).await;
    assert_eq!((&line["level"], &line["fields"]["message"]), (&"INFO".into(), &"answered".into()), "{line}");
    assert_eq!((&line["span"]["method"], &line["span"]["route"]), (&"GET".into(), &"/v1/threads/{threadId}".into()));
    assert!(line["fields"]["duration_ms"].as_f64().is_some_and(|took| took > 0.0), "{line}");
    assert!(!node.said().contains("not=logged"), "{}", node.said());
    postgres.restart();
    ready(node, 200, "\"status\":\"ready\"").await;
    a.thread("t").await.expect("there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_debug_level_every_request_is_logged_without_its_query() {
    let data = tempfile::tempdir().expect("a directory");
    let mut command = crate::server::command(data.path(), &[]);
    command.env("THREADLINE_LOG", "warn,threadline_http::observe=debug").env("THREADLINE_LOG_FORMAT", "text");
    let node = Server::start(command);
    assert_eq!(
        get(&node, "/v1/threads/a-private-thread/events?after=1099511627776&epoch=0123456789abcdef").await.0,
        404
    );
    node.signal(Signal::SIGTERM);
    let mut node = node;
    assert!(node.wait(PATIENCE).is_some_and(|status| status.success()));
    let logged = async {
        while !node.said().contains("answered") {
            time::sleep(Duration::from_millis(20)).await;
        }
    };
    in_time(PATIENCE, "the request is logged", logged).await;
    let said = node.said();
    let line = said.lines().find(|line| line.contains("answered")).expect("logged");
    for word in ["DEBUG", "method=\"GET\"", "route=\"/v1/threads/{threadId}/events\"", "status=404", "duration_ms="] {
        assert!(line.contains(word), "{word} in {line}");
    }
    // Neither a path nor a query; an id in which one stands is not taken over.
    for word in ["a-private-thread", "1099511627776"] {
        assert!(!said.contains(word), "{said}");
    }
}

//! Clocks that are set while runs are active: of one node, of Postgres' machine, of the machine of a data directory.

use reqwest::StatusCode;
use serde_json::{Value, json};
use threadline_core::Timestamp;

use crate::{
    backing::{Postgres, WallClock},
    cluster::{Cluster, PATIENCE, eventually, with_key},
    server::{Server, command},
};

const DAY: i64 = 24 * 3_600;
/// Operator's key of the nodes here.
const KEY: &str = "a key of the operator for clocks";
/// Lease of a producer that lives: far longer than a pause of a busy machine.
const LONG: u64 = 20;
/// Lease of a producer that is dead.
const SHORT: u64 = 3;

/// Requests without a client of Threadline, so that each goes to the node that is meant.
struct Http {
    http: reqwest::Client,
    urls: Vec<String>,
}

impl Http {
    fn of(nodes: &[Server]) -> Self {
        let http =
            reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().expect("a client");
        Self { http, urls: nodes.iter().map(|node| node.url.clone()).collect() }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> (StatusCode, Value) {
        let answer = request.send().await.expect("an answer");
        (answer.status(), answer.json().await.unwrap_or_default())
    }

    async fn get(&self, node: usize, path: &str) -> Value {
        let request = self.http.get(format!("{}{path}", self.urls[node])).bearer_auth(KEY);
        let (status, body) = self.send(request).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    async fn post(&self, node: usize, path: &str, body: Value) -> Value {
        let request = self.http.post(format!("{}{path}", self.urls[node])).bearer_auth(KEY);
        let (status, body) = self.send(request.header("threadline-user", "ann").json(&body)).await;
        assert!(status.is_success(), "{path}: {status} {body}");
        body
    }

    /// Starts a run in a thread of its own.
    async fn start(&self, node: usize, run: &str, lease: u64) {
        self.post(node, "/v1/threads", json!({ "threadId": run })).await;
        self.post(node, &format!("/v1/threads/{run}/runs"), json!({ "runId": run, "leaseSeconds": lease })).await;
    }

    async fn append(&self, node: usize, run: &str, n: u64) {
        let path = format!("/v1/threads/{run}/runs/{run}/events?producerSeq={n}");
        self.post(node, &path, json!([{ "type": "CUSTOM", "name": "n", "value": n }])).await;
    }

    async fn run(&self, run: &str) -> Value {
        let url = format!("{}/v1/threads/{run}/runs/{run}", self.urls[0]);
        let request = self.http.get(url).bearer_auth(KEY).header("threadline-user", "ann");
        self.send(request).await.1
    }

    /// Sets the clock under two runs: one whose producer appends at all nodes in turn, and one whose producer is dead.
    /// The first lives on, and the second ends.
    async fn survives(&self, clock: &WallClock, ahead: i64) {
        let (live, dead) = (format!("live{ahead}"), format!("dead{ahead}"));
        self.start(0, &live, LONG).await;
        self.append(0, &live, 1).await;
        self.start(self.urls.len() - 1, &dead, SHORT).await;
        clock.set(ahead);
        let mut n = 1;
        eventually("the end of a run whose producer is dead", async || {
            n += 1;
            self.append(n as usize % self.urls.len(), &live, n).await;
            (self.run(&dead).await["status"] != "running").then_some(())
        })
        .await;
        let run = self.run(&live).await;
        assert_eq!(run["status"], "running", "after a step to {ahead} s: {run}");
        // Events have the time of the clock as it is now, or of the event before.
        let page = self.http.get(format!("{}/v1/threads/{live}/events?limit=1000", self.urls[0])).bearer_auth(KEY);
        let page = self.send(page.header("threadline-user", "ann")).await.1;
        let times = page["events"].as_array().expect("events").iter();
        let times: Vec<_> = times.map(|event| event["at"].as_str().expect("a time").to_owned()).collect();
        assert!(times.len() as u64 == n && times.is_sorted(), "{times:?}");
        self.post(0, &format!("/v1/threads/{live}/runs/{live}/finish"), json!({})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_of_postgres_that_is_set_ends_no_run_and_leaves_none() {
    let clock = WallClock::new();
    let postgres = Postgres::start_by(&clock);
    let mut cluster = Cluster::over(postgres.fresh_database(), 0);
    for _ in 0..2 {
        let command = with_key(cluster.command(&cluster.database, &cluster.redis.url()), KEY);
        cluster.nodes.push(Server::start(command));
    }
    let http = Http::of(&cluster.nodes);
    for ahead in [600, 0, 400 * DAY] {
        http.survives(&clock, ahead).await;
    }
    // Both nodes have noticed the last step, and one has recorded it.
    let steps = async |node: usize| {
        let request = http.http.get(format!("{}/metrics", http.urls[node])).bearer_auth(KEY);
        let text = request.send().await.expect("an answer").text().await.expect("a text");
        let line = text.lines().find_map(|line| line.strip_prefix("threadline_clock_steps_total "));
        line.and_then(|number| number.parse::<f64>().ok()).expect("the counter")
    };
    for node in 0..2 {
        eventually("the step is noticed", async || (steps(node).await >= 3.0).then_some(())).await;
    }
    let audit = http.get(0, "/v1/audit").await;
    let recorded = audit["entries"].as_array().expect("entries").iter().filter(|entry| entry["action"] == "clock.set");
    assert!(recorded.count() >= 3, "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_set_works_as_any_other() {
    let clock = WallClock::new();
    clock.set(-600);
    let mut cluster = Cluster::over(Postgres::shared().fresh_database(), 0);
    for wrong in [false, true] {
        let mut command = with_key(cluster.command(&cluster.database, &cluster.redis.url()), KEY);
        if wrong {
            command.envs(clock.variables());
        }
        cluster.nodes.push(Server::start(command));
    }
    let http = Http::of(&cluster.nodes);
    for ahead in [600, 400 * DAY] {
        http.survives(&clock, ahead).await;
        // Tickets and tokens of either node are good on the other one.
        for (from, to) in [(0, 1), (1, 0)] {
            let ticket =
                http.post(from, "/v1/socket-tickets", json!({})).await["ticket"].as_str().expect("text").to_owned();
            let url = format!("{}/v1/socket?ticket={ticket}", http.urls[to].replace("http", "ws"));
            let opened = tokio_tungstenite::connect_async(url).await;
            assert!(opened.is_ok(), "{:?}", opened.err());
            let body = json!({ "userId": "ann", "expiresInSeconds": 60 });
            let token = http.post(from, "/v1/tokens", body).await["token"].as_str().expect("text").to_owned();
            let request = http.http.get(format!("{}/v1/threads", http.urls[to])).bearer_auth(token);
            assert_eq!(http.send(request).await.0, 200);
        }
    }
    let skewed = eventually("the skew is reported", async || {
        let ready = http.get(1, "/readyz").await;
        let found = ready["findings"].as_array().is_some_and(|found| found.contains(&json!("clock-skew")));
        found.then_some(ready)
    });
    assert_eq!(skewed.await["status"], "degraded");
    assert_eq!(http.get(0, "/readyz").await["status"], "ready");
    let days = |node: &Value| node["skewMs"].as_i64().map(|ms| ms / 1_000 / DAY);
    eventually("the skew is in the list of nodes", async || {
        let nodes = http.get(0, "/v1/nodes").await["nodes"].as_array().expect("nodes").clone();
        nodes.iter().any(|node| days(node).is_some_and(|days| (-400..=-399).contains(&days))).then_some(())
    })
    .await;
    // A key that the wrong node made and revoked is recorded at the store's time.
    http.post(1, "/v1/keys", json!({ "keyId": "k" })).await;
    let audit = http.get(0, "/v1/audit").await;
    let at: Timestamp = serde_json::from_value(audit["entries"][0]["at"].clone()).expect("a time");
    let apart = threadline_core::Clock::system().now().0.abs_diff(at.0);
    assert!(apart < 60_000, "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_survives_a_clock_that_is_set() {
    let (clock, data) = (WallClock::new(), tempfile::tempdir().expect("a directory"));
    let mut with_clock = with_key(command(data.path(), &[]), KEY);
    with_clock.envs(clock.variables());
    let mut nodes = vec![Server::start(with_clock)];
    let http = Http::of(&nodes);
    for ahead in [600, 0, 400 * DAY] {
        http.survives(&clock, ahead).await;
    }
    // The clock is right again when the node is started next: its producer has a whole lease to return.
    http.start(0, "kept", LONG).await;
    http.start(0, "gone", SHORT).await;
    nodes[0].kill();
    clock.set(0);
    let mut right = with_key(command(data.path(), &[]), KEY);
    right.envs(clock.variables());
    nodes = vec![Server::start(right)];
    let http = Http::of(&nodes);
    let ended = async || (http.run("gone").await["status"] != "running").then_some(());
    eventually("the end of a run of another time", ended).await;
    http.append(0, "kept", 1).await;
}

//! Retention under clocks that are wrong: of a node, of Postgres' machine, of the machine of a data directory.

use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::{
    backing::{Postgres, WallClock},
    cluster::{Cluster, PATIENCE, eventually, with_key},
    server::{Server, command},
};

const DAY: i64 = 24 * 3_600;
/// Operator's key of the nodes here.
const KEY: &str = "a key of the operator for retention";

/// Requests to one node.
struct Node<'a> {
    http: reqwest::Client,
    server: &'a Server,
}

impl<'a> Node<'a> {
    fn of(server: &'a Server) -> Self {
        let http =
            reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().expect("a client");
        Self { http, server }
    }

    async fn ask(&self, method: reqwest::Method, path: &str, user: Option<&str>, body: Value) -> (StatusCode, Value) {
        let request = self.http.request(method, format!("{}{path}", self.server.url)).bearer_auth(KEY);
        let request = user.into_iter().fold(request, |request, user| request.header("threadline-user", user));
        let request = if body.is_null() { request } else { request.json(&body) };
        let answer = request.send().await.expect("an answer");
        (answer.status(), answer.json().await.unwrap_or_default())
    }

    /// Settings that trash after 30 days, and two threads.
    async fn fill(&self) {
        let settings = json!({ "retention": { "deleteAfterDays": 30, "graceDays": 7 } });
        let put = self.ask(reqwest::Method::PUT, "/v1/projects/default", None, settings).await;
        assert!(put.0.is_success(), "{}", put.1);
        for thread in ["old", "kept"] {
            let made = self.ask(reqwest::Method::POST, "/v1/threads", Some("ann"), json!({ "threadId": thread })).await;
            assert_eq!(made.0, 201, "{}", made.1);
        }
    }

    async fn lives(&self, thread: &str) -> bool {
        self.ask(reqwest::Method::GET, &format!("/v1/threads/{thread}"), Some("ann"), Value::Null).await.0 == 200
    }

    async fn trash(&self) -> Vec<String> {
        let page = self.ask(reqwest::Method::GET, "/v1/trash", None, Value::Null).await.1;
        let threads = page["threads"].as_array().expect("threads").iter();
        threads.map(|trashed| trashed["thread"]["threadId"].as_str().expect("an id").to_owned()).collect()
    }

    /// Number of nodes that have measured the difference between their clock and the store's.
    async fn skews(&self) -> usize {
        let page = self.ask(reqwest::Method::GET, "/v1/nodes", None, Value::Null).await.1;
        page["nodes"].as_array().expect("nodes").iter().filter(|node| node["skewMs"].is_i64()).count()
    }

    /// Passes of retention that this node has refused.
    async fn refused(&self) -> f64 {
        let request = self.http.get(format!("{}/metrics", self.server.url)).bearer_auth(KEY);
        let text = request.send().await.expect("an answer").text().await.expect("a text");
        let line = text.lines().find_map(|line| line.strip_prefix("threadline_retention_refused_total "));
        line.and_then(|number| number.parse::<f64>().ok()).expect("the counter")
    }
}

/// Waits until one of the nodes has refused a pass.
async fn refused(nodes: &[Server]) {
    eventually("a pass is refused", async || {
        for server in nodes {
            if Node::of(server).refused().await > 0.0 {
                return Some(());
            }
        }
        None
    })
    .await;
}

/// Has a thread be unused since 1970.
const AGED: &str = "UPDATE threads SET sort_at = 0, updated_at = 0 WHERE id = 'old'";
/// Has a pass be due, as nodes do a minute after their start.
const DUE: &str = "INSERT INTO jobs (kind, ref, due_at) VALUES ('retention', 'default', 0)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_of_postgres_that_is_set_takes_nothing_beyond_recall() {
    let clock = WallClock::new();
    let postgres = Postgres::start_by(&clock);
    let url = postgres.fresh_database();
    let name = url.rsplit('/').next().and_then(|name| name.split('?').next()).expect("a name").to_owned();
    let sql = |text: &str| postgres.psql(&name, text);
    let mut cluster = Cluster::over(url, 0);
    let start =
        |cluster: &Cluster| Server::start(with_key(cluster.command(&cluster.database, &cluster.redis.url()), KEY));
    cluster.nodes.push(start(&cluster));
    Node::of(&cluster.nodes[0]).fill().await;
    cluster.nodes.push(start(&cluster));
    // By a clock that is right, the unused thread goes into the trash.
    sql(AGED);
    sql(DUE);
    let node = Node::of(&cluster.nodes[0]);
    eventually("the trash", async || (node.trash().await == ["old"]).then_some(())).await;
    assert!(node.lives("kept").await && !node.lives("old").await);
    // Both jobs are put off by that clock: a pass that ended after the step would be due an hour after it.
    let count = |text: &str| sql(text).trim().parse::<u64>().expect("a number");
    let at_rest = "SELECT count(*) FROM jobs WHERE kind IN ('purge', 'retention') AND tries = 0
        AND due_at > extract(epoch FROM clock_timestamp()) * 1000";
    eventually("both jobs are at rest", async || (count(at_rest) == 2).then_some(())).await;

    clock.set(400 * DAY);
    eventually("the step is noted", async || {
        (count("SELECT count(*) FROM jobs WHERE kind = 'clock-step'") == 1).then_some(())
    })
    .await;
    // By the new time the other thread is unused for a year, and the purge of the first is overdue: both are refused.
    refused(&cluster.nodes).await;
    let put_off = "SELECT count(*) FROM jobs WHERE kind IN ('purge', 'retention')
        AND due_at > extract(epoch FROM clock_timestamp()) * 1000 + 120000";
    eventually("both jobs are put off", async || (count(put_off) == 2).then_some(())).await;
    assert_eq!(node.trash().await, ["old"]);
    assert!(node.lives("kept").await);
    let back = node.ask(reqwest::Method::POST, "/v1/trash/old/restore", None, Value::Null).await;
    assert_eq!(back.0, 200, "{}", back.1);
    assert!(node.lives("old").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_wrong_takes_nothing() {
    let clock = WallClock::new();
    clock.set(400 * DAY);
    let postgres = Postgres::shared();
    let url = postgres.fresh_database();
    let name = url.rsplit('/').next().and_then(|name| name.split('?').next()).expect("a name").to_owned();
    let sql = |text: &str| postgres.psql(&name, text);
    let mut cluster = Cluster::over(url, 0);
    for wrong in [true, false] {
        let mut command = with_key(cluster.command(&cluster.database, &cluster.redis.url()), KEY);
        if wrong {
            command.envs(clock.variables());
        }
        cluster.nodes.push(Server::start(command));
        if wrong {
            Node::of(&cluster.nodes[0]).fill().await;
        }
    }
    let node = Node::of(&cluster.nodes[1]);
    // Until the skew of the first node is known, the other one is alone, and right.
    eventually("the skew of both nodes is known", async || (node.skews().await == 2).then_some(())).await;
    sql(AGED);
    sql(DUE);
    refused(&cluster.nodes).await;
    assert!(node.trash().await.is_empty() && node.lives("old").await && node.lives("kept").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_loses_nothing_to_a_clock_that_is_set() {
    let (clock, data) = (WallClock::new(), tempfile::tempdir().expect("a directory"));
    let start = || {
        let mut command = with_key(command(data.path(), &[]), KEY);
        command.envs(clock.variables());
        Server::start(command)
    };
    let intact = async |server: &Server| {
        let node = Node::of(server);
        assert!(node.trash().await.is_empty() && node.lives("old").await && node.lives("kept").await);
    };
    let mut server = start();
    Node::of(&server).fill().await;
    server.kill();
    // A pass is due in an hour. The clock is set while the node is running, and while it is not.
    let url = format!("sqlite://{}/threadline.db", data.path().display());
    let mut writer = SqliteConnection::connect(&url).await.expect("connects");
    let later = DUE.replace("0)", "(unixepoch() + 3600) * 1000)");
    sqlx::raw_sql(AssertSqlSafe(later)).execute(&mut writer).await.expect("put");
    writer.close().await.expect("closes");
    let mut server = start();
    clock.set(400 * DAY);
    refused(std::slice::from_ref(&server)).await;
    intact(&server).await;
    server.kill();
    clock.set(800 * DAY);
    let server = start();
    refused(std::slice::from_ref(&server)).await;
    intact(&server).await;
}

//! Nodes, what they stand on, and short words for what the tests do with them.

use std::{future::Future, net::SocketAddr, process::Command, time::Duration};

use futures_util::StreamExt;
use serde_json::{Value, json};
use threadline_client::{
    Client, ClientConfig, ClientError, CreateThread, EventQuery, Run, RunOptions, StartRun, Tail, TailItem, TailOptions,
};
use threadline_core::{NewEvents, RunId};
use tokio::time;

use crate::{
    backing::{Postgres, Proxy, Redis},
    balancer::Balancer,
    server::{Server, command},
};

/// Lease of the runs here.
pub const LEASE: Duration = Duration::from_secs(2);
/// By when a run whose producer is gone has ended (P5).
pub const ENDED: Duration = Duration::from_secs(2 + 5);
/// Less than the recheck's two seconds: events that arrive this soon in several rounds came by the bus.
pub const BY_THE_BUS: Duration = Duration::from_millis(1_500);
/// Longer than anything takes here.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What the nodes share. Each test has its own Redis and a database of its own.
pub struct Cluster {
    pub redis: Redis,
    pub database: String,
    pub nodes: Vec<Server>,
}

/// The command, with this operator's key in place of development mode.
pub fn with_key(mut command: Command, key: &str) -> Command {
    command.env("THREADLINE_API_KEY", key).env_remove("THREADLINE_DEVELOPMENT");
    command
}

impl Cluster {
    pub fn start(nodes: usize) -> Self {
        Self::over(Postgres::shared().fresh_database(), nodes)
    }

    /// Nodes over a Postgres of their own, with the name of their database.
    pub fn apart(nodes: usize) -> (Postgres, String, Self) {
        let postgres = Postgres::start(&[]);
        let database = postgres.fresh_database();
        let name = database.rsplit('/').next().expect("a name").to_owned();
        (postgres, name, Self::over(database, nodes))
    }

    pub fn over(database: String, nodes: usize) -> Self {
        let mut cluster = Self { redis: Redis::start(&[]), database, nodes: Vec::new() };
        for _ in 0..nodes {
            let node = cluster.node();
            cluster.nodes.push(node);
        }
        cluster
    }

    /// One more node.
    pub fn node(&self) -> Server {
        Server::start(self.command(&self.database, &self.redis.url()))
    }

    /// One more node, which reaches Redis through a proxy.
    pub fn node_behind(&self, proxy: &Proxy) -> Server {
        Server::start(self.command(&self.database, &format!("redis://{}/", proxy.address())))
    }

    pub fn command(&self, store: &str, redis: &str) -> Command {
        let mut command = command("/nowhere".as_ref(), &[]);
        command.args(["--lock-ttl-seconds", "2", "--lock-heartbeat-interval-seconds", "1"]);
        command.env("THREADLINE_STORE", store).env("THREADLINE_REDIS", redis);
        command
    }

    pub fn client(&self, node: usize) -> Client {
        client(&self.nodes[node].url)
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| address(&node.url)).collect()
    }

    pub async fn balancer(&self) -> Balancer {
        Balancer::start(self.addresses()).await
    }
}

pub fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").parse().expect("an address")
}

pub fn client(url: &str) -> Client {
    let mut config = ClientConfig::new(url);
    config.retry_for = PATIENCE;
    Client::new(config).expect("a client")
}

pub async fn make_thread(client: &Client, id: &str) {
    client.create_thread(&CreateThread { thread_id: Some(id.into()), ..CreateThread::default() }).await.expect("made");
}

/// An id, and a short lease.
pub fn options(run: &str) -> RunOptions {
    RunOptions { run_id: Some(run.into()), lease: Some(LEASE), ..RunOptions::default() }
}

/// A run whose lease outlasts every pause of a busy machine.
pub fn leased(run: &str) -> RunOptions {
    RunOptions { lease: Some(PATIENCE), ..options(run) }
}

/// A run of the demo agent, which says what this word asks it for.
pub fn agent_run(word: &str) -> StartRun {
    let message = json!({ "id": RunId::generate().to_string(), "role": "user", "content": word });
    StartRun { agent_id: Some("demo".into()), input: Some(json!({ "messages": [message] })), ..StartRun::default() }
}

/// Events that carry their own numbers.
pub fn numbered(numbers: std::ops::RangeInclusive<u64>) -> NewEvents {
    let lines: Vec<String> =
        numbers.map(|n| json!({ "type": "CUSTOM", "name": "n", "value": n }).to_string()).collect();
    NewEvents::from_ndjson(lines.join("\n").as_bytes()).expect("events")
}

pub async fn in_time<T>(patience: Duration, what: &str, work: impl Future<Output = T>) -> T {
    time::timeout(patience, work).await.unwrap_or_else(|_| panic!("not within {patience:?}: {what}"))
}

/// Repeats a step until it gives something.
pub async fn eventually<T>(what: &str, mut step: impl AsyncFnMut() -> Option<T>) -> T {
    let repeated = async {
        loop {
            match step().await {
                Some(found) => return found,
                None => time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    in_time(2 * PATIENCE, what, repeated).await
}

/// Asks until the run has ended.
pub async fn ended(client: &Client, thread: &str, run: &str) -> Run {
    loop {
        match client.run_record(thread, run).await {
            Ok(found) if !found.status.is_active() => return found,
            Ok(_) => {}
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        time::sleep(Duration::from_millis(50)).await;
    }
}

/// The whole log, one event a line with its run.
pub async fn log(client: &Client, thread: &str) -> Vec<String> {
    let (mut lines, mut last, mut cursor) = (Vec::new(), 0, None);
    loop {
        let query = EventQuery { cursor: cursor.clone(), limit: Some(10_000), ..EventQuery::default() };
        let page = client.events(thread, &query).await.expect("a page");
        for event in &page.events {
            last += 1;
            assert_eq!(event.seq, last, "dense");
            lines.push(format!("{} {}", event.run_id, event.event.get()));
        }
        if page.events.is_empty() {
            return lines;
        }
        cursor = Some(page.next_cursor);
    }
}

/// A reader that continues over reconnects, and the events that it has seen.
pub struct Reader {
    tail: Tail,
    pub seen: Vec<String>,
    pub reconnects: usize,
    pub closed_with: Vec<u16>,
}

impl Reader {
    pub fn open(client: &Client, thread: &str) -> Self {
        let tail = client.tail(thread, TailOptions::default());
        Self { tail, seen: Vec::new(), reconnects: 0, closed_with: Vec::new() }
    }

    async fn step(&mut self) -> bool {
        match self.tail.next().await {
            Some(Ok(TailItem::Event { seq, run_id, event, .. })) => {
                self.seen.push(format!("{run_id} {}", event.get()));
                assert_eq!(seq as usize, self.seen.len(), "no gap, no duplicate");
            }
            Some(Ok(TailItem::Reconnecting { error, .. })) => {
                self.reconnects += 1;
                if let ClientError::Closed { code, .. } = error {
                    self.closed_with.push(code);
                }
            }
            Some(Ok(TailItem::CaughtUp(_))) => return true,
            Some(Ok(_)) => {}
            other => panic!("the stream ended: {other:?}"),
        }
        false
    }

    /// Reads until it is live.
    pub async fn caught_up(&mut self) {
        while !self.step().await {}
    }

    /// Reads until so many events have been seen.
    pub async fn reads(&mut self, events: usize) {
        while self.seen.len() < events {
            self.step().await;
        }
    }
}

/// The type of an event of [`log`].
pub fn kind(line: &str) -> String {
    let event: Value = serde_json::from_str(line.split_once(' ').expect("run and event").1).expect("JSON");
    event["type"].as_str().expect("a type").to_owned()
}

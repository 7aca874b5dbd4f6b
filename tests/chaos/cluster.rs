//! What is tested: three nodes on a Postgres and a Redis, each node with ways of its own to both.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use crate::backing::{Cut, Postgres, Proxy, Redis, Standby, keeper::Keeper, ports::free_port, postgres::SmallDisk};

pub const NODES: usize = 3;
const BINARY: &str = env!("CARGO_BIN_EXE_threadline");
/// Time for a node to go by itself.
const GOING: Duration = Duration::from_secs(20);
/// Room for the tables of half an hour: 5 million events took 1 GiB.
const DISK_MIB: usize = 4_096;
/// Settings of a primary and of its standby, which connects again soon after its primary was killed.
const OPTIONS: [(&str, &str); 5] = [
    ("shared_buffers", "64MB"),
    ("checkpoint_timeout", "60s"),
    ("max_wal_size", "512MB"),
    ("wal_keep_size", "256MB"),
    ("wal_retrieve_retry_interval", "200ms"),
];

pub struct Cluster {
    pub postgres: Postgres,
    /// A standby of `postgres`, between its creation and its promotion.
    standby: Option<Standby>,
    pub redis: Redis,
    pub nodes: Vec<Node>,
    database: String,
}

pub struct Node {
    keeper: Keeper,
    command: String,
    pub url: String,
    pub to_postgres: Proxy,
    pub to_redis: Proxy,
}

impl Cluster {
    pub fn start(seed: u64) -> Self {
        let postgres = Postgres::on_small_disk(SmallDisk::Tables(DISK_MIB), &OPTIONS);
        let redis = Redis::start(&[]);
        let database = postgres.fresh_database();
        let database = database.rsplit('/').next().expect("a name").to_owned();
        let node = |number| Node::start(number, &postgres, &redis, &database, seed);
        let nodes = (0..NODES).map(node).collect();
        Self { postgres, standby: None, redis, nodes, database }
    }

    /// Contradictions in what the nodes have stored, as `threadline verify` prints them; empty if there is none.
    pub fn contradictions(&self) -> String {
        let url = self.postgres.url_by(&format!("127.0.0.1:{}", self.postgres.port()), &self.database);
        let output =
            Command::new(BINARY).arg("verify").arg(url).env_remove("THREADLINE_STORE").output().expect("it runs");
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        if output.status.success() { String::new() } else { said }
    }

    /// Makes a standby of the primary, if there is none.
    pub fn have_standby(&mut self) {
        let disk = SmallDisk::Tables(DISK_MIB);
        self.standby.get_or_insert_with(|| Standby::on_small_disk(&self.postgres, disk, &OPTIONS));
    }

    /// From now on the standby lags. Commits before the call are on it.
    pub fn lag(&mut self) {
        self.have_standby();
        if let Some(standby) = &self.standby {
            standby.catch_up(&self.postgres);
            standby.disconnect();
        }
    }

    /// The standby becomes the primary, in the place of the one that was killed.
    pub fn fail_over(&mut self) {
        let Some(standby) = self.standby.take() else { return };
        standby.promote();
        self.postgres = standby.into_primary();
        for node in &self.nodes {
            node.to_postgres.retarget(self.postgres.port());
            node.to_postgres.cut(Cut::Reset);
        }
    }

    /// Asks the primary.
    pub fn ask(&self, sql: &str) -> String {
        self.postgres.psql(&self.database, sql)
    }

    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.url.clone()).collect()
    }
}

impl Node {
    fn start(number: usize, postgres: &Postgres, redis: &Redis, database: &str, seed: u64) -> Self {
        let mut keeper = Keeper::new(&format!("node-{number}"), &[], "");
        let to_postgres = Proxy::seeded(postgres.port(), seed);
        let to_redis = Proxy::seeded(redis.port(), seed ^ 1);
        let port = free_port();
        let store = postgres.url_by(&to_postgres.address().to_string(), database);
        let command = format!(
            "env -C {home} -u THREADLINE_API_KEY NO_COLOR=1 {BINARY} dev --listen 127.0.0.1:{port} \
             --store {store} --redis redis://{redis} --drain-delay 0 --drain-spread 0 --drain-runs 0 --allow-agent-networks loopback",
            home = keeper.home().display(),
            redis = to_redis.address(),
        );
        let url = format!("http://127.0.0.1:{port}");
        keeper.start(&command, "is listening on").unwrap_or_else(|said| panic!("node {number} did not start:\n{said}"));
        Self { keeper, command, url, to_postgres, to_redis }
    }

    pub fn is_running(&self) -> bool {
        self.keeper.is_running()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.keeper.kill();
    }

    /// The end of its output.
    pub fn said(&self) -> String {
        let said = self.log();
        let lines: Vec<_> = said.lines().rev().take(40).collect();
        lines.into_iter().rev().map(|line| format!("    {line}\n")).collect()
    }

    /// Its whole output.
    pub fn log(&self) -> String {
        self.keeper.said(0)
    }

    pub fn signal(&self, signal: Signal) {
        self.keeper.signal_all(signal);
    }

    /// SIGTERM, and waits until it is gone; whether it went by itself.
    pub fn ask_to_go(&mut self) -> bool {
        self.signal(Signal::SIGTERM);
        let began = Instant::now();
        while self.is_running() && began.elapsed() < GOING {
            std::thread::sleep(Duration::from_millis(20));
        }
        let gone = !self.is_running();
        self.keeper.kill();
        gone
    }

    /// Starts it again, under the same address. It may need several tries while its store is not there.
    pub fn start_again(&mut self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            match self.keeper.start(&self.command, "is listening on") {
                Ok(()) => return Ok(()),
                Err(said) if began.elapsed() > GOING => return Err(said),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// Both of its ways.
    pub fn ways(&self) -> [&Proxy; 2] {
        [&self.to_postgres, &self.to_redis]
    }

    pub fn heal(&self) {
        self.ways().iter().for_each(|way| way.heal());
    }
}

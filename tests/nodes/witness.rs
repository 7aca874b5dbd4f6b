//! Data that is put back to an older state while no node runs: the witness in Redis alone tells of it.

use std::process::Command;

use nix::sys::signal::Signal;
use threadline_client::{ClientError, EventQuery};
use tokio::task::block_in_place;

use crate::{
    backing::Postgres,
    cluster::*,
    server::Server,
    watched::{figure, ready},
};

/// A database that a node has written to, and that was then put back to an older state.
struct PutBack {
    postgres: Postgres,
    name: String,
    cluster: Cluster,
    epoch: String,
}

const LOSS: &str = "threadline_lineage_loss_seconds";
const KEPT: u64 = 5;
const LOST: u64 = 10;

impl PutBack {
    /// Runs a node that writes events, of which the copy of the data has the first ones. Then stops the node.
    async fn start() -> Self {
        let (postgres, name, cluster) = block_in_place(|| Cluster::apart(1));
        let a = cluster.client(0);
        make_thread(&a, "t").await;
        let mut producer = a.run("t", options("r")).await.expect("starts");
        producer.append(numbered(1..=KEPT)).await.expect("appends");
        block_in_place(|| postgres.keep());
        let beat = || postgres.psql(&name, "SELECT max(beat) FROM nodes").parse::<u64>().expect("a number");
        let kept = beat();
        producer.append(numbered(KEPT + 1..=LOST)).await.expect("appends");
        let mut put_back = Self { epoch: String::new(), postgres, name, cluster };
        put_back.epoch = a.events("t", &EventQuery::default()).await.expect("a page").epoch;
        // A beat that the copy does not have.
        eventually("the beat is witnessed", async || (put_back.witnessed() > kept).then_some(())).await;
        put_back.stop();
        put_back
    }

    /// Number of the newest beat that the witness has.
    fn witnessed(&self) -> u64 {
        let installation = self.postgres.psql(&self.name, "SELECT id FROM installation");
        let fields = self.cluster.redis.command(&["HVALS", &format!("threadline:lock:%lineage:{installation}")]);
        let numbers = fields.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok());
        numbers.max().unwrap_or(0)
    }

    fn stop(&mut self) {
        for mut node in self.cluster.nodes.drain(..) {
            node.signal(Signal::SIGTERM);
            assert!(block_in_place(|| node.wait(PATIENCE)).is_some_and(|status| status.success()), "{}", node.said());
        }
    }

    async fn restart(&mut self, nodes: usize) {
        let commands = (0..nodes).map(|_| self.cluster.command(&self.cluster.database, &self.cluster.redis.url()));
        // At once, as after the restart of a machine.
        let started: Vec<Server> = commands.map(|command: Command| Server::spawn(command)).collect();
        for mut node in started {
            assert!(block_in_place(|| node.ready()), "{}", node.said());
            ready(&node, 200, "\"status\":\"ready\"").await;
            self.cluster.nodes.push(node);
        }
    }

    fn generations(&self) -> String {
        self.postgres.psql(&self.name, "SELECT string_agg(cause, ' ' ORDER BY generation) FROM lineage")
    }

    /// Asks for the events after a cursor of the log before.
    async fn after(&self, seq: u64) -> Result<usize, ClientError> {
        let query = EventQuery { after: Some(seq), epoch: Some(self.epoch.clone()), ..EventQuery::default() };
        self.cluster.client(0).events("t", &query).await.map(|page| page.events.len())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_that_is_put_back_while_no_node_runs_is_another_history() {
    let mut data = PutBack::start().await;
    // A restart alone is no loss.
    data.restart(1).await;
    assert_eq!(data.generations(), "created");
    data.after(LOST).await.expect("the cursor is good");
    data.stop();
    block_in_place(|| data.postgres.put_back());
    data.restart(2).await;
    assert_eq!(data.generations(), "created rolled-back", "two nodes open one generation");
    let noticed = async || {
        let [a, b] = &data.cluster.nodes[..] else { panic!("two nodes") };
        (figure(a, LOSS).await > 0.0 || figure(b, LOSS).await > 0.0).then_some(())
    };
    eventually("the alarm on lost commits has its metric", noticed).await;
    let replaced = data.after(LOST).await.expect_err("the reader saw what was lost");
    let problem = replaced.problem("log-replaced").unwrap_or_else(|| panic!("{replaced}"));
    assert_eq!(problem.facts["commonUpTo"], KEPT);
    data.after(KEPT).await.expect("this reader saw nothing of it");
    // The generation is open, and its beats are witnessed: the next start finds nothing new.
    data.stop();
    data.restart(1).await;
    assert_eq!(data.generations(), "created rolled-back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_an_empty_redis_data_that_is_put_back_while_no_node_runs_goes_unnoticed() {
    let mut data = PutBack::start().await;
    block_in_place(|| data.postgres.put_back());
    data.cluster.redis.command(&["FLUSHALL"]);
    data.restart(1).await;
    assert_eq!(data.generations(), "created", "OPERATIONS.md asks for `threadline lineage new` in this case");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_late_is_asked_then() {
    let mut data = PutBack::start().await;
    block_in_place(|| data.postgres.put_back());
    data.cluster.redis.stop_signal();
    let node = Server::start(data.cluster.command(&data.cluster.database, &data.cluster.redis.url()));
    ready(&node, 200, "redis-unreachable").await;
    assert_eq!(data.generations(), "created");
    data.cluster.redis.cont();
    eventually("it is noticed", async || (data.generations() == "created rolled-back").then_some(())).await;
    ready(&node, 200, "\"status\":\"ready\"").await;
    eventually("the period is a metric", async || (figure(&node, LOSS).await > 0.0).then_some(())).await;
    data.cluster.nodes.push(node);
    assert!(data.after(LOST).await.expect_err("replaced").problem("log-replaced").is_some());
}

//! One run of chaos: load, faults, quiet, check.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use threadline_client::CreateThread;
use tokio::{
    task::{JoinHandle, JoinSet, block_in_place},
    time::{sleep, timeout},
};

use crate::{
    askers::Asker,
    callee::{Callee, RECOVERIES},
    check::Found,
    cluster::Cluster,
    faults::Injector,
    history::{Class, Kind, Line},
    others, probes,
    producers::Producer,
    readers::Reader,
    world::{PATIENCE, Size, World},
};

/// Where the checker finds the histories, and whom it asks.
pub const RECORD: &str = "THREADLINE_CHAOS_RECORD";
pub const NODES: &str = "THREADLINE_CHAOS_NODES";
/// What the checker had to say, in the directory of the histories.
pub const REPORT: &str = "report.txt";
/// All runs have ended so long after the last producer: the longest lease, the grace of a stop, and 5 s.
const LAST_RUNS: Duration = Duration::from_secs(25);
/// The longest that a producer may take to end its run when the load ends.
const LAST_WORDS: Duration = Duration::from_secs(90);
/// Readers have caught up so long after the last event.
const CATCH_UP: Duration = Duration::from_secs(12);

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    /// Duration of the faults; at least one round of all kinds.
    pub lasts: Duration,
    pub kinds: Vec<Kind>,
    pub size: Size,
}

/// What came of it.
pub struct Verdict {
    pub clean: bool,
    /// The last line is the one that counts.
    pub report: String,
}

/// The load of a run.
struct Load {
    threads: Vec<String>,
    clients: JoinSet<()>,
    readers: JoinSet<()>,
    sampler: JoinHandle<()>,
    callee: Callee,
}

impl Plan {
    pub async fn carry_out(self) -> Verdict {
        let record = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{}-{}", self.seed, std::process::id()));
        fs::create_dir_all(&record).expect("a directory");
        let cluster = block_in_place(|| Cluster::start(self.seed));
        let world = World::new(cluster.urls(), self.size, self.seed, &record);
        let load = begin(&world).await;
        let injector = Injector::new(cluster, world.clone(), self.kinds.clone());
        let injector = self.faults(injector, &world).await;
        let threads = quiet(&world, load).await;
        block_in_place(|| injector.note_fences());
        println!("{} threads are quiet: checking", threads.len());
        let mut verdict = block_in_place(|| judge(&record, &world));
        // A planted bug must be found in what the clients saw.
        if verdict.clean {
            let contradictions = block_in_place(|| injector.cluster.contradictions());
            if !contradictions.is_empty() {
                verdict = Verdict { clean: false, report: format!("{contradictions}{}", verdict.report) };
            }
        }
        if !verdict.clean {
            println!("the histories are in {}", record.display());
            for (number, node) in injector.cluster.nodes.iter().enumerate() {
                fs::write(record.join(format!("node-{number}.log")), node.log()).expect("room for a log");
            }
            fs::write(record.join("postgres.log"), injector.cluster.postgres.log()).expect("room for a log");
        } else {
            fs::remove_dir_all(&record).expect("removed");
        }
        verdict
    }

    async fn faults(&self, mut injector: Injector, world: &Arc<World>) -> Injector {
        let began = Instant::now();
        // Let all clients begin.
        sleep(Duration::from_secs(2)).await;
        while began.elapsed() < self.lasts || !injector.has_done_all() {
            let fault = block_in_place(|| injector.inject());
            let (took, at) = ((fault.end - fault.begin) / 1_000, began.elapsed().as_secs());
            let node = fault.node.map(|node| format!(" of node {node}")).unwrap_or_default();
            println!(
                "{at:>4} s  {:<14}{node} for {took} ms {}  ({} acknowledged, {} runs under way)",
                fault.kind.name(),
                fault.note,
                world.acknowledged.load(Ordering::Relaxed),
                world.under_way()
            );
            tokio::task::yield_now().await;
        }
        for node in &injector.cluster.nodes {
            node.heal();
        }
        injector
    }
}

/// Creates the threads, and starts all clients.
async fn begin(world: &Arc<World>) -> Load {
    let Size { lanes, contended, rivals, agents, queues, sockets, streams, .. } = world.size;
    let names = |kind: &str, count: usize| (0..count).map(|n| format!("{kind}-{n}")).collect::<Vec<_>>();
    let (lanes, contended, agents) = (names("lane", lanes), names("rivals", contended), names("agent", agents));
    let queues = names("queue", queues);
    let threads: Vec<String> = [&lanes, &contended, &agents, &queues].into_iter().flatten().cloned().collect();
    for thread in &threads {
        let create = CreateThread { thread_id: Some(thread.clone()), ..CreateThread::default() };
        world.clients[0].create_thread(&create).await.expect("a thread is made before anything is broken");
    }
    let mut stream = 0;
    let mut next = || {
        stream += 1;
        stream
    };
    let mut clients = JoinSet::new();
    for thread in &lanes {
        clients.spawn(Producer::new(world.clone(), thread, thread, next()).work());
    }
    for thread in &contended {
        for rival in 0..rivals {
            clients.spawn(Producer::new(world.clone(), thread, &format!("{thread}.{rival}"), next()).work());
        }
    }
    let callee = Callee::start(world.clone()).await;
    callee.define(world).await;
    for (thread, agent) in agents.iter().zip(["demo"].into_iter().chain(RECOVERIES).cycle()) {
        clients.spawn(others::agent(world.clone(), agent, thread.clone(), thread.clone(), next()));
    }
    for (thread, agent) in queues.iter().zip(["demo"].into_iter().chain(RECOVERIES).cycle()) {
        clients.spawn(Asker::new(world.clone(), agent, thread, next()).work());
    }
    clients.spawn(others::stopper(world.clone(), next()));
    clients.spawn(probes::ask(world.clone()));
    let mut readers = JoinSet::new();
    for number in 0..sockets {
        // Each thread has a reader; some sockets follow several.
        let own: Vec<String> = threads.iter().skip(number).step_by(sockets).cloned().collect();
        let own = if own.is_empty() { vec![threads[number % threads.len()].clone()] } else { own };
        readers.spawn(Reader::new(world.clone(), &format!("socket-{number}"), &own, next()).over_sockets());
    }
    for number in 0..streams {
        let own = [threads[(number * 7) % threads.len()].clone()];
        readers.spawn(Reader::new(world.clone(), &format!("stream-{number}"), &own, next()).over_streams());
    }
    let sampler = tokio::spawn(sample(world.clone()));
    Load { threads, clients, readers, sampler, callee }
}

/// Writes down how much is under way, once the load is there and as long as it lasts.
async fn sample(world: Arc<World>) {
    let history = world.history("samples");
    loop {
        sleep(Duration::from_secs(1)).await;
        if !world.is_running() {
            return history.flush();
        }
        let readers = world.readers.load(Ordering::Relaxed);
        history.write(&Line::Sample { runs: world.under_way(), readers });
    }
}

/// Ends the load: producers first, then all runs, then readers, once they have caught up.
async fn quiet(world: &Arc<World>, mut load: Load) -> Vec<String> {
    world.end_runs();
    let words = async {
        while let Some(ended) = load.clients.join_next().await {
            ended.expect("no client panics");
        }
    };
    if timeout(LAST_WORDS, words).await.is_err() {
        world.wrong(Class::Unfinished, format!("{} clients did not come to an end", load.clients.len()));
        load.clients.shutdown().await;
    }
    let began = Instant::now();
    let mut tails = HashMap::new();
    for thread in &load.threads {
        let tail = loop {
            let node = &world.clients[tails.len() % world.clients.len()];
            match timeout(PATIENCE, node.thread(thread)).await {
                Ok(Ok(thread)) if thread.active_run.is_none() => break thread.tail,
                answer if began.elapsed() > LAST_RUNS => {
                    world.wrong(Class::Unfinished, format!("{thread} does not come to an end: {answer:?}"));
                    break 0;
                }
                _ => sleep(Duration::from_millis(200)).await,
            }
        };
        tails.insert(thread.clone(), tail);
    }
    world.end_reading(tails, CATCH_UP);
    let farewell = async {
        while let Some(ended) = load.readers.join_next().await {
            ended.expect("no reader panics");
        }
    };
    timeout(CATCH_UP + 3 * PATIENCE, farewell).await.expect("readers end");
    load.sampler.await.expect("no panic");
    drop(load.callee);
    load.threads
}

/// Has the histories checked by a process of its own.
fn judge(record: &Path, world: &World) -> Verdict {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--ignored", "--exact", "judge", "--nocapture"]);
    command.env(RECORD, record).env(NODES, world.urls.join(" ")).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().expect("the checker runs");
    let report: PathBuf = record.join(REPORT);
    let report = fs::read_to_string(&report).unwrap_or_else(|error| {
        // It came upon something that it does not understand, which is no good sign.
        let mut found = Found::default();
        found.wrong(Class::Unfinished, 1, format!("the checker ended with {status} and left no report: {error}"));
        format!("{found}{}", found.last_line())
    });
    Verdict { clean: status.success(), report: report.trim_end().to_owned() }
}

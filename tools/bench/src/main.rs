//! `threadline-bench`, which `threadline bench` starts: compares the product with a bare program that does only the
//! unavoidable work.
//!
//! SQLite is measured as a single node, in a directory; `--store` and `--redis` measure nodes that share a Postgres and
//! a Redis. Every figure is a pair, measured in turn in the same run: absolute numbers change with the machine and the
//! moment, ratios hardly do. Servers run in separate processes, so that client and server share no runtime.

use std::{env, io, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};
use nix::sys::stat::{Mode, umask};
use tokio::signal::unix::{SignalKind, signal};

use threadline::app::{App, ServeConfig, StartError, StoreChoice};
use threadline_core::limits::DEFAULT_LOCK_KEY_PREFIX;
use threadline_engine::cluster::redis_servers::AddressError;
use threadline_store::postgres;

mod ack;
mod append;
mod bare;
mod disk;
mod doors;
mod fanout;
mod first;
mod followers;
mod generate;
mod live;
mod long;
mod measure;
mod memory;
mod messages;
mod naive;
mod peer;
mod place;
mod process;
mod replay;
mod report;
mod resume;
mod runner;
mod seeded;
mod servers;
mod socket;
mod start;
mod store;

use place::Ground;
use process::TempDir;
use report::Report;
use servers::{REDIS_VARIABLE, STORE_VARIABLE, Servers};

/// Workload to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Durable appends: at the store port, over the socket, and on long threads
    Append,
    /// The time until an acknowledgement
    Ack,
    /// Starts of runs, and refused ones (with --store and --redis only)
    Start,
    /// From an append to the sockets of ten followers, at half of the saturation
    Live,
    /// An agent's run through every API that streams: latency, and the speed of one stream
    Doors,
    /// A thousand followers of one thread under load
    Fanout,
    /// A long thread read over one socket
    Replay,
    /// The time until a client that was away has everything it missed
    Resume,
    /// The messages of a long thread, cold and warm
    Messages,
    /// Runs that CopilotKit's runtimes stream, each over a socket of its own
    Runner,
    /// What an idle subscriber costs
    Memory,
    /// Bytes of an event on disk
    Disk,
    /// All of them
    All,
    /// The server that is measured, in its own process.
    #[value(hide = true)]
    Serve,
    /// The server that it is compared with, in its own process.
    #[value(hide = true)]
    Peer,
    /// The server that fan-out is compared with, in its own process.
    #[value(hide = true)]
    Naive,
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Variable with which `threadline bench` passes its version.
const FOR_VERSION: &str = "THREADLINE_BENCH_FOR";

#[tokio::main]
async fn main() -> ExitCode {
    // Files are accessible to their owner only, like those of the server.
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
    let own = env!("CARGO_PKG_VERSION");
    if let Some(other) = env::var(FOR_VERSION).ok().filter(|version| version != own) {
        eprintln!("error: threadline-bench {own} measures Threadline {own}, not {other}: install both of one release");
        return ExitCode::FAILURE;
    }
    let matches = threadline::config::tidy(BenchArgs::command()).get_matches();
    let args = BenchArgs::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match run(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures Threadline beside a bare program on this machine.
#[derive(Debug, Clone, Parser)]
#[command(name = "threadline-bench", version)]
pub struct BenchArgs {
    /// What to measure
    #[arg(value_enum, default_value = "all")]
    pub workload: Workload,
    /// Shorter and fewer rounds: about a fifth of the time, and noisier
    #[arg(long)]
    pub quick: bool,
    /// Print one JSON object of numbers instead of the table
    #[arg(long)]
    pub json: bool,
    /// Events a second at which `live` is measured, instead of half of the saturation: to compare two builds
    #[arg(long, value_name = "EVENTS")]
    pub rate: Option<f64>,
    /// Where the data of the measurement goes; choose a directory on the disk that is to be measured. Everything is
    /// removed at the end
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    pub dir: Option<PathBuf>,
    /// Measure nodes that share this Postgres, postgres://user:password@host/database, instead of SQLite. The database
    /// named is left alone: others are made beside it (threadline_bench_…), and removed at the end
    #[arg(long, env = STORE_VARIABLE, hide_env_values = true, value_name = "URL", requires = "redis")]
    pub store: Option<String>,
    /// The Redis that goes with it. Keys begin with threadline_bench_… and are removed at the end
    #[arg(long, env = REDIS_VARIABLE, hide_env_values = true, value_name = "URL", requires = "store")]
    pub redis: Option<String>,
    /// Of the server that is measured.
    #[arg(long, hide = true, default_value = DEFAULT_LOCK_KEY_PREFIX)]
    pub lock_key_prefix: String,
    /// Everything as small as can be, to see whether it works: the figures say nothing.
    #[arg(long, hide = true)]
    pub tiny: bool,
}

/// Reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A directory or file cannot be used.
    #[error("cannot use {path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// The result cannot be printed.
    #[error("cannot print the result: {0}")]
    Print(#[source] io::Error),
    /// A process of the measurement failed.
    #[error("the process `threadline-bench {0}` failed: {1}")]
    Process(String, #[source] io::Error),
    /// A server of the measurement cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] threadline_store::sqlite::OpenError),
    /// The named Postgres cannot be used.
    #[error("{0}: {1}")]
    Postgres(String, #[source] postgres::OpenError),
    /// A measurement must not depend on a pooler.
    #[error("name the database server itself: through a pooler its connections cannot be counted")]
    Pooler,
    /// Databases cannot be created.
    #[error(
        "the user of --store may not make databases, and the one that is named is left alone: ALTER ROLE … CREATEDB"
    )]
    MayNotCreate,
    /// The address of the named Redis is invalid.
    #[error(transparent)]
    RedisAddress(#[from] AddressError),
    /// The named Redis cannot be used.
    #[error("Redis: {0}")]
    Redis(#[from] redis::RedisError),
    /// The workload needs servers that nodes share, and none are named.
    #[error("`start` measures nodes that share servers: name them with --store and --redis")]
    Alone,
    /// The user stopped the measurement.
    #[error("stopped before everything was measured")]
    Stopped,
    /// A use case failed.
    #[error("the service failed: {0}")]
    Service(#[from] threadline_engine::ServiceError),
    /// Failure of the store.
    #[error(transparent)]
    Store(#[from] threadline_store::StoreError),
    /// The bare program failed.
    #[error("the bare database program failed: {0}")]
    Database(#[from] sqlx::Error),
    /// A connection to a server of the measurement failed.
    #[error("a connection failed: {0}")]
    Connection(#[source] io::Error),
    /// A socket to a server of the measurement failed.
    #[error("a socket failed: {0}")]
    Socket(Box<tokio_tungstenite::tungstenite::Error>),
    /// A request to a server of the measurement failed.
    #[error("a request failed: {0}")]
    Request(#[from] reqwest::Error),
    /// A server of the measurement sent an unexpected answer.
    #[error("unexpected answer: {0}")]
    Unexpected(String),
    /// A task of the measurement panicked.
    #[error("a task of the measurement failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl From<tokio_tungstenite::tungstenite::Error> for BenchError {
    fn from(error: tokio_tungstenite::tungstenite::Error) -> Self {
        Self::Socket(Box::new(error))
    }
}

/// Amount, duration and repetitions of the measurements.
#[derive(Debug)]
struct Plan {
    /// Number of interleaved pairs.
    pairs: usize,
    /// Duration of one measurement of throughput.
    span: Duration,
    /// Round trips of one measurement of latency.
    trips: usize,
    /// Events of a long thread.
    events: u64,
    /// Messages of a long thread.
    messages: usize,
    /// Followers of one thread under load.
    followers: usize,
    /// Runs that are streamed at once.
    streams: usize,
    /// Number of idle subscribers.
    idle: usize,
    /// Events per second of `live`; half of the saturation if absent.
    rate: Option<f64>,
    /// Place of the data.
    ground: Ground,
}

impl Plan {
    fn new(args: &BenchArgs, ground: Ground) -> Self {
        let full = Self {
            pairs: 5,
            span: Duration::from_secs(2),
            trips: 1_000,
            events: 100_000,
            messages: 5_000,
            followers: 1_000,
            streams: 500,
            idle: 5_000,
            rate: args.rate,
            ground,
        };
        let quick = |full: Self| Self { pairs: 3, span: Duration::from_millis(700), trips: 300, ..full };
        let tiny = |full: Self| Self {
            pairs: 1,
            span: Duration::from_millis(100),
            trips: 20,
            events: 2_000,
            messages: 20,
            followers: 10,
            streams: 4,
            idle: 10,
            ..full
        };
        match (args.tiny, args.quick) {
            (true, _) => tiny(full),
            (false, true) => quick(full),
            (false, false) => full,
        }
    }
}

/// Runs the measurements and prints the results.
pub async fn run(args: BenchArgs) -> Result<(), BenchError> {
    let ended = |name: &str, result: io::Result<()>| result.map_err(|error| BenchError::Process(name.into(), error));
    match args.workload {
        Workload::Serve => return serve(args).await,
        Workload::Peer => return ended("peer", peer::serve().await),
        Workload::Naive => return ended("naive", naive::serve().await),
        _ => {}
    }
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: the figures say nothing about a release.");
    }
    let ground = match (&args.store, &args.redis) {
        (Some(store), Some(redis)) => Ground::Servers(Box::new(Servers::new(store, redis).await?)),
        _ if args.workload == Workload::Start => return Err(BenchError::Alone),
        _ => Ground::Directory(TempDir::new(&directory(&args))?),
    };
    let plan = Plan::new(&args, ground);
    let mut report = Report::new();
    let measured = tokio::select! {
        measured = measure(args.workload, &plan, &mut report) => measured,
        () = asked_to_stop() => Err(BenchError::Stopped),
    };
    let cleared = plan.ground.clear().await;
    measured.and(cleared)?;
    report.print(args.json).map_err(BenchError::Print)
}

fn directory(args: &BenchArgs) -> PathBuf {
    args.dir.clone().unwrap_or_else(std::env::temp_dir)
}

/// Completes on Ctrl-C or SIGTERM, so that the created data can be removed.
async fn asked_to_stop() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        Ok(()) = tokio::signal::ctrl_c() => {}
        Some(()) = terminate.recv() => {}
        else => std::future::pending().await,
    }
}

async fn measure(workload: Workload, plan: &Plan, report: &mut Report) -> Result<(), BenchError> {
    let wanted = |one| workload == one || workload == Workload::All;
    let mut saturation = None;
    if wanted(Workload::Append) {
        store::measure(plan, report).await?;
        saturation = Some(append::measure(plan, report).await?);
        long::measure(plan, report).await?;
    }
    if wanted(Workload::Ack) {
        ack::measure(plan, report).await?;
    }
    if wanted(Workload::Start) {
        start::measure(plan, report).await?;
    }
    if wanted(Workload::Live) {
        live::measure(plan, saturation, report).await?;
        first::measure(plan, report).await?;
    }
    if wanted(Workload::Doors) {
        doors::measure(plan, report).await?;
    }
    if wanted(Workload::Fanout) {
        fanout::measure(plan, report).await?;
    }
    if wanted(Workload::Replay) {
        replay::measure(plan, report).await?;
    }
    if wanted(Workload::Resume) {
        resume::measure(plan, report).await?;
    }
    if wanted(Workload::Messages) {
        messages::measure(plan, report).await?;
    }
    if wanted(Workload::Runner) {
        runner::measure(plan, report).await?;
    }
    if wanted(Workload::Memory) {
        memory::measure(plan, report).await?;
    }
    if wanted(Workload::Disk) {
        disk::measure(plan, report).await?;
    }
    Ok(())
}

/// Runs the measured server, configured like `threadline serve`.
async fn serve(args: BenchArgs) -> Result<(), BenchError> {
    process::raise_file_limit();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut config = ServeConfig::embedded(listen, directory(&args));
    if let Some(store) = args.store {
        config.store = StoreChoice::Postgres(store);
    }
    (config.redis, config.lock_key_prefix) = (args.redis, args.lock_key_prefix);
    let app = App::start(config).await?;
    process::announce(&[app.local_addr().map_err(BenchError::Connection)?]);
    app.run(process::released()).await;
    Ok(())
}

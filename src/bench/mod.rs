//! `threadline bench`: the product beside a bare program that does only what cannot be avoided.
//!
//! Every figure comes as a pair, measured in turn in the same run: absolute numbers change with the machine and the
//! minute, ratios hardly do. Servers run in processes of their own, so that client and server share no runtime.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use crate::app::{App, ServeConfig, StartError};

mod ack;
mod append;
mod bare;
mod disk;
mod fanout;
mod first;
mod followers;
mod generate;
mod live;
mod long;
mod measure;
mod memory;
mod naive;
mod peer;
mod process;
mod replay;
mod report;
mod resume;
mod seeded;
mod socket;
mod store;

pub use generate::Events;
use process::TempDir;
use report::Report;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Durable appends: at the store port, over the socket, and on long threads
    Append,
    /// The time until an acknowledgement
    Ack,
    /// From an append to the sockets of ten followers, at half of the saturation
    Live,
    /// A thousand followers of one thread under load
    Fanout,
    /// A long thread read over one socket
    Replay,
    /// The time until a client that was away has everything it missed
    Resume,
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

/// Arguments of `threadline bench`.
#[derive(Debug, Clone, Args)]
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
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Everything as small as can be, to see whether it works: the figures say nothing.
    #[arg(long, hide = true)]
    pub tiny: bool,
}

/// Why a measurement ended early.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A directory or file cannot be used.
    #[error("cannot use {path}: {1}", path = .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// Nothing can be printed.
    #[error("cannot print the result: {0}")]
    Print(#[source] io::Error),
    /// A process of the measurement failed.
    #[error("the process `bench {0}` failed: {1}")]
    Process(String, #[source] io::Error),
    /// A server of the measurement cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] crate::store::sqlite::OpenError),
    /// A use case failed.
    #[error("the service failed: {0}")]
    Service(#[from] crate::service::ServiceError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
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
    /// A server of the measurement said something else than was expected.
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

/// How much, how long and how often is measured.
#[derive(Debug, Clone)]
struct Plan {
    /// Interleaved pairs.
    pairs: usize,
    /// Length of one measurement of throughput.
    span: Duration,
    /// Round trips of one measurement of latency.
    trips: usize,
    /// Events of a long thread …
    events: u64,
    /// … and messages of one.
    messages: usize,
    /// Followers of one thread under load.
    followers: usize,
    /// Subscribers that only wait.
    idle: usize,
    /// Events a second that `live` is measured at; half of the saturation if not given.
    rate: Option<f64>,
    /// Where data goes.
    dir: PathBuf,
}

impl Plan {
    fn new(args: &BenchArgs, dir: PathBuf) -> Self {
        let full = Self {
            pairs: 5,
            span: Duration::from_secs(2),
            trips: 1_000,
            events: 100_000,
            messages: 5_000,
            followers: 1_000,
            idle: 5_000,
            rate: args.rate,
            dir,
        };
        let quick = |full: Self| Self { pairs: 3, span: Duration::from_millis(700), trips: 300, ..full };
        let tiny = |full: Self| Self {
            pairs: 1,
            span: Duration::from_millis(100),
            trips: 20,
            events: 2_000,
            messages: 20,
            followers: 10,
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

/// Runs the measurements and prints what they gave.
pub async fn run(args: BenchArgs) -> Result<(), BenchError> {
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let ended = |name: &str, result: io::Result<()>| result.map_err(|error| BenchError::Process(name.into(), error));
    match args.workload {
        Workload::Serve => return serve(dir).await,
        Workload::Peer => return ended("peer", peer::serve().await),
        Workload::Naive => return ended("naive", naive::serve().await),
        _ => {}
    }
    if cfg!(debug_assertions) {
        eprintln!("This is a debug build: the figures say nothing about a release.");
    }
    let home = TempDir::new(&dir)?;
    let plan = Plan::new(&args, home.path().to_owned());
    let mut report = Report::new();
    measure(args.workload, &plan, &mut report).await?;
    report.print(args.json).map_err(BenchError::Print)
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
    if wanted(Workload::Live) {
        live::measure(plan, saturation, report).await?;
        first::measure(plan, report).await?;
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
    if wanted(Workload::Memory) {
        memory::measure(plan, report).await?;
    }
    if wanted(Workload::Disk) {
        disk::measure(plan, report).await?;
    }
    Ok(())
}

/// The server that is measured: as `threadline serve` runs it.
async fn serve(data: PathBuf) -> Result<(), BenchError> {
    process::raise_file_limit();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let app = App::start(ServeConfig::embedded(listen, data)).await?;
    process::announce(&[app.local_addr().map_err(BenchError::Connection)?]);
    app.run(process::released()).await;
    Ok(())
}

//! State that all clients of a run share: the nodes' addresses, whether the run continues, active runs.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use threadline_client::{Backoff, Client, ClientConfig, ClientError};
use threadline_testkit::rng::Rng;
use tokio::time::{Instant, sleep, timeout};

use crate::history::{Class, History, Line, Outcome, Request, What, now};

/// How long a client waits for an answer before it asks another node.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// A whole run waits for the one that is active; a streamed one takes as long as it takes.
const LONG_PATIENCE: Duration = Duration::from_secs(12);
/// How long a client tries again at all.
const PERSISTENCE: Duration = Duration::from_secs(60);

/// How the load is made up.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Threads with one producer.
    pub lanes: usize,
    /// Threads on which producers compete, and how many on each.
    pub contended: usize,
    pub rivals: usize,
    /// Threads whose runs an agent does: the demo, and those of [`crate::callee`] in turn.
    pub agents: usize,
    /// Threads in which turns of agents wait for each other.
    pub queues: usize,
    /// Readers with a socket each; and with an event stream each.
    pub sockets: usize,
    pub streams: usize,
    /// Longest pause between two appends of a run, in milliseconds.
    pub pause: u64,
    /// Most events of one append.
    pub batch: u64,
    /// Shortest and longest time between two faults, in milliseconds.
    pub peace: (u64, u64),
    /// Of 100 answers, so many are thrown away.
    pub dropped: u64,
    /// Of 100 appends, so many go to another node than the one before.
    pub hops: u64,
    /// Of 1,000 pauses, so many are longer than the lease, and the producer continues as if nothing had happened.
    pub stuck: u64,
    /// Of 100 connections of readers, so many begin with the first event again.
    pub anew: u64,
    /// Of 100 runs on a socket, so many are ended by another node while appends are under way.
    pub rude: u64,
}

#[derive(Debug)]
pub struct World {
    pub clients: Vec<Client>,
    pub http: reqwest::Client,
    pub urls: Vec<String>,
    pub size: Size,
    pub seed: u64,
    directory: PathBuf,
    going: AtomicBool,
    /// Where each thread ended, once that is known, and how long readers may take to get there.
    ends: OnceLock<(HashMap<String, u64>, Instant)>,
    pub acknowledged: AtomicU64,
    pub readers: AtomicU64,
    /// Runs under way, and their threads.
    active: Mutex<HashMap<String, String>>,
    /// Observations of any client that must not happen.
    wrongs: History,
}

impl World {
    /// With histories in this directory.
    pub fn new(urls: Vec<String>, size: Size, seed: u64, directory: &Path) -> Arc<Self> {
        let client = |url: &String| {
            let mut config = ClientConfig::new(url.clone());
            config.connect_timeout = Duration::from_secs(1);
            config.request_timeout = LONG_PATIENCE;
            config.backoff = Backoff { base: Duration::from_millis(20), max: Duration::from_millis(200) };
            Client::new(config).expect("a client")
        };
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([]).connect_timeout(Duration::from_secs(1));
        Arc::new(Self {
            clients: urls.iter().map(client).collect(),
            http: http.build().expect("a client"),
            urls,
            size,
            seed,
            directory: directory.to_owned(),
            going: AtomicBool::new(true),
            ends: OnceLock::new(),
            acknowledged: AtomicU64::new(0),
            readers: AtomicU64::new(0),
            active: Mutex::default(),
            wrongs: History::new(directory, "wrong"),
        })
    }

    pub fn history(&self, name: &str) -> History {
        History::new(&self.directory, name)
    }

    /// Whether new runs begin.
    pub fn is_running(&self) -> bool {
        self.going.load(Ordering::Relaxed)
    }

    pub fn end_runs(&self) {
        self.going.store(false, Ordering::Relaxed);
    }

    /// Readers continue until they have read every event, or time is up.
    pub fn end_reading(&self, tails: HashMap<String, u64>, patience: Duration) {
        self.ends.get_or_init(|| (tails, Instant::now() + patience));
    }

    /// Whether a reader with these cursors continues.
    pub fn reads_on<'a>(&self, mut cursors: impl Iterator<Item = (&'a str, u64)>) -> bool {
        let Some((tails, deadline)) = self.ends.get() else { return true };
        let behind = |(thread, cursor)| tails.get(thread).is_some_and(|tail| cursor < *tail);
        Instant::now() < *deadline && cursors.any(behind)
    }

    /// A run is under way from when it was asked for until its producer is done with it.
    pub fn begins(&self, thread: &str, run: &str) {
        self.active().insert(run.to_owned(), thread.to_owned());
    }

    pub fn has_ended(&self, run: &str) {
        self.active().remove(run);
    }

    pub fn under_way(&self) -> u64 {
        self.active().len() as u64
    }

    /// One of the runs under way: `(thread, run)`.
    pub fn any_run(&self, rng: &mut Rng) -> Option<(String, String)> {
        let active = self.active();
        let at = rng.between(0, (active.len() as u64).checked_sub(1)?) as usize;
        active.iter().nth(at).map(|(run, thread)| (thread.clone(), run.clone()))
    }

    fn active(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wrong(&self, class: Class, what: String) {
        self.wrongs.write(&Line::Wrong { class, what });
        self.wrongs.flush();
    }
}

/// One client: it talks to one node until that does not answer.
#[derive(Debug)]
pub struct Caller {
    pub world: Arc<World>,
    pub history: History,
    pub rng: Rng,
    pub node: usize,
}

/// Facts of a success: seq of the first event, whether the run has ended, and the epoch of the log.
pub type Told = (u64, bool, Option<String>);

/// What an answer means.
pub enum Answer<T> {
    Done(T),
    /// The slug of the problem.
    Refused(String),
    /// There was none, or none that is clear.
    Unknown,
    /// It was not waited for.
    Dropped,
}

impl Caller {
    pub fn new(world: Arc<World>, name: &str, stream: u64) -> Self {
        let mut rng = Rng::new(world.seed, stream);
        let node = rng.between(0, world.clients.len() as u64 - 1) as usize;
        Self { history: world.history(name), world, rng, node }
    }

    /// Goes to another node.
    pub fn hop(&mut self) {
        let others = self.world.clients.len() as u64 - 1;
        if others > 0 {
            self.node = (self.node + self.rng.between(1, others) as usize) % self.world.clients.len();
        }
    }

    pub fn client(&self) -> Client {
        self.world.clients[self.node].clone()
    }

    /// Sends one request to the node of the moment, and writes down what came of it. `done` says what is worth noting of
    /// an answer.
    pub async fn ask<T>(
        &mut self,
        thread: &str,
        run: &str,
        what: What,
        request: impl Future<Output = Result<T, ClientError>>,
        done: impl FnOnce(&T) -> Told,
    ) -> Answer<T> {
        let at = now();
        let patience = match what {
            What::Whole { .. } | What::Stream { .. } => LONG_PATIENCE,
            _ => PATIENCE,
        };
        let dropped = self.rng.chance(self.world.size.dropped);
        // Gone before the answer can be read, at any moment from when the request may have been sent.
        let patience = if dropped { Duration::from_micros(self.rng.between(0, 12_000)) } else { patience };
        let answer = timeout(patience, request).await;
        let (outcome, answer) = match answer {
            Err(_) if dropped => (Outcome::Dropped, Answer::Dropped),
            Err(_) => (Outcome::Unknown, Answer::Unknown),
            Ok(Ok(answer)) => {
                let (first, ended, epoch) = done(&answer);
                (Outcome::Done { first, ended, epoch }, Answer::Done(answer))
            }
            Ok(Err(error)) => self.refusal(&error, what),
        };
        let request =
            Request { at, done: now(), node: self.node, thread: thread.to_owned(), run: run.to_owned(), what, outcome };
        self.history.write(&Line::Request(request));
        if matches!(answer, Answer::Unknown) {
            self.hop();
        }
        answer
    }

    fn refusal<T>(&self, error: &ClientError, what: What) -> (Outcome, Answer<T>) {
        match error {
            ClientError::Problem(problem) if problem.status == 500 => {
                self.world.wrong(Class::Lost, format!("node {} answers {what:?} with {problem}", self.node));
                (Outcome::Unknown, Answer::Unknown)
            }
            ClientError::Problem(problem) if problem.status < 500 && !matches!(problem.status, 408 | 429) => {
                let active = problem.facts.get("run").and_then(|run| run["runId"].as_str()).map(str::to_owned);
                let slug = problem.slug.clone();
                (Outcome::Refused { slug: slug.clone(), active }, Answer::Refused(slug))
            }
            ClientError::Protocol(_) | ClientError::Config(_) | ClientError::Event(_) => {
                self.world.wrong(Class::Lost, format!("node {}: {what:?}: {error}", self.node));
                (Outcome::Unknown, Answer::Unknown)
            }
            _ => (Outcome::Unknown, Answer::Unknown),
        }
    }

    /// Waits a moment before the same request is sent again; false if it has been tried for too long.
    pub async fn again(&mut self, since: Instant) -> bool {
        sleep(Duration::from_millis(self.rng.between(5, 120))).await;
        since.elapsed() < PERSISTENCE
    }

    pub async fn breathe(&mut self, most: u64) {
        sleep(Duration::from_millis(self.rng.between(0, most))).await;
    }
}

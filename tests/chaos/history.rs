//! The requests and answers of clients, and the faults: one JSON line per observation. The checker knows only these lines
//! and the data that it reads from the servers at the end.

use std::{
    collections::hash_map::DefaultHasher,
    fs::{self, File},
    hash::Hasher,
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// Microseconds since 1970, by the clock that the store goes by as well.
pub type Micros = u64;

/// Now; it never goes back.
pub fn now() -> Micros {
    static ORIGIN: std::sync::OnceLock<(SystemTime, Instant)> = std::sync::OnceLock::new();
    let (wall, instant) = ORIGIN.get_or_init(|| (SystemTime::now(), Instant::now()));
    (wall.duration_since(UNIX_EPOCH).expect("after 1970") + instant.elapsed()).as_micros() as Micros
}

/// What a producer asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A run with this lease, in seconds.
    Start { lease: u64 },
    /// A run that an agent does.
    Agent,
    /// A run of an agent, which waits while another one is active.
    Enqueue,
    /// Another place of a queued turn, in this version of the queue.
    Move { version: u64 },
    /// The removal of a queued turn.
    Remove,
    /// The release of a queue.
    Release,
    /// Events `from ..` of the run, counted from 1. The last one may be the run's terminal event.
    Append { from: u64, count: u64, terminal: bool },
    /// All events of a run at once.
    Whole { count: u64, terminal: bool },
    /// All events of a run from this one on, one by one: it may be torn between any two.
    Stream { from: u64, count: u64, terminal: bool, lease: u64 },
    /// A sign of life.
    Beat,
    /// Its end.
    Finish,
    /// Its end, badly.
    Fail,
    /// A request of another client that the run stops.
    Stop,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Success. Seq of the first event (append, whole, stream), with the epoch of the log if the answer names it; whether
    /// the run has ended.
    Done { first: u64, ended: bool, epoch: Option<String> },
    /// A clear no: the slug of the problem; of `run-active` the run that holds the thread.
    Refused { slug: String, active: Option<String> },
    /// No answer, or one that leaves it open.
    Unknown,
    /// The answer was thrown away on purpose.
    Dropped,
}

impl Outcome {
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Unknown | Self::Dropped)
    }
}

/// A request, from its first byte to its answer (or to giving up).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub at: Micros,
    pub done: Micros,
    pub node: usize,
    pub thread: String,
    pub run: String,
    pub what: What,
    pub outcome: Outcome,
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    KillNode,
    KillPostgres,
    KillRedis,
    /// SIGSTOP for longer than any lease.
    StopNode,
    StopPostgres,
    /// Connections are cut, refused, or torn in the middle of an answer.
    Cut,
    /// Everything comes later.
    Delay,
    /// Connections stay open and nothing moves.
    Stall,
    Flushall,
    /// The bus delivers old, doubled and false hints to nodes.
    FalseHints,
    DiskFull,
    /// SIGTERM, and started again.
    RestartNode,
    /// The primary is killed, and a standby takes its place that does not have the newest commits.
    PromoteStandby,
}

impl Kind {
    pub const ALL: [Self; 13] = [
        Self::KillNode,
        Self::KillPostgres,
        Self::KillRedis,
        Self::StopNode,
        Self::StopPostgres,
        Self::Cut,
        Self::Delay,
        Self::Stall,
        Self::Flushall,
        Self::FalseHints,
        Self::DiskFull,
        Self::RestartNode,
        Self::PromoteStandby,
    ];

    /// Whether no node can commit anything meanwhile.
    pub fn stops_the_store(self) -> bool {
        matches!(self, Self::KillPostgres | Self::StopPostgres | Self::DiskFull | Self::PromoteStandby)
    }

    /// As it is written in reports.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// A fault, from its beginning until what was broken is whole again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: Kind,
    /// The node that it hit, if it was one.
    pub node: Option<usize>,
    pub begin: Micros,
    pub end: Micros,
    pub note: String,
    /// The commits that it may have lost. At `end` all nodes have adopted the history without them.
    pub loss: Option<Loss>,
}

/// The commits that a failover may have lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Events that were acknowledged before are on the standby.
    pub since: Micros,
    /// The primary was killed: requests that were sent later are answered from the standby's history.
    pub until: Micros,
}

/// What kind of promise is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    Lost,
    Duplicated,
    Interleaved,
    Unfinished,
}

/// One observation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    Request(Request),
    Fault(Fault),
    /// A reader was accepted: with this cursor, at a log of this epoch and tail.
    Joined {
        /// When it sent its request.
        asked: Micros,
        at: Micros,
        reader: String,
        thread: String,
        after: u64,
        epoch: String,
        tail: u64,
    },
    /// A reader was sent these events: the digest of each.
    Read {
        at: Micros,
        reader: String,
        thread: String,
        first: u64,
        digests: Vec<u32>,
    },
    /// A reader was told that the log continues under another epoch.
    Rebased {
        at: Micros,
        reader: String,
        thread: String,
        from: String,
        epoch: String,
        after: u64,
    },
    /// A reader was told that it has seen lost events, and up to which seq its events are those of the present log.
    Replaced {
        at: Micros,
        reader: String,
        thread: String,
        epoch: Option<String>,
        common: Option<u64>,
    },
    /// Where a reader stood at the end, after it had time to catch up.
    Stood {
        reader: String,
        thread: String,
        cursor: u64,
    },
    /// A run as a primary had it, before it was killed or at the end.
    Fence {
        thread: String,
        fence: u64,
        run: String,
        /// In milliseconds since 1970.
        started: u64,
    },
    /// An agent was called.
    Called {
        at: Micros,
        thread: String,
        run: String,
        attempt: u64,
        /// `recovery` of the agent.
        recovery: String,
    },
    /// An agent carried out the effect of a tool call.
    Effect {
        at: Micros,
        thread: String,
        run: String,
        call: String,
    },
    /// The queue of a thread as its only client saw it.
    Order {
        /// When it sent its request.
        asked: Micros,
        at: Micros,
        thread: String,
        version: u64,
        runs: Vec<String>,
    },
    /// A node said that it was ready.
    Ready {
        at: Micros,
        done: Micros,
        node: usize,
    },
    /// Something that cannot be right, whatever is found later.
    Wrong {
        class: Class,
        what: String,
    },
    /// Runs under way at a moment, and readers.
    Sample {
        runs: u64,
        readers: u64,
    },
}

/// The file of one client.
#[derive(Debug, Clone)]
pub struct History(Arc<Mutex<BufWriter<File>>>);

impl History {
    pub fn new(directory: &Path, name: &str) -> Self {
        let file = File::create(directory.join(format!("{name}.ndjson"))).expect("a file");
        Self(Arc::new(Mutex::new(BufWriter::new(file))))
    }

    pub fn write(&self, line: &Line) {
        let mut text = serde_json::to_vec(line).expect("JSON");
        text.push(b'\n');
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text).expect("room for the history");
    }

    pub fn flush(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush().expect("room for the history");
    }
}

/// Reads all histories of a directory.
pub fn read(directory: &Path) -> Vec<Line> {
    let files = fs::read_dir(directory).expect("a directory of histories").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "ndjson")).collect();
    files.sort();
    let mut lines = Vec::new();
    for path in files {
        for line in BufReader::new(File::open(&path).expect("a history")).lines() {
            let line = line.expect("text");
            lines.push(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{path:?}: {error}: {line}")));
        }
    }
    lines
}

/// Digest of an event as a reader sees it: run and payload, byte for byte. The same in all processes of this program.
pub fn digest(run: &str, payload: &[u8]) -> u32 {
    let mut hasher = DefaultHasher::new();
    for part in [run.as_bytes(), payload] {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    hasher.finish() as u32
}

/// Event `number` of a run, counted from 1. Events are a function of their number: no client has to keep them.
pub fn payload(run: &str, number: u64, terminal: bool) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(run.as_bytes());
    hasher.write_u64(number);
    let mut chance = hasher.finish();
    let mut pad = String::new();
    for _ in 0..chance % 10 {
        chance = chance.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (chance >> 29);
        pad.push_str(&format!("{chance:016x}"));
    }
    let kind = match number {
        _ if terminal && chance.is_multiple_of(4) => "RUN_ERROR",
        _ if terminal => "RUN_FINISHED",
        1 => "RUN_STARTED",
        _ => "CUSTOM",
    };
    format!(r#"{{"type":"{kind}","threadId":"t","runId":"{run}","id":"{run}#{number}","pad":"{pad}"}}"#)
}

/// Events of a run, one a line.
pub fn lines(run: &str, from: u64, count: u64, terminal: bool) -> String {
    let last = from + count - 1;
    let lines: Vec<_> = (from..=last).map(|number| payload(run, number, terminal && number == last)).collect();
    lines.join("\n")
}

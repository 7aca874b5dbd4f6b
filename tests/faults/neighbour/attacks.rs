//! Attacks of one user with a token that names no scopes, or of one address, each at the full quota.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use threadline_core::limits::{SOCKET_PINGS, USER_REQUEST_BURST, USER_REQUESTS_PER_SECOND};
use tokio::runtime;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    foe::Foe,
    pace,
    world::{ATTACKERS, World},
};

/// Time between two requests of a task, if they are answered sooner: together the tasks send more than a user may.
pub const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of the thread that is folded and scanned, about.
const LONG: usize = 8 * 1_024 * 1_024;
/// Items of a state that a user may read, and of one whose tree is larger than the memory of the server. An activity has as many
/// again. Each item takes about 450 bytes as a tree.
const ITEMS: usize = 15_000;
const ALL_ITEMS: usize = 400_000;
/// Deltas of these states: positions to read them at.
const DELTAS: usize = 200;
/// Threads that are searched.
const SEARCHED: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// States and messages of a long thread as of positions in it.
    Folds,
    /// Large states as of positions in their threads. Every second one is larger than its reader's share of the memory.
    Trees,
    /// Pages of CopilotKit that continue after an event which the thread does not have.
    Cursors,
    /// Searches for a name that no thread has.
    Searches,
    /// Pings of two kinds, as many as the server reads.
    Pings,
    /// Messages of sockets of which the end does not come.
    HalfMessages,
    /// Requests of which the head has no end.
    HalfHeads,
}

/// Requests, sockets and frames of an attack.
#[derive(Debug, Default)]
pub struct Counts {
    /// Number sent.
    pub sent: AtomicU64,
    /// Number that the server did something for.
    pub served: AtomicU64,
    /// Number refused.
    pub refused: AtomicU64,
}

/// An attack under way, on a thread of its own: what attackers compute must not delay the victims' side of the test. The attack ends
/// with [`Attackers::end`], or when it is dropped.
pub struct Attackers {
    stop: DropGuard,
    thread: JoinHandle<()>,
    counts: Arc<Counts>,
}

impl Attack {
    pub const ALL: [Self; 7] =
        [Self::Folds, Self::Trees, Self::Cursors, Self::Searches, Self::Pings, Self::HalfMessages, Self::HalfHeads];

    pub fn name(self) -> &'static str {
        match self {
            Self::Folds => "folds",
            Self::Trees => "trees",
            Self::Cursors => "cursors",
            Self::Searches => "searches",
            Self::Pings => "pings",
            Self::HalfMessages => "half-messages",
            Self::HalfHeads => "half-heads",
        }
    }

    /// Limits of which the attack reaches at least one.
    pub fn limits(self) -> &'static [&'static str] {
        match self {
            Self::Folds | Self::Trees | Self::Cursors | Self::Searches => {
                &["userWork", "userWorkPerSecond", "userRequestsPerSecond"]
            }
            Self::Pings => &["userRequestsPerSecond"],
            Self::HalfMessages => &["userSockets"],
            Self::HalfHeads => &["connectionsPerAddress"],
        }
    }

    /// Number of pings that may be answered in this time, with room for those that arrive together.
    pub fn most_pongs(self, time: Duration) -> u64 {
        let sockets = self.tasks() as u64 / 2 * u64::from(SOCKET_PINGS);
        let (at_once, a_second) = (sockets + USER_REQUEST_BURST, sockets + USER_REQUESTS_PER_SECOND);
        2 * (at_once + a_second * (time.as_secs() + 1))
    }

    /// Address for the server to listen on: connections of this machine to itself have no share.
    pub fn listens_on(self) -> &'static str {
        if self == Self::HalfHeads { "0.0.0.0:0" } else { "127.0.0.1:0" }
    }

    fn tasks(self) -> usize {
        match self {
            Self::Folds | Self::Trees | Self::Searches => 24,
            Self::Cursors => 28,
            Self::Pings => 32,
            Self::HalfMessages => 36,
            Self::HalfHeads => 4,
        }
    }

    /// An attacker whose quota nothing was taken from.
    pub async fn prepare(self, world: &World, number: usize) -> Foe {
        let name = format!("mallory-{number}");
        let backend = world.operator(Some(ATTACKERS), Some(&name));
        let mut tail = 0;
        match self {
            Self::Folds | Self::Cursors => {
                backend.done(Method::POST, "/v1/threads", json!({ "threadId": name }).to_string()).await;
                backend.done(Method::PUT, &format!("/v1/threads/{name}/runs/r"), long_run()).await;
                let thread = backend.done(Method::GET, &format!("/v1/threads/{name}"), String::new()).await;
                tail = thread["tail"].as_u64().expect("a tail");
            }
            Self::Trees => {
                for (thread, items) in [(name.clone(), ITEMS), (format!("{name}-all"), ALL_ITEMS)] {
                    backend.done(Method::POST, "/v1/threads", json!({ "threadId": thread }).to_string()).await;
                    let run = format!("/v1/threads/{thread}/runs/r");
                    backend.done(Method::PUT, &run, state_of(items)).await;
                    let thread = backend.done(Method::GET, &format!("/v1/threads/{thread}"), String::new()).await;
                    tail = thread["tail"].as_u64().expect("a tail");
                }
            }
            Self::Searches => {
                let make = async |part: usize| {
                    for n in 0..SEARCHED / 20 {
                        let body = json!({ "name": format!("Notes of meeting {n} in room {part}") }).to_string();
                        backend.done(Method::POST, "/v1/threads", body).await;
                    }
                };
                join_all((0..20).map(make)).await;
            }
            Self::Pings | Self::HalfMessages | Self::HalfHeads => {}
        }
        Foe { caller: world.user(ATTACKERS, &name).await, name, tail }
    }

    /// Begins the attack.
    pub fn begin(self, foe: Foe) -> Attackers {
        let (stop, counts) = (CancellationToken::new(), Arc::<Counts>::default());
        let (stopped, counted) = (stop.clone(), counts.clone());
        let thread = thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let attacks = async {
                join_all((0..self.tasks()).map(|task| self.attack(&foe, &counted, task))).await;
            };
            runtime.block_on(stopped.run_until_cancelled(attacks));
        });
        Attackers { stop: stop.drop_guard(), thread, counts }
    }

    async fn attack(self, foe: &Foe, counts: &Counts, task: usize) {
        let mut pace = pace(PAUSE);
        for turn in 0_u64.. {
            pace.tick().await;
            counts.sent(1);
            let at = 1 + (task as u64 * 7_919 + turn * 104_729) % foe.tail.max(1);
            match self {
                Self::Folds => {
                    let what = if turn.is_multiple_of(2) {
                        format!("state?at={at}")
                    } else {
                        format!("messages?limit=5&at={at}")
                    };
                    foe.get(&format!("/v1/threads/{}/{what}", foe.name), counts).await;
                }
                Self::Trees => {
                    let which = if turn.is_multiple_of(2) { "" } else { "-all" };
                    foe.get(&format!("/v1/threads/{}{which}/state?at={at}", foe.name), counts).await;
                }
                Self::Searches => {
                    foe.get("/v1/threads?search=nothing%20at%20all", counts).await;
                }
                Self::Cursors => {
                    foe.scan(&format!("unknown-{task}-{turn}"), counts).await;
                }
                Self::Pings => foe.ping(task, counts).await,
                Self::HalfMessages => foe.half_message(counts).await,
                Self::HalfHeads => foe.half_heads(counts).await,
            }
        }
    }
}

impl Attackers {
    /// Ends the attack; returns what was sent.
    pub fn end(self) -> Arc<Counts> {
        drop(self.stop);
        self.thread.join().expect("an attacker was answered as it may be");
        self.counts
    }
}

impl Counts {
    pub fn sent(&self, number: u64) {
        self.sent.fetch_add(number, Relaxed);
    }

    pub fn served(&self) {
        self.served.fetch_add(1, Relaxed);
    }

    /// Counts an answer by its status.
    pub fn answer(&self, status: u16) {
        match status {
            200 => self.served(),
            422 | 429 | 503 => drop(self.refused.fetch_add(1, Relaxed)),
            status => panic!("the status of an answer is {status}"),
        }
    }
}

/// A run with a state and an activity of so many items each, and deltas after them.
fn state_of(items: usize) -> String {
    let list = vec!["{\"a\":0}"; items].join(",");
    let activity = format!(
        "{{\"type\":\"ACTIVITY_SNAPSHOT\",\"messageId\":\"v\",\"activityType\":\"list\",\"content\":{{\"list\":[{list}]}}}}"
    );
    let mut events = vec![activity, format!("{{\"type\":\"STATE_SNAPSHOT\",\"snapshot\":[{list}]}}")];
    for n in 0..DELTAS {
        let delta = json!([{ "op": "replace", "path": format!("/{n}/a"), "value": n }]);
        events.push(json!({ "type": "STATE_DELTA", "delta": delta }).to_string());
    }
    format!("[{}]", events.join(","))
}

/// A run of about [`LONG`] bytes: answers of some thousand characters each, word by word, with a state after each.
fn long_run() -> String {
    let mut events = Vec::new();
    let (mut bytes, delta) = (0, "0123456789 ".repeat(10));
    for n in 0.. {
        let message = format!("m{n}");
        events.push(json!({ "type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant" }).to_string());
        for _ in 0..20 {
            let part = json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": delta }).to_string();
            bytes += part.len();
            events.push(part);
        }
        events.push(json!({ "type": "TEXT_MESSAGE_END", "messageId": message }).to_string());
        events.push(json!({ "type": "STATE_SNAPSHOT", "snapshot": { "step": n, "done": [n] } }).to_string());
        if bytes >= LONG {
            return format!("[{}]", events.join(","));
        }
    }
    unreachable!("it ends")
}

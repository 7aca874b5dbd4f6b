//! Seeds, paused time and events.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    Clock, Credential, NewEvents, NewThread, Principal, ProjectId, ReadFrom, RunId, Thread, ThreadId, ThreadKey,
    Timestamp, UserId,
};
use threadline_engine::{CreateThread, Opening, PageRequest, Ports, Service, StartRequest, StartedRun};
use threadline_store::{DynStore, ThreadStore, memory::MemoryStore};

use crate::{
    probe::{Intercept, Probe},
    seeds::Announce,
};

pub use crate::seeds::seeds;

/// SplitMix64: small, and the same everywhere.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_millis(self.below(bound))
    }

    /// A generator of its own for a part of the test, so that parts do not disturb each other's choices.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }
}

/// Runs one seed on a runtime of its own, on paused time.
pub fn run_seed<T>(seed: u64, work: impl Future<Output = T>) -> T {
    let _announce = Announce(seed);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("runtime").block_on(work)
}

/// Events from lines of JSON.
pub fn events(lines: &[impl AsRef<str>]) -> NewEvents {
    let text: Vec<_> = lines.iter().map(AsRef::as_ref).collect();
    NewEvents::from_ndjson(text.join("\n").as_bytes()).expect("events")
}

/// `count` events, identified by `name` and a number.
pub fn numbered(name: &str, count: usize) -> NewEvents {
    let lines: Vec<_> = (0..count).map(|n| format!(r#"{{"type":"X","name":"{name}","n":{n}}}"#)).collect();
    events(&lines)
}

pub fn project() -> ProjectId {
    ProjectId::new("p").expect("id")
}

pub fn user(name: &str) -> Principal {
    Principal::user(project(), UserId::new(name).expect("id"))
}

/// An untrusted client of a user.
pub fn client(name: &str) -> Principal {
    let credential = Credential::Token { expires_at: Timestamp(i64::MAX), signer: None, by: None, issued_at: None };
    Principal { credential, ..user(name) }
}

pub fn run_id(name: &str) -> RunId {
    RunId::new(name).expect("id")
}

pub fn thread_id(name: &str) -> ThreadId {
    ThreadId::new(name).expect("id")
}

pub fn new_run(name: &str) -> StartRequest {
    StartRequest { run: Some(run_id(name)), ..StartRequest::default() }
}

pub fn complete_run(name: &str, events: NewEvents) -> StartRequest {
    StartRequest { opening: Opening::Complete(events), ..new_run(name) }
}

/// A thread made straight in the store.
pub async fn make_thread(store: &MemoryStore, id: &str) -> Thread {
    let new = NewThread {
        project: project(),
        id: thread_id(id),
        user: UserId::new("alice").expect("id"),
        agent: None,
        name: None,
        metadata: "{}".into(),
        created_with: String::new(),
        request: None,
        claimed: true,
    };
    store.create_thread(new).await.expect("create").thread
}

/// A node over a memory store that can be watched and held up, with a clock that only the test moves.
pub struct Node {
    pub service: Service,
    pub store: Arc<Probe>,
    pub clock: Clock,
    pub alice: Principal,
}

impl Node {
    pub fn start() -> Self {
        let clock = Clock::manual(Timestamp(1_800_000_000_000));
        let store = Arc::new(Intercept::before(Arc::new(MemoryStore::new(clock.clone()))));
        let service = Service::start(Ports::alone(store.clone() as DynStore, clock.clone()));
        Self { service, store, clock, alice: user("alice") }
    }

    /// A thread of this client, made on this node.
    pub async fn thread_of(&self, client: &Principal, id: &str) -> ThreadId {
        let create = CreateThread { id: Some(thread_id(id)), ..CreateThread::default() };
        self.service.threads.create(client, create).await.expect("create").thread.id
    }

    /// Another node over the same store.
    pub fn another(&self) -> Service {
        Service::start(Ports::alone(self.store.clone() as DynStore, self.clock.clone()))
    }

    pub async fn thread(&self, id: &str) -> ThreadId {
        let create = CreateThread { id: Some(thread_id(id)), ..CreateThread::default() };
        self.service.threads.create(&self.alice, create).await.expect("create").thread.id
    }

    pub async fn key(&self, thread: &ThreadId) -> ThreadKey {
        self.service.threads.get(&self.alice, thread).await.expect("thread").key
    }

    pub async fn run(&self, thread: &ThreadId, run: &str) -> StartedRun {
        self.service.runs.start(&self.alice, thread, new_run(run)).await.expect("start")
    }

    /// Lets time go by, for the store as for the tasks.
    pub async fn pass(&self, time: Duration) {
        self.pass_in_steps(time, Duration::from_millis(100)).await;
    }

    /// Like [`Self::pass`], in steps of this length.
    pub async fn pass_in_steps(&self, time: Duration, longest: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(longest);
            self.clock.advance(step);
            tokio::time::sleep(step).await;
            left -= step;
        }
    }

    /// The whole log, one event a line.
    pub async fn log(&self, thread: &ThreadId) -> Vec<String> {
        let request = PageRequest { from: ReadFrom::After(0), limit: 10_000, epoch: None, run: None, wait: None };
        let page = self.service.events.page(&self.alice, thread, request).await.expect("page");
        page.slice.events().map(|(_, event, _)| String::from_utf8_lossy(event).into_owned()).collect()
    }

    /// The types of all events.
    pub async fn types(&self, thread: &ThreadId) -> Vec<String> {
        let value = |line: &String| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        let text = |line: &String| value(line)["type"].as_str().expect("type").to_owned();
        self.log(thread).await.iter().map(text).collect()
    }
}

/// Lets every task do what it can do now.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

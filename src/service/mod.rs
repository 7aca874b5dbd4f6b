//! The use cases. All rules of authorisation and order are here; front doors only translate.
//!
//! A request enters at [`Threads`], [`Runs`], [`Events`] or [`Feed`], always with a
//! [`Principal`](crate::domain::Principal). Behind them run the commit loop (`committer`), the feed writer, the
//! sealer and the reaper.

mod agents;
mod annotations;
mod closing;
mod committer;
mod context;
mod conversations;
mod directory;
mod driving;
#[cfg(feature = "planted")]
mod early;
mod error;
mod events;
mod feed;
mod feed_writer;
mod followers;
mod gate;
mod health;
mod heartbeats;
mod opening;
mod projections;
mod reaper;
mod resolve;
mod retention;
mod run_notices;
mod run_quota;
mod runs;
mod sealer;
mod snapshots;
mod stream_run;
mod submit;
mod threads;
mod users;
mod wakeups;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use tokio::sync::{Semaphore, mpsc};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use agents::AgentDefinitions;
pub use annotations::Annotations;
pub use closing::evicted;
pub use committer::Receipt;
pub use conversations::{Condition, Conversations, Outcome, Save, Saved, Version};
pub use driving::DriveRight;
pub use error::{ActiveRun, ServiceError};
pub use events::{Events, EventsPage, PageRequest};
pub use feed::{Feed, FeedSlice};
pub use followers::{Followers, NodeFollowers};
pub use health::{Readiness, StoreState};
pub use projections::{Projected, Projections};
pub use run_notices::RunNotice;
pub use runs::{NewRun, PendingAppend, Runs, StartedRun};
pub use stream_run::StreamedRun;
pub use submit::{Receipts, Reply, RunRef};
pub use threads::{CreateThread, EditThread, ListRequest, Threads};
pub use users::{Erasure, Users};

use crate::{
    bus::{BusEnd, NodeId, local::LocalBus},
    domain::{
        Clock, Limits,
        limits::{DEFAULT_LEASE, LOCK_HEARTBEAT, MAX_FOLDS, MAX_LEASE, MIN_LEASE},
    },
    lock::{DynLock, local::LocalLock},
    metrics::Metrics,
    quota::Quota,
    store::DynStore,
    subscription::Hub,
};
use context::{Context, Shared};

/// What a node is built on.
pub struct Ports {
    /// The truth.
    pub store: DynStore,
    /// The store's clock, or one that is close to it.
    pub clock: Clock,
    /// The gate in front of the store's lease.
    pub lock: DynLock,
    /// The way to the other nodes.
    pub bus: BusEnd,
    /// How runs hold their threads.
    pub timing: LockTiming,
    /// How much is allowed.
    pub limits: Limits,
}

/// How runs hold their threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockTiming {
    /// How long a run may be silent if its producer names no other time (`lockTtlSeconds`).
    pub ttl: Duration,
    /// How often the lock of an active run is renewed (`lockHeartbeatIntervalSeconds`).
    pub heartbeat: Duration,
}

impl Default for LockTiming {
    fn default() -> Self {
        Self { ttl: DEFAULT_LEASE, heartbeat: LOCK_HEARTBEAT }
    }
}

impl Ports {
    /// Of a node that is alone with its store. `clock` must be the store's.
    pub fn alone(store: DynStore, clock: Clock) -> Self {
        let (lock, bus) = (Arc::new(LocalLock::default()), LocalBus::default().join());
        Self { store, clock, lock, bus, timing: LockTiming::default(), limits: Limits::default() }
    }
}

/// All use cases over one store, with their background tasks.
#[derive(Clone)]
pub struct Service {
    /// Threads.
    pub threads: Threads,
    /// Runs.
    pub runs: Runs,
    /// Reading logs.
    pub events: Events,
    /// Who follows a thread.
    pub followers: Followers,
    /// Reading feeds.
    pub feed: Feed,
    /// Definitions of agents.
    pub agents: AgentDefinitions,
    /// Annotations of threads.
    pub annotations: Annotations,
    /// Messages and state.
    pub projections: Projections,
    /// Conversations as documents.
    pub conversations: Conversations,
    /// Erasing users.
    pub users: Users,
    /// How much everybody may use.
    pub quota: Quota,
    context: Context,
}

impl Service {
    /// Starts the background tasks; call it inside a tokio runtime.
    pub fn start(ports: Ports) -> Self {
        let Ports { store, clock, lock, bus, timing, limits } = ports;
        let quota = Quota::new(limits);
        let (committer, appends) = committer::Committer::new(store.pipelines());
        let (heartbeats, beats) = heartbeats::Heartbeats::new();
        let (sealer, due) = sealer::Sealer::new();
        let (snapshots, worth_one) = snapshots::Snapshots::new();
        let metrics = Metrics::new();
        let context = Context::new(Shared {
            directory: directory::Directory::new(store.clone()),
            store,
            clock,
            hub: Hub::new(metrics.clone()),
            metrics,
            gate: gate::Gate::new(lock, timing.heartbeat),
            health: health::Health::default(),
            bus: bus.bus,
            node: NodeId::generate(),
            census: followers::Census::default(),
            quota: quota.clone(),
            lease: timing.ttl.clamp(MIN_LEASE, MAX_LEASE),
            committer,
            heartbeats,
            feed_writer: feed_writer::FeedWriter::default(),
            run_notices: run_notices::RunNotices::default(),
            sealer,
            snapshots,
            folds: Arc::new(Semaphore::new(MAX_FOLDS)),
            commits: AtomicU64::new(0),
            leaving: CancellationToken::new(),
            draining: CancellationToken::new(),
            stopping: CancellationToken::new(),
            failed: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        for appends in appends {
            context.keep_running("committer::run", committer::run(context.clone(), appends));
        }
        context.keep_running("gate::run", gate::run(context.clone()));
        context.keep_running("wakeups::hear", wakeups::hear(context.clone(), bus.heard));
        context.keep_running("wakeups::listen", wakeups::listen(context.clone()));
        context.keep_running("heartbeats::run", heartbeats::run(context.clone(), beats));
        context.keep_running("feed_writer::run", feed_writer::run(context.clone()));
        context.keep_running("sealer::run", sealer::run(context.clone(), due));
        context.keep_running("snapshots::run", snapshots::run(context.clone(), worth_one));
        context.keep_running("sealer::run_purge", sealer::run_purge(context.clone()));
        context.keep_running("reaper::run", reaper::run(context.clone()));
        context.keep_running("reaper::recheck", reaper::recheck(context.clone()));
        context.keep_running("retention::run", retention::run(context.clone()));
        let (threads, runs) = (Threads { context: context.clone() }, Runs { context: context.clone() });
        let projections = Projections { context: context.clone() };
        let conversations = Conversations {
            context: context.clone(),
            threads: threads.clone(),
            runs: runs.clone(),
            projections: projections.clone(),
        };
        Self {
            threads,
            runs,
            conversations,
            events: Events { context: context.clone() },
            followers: Followers { context: context.clone() },
            feed: Feed { context: context.clone() },
            agents: AgentDefinitions { context: context.clone() },
            annotations: Annotations { context: context.clone() },
            projections,
            users: Users { context: context.clone() },
            quota,
            context,
        }
    }

    /// Cancelled once the node is about to shut down: it is not ready any more, and still serves all requests. The caller
    /// that cancels it calls [`Service::drain`] after a while.
    pub fn leaving(&self) -> CancellationToken {
        self.context.leaving.clone()
    }

    /// Cancelled once the node is shutting down: long answers are to end, telling their readers `draining`.
    pub fn draining(&self) -> CancellationToken {
        self.context.draining.clone()
    }

    /// Cancelled if the node cannot go on: it is to be ended.
    pub fn failed(&self) -> CancellationToken {
        self.context.failed.clone()
    }

    /// Does at once what the loop of retention does from time to time.
    pub async fn retain(&self) -> Result<(), ServiceError> {
        retention::sweep(&self.context).await
    }

    /// The store's clock, or one that is close to it.
    pub fn clock(&self) -> &Clock {
        &self.context.clock
    }

    /// The runs that begin and end on this node from now on, for the first who asks; so many wait, more are left out.
    pub fn run_notices(&self, room: usize) -> Option<mpsc::Receiver<RunNotice>> {
        self.context.run_notices.watch(room)
    }

    /// The hub of this node.
    pub fn hub(&self) -> &Hub {
        &self.context.hub
    }

    /// First half of the end: nothing new is started, readers and streamed runs are told to go.
    pub fn drain(&self) {
        self.context.leaving.cancel();
        self.context.draining.cancel();
    }

    /// Second half: commits what was handed in, then ends the background tasks.
    pub async fn stop(&self) {
        self.drain();
        self.context.stopping.cancel();
        self.context.tasks.close();
        self.context.tasks.wait().await;
    }
}

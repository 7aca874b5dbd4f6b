//! Use cases of Threadline. All rules of authorization and order are here; the APIs only translate.
//!
//! A request enters at [`Threads`], [`Runs`], [`Events`] or [`Feed`], always with a
//! [`Principal`](threadline_core::Principal). Behind them run the commit loop (`committer`), the feed writer, the
//! jobs and the reaper.

mod after_commit;
mod assembly;
mod authority;
pub mod close_schedule;
pub mod cluster;
mod commit;
pub mod credentials;
mod directory;
mod errors;
pub mod health;
mod lifecycle;
pub mod limits;
mod lineage;
pub mod metrics;
mod nodes;
mod read;
mod records;
mod removals;
mod run_counts;
mod runs;
mod store_status;
pub mod subscription;
mod upkeep;
mod usecases;
mod wakeups;

use std::{sync::Arc, time::Duration};

use threadline_core::{
    Clock, Limits, Node, Timestamp,
    limits::{DEFAULT_LEASE, LOCK_HEARTBEAT},
};
use threadline_store::{DynStore, StoreClock};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    close_schedule::CloseSchedule,
    cluster::{
        bus::{BusEnd, local::LocalBus},
        lock::{DynLock, local::LocalLock},
        witness::RedisWitness,
    },
    commit::committer,
    lifecycle::Lifecycle,
    limits::{FairQueue, MemoryBudget, Quota, SpaceProbe, StoredBytes},
    metrics::{GaugeSnapshot, Metrics},
    subscription::Hub,
    upkeep::{retention, run_notices},
};
pub use threadline_core::{CreatedThread, StoreError};
pub use threadline_store::QueuedTurn;

pub use crate::{
    commit::{
        receipt::AppendReceipt,
        requests::{CommitReply, ReceiptStream},
    },
    errors::{
        ActiveRun, AgentDataError, AppendError, ApproveError, AttemptError, BranchError, ChangeThreadError, ClaimError,
        CompleteRunError, CreateThreadError, DataLimit, DeleteThreadError, DrainingError, EditThreadError, EndRunError,
        EraseError, FeedError, FinishError, ForkError, HeartbeatError, InvalidRequestError, ListError, LookupError,
        MarkReadError, PageError, ProjectionError, QueueError, QueueLimit, ReadError, RestoreError, RoomError,
        RunLookupError, SaveError, ServiceError, StartError, StopError, StreamRunError, ValidateError,
    },
    health::{Readiness, RedisState},
    nodes::{BeatMeasure, NodeState},
    read::{
        events::{Backwards, Events, EventsPage, PageRequest},
        feed::{Feed, FeedSlice},
        followers::{Followers, NodeFollowers},
        held::HeldConversation,
        projections::{Projected, Projections},
    },
    records::{ListCursor, Page, RunAt, RunNotice, ThreadAt},
    removals::{Removal, Removals},
    runs::{
        PendingAppend, Runs,
        close::evicted,
        driving::DriveRight,
        ndjson::StreamedRun,
        queued_turn::{Enqueued, PlacedTurn, ThreadQueue, TurnEdit, TurnRequest},
        run_writer::{ReadEvents, Resent, RunWriter, Silence, SilentLease, WriteExit, WritePolicy},
        start::{Opening, StartRequest, StartedRun},
        submit::RunRef,
        takeover::{ClaimedTurn, NextAttempt, TurnState},
    },
    store_status::StoreState,
    usecases::{
        agent_data::api_records::{ApiRecords, Placing, RecordName},
        agent_data::checkpoints::{CheckpointPage, Checkpoints, ListCheckpoints, WholeCheckpoint},
        agent_data::entry_writes::{EntryChange, PutEntry, WriteEntry},
        agent_data::items::{ChangeList, EditList, ItemLists, ListPage},
        agent_data::kv::{FoundEntries, KvDone, KvEntries, KvOp, KvSearch, ListNamespaces},
        agents::{AgentDefinitions, NewDefinition},
        annotations::Annotations,
        attempts::{AttemptRequest, AttemptedRun, Attempts, OnExisting},
        conversations::{Condition, Conversations, Outcome, Save, Saved},
        forks::{ForkThread, ForkedThread, Forks, MessageOrigin},
        inbox::{InboxPage, InboxRequest},
        streams::{
            AppendRequest, Content, ContentError, NewFork, NewStream, StreamConflict, StreamError, StreamFollower,
            StreamPage, Streams,
        },
        threads::{CreateThread, EditThread, ListRequest, Threads},
        tool_claims::ToolClaims,
        trash::Trash,
        users::{Erasure, Users},
        validations::{StreamValidation, Validations},
    },
};

/// Dependencies of a node.
pub struct Ports {
    /// Authoritative storage of threads, events and feeds.
    pub store: DynStore,
    /// Clock of this machine, with which the store's is compared.
    pub clock: Clock,
    /// The gate in front of the store's lease.
    pub lock: DynLock,
    /// Connection to the other nodes.
    pub bus: BusEnd,
    /// Memory of beats outside of the store.
    pub witness: Option<RedisWitness>,
    /// Lease and renewal of run locks.
    pub timing: LockTiming,
    /// Default limits for users and projects.
    pub limits: Limits,
    /// Name of the machine, for people.
    pub node_name: String,
    /// Space of the file system with the data, if the store is on one of this machine.
    pub space: Option<SpaceProbe>,
}

/// Lease and renewal of run locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockTiming {
    /// Lease of a run whose producer requests no other (`lockTtlSeconds`).
    pub ttl: Duration,
    /// Interval at which the lock of an active run is renewed (`lockHeartbeatIntervalSeconds`).
    pub heartbeat: Duration,
}

impl Default for LockTiming {
    fn default() -> Self {
        Self { ttl: DEFAULT_LEASE, heartbeat: LOCK_HEARTBEAT }
    }
}

impl Ports {
    /// Ports of a single node without other nodes. `clock` is this machine's.
    pub fn alone(store: DynStore, clock: Clock) -> Self {
        let (lock, bus) = (Arc::new(LocalLock::default()), LocalBus::default().join());
        let (timing, limits, node_name) = (LockTiming::default(), Limits::default(), String::new());
        Self { store, clock, lock, bus, witness: None, timing, limits, node_name, space: None }
    }
}

/// All use cases over one store, with their background tasks.
#[derive(Clone)]
pub struct Service {
    /// Creates, reads, lists, edits and deletes threads.
    pub threads: Threads,
    /// Starts, appends to, stops and ends runs.
    pub runs: Runs,
    /// Starts runs of producers, and takes them up.
    pub attempts: Attempts,
    /// Forks threads, and lists the branches of conversations.
    pub forks: Forks,
    /// Reads and follows logs.
    pub events: Events,
    /// Lists the followers of a thread.
    pub followers: Followers,
    /// Reads and follows feeds.
    pub feed: Feed,
    /// Stores the definitions of agents.
    pub agents: AgentDefinitions,
    /// Stores and reads annotations of threads.
    pub annotations: Annotations,
    /// Reads and changes item lists of threads.
    pub items: ItemLists,
    /// Reads and writes checkpoints of threads.
    pub checkpoints: Checkpoints,
    /// Reads and writes key-value entries.
    pub kv: KvEntries,
    /// Records that APIs of other protocols keep beside the logs.
    pub api_records: ApiRecords,
    /// Creates, writes and reads plain streams.
    pub streams: Streams,
    /// Validates what producers append.
    pub validations: Validations,
    /// Claims tool calls for clients.
    pub tool_claims: ToolClaims,
    /// Computes messages and state from the log.
    pub projections: Projections,
    /// Saves and reads conversations as documents.
    pub conversations: Conversations,
    /// Erases all data of a user.
    pub users: Users,
    /// Lists and restores threads that retention has put in the trash.
    pub trash: Trash,
    /// Quotas of users and projects.
    pub quota: Quota,
    /// Sums of what users and projects have stored.
    pub stored: StoredBytes,
    /// Queue of the work of clients: folds, scans and searches.
    pub queue: FairQueue,
    /// Memory that requests, responses, messages and folds share.
    pub memory: MemoryBudget,
    hub: Arc<Hub>,
    clock: StoreClock,
    committer: committer::Committer,
    health: Arc<health::Health>,
    notices: Arc<run_notices::RunNotices>,
    retention: Arc<retention::Retention>,
    credential_sweep: Arc<credentials::sweep::CredentialSweep>,
    removals: Arc<Removals>,
    cutoffs: Arc<credentials::Cutoffs>,
    trail: Arc<credentials::Trail>,
    lifecycle: Lifecycle,
}

impl Service {
    /// Cancelled when the node will shut down soon: it is no longer ready, and still serves all requests. The caller
    /// that cancels the token must call [`Service::drain`] later.
    pub fn leaving(&self) -> CancellationToken {
        self.lifecycle.leaving.clone()
    }

    /// Cancelled when the node shuts down: long answers must end, with `draining` as the reason.
    pub fn draining(&self) -> CancellationToken {
        self.lifecycle.draining.clone()
    }

    /// Turns of sockets and streams to be closed, before the node is draining.
    pub fn closing(&self) -> CloseSchedule {
        self.lifecycle.closing.clone()
    }

    /// Cancelled if the node cannot continue and must be ended.
    pub fn failed(&self) -> CancellationToken {
        self.lifecycle.failed.clone()
    }

    /// Runs one pass of retention now, without waiting for the loop.
    pub async fn retain(&self) -> Result<(), StoreError> {
        retention::sweep_all(&self.retention).await
    }

    /// Removes old sign-outs and old entries of the audit log now, without waiting for the loop.
    pub async fn sweep_credentials(&self) -> Result<(), StoreError> {
        self.credential_sweep.once().await
    }

    /// The store's clock: the only time that other nodes share.
    pub fn clock(&self) -> &StoreClock {
        &self.clock
    }

    /// Notices of runs that begin and end on this node from now on, for the first caller. Up to `room` notices wait;
    /// more are dropped.
    pub fn run_notices(&self, room: usize) -> Option<mpsc::Receiver<RunNotice>> {
        self.notices.watch(room)
    }

    /// Hub of the threads and feeds followed on this node.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// First step of the shutdown: no new work starts, and readers and streamed runs end.
    pub fn drain(&self) {
        self.lifecycle.leaving.cancel();
        self.lifecycle.draining.cancel();
    }

    /// Second step of the shutdown: commits queued appends, then ends the background tasks.
    pub async fn stop(&self) {
        self.drain();
        self.lifecycle.stopping.cancel();
        self.lifecycle.join().await;
        if let Err(error) = self.stored.flush().await {
            tracing::warn!(%error, "cannot write how much was stored; the daily count finds it");
        }
    }

    /// State of this node, at most a moment old.
    pub async fn readiness(&self) -> Readiness {
        self.health.readiness().await
    }

    /// Nodes of the installation with their states, those with the newest beats first.
    pub async fn nodes(&self) -> Result<Vec<(Node, NodeState)>, StoreError> {
        self.health.beats.list().await
    }

    /// Time of the store's clock, read from the store.
    pub async fn store_time(&self) -> Result<Timestamp, StoreError> {
        Ok(self.health.store.status().await?.now)
    }

    /// Sign-outs, as this node knows them.
    pub fn cutoffs(&self) -> &Arc<credentials::Cutoffs> {
        &self.cutoffs
    }

    /// Trail of the use of credentials.
    pub fn trail(&self) -> &Arc<credentials::Trail> {
        &self.trail
    }

    /// Removals of this node, for those that are committed without the service.
    pub fn removals(&self) -> &Arc<Removals> {
        &self.removals
    }

    /// Metrics of this node.
    pub fn metrics(&self) -> &Metrics {
        &self.health.metrics
    }

    /// All metrics of this node as OpenMetrics text; `connections` is the number of open connections of the listener.
    pub async fn measured(&self, connections: usize) -> String {
        let (readiness, metrics) = (self.readiness().await, self.metrics());
        for (limit, total) in self.quota.limited() {
            metrics.limited_so_far(limit.as_str(), total);
        }
        metrics.text(&GaugeSnapshot {
            connections,
            commit_queue: self.committer.waiting(),
            topics: self.hub.followed_count(),
            store_up: readiness.store == StoreState::Good,
            redis: readiness.redis.map(RedisState::checks),
            draining: readiness.leaving,
            memory: self.memory.held().map(|(kind, bytes)| (kind.as_str(), bytes)),
            storage_free: self.stored.free(),
        })
    }
}

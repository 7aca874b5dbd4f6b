//! Turns of runs that the server drives: who drives them, and how another node takes them over.
//!
//! A turn is a row for each active run, and for each queued one ([`crate::queue`]). Of a driven one, it names the node that drives the run, and keeps the input that
//! the agent was called with. A turn whose driver is gone is claimed by another node. A claim alone changes nothing for the
//! driver before: only [`TurnStore::take_turn`] gives the run another driver's fence, by compare-and-set on the head.

use async_trait::async_trait;
use threadline_core::{
    AgentId, DriverFence, NewEvents, NodeId, ProjectId, RunId, Seq, ThreadId, ThreadKey, UserId, WriteFence,
};

use crate::{error::StoreResult, runs::Committed};

/// Turn of a run that the server drives, as a start puts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTurn {
    /// Node that drives the run.
    pub driver: NodeId,
    /// Input that the agent is called with, opaque to the store and stored like a secret; `None` if it is not kept.
    pub input: Option<String>,
}

/// Claim of turns without a driver.
#[derive(Debug, Clone)]
pub struct ClaimTurns {
    /// Node that claims, and is their driver from now on.
    pub node: NodeId,
    /// True if turns of nodes whose last beat is [`threadline_core::limits::DRIVER_TTL`] old are claimed too. On SQLite, where
    /// all other processes have ended, their turns are claimed in any case.
    pub judges: bool,
    /// Threads whose turns the node itself drives without knowing of them.
    pub own: Vec<ThreadKey>,
    /// Largest number of turns.
    pub limit: usize,
}

/// Driver that a claimed turn had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// The driver has given the turn up.
    HandedOver,
    /// The node of the driver is lost.
    NodeLost,
    /// The claiming node was the driver, and has lost the task.
    TaskLost,
}

impl Before {
    /// Every value, in the order of the variants.
    pub const ALL: [Self; 3] = [Self::HandedOver, Self::NodeLost, Self::TaskLost];

    /// Stable name, as the log and the metrics have it: the reason of the next attempt.
    pub fn reason(self) -> &'static str {
        match self {
            Self::HandedOver => "hand-over",
            Self::NodeLost => "node-lost",
            Self::TaskLost => "driver-failed",
        }
    }
}

/// Turn that was claimed.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Key of the thread.
    pub key: ThreadKey,
    /// Project (tenant) of the thread.
    pub project: ProjectId,
    /// User who owns the thread.
    pub user: UserId,
    /// Id of the thread.
    pub thread: ThreadId,
    /// Id of the run.
    pub run: RunId,
    /// Agent of the run.
    pub agent: Option<AgentId>,
    /// Fence of the driver before.
    pub driver: DriverFence,
    /// Number of the attempt before; 0: the run began from the queue, and its input is what the client sent.
    pub attempt: u64,
    /// Seq of that attempt's first event, whether or not there is one.
    pub attempt_seq: Seq,
    /// Attempts in a row that were lost without an event that is kept, that attempt excluded.
    pub futile: u64,
    /// True if [`TurnStore::mark_called`] was committed for an attempt of the run.
    pub called: bool,
    /// Input that the agent is called with; `None` if it is not kept, or cannot be opened with the keys of this process.
    pub input: Option<String>,
    /// Driver before the claim.
    pub before: Before,
}

/// The next attempt of a run.
#[derive(Debug, Clone)]
pub struct TakeTurn {
    /// Key of the thread.
    pub key: ThreadKey,
    /// Id of the run, which must be active, without a requested stop.
    pub run: RunId,
    /// Fences that the head must have.
    pub fence: WriteFence,
    /// Tail that the head must have.
    pub tail: Seq,
    /// Node that drives the attempt.
    pub driver: NodeId,
    /// Events that supersede the attempt before.
    pub events: Option<NewEvents>,
    /// Attempts in a row that were lost without an event that is kept.
    pub futile: u64,
    /// Input that is kept from now on, opaque to the store and stored like a secret; `None`: the one that is kept stays.
    pub input: Option<String>,
}

/// Effect of a takeover.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The run and the head, which has the fence of the new driver, and the events.
    pub committed: Committed,
    /// True if [`TurnStore::mark_called`] was committed before. A claim may not have seen it: the driver before was alive.
    pub called: bool,
}

/// Turns of driven runs.
#[async_trait]
pub trait TurnStore: Send + Sync {
    /// Makes a node the driver of turns that have none.
    async fn claim_turns(&self, claim: &ClaimTurns) -> StoreResult<Vec<Turn>>;

    /// Threads and runs whose turns a node drives.
    async fn turns_of(&self, node: NodeId) -> StoreResult<Vec<(ThreadKey, RunId)>>;

    /// Begins the next attempt of a run under the fence of another driver. `None`: the head is not as expected, or a stop
    /// was requested, and nothing was changed.
    async fn take_turn(&self, take: TakeTurn) -> StoreResult<Option<Taken>>;

    /// Notes that the agent is called. False if the run has another driver by now, or has ended.
    async fn mark_called(&self, key: ThreadKey, run: &RunId, driver: DriverFence) -> StoreResult<bool>;

    /// Gives a turn up, so that any node claims it. Nothing is changed if the run has another driver by now.
    async fn leave_turn(&self, key: ThreadKey, run: &RunId, driver: DriverFence) -> StoreResult<()>;
}

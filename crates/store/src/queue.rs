//! Queue of a thread: turns that begin once the active run has ended.
//!
//! Each change is computed from what was read, and written if the head still has the version that was read. The end of a run before
//! queued turns and the begin of the next one are one commit, [`QueueStore::advance`].

use async_trait::async_trait;
use threadline_core::{AgentId, Author, Hold, KeyId, ProjectId, QueueState, RunId, ThreadKey, Timestamp, UserId};

use crate::{
    Closing, Head, StoreResult,
    runs::{CloseWhen, Committed, Due},
};

/// Turn that waits in a queue. Its run has the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedTurn {
    /// Id of the run that it becomes.
    pub run: RunId,
    /// Agent that is asked.
    pub agent: AgentId,
    /// Caller that asked for it.
    pub asked_by: Option<Author>,
    /// API key of the caller, or the one that made the caller's token; `None` if there is none.
    pub key: Option<KeyId>,
    /// Time at which it was asked.
    pub at: Timestamp,
    /// Input that the client sent, opaque to the store and stored like a secret; `None` if it cannot be opened with the keys of this
    /// process.
    pub input: Option<String>,
}

/// Queue of a thread, read in one statement.
#[derive(Debug, Clone)]
pub struct Queue {
    /// Head of the thread, with the state of the queue.
    pub head: Head,
    /// Open interrupts of the thread, see [`threadline_core::interrupt::after`].
    pub interrupts: Option<String>,
    /// Queued turns, the next one first.
    pub turns: Vec<QueuedTurn>,
}

/// Change of a queue. Nothing is changed if the head has another version of the queue by now.
#[derive(Debug, Clone)]
pub struct ChangeQueue {
    /// Key of the thread.
    pub key: ThreadKey,
    /// State that the head must have: its version, and the fence of the newest run. A run that began since may have the id of `new`.
    pub seen: Head,
    /// All turns that stay or come, the next one first.
    pub order: Vec<RunId>,
    /// Turn that comes: one of `order`.
    pub new: Option<QueuedTurn>,
    /// Turn that stays and asks something else, with its new input.
    pub edited: Option<(RunId, String)>,
    /// Turns that leave without a run.
    pub gone: Vec<RunId>,
    /// Hold of the queue from now on.
    pub held: Option<Hold>,
}

/// End of the active run before queued turns, or the begin of the next turn in a free thread, or both in one commit. Nothing is
/// changed if the head has another version of the queue by now.
#[derive(Debug, Clone)]
pub struct Advance {
    /// Key of the thread.
    pub key: ThreadKey,
    /// End of the active run; `None`: no run is active.
    pub end: Option<(Closing, CloseWhen)>,
    /// State of the queue that the head must have.
    pub seen: QueueState,
    /// Turn that begins. Its run has no driver yet: a node claims its turn and then appends its first events.
    pub next: Option<RunId>,
    /// Turns that leave without a run.
    pub dropped: Vec<RunId>,
    /// Hold of the queue from now on.
    pub held: Option<Hold>,
}

impl Advance {
    /// State of the queue afterwards.
    pub(crate) fn after(&self) -> QueueState {
        let left = (self.dropped.len() + usize::from(self.next.is_some())) as u64;
        let queued = self.seen.queued.saturating_sub(left);
        let changes = left > 0 || self.held != self.seen.held;
        QueueState { version: self.seen.version + u64::from(changes), queued, held: Hold::over(self.held, queued) }
    }
}

/// Effect of a call of [`QueueStore::advance`].
#[derive(Debug, Clone)]
pub struct Advanced {
    /// The run that has ended, with the head after the commit and the events of the end; without an end the run that began.
    pub committed: Committed,
    /// The run that began.
    pub begun: Option<threadline_core::Run>,
}

/// Queues of threads: reads and changes.
#[async_trait]
pub trait QueueStore: Send + Sync {
    /// Reads a queue; `None` if the thread is gone.
    async fn queue(&self, key: ThreadKey) -> StoreResult<Option<Queue>>;

    /// Changes a queue. `None`: the head is not as it was seen, or the thread has a run or a turn of the new turn's id; nothing was
    /// changed.
    async fn change_queue(&self, change: ChangeQueue) -> StoreResult<Option<Head>>;

    /// Ends the active run, begins the next turn, or both. `None`: the head is not as it was seen (or, with
    /// [`CloseWhen::IfDue`], the run is not due), and nothing was changed.
    async fn advance(&self, advance: Advance) -> StoreResult<Option<Advanced>>;

    /// Free threads whose queue moves: turns are queued, nothing holds them, and no interrupt is open. Keys above `after`.
    async fn moving_queues(&self, after: Option<ThreadKey>, limit: usize) -> StoreResult<Vec<Due>>;

    /// Number of queued turns of a user, counted up to `bound`.
    async fn queued_turns(&self, project: &ProjectId, user: &UserId, bound: u64) -> StoreResult<u64>;
}

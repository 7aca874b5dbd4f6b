//! Records of threads, logs and feeds, as the store answers them.

use threadline_core::{
    AgentId, DriverFence, Epoch, FeedCursor, FeedEntry, FeedHead, Fence, Generation, ListOrder, ListPosition,
    LogHistory, LogSlice, NewEvents, PriorEpoch, ProjectId, QueueState, ReadFrom, RunId, Seq, Thread, ThreadKey,
    ThreadStatus, Timestamp, UserId, WriteFence,
};

use crate::{StoreError, StoreResult, damage};

/// The head row of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Key of the thread that the head belongs to.
    pub key: ThreadKey,
    /// The incarnation of the thread's log.
    pub epoch: Epoch,
    /// Seq of the newest committed event.
    pub tail: Seq,
    /// Fence of the newest run, active or not.
    pub fence: Fence,
    /// Fence of the newest run's driver.
    pub driver: DriverFence,
    /// State of the active run; `None` while no run is active.
    pub active: Option<ActiveHead>,
    /// Generation in which the head was last changed.
    pub generation: Generation,
    /// The previous epoch, with the tail up to which both are the same; `None` if there was none.
    pub prior: Option<PriorEpoch>,
    /// State of the queue. The answer of an append leaves it out, since an append does not read it: its version is 0.
    pub queue: QueueState,
}

impl Head {
    /// Fences that a write into the newest run carries.
    pub fn write_fence(&self) -> WriteFence {
        WriteFence { run: self.fence, driver: self.driver }
    }

    /// The history of the log, by which cursors are judged.
    pub fn history(&self) -> LogHistory {
        LogHistory { epoch: self.epoch, generation: self.generation, prior: self.prior }
    }
}

/// The part of a head that is present while a run is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveHead {
    /// End of the lease. An append or a heartbeat extends it.
    pub lease_until: Timestamp,
    /// Time of the first stop request; `None` if none was made.
    pub stop_requested_at: Option<Timestamp>,
    /// The run's lock was released: the next start closes the run instead of being refused.
    pub finishing: bool,
    /// producer_seq of the run's newest event.
    pub producer_seq: u64,
}

/// An append of one run to its thread.
#[derive(Debug, Clone)]
pub struct Append {
    /// Key of the thread that gets the events.
    pub key: ThreadKey,
    /// Fences of the run that appends, and of its driver.
    pub fence: WriteFence,
    /// Epoch that the log must have; `None` for any.
    pub epoch: Option<Epoch>,
    /// producer_seq of the first event; `None` appends after the run's newest event.
    pub producer_seq: Option<u64>,
    /// The events. A terminal event ends the run in the same commit.
    pub events: NewEvents,
}

/// An append that was committed.
#[derive(Debug, Clone)]
pub struct Appended {
    /// Seq of the first event.
    pub first_seq: Seq,
    /// Time of the commit, by the store's clock.
    pub at: Timestamp,
    /// The id of the run that appended.
    pub run: RunId,
    /// The head after the append.
    pub head: Head,
    /// producer_seq of the last event of the append.
    pub producer_seq: u64,
}

/// A request for a page of a thread list.
#[derive(Debug, Clone)]
pub struct ListThreads {
    /// Project (tenant) of the threads.
    pub project: ProjectId,
    /// User who owns the threads.
    pub user: UserId,
    /// True if archived threads are listed too.
    pub include_archived: bool,
    /// Limits the list to threads of this agent.
    pub agent: Option<AgentId>,
    /// Limits the list to threads in this state.
    pub status: Option<ThreadStatus>,
    /// Sort order of the list.
    pub order: ListOrder,
    /// Position after which the page begins; `None` for the first page.
    pub after: Option<ListPosition>,
    /// Greatest number of threads on the page.
    pub limit: usize,
}

/// Threads of one id, seen by a caller that names no user.
#[derive(Debug, Clone, PartialEq)]
pub enum Named {
    /// No thread has the id.
    Absent,
    /// The thread that has claimed the id, or the only one that has it.
    Thread(Box<Thread>),
    /// Threads of several users have the id, and none has claimed it.
    Ambiguous,
}

impl Named {
    /// Answer for an id that these threads have: all of them, or the claimed one and some of the others.
    pub(crate) fn among(threads: Vec<Thread>) -> Self {
        let several = threads.len() > 1;
        match threads.into_iter().max_by_key(|thread| thread.claimed) {
            None => Self::Absent,
            Some(thread) if thread.claimed || !several => Self::Thread(Box::new(thread)),
            Some(_) => Self::Ambiguous,
        }
    }

    /// The thread; `None` if there is none, or if it cannot be told which one is meant.
    pub fn thread(self) -> Option<Thread> {
        match self {
            Self::Thread(thread) => Some(*thread),
            Self::Absent | Self::Ambiguous => None,
        }
    }

    /// The thread that has claimed the id; `None` if there is none.
    pub fn claimed(self) -> Option<Thread> {
        self.thread().filter(|thread| thread.claimed)
    }
}

/// A page of a thread list.
#[derive(Debug, Clone)]
pub struct ThreadPage {
    /// Threads of the page, in the order of the list.
    pub threads: Vec<Thread>,
    /// Position for the next page; `None` at the end.
    pub next: Option<ListPosition>,
    /// The newest position of the user's feed, read before the page: list + feed after it is complete.
    pub feed_cursor: FeedCursor,
}

/// A piece of a log, read in one statement.
#[derive(Debug, Clone)]
pub struct LogPage {
    /// The head at the moment of the read.
    pub head: Head,
    /// The events: contiguous, at most `max_events`, and about [`threadline_core::limits::PAGE_BYTES`]. Empty only if
    /// the log has none to return. Where rows are missing in the store, the events end, seen from the cursor.
    pub slice: LogSlice,
}

impl LogPage {
    /// Fails if the log has events next to the cursor that the page does not have: their rows are missing in the store.
    /// Forwards, the end of the gap is only known if the page begins behind it.
    pub(crate) fn adjoining(self, from: ReadFrom) -> StoreResult<Self> {
        let (first, last, tail) = (self.slice.first_seq(), self.slice.last_seq(), self.head.tail);
        let (first_seq, last_seq) = match from {
            ReadFrom::After(cursor) if cursor < tail => (cursor + 1, first.map_or(cursor + 1, |first| first - 1)),
            ReadFrom::After(_) => return Ok(self),
            ReadFrom::Before(before) => (last.unwrap_or(0) + 1, before.saturating_sub(1).min(tail)),
        };
        if first_seq > last_seq {
            return Ok(self);
        }
        damage::count(1);
        Err(StoreError::Damaged { key: self.head.key, first_seq, last_seq })
    }
}

/// A page of a feed.
#[derive(Debug, Clone)]
pub struct FeedPage {
    /// The newest change of each thread that changed after the cursor, in order.
    pub entries: Vec<FeedEntry>,
    /// Head of the feed at the moment of the read, whether reached by the page or not.
    pub head: FeedHead,
}

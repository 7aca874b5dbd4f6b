//! Requests for runs, and their outcomes.

use std::time::Duration;

use threadline_core::{
    AgentId, AttemptId, Author, Epoch, LogSlice, NewEvents, ProjectId, Run, RunId, RunStatus, Seq, ThreadId, ThreadKey,
    UserId, WriteFence,
};

use crate::{records::Head, turns::NewTurn};

/// End of the active run, by compare-and-set on the head's fence and tail.
#[derive(Debug, Clone)]
pub struct Closing {
    /// The fences that the head must have.
    pub fence: WriteFence,
    /// The tail that the head must have: no event was appended since the closers were computed.
    pub tail: Seq,
    /// Epoch that the log must have; `None` for any.
    pub epoch: Option<Epoch>,
    /// Closers and the terminal event; `None` for a run that is abandoned.
    pub events: Option<NewEvents>,
    /// The status that the run gets.
    pub status: RunStatus,
    /// `code` of the RUN_ERROR.
    pub error_code: Option<String>,
    /// `message` of the RUN_ERROR.
    pub error_message: Option<String>,
}

/// Start of a run.
#[derive(Debug, Clone)]
pub struct StartRun {
    /// Key of the thread that the run is to belong to.
    pub key: ThreadKey,
    /// Id of the new run.
    pub run: RunId,
    /// Agent of the run; a thread without an agent takes it over.
    pub agent: Option<AgentId>,
    /// Turn of a run that the server drives; `None` for the run of a producer.
    pub turn: Option<NewTurn>,
    /// Id of the first attempt at a run of a producer.
    pub attempt_id: Option<AttemptId>,
    /// Author of the run.
    pub author: Option<Author>,
    /// Caller that asked for the run.
    pub asked_by: Option<Author>,
    /// Length of the lease: how long the run may go without an append or a heartbeat.
    pub lease: Duration,
    /// Ends a predecessor whose lease has expired or whose lock was released, in the same statement.
    pub closing: Option<Closing>,
    /// First events of the run, appended in the same commit. If a terminal event is the last of them, the run is
    /// appended complete: it begins and ends with this commit.
    pub events: Option<NewEvents>,
    /// The tail that the head must have, before `closing`: for a start that was computed from the events up to there.
    pub at: Option<Seq>,
    /// Epoch that the log must have; `None` for any.
    pub epoch: Option<Epoch>,
    /// True if it may begin though turns are queued and nothing holds them: interrupts of the thread are open.
    pub past_queue: bool,
}

/// Effect of a commit on the log, for its followers.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The run after the commit.
    pub run: Run,
    /// The head after the commit.
    pub head: Head,
    /// The new events, if any.
    pub slice: LogSlice,
}

/// Outcome of a call of [`crate::RunStore::start`], if the store did not fail.
#[derive(Debug, Clone)]
pub enum StartOutcome {
    /// The run began (or, appended complete, has ended).
    Started(Committed),
    /// The thread has a run of this id already: the start was a repetition.
    Exists(Run, Head),
    /// Another run holds the thread.
    RunActive(Run, Head),
    /// The active run may be closed (its lease has expired, or its lock was released), and `closing` was absent or did
    /// not match.
    LeaseExpired(Run, Head),
    /// No run holds the thread, but its tail is not the one that `at` names: the caller must look at the thread again.
    TailMismatch(Head),
    /// Turns are queued, and nothing holds them: one of them is the next.
    QueueMoves(Head),
    /// A queued turn has the id of the run.
    Queued(Head),
    /// The log has another epoch than the start requires.
    OtherEpoch(Head),
    /// The thread does not exist (any more).
    ThreadGone,
}

/// Condition of a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseWhen {
    /// The run ends in any case.
    Always,
    /// The run ends only if its lease has expired or its stop is overdue at this moment.
    IfDue,
}

/// Outcome of a call of [`crate::RunStore::close`], if the store did not fail.
#[derive(Debug, Clone)]
pub enum CloseOutcome {
    /// The run ended with this close.
    Closed(Box<Committed>),
    /// The head is not as expected (or, with [`CloseWhen::IfDue`], the run is not due): the caller must look at the head again.
    Missed,
    /// The thread does not exist (any more).
    Gone,
}

/// Outcome of a call of [`crate::RunStore::request_stop`], if the store did not fail.
#[derive(Debug, Clone)]
pub enum StopOutcome {
    /// The run is active, and a stop is requested now (or was before).
    Asked(Run, Head),
    /// The run has ended.
    Ended(Run),
    /// The thread has no such run.
    NoRun,
    /// The log has another epoch than the stop requires.
    OtherEpoch(Head),
    /// The thread does not exist (any more).
    Gone,
}

/// A heartbeat of a run.
#[derive(Debug, Clone, Copy)]
pub struct HeartbeatRequest {
    /// Key of the run's thread.
    pub key: ThreadKey,
    /// Fences of the run, which must be the active one, and of its driver.
    pub fence: WriteFence,
    /// A new lease length; `None` keeps the present one.
    pub lease: Option<Duration>,
    /// Epoch that the log must have; `None` for any.
    pub epoch: Option<Epoch>,
}

/// A thread with a run that is due to be closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Key of the thread with the due run.
    pub key: ThreadKey,
    /// Project (tenant) of the thread.
    pub project: ProjectId,
    /// User who owns the thread.
    pub user: UserId,
    /// Public id of the thread, unique within the project.
    pub thread: ThreadId,
}

/// Runs that [`crate::RunStore::claim_due`] claimed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claimed {
    /// Threads with a run that is due, claimed by this call.
    pub due: Vec<Due>,
    /// True if the limit was reached, so that more runs may be waiting to be looked at.
    pub more: bool,
}

/// Choice of the leases that [`crate::RunStore::renew_leases`] renews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// Leases that end later than any heartbeat can have moved them: the clock was set back.
    Overlong,
    /// Also leases that are shorter than full ones: the clock was set forward.
    All,
}

/// Step of a renewal of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Renewed {
    /// Number of leases that were renewed.
    pub leases: u64,
    /// Key after which the next step continues; `None` if all runs were looked at.
    pub next: Option<ThreadKey>,
}

/// Numbers of active runs, which [`crate::RunStore::active_runs`] counts in one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActiveRuns {
    /// Runs of the complete project.
    pub project: u64,
    /// Runs of the user; 0 if none was named.
    pub user: u64,
}

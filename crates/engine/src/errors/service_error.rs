//! Sum of the errors of all operations.

use threadline_core::{
    Epoch, EventError, Run, RunId, Scope, Seq, ThreadId, Timestamp, ToolCallId, Version,
    limits::{
        AGENT_DATA_ANSWER_BYTES, MAX_BRANCHES, MAX_ITEM_LISTS, MAX_LIST_ITEMS, MAX_QUEUE_BYTES, MAX_QUEUED_TURN_BYTES,
        MAX_QUEUED_TURNS, MAX_QUEUED_TURNS_OF_USER, MAX_THREAD_DATA_BYTES,
    },
    projection::conversation::InvalidMessage,
};
use threadline_store::StoreError;

use crate::{limits::Limited, subscription::ReplacedLog};

/// Sum of the errors of all operations. Each API maps it, exhaustively, to its wire format; each operation has a type of
/// its own with the errors that it can answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServiceError {
    /// The thread does not exist for this principal: unknown and foreign threads look the same.
    #[error("the thread does not exist")]
    ThreadNotFound,
    /// Threads of several users have this id, none has claimed it, and the request names no user.
    #[error("threads of several users have this ID: name the user, with the header Threadline-User")]
    ThreadAmbiguous,
    /// The user has another thread of this id, or another user's thread has claimed it. Untrusted clients claim no id, so
    /// that they never learn of another user's.
    #[error("another thread has this ID")]
    ThreadExists,
    /// The thread that an earlier request with the same idempotency key created was deleted.
    #[error("the thread that a request with this Idempotency-Key created was deleted")]
    ThreadDeleted,
    /// The conversation has as many branches as it may have.
    #[error("the conversation has reached its limit of {MAX_BRANCHES} branches")]
    TooManyBranches,
    /// No thread of this id is a branch of the conversation.
    #[error("thread {:?} is not a branch of the conversation", .0.as_str())]
    BranchNotFound(ThreadId),
    /// No run has introduced a message of this id.
    #[error("no event of the thread introduces a message with the ID {0:?}")]
    MessageNotFound(String),
    /// Retention of the project does not wait for an approval.
    #[error("retention of the project does not wait for an approval")]
    RetentionNotHeld,
    /// The thread's conversation is beyond [`threadline_core::limits::MAX_CONVERSATION_BYTES`], or takes more than its reader's share of
    /// the memory.
    #[error(
        "the messages and the state are too large to be computed from the events, or larger than the client's share of the memory"
    )]
    ConversationTooLarge,
    /// The conversation has another version than the save requires; `None` if there is no conversation.
    #[error("the stored version does not match the condition of the request")]
    ConversationChanged {
        /// Version of the stored conversation.
        version: Option<Version>,
    },
    /// The list to save lacks stored messages, or has others in their place.
    #[error("{stored} messages are stored, and the list matches only the first {common} of them")]
    ConversationDiverged {
        /// Number of messages stored.
        stored: usize,
        /// Number of leading messages that both lists share.
        common: usize,
        /// Version of the stored conversation.
        version: Version,
    },
    /// The list that replaces a conversation is larger than [`threadline_core::limits::MAX_EVENT_BYTES`].
    #[error("a list that replaces a conversation must not be larger than an event")]
    ReplacementTooLarge,
    /// A message cannot be stored; no message of its list was stored.
    #[error(transparent)]
    InvalidMessage(#[from] InvalidMessage),
    /// The thread has no such run.
    #[error("the thread has no run with this ID")]
    RunNotFound,
    /// Another run holds the thread.
    #[error("run {:?}{} holds the thread{}", .0.run.id.as_str(), .0.run.agent.as_ref().map_or_else(String::new, |agent| format!(" of agent {:?}", agent.as_str())), .0.run.lease_until.filter(|_| !.0.run.driven).map_or_else(String::new, |until| format!(" until {until}")))]
    RunActive(Box<ActiveRun>),
    /// A queued turn has the id of the run.
    #[error("turn {:?} is queued", .0.as_str())]
    TurnQueued(RunId),
    /// No further turn can be queued, or not this one.
    #[error("{0}")]
    QueueFull(QueueLimit),
    /// The queue has another version than the request requires.
    #[error("the queue has version {version}")]
    QueueChanged {
        /// Version of the queue.
        version: u64,
    },
    /// The queued turn has begun: it is a run now.
    #[error("turn {:?} has begun", .0.id.as_str())]
    TurnBegun(Box<Run>),
    /// No turn of this id is queued, and the thread has no run of this id.
    #[error("no turn with this ID is queued")]
    TurnNotFound,
    /// The run has ended, possibly by the server, or another attempt at it has begun.
    #[error("{}", fenced(.0))]
    RunFenced(Box<Run>),
    /// A process would repeat what a run of a producer has done.
    #[error("{}", unsafe_restart(run, tools.as_deref()))]
    RecoveryUnsafe {
        /// Run that stays as it is.
        run: Box<Run>,
        /// Names of the tools that the run has called; `None` if it answers an interrupt instead.
        tools: Option<String>,
    },
    /// The conversation of a run is too large to be brought back to an earlier state.
    #[error("run {:?} cannot be continued by another process: the messages that it began with are too large to be restored", .0.id.as_str())]
    RecoveryTooLarge(Box<Run>),
    /// The server drives the run: only its driver may write into it.
    #[error("run {} of thread {thread} is driven by the server{}: only its driver appends to it, renews its lease or ends it", .run.id, .run.agent.as_ref().map_or_else(String::new, |agent| format!(" with agent {agent}")))]
    RunDriven {
        /// Thread that the run belongs to.
        thread: ThreadId,
        /// Run as stored, with its agent.
        run: Box<Run>,
    },
    /// The content of the request requires this scope, and the principal lacks it.
    #[error("the content of the request requires the scope `{0}`, which the key or token does not have")]
    Forbidden(Scope),
    /// The run has another author, and an end user's token writes into runs of its user only.
    #[error("the run has another author: a user's token writes only into runs that the same user has started")]
    RunNotYours,
    /// The events of an end user's token answer an interrupt that an agent of the server requested, or that is not open.
    #[error("the events answer an interrupt that is not open, or that only a run of its agent can answer")]
    InterruptNotYours,
    /// Another client holds the tool call. Its name is not said.
    #[error("another client holds tool call {:?} until {until}", .call.as_str())]
    ToolCallClaimed {
        /// Call that is held.
        call: ToolCallId,
        /// End of the lease.
        until: Timestamp,
    },
    /// The tool call has a result, or the thread has no such call.
    #[error("no tool call {:?} of the thread waits for a result", .0.as_str())]
    ToolCallNotPending(ToolCallId),
    /// A key-value entry does not have the tag that a write of the batch requires; no write was carried out.
    #[error("the entry of operation {index} does not have the tag that the operation requires")]
    KvChanged {
        /// Index of the operation in its batch.
        index: usize,
    },
    /// The answer would be larger than [`threadline_core::limits::AGENT_DATA_ANSWER_BYTES`].
    #[error("the answer would have more than {AGENT_DATA_ANSWER_BYTES} bytes of values")]
    AnswerTooLarge,
    /// Another operation on the list has the key.
    #[error("another operation on the list has this key, or the same key with other content")]
    ItemsConflict,
    /// The list does not have the tag that the operation requires.
    #[error("the list does not have the tag that the operation requires")]
    ItemsChanged,
    /// A channel of a checkpoint has no value at its version.
    #[error("channel {channel:?} of the checkpoint has no blob of version {version:?}")]
    BlobMissing {
        /// Channel of the checkpoint.
        channel: String,
        /// Version of the channel.
        version: String,
    },
    /// The thread has no such checkpoint, or no such part of one.
    #[error("the thread has no {0}")]
    CheckpointNotFound(String),
    /// A thread would have more agent data than it may have.
    #[error("{0}")]
    DataFull(DataLimit),
    /// The thread has a message with this id.
    #[error("the thread has a message with the ID {0:?}")]
    MessageExists(String),
    /// Earlier events of the run are missing.
    #[error("expected producerSeq {expected} next")]
    ProducerSeqGap {
        /// producer_seq of the run's next event.
        expected: u64,
    },
    /// An event with this producer_seq is stored with other bytes.
    #[error("the event with producerSeq {producer_seq} is stored with other bytes")]
    ProducerSeqConflict {
        /// First producer_seq whose bytes differ.
        producer_seq: u64,
    },
    /// The cursor, or the precondition of a write, belongs to another incarnation of the log or feed, or the reader has
    /// seen events that the store has lost.
    #[error("the request refers to a log that was replaced, or to events that the store has lost")]
    LogReplaced(ReplacedLog),
    /// The cursor is beyond the tail.
    #[error("the cursor is beyond the newest event, seq {tail}")]
    CursorAhead {
        /// Epoch of the log or feed; `None` if the cursor named none.
        epoch: Option<Epoch>,
        /// Newest position of the log or feed.
        tail: Seq,
    },
    /// An event cannot be appended; no event of its batch was appended.
    #[error(transparent)]
    InvalidEvent(#[from] EventError),
    /// The request is invalid; the text says what to change.
    #[error("{0}")]
    InvalidRequest(String),
    /// A limit of the user or the project is reached.
    #[error(transparent)]
    Limited(#[from] Limited),
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Draining,
    /// The store did not confirm an append without producerSeq. Its events may be in the log, so a repetition could
    /// append them twice.
    #[error("the store did not confirm the append, whose events may have been stored")]
    OutcomeUnknown,
    /// The store failed; the effect is unknown, and the request may be retried.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn fenced(run: &Run) -> String {
    let id = run.id.as_str();
    match run.status.is_active() {
        true => format!("run {id:?} is produced by another process, as attempt {}", run.attempt),
        false => format!("run {id:?} has ended and accepts no new events"),
    }
}

fn unsafe_restart(run: &Run, tools: Option<&str>) -> String {
    let id = run.id.as_str();
    match tools {
        Some(tools) => format!("run {id:?} has called tools that a restart could call again: {tools}"),
        None => format!("run {id:?} answers an interrupt: a restart could repeat what was approved"),
    }
}

/// Facts for a refused start: holder of the thread, end of its lease, and cursor to follow it.
#[derive(Debug, Clone)]
pub struct ActiveRun {
    /// Run that holds the thread.
    pub run: Run,
    /// Incarnation of the log.
    pub epoch: Epoch,
    /// Cursor from which the run is followed from its first event.
    pub cursor: Seq,
    /// Seq of the thread's newest event.
    pub tail: Seq,
}

impl ActiveRun {
    /// Facts of the active run in a thread of this epoch.
    pub(crate) fn new(run: Run, epoch: Epoch) -> Self {
        // Only the active run appends, so its newest event is the thread's.
        Self { epoch, cursor: run.first_seq - 1, tail: run.last_seq(), run }
    }
}

/// Limit of the agent data of a thread that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DataLimit {
    /// Item lists of a thread.
    #[error("a thread has at most {MAX_ITEM_LISTS} lists")]
    Lists,
    /// Items of a list.
    #[error("a list has at most {MAX_LIST_ITEMS} items")]
    Items,
    /// Bytes of all agent data of a thread.
    #[error(
        "a thread has at most {MAX_THREAD_DATA_BYTES} bytes of agent data, with what was removed in the last 24 hours"
    )]
    ThreadBytes,
}

/// Limit of queues that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QueueLimit {
    /// Turns in the queue of a thread.
    #[error("at most {MAX_QUEUED_TURNS} turns wait in a thread")]
    Turns,
    /// Queued turns of a user.
    #[error("at most {MAX_QUEUED_TURNS_OF_USER} turns of a user wait")]
    TurnsOfUser,
    /// Bytes of a turn.
    #[error("the input of a turn that waits has at most {MAX_QUEUED_TURN_BYTES} bytes")]
    TurnBytes,
    /// Bytes of all turns in the queue of a thread.
    #[error("the inputs of all turns that wait in a thread have at most {MAX_QUEUE_BYTES} bytes")]
    QueueBytes,
}

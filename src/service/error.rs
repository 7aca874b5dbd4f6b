//! Everything that a use case can answer instead of success.

use super::conversations::Version;
use crate::{
    domain::{Epoch, EventError, Run, Seq, ThreadId},
    projection::conversation::Flawed,
    quota::Limited,
    store::StoreError,
    subscription::FollowError,
};

/// Everything that a use case can answer instead of success. The front doors map it, exhaustively, to their wire.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ServiceError {
    /// There is no such thread for this principal: unknown and foreign look the same.
    #[error("there is no such thread")]
    ThreadNotFound,
    /// The id is taken by another thread, whoever owns it.
    #[error("the thread id is taken")]
    ThreadExists,
    /// The thread's conversation is beyond [`crate::domain::limits::MAX_CONVERSATION_BYTES`].
    #[error("the conversation is too large to be put together")]
    ConversationTooLarge,
    /// The conversation has another version than the save asks for; `None` if there is no conversation.
    #[error("the conversation has another version")]
    ConversationChanged {
        /// The version that it has.
        version: Option<Version>,
    },
    /// The list that is to be saved lacks messages that are stored, or has others in their place.
    #[error("{stored} messages are stored, and the list agrees with the first {common} of them")]
    ConversationDiverged {
        /// Messages stored.
        stored: usize,
        /// With how many both lists begin.
        common: usize,
        /// The version that is stored.
        version: Version,
    },
    /// The list that is to replace a conversation is larger than [`crate::domain::limits::MAX_EVENT_BYTES`].
    #[error("a list that replaces a conversation is at most as large as an event")]
    ReplacementTooLarge,
    /// A message cannot be stored; nothing of its list was.
    #[error(transparent)]
    InvalidMessage(#[from] Flawed),
    /// The thread has no such run.
    #[error("the thread has no such run")]
    RunNotFound,
    /// Another run holds the thread.
    #[error("another run is active in this thread")]
    RunActive(Box<ActiveRun>),
    /// The run has ended, or was ended by the server; it can append nothing new.
    #[error("the run has ended and can append nothing new")]
    RunFenced(Box<Run>),
    /// The server drives the run: only its driver writes into it.
    #[error("run {} of thread {thread} is driven by the server{}: only its driver appends to it, keeps its lease or ends it", .run.id, .run.agent.as_ref().map_or_else(String::new, |agent| format!(" with agent {agent}")))]
    RunDriven {
        /// Its thread.
        thread: ThreadId,
        /// The run.
        run: Box<Run>,
    },
    /// Events before these are missing.
    #[error("expected producerSeq {expected} next")]
    ProducerSeqGap {
        /// The producer_seq that the run's next event has.
        expected: u64,
    },
    /// This producer_seq was stored with other bytes.
    #[error("producerSeq {producer_seq} was stored before with other bytes")]
    ProducerSeqConflict {
        /// The first one that differs.
        producer_seq: u64,
    },
    /// The cursor belongs to another incarnation of the log.
    #[error("the log was replaced")]
    LogReplaced {
        /// The epoch of the log that is there.
        epoch: Epoch,
        /// Its tail.
        tail: Seq,
    },
    /// The cursor is beyond the tail.
    #[error("the cursor is beyond the tail")]
    CursorAhead {
        /// The epoch, if it is a thread's log (a feed has none).
        epoch: Option<Epoch>,
        /// The newest position there is.
        tail: Seq,
    },
    /// An event cannot be appended; nothing of its batch was.
    #[error(transparent)]
    InvalidEvent(#[from] EventError),
    /// The request makes no sense; says what to do.
    #[error("{0}")]
    InvalidRequest(String),
    /// A limit of the user or the project is reached.
    #[error(transparent)]
    Limited(#[from] Limited),
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Draining,
    /// The store failed; the effect is unknown and the request may be sent again.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The facts of a refused start: who holds the thread, until when, and from where to follow it.
#[derive(Debug, Clone)]
pub struct ActiveRun {
    /// The run that holds the thread.
    pub run: Run,
    /// The incarnation of the log.
    pub epoch: Epoch,
    /// The cursor to follow the run from its first event.
    pub cursor: Seq,
    /// The newest event.
    pub tail: Seq,
}

impl ActiveRun {
    /// Of the run that is active in a thread of this epoch.
    pub(super) fn new(run: Run, epoch: Epoch) -> Self {
        // While it is active only it appends: its newest event is the thread's.
        Self { epoch, cursor: run.first_seq - 1, tail: run.last_seq(), run }
    }
}

impl From<FollowError> for ServiceError {
    fn from(error: FollowError) -> Self {
        match error {
            FollowError::Gone => Self::ThreadNotFound,
            FollowError::LogReplaced { epoch, tail } => Self::LogReplaced { epoch, tail },
            FollowError::CursorAhead { epoch, tail } => Self::CursorAhead { epoch: Some(epoch), tail },
            FollowError::Store(error) => Self::Store(error),
        }
    }
}

//! One closed error type per operation: an operation can answer these errors and no other.
//!
//! The variants have the names and contents of [`ServiceError`], which is their sum. Texts are defined there, once.

use std::fmt;

use threadline_core::{
    Epoch, EventError, Run, RunId, Scope, Seq, ThreadId, Timestamp, ToolCallId, Version,
    projection::conversation::InvalidMessage,
};
use threadline_store::StoreError;

use super::service_error::{ActiveRun, DataLimit, QueueLimit, ServiceError};
use crate::{limits::Limited, subscription::ReplacedLog};

macro_rules! operation_errors {
    ($(
        $(#[$doc:meta])*
        enum $name:ident {
            $($variant:ident $(($arg:ident: $type:ty))? $({ $($field:ident: $field_type:ty),+ })?),+ $(,)?
        }
        $(from $source:ident {
            $($from:ident $(($from_arg:ident))? $({ $($from_field:ident),+ })?),+ $(,)?
        })*
    )+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub enum $name {
            $($variant $(($type))? $({ $($field: $field_type),+ })?),+
        }

        impl From<$name> for ServiceError {
            fn from(error: $name) -> Self {
                match error {
                    $($name::$variant $(($arg))? $({ $($field),+ })? => Self::$variant $(($arg))? $({ $($field),+ })?),+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                ServiceError::from(self.clone()).fmt(f)
            }
        }

        impl std::error::Error for $name {}

        $(impl From<$source> for $name {
            fn from(error: $source) -> Self {
                match error {
                    $($source::$from $(($from_arg))? $({ $($from_field),+ })? => {
                        Self::$from $(($from_arg))? $({ $($from_field),+ })?
                    }),+
                }
            }
        })*
    )+};
}

operation_errors! {
    /// Refusal of what a request contains, for a principal that lacks the scope.
    enum ForbiddenError { Forbidden(scope: Scope) }
    /// Refusal of an untrusted client that writes into a run of another author.
    enum NotYoursError { RunNotYours }
    /// Refusal of an untrusted client whose events answer an interrupt of an agent.
    enum AnswerError { InterruptNotYours, Store(error: StoreError) }
    /// Refusal of new work by a node that shuts down.
    enum DrainingError { Draining }
    /// Error of reading a thread, and of every operation's first step.
    enum LookupError { ThreadNotFound, ThreadAmbiguous, Store(error: StoreError) }
    /// Error of reading a list that is stored beside the log of a thread.
    enum PageError { ThreadNotFound, ThreadAmbiguous, LogReplaced(replaced: ReplacedLog), Store(error: StoreError) }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }

    /// Error of reading a run and of watching it.
    enum RunLookupError { ThreadNotFound, ThreadAmbiguous, RunNotFound, Store(error: StoreError) }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }

    /// Error of stopping a run.
    enum StopError { ThreadNotFound, ThreadAmbiguous, RunNotFound, LogReplaced(replaced: ReplacedLog), Store(error: StoreError) }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }

    /// Error of ending or releasing a run.
    enum EndRunError {
        Forbidden(scope: Scope),
        RunNotYours,
        ThreadNotFound, ThreadAmbiguous,
        RunNotFound, RunFenced(run: Box<Run>),
        RunDriven { thread: ThreadId, run: Box<Run> },
        LogReplaced(replaced: ReplacedLog),
        Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from RunLookupError { ThreadNotFound, ThreadAmbiguous, RunNotFound, Store(error) }
    from ForbiddenError { Forbidden(scope) }
    from NotYoursError { RunNotYours }

    /// Error of finishing a run.
    enum FinishError {
        Forbidden(scope: Scope),
        RunNotYours,
        ThreadNotFound, ThreadAmbiguous,
        RunNotFound,
        RunDriven { thread: ThreadId, run: Box<Run> },
        ProducerSeqGap { expected: u64 }, RunFenced(run: Box<Run>),
        LogReplaced(replaced: ReplacedLog),
        Store(error: StoreError),
    }
    from EndRunError { Forbidden(scope), RunNotYours, ThreadNotFound, ThreadAmbiguous, RunNotFound, RunDriven { thread, run }, RunFenced(run), LogReplaced(replaced), Store(error) }

    /// Error of a heartbeat.
    enum HeartbeatError {
        Forbidden(scope: Scope),
        RunNotYours,
        ThreadNotFound, ThreadAmbiguous,
        RunNotFound,
        RunDriven { thread: ThreadId, run: Box<Run> },
        RunFenced(run: Box<Run>),
        Draining,
        LogReplaced(replaced: ReplacedLog),
        Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from RunLookupError { ThreadNotFound, ThreadAmbiguous, RunNotFound, Store(error) }
    from EndRunError { Forbidden(scope), RunNotYours, ThreadNotFound, ThreadAmbiguous, RunNotFound, RunDriven { thread, run }, RunFenced(run), LogReplaced(replaced), Store(error) }

    /// Error of comparing events with those that a run has stored.
    enum CompareError { ThreadNotFound, ProducerSeqConflict { producer_seq: u64 }, Store(error: StoreError) }

    /// Error of an append.
    enum AppendError {
        ThreadNotFound, ThreadAmbiguous,
        RunNotFound,
        RunDriven { thread: ThreadId, run: Box<Run> },
        RunFenced(run: Box<Run>),
        ProducerSeqGap { expected: u64 },
        ProducerSeqConflict { producer_seq: u64 },
        InvalidRequest(detail: String),
        Draining,
        OutcomeUnknown,
        LogReplaced(replaced: ReplacedLog),
        Forbidden(scope: Scope),
        RunNotYours,
        InterruptNotYours,
        Limited(limited: Limited),
        Store(error: StoreError),
    }
    from AnswerError { InterruptNotYours, Store(error) }
    from RoomError { Limited(limited), Store(error) }
    from EndRunError { Forbidden(scope), RunNotYours, ThreadNotFound, ThreadAmbiguous, RunNotFound, RunDriven { thread, run }, RunFenced(run), LogReplaced(replaced), Store(error) }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from HeartbeatError {
        Forbidden(scope), RunNotYours,
        ThreadNotFound, ThreadAmbiguous, RunNotFound, RunDriven { thread, run }, RunFenced(run), Draining, LogReplaced(replaced),
        Store(error),
    }
    from InvalidRequestError { InvalidRequest(detail) }
    from DrainingError { Draining }
    from ForbiddenError { Forbidden(scope) }

    /// Error of starting a run.
    enum StartError {
        Forbidden(scope: Scope),
        InterruptNotYours,
        ThreadNotFound, ThreadAmbiguous,
        RunActive(active: Box<ActiveRun>),
        TurnQueued(run: RunId),
        RunDriven { thread: ThreadId, run: Box<Run> },
        ProducerSeqConflict { producer_seq: u64 },
        Limited(limited: Limited),
        Draining,
        LogReplaced(replaced: ReplacedLog),
        Store(error: StoreError),
    }
    from AnswerError { InterruptNotYours, Store(error) }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from CompareError { ThreadNotFound, ProducerSeqConflict { producer_seq }, Store(error) }
    from DrainingError { Draining }
    from RoomError { Limited(limited), Store(error) }
    from ForbiddenError { Forbidden(scope) }

    /// Error of starting a run that may be an attempt at one that exists.
    enum AttemptError {
        Forbidden(scope: Scope),
        RunNotYours,
        InterruptNotYours,
        ThreadNotFound, ThreadAmbiguous,
        RunActive(active: Box<ActiveRun>),
        TurnQueued(run: RunId),
        RunDriven { thread: ThreadId, run: Box<Run> },
        RunFenced(run: Box<Run>),
        RecoveryUnsafe { run: Box<Run>, tools: Option<String> },
        RecoveryTooLarge(run: Box<Run>),
        ProducerSeqConflict { producer_seq: u64 },
        InvalidRequest(detail: String),
        Limited(limited: Limited),
        Draining,
        LogReplaced(replaced: ReplacedLog),
        Store(error: StoreError),
    }
    from StartError {
        Forbidden(scope), InterruptNotYours,
        ThreadNotFound, ThreadAmbiguous, RunActive(active), TurnQueued(run), RunDriven { thread, run }, ProducerSeqConflict { producer_seq },
        Limited(limited), Draining, LogReplaced(replaced), Store(error),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from NotYoursError { RunNotYours }
    from InvalidRequestError { InvalidRequest(detail) }

    /// Error of forking a thread.
    enum ForkError {
        Forbidden(scope: Scope),
        ThreadNotFound, ThreadAmbiguous, ThreadExists, ThreadDeleted,
        MessageNotFound(message: String),
        TooManyBranches,
        LogReplaced(replaced: ReplacedLog),
        CursorAhead { epoch: Option<Epoch>, tail: Seq },
        Draining,
        Limited(limited: Limited),
        Store(error: StoreError),
    }
    from ForbiddenError { Forbidden(scope) }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from RoomError { Limited(limited), Store(error) }
    from DrainingError { Draining }

    /// Error of listing another branch of a conversation.
    enum BranchError {
        ThreadNotFound, ThreadAmbiguous,
        BranchNotFound(thread: ThreadId),
        LogReplaced(replaced: ReplacedLog),
        Draining,
        Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from DrainingError { Draining }

    /// Error of reading or changing the queue of a thread.
    enum QueueError {
        Forbidden(scope: Scope),
        ThreadNotFound, ThreadAmbiguous,
        QueueFull(limit: QueueLimit),
        QueueChanged { version: u64 },
        TurnBegun(run: Box<Run>),
        TurnNotFound,
        LogReplaced(replaced: ReplacedLog),
        Limited(limited: Limited),
        Draining,
        Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from DrainingError { Draining }
    from RoomError { Limited(limited), Store(error) }
    from ForbiddenError { Forbidden(scope) }

    /// Error of appending a complete run.
    enum CompleteRunError {
        ThreadNotFound, ThreadAmbiguous,
        RunActive(active: Box<ActiveRun>),
        TurnQueued(run: RunId),
        RunDriven { thread: ThreadId, run: Box<Run> },
        ProducerSeqConflict { producer_seq: u64 },
        Forbidden(scope: Scope),
        InterruptNotYours,
        MessageExists(message: String),
        ConversationTooLarge,
        Limited(limited: Limited),
        Draining,
        LogReplaced(replaced: ReplacedLog),
        Store(error: StoreError),
    }
    from StartError {
        Forbidden(scope), InterruptNotYours, ThreadNotFound, ThreadAmbiguous, RunActive(active), TurnQueued(run), RunDriven { thread, run },
        ProducerSeqConflict { producer_seq }, Limited(limited), Draining, LogReplaced(replaced), Store(error),
    }
    from DrainingError { Draining }
    from ForbiddenError { Forbidden(scope) }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }

    /// Error of the check whether a user and a project may have one more active run.
    enum RoomError { Limited(limited: Limited), Store(error: StoreError) }

    /// Error of a run that is sent as one stream.
    enum StreamRunError {
        ThreadNotFound, ThreadAmbiguous,
        RunNotFound,
        RunActive(active: Box<ActiveRun>),
        TurnQueued(run: RunId),
        RunDriven { thread: ThreadId, run: Box<Run> },
        RunFenced(run: Box<Run>),
        ProducerSeqGap { expected: u64 },
        ProducerSeqConflict { producer_seq: u64 },
        InvalidEvent(error: EventError),
        InvalidRequest(detail: String),
        Limited(limited: Limited),
        Draining,
        OutcomeUnknown,
        LogReplaced(replaced: ReplacedLog),
        Forbidden(scope: Scope),
        RunNotYours,
        InterruptNotYours,
        Store(error: StoreError),
    }
    from RunLookupError { ThreadNotFound, ThreadAmbiguous, RunNotFound, Store(error) }
    from EndRunError { Forbidden(scope), RunNotYours, ThreadNotFound, ThreadAmbiguous, RunNotFound, RunDriven { thread, run }, RunFenced(run), LogReplaced(replaced), Store(error) }
    from StartError {
        Forbidden(scope), InterruptNotYours,
        ThreadNotFound, ThreadAmbiguous, RunActive(active), TurnQueued(run), RunDriven { thread, run }, ProducerSeqConflict { producer_seq },
        Limited(limited), Draining, LogReplaced(replaced), Store(error),
    }
    from AppendError {
        Forbidden(scope), RunNotYours, InterruptNotYours,
        ThreadNotFound, ThreadAmbiguous, RunNotFound, RunDriven { thread, run }, RunFenced(run), ProducerSeqGap { expected },
        ProducerSeqConflict { producer_seq }, InvalidRequest(detail), Draining, OutcomeUnknown, LogReplaced(replaced),
        Limited(limited), Store(error),
    }
    from InvalidRequestError { InvalidRequest(detail) }

    /// Error of validating what a producer appends.
    enum ValidateError {
        ThreadNotFound, ThreadAmbiguous,
        ProducerSeqGap { expected: u64 },
        InvalidEvent(error: EventError),
        Limited(limited: Limited),
        Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }

    /// Error of reading or following events.
    enum ReadError {
        Forbidden(scope: Scope),
        ThreadNotFound, ThreadAmbiguous,
        RunNotFound,
        LogReplaced(replaced: ReplacedLog),
        CursorAhead { epoch: Option<Epoch>, tail: Seq },
        InvalidRequest(detail: String),
        Limited(limited: Limited),
        Draining,
        Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from RunLookupError { ThreadNotFound, ThreadAmbiguous, RunNotFound, Store(error) }
    from DrainingError { Draining }
    from ForbiddenError { Forbidden(scope) }

    /// Error of computing a conversation from the events.
    enum ProjectionError {
        ThreadNotFound, ThreadAmbiguous,
        LogReplaced(replaced: ReplacedLog),
        CursorAhead { epoch: Option<Epoch>, tail: Seq },
        ConversationTooLarge,
        Limited(limited: Limited),
        Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }

    /// Error of saving a conversation.
    enum SaveError {
        Forbidden(scope: Scope),
        ThreadNotFound, ThreadAmbiguous, ThreadExists,
        ThreadDeleted,
        ConversationTooLarge,
        ConversationChanged { version: Option<Version> },
        ConversationDiverged { stored: usize, common: usize, version: Version },
        ReplacementTooLarge,
        InvalidMessage(error: InvalidMessage),
        InvalidEvent(error: EventError),
        InvalidRequest(detail: String),
        RunActive(active: Box<ActiveRun>),
        TurnQueued(run: RunId),
        RunDriven { thread: ThreadId, run: Box<Run> },
        ProducerSeqConflict { producer_seq: u64 },
        Limited(limited: Limited),
        Draining,
        LogReplaced(replaced: ReplacedLog),
        InterruptNotYours,
        Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from DrainingError { Draining }
    from StartError {
        Forbidden(scope), InterruptNotYours,
        ThreadNotFound, ThreadAmbiguous, RunActive(active), TurnQueued(run), RunDriven { thread, run }, ProducerSeqConflict { producer_seq },
        Limited(limited), Draining, LogReplaced(replaced), Store(error),
    }
    from CreateThreadError {
        ThreadAmbiguous, ThreadExists, ThreadDeleted, InvalidRequest(detail), Limited(limited), Draining, Store(error),
    }
    from EditThreadError {
        ThreadNotFound, ThreadAmbiguous, InvalidRequest(detail), Draining, LogReplaced(replaced), Store(error),
    }
    from ForbiddenError { Forbidden(scope) }

    /// Error of a value that a request names.
    enum InvalidRequestError { InvalidRequest(detail: String) }

    /// Error of creating a thread.
    enum CreateThreadError {
        ThreadAmbiguous, ThreadExists,
        ThreadDeleted,
        InvalidRequest(detail: String),
        Limited(limited: Limited),
        Draining,
        Store(error: StoreError),
    }
    from DrainingError { Draining }
    from InvalidRequestError { InvalidRequest(detail) }
    from RoomError { Limited(limited), Store(error) }

    /// Error of editing a thread.
    enum EditThreadError {
        ThreadNotFound, ThreadAmbiguous,
        InvalidRequest(detail: String),
        Draining,
        LogReplaced(replaced: ReplacedLog),
        Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from DrainingError { Draining }
    from InvalidRequestError { InvalidRequest(detail) }

    /// Error of moving a thread's read mark.
    enum MarkReadError {
        ThreadNotFound, ThreadAmbiguous,
        CursorAhead { epoch: Option<Epoch>, tail: Seq },
        Draining,
        LogReplaced(replaced: ReplacedLog),
        Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from DrainingError { Draining }

    /// Error of writing an annotation.
    enum ChangeThreadError { ThreadNotFound, ThreadAmbiguous, Limited(limited: Limited), Draining, Store(error: StoreError) }
    from RoomError { Limited(limited), Store(error) }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from DrainingError { Draining }

    /// Error of claiming a tool call.
    enum ClaimError {
        ThreadNotFound, ThreadAmbiguous,
        ToolCallClaimed { call: ToolCallId, until: Timestamp },
        ToolCallNotPending(call: ToolCallId),
        LogReplaced(replaced: ReplacedLog),
        CursorAhead { epoch: Option<Epoch>, tail: Seq },
        ConversationTooLarge,
        Limited(limited: Limited),
        Draining,
        Store(error: StoreError),
    }
    from ProjectionError {
        ThreadNotFound, ThreadAmbiguous, LogReplaced(replaced), CursorAhead { epoch, tail }, ConversationTooLarge, Limited(limited), Store(error),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from DrainingError { Draining }

    /// Error of deleting a thread.
    enum DeleteThreadError { ThreadNotFound, ThreadAmbiguous, Draining, LogReplaced(replaced: ReplacedLog), Store(error: StoreError) }
    from DrainingError { Draining }

    /// Error of listing a user's threads.
    enum ListError { InvalidRequest(detail: String), Limited(limited: Limited), Store(error: StoreError) }
    from InvalidRequestError { InvalidRequest(detail) }

    /// Error of reading or following a user's feed.
    enum FeedError {
        LogReplaced(replaced: ReplacedLog),
        CursorAhead { epoch: Option<Epoch>, tail: u64 },
        InvalidRequest(detail: String),
        Draining,
        Store(error: StoreError),
    }
    from DrainingError { Draining }
    from InvalidRequestError { InvalidRequest(detail) }

    /// Error of reading or writing agent data.
    enum AgentDataError {
        ThreadNotFound, ThreadAmbiguous, ItemsConflict, ItemsChanged, KvChanged { index: usize },
        BlobMissing { channel: String, version: String }, CheckpointNotFound(what: String),
        DataFull(limit: DataLimit), AnswerTooLarge, Limited(limited: Limited), Draining, Store(error: StoreError),
    }
    from LookupError { ThreadNotFound, ThreadAmbiguous, Store(error) }
    from RoomError { Limited(limited), Store(error) }
    from DrainingError { Draining }

    /// Error of erasing a user.
    enum EraseError { Draining, Store(error: StoreError) }
    from DrainingError { Draining }

    /// Error of restoring a thread from the trash.
    enum RestoreError { ThreadNotFound, ThreadAmbiguous, ThreadExists, Draining, Store(error: StoreError) }
    from DrainingError { Draining }

    /// Error of approving a sweep of retention.
    enum ApproveError { RetentionNotHeld, Draining, Store(error: StoreError) }
    from DrainingError { Draining }
}

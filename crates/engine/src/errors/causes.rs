//! Errors of other parts as errors of the operations that meet them.

use threadline_core::{EventError, projection::conversation::InvalidMessage};
use threadline_store::StoreError;

use super::operations::*;
use crate::{limits::Limited, subscription::ReplacedLog};

macro_rules! from_causes {
    ($($cause:ty => $variant:ident: $($name:ident),+;)+) => {$($(
        impl From<$cause> for $name {
            fn from(error: $cause) -> Self {
                Self::$variant(error)
            }
        }
    )+)+};
}

from_causes! {
    StoreError => Store:
        LookupError, RunLookupError, EndRunError, HeartbeatError, CompareError, AppendError, StartError, RoomError,
        StreamRunError, ReadError, ProjectionError, SaveError, CreateThreadError, EditThreadError, MarkReadError,
        ChangeThreadError, DeleteThreadError, StopError, ListError, FeedError, EraseError, RestoreError, ApproveError,
        PageError, CompleteRunError, AnswerError, AttemptError, QueueError, ForkError, BranchError, ClaimError, ValidateError,
        AgentDataError;
    ReplacedLog => LogReplaced: AppendError, DeleteThreadError, EditThreadError, EndRunError, HeartbeatError, MarkReadError,
        PageError, QueueError, StartError, AttemptError, ForkError, BranchError;
    Limited => Limited: RoomError, SaveError, ProjectionError, ReadError, ListError, ForkError, ValidateError, AttemptError,
        AppendError, AgentDataError;
    InvalidMessage => InvalidMessage: SaveError;
    EventError => InvalidEvent: StreamRunError, SaveError, ValidateError;
}

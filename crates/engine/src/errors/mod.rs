//! Errors of the use cases.

mod causes;
mod conversion;
mod operations;
mod service_error;

pub(crate) use operations::{AnswerError, CompareError, ForbiddenError, NotYoursError};
pub use operations::{
    AppendError, ApproveError, AttemptError, BranchError, ChangeThreadError, ClaimError, CompleteRunError,
    CreateThreadError, DeleteThreadError, DrainingError, EditThreadError, EndRunError, EntryError, EraseError,
    FeedError, FinishError, ForkError, HeartbeatError, InvalidRequestError, ListError, LookupError, MarkReadError,
    PageError, ProjectionError, QueueError, ReadError, RestoreError, RoomError, RunLookupError, SaveError, StartError,
    StopError, StreamRunError, ValidateError,
};
pub use service_error::{ActiveRun, QueueLimit, ServiceError};

//! Errors of the use cases.

mod causes;
mod conversion;
mod operations;
mod service_error;

pub use operations::{
    AgentDataError, AppendError, ApproveError, AttemptError, BranchError, ChangeThreadError, ClaimError,
    CompleteRunError, CreateThreadError, DeleteThreadError, DrainingError, EditThreadError, EndRunError, EraseError,
    FeedError, FinishError, ForkError, HeartbeatError, InvalidRequestError, ListError, LookupError, MarkReadError,
    PageError, ProjectionError, QueueError, ReadError, RestoreError, RoomError, RunLookupError, SaveError, StartError,
    StopError, StreamRunError, ValidateError,
};
pub(crate) use operations::{AnswerError, CompareError, ForbiddenError, NotYoursError};
pub use service_error::{ActiveRun, DataLimit, QueueLimit, ServiceError};

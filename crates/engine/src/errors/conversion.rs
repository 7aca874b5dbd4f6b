//! Conversion of every operation's error into a type of an API.

/// Implements `From` of each operation's error for a type that has `From<ServiceError>`.
#[macro_export]
macro_rules! from_operation_errors {
    ($target:ty) => {
        $crate::from_operation_errors! {
            $target:
            AppendError, ApproveError, AttemptError, BranchError, ChangeThreadError, ClaimError, CompleteRunError, CreateThreadError, DeleteThreadError, DrainingError, EditThreadError, EndRunError, AgentDataError, EraseError,
            FeedError, FinishError, ForkError, HeartbeatError, InvalidRequestError, ListError, LookupError, MarkReadError,
            PageError, ProjectionError, QueueError, ReadError, RestoreError, RoomError, RunLookupError, SaveError, StartError, StopError,
            StreamRunError, ValidateError,
        }
    };
    ($target:ty: $($name:ident),+ $(,)?) => {$(
        impl From<$crate::$name> for $target {
            fn from(error: $crate::$name) -> Self {
                $crate::ServiceError::from(error).into()
            }
        }
    )+};
}

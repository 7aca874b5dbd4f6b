//! Errors of requests about runs of agents, and about agents.

use threadline_core::{
    AgentId, EventError, EventErrorKind, RunId, ToolCallId,
    limits::{MAX_CLIENT_CONTEXT_BYTES, MAX_EVENT_BYTES, MAX_TREE_BYTES},
};
use threadline_engine::{ServiceError, StoreError};

use super::interrupts::InterruptError;

/// Reason why a request about a run or an agent fails.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AgentError {
    /// No agent has this name.
    #[error("no agent has the ID {:?}", .0.as_str())]
    NotFound(AgentId),
    /// The client's input for the agent is invalid.
    #[error("invalid input: {0}")]
    InvalidInput(String),
    /// The client's input for the agent does not fit into an event.
    #[error(
        "the new messages and the state must not exceed {MAX_EVENT_BYTES} bytes each, nor have so many values that they take more than {MAX_TREE_BYTES} bytes as a tree"
    )]
    TooLarge,
    /// The messages or the state at the event after which the run was to begin do not fit into an event.
    #[error(
        "the messages and the state at the checkpoint must not exceed {MAX_EVENT_BYTES} bytes each: begin the run at the newest one"
    )]
    EarlierTooLarge,
    /// The `context` of an untrusted client exceeds the limit for OpenAI-compatible agents.
    #[error(
        "`context` has {0} bytes; without an API key, an OpenAI-compatible agent accepts at most {MAX_CLIENT_CONTEXT_BYTES}"
    )]
    ContextTooLarge(usize),
    /// The thread has open interrupts that the input does not answer, or the input answers interrupts that are not
    /// open.
    #[error("{0}")]
    Interrupts(InterruptError),
    /// A claim that the request names is held by another client, or its call has a result.
    #[error("the claim of tool call {:?} was taken by another client, or the call has a result", .0.as_str())]
    ClaimLost(ToolCallId),
    /// Only the application answers the interrupts of this agent.
    #[error("interrupts of agent {:?} are answered with an API key, not by its users", .0.as_str())]
    BackendApproves(AgentId),
    /// The thread has a run of this id that belongs to another agent.
    #[error("run {:?} belongs to another agent", .0.as_str())]
    RunTaken(RunId),
    /// The thread has a run of this id that was started with other messages or answers.
    #[error("run {:?} exists and was requested with other messages or answers", .0.as_str())]
    RunUsed(RunId),
    /// The definition of the agent is invalid.
    #[error("invalid definition: {0}")]
    InvalidAgent(String),
    /// The agent would have another origin than before, for which the caller lacks a scope.
    #[error(
        "agent {:?} was at another origin before: moving it needs the scope `admin`, or an origin in the project's agentOrigins", .0.as_str()
    )]
    OtherOrigin(AgentId),
    /// The agent was changed by another request at the same time.
    #[error("agent {:?} was changed at the same time: try again", .0.as_str())]
    Overtaken(AgentId),
    /// The agent is built in or part of the configuration, and cannot be changed over the API.
    #[error("agent {:?} is defined by the server's configuration", .0.as_str())]
    Configured(AgentId),
    /// The node has reached its limit of concurrent runs.
    #[error("the maximum number of agent runs is active on this server")]
    Busy,
    /// Failure of the underlying use case.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

threadline_engine::from_operation_errors!(AgentError);

impl From<StoreError> for AgentError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

impl From<EventError> for AgentError {
    fn from(error: EventError) -> Self {
        match error.kind {
            EventErrorKind::EventTooLarge | EventErrorKind::BatchTooLarge | EventErrorKind::TooManyValues => {
                Self::TooLarge
            }
            kind => Self::InvalidInput(kind.to_string()),
        }
    }
}

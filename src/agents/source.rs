//! Input and events of an agent, independent of its kind.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::Serialize;
use sha2::{Digest, Sha256};
use threadline_core::{
    Principal, ProjectId, RunId, ThreadId, UserId, hex, json::quoted, projection::conversation::UnverifiedCall,
};

use super::{client_input::Unknown, forwarded};

/// Events of one run of an agent, in order, each a JSON text that is not yet validated. Dropping the stream ends the
/// request.
pub type EventStream = BoxStream<'static, Result<Bytes, AgentFailure>>;

/// AG-UI's RunAgentInput. JSON members are kept as text, validated when received, so that a long history is not parsed
/// and serialized again. Source: <https://docs.ag-ui.com/sdk/js/core/types#runagentinput>.
#[derive(Debug, Clone)]
pub struct RunInput {
    pub thread_id: ThreadId,
    pub run_id: RunId,
    /// Id of the run that this one continues.
    pub parent_run_id: Option<String>,
    /// Conversation, as a JSON array of messages.
    pub messages: String,
    /// State, as any JSON value.
    pub state: String,
    /// Tools of the frontend, as a JSON array.
    pub tools: String,
    /// Context entries, as a JSON array.
    pub context: String,
    /// Trust in the author of the context.
    pub trust: Trust,
    /// Forwarded properties, as any JSON value.
    pub forwarded_props: String,
    /// Answers to interrupts, as a JSON array.
    pub resume: Option<String>,
    /// Members unknown to AG-UI's current schema.
    pub rest: Unknown,
    /// Mark of the thread; `None` for a request on behalf of no user.
    pub thread_mark: Option<ThreadMark>,
    /// Call of the agent, if it is one of a run.
    pub call: Option<AgentCall>,
    /// Loss of the attempt before, if the agent is to continue it.
    pub continuation: Option<Continuation>,
}

/// Loss of an attempt, for the agent that is to continue it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Continuation {
    /// Number of the new attempt.
    pub attempt: u64,
    /// Tool calls that were begun and have no result, so that their outcome is unknown.
    pub unverified: Vec<UnverifiedCall>,
}

impl Continuation {
    /// Serializes the loss to JSON.
    pub fn to_json(&self) -> String {
        // Serializing cannot fail: the loss holds only texts and numbers.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Call of an agent for a run. A run may take several: an agent is called at least once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCall {
    /// Value of the header `Idempotency-Key`, the same in all calls of the run.
    pub key: String,
    /// Number of the attempt, from 1.
    pub attempt: u64,
}

impl AgentCall {
    /// First call of a run.
    pub fn first() -> Self {
        Self { key: RunId::generate().to_string(), attempt: 1 }
    }
}

/// Text that stands for one thread of all users and projects. An agent that remembers conversations needs it, since threads of
/// several users may have one id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadMark(String);

impl ThreadMark {
    /// Mark of the thread that a user has under this id: 32 hexadecimal digits.
    pub fn of(project: &ProjectId, user: &UserId, thread: &ThreadId) -> Self {
        let mut hash = Sha256::new();
        for part in [project.as_str(), user.as_str(), thread.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hex(&hash.finalize()[..16]))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Trust of an agent in the client: decides whether the client's context counts as the application's own statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The client has a key: it is the application.
    Key,
    /// The client may be a user's page.
    Client,
}

impl Trust {
    /// Trust in this principal.
    pub fn of(principal: &Principal) -> Self {
        if principal.has_key() { Self::Key } else { Self::Client }
    }
}

impl RunInput {
    /// Serializes the input to JSON.
    pub fn to_json(&self) -> String {
        let mut json =
            format!("{{\"threadId\":{},\"runId\":{}", quoted(self.thread_id.as_str()), quoted(self.run_id.as_str()));
        let mut member = |name: &str, value: &str| {
            json.push_str(",\"");
            json.push_str(name);
            json.push_str("\":");
            json.push_str(value);
        };
        if let Some(parent) = &self.parent_run_id {
            member("parentRunId", &quoted(parent));
        }
        member("state", &self.state);
        member("messages", &self.messages);
        member("tools", &self.tools);
        member("context", &self.context);
        match &self.continuation {
            Some(continuation) => {
                member("forwardedProps", &forwarded::with_continuation(&self.forwarded_props, continuation));
            }
            None => member("forwardedProps", &self.forwarded_props),
        }
        if let Some(resume) = &self.resume {
            member("resume", resume);
        }
        for (name, value) in &self.rest {
            json.push_str(&format!(",{}:{value}", quoted(name)));
        }
        json.push('}');
        json
    }
}

/// Reason why an agent's run fails. The run ends in RUN_ERROR with [`AgentFailure::code`] and this message, which users
/// see: it must hold nothing of the agent's address, headers or answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentFailure {
    /// No connection to the agent was possible, it answered with a status other than 2xx, or not with an event stream. All
    /// three are one error, which does not show what listens at an address. The server's log has the cause.
    #[error("cannot reach the agent, or it does not answer with an event stream: see the server's log")]
    Unreachable,
    /// The port of the agent's address is that of another kind of service.
    #[error("the agent's address has a port below 1024 that is neither 80 nor 443")]
    ForbiddenPort,
    /// The agent was made over the API, and its address leads into a network that is not allowed for such agents.
    #[error(
        "the agent's address is not on the public internet: the server's operator can allow its network with \
         --allow-agent-networks"
    )]
    Forbidden,
    /// The agent sent no byte until its read timeout.
    #[error("the agent sent nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// The agent's stream ended with a connection error.
    #[error("the connection to the agent was lost before the run ended")]
    Broken,
    /// The agent sent an event that cannot be stored.
    #[error("the agent sent an invalid event: {0}")]
    InvalidEvent(String),
    /// The agent wrote under the id of a user's message or of a tool's result, to which its words would be added.
    #[error("the agent wrote under the ID of a message of the user or of a tool, {0:?}")]
    MessageIdTaken(String),
    /// The agent's stream ended without RUN_FINISHED or RUN_ERROR.
    #[error("the agent's stream ended without RUN_FINISHED or RUN_ERROR")]
    Incomplete,
}

impl AgentFailure {
    /// Stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable => "agent-unreachable",
            Self::Forbidden | Self::ForbiddenPort => "agent-address-forbidden",
            Self::Silent(_) => "agent-silent",
            Self::Broken => "agent-broken",
            Self::InvalidEvent(_) => "agent-invalid-event",
            Self::MessageIdTaken(_) => "message-id-taken",
            Self::Incomplete => "agent-incomplete",
        }
    }
}

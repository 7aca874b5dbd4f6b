//! What an agent is given and what comes back, whatever kind of agent it is.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;

use super::client_input::Unknown;
use crate::domain::{Principal, RunId, ThreadId, json::quoted};

/// The events of one run of an agent, each one JSON text (not checked yet), in order. Dropping it ends the request.
pub type EventStream = BoxStream<'static, Result<Bytes, AgentFailure>>;

/// AG-UI's RunAgentInput. What is JSON is kept as text, checked at the edge, so that a long history is not parsed to be
/// written again. Source: <https://docs.ag-ui.com/sdk/js/core/types#runagentinput>.
#[derive(Debug, Clone)]
pub struct RunInput {
    /// The thread.
    pub thread_id: ThreadId,
    /// The run.
    pub run_id: RunId,
    /// The run that this one goes on from.
    pub parent_run_id: Option<String>,
    /// The conversation, a JSON array of messages.
    pub messages: String,
    /// The state, any JSON value.
    pub state: String,
    /// A JSON array of tools that the frontend has.
    pub tools: String,
    /// A JSON array of context entries.
    pub context: String,
    /// Whose word the context is.
    pub trust: Trust,
    /// Any JSON value.
    pub forwarded_props: String,
    /// A JSON array of answers to interrupts.
    pub resume: Option<String>,
    /// Members that AG-UI does not name (yet).
    pub rest: Unknown,
}

/// How far an agent may take what a client says of itself for the application's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// It has shown a key: it is the application.
    Key,
    /// It is a user's page, or may be one.
    Client,
}

impl Trust {
    /// Of this principal.
    pub fn of(principal: &Principal) -> Self {
        if principal.has_key() { Self::Key } else { Self::Client }
    }
}

impl RunInput {
    /// As JSON text.
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
        member("forwardedProps", &self.forwarded_props);
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

/// Why an agent's run cannot go on. The run ends in RUN_ERROR with [`AgentFailure::code`] and this message, which
/// users see: it holds nothing of the agent's address, headers or answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentFailure {
    /// No connection could be made.
    #[error("the agent could not be reached")]
    Unreachable,
    /// It was made over the API, and its address leads into a network that such agents are not called in.
    #[error(
        "the agent's address is not on the public internet: the server's operator can allow its network with \
         --allow-agent-networks"
    )]
    Forbidden,
    /// It answered with another status than 2xx.
    #[error("the agent refused the run with HTTP status {0}")]
    Refused(u16),
    /// It answered with something that is no event stream.
    #[error("the agent answered with something that is no AG-UI event stream")]
    NotAStream,
    /// It said nothing for too long.
    #[error("the agent was silent for {} s", .0.as_secs())]
    Silent(Duration),
    /// Its stream broke off.
    #[error("the connection to the agent broke before the run had ended")]
    Broken,
    /// It sent what cannot be stored.
    #[error("the agent sent an event that cannot be stored: {0}")]
    InvalidEvent(String),
    /// Its stream ended without RUN_FINISHED or RUN_ERROR.
    #[error("the agent's stream ended without RUN_FINISHED or RUN_ERROR")]
    Incomplete,
}

impl AgentFailure {
    /// The stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable => "agent-unreachable",
            Self::Forbidden => "agent-address-forbidden",
            Self::Refused(_) => "agent-refused",
            Self::NotAStream => "agent-not-a-stream",
            Self::Silent(_) => "agent-silent",
            Self::Broken => "agent-broken",
            Self::InvalidEvent(_) => "agent-invalid-event",
            Self::Incomplete => "agent-incomplete",
        }
    }
}

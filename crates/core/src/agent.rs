//! Agents, which carry out runs.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::AgentId;

/// Named agent of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Name of the agent, by which a run requests it.
    pub id: AgentId,
    /// Protocol and settings of the agent.
    pub kind: AgentKind,
    /// Policy for a run whose requester disconnects.
    pub on_disconnect: OnDisconnect,
    /// Read timeout: a run whose agent sends nothing for this long is ended.
    pub idle_timeout: Duration,
    /// True if the agent may also be asked for names of its threads, not only for their runs.
    pub names_threads: bool,
    /// Clients that may answer the agent's interrupts.
    pub approvals: Approvals,
}

/// Protocol of an agent, with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentKind {
    /// AG-UI endpoint: a `POST` of a RunAgentInput is answered by an SSE stream of events.
    AgUi {
        /// Address to which the request is sent.
        url: String,
        /// Header fields sent with each request.
        headers: Vec<(String, Secret)>,
    },
    /// Endpoint that is compatible with OpenAI's chat completions.
    OpenAi {
        /// Address up to and without `/chat/completions`.
        base_url: String,
        /// Model named in each request.
        model: String,
        /// API key, sent as bearer token; `None` sends no token.
        api_key: Option<Secret>,
        /// System message put before the conversation; `None` adds no message.
        instructions: Option<String>,
    },
    /// Built-in demo agent: scripted, without any network.
    Demo,
}

/// Policy for a run whose requester disconnects while it waits for the run's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDisconnect {
    /// The run continues; its events are in the log.
    #[default]
    Continue,
    /// The run is stopped.
    Stop,
}

/// Clients that may answer an agent's interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approvals {
    /// Every client with the scope `approve`, end users included.
    #[default]
    User,
    /// The application alone, with its key.
    Backend,
}

/// Text that is never printed: its [`fmt::Debug`] form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Wraps a text so that it is not printed.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Text of the secret, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

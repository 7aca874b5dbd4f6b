//! Agents: what a run can be handed to.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::AgentId;

/// A named agent of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its name.
    pub id: AgentId,
    /// What it is.
    pub kind: AgentKind,
    /// What becomes of a run whose requester goes away.
    pub on_disconnect: OnDisconnect,
    /// Longest silence of the agent before its run is ended.
    pub idle_timeout: Duration,
    /// Whether it may be asked for the names of its threads, beside their runs.
    pub names_threads: bool,
}

/// What an agent is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentKind {
    /// An AG-UI endpoint: `POST` of a RunAgentInput, answered by an SSE stream of events.
    AgUi {
        /// Its address.
        url: String,
        /// Header fields sent with each request.
        headers: Vec<(String, Secret)>,
    },
    /// An endpoint in the shape of OpenAI's chat completions.
    OpenAi {
        /// Up to and without `/chat/completions`.
        base_url: String,
        /// The model asked for.
        model: String,
        /// Sent as bearer token.
        api_key: Option<Secret>,
        /// A system message put before the conversation.
        instructions: Option<String>,
    },
    /// The built-in demo: scripted, without any network.
    Demo,
}

/// What becomes of a run whose requester goes away while it waits for the run's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDisconnect {
    /// The run goes on; its events are in the log.
    #[default]
    Continue,
    /// The run is stopped.
    Stop,
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Keeps a text from being printed.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

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
    /// Input that untrusted clients may supply to a run.
    pub client_may: ClientMay,
    /// Names of the agent's own tools. A client's input must not supply tools with these names.
    pub reserved_tools: Vec<String>,
    /// Parts of a run's input that are kept with the run.
    pub record: Record,
    /// Policy for a run whose node is lost.
    pub recovery: Recovery,
    /// True if the agent's tool calls may be carried out twice.
    pub tools_repeatable: bool,
    /// Fate of a request that meets an active run and does not choose.
    pub busy: Busy,
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

/// Policy for a run whose node is lost while the agent answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recovery {
    /// The run ends with an error. The agent is called once at most.
    None,
    /// The half answer is superseded, and another node calls the agent with the same input again. A run that has logged a
    /// tool call, or that answers an interrupt, ends with an error instead.
    #[default]
    Retry,
    /// Messages that are complete and tool calls that have a result are kept, and another node calls the agent again with
    /// them, and with the calls whose outcome is unknown. A run that answers an interrupt ends with
    /// an error instead.
    Continue,
}

/// Fate of a request for a run while another run of its thread is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Busy {
    /// The request is refused.
    #[default]
    Reject,
    /// The turn is queued behind all others.
    Enqueue,
    /// The turn is queued before all others, and the active run is stopped.
    Interrupt,
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

/// Input that untrusted clients may supply to a run of an agent. Other input is ignored, and counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClientMay {
    /// Clients that these rules concern.
    #[serde(rename = "for")]
    pub subject: RuleSubject,
    /// Source of the messages that the agent is given.
    pub history: HistorySource,
    /// Place of new messages of role `system` or `developer`.
    pub system: SystemMessages,
    /// True if the client's state replaces the thread's.
    pub state: bool,
    /// Tools of the front end that are handed to the agent.
    pub tools: ClientTools,
    /// Tool calls whose results the client may supply.
    pub results: ToolResults,
}

impl Default for ClientMay {
    fn default() -> Self {
        let (subject, history) = (RuleSubject::default(), HistorySource::default());
        let (system, tools, results) = Default::default();
        Self { subject, history, system, state: true, tools, results }
    }
}

/// Clients that the rules for input concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleSubject {
    /// Users' tokens, pages with lent access, and every client in development mode.
    #[default]
    Untrusted,
    /// Keys as well: for a backend that forwards what its users send.
    All,
}

/// Source of the messages that an agent is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistorySource {
    /// The log. A message that the client sends again refers to the stored one.
    #[default]
    Reference,
    /// The client, whose messages of every role are trusted, as those of a key are.
    Replace,
}

/// Place of new messages of role `system` or `developer` from an untrusted client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemMessages {
    /// The client's context, which the model reads at the level of the user. They are not stored.
    #[default]
    Context,
    /// The conversation: they are stored, and given to the agent as they are.
    Keep,
    /// Nowhere: they are ignored.
    Ignore,
}

/// Tool calls whose results an untrusted client may supply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolResults {
    /// Open calls of tools that the client had supplied to the run which made the call.
    #[default]
    Own,
    /// Open calls of all tools.
    Any,
}

/// Tools of the front end that are handed to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClientTools {
    /// All of them, or none.
    All(bool),
    /// Only the tools of these names.
    Named(Vec<String>),
}

impl Default for ClientTools {
    fn default() -> Self {
        Self::All(true)
    }
}

impl ClientTools {
    /// True if a tool of this name is handed on.
    pub fn allow(&self, name: &str) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Named(names) => names.iter().any(|allowed| allowed == name),
        }
    }
}

/// Parts of a run's input that are kept with the run, besides its messages and its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Record {
    /// Digests of the tools and the context, and the names of the tools.
    #[default]
    Digest,
    /// The tools and the context as well, as long as each has at most
    /// [`MAX_RECORDED_BYTES`](crate::limits::MAX_RECORDED_BYTES).
    Full,
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

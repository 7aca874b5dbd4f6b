//! Evidence of what an agent was given: in the metadata of the run's RUN_STARTED, stored before the agent is asked. Whoever has
//! the log can build the input again and compare the digests, see `threadline verify-run`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use threadline_core::{
    Seq,
    agent::{Agent, AgentKind, Record},
    hex,
    limits::{MAX_NOTED_TOOL_BYTES, MAX_RECORDED_BYTES},
    projection::conversation::Conversation,
};

use super::{
    messages::joined_texts,
    rules::{Ignored, Window},
};
use crate::agents::{
    reading::{items, whole},
    source::{RunInput, Trust},
};

/// Version of the evidence.
const VERSION: u32 = 1;

/// Value of the member `threadline.given`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Version of this value.
    pub v: u32,
    /// Version of the fold with which the messages and the state were built.
    pub fold: u32,
    /// SHA-256 of each part, in hexadecimal, of its JSON text as it was handed to the agent.
    pub digests: Digests,
    /// Client that asked for the run.
    pub trust: Believed,
    /// Earlier event whose conversation the run continues; `None` for the conversation before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Base>,
    /// Source of the messages.
    pub messages: Messages,
    /// Source of the state.
    pub state: StateSource,
    /// Names of the front end's tools.
    pub tools: Vec<String>,
    /// Number of context entries.
    pub context: usize,
    /// Number of messages that became context.
    pub moved: usize,
    /// Parts of the client's input that were ignored, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ignored: BTreeMap<String, usize>,
    /// SHA-256 of the agent's instructions, in hexadecimal, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Tools and context themselves, for an agent whose `record` is `full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
}

/// Earlier event that a run went back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Seq of the event.
    pub seq: Seq,
    /// Number of the run's first events that bring the conversation back, with RUN_STARTED.
    pub events: usize,
}

/// Client that asked for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Believed {
    /// The application, with its key.
    Key,
    /// A client that is not trusted.
    Client,
}

/// Digests of the parts of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    pub messages: String,
    pub state: String,
    pub tools: String,
    pub context: String,
}

/// Source of the messages of an input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Messages {
    /// Number of all messages that the agent was given.
    pub count: usize,
    /// Part of the log, followed by the messages of RUN_STARTED; `None` if the client's own messages were handed on,
    /// which are not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<MessageSource>,
}

/// Part of the log that an agent was given, and all instructions in the log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MessageSource {
    /// Position of the first message, from 0, among the conversation's messages without its activities.
    pub start: usize,
    /// Position after the last message.
    pub end: usize,
    /// Parts without, each from a position to another: edited messages, and what followed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<(usize, usize)>,
    /// Id of the first message; `None` if the part has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Id of the last message; `None` if the part has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
}

/// Source of the state of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateSource {
    /// The thread's state before the run.
    Thread,
    /// The client's state, which the run's STATE_SNAPSHOT holds.
    Client,
}

/// Parts of an input that are kept as they were handed to the agent, each as JSON text; `None` if it was too large.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorded {
    pub tools: Option<String>,
    pub context: Option<String>,
}

/// Facts about an input that the input itself does not show.
#[derive(Debug)]
pub struct Given {
    pub(super) source: Option<MessageSource>,
    /// Earlier event that the run goes back to.
    pub base: Option<Base>,
    pub(super) state_from_client: bool,
    pub(super) moved: usize,
    pub(super) ignored: Ignored,
}

impl Given {
    /// True if the log gives the messages of the input.
    pub fn is_from_log(&self) -> bool {
        self.source.is_some()
    }

    /// Builds the evidence of an input, as JSON.
    pub fn evidence(self, agent: &Agent, input: &RunInput) -> String {
        let instructions = match &agent.kind {
            AgentKind::OpenAi { instructions, .. } => instructions.as_deref(),
            AgentKind::AgUi { .. } | AgentKind::Demo => None,
        };
        let kept = |text: &String| (text.len() <= MAX_RECORDED_BYTES).then(|| text.clone());
        let recorded = Recorded { tools: kept(&input.tools), context: kept(&input.context) };
        let evidence = Evidence {
            v: VERSION,
            fold: Conversation::VERSION,
            digests: Digests::of(input),
            trust: match input.trust {
                Trust::Key => Believed::Key,
                Trust::Client => Believed::Client,
            },
            base: self.base,
            messages: Messages { count: items(&input.messages).len(), log: self.source },
            state: if self.state_from_client { StateSource::Client } else { StateSource::Thread },
            tools: tool_names(&input.tools),
            context: items(&input.context).len(),
            moved: self.moved,
            ignored: self.ignored.iter().map(|(kind, number)| (kind.to_owned(), number)).collect(),
            instructions: instructions.map(digest),
            recorded: (agent.record == Record::Full).then_some(recorded),
        };
        // Serializing cannot fail: the evidence holds only texts and numbers.
        serde_json::to_string(&evidence).unwrap_or_default()
    }
}

impl Evidence {
    /// Number of the run's first events that the server wrote before it called the agent.
    pub(super) fn opening_events(&self) -> usize {
        match (self.base, self.state) {
            (Some(base), _) => base.events,
            (None, StateSource::Thread) => 1,
            (None, StateSource::Client) => 2,
        }
    }
}

impl Digests {
    fn of(input: &RunInput) -> Self {
        let [messages, state] = [&input.messages, &input.state].map(|text| digest(text));
        let [tools, context] = [&input.tools, &input.context].map(|text| digest(text));
        Self { messages, state, tools, context }
    }
}

impl MessageSource {
    pub(super) fn of(window: &Window, conversation: &Conversation) -> Self {
        let said = conversation.messages().filter(|message| message.role() != "activity");
        let ids: Vec<&str> = said.map(|message| message.id()).collect();
        let (start, end) = (window.from, window.end.min(ids.len()));
        let part = ids.get(start..end).unwrap_or_default();
        let owned = |id: Option<&&str>| id.map(|id| (*id).to_owned());
        Self { start, end, skipped: window.skipped.clone(), from: owned(part.first()), through: owned(part.last()) }
    }
}

/// SHA-256 of a text, in hexadecimal.
pub fn digest(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// Messages of an input, built again from the conversation before its run and the messages of its RUN_STARTED.
pub fn rebuild(source: &MessageSource, new: &[&RawValue], conversation: &Conversation) -> String {
    let window = Window { from: source.start, end: source.end, skipped: source.skipped.clone() };
    joined_texts(&window, new.iter().map(|message| message.get()), conversation)
}

/// Names of tools, up to [`MAX_NOTED_TOOL_BYTES`].
fn tool_names(tools: &str) -> Vec<String> {
    let tools = whole(tools);
    let names = items(&tools).into_iter().filter_map(|tool| tool.text("name"));
    let within = names.scan(0, |bytes, name| {
        *bytes += name.len();
        (*bytes <= MAX_NOTED_TOOL_BYTES).then_some(name)
    });
    within.collect()
}

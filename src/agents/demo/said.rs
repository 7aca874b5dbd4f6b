//! Input of the demo: the last message of the user, or the results for which it waited.

use serde_json::Value;
use threadline_core::limits::DEMO_STATE_BYTES;

use super::super::{
    reading::{Object, items, whole},
    source::RunInput,
};

/// Longest quotation, in characters.
const QUOTED: usize = 200;

/// Parts of an input that the demo uses.
pub(super) struct Said {
    /// Text of the user's last message.
    pub(super) text: String,
    pub(super) tools: Vec<Tool>,
    /// Tool results at the end of the conversation.
    pub(super) results: Vec<ToolResult>,
    pub(super) resume: Vec<Resume>,
}

/// Tool of the frontend.
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) parameters: Value,
}

/// Result of a frontend's tool.
pub(super) struct ToolResult {
    /// Name of the tool, if its call is in the conversation.
    pub(super) tool: Option<String>,
    pub(super) content: String,
}

/// Answer to an interrupt.
pub(super) enum Resume {
    Approved,
    Declined,
    Cancelled,
    /// Payload of an unexpected form, as text.
    Other(String),
}

impl Said {
    pub(super) fn read(input: &RunInput) -> Self {
        let messages = whole(&input.messages);
        let messages = items(&messages);
        let role = |message: &Object<'_>| message.text("role").unwrap_or_default();
        let user = messages.iter().rfind(|message| role(message) == "user");
        let from = messages.iter().rposition(|message| role(message) != "tool").map_or(0, |at| at + 1);
        let tools = whole(&input.tools);
        let resume = input.resume.as_deref().map(whole).unwrap_or_default();
        Self {
            text: user.map(|message| content(*message)).unwrap_or_default(),
            tools: items(&tools).into_iter().filter_map(Tool::read).collect(),
            results: messages[from..].iter().map(|message| ToolResult::read(*message, &messages)).collect(),
            resume: items(&resume).into_iter().map(Resume::read).collect(),
        }
    }

    /// True if the user's message contains this word.
    pub(super) fn has(&self, word: &str) -> bool {
        let of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        self.text.split(|c| !of_word(c)).any(|said| said.eq_ignore_ascii_case(word))
    }

    /// Finds the tool that the user named; of several, the one with the longest name.
    pub(super) fn tool(&self) -> Option<&Tool> {
        let plain = |name: &str| name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        let named = |tool: &&Tool| {
            let name = tool.name.as_str();
            !name.is_empty() && (self.has(name) || (!plain(name) && self.text.contains(name)))
        };
        self.tools.iter().filter(named).max_by_key(|tool| tool.name.len())
    }

    /// Text of the user on one line, shortened to [`QUOTED`] characters.
    pub(super) fn quote(&self) -> String {
        quote(&self.text)
    }

    /// Counts words and characters, and finds the longest word.
    pub(super) fn counts(&self) -> (usize, usize, String) {
        let words = || self.text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let length = |word: &&str| word.chars().count();
        // The first of several words that are equally long.
        let longest = words().rev().max_by_key(length).unwrap_or_default();
        (words().count(), self.text.chars().count(), longest.chars().take(QUOTED).collect())
    }
}

impl Tool {
    fn read(tool: Object<'_>) -> Option<Self> {
        // A larger schema is no example for anyone.
        let schema = tool.raw("parameters").filter(|schema| schema.len() <= DEMO_STATE_BYTES);
        let parameters = schema.and_then(|schema| serde_json::from_str(schema).ok());
        Some(Self { name: tool.text("name")?, parameters: parameters.unwrap_or_default() })
    }
}

impl ToolResult {
    fn read(message: Object<'_>, messages: &[Object<'_>]) -> Self {
        let id = message.text("toolCallId");
        let mut calls = messages.iter().rev().flat_map(|message| message.items("toolCalls"));
        let call = calls.find(|call| id.is_some() && call.text("id") == id);
        let tool = call.and_then(|call| Object(call.raw("function")?).text("name"));
        let content = Some(content(message)).filter(|content| !content.is_empty());
        Self { tool, content: quote(&content.or(message.text("error")).unwrap_or_default()) }
    }
}

impl Resume {
    fn read(entry: Object<'_>) -> Self {
        if entry.text("status").as_deref() == Some("cancelled") {
            return Self::Cancelled;
        }
        let payload = entry.raw("payload").unwrap_or("null");
        match Object(payload).raw("approved").unwrap_or(payload) {
            "true" => Self::Approved,
            "false" => Self::Declined,
            _ => Self::Other(quote(payload)),
        }
    }
}

/// Text of a message; of a list of parts, its text parts.
fn content(message: Object<'_>) -> String {
    match message.raw("content") {
        Some(parts) if parts.starts_with('[') => {
            items(parts).iter().filter_map(|part| part.text("text")).collect::<Vec<_>>().join("\n")
        }
        _ => message.text("content").unwrap_or_default(),
    }
}

fn quote(text: &str) -> String {
    let mut quoted = String::new();
    for word in text.split_whitespace() {
        if !quoted.is_empty() {
            quoted.push(' ');
        }
        quoted.extend(word.chars().take(QUOTED + 1));
        if quoted.chars().nth(QUOTED).is_some() {
            return quoted.chars().take(QUOTED).chain(['…']).collect();
        }
    }
    quoted
}

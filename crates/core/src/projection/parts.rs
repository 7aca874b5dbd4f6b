//! Texts, reasoning and tool calls of the assistant, as the events of a run begin, continue and end them.
//!
//! Views of other protocols fold [`Step`]s in place of events: here lies the knowledge of chunk events, of events of older
//! protocols, and of the messages that are not the assistant's.

use std::collections::{HashMap, HashSet};

use super::lane::{Lane, closes_lane};
use crate::{
    event::names_subagent,
    json,
    limits::{MAX_OPEN_PARTS, MAX_UI_TEXTS},
};

/// Kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Text,
    Reasoning,
}

/// Change of a part, with the id of its message or call in the log. Deltas are JSON strings as the log has them, never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step<'e> {
    Begin(Kind, String),
    Delta(Kind, String, &'e str),
    End(Kind, String),
    Call { id: String, name: String },
    Args(String, &'e str),
    CallEnd(String),
}

/// Fold from events to the steps of parts.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    lane: Option<Lane>,
    /// Messages of the log whose texts are not the assistant's.
    silent: HashSet<(Kind, String)>,
}

/// Id in place of one that an event does not have.
pub(super) const NO_ID: &str = "";

impl Parts {
    /// Reads an event of this type; `None` for one of a subagent, whose messages are not the assistant's.
    pub fn read<'e>(&mut self, kind: &str, event: &'e str) -> Option<Vec<Step<'e>>> {
        if !kind.starts_with("RUN_") && names_subagent(event) {
            self.leave_out_subagent(kind, event);
            return None;
        }
        let mut steps = Vec::new();
        if closes_lane(kind) {
            self.leave_lane(&mut steps);
        }
        let text = |name: &str| json::string_member(event, name);
        let id = |name: &str| text(name).unwrap_or_else(|| NO_ID.to_owned());
        match kind {
            "TEXT_MESSAGE_START" => self.start(Kind::Text, id("messageId"), text("role"), &mut steps),
            "TEXT_MESSAGE_CONTENT" => self.delta(Kind::Text, id("messageId"), event, &mut steps),
            "TEXT_MESSAGE_END" => self.end(Kind::Text, id("messageId"), &mut steps),
            "TEXT_MESSAGE_CHUNK" => self.text_chunk(Kind::Text, event, &mut steps),
            "REASONING_MESSAGE_START" => self.start(Kind::Reasoning, id("messageId"), None, &mut steps),
            "REASONING_MESSAGE_CONTENT" => self.delta(Kind::Reasoning, id("messageId"), event, &mut steps),
            "REASONING_MESSAGE_END" => self.end(Kind::Reasoning, id("messageId"), &mut steps),
            "REASONING_MESSAGE_CHUNK" => self.text_chunk(Kind::Reasoning, event, &mut steps),
            // Events of AG-UI before 1.0, which name no message.
            "THINKING_TEXT_MESSAGE_START" => self.start(Kind::Reasoning, NO_ID.to_owned(), None, &mut steps),
            "THINKING_TEXT_MESSAGE_CONTENT" => self.delta(Kind::Reasoning, NO_ID.to_owned(), event, &mut steps),
            "THINKING_TEXT_MESSAGE_END" => self.end(Kind::Reasoning, NO_ID.to_owned(), &mut steps),
            "TOOL_CALL_START" => steps.push(Step::Call { id: id("toolCallId"), name: id("toolCallName") }),
            "TOOL_CALL_ARGS" => args(id("toolCallId"), event, &mut steps),
            "TOOL_CALL_END" | "TOOL_CALL_RESULT" => steps.push(Step::CallEnd(id("toolCallId"))),
            "TOOL_CALL_CHUNK" => self.call_chunk(event, &mut steps),
            "RUN_FINISHED" | "RUN_ERROR" => self.silent.clear(),
            _ => {}
        }
        Some(steps)
    }

    fn leave_out_subagent(&mut self, kind: &str, event: &str) {
        let of = match kind {
            "TEXT_MESSAGE_START" => Kind::Text,
            "REASONING_MESSAGE_START" => Kind::Reasoning,
            _ => return,
        };
        if let Some(message) = json::string_member(event, "messageId") {
            self.leave_out(of, message);
        }
    }

    /// Leaves out the texts of a message of the log until it ends.
    fn leave_out(&mut self, kind: Kind, message: String) {
        if self.silent.len() < MAX_OPEN_PARTS {
            self.silent.insert((kind, message));
        }
    }

    fn start(&mut self, kind: Kind, message: String, role: Option<String>, steps: &mut Vec<Step<'_>>) {
        if role.is_some_and(|role| role != "assistant") {
            self.leave_out(kind, message);
        } else {
            steps.push(Step::Begin(kind, message));
        }
    }

    fn delta<'e>(&mut self, kind: Kind, message: String, event: &'e str, steps: &mut Vec<Step<'e>>) {
        let Some(delta) = piece(json::member(event, "delta")) else { return };
        let key = (kind, message);
        if self.silent.is_empty() || !self.silent.contains(&key) {
            steps.push(Step::Delta(kind, key.1, delta));
        }
    }

    fn end(&mut self, kind: Kind, message: String, steps: &mut Vec<Step<'_>>) {
        let key = (kind, message);
        self.silent.remove(&key);
        steps.push(Step::End(kind, key.1));
    }

    fn text_chunk<'e>(&mut self, kind: Kind, event: &'e str, steps: &mut Vec<Step<'e>>) {
        let message = match (json::string_member(event, "messageId"), &self.lane) {
            (Some(message), _) => message,
            (None, Some(Lane::Text(message))) if kind == Kind::Text => message.clone(),
            (None, Some(Lane::Reasoning(message))) if kind == Kind::Reasoning => message.clone(),
            _ => return,
        };
        let lane = match kind {
            Kind::Text => Lane::Text(message.clone()),
            Kind::Reasoning => Lane::Reasoning(message.clone()),
        };
        self.enter_lane(lane, steps);
        if let Some(role) = json::string_member(event, "role") {
            self.start(kind, message.clone(), Some(role), steps);
        }
        self.delta(kind, message, event, steps);
    }

    fn call_chunk<'e>(&mut self, event: &'e str, steps: &mut Vec<Step<'e>>) {
        let id = match (json::string_member(event, "toolCallId"), &self.lane) {
            (Some(id), _) => id,
            (None, Some(Lane::Tool(id))) => id.clone(),
            _ => return,
        };
        self.enter_lane(Lane::Tool(id.clone()), steps);
        if let Some(name) = json::string_member(event, "toolCallName") {
            steps.push(Step::Call { id: id.clone(), name });
        }
        args(id, event, steps);
    }

    fn enter_lane(&mut self, lane: Lane, steps: &mut Vec<Step<'_>>) {
        if self.lane.as_ref() != Some(&lane) {
            self.leave_lane(steps);
            self.lane = Some(lane);
        }
    }

    /// Ends the text or call that chunk events have continued.
    fn leave_lane(&mut self, steps: &mut Vec<Step<'_>>) {
        match self.lane.take() {
            Some(Lane::Text(message)) => self.end(Kind::Text, message, steps),
            Some(Lane::Reasoning(message)) => self.end(Kind::Reasoning, message, steps),
            Some(Lane::Tool(id)) => steps.push(Step::CallEnd(id)),
            None => {}
        }
    }
}

fn args<'e>(id: String, event: &'e str, steps: &mut Vec<Step<'e>>) {
    steps.extend(piece(json::member(event, "delta")).map(|delta| Step::Args(id, delta)));
}

/// Piece of a text, a JSON string; `None` if it is empty or no string.
pub(super) fn piece(token: Option<&str>) -> Option<&str> {
    token.filter(|token| token.starts_with('"') && *token != "\"\"")
}

/// Ids of texts, each unique in its stream.
#[derive(Debug, Clone, Default)]
pub(super) struct TextIds {
    /// Number of uses of an id, by the kind and the message of the log.
    used: HashMap<(Kind, String), u64>,
    /// Number of texts so far.
    count: u64,
}

impl TextIds {
    /// True if a message of the log has given a text of this kind.
    pub fn has(&self, kind: Kind, message: &str) -> bool {
        self.used.contains_key(&(kind, message.to_owned()))
    }

    /// Id of the next text of a message: that of the message, with a number after the first time. An id that ends like a
    /// numbered one gets its number at once: no two texts have one id.
    pub fn next(&mut self, kind: Kind, message: &str) -> String {
        self.count += 1;
        let key = (kind, message.to_owned());
        let number = if self.used.contains_key(&key) || self.used.len() < MAX_UI_TEXTS {
            let uses = self.used.entry(key).or_default();
            *uses += 1;
            *uses
        } else {
            self.count
        };
        let is_plain = number == 1 && !message.is_empty() && !is_numbered(message);
        if is_plain { message.to_owned() } else { format!("{message}#{number}") }
    }
}

/// True for an id that ends as the numbered id of another text does.
fn is_numbered(id: &str) -> bool {
    id.rsplit_once('#')
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

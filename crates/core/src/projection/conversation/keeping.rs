//! Parts of a lost attempt that stay in the conversation: messages that are complete, and tool calls that have a result.
//!
//! The state stays as it is: each event of it is complete by itself, and results of tools refer to it.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{
    list::List,
    message::{Content, Message, ToolCall},
};

/// Tool call that was begun and has no result, so that its effect is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnverifiedCall {
    /// Id of the call.
    pub tool_call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as far as they are known: often the beginning of a JSON text.
    pub arguments: String,
}

/// Fate of a tool call.
enum Stays<'a> {
    /// The call has a result.
    AsItIs,
    /// The call has no result, and was there before the attempt.
    AsBefore(&'a ToolCall),
    No,
}

/// Messages of a lost attempt, with those before it.
pub(super) struct Lost<'a> {
    now: &'a List,
    before: &'a List,
    /// Ids of open messages.
    open: HashSet<&'a str>,
    /// Ids of calls that have a result.
    answered: HashSet<&'a str>,
}

impl<'a> Lost<'a> {
    pub fn new(now: &'a List, before: &'a List, open: HashSet<&'a str>) -> Self {
        let results = now.iter().filter(|message| message.role() == "tool");
        let answered = results.filter_map(|message| message.member("toolCallId")).collect();
        Self { now, before, open, answered }
    }

    /// Messages that stay, each without what does not.
    pub fn kept(&self) -> Vec<Message> {
        let stays = |call: &ToolCall| match self.before.call(&call.id) {
            _ if self.answered.contains(&*call.id) => Stays::AsItIs,
            Some(earlier) => Stays::AsBefore(earlier),
            None => Stays::No,
        };
        let part = |message: &Message| {
            kept(message, self.before.with_id(message.id()), self.open.contains(message.id()), stays)
        };
        self.now.iter().filter_map(part).collect()
    }

    /// Calls without a result: of those that were begun, and of those that a snapshot has added.
    pub fn unverified(&self, begun: &[UnverifiedCall]) -> Vec<UnverifiedCall> {
        let unknown = |id: &str| !self.answered.contains(id);
        let named: HashSet<&str> = begun.iter().map(|call| call.tool_call_id.as_str()).collect();
        let in_doubt = begun.iter().filter(|call| unknown(&call.tool_call_id));
        let known = |call: &UnverifiedCall| self.now.call(&call.tool_call_id).map_or_else(|| call.clone(), unverified);
        let mut all: Vec<_> = in_doubt.map(known).collect();
        let calls = self.now.iter().flat_map(|message| message.tool_calls.as_deref().unwrap_or_default());
        let is_new = |call: &&ToolCall| !named.contains(&*call.id) && self.before.call(&call.id).is_none();
        all.extend(calls.filter(|call| unknown(&call.id)).filter(is_new).map(unverified));
        all
    }
}

/// Part of a message that stays; `None` if nothing does. `earlier` is the message before the attempt.
fn kept<'a>(
    message: &Message,
    earlier: Option<&Message>,
    is_open: bool,
    stays: impl Fn(&ToolCall) -> Stays<'a>,
) -> Option<Message> {
    let is_untouched = || earlier.is_some_and(|earlier| text(earlier) == text(message));
    let all = message.tool_calls.as_deref().unwrap_or_default();
    let has_result = |call: &ToolCall| matches!(stays(call), Stays::AsItIs);
    if !is_open && all.iter().all(has_result) || is_untouched() {
        return Some(message.clone());
    }
    let calls: Vec<_> = all
        .iter()
        .filter_map(|call| match stays(call) {
            Stays::AsItIs => Some(call.clone()),
            Stays::AsBefore(earlier) => Some(earlier.clone()),
            Stays::No => None,
        })
        .collect();
    let mut kept = match (earlier, is_open) {
        (Some(earlier), true) => earlier.clone(),
        (None, true) if calls.is_empty() => return None,
        (None, true) => Message { content: Content::Absent, ..message.clone() },
        (_, false) => message.clone(),
    };
    // A message that stood for its calls alone goes with them.
    let has_lost_all = calls.is_empty() && !all.is_empty();
    if has_lost_all
        && earlier.is_none()
        && matches!(&kept.content, Content::Absent | Content::Text(_))
        && kept.text().is_empty()
    {
        return None;
    }
    kept.exact = None;
    kept.tool_calls = message.tool_calls.as_ref().filter(|_| !has_lost_all).map(|_| calls);
    Some(kept)
}

fn unverified(call: &ToolCall) -> UnverifiedCall {
    let arguments = call.arguments.as_str().into_owned();
    UnverifiedCall { tool_call_id: call.id.to_string(), name: call.name.clone(), arguments }
}

fn text(message: &Message) -> Vec<u8> {
    let mut text = Vec::new();
    message.write_json(&mut text);
    text
}

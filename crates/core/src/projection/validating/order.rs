//! The order of the events of a run: the first is RUN_STARTED, what is continued or ended is open, and nothing follows the end.

use std::collections::BTreeSet;

use super::owners::{Owned, Owners};
use crate::{
    event::Flaw,
    json,
    limits::MAX_OPEN_BYTES,
    projection::closing::{Misplaced, OpenParts},
};

/// State of a run between two events.
#[derive(Debug, Clone, Default)]
pub(super) struct Order {
    parts: OpenParts,
    owners: Owners,
    /// Subagents that have ended: their ids are not used again.
    ended: BTreeSet<Box<str>>,
    ended_bytes: usize,
    begun: bool,
    over: bool,
}

fn flaw(member: &str, expected: impl Into<String>) -> Flaw {
    Flaw { path: format!("/{member}"), expected: expected.into() }
}

/// An event whose members are read as they are needed.
struct Event<'a> {
    text: &'a str,
    name: String,
    /// Subagent that the event is attributed to.
    tag: Option<String>,
}

impl<'a> Event<'a> {
    fn of(text: &'a str) -> Self {
        let read = |name: &str| member(text, name);
        Self { text, name: read("type").unwrap_or_default(), tag: read("subagentRunId") }
    }

    fn text(&self, name: &str) -> String {
        member(self.text, name).unwrap_or_default()
    }
}

/// Text of a string member. One with half of a surrogate pair stands for itself as it is written.
fn member(text: &str, name: &str) -> Option<String> {
    let token = json::member(text, name).filter(|token| token.starts_with('"'))?;
    Some(json::string(token).unwrap_or_else(|| token.to_owned()))
}

/// Kind of what an event names, and the member that names it.
fn continued(name: &str) -> Option<(Owned, &'static str)> {
    match name {
        "TEXT_MESSAGE_START" | "TEXT_MESSAGE_CONTENT" | "TEXT_MESSAGE_END" => Some((Owned::Message, "messageId")),
        "TOOL_CALL_START" | "TOOL_CALL_ARGS" | "TOOL_CALL_END" => Some((Owned::Call, "toolCallId")),
        "ACTIVITY_DELTA" => Some((Owned::Activity, "messageId")),
        "REASONING_START"
        | "REASONING_END"
        | "REASONING_MESSAGE_START"
        | "REASONING_MESSAGE_CONTENT"
        | "REASONING_MESSAGE_END" => Some((Owned::Reasoning, "messageId")),
        _ => None,
    }
}

impl Order {
    /// Takes in an event of the right shape, if it may stand here.
    pub fn check(&mut self, text: &str) -> Result<(), Flaw> {
        let event = Event::of(text);
        self.place(&event)?;
        if let Some(misplaced) = self.parts.misplaced(&event.name, |name| member(text, name)) {
            return Err(match misplaced {
                Misplaced::Open(member) => flaw(member, "one that is not open: end it first, or use another"),
                Misplaced::NotOpen(member, start) => flaw(member, format!("one that is open: {start} begins it")),
                Misplaced::Full => flaw("type", "an end of something that is open: too much is open at once"),
            });
        }
        self.attribution(&event)?;
        match &*event.name {
            "SUBAGENT_STARTED" => self.subagent(&event)?,
            "RUN_FINISHED" => {
                if let Some((end, id)) = self.parts.newest() {
                    return Err(flaw("type", format!("{end} for {id:?} before the end of the run")));
                }
            }
            _ => {}
        }
        self.take(&event);
        Ok(())
    }

    /// Takes in an event that is stored, whatever it is.
    pub fn observe(&mut self, text: &str) {
        self.take(&Event::of(text));
    }

    pub fn weight(&self) -> usize {
        self.parts.weight() + self.owners.weight() + self.ended_bytes
    }

    fn place(&self, event: &Event<'_>) -> Result<(), Flaw> {
        let starts = event.name == "RUN_STARTED";
        if self.over {
            return Err(flaw("type", "no event after RUN_FINISHED or RUN_ERROR"));
        }
        if !self.begun && !starts {
            return Err(flaw("type", "RUN_STARTED as the first event of the run"));
        }
        if self.begun && starts {
            return Err(flaw("type", "no second RUN_STARTED in a run"));
        }
        // Events without an attribution of their own pass any other value.
        if json::member(event.text, "subagentRunId") == Some("null") {
            return Err(flaw("subagentRunId", "a string, or no such member"));
        }
        Ok(())
    }

    /// Refuses an event that names another subagent than that of what it continues.
    fn attribution(&self, event: &Event<'_>) -> Result<(), Flaw> {
        let tag = event.tag.as_deref();
        let disagrees = || flaw("subagentRunId", "the subagent of what the event continues, or no such member");
        if let Some((kind, member)) = continued(&event.name)
            && !self.owners.agrees(kind, &event.text(member), tag)
        {
            return Err(disagrees());
        }
        if event.name == "REASONING_ENCRYPTED_VALUE" {
            let id = event.text("entityId");
            let kind = match &*event.text("subtype") {
                "tool-call" => Owned::Call,
                _ if self.owners.of(Owned::Message, &id).is_some() => Owned::Message,
                _ => Owned::Reasoning,
            };
            if !self.owners.agrees(kind, &id, tag) {
                return Err(disagrees());
            }
        }
        if event.name == "TOOL_CALL_START"
            && let Some(parent) = member(event.text, "parentMessageId")
            && let Some(owner) = self.owners.of(Owned::Message, &parent)
        {
            let known = self.owners.of(Owned::Call, &event.text("toolCallId"));
            if tag.is_some_and(|tag| owner.as_deref() != Some(tag))
                || tag.is_none() && known.is_some_and(|known| known != owner)
            {
                return Err(flaw("parentMessageId", "a message of the subagent that the call is of"));
            }
        }
        Ok(())
    }

    fn subagent(&self, event: &Event<'_>) -> Result<(), Flaw> {
        if self.ended.contains(&*event.text("subagentRunId")) {
            return Err(flaw("subagentRunId", "an ID that no subagent of the run has had"));
        }
        match member(event.text, "parentSubagentRunId") {
            Some(parent) if !self.ended.contains(&*parent) && !self.parts.has_subagent(&parent) => {
                Err(flaw("parentSubagentRunId", "a subagent that has begun in this run"))
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self, event: &Event<'_>) {
        let owner = || event.tag.as_deref().map(Box::from);
        match &*event.name {
            "RUN_STARTED" => {
                let input = json::member(event.text, "input");
                if let Some(messages) = input.and_then(|input| json::member(input, "messages")) {
                    self.owners.seed(messages, false);
                }
            }
            "MESSAGES_SNAPSHOT" => {
                self.owners.seed(json::member(event.text, "messages").unwrap_or("[]"), true);
            }
            "RUN_FINISHED" | "RUN_ERROR" => self.over = true,
            "TEXT_MESSAGE_START" => self.owners.note(Owned::Message, &event.text("messageId"), owner()),
            "REASONING_START" | "REASONING_MESSAGE_START" => {
                self.owners.note(Owned::Reasoning, &event.text("messageId"), owner());
            }
            "TOOL_CALL_START" => {
                let parent = member(event.text, "parentMessageId");
                let inherited = parent.and_then(|parent| self.owners.of(Owned::Message, &parent).cloned()).flatten();
                self.owners.note(Owned::Call, &event.text("toolCallId"), owner().or(inherited));
            }
            "TOOL_CALL_RESULT" => self.owners.set(Owned::Message, &event.text("messageId"), owner()),
            "ACTIVITY_SNAPSHOT" => {
                let id = event.text("messageId");
                if json::member(event.text, "replace") == Some("false") {
                    self.owners.note(Owned::Activity, &id, owner());
                } else {
                    self.owners.set(Owned::Activity, &id, owner());
                }
            }
            "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => {
                if let Some(id) = event.tag.as_deref().filter(|id| self.ended_bytes + id.len() <= MAX_OPEN_BYTES) {
                    self.ended_bytes += id.len();
                    self.ended.insert(id.into());
                }
            }
            _ => {}
        }
        self.begun = true;
        self.parts.observe(event.text.as_bytes());
    }
}

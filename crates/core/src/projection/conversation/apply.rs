//! Effect of each kind of event on a conversation.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    Conversation,
    chunks::{Chunk, Kind, Step},
    event::{Event, Malformed, elements, members, optional, required},
    list::List,
    message::{Content, Message, ToolCall, merge_metadata},
    patch, snapshot,
    text::{self, Text, Wtf8},
};
use crate::limits::MAX_STATE_BYTES;

type Metadata = Option<Map<String, Value>>;
type Done = Result<(), Malformed>;

/// Roles that a streamed text may have.
const TEXT_ROLES: [&str; 4] = ["developer", "system", "assistant", "user"];

impl Conversation {
    /// Applies one event of this kind; `Err` if it is malformed.
    pub(super) fn apply(&mut self, kind: &str, event: &Event<'_>) -> Done {
        self.close_lanes(kind, event)?;
        match kind {
            "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => {
                let (id, delta) = (required(event.message_id)?, required(event.delta)?);
                self.push_text(&id.as_str(), &delta, event.metadata()?);
                Ok(())
            }
            "TOOL_CALL_ARGS" => {
                let (id, delta) = (required(event.tool_call_id)?, required(event.delta)?);
                self.push_arguments(&id.as_str(), Some(&delta), event.metadata()?);
                Ok(())
            }
            "TEXT_MESSAGE_START" => {
                let role = text_role(event)?.map_or(Cow::Borrowed("assistant"), Cow::Owned);
                let name = optional(event.name)?.map(Wtf8::into_string);
                let id = required(event.message_id)?;
                self.start_text(&id.as_str(), &role, name, event.owner()?, event.metadata()?);
                Ok(())
            }
            "REASONING_MESSAGE_START" => {
                let id = required(event.message_id)?;
                self.start_text(&id.as_str(), "reasoning", None, event.owner()?, event.metadata()?);
                Ok(())
            }
            "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END" => {
                let id = required(event.message_id)?;
                self.merge_into(&id.as_str(), event.metadata()?);
                Ok(())
            }
            "TOOL_CALL_START" => {
                let (id, name) = (required(event.tool_call_id)?, required(event.tool_call_name)?);
                let parent = parent(event)?;
                self.start_call(&id.as_str(), name.into_string(), parent, event.owner()?, event.metadata()?);
                Ok(())
            }
            "TOOL_CALL_END" => {
                self.push_arguments(&required(event.tool_call_id)?.as_str(), None, event.metadata()?);
                Ok(())
            }
            "TOOL_CALL_RESULT" => self.result(event),
            "TEXT_MESSAGE_CHUNK" => {
                let said = [text_role(event)?, optional(event.name)?.map(Wtf8::into_string)];
                self.chunk(Kind::Text, event.message_id, said, event)
            }
            "TOOL_CALL_CHUNK" => {
                let said = [optional(event.tool_call_name)?.map(Wtf8::into_string), parent(event)?];
                self.chunk(Kind::Tool, event.tool_call_id, said, event)
            }
            "REASONING_MESSAGE_CHUNK" => self.chunk(Kind::Reasoning, event.message_id, [None, None], event),
            "REASONING_ENCRYPTED_VALUE" => self.encrypted_value(event),
            "THINKING_TEXT_MESSAGE_START" | "THINKING_TEXT_MESSAGE_CONTENT" | "THINKING_TEXT_MESSAGE_END" => {
                self.think(kind, event)
            }
            "STATE_SNAPSHOT" => {
                self.state = event.snapshot.and_then(text::value).ok_or(Malformed)?;
                self.state_size = patch::size(&self.state);
                Ok(())
            }
            "STATE_DELTA" => {
                let done = event.delta.and_then(text::value).ok_or(patch::Refused);
                let done = done.and_then(|delta| {
                    patch::apply(&mut self.state, self.state_size, delta, MAX_STATE_BYTES, &mut self.purse)
                });
                match done {
                    Ok(applied) => self.state_size = applied.size,
                    Err(patch::Refused) => self.skipped += 1,
                }
                Ok(())
            }
            "MESSAGES_SNAPSHOT" => {
                let new = event.messages.and_then(elements).ok_or(Malformed)?;
                let new: Vec<_> = new.into_iter().filter_map(Message::read).collect();
                let metadata = event.metadata()?;
                let calls = self.messages.call_ids();
                let old = self.messages.take();
                self.messages = List::of(snapshot::merge(old, new, metadata.as_ref()));
                self.front_end.replaced(&calls, &self.messages);
                Ok(())
            }
            "ACTIVITY_SNAPSHOT" => self.activity(event),
            "ACTIVITY_DELTA" => self.activity_delta(event),
            "RUN_STARTED" => {
                self.thinking = None;
                self.front_end.run_started(event.metadata, event.input);
                self.interrupts.run_started(event.input);
                for (name, token) in event.input.and_then(members).map(|input| input.0).unwrap_or_default() {
                    if name == "messages" {
                        self.history(token);
                    }
                }
                Ok(())
            }
            "RUN_FINISHED" => {
                self.front_end.run_ended();
                self.interrupts.run_finished(event.outcome);
                Ok(())
            }
            "RUN_ERROR" => {
                self.front_end.run_ended();
                self.interrupts.run_failed();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Ends the streams of chunks in the lane of an event that is no chunk; an event of the run ends all of them.
    fn close_lanes(&mut self, kind: &str, event: &Event<'_>) -> Done {
        if self.lanes.is_empty() {
            return Ok(());
        }
        match kind {
            "RUN_STARTED" | "RUN_FINISHED" | "RUN_ERROR" | "MESSAGES_SNAPSHOT" => self.lanes.close_all(),
            "SUBAGENT_FINISHED" | "SUBAGENT_ERROR" => {
                if let Some(owner) = event.owner()? {
                    self.lanes.close(&Some(owner));
                }
            }
            "TEXT_MESSAGE_START"
            | "TEXT_MESSAGE_CONTENT"
            | "TEXT_MESSAGE_END"
            | "TOOL_CALL_START"
            | "TOOL_CALL_ARGS"
            | "TOOL_CALL_END"
            | "TOOL_CALL_RESULT"
            | "STATE_SNAPSHOT"
            | "STATE_DELTA"
            | "CUSTOM"
            | "STEP_STARTED"
            | "STEP_FINISHED"
            | "REASONING_START"
            | "REASONING_MESSAGE_START"
            | "REASONING_MESSAGE_CONTENT"
            | "REASONING_MESSAGE_END"
            | "REASONING_END"
            | "THINKING_START"
            | "THINKING_TEXT_MESSAGE_START"
            | "THINKING_TEXT_MESSAGE_CONTENT"
            | "THINKING_TEXT_MESSAGE_END"
            | "THINKING_END" => self.lanes.close(&event.owner()?),
            _ => {}
        }
        Ok(())
    }

    fn start_text(&mut self, id: &str, role: &str, name: Option<String>, owner: Option<String>, metadata: Metadata) {
        if self.messages.find(id).is_none() {
            let mut message = Message::new(id, role, Content::Text(Text::default()));
            if let Some(name) = name {
                message.set("name", name);
            }
            if let Some(owner) = owner {
                message.set("subagentRunId", owner);
            }
            self.messages.push(message);
        }
        self.merge_into(id, metadata);
    }

    /// Message that can take text. Activities have none: events that would give them text are dropped completely.
    fn text_message(&mut self, id: &str) -> Option<&mut Message> {
        let slot = self.messages.find(id)?;
        Some(self.messages.get_mut(slot)).filter(|message| message.role() != "activity")
    }

    fn push_text(&mut self, id: &str, delta: &Wtf8<'_>, metadata: Metadata) {
        if let Some(message) = self.text_message(id) {
            message.push_text(delta);
            message.merge_metadata(metadata);
        }
    }

    fn merge_into(&mut self, id: &str, metadata: Metadata) {
        if let Some(message) = self.text_message(id) {
            message.merge_metadata(metadata);
        }
    }

    fn start_call(
        &mut self,
        id: &str,
        name: String,
        parent: Option<String>,
        owner: Option<String>,
        metadata: Metadata,
    ) {
        // A call that is started again, by a replay, adds no second one.
        if let Some(call) = self.messages.find_call(id).and_then(|called| self.messages.call_mut(called)) {
            call.name = name;
            merge_metadata(&mut call.rest, metadata);
            return;
        }
        self.front_end.called(id, &name);
        let mut call = ToolCall::new(id, name);
        merge_metadata(&mut call.rest, metadata);
        // JavaScript treats an empty id as none.
        let parent = parent.filter(|parent| !parent.is_empty());
        let found = parent.as_deref().and_then(|parent| self.messages.find(parent));
        let slot = match found.filter(|slot| self.messages.get(*slot).role() == "assistant") {
            Some(slot) => slot,
            None => {
                let id = parent.as_deref().filter(|_| found.is_none()).unwrap_or(id);
                let mut message = Message::new(id, "assistant", Content::Absent);
                if let Some(owner) = owner.filter(|_| !self.messages.contains(id)) {
                    message.set("subagentRunId", owner);
                }
                self.messages.push(message)
            }
        };
        self.messages.push_call(slot, call);
    }

    fn push_arguments(&mut self, id: &str, delta: Option<&Wtf8<'_>>, metadata: Metadata) {
        if let Some(call) = self.messages.find_call(id).and_then(|called| self.messages.call_mut(called)) {
            if let Some(delta) = delta {
                call.arguments.push(delta);
            }
            merge_metadata(&mut call.rest, metadata);
        }
    }

    fn result(&mut self, event: &Event<'_>) -> Done {
        let (id, call) = (required(event.message_id)?, required(event.tool_call_id)?.into_string());
        let content = event.content.filter(|token| token.starts_with(['"', '['])).and_then(Content::read);
        let mut message = Message::new(&id.as_str(), "tool", content.ok_or(Malformed)?);
        if let Some(owner) = event.owner()? {
            message.set("subagentRunId", owner);
        }
        message.merge_metadata(event.metadata()?);
        let caller = self.messages.find_call(&call).map(|(slot, _)| slot);
        self.front_end.answered(&call);
        message.set("toolCallId", call);
        match caller {
            Some(caller) => self.messages.push_result(caller, message),
            None => self.messages.push(message),
        };
        Ok(())
    }

    fn chunk(&mut self, kind: Kind, id: Option<&str>, said: [Option<String>; 2], event: &Event<'_>) -> Done {
        let id = optional(id)?.map(Wtf8::into_string);
        let (delta, metadata, owner) = (optional(event.delta)?, event.metadata()?, event.owner()?);
        let opening = said.clone();
        let Some(step) = self.lanes.take(Chunk { kind, id, owner: owner.clone(), said }) else { return Err(Malformed) };
        let (id, opened) = match step {
            Step::Open(id) => (id, true),
            Step::Continue(id) => (id, false),
        };
        if opened {
            let [first, second] = opening;
            let metadata = metadata.clone();
            match kind {
                Kind::Text => {
                    self.start_text(&id, first.as_deref().unwrap_or("assistant"), second, owner, metadata);
                }
                Kind::Tool => self.start_call(&id, first.unwrap_or_default(), second, owner, metadata),
                Kind::Reasoning => self.start_text(&id, "reasoning", None, owner, metadata),
            }
        }
        // A provider's payload, and the metadata of a chunk that continues, are carried by a delta, which may be empty.
        let raw_event = event.raw_event.is_some_and(|token| token != "null");
        if delta.is_some() || raw_event || !opened && metadata.is_some() {
            let delta = delta.unwrap_or_default();
            match kind {
                Kind::Text | Kind::Reasoning => self.push_text(&id, &delta, metadata),
                Kind::Tool => self.push_arguments(&id, Some(&delta), metadata),
            }
        }
        Ok(())
    }

    fn encrypted_value(&mut self, event: &Event<'_>) -> Done {
        let (subtype, id) = (required(event.subtype)?, required(event.entity_id)?);
        let value = required(event.encrypted_value)?.into_string();
        if subtype.as_str() == "tool-call" {
            if let Some(call) = self.messages.find_call(&id.as_str()).and_then(|called| self.messages.call_mut(called))
            {
                call.rest.insert("encryptedValue".to_owned(), value.into());
            }
        } else if let Some(message) = self.text_message(&id.as_str()) {
            message.set("encryptedValue", value);
        }
        Ok(())
    }

    /// Applies THINKING_*, which is REASONING_* of older protocols, without ids.
    fn think(&mut self, kind: &str, event: &Event<'_>) -> Done {
        match kind {
            "THINKING_TEXT_MESSAGE_START" => {
                let (owner, metadata) = (event.owner()?, event.metadata()?);
                let id = loop {
                    self.thoughts += 1;
                    let id = format!("thinking-{}", self.thoughts);
                    if !self.contains(&id) {
                        break id;
                    }
                };
                self.start_text(&id, "reasoning", None, owner, metadata);
                self.thinking = Some(id);
            }
            "THINKING_TEXT_MESSAGE_CONTENT" => {
                let (delta, metadata) = (required(event.delta)?, event.metadata()?);
                if let Some(id) = self.thinking.take() {
                    self.push_text(&id, &delta, metadata);
                    self.thinking = Some(id);
                }
            }
            _ => {
                let metadata = event.metadata()?;
                if let Some(id) = self.thinking.take() {
                    self.merge_into(&id, metadata);
                }
            }
        }
        Ok(())
    }

    /// Adds the messages that a run was started with, if they are not known yet.
    fn history(&mut self, messages: &str) {
        for message in elements(messages).unwrap_or_default().into_iter().filter_map(Message::read) {
            if !self.contains(message.id()) {
                if let Some(call) = message.member("toolCallId").filter(|_| message.role() == "tool") {
                    self.front_end.answered(call);
                }
                self.messages.push(message);
            }
        }
    }
}

fn text_role(event: &Event<'_>) -> Result<Option<String>, Malformed> {
    match optional(event.role)?.map(Wtf8::into_string) {
        Some(role) if !TEXT_ROLES.contains(&&*role) => Err(Malformed),
        role => Ok(role),
    }
}

/// Parent message of a tool call; older producers write `null` for none.
fn parent(event: &Event<'_>) -> Result<Option<String>, Malformed> {
    Ok(optional(event.parent_message_id.filter(|token| *token != "null"))?.map(Wtf8::into_string))
}

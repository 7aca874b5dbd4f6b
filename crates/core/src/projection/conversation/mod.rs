//! Projection of a conversation: its messages and its state, folded from the events of a thread.
//!
//! The projection equals the conversation that `@ag-ui/client` 1.0.0 builds from the same events, run by run;
//! `tests/agui` compares the two. If the client ends a run with an error (on an event that its schemas, its chunk
//! expansion or its verifier refuse), this fold continues: a malformed event is ignored, one that is merely out of
//! place does what the client's reducer would do with it.
//!
//! Deliberate differences:
//! - Properties that the schemas do not describe are kept in messages that arrive complete; the client strips them.
//!   Content parts of older protocols stay as they came, too.
//! - An open interrupt stays open until a run answers it in its `resume`; the client, which starts no run that does
//!   not, takes any run that has finished for an answer to all.
//! - THINKING_* events become reasoning, as in the client; the client makes up random ids, here they are counted.
//! - RFC 6902 is bounded in size and depth, see [`crate::limits::MAX_STATE_BYTES`], and in work, see
//!   [`crate::limits::PATCH_WORK`].
//! - A number beyond a double (`1e400`) becomes `null`, and is counted. The client has JavaScript's Infinity instead,
//!   which is `null` as soon as it is written as JSON.
//! - Texts may be cut inside a surrogate pair, see `text.rs`. In ids, names, state and metadata, and in every other
//!   member that is not content or arguments, a lone half becomes U+FFFD.

mod activity;
mod apply;
mod canonical;
mod chunks;
mod document;
mod event;
mod front_end;
mod interrupts;
mod keeping;
mod list;
mod message;
mod patch;
mod replacing;
mod snapshot;
mod stored;
pub(super) mod text;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value};

pub use self::{
    canonical::is_same_value,
    document::{Draft, InvalidMessage, MessageError},
    front_end::GIVEN,
    keeping::UnverifiedCall,
    message::Message,
    replacing::message_snapshots,
};
use self::{
    chunks::{Kind, Lanes},
    event::{Event, required},
    front_end::FrontEnd,
    interrupts::Interrupts,
    keeping::Lost,
    list::List,
};
use crate::{
    Timestamp,
    json::memory,
    limits::{PATCH_WORK, PATCH_WORK_PER_BYTE},
    projection::closing::OpenParts,
};

/// Conversation as of the events of a thread that were observed so far.
///
/// The caller must pass every event in order to [`Conversation::observe`]. A conversation is a pure function of these
/// events: the same events give the same conversation, and a stored one ([`Conversation::encode`]) continues at its
/// last event, also in the middle of a run.
#[derive(Debug, Clone)]
pub struct Conversation {
    messages: List,
    state: Value,
    /// Size of the state in bytes, see `patch::size`.
    state_size: usize,
    /// Bytes that ACTIVITY_DELTAs have copied.
    copied: usize,
    /// Work that patches may still cost, see `patch::apply`: each event of state or activities adds to it, so that a
    /// fold is linear in the log.
    purse: i64,
    skipped: u64,
    skipped_numbers: u64,
    interrupts: Interrupts,
    front_end: FrontEnd,
    lanes: Lanes,
    /// Number of reasoning messages from THINKING_* events so far, and the one that is open.
    thoughts: u64,
    thinking: Option<String>,
}

/// Parts of a lost attempt that stay.
#[derive(Debug)]
pub struct Kept {
    /// Conversation without what is superseded: its messages and its state alone.
    pub conversation: Conversation,
    /// Ids of the messages that the attempt has added, and that stay.
    pub ids: Vec<String>,
    /// Calls that have no result, of those that were begun.
    pub unverified: Vec<UnverifiedCall>,
}

impl Default for Conversation {
    fn default() -> Self {
        let state = Value::Object(Map::new());
        Self {
            messages: List::default(),
            state_size: patch::size(&state),
            state,
            copied: 0,
            purse: PATCH_WORK,
            skipped: 0,
            skipped_numbers: 0,
            interrupts: Interrupts::default(),
            front_end: FrontEnd::default(),
            lanes: Lanes::default(),
            thoughts: 0,
            thinking: None,
        }
    }
}

impl Conversation {
    /// Version of the fold; a stored snapshot of another version is not used.
    pub const VERSION: u32 = 6;

    /// Takes in the next event, as JSON text. Never panics; unknown types and malformed events are ignored.
    pub fn observe(&mut self, event: &[u8]) {
        let Some(read) = std::str::from_utf8(event).ok().and_then(Event::read) else { return };
        let Ok(kind) = required(read.kind) else { return };
        let kind = kind.as_str();
        // A malformed event changes no more than the streams that it closed.
        if self.apply(&kind, &read).is_err() {
            return;
        }
        if kind.starts_with("STATE_") || kind.starts_with("ACTIVITY_") {
            let bytes = i64::try_from(event.len()).unwrap_or(i64::MAX);
            self.purse = self.purse.saturating_add(bytes.saturating_mul(PATCH_WORK_PER_BYTE));
        }
        self.skipped_numbers += read.unreadable_numbers(&kind);
    }

    /// Messages in the order of the conversation.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = &Message> {
        self.messages.iter()
    }

    /// True if there is a message with this id.
    pub fn contains(&self, message_id: &str) -> bool {
        self.messages.contains(message_id)
    }

    /// First message with this id; `None` if there is none.
    pub fn message(&self, message_id: &str) -> Option<&Message> {
        self.messages.with_id(message_id)
    }

    /// Messages in order, as a JSON array.
    pub fn messages_json(&self) -> Vec<u8> {
        let mut out = vec![b'['];
        for message in self.messages() {
            if out.len() > 1 {
                out.push(b',');
            }
            message.write_json(&mut out);
        }
        out.push(b']');
        out
    }

    /// State as JSON; `{}` at the beginning.
    pub fn state_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        message::write_value(&self.state, &mut out);
        out
    }

    /// Number of STATE_DELTA and ACTIVITY_DELTA events that could not be applied. No part of such a patch was applied.
    pub fn skipped_deltas(&self) -> u64 {
        self.skipped
    }

    /// Number of numbers that were beyond a double (`1e400`). Each of them reads as null; the values next to it are
    /// kept.
    pub fn skipped_numbers(&self) -> u64 {
        self.skipped_numbers
    }

    /// Interrupts that wait for an answer, as a JSON array, oldest first. Each stays until a run has finished that
    /// answers it in its `resume`: through the start of that run, through one that ends with RUN_ERROR, and through any
    /// that answers none.
    pub fn interrupts_json(&self) -> Vec<u8> {
        let mut out = vec![b'['];
        for (at, interrupt) in self.interrupts.open.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            message::write_value(interrupt, &mut out);
        }
        out.push(b']');
        out
    }

    /// Ids of the interrupts that wait for an answer. An interrupt without an id cannot be answered, and is not among
    /// them.
    pub fn open_interrupts(&self) -> impl Iterator<Item = &str> {
        self.interrupts.open_ids()
    }

    /// Ids of open interrupts whose `expiresAt` has passed.
    pub fn expired_interrupts(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        self.interrupts.expired_ids(now)
    }

    /// Ids of interrupts that were answered and are no longer open. Very old ones are forgotten, see
    /// [`crate::limits::MAX_SETTLED_INTERRUPTS`].
    pub fn settled_interrupts(&self) -> impl Iterator<Item = &str> {
        self.interrupts.settled.iter().map(|id| &**id)
    }

    /// True if a tool call has no result, and its tool is one that the front end had supplied to the run which made the
    /// call.
    pub fn awaits_front_end(&self, tool_call_id: &str) -> bool {
        self.messages.call(tool_call_id).is_some_and(|call| self.front_end.awaits(tool_call_id, &call.name))
    }

    /// Parts of an attempt that stay. `before` is the conversation before the attempt, and `open` has the run's events so far.
    /// `begun` are calls that the attempt has begun, or that had no result before it. The conversation lacks those that were
    /// superseded before, or that a snapshot of the agent has removed since.
    pub fn keep(&self, before: &Self, open: &OpenParts, begun: &[UnverifiedCall]) -> Kept {
        let chunks = self.lanes.iter().filter(|(_, stream)| stream.kind != Kind::Tool);
        let streams = chunks.map(|(_, stream)| stream.id.as_str());
        let open = open.messages().chain(streams).chain(self.thinking.as_deref()).collect();
        let lost = Lost::new(&self.messages, &before.messages, open);
        let messages = lost.kept();
        let added = messages.iter().filter(|message| !before.contains(message.id()));
        let ids = added.map(|message| message.id().to_owned()).collect();
        let (state, state_size) = (self.state.clone(), self.state_size);
        let conversation = Self { messages: List::of(messages), state, state_size, ..Self::default() };
        Kept { conversation, ids, unverified: lost.unverified(begun) }
    }

    /// True if chunks without an id may continue a stream.
    pub(crate) fn has_open_chunks(&self) -> bool {
        !self.lanes.is_empty()
    }

    /// Ids of the tool calls that have no result message, in the order of the messages.
    pub fn pending_tool_calls(&self) -> Vec<String> {
        let answered: HashSet<&str> = self
            .messages()
            .filter(|message| message.role() == "tool")
            .filter_map(|message| message.member("toolCallId"))
            .collect();
        let calls = self.messages().flat_map(|message| message.tool_calls.as_deref().unwrap_or_default());
        calls.filter(|call| !answered.contains(&*call.id)).map(|call| call.id.to_string()).collect()
    }

    /// Size of the conversation as text, in bytes (about). Walks over all messages.
    pub fn size(&self) -> usize {
        self.state_size + self.messages().map(Message::size).sum::<usize>()
    }

    /// Memory that the conversation takes, in bytes (about). Walks over all values.
    pub fn weight(&self) -> usize {
        let interrupts: usize = self.interrupts.open.iter().map(memory).sum();
        memory(&self.state) + interrupts + self.messages().map(Message::weight).sum::<usize>()
    }

    /// Encodes the complete conversation for storage, including the parts that a run in progress has open.
    /// [`Conversation::decode`] reads the bytes.
    pub fn encode(&self) -> Vec<u8> {
        stored::encode(self)
    }

    /// Reads the bytes of [`Conversation::encode`]. `None` for bytes of another version, and for any other bytes.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        stored::decode(bytes)
    }
}

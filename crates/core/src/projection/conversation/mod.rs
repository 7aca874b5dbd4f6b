//! The projection of a conversation: its messages and its state, folded from the events of a thread.
//!
//! It equals what `@ag-ui/client` 1.0.0 builds from the same events, run by run; `tests/agui` compares the two. Where
//! the client ends a run with an error (an event that its schemas, its chunk expansion or its verifier refuse), this
//! fold goes on: a malformed event is passed over, one that is merely out of place does what the client's reducer
//! would do with it.
//!
//! What is chosen differently:
//! - Properties that the schemas do not describe are kept in messages that arrive whole; the client strips them.
//!   Content parts of older protocols stay as they came, too.
//! - An open interrupt stays open until a run answers it in its `resume`; the client, which starts no run that does not, takes
//!   any run that has finished for an answer to all.
//! - THINKING_* events become reasoning, as in the client; it makes up random ids, here they are counted.
//! - RFC 6902 is bounded in size and depth, see [`crate::limits::MAX_STATE_BYTES`], and in work, see
//!   [`crate::limits::PATCH_WORK`].
//! - A number beyond a double (`1e400`) becomes `null`, and is counted. The client has JavaScript's Infinity there, which is `null` as
//!   soon as it is written as JSON.
//! - Texts may be cut inside a surrogate pair, see `text.rs`. In ids, names, state and metadata, and in everything
//!   else that is not content or arguments, a lone half becomes U+FFFD.

mod activity;
mod apply;
mod canonical;
mod chunks;
mod document;
mod event;
mod interrupts;
mod list;
mod message;
mod patch;
mod snapshot;
mod stored;
mod text;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use serde_json::{Map, Value};

use self::{
    chunks::Lanes,
    event::{Event, required},
    interrupts::Interrupts,
    list::List,
};
pub use self::{
    document::{Draft, Flaw, Flawed},
    message::Message,
};
use crate::limits::{PATCH_WORK, PATCH_WORK_PER_BYTE};

/// What the events of a thread have said so far.
///
/// Feed it every event in order with [`Conversation::observe`]. It is a pure function of them: the same events give the
/// same conversation, and a stored one ([`Conversation::encode`]) goes on where it was, also in the middle of a run.
#[derive(Debug, Clone)]
pub struct Conversation {
    messages: List,
    state: Value,
    /// Of the state, see `patch::size`.
    state_size: usize,
    /// Bytes that ACTIVITY_DELTAs have copied.
    copied: usize,
    /// Work that patches may cost, see `patch::apply`: each event of these kinds brings some, so that a fold is linear in the log.
    purse: i64,
    skipped: u64,
    skipped_numbers: u64,
    interrupts: Interrupts,
    lanes: Lanes,
    /// Reasoning of THINKING_* events so far, and the message that is open.
    thoughts: u64,
    thinking: Option<String>,
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
            lanes: Lanes::default(),
            thoughts: 0,
            thinking: None,
        }
    }
}

impl Conversation {
    /// Version of the fold; a stored snapshot of another version is not used.
    pub const VERSION: u32 = 5;

    /// Takes in the next event, as JSON text. Never panics; unknown types and malformed events are passed over.
    pub fn observe(&mut self, event: &[u8]) {
        let Some(read) = std::str::from_utf8(event).ok().and_then(Event::read) else { return };
        let Ok(kind) = required(read.kind) else { return };
        let kind = kind.as_str();
        // A malformed event changes nothing but what it closed.
        if self.apply(&kind, &read).is_err() {
            return;
        }
        if kind.starts_with("STATE_") || kind.starts_with("ACTIVITY_") {
            let bytes = i64::try_from(event.len()).unwrap_or(i64::MAX);
            self.purse = self.purse.saturating_add(bytes.saturating_mul(PATCH_WORK_PER_BYTE));
        }
        self.skipped_numbers += read.unreadable_numbers(&kind);
    }

    /// The messages in order.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = &Message> {
        self.messages.iter()
    }

    /// Whether there is a message with this id.
    pub fn contains(&self, message_id: &str) -> bool {
        self.messages.contains(message_id)
    }

    /// The messages as a JSON array.
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

    /// The state as JSON; `{}` at the beginning.
    pub fn state_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        message::write_value(&self.state, &mut out);
        out
    }

    /// How many STATE_DELTA and ACTIVITY_DELTA events could not be applied. Of such an event nothing was applied.
    pub fn skipped_deltas(&self) -> u64 {
        self.skipped
    }

    /// Count of numbers that were beyond a double (`1e400`). Each of them reads as null; what stands beside it is kept.
    pub fn skipped_numbers(&self) -> u64 {
        self.skipped_numbers
    }

    /// The interrupts that wait for an answer, as a JSON array. Each stays until a run has finished that answers it in its
    /// `resume`: through the start of that run, through one that ends with RUN_ERROR, and through any that answers nothing.
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

    /// Ids of the interrupts that wait for an answer. One without an id can be answered by nobody, and is not among them.
    pub fn open_interrupts(&self) -> impl Iterator<Item = &str> {
        self.interrupts.open_ids()
    }

    /// Ids of interrupts that have waited for an answer and do not any more. Very old ones are forgotten.
    pub fn settled_interrupts(&self) -> impl Iterator<Item = &str> {
        self.interrupts.settled.iter().map(|id| &**id)
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

    /// About the bytes that it holds. Walks over all messages.
    pub fn weight(&self) -> usize {
        self.state_size + self.messages().map(Message::weight).sum::<usize>()
    }

    /// For storage: everything, also what a run in progress has open. [`Conversation::decode`] reads it.
    pub fn encode(&self) -> Vec<u8> {
        stored::encode(self)
    }

    /// Reads what [`Conversation::encode`] wrote. `None` for what another version wrote, and for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        stored::decode(bytes)
    }
}

//! Messages of the user and the system that producers stream as events, in place of bringing them with RUN_STARTED.

use serde_json::{Value, json};

use super::user::role_of;
use crate::{
    event::names_subagent,
    json,
    limits::{MAX_CHAT_BYTES, MAX_OPEN_PARTS},
    projection::lane::closes_lane,
};

/// Fold from the events of a run to the UI messages of the user and the system in them. Of more than [`MAX_OPEN_PARTS`] open messages
/// and of more than [`MAX_CHAT_BYTES`] of text, the later ones are left out.
#[derive(Debug, Default)]
pub struct Spoken {
    open: Vec<Open>,
    /// Bytes of the texts of all of `open`.
    bytes: usize,
    /// Message that a chunk event without an id continues.
    lane: Option<String>,
}

#[derive(Debug)]
struct Open {
    id: String,
    role: &'static str,
    text: String,
}

impl Spoken {
    /// Takes in an event, as JSON text; returns the messages that are complete with it, in their order.
    pub fn observe(&mut self, event: &str) -> Vec<Value> {
        let Some(kind) = json::string_member(event, "type") else { return Vec::new() };
        // Most events are the assistant's: without an open message, only one that may begin one is looked at.
        if self.open.is_empty() && !matches!(&*kind, "TEXT_MESSAGE_START" | "TEXT_MESSAGE_CHUNK") {
            return Vec::new();
        }
        let is_terminal = matches!(&*kind, "RUN_FINISHED" | "RUN_ERROR");
        if names_subagent(event) && !is_terminal {
            return Vec::new();
        }
        let id = json::string_member(event, "messageId");
        let chunk_of = (kind == "TEXT_MESSAGE_CHUNK").then(|| id.clone().or_else(|| self.lane.clone())).flatten();
        let mut complete = Vec::new();
        if closes_lane(&kind) || kind.ends_with("_CHUNK") && chunk_of != self.lane {
            complete.extend(self.lane.take().and_then(|lane| self.end(&lane)));
        }
        match (&*kind, id) {
            ("TEXT_MESSAGE_START", Some(id)) => _ = self.begin(&id, event),
            ("TEXT_MESSAGE_CONTENT", Some(id)) => self.append(&id, event),
            ("TEXT_MESSAGE_END", Some(id)) => complete.extend(self.end(&id)),
            ("TEXT_MESSAGE_CHUNK", _) => {
                if let Some(id) = chunk_of {
                    if self.begin(&id, event) {
                        self.lane = Some(id.clone());
                    }
                    self.append(&id, event);
                }
            }
            _ if is_terminal => {
                self.bytes = 0;
                complete.extend(self.open.drain(..).map(Open::message));
            }
            _ => {}
        }
        complete
    }

    /// True if the event begins a message of the user or the system.
    fn begin(&mut self, id: &str, event: &str) -> bool {
        let Some(role) = role_of(event) else { return false };
        let is_new = self.open.iter().all(|open| open.id != id) && self.open.len() < MAX_OPEN_PARTS;
        if is_new {
            self.open.push(Open { id: id.to_owned(), role, text: String::new() });
        }
        is_new
    }

    fn append(&mut self, id: &str, event: &str) {
        let Some(open) = self.open.iter_mut().find(|open| open.id == id) else { return };
        let Some(delta) = json::string_member(event, "delta") else { return };
        if self.bytes + delta.len() <= MAX_CHAT_BYTES {
            self.bytes += delta.len();
            open.text.push_str(&delta);
        }
    }

    fn end(&mut self, id: &str) -> Option<Value> {
        let at = self.open.iter().position(|open| open.id == id)?;
        let open = self.open.remove(at);
        self.bytes -= open.text.len();
        Some(open.message())
    }
}

impl Open {
    fn message(self) -> Value {
        let Self { id, role, text } = self;
        json!({ "id": id, "role": role, "parts": [{ "type": "text", "text": text }] })
    }
}

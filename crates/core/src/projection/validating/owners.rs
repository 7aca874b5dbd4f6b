//! Owner of a message, a call, an activity or reasoning: the parent agent or a subagent, by the event that began it.

use std::collections::HashMap;

use crate::{json, limits::MAX_OWNED_BYTES};

/// Subagent that something is of; `None` is the parent agent.
pub(super) type Owner = Option<Box<str>>;

/// Kinds of what has an owner. An id is unique within its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owned {
    Message,
    Call,
    Activity,
    Reasoning,
}

/// Owners of all that a run has begun, kept after its end: later events may refer to it. Beyond [`MAX_OWNED_BYTES`] further ones
/// are not noted, and nothing disagrees with them.
#[derive(Debug, Clone, Default)]
pub(super) struct Owners {
    known: HashMap<(Owned, Box<str>), Owner>,
    bytes: usize,
}

/// Memory of an entry beside its texts, in bytes (about).
const ENTRY: usize = 64;

impl Owners {
    pub fn of(&self, kind: Owned, id: &str) -> Option<&Owner> {
        self.known.get(&(kind, Box::from(id)))
    }

    /// Notes an owner, in the place of the one before.
    pub fn set(&mut self, kind: Owned, id: &str, owner: Owner) {
        let key = (kind, Box::from(id));
        if let Some(known) = self.known.get_mut(&key) {
            *known = owner;
            return;
        }
        let bytes = ENTRY + id.len() + owner.as_ref().map_or(0, |owner| owner.len());
        if self.bytes + bytes <= MAX_OWNED_BYTES {
            self.bytes += bytes;
            self.known.insert(key, owner);
        }
    }

    /// Notes an owner, unless one is known.
    pub fn note(&mut self, kind: Owned, id: &str, owner: Owner) {
        if self.of(kind, id).is_none() {
            self.set(kind, id, owner);
        }
    }

    /// True if an event with this tag does not disagree with what it continues. An absent tag agrees with every owner.
    pub fn agrees(&self, kind: Owned, id: &str, tag: Option<&str>) -> bool {
        tag.is_none() || self.of(kind, id).is_none_or(|owner| owner.as_deref() == tag)
    }

    /// Notes the owners of messages, a JSON array, and of their calls. With `replaces` in the place of those before.
    pub fn seed(&mut self, messages: &str, replaces: bool) {
        let items: Vec<&serde_json::value::RawValue> = serde_json::from_str(messages).unwrap_or_default();
        for message in items.iter().map(|message| message.get()) {
            let text = |name: &str| json::string_member(message, name);
            let Some(id) = text("id") else { continue };
            let kind = match text("role").as_deref() {
                Some("reasoning") => Owned::Reasoning,
                Some("activity") => Owned::Activity,
                _ => Owned::Message,
            };
            let owner: Owner = text("subagentRunId").map(String::into_boxed_str);
            let put = if replaces { Self::set } else { Self::note };
            put(self, kind, &id, owner.clone());
            let calls: Vec<&serde_json::value::RawValue> = json::member(message, "toolCalls")
                .and_then(|calls| serde_json::from_str(calls).ok())
                .unwrap_or_default();
            for call in calls.iter().filter_map(|call| json::string_member(call.get(), "id")) {
                put(self, Owned::Call, &call, owner.clone());
            }
        }
    }

    pub fn weight(&self) -> usize {
        self.bytes
    }
}

//! Streams of chunks, in lanes.

use serde_json::{Value, json};

use super::{Generator, Kind};

impl Generator {
    /// Opens or continues a stream of chunks.
    pub(super) fn chunk(&mut self) {
        let lanes: Vec<_> = self.run.lanes.iter().map(|(owner, lane)| (owner.clone(), lane.clone())).collect();
        let mut sorted = lanes;
        sorted.sort_by(|one, other| one.0.cmp(&other.0));
        let delta = self.rng.chance(85).then(|| self.delta());
        if self.rng.chance(70)
            && let Some((owner, (kind, id))) = self.pick(&sorted).cloned()
        {
            let (mut chunk, member) = empty_chunk(kind);
            let named = self.rng.chance(40);
            if named {
                chunk[member] = json!(id);
            }
            let alone = sorted.iter().filter(|lane| lane.1.0 == kind).count() == 1;
            let parent_is = sorted.iter().any(|lane| lane.0.is_none() && lane.1.0 == kind);
            let tagged = if named || alone && (!parent_is || owner.is_none()) { self.rng.chance(50) } else { true };
            if let Some(delta) = delta {
                chunk["delta"] = json!(delta);
            }
            self.emit(chunk, &owner.filter(|_| tagged));
            return;
        }
        let mut kind = [Kind::Text, Kind::Tool, Kind::Reasoning][self.rng.draw() as usize % 3];
        let (id, owner, parent) = match kind {
            Kind::Tool => {
                let (id, again) = self.call_id();
                if again {
                    kind = Kind::Text;
                    let id = self.message_id(kind);
                    let owner = self.tag("message", &id);
                    (id, owner, None)
                } else {
                    let mut owner = self.owner();
                    let parent = self.parent(&mut owner);
                    self.own_call(&id, &owner, &parent);
                    (id, owner, parent)
                }
            }
            _ => {
                let id = self.message_id(kind);
                let owner = self.tag(if kind == Kind::Text { "message" } else { "reasoning" }, &id);
                (id, owner, None)
            }
        };
        let (mut chunk, member) = empty_chunk(kind);
        chunk[member] = json!(id);
        match kind {
            Kind::Text if self.rng.chance(50) => {
                chunk["role"] = json!(["user", "assistant"][self.rng.draw() as usize % 2]);
            }
            Kind::Text => chunk["name"] = json!("N"),
            Kind::Tool => chunk["toolCallName"] = json!("f"),
            Kind::Reasoning => {}
        }
        if let Some(parent) = parent {
            chunk["parentMessageId"] = json!(parent);
        }
        if let Some(delta) = delta {
            chunk["delta"] = json!(delta);
        }
        self.run.lanes.insert(owner.clone(), (kind, id));
        self.emit(chunk, &owner);
    }
}

fn empty_chunk(kind: Kind) -> (Value, &'static str) {
    match kind {
        Kind::Text => (json!({"type": "TEXT_MESSAGE_CHUNK"}), "messageId"),
        Kind::Tool => (json!({"type": "TOOL_CALL_CHUNK"}), "toolCallId"),
        Kind::Reasoning => (json!({"type": "REASONING_MESSAGE_CHUNK"}), "messageId"),
    }
}

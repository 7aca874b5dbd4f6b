//! Texts of a message, while its events are read.

use serde_json::value::RawValue;

use super::chunk::Chunk;
use crate::{
    limits::MAX_OPEN_PARTS,
    projection::parts::{Kind, TextIds},
};

/// Text that is open: its message in the log, and its id in the stream.
#[derive(Debug)]
struct Open {
    kind: Kind,
    message: String,
    id: String,
}

/// Texts and reasoning of a message.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Open texts, oldest first.
    open: Vec<Open>,
    ids: TextIds,
}

impl Texts {
    /// True if a message of the log has given a text of this kind.
    pub fn has(&self, kind: Kind, message: &str) -> bool {
        self.ids.has(kind, message)
    }

    /// True if the text is open.
    pub fn is_open(&self, kind: Kind, message: &str) -> bool {
        self.position(kind, message).is_some()
    }

    /// Opens a text that is not open.
    pub fn begin(&mut self, kind: Kind, message: &str, out: &mut Vec<Chunk>) {
        // Texts that were not ended stay open in the client until the message ends.
        if self.open.len() >= MAX_OPEN_PARTS {
            out.push(self.open.remove(0).end());
        }
        let id = self.ids.next(kind, message);
        out.push(match kind {
            Kind::Text => Chunk::TextStart { id: id.clone() },
            Kind::Reasoning => Chunk::ReasoningStart { id: id.clone() },
        });
        self.open.push(Open { kind, message: message.to_owned(), id });
    }

    /// Adds a piece to an open text.
    pub fn append(&self, kind: Kind, message: &str, delta: Box<RawValue>, out: &mut Vec<Chunk>) {
        let Some(at) = self.position(kind, message) else { return };
        let id = self.open[at].id.clone();
        out.push(match kind {
            Kind::Text => Chunk::TextDelta { id, delta },
            Kind::Reasoning => Chunk::ReasoningDelta { id, delta },
        });
    }

    /// Ends a text, if it is open.
    pub fn end(&mut self, kind: Kind, message: &str, out: &mut Vec<Chunk>) {
        if let Some(at) = self.position(kind, message) {
            out.push(self.open.remove(at).end());
        }
    }

    /// Ends all open texts.
    pub fn end_all(&mut self, out: &mut Vec<Chunk>) {
        out.extend(self.open.drain(..).map(Open::end));
    }

    fn position(&self, kind: Kind, message: &str) -> Option<usize> {
        self.open.iter().position(|open| open.kind == kind && open.message == message)
    }
}

impl Open {
    fn end(self) -> Chunk {
        match self.kind {
            Kind::Text => Chunk::TextEnd { id: self.id },
            Kind::Reasoning => Chunk::ReasoningEnd { id: self.id },
        }
    }
}

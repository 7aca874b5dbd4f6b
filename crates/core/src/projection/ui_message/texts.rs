//! Texts of a message, while its events are read.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::chunk::Chunk;
use crate::limits::{MAX_OPEN_PARTS, MAX_UI_TEXTS};

/// Kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Text,
    Reasoning,
}

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
    /// Messages of the log whose texts are not the assistant's.
    silent: HashSet<(Kind, String)>,
    /// Number of uses of an id, by the kind and the message of the log.
    used: HashMap<(Kind, String), u64>,
    /// Number of texts so far.
    count: u64,
}

impl Texts {
    /// True if a message of the log has given a text of this kind.
    pub fn has(&self, kind: Kind, message: &str) -> bool {
        self.used.contains_key(&(kind, message.to_owned()))
    }

    /// Leaves out the texts of a message of the log until it ends.
    pub fn leave_out(&mut self, kind: Kind, message: String) {
        if self.silent.len() < MAX_OPEN_PARTS {
            self.silent.insert((kind, message));
        }
    }

    /// True if texts of this message are left out.
    pub fn is_left_out(&self, kind: Kind, message: &str) -> bool {
        !self.silent.is_empty() && self.silent.contains(&(kind, message.to_owned()))
    }

    /// True if the text is open.
    pub fn is_open(&self, kind: Kind, message: &str) -> bool {
        self.position(kind, message).is_some()
    }

    /// Opens a text that is not open. Its id is that of its message, with a number after the first time. An id that ends like a
    /// numbered one gets its number at once: no two texts have one id.
    pub fn begin(&mut self, kind: Kind, message: &str, out: &mut Vec<Chunk>) {
        // Texts that were not ended stay open in the client until the message ends.
        if self.open.len() >= MAX_OPEN_PARTS {
            out.push(self.open.remove(0).end());
        }
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
        let id = if is_plain { message.to_owned() } else { format!("{message}#{number}") };
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
        if !self.silent.is_empty() {
            self.silent.remove(&(kind, message.to_owned()));
        }
        if let Some(at) = self.position(kind, message) {
            out.push(self.open.remove(at).end());
        }
    }

    /// Ends all open texts.
    pub fn end_all(&mut self, out: &mut Vec<Chunk>) {
        out.extend(self.open.drain(..).map(Open::end));
    }

    /// Ends all open texts, and forgets the messages that are left out: the run has ended.
    pub fn settle(&mut self, out: &mut Vec<Chunk>) {
        self.end_all(out);
        self.silent.clear();
    }

    fn position(&self, kind: Kind, message: &str) -> Option<usize> {
        self.open.iter().position(|open| open.kind == kind && open.message == message)
    }
}

/// True for an id that ends as the numbered id of another text does.
fn is_numbered(id: &str) -> bool {
    id.rsplit_once('#')
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Open {
    fn end(self) -> Chunk {
        match self.kind {
            Kind::Text => Chunk::TextEnd { id: self.id },
            Kind::Reasoning => Chunk::ReasoningEnd { id: self.id },
        }
    }
}

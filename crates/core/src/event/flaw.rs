//! Deviations of events from AG-UI.

use std::fmt;

/// Deviation of an event from AG-UI 1.0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The member, as a JSON Pointer (RFC 6901) into the event.
    pub path: String,
    /// Value that AG-UI has in its place, in words.
    pub expected: String,
}

impl fmt::Display for Flaw {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at {}, AG-UI has {}", self.path, self.expected)
    }
}

//! Events of a run, as far as its recovery needs them.

use serde::Deserialize;
use threadline_core::{
    event::cut,
    projection::{
        begun_calls::BegunCalls,
        closing::OpenParts,
        conversation::UnverifiedCall,
        superseding::{BegunSubagents, takeover},
    },
};

use super::input::MAX_OPENING_EVENTS;

/// Events of a run, as far as its recovery needs them.
#[derive(Default)]
pub(super) struct Logged {
    pub open: OpenParts,
    pub begun_subagents: BegunSubagents,
    /// First events of the run.
    pub first: Vec<String>,
    /// True if the attempt before has said something.
    pub said: bool,
    /// True if an earlier attempt was continued: what it left is part of the conversation.
    pub continued: bool,
    /// Calls that the attempt before has begun, without their arguments, and those that were without a result when it began.
    pub begun: BegunCalls,
}

/// Facts of an earlier takeover that continued a run, as its CUSTOM event has them.
#[derive(Deserialize)]
struct Continued {
    unverified: Vec<UnverifiedCall>,
}

impl Logged {
    /// Takes in the next event. `is_of_attempt` is true for an event of the attempt before.
    pub fn observe(&mut self, is_of_attempt: bool, event: &[u8]) {
        self.open.observe(event);
        self.begun_subagents.observe(event);
        if self.first.len() < MAX_OPENING_EVENTS {
            self.first.push(String::from_utf8_lossy(event).into_owned());
        }
        self.said |= is_of_attempt;
        let Ok(text) = std::str::from_utf8(event) else { return };
        if is_of_attempt {
            return self.begun.observe(text);
        }
        if let Some(Continued { unverified }) = takeover(text) {
            (self.continued, self.begun) = (true, unverified.into());
        }
    }

    /// Message of the error that ends the run because of its calls; `None` if it has none.
    pub fn calls_in_doubt(&self) -> Option<String> {
        let names = self.begun.names()?;
        Some(cut(format!("The server that ran the agent was lost after these tools were called: {names}.")))
    }
}

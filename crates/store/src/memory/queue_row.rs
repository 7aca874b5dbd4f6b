//! Queue of a thread, as its row has it.

use threadline_core::{Hold, QueueState, RunId};

use crate::QueuedTurn;

/// Queue of a thread.
#[derive(Debug, Clone, Default)]
pub(super) struct QueueRow {
    pub version: u64,
    pub held: Option<Hold>,
    pub turns: Vec<QueuedTurn>,
}

impl QueueRow {
    pub(super) fn state(&self) -> QueueState {
        QueueState { version: self.version, queued: self.turns.len() as u64, held: self.held }
    }

    pub(super) fn has(&self, run: &RunId) -> bool {
        self.turns.iter().any(|turn| turn.run == *run)
    }

    /// A stop of the active run.
    pub(super) fn stop(&mut self, holds: bool) {
        if !self.turns.is_empty() {
            self.version += 1;
            self.held = if holds { self.held.or(Some(Hold::Stop)) } else { self.held };
        }
    }
}

//! Open interrupts of a thread.

use threadline_core::{
    NewEvents, Terminal,
    interrupt::{self, RunCommit},
};

use super::Row;

impl Row {
    /// Notes what a commit of the newest run with these events does to the open interrupts.
    pub(super) fn note_interrupts(&mut self, events: Option<&NewEvents>) {
        let Some(run) = self.runs.get(&self.fence) else { return };
        let commit = RunCommit {
            run: &run.id,
            author: run.author.as_ref(),
            answers: events.and_then(NewEvents::answers),
            status: run.status,
            requested: events.and_then(NewEvents::terminal).and_then(Terminal::interrupts),
            seq: self.thread.tail,
            at: self.newest.unwrap_or(run.started_at),
        };
        self.interrupts = interrupt::after(self.interrupts.as_deref(), &commit);
    }

    /// Number of open interrupts.
    pub(super) fn open_interrupts(&self) -> u64 {
        self.interrupts.as_deref().and_then(interrupt::stored).map_or(0, |open| open.len() as u64)
    }
}

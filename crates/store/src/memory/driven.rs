//! Turns of active runs.

use threadline_core::{AttemptId, NodeId, Seq};

use crate::{Displaced, NewTurn};

/// Turn of an active run that the server drives. The row has the driver's fence.
#[derive(Debug, Clone)]
pub(super) struct Driven {
    pub driver: Option<NodeId>,
    /// Number of the attempt; 0 while no node has taken a queued turn.
    pub attempt: u64,
    pub attempt_seq: Seq,
    pub futile: u64,
    pub called: bool,
    pub input: Option<String>,
}

impl Driven {
    pub(super) fn new(turn: NewTurn, attempt_seq: Seq) -> Self {
        Self { driver: Some(turn.driver), attempt: 1, attempt_seq, futile: 0, called: false, input: turn.input }
    }

    /// Turn of a run that began from the queue.
    pub(super) fn queued(input: Option<String>, attempt_seq: Seq) -> Self {
        Self { driver: None, attempt: 0, attempt_seq, futile: 0, called: false, input }
    }
}

/// Turn of an active run of a producer, beside the record of the run.
#[derive(Debug, Clone)]
pub(super) struct Pushed {
    pub attempt_id: Option<AttemptId>,
    pub displaced: Displaced,
    pub opened: Seq,
}

//! Turn of an active run that the server drives.

use threadline_core::{NodeId, Seq};

use crate::NewTurn;

/// Turn of an active run that the server drives. The run has the number of the attempt, the row the driver's fence.
#[derive(Debug, Clone)]
pub(super) struct Driven {
    pub driver: Option<NodeId>,
    pub attempt_seq: Seq,
    pub futile: u64,
    pub called: bool,
    pub input: Option<String>,
}

impl Driven {
    pub(super) fn new(turn: NewTurn, attempt_seq: Seq) -> Self {
        Self { driver: Some(turn.driver), attempt_seq, futile: 0, called: false, input: turn.input }
    }
}

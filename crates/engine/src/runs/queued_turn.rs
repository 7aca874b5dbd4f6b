//! Turns that wait, as callers ask for them and see them.

use threadline_core::{AgentId, Epoch, QueueState, RunId};
use threadline_store::{Queue, QueuedTurn};

/// Turn that a caller wants to queue.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// Id of the run that it becomes.
    pub run: RunId,
    /// Agent that is asked.
    pub agent: AgentId,
    /// Input that the client sent, opaque to the engine.
    pub input: String,
    /// True to queue it before all others, and to stop the active run without holding the queue.
    pub interrupts: bool,
    /// Epoch that the thread's log must have; `None` for any.
    pub epoch: Option<Epoch>,
}

/// Queue of a thread.
#[derive(Debug, Clone)]
pub struct ThreadQueue {
    /// Incarnation of the thread's log.
    pub epoch: Epoch,
    /// Version and hold of the queue.
    pub state: QueueState,
    /// Queued turns, the next one first.
    pub turns: Vec<QueuedTurn>,
}

impl From<Queue> for ThreadQueue {
    fn from(queue: Queue) -> Self {
        Self { epoch: queue.head.epoch, state: queue.head.queue, turns: queue.turns }
    }
}

/// Place of a queued turn.
#[derive(Debug, Clone)]
pub struct PlacedTurn {
    /// The turn itself, as it waits.
    pub turn: QueuedTurn,
    /// Place in the queue, from 1.
    pub place: usize,
    /// Version of the queue.
    pub version: u64,
}

/// Outcome of a request to queue a turn.
#[derive(Debug, Clone)]
pub enum Enqueued {
    /// The turn is queued: now, or by an earlier request.
    Queued(PlacedTurn),
    /// The thread is free, or the run exists: the caller starts the run.
    Free,
}

/// Change of a queued turn.
#[derive(Debug, Clone, Default)]
pub struct TurnEdit {
    /// Input that replaces the present one.
    pub input: Option<String>,
    /// Turn before which it is placed; `Some(None)` places it last.
    pub before: Option<Option<RunId>>,
    /// Version that the queue must have; `None` for any.
    pub version: Option<u64>,
}

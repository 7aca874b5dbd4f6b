//! Memory of a node for the CopilotKit APIs.

use std::sync::Arc;

use super::{
    intelligence::{acks::Acks, legacy::Legacy, list_positions::ListPositions, scanned_cursors::ScannedCursors},
    phoenix::poll_sessions::PollSessions,
};

/// Memory of a node for the CopilotKit APIs; a restart may lose all of it. Cheap to clone.
#[derive(Clone, Default)]
pub struct Node {
    /// Ends of runs whose runners have not received the acknowledgement yet.
    pub acks: Acks,
    /// Runs of runners before 1.69.
    pub legacy: Arc<Legacy>,
    /// Long-poll sessions, for clients without a WebSocket.
    pub polls: PollSessions,
    /// Feed positions of lists that were read a moment ago.
    pub lists: ListPositions,
    /// Cursors whose logs were scanned a moment ago.
    pub cursors: ScannedCursors,
}

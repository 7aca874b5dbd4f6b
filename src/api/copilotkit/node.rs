//! Memory of a node for the CopilotKit APIs.

use std::sync::Arc;

use threadline_core::limits::MAX_CURSOR_SCANS;
use tokio::sync::Semaphore;

use super::{
    intelligence::{acks::Acks, legacy::Legacy, list_positions::ListPositions},
    phoenix::poll_sessions::PollSessions,
    runtime::suggestion_limit::SuggestionLimit,
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
    /// Limit on concurrent requests for suggestions, per user.
    pub suggestions: SuggestionLimit,
    /// Limit on concurrent searches of complete logs.
    pub scans: Scans,
}

/// Permits for searches of complete logs. Cheap to clone.
#[derive(Clone)]
pub struct Scans(pub Arc<Semaphore>);

impl Default for Scans {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CURSOR_SCANS)))
    }
}

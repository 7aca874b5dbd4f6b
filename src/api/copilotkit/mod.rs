//! The doors of CopilotKit's clients: the published packages speak to them unchanged.
//!
//! `intelligence` is what the Node runtime takes for its platform (`apiUrl`, `wsUrl`, `apiKey`), `runtime` is what the
//! browser packages take for the Node runtime (`runtimeUrl`). `phoenix` is the transport of both for what is live.

pub mod intelligence;
mod listing;
pub mod phoenix;
pub mod runtime;
pub mod view;

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::doors::Doors;
use intelligence::{acks::Acks, joining::Lists, legacy::Legacy};
use phoenix::longpoll::Sessions;
use runtime::suggest::Suggesting;

use crate::domain::limits::MAX_CURSOR_SCANS;

/// What a node remembers for these doors; nothing of it is missed after a restart. Cheap to clone.
#[derive(Clone, Default)]
pub struct Node {
    /// Ends of runs that their runners do not know to be in yet.
    pub acks: Acks,
    /// Runs of old runners.
    pub legacy: Arc<Legacy>,
    /// Clients that have no socket.
    pub polls: Sessions,
    /// Where lists were that were read a moment ago.
    pub lists: Lists,
    /// Suggestions under way.
    pub suggesting: Suggesting,
    /// Looks through whole logs.
    pub scans: Scans,
}

/// Turns for looks through whole logs. Cheap to clone.
#[derive(Clone)]
pub struct Scans(pub Arc<Semaphore>);

impl Default for Scans {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CURSOR_SCANS)))
    }
}

/// Registers the routes.
pub fn register(doors: Doors) -> Doors {
    runtime::register(intelligence::register(doors))
}

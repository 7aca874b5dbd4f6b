//! CopilotKit APIs: the published packages of CopilotKit use them unchanged.
//!
//! `intelligence` stands in for the platform of the Node runtime (`apiUrl`, `wsUrl`, `apiKey`). `runtime` stands in for
//! the Node runtime of the browser packages (`runtimeUrl`). `phoenix` is the transport of live data for both.

pub mod intelligence;
mod listing;
pub mod phoenix;
pub mod runtime;
pub mod view;

use std::sync::Arc;

use tokio::sync::Semaphore;

use intelligence::{acks::Acks, joining::Lists, legacy::Legacy};
use phoenix::longpoll::Sessions;
use runtime::suggest::Suggesting;
use threadline_http::routes::Routes;

use crate::{api::ApiState, domain::limits::MAX_CURSOR_SCANS};

/// Memory of a node for the CopilotKit APIs; a restart may lose all of it. Cheap to clone.
#[derive(Clone, Default)]
pub struct Node {
    /// Ends of runs whose runners have not received the acknowledgement yet.
    pub acks: Acks,
    /// Runs of runners before 1.69.
    pub legacy: Arc<Legacy>,
    /// Long-poll sessions, for clients without a WebSocket.
    pub polls: Sessions,
    /// Feed positions of lists that were read a moment ago.
    pub lists: Lists,
    /// Limits on concurrent requests for suggestions, per user.
    pub suggesting: Suggesting,
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

pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    runtime::routes(intelligence::routes(routes))
}

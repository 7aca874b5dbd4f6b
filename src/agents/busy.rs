//! Choice of a client whose request meets an active run.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Fate of a request for a run while another run is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Busy {
    /// The request is refused.
    #[default]
    Reject,
    /// The turn is queued behind all others.
    Enqueue,
    /// The turn is queued before all others, and the active run is stopped.
    Interrupt,
}

//! Claims of tool calls: which of several clients runs the tool.

use super::{ClientId, ToolCallId};

/// Claim of a tool call by a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolClaim {
    /// Call that is claimed.
    pub call: ToolCallId,
    /// Client that claims it.
    pub holder: ClientId,
}

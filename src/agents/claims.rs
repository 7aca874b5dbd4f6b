//! Results that name the claims of their tool calls.

use std::collections::HashSet;

use threadline_core::{Principal, ThreadId, ToolClaim, projection::conversation::Conversation};
use threadline_engine::{ClaimError, ServiceError};

use super::{AgentError, Agents, input::Prepared};

impl Agents {
    /// Refuses results whose claims are lost, and holds the others until the run has begun. The run begins only directly after
    /// the events of this conversation, so no other run answers the calls in between.
    pub(super) async fn hold_claims(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        claims: &[ToolClaim],
        prepared: &Prepared<'_>,
        conversation: &Conversation,
    ) -> Result<(), AgentError> {
        let pending: HashSet<String> = conversation.pending_tool_calls().into_iter().collect();
        if let Some(answered) = claims.iter().find(|claim| !pending.contains(claim.call.as_str())) {
            return Err(AgentError::ClaimLost(answered.call.clone()));
        }
        if let Some(silent) = claims.iter().find(|claim| !prepared.has_result_of(claim.call.as_str())) {
            let call = silent.call.as_str();
            return Err(AgentError::InvalidInput(format!(
                "claims names tool call {call:?}, of which it has no result"
            )));
        }
        for claim in claims {
            match self.shared.service.tool_claims.hold(principal, thread, claim).await {
                Err(ClaimError::ToolCallClaimed { call, .. }) => return Err(AgentError::ClaimLost(call)),
                held => held.map_err(ServiceError::from)?,
            }
        }
        Ok(())
    }
}

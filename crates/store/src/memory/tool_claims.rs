//! Claims of tool calls.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{ThreadKey, ToolClaim};

use super::MemoryStore;
use crate::{ClaimOutcome, StoreResult, ToolClaimStore, tool_claims::is_over};

#[async_trait]
impl ToolClaimStore for MemoryStore {
    async fn claim_tool_call(&self, key: ThreadKey, claim: &ToolClaim, lease: Duration) -> StoreResult<ClaimOutcome> {
        let now = self.clock.now();
        let mut state = self.state();
        for row in state.threads.values_mut() {
            row.tool_claims.retain(|_, (_, until)| !is_over(*until, now));
        }
        let Some(row) = state.threads.get_mut(&key) else { return Ok(ClaimOutcome::ThreadGone) };
        let mut until = now.plus(lease);
        if let Some((holder, before)) = row.tool_claims.get(&claim.call) {
            if *holder != claim.holder {
                return Ok(ClaimOutcome::Taken(*before));
            }
            until = until.max(*before);
        }
        row.tool_claims.insert(claim.call.clone(), (claim.holder.clone(), until));
        Ok(ClaimOutcome::Held(until))
    }

    async fn drop_tool_claim(&self, key: ThreadKey, claim: &ToolClaim) -> StoreResult<()> {
        let mut state = self.state();
        if let Some(row) = state.threads.get_mut(&key) {
            row.tool_claims.retain(|call, (holder, _)| (call, &*holder) != (&claim.call, &claim.holder));
        }
        Ok(())
    }
}

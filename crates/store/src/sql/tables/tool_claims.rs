//! Claims of tool calls: one row per call, held until its lease is over.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{ThreadKey, ToolClaim, limits::SWEPT_CLAIMS};

use super::Tables;
use crate::{
    ClaimOutcome, StoreError, StoreResult, ToolClaimStore,
    sql::{columns::Columns, limit, millis},
    tool_claims::CLAIM_HORIZON,
};

/// Number of claims of other clients that may end between a try and the look at what has prevented it.
const TRIES: usize = 16;
const DROP: &str = "DELETE FROM tool_claims WHERE key = $1 AND call = $2 AND holder = $3 RETURNING key";

#[async_trait]
impl<S: Tables> ToolClaimStore for S {
    async fn claim_tool_call(&self, key: ThreadKey, claim: &ToolClaim, lease: Duration) -> StoreResult<ClaimOutcome> {
        for _ in 0..TRIES {
            let values = vec![
                self.time().into(),
                key.0.into(),
                claim.call.as_str().into(),
                claim.holder.as_str().into(),
                millis(lease).into(),
                millis(CLAIM_HORIZON).into(),
                limit(SWEPT_CLAIMS).into(),
            ];
            if let Some(row) = self.changed(S::STATEMENTS.claim_tool_call, values).await?.first() {
                return Ok(ClaimOutcome::Held(Columns::new(row).time()?));
            }
            let values = vec![key.0.into(), claim.call.as_str().into()];
            let rows = self.found(S::STATEMENTS.tool_claim, values).await?;
            let Some(row) = rows.first() else { return Ok(ClaimOutcome::ThreadGone) };
            if let Some(until) = Columns::new(row).maybe_time()? {
                return Ok(ClaimOutcome::Taken(until));
            }
        }
        Err(StoreError::Unavailable("other clients claim the call and give it up all the time".to_owned()))
    }

    async fn drop_tool_claim(&self, key: ThreadKey, claim: &ToolClaim) -> StoreResult<()> {
        let values = vec![key.0.into(), claim.call.as_str().into(), claim.holder.as_str().into()];
        self.changed(DROP, values).await.map(drop)
    }
}

//! Claims of tool calls, stored next to the logs: an append waits for none of them.

use std::time::Duration;

use async_trait::async_trait;
use threadline_core::{ThreadKey, Timestamp, ToolClaim, limits::MAX_CLAIM_LEASE};

use crate::error::StoreResult;

/// Outcome of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The client holds the call until then.
    Held(Timestamp),
    /// Another client holds the call until then.
    Taken(Timestamp),
    /// The thread does not exist (any more).
    ThreadGone,
}

/// Time from now after which no claim ends, unless the clock was set back. Twice the longest lease, since a claim that waits for
/// another one reads the time before that.
pub(crate) const CLAIM_HORIZON: Duration = Duration::from_secs(2 * MAX_CLAIM_LEASE.as_secs());

/// True if nobody holds a claim that ends then: its lease is over, or the clock was set back.
pub(crate) fn is_over(until: Timestamp, now: Timestamp) -> bool {
    until <= now || until > now.plus(CLAIM_HORIZON)
}

/// Claims of tool calls, which are deleted with their thread. The store does not know which calls wait for a result.
#[async_trait]
pub trait ToolClaimStore: Send + Sync {
    /// Claims a call for `lease` from now on, if no other client holds it; a claim that the client holds gets the new lease,
    /// unless the one that it has ends later. Of all clients that claim one call at the same time, on any node, exactly one holds
    /// it. Removes a few claims whose lease is over, of any thread.
    async fn claim_tool_call(&self, key: ThreadKey, claim: &ToolClaim, lease: Duration) -> StoreResult<ClaimOutcome>;

    /// Removes a claim, if this client has it.
    async fn drop_tool_claim(&self, key: ThreadKey, claim: &ToolClaim) -> StoreResult<()>;
}

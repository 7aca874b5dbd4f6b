//! Claims of tool calls: of several clients that show a thread, one runs the tool.

use std::{sync::Arc, time::Duration};

use threadline_core::{
    Epoch, Fence, Principal, ThreadId, Timestamp, ToolClaim,
    limits::{DEFAULT_CLAIM_LEASE, MAX_CLAIM_LEASE, MIN_CLAIM_LEASE},
};
use threadline_store::{ClaimOutcome, DynStore, StoreError};

use crate::{
    ClaimError,
    directory::{Attempt, Directory},
    lifecycle::Lifecycle,
    read::projections::Projections,
    records::ThreadRef,
};

/// Number of runs that may begin, one after the other, while a call is claimed.
const TRIES: usize = 16;

/// Use cases of claims of tool calls.
#[derive(Clone)]
pub struct ToolClaims {
    pub(crate) deps: Arc<ToolClaimDeps>,
}

/// Dependencies of [`ToolClaims`], shared by its clones.
pub(crate) struct ToolClaimDeps {
    pub store: DynStore,
    pub directory: Directory,
    pub projections: Projections,
    pub lifecycle: Lifecycle,
}

impl ToolClaims {
    /// Claims a call that has no result, or renews the claim; returns the end of the lease. A run that begins meanwhile may bring
    /// the result, so the call is looked at again then.
    pub async fn claim(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        claim: &ToolClaim,
        lease: Option<Duration>,
    ) -> Result<Timestamp, ClaimError> {
        self.deps.lifecycle.refuse_if_draining()?;
        let lease = lease.unwrap_or(DEFAULT_CLAIM_LEASE).clamp(MIN_CLAIM_LEASE, MAX_CLAIM_LEASE);
        for _ in 0..TRIES {
            let begun = self.newest_run(principal, thread).await?;
            let pending = self.deps.projections.read(principal, thread, None, None, |projected| {
                projected.conversation.pending_tool_calls().iter().any(|call| call == claim.call.as_str())
            });
            if !pending.await? {
                // The client may have had it, of a call that is answered now.
                self.drop_claim(principal, thread, claim).await?;
                return Err(ClaimError::ToolCallNotPending(claim.call.clone()));
            }
            let until = self.take(principal, thread, claim, lease).await?;
            if self.newest_run(principal, thread).await? == begun {
                return Ok(until);
            }
        }
        Err(StoreError::Unavailable("runs begin in the thread all the time; try again".to_owned()).into())
    }

    /// Has a client keep its claim while a run with the result begins. A claim that has ended, and that nobody has taken, is made
    /// again.
    pub async fn hold(&self, principal: &Principal, thread: &ThreadId, claim: &ToolClaim) -> Result<(), ClaimError> {
        self.take(principal, thread, claim, DEFAULT_CLAIM_LEASE).await.map(drop)
    }

    /// Gives a claim up. Without effect if another client holds the call, or nobody.
    pub async fn give_up(&self, principal: &Principal, thread: &ThreadId, claim: &ToolClaim) -> Result<(), ClaimError> {
        self.deps.lifecycle.refuse_if_draining()?;
        self.drop_claim(principal, thread, claim).await
    }

    /// Removes claims of calls that a run has answered. A claim that the store does not remove ends with its lease.
    pub async fn answered(&self, principal: &Principal, thread: &ThreadId, claims: &[ToolClaim]) {
        for claim in claims {
            if let Err(error) = self.drop_claim(principal, thread, claim).await {
                tracing::warn!(%error, %thread, "cannot remove the claim of an answered tool call");
                return;
            }
        }
    }

    async fn take(
        &self,
        principal: &Principal,
        thread: &ThreadId,
        claim: &ToolClaim,
        lease: Duration,
    ) -> Result<Timestamp, ClaimError> {
        let take = move |thread: Arc<ThreadRef>| async move {
            match self.deps.store.claim_tool_call(thread.key, claim, lease).await? {
                ClaimOutcome::Held(until) => Ok(Attempt::Done(until)),
                ClaimOutcome::Taken(until) => Err(ClaimError::ToolCallClaimed { call: claim.call.clone(), until }),
                ClaimOutcome::ThreadGone => Ok(Attempt::ThreadGone),
            }
        };
        self.deps.directory.with_thread(principal, thread, take).await
    }

    async fn drop_claim(&self, principal: &Principal, thread: &ThreadId, claim: &ToolClaim) -> Result<(), ClaimError> {
        let give_up = move |thread: Arc<ThreadRef>| async move {
            self.deps.store.drop_tool_claim(thread.key, claim).await?;
            let exists = self.deps.directory.exists(thread.key).await?;
            Ok::<_, ClaimError>(exists.then_some(()).into())
        };
        self.deps.directory.with_thread(principal, thread, give_up).await
    }

    /// The thread's incarnation and its newest run, which changes when a run begins.
    async fn newest_run(&self, principal: &Principal, thread: &ThreadId) -> Result<(Epoch, Fence), ClaimError> {
        let read = move |thread: Arc<ThreadRef>| async move {
            let head = self.deps.store.heads(&[thread.key]).await?.pop();
            Ok::<_, ClaimError>(head.map(|head| (head.epoch, head.fence)).into())
        };
        self.deps.directory.with_thread(principal, thread, read).await
    }
}

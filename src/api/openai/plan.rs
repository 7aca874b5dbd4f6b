//! Place at which a response begins: in which thread, and after which of its runs.

use std::collections::HashSet;

use threadline_core::{Principal, Run, RunId, Scope, Seq, ThreadId};
use threadline_engine::{ForkThread, LookupError, RunLookupError};
use threadline_http::{
    idempotency,
    problem::{Problem, ProblemType},
};

use super::{
    errors::{invalid, locked},
    ids::{ResponseId, conversation_id, no_conversation},
    items::{ITEMS_RUN, refused, without},
    record::{self, Found, removed_of},
    request::{Asked, Target, no_previous},
    retries::Identity,
};
use crate::{
    agents::{ForkPoint, ForkStart},
    api::ApiState,
};

/// Number of the newest runs that are read to find one that did more than change items.
const CHANGES_SEEN: usize = 100;

const UNSTORED_APPROVAL: &str = "store is false, and input has an mcp_approval_response: an approval is stored in its conversation, so leave store out";

/// Place at which a response begins.
#[derive(Debug)]
pub struct Plan {
    pub thread: ThreadId,
    pub fork: Option<ForkStart>,
    pub makes_thread: bool,
    /// True if `thread` is a fork that was made for the response, to be listed once its run has begun.
    pub is_fork: bool,
}

impl Plan {
    /// Plan for a request. `answers` is true if it answers requests for approvals.
    pub async fn of(
        state: &ApiState,
        principal: &Principal,
        asked: &Asked,
        identity: &Identity,
        answers: bool,
    ) -> Result<Self, Problem> {
        match &asked.target {
            Target::New => Ok(Self { thread: identity.thread.clone(), fork: None, makes_thread: true, is_fork: false }),
            Target::Conversation(thread) => match state.service.threads.get(principal, thread).await {
                Err(LookupError::ThreadNotFound) => Err(no_conversation(&conversation_id(thread))),
                found => found.map(|_| Self::within(thread)).map_err(Into::into),
            },
            Target::After(previous) => Self::after(state, principal, asked, previous, (identity, answers)).await,
        }
    }

    pub fn within(thread: &ThreadId) -> Self {
        Self { thread: thread.clone(), fork: None, makes_thread: false, is_fork: false }
    }

    /// Plan for a response after another one: in the same thread if that response is the newest, else in a fork.
    async fn after(
        state: &ApiState,
        principal: &Principal,
        asked: &Asked,
        previous: &ResponseId,
        (identity, answers): (&Identity, bool),
    ) -> Result<Self, Problem> {
        let id = previous.to_string();
        let Found { run, .. } = match record::find(state, principal, &id).await {
            Err(problem) if problem.kind == ProblemType::RunNotFound => return Err(no_previous(&id)),
            found => found?,
        };
        // A repeated request means the run that the first one began.
        if has_run(state, principal, &previous.thread, &identity.run).await? {
            return Ok(Self::within(&previous.thread));
        }
        let thread = idempotency::fork_of(principal, &previous.thread, &identity.run);
        let fork = ForkStart { point: ForkPoint::At(run.last_seq()), thread, stop: false, listed: asked.store };
        let forks = Self { thread: previous.thread.clone(), fork: Some(fork), makes_thread: false, is_fork: false };
        if let Some(ForkStart { thread: Some(fork), .. }) = &forks.fork
            && has_run(state, principal, fork, &identity.run).await?
        {
            return Ok(forks);
        }
        if run.status.is_active() {
            return Err(locked(Problem::new(ProblemType::RunActive, ""), &id));
        }
        let ends_there = is_newest(state, principal, &previous.thread, &run).await?;
        // Actions that were approved after this response may have been executed: no fork executes them again.
        if answers && !ends_there {
            let detail = "an approval can be given only after the newest response of its conversation: another request has gone on from there";
            return Err(Problem::new(ProblemType::InterruptSettled, detail));
        }
        // The interrupt would stay open in the conversation, and the same approval could be given again.
        if answers && !asked.store {
            return Err(invalid("store", UNSTORED_APPROVAL));
        }
        // A response that is not stored leaves the conversation as it is.
        if ends_there && asked.store {
            return Ok(Self::within(&previous.thread));
        }
        let removed = removed_of(state, principal, &previous.thread).await?;
        match &forks.fork {
            Some(ForkStart { thread: Some(fork), .. }) if !removed.is_empty() && !ends_there => {
                Self::without(state, principal, (previous, run.last_seq()), fork, &removed).await
            }
            _ => Ok(forks),
        }
    }

    /// Plan for a fork without the items that were removed from the conversation after the response.
    async fn without(
        state: &ApiState,
        principal: &Principal,
        (previous, at): (&ResponseId, Seq),
        fork: &ThreadId,
        removed: &HashSet<String>,
    ) -> Result<Self, Problem> {
        let wanted = ForkThread { id: Some(fork.clone()), at: Some(at), unlisted: true, ..ForkThread::default() };
        state.service.forks.fork(principal, &previous.thread, wanted).await?;
        // The server repeats a removal that somebody was allowed to make.
        let server = Principal { scopes: principal.scopes.with(Scope::Produce), ..principal.clone() };
        if let Some(save) = without(state, &server, fork, removed).await? {
            let saved = state.service.conversations.save(&server, fork, save).await;
            saved.map_err(|error| refused(error, fork))?;
        }
        Ok(Self { is_fork: true, ..Self::within(fork) })
    }
}

async fn has_run(state: &ApiState, principal: &Principal, thread: &ThreadId, run: &RunId) -> Result<bool, Problem> {
    match state.service.runs.get(principal, thread, run).await {
        Ok(_) => Ok(true),
        Err(RunLookupError::ThreadNotFound | RunLookupError::RunNotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// True if a thread has no run after this one, besides those that only changed items.
async fn is_newest(state: &ApiState, principal: &Principal, thread: &ThreadId, run: &Run) -> Result<bool, Problem> {
    let newest = state.service.runs.list(principal, thread, None, CHANGES_SEEN, None).await?;
    let mut later = newest.items.iter().take_while(|newer| newer.fence > run.fence);
    let only_changes = later.all(|newer| !newer.driven && newer.id.as_str().starts_with(ITEMS_RUN));
    Ok(only_changes && newest.items.iter().any(|other| other.id == run.id))
}

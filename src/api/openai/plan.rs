//! Place at which a response begins: in which thread, and after which of its runs.

use threadline_core::{Principal, Run, RunId, ThreadId};
use threadline_engine::{LookupError, RunLookupError};
use threadline_http::{
    idempotency,
    problem::{Problem, ProblemType},
};

use super::{
    errors::locked,
    ids::{ResponseId, conversation_id, no_conversation},
    items::ITEMS_RUN,
    record::{self, Found},
    request::{Asked, Target, no_previous},
    retries::Identity,
};
use crate::{
    agents::{ForkPoint, ForkStart},
    api::ApiState,
};

/// Newest runs among which those that only changed items are skipped.
const CHANGES_SEEN: usize = 100;

/// Place at which a response begins.
#[derive(Debug)]
pub struct Plan {
    pub thread: ThreadId,
    pub fork: Option<ForkStart>,
    pub makes_thread: bool,
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
            Target::New => Ok(Self { thread: identity.thread.clone(), fork: None, makes_thread: true }),
            Target::Conversation(thread) => match state.service.threads.get(principal, thread).await {
                Err(LookupError::ThreadNotFound) => Err(no_conversation(&conversation_id(thread))),
                found => found.map(|_| Self::within(thread)).map_err(Into::into),
            },
            Target::After(previous) => Self::after(state, principal, asked, previous, (identity, answers)).await,
        }
    }

    fn within(thread: &ThreadId) -> Self {
        Self { thread: thread.clone(), fork: None, makes_thread: false }
    }

    /// Plan for a response after another one: in its thread if that ends with it, else in a fork.
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
        let forks = Self { thread: previous.thread.clone(), fork: Some(fork), makes_thread: false };
        if let Some(ForkStart { thread: Some(fork), .. }) = &forks.fork
            && has_run(state, principal, fork, &identity.run).await?
        {
            return Ok(forks);
        }
        if run.status.is_active() {
            return Err(locked(Problem::new(ProblemType::RunActive, ""), &id));
        }
        let ends_there = is_newest(state, principal, &previous.thread, &run).await?;
        // What was approved after this response may have been done: no fork has it done again.
        if answers && !ends_there {
            let detail = "an approval can be given only after the newest response of its conversation: another request has gone on from there";
            return Err(Problem::new(ProblemType::InterruptSettled, detail));
        }
        // A response that is not stored leaves the conversation as it is.
        Ok(if ends_there && asked.store { Self::within(&previous.thread) } else { forks })
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

//! What a client that comes back is told first: everything up to now, in a form that it can take whatever it has.
//!
//! It sends no cursor, and it may still have messages of its own, or the beginning of one: a page that was opened anew has
//! nothing, one that was told of another tab's run has all but that. Told the events again, it would have texts twice. So it
//! is given the messages and the state as they are ([`Past`]), and then, if a run is active, the events of that from the last
//! quiet one on ([`Resuming`]).

use std::collections::HashSet;

use super::{past::Past, stream::Telling};
use crate::{
    api::{ApiState, problem::Problem},
    domain::{Principal, Run, Thread, ThreadId, limits::MAX_EVENT_PAGE},
    projection::resuming::Resuming,
    service::{PageRequest, ServiceError},
    store::ReadFrom,
    subscription::{Subscription, Via},
};

/// A thread may be deleted and made again this often while it is looked at.
const TRIES: usize = 8;
/// How many runs back the name of the last one is looked for that said anything.
const LOOK_BACK: usize = 16;

/// What is told.
pub struct Opening {
    /// Everything up to now.
    pub told: Vec<u8>,
    /// What comes after it, if a run is active.
    pub rest: Option<(Subscription, Telling)>,
}

/// Makes the opening for a client that has reasoning with these ids; `None` if there is nothing to tell.
pub async fn opening(
    state: &ApiState,
    principal: &Principal,
    id: &ThreadId,
    known: &HashSet<String>,
) -> Result<Option<Opening>, Problem> {
    for _ in 0..TRIES {
        let thread = match state.service.threads.get(principal, id).await {
            Err(ServiceError::ThreadNotFound) => return Ok(None),
            thread => thread?,
        };
        match attempt(state, principal, &thread, known).await {
            // Another log has taken its place meanwhile.
            Err(ServiceError::LogReplaced { .. } | ServiceError::RunNotFound) => {}
            Err(ServiceError::ThreadNotFound) => return Ok(None),
            opening => return Ok(opening?),
        }
    }
    Ok(None)
}

async fn attempt(
    state: &ApiState,
    principal: &Principal,
    thread: &Thread,
    known: &HashSet<String>,
) -> Result<Option<Opening>, ServiceError> {
    let service = &state.service;
    let (runs, _) = service.runs.list(principal, &thread.id, None, LOOK_BACK, None).await?;
    let active = runs.first().filter(|run| run.status.is_active());
    let ended = runs.iter().find(|run| !run.status.is_active() && run.producer_seq > 0);
    let Some(newest) = active.or(ended) else { return Ok(None) };
    let resuming = folded(state, principal, thread, newest).await?;
    let seq = if active.is_some() { resuming.quiet() } else { newest.last_seq() };
    let projected = service.projections.at(principal, &thread.id, Some(seq), Some(thread.epoch)).await?;
    let conversation = projected.conversation;
    let past = Past { thread: &thread.id, run: &ended.unwrap_or(newest).id, conversation: &conversation };
    let mut told = Vec::new();
    let Some(active) = active else {
        past.whole(&mut told, &resuming);
        return Ok(Some(Opening { told, rest: None }));
    };
    let telling = past.until(&mut told, active, &resuming, known);
    let events = &service.events;
    let subscription =
        events.subscribe(principal, &thread.id, seq, Some(thread.epoch), Some(&active.id), Via::Copilotkit).await?;
    Ok(Some(Opening { told, rest: Some((subscription, telling)) }))
}

/// Where a run can be gone on from.
async fn folded(state: &ApiState, principal: &Principal, thread: &Thread, run: &Run) -> Result<Resuming, ServiceError> {
    let mut resuming = Resuming::new(run.first_seq);
    let (mut cursor, end) = (run.first_seq - 1, run.last_seq());
    while cursor < end {
        let request = PageRequest {
            from: ReadFrom::After(cursor),
            limit: MAX_EVENT_PAGE,
            epoch: Some(thread.epoch),
            run: Some(run.id.clone()),
            wait: None,
        };
        let page = state.service.events.page(principal, &thread.id, request).await?;
        for (seq, event, _) in page.slice.events().filter(|(seq, ..)| *seq <= end) {
            resuming.observe(seq, event);
        }
        if page.cursor <= cursor {
            break;
        }
        cursor = page.cursor;
    }
    Ok(resuming)
}

//! First part of the response to a client that reconnects: the thread so far, in a form that is correct whatever the
//! client already has.
//!
//! The client sends no cursor, and may still have messages, or the beginning of one. A page that was reloaded has none;
//! a page that is notified of another tab's run has all messages but those of that run. If the events were sent again,
//! such a client would show texts twice. The client therefore receives the current messages and state ([`Past`]), and
//! then, if a run is active, the events of that run after its last quiet event ([`Resuming`]).

use std::collections::HashSet;

use threadline_core::{
    Principal, ReadFrom, Run, Thread, ThreadId, limits::MAX_EVENT_PAGE, projection::resuming::Resuming,
};
use threadline_engine::{
    LookupError, PageRequest, Projected, ServiceError,
    subscription::{FollowMethod, Subscription},
};
use threadline_http::problem::Problem;

use super::{past::Past, stream::Telling};
use crate::api::ApiState;

/// Most attempts to read a thread that is deleted and created again meanwhile.
const TRIES: usize = 8;
/// Number of newest runs among which the last ended run with events is searched.
const LOOK_BACK: usize = 16;

/// First part of the response, and its continuation.
pub struct Opening {
    /// Events up to now, as SSE.
    pub told: Vec<u8>,
    /// Subscription to the active run, if there is one.
    pub rest: Option<(Subscription, Telling)>,
}

/// Makes the opening for a client that has reasoning with the ids `known`. `None` if the thread does not exist, has no
/// content, or was replaced during every attempt.
pub async fn opening(
    state: &ApiState,
    principal: &Principal,
    id: &ThreadId,
    known: &HashSet<String>,
) -> Result<Option<Opening>, Problem> {
    for _ in 0..TRIES {
        let thread = match state.service.threads.get(principal, id).await {
            Err(LookupError::ThreadNotFound) => return Ok(None),
            thread => thread?,
        };
        match attempt(state, principal, &thread, known).await {
            // The log was replaced while it was read.
            Err(ServiceError::LogReplaced(_) | ServiceError::RunNotFound) => {}
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
    let runs = service.runs.list(principal, &thread.id, None, LOOK_BACK, None).await?.items;
    let active = runs.first().filter(|run| run.status.is_active());
    let ended = runs.iter().find(|run| !run.status.is_active() && run.producer_seq > 0);
    let Some(newest) = active.or(ended) else { return Ok(None) };
    let resuming = folded(state, principal, thread, newest).await?;
    let seq = if active.is_some() { resuming.quiet() } else { newest.last_seq() };
    let tell = |projected: &Projected| {
        let conversation = &*projected.conversation;
        let past = Past { thread: &thread.id, run: &ended.unwrap_or(newest).id, conversation };
        let mut told = Vec::new();
        let Some(active) = active else {
            past.whole(&mut told, &resuming);
            return (told, None);
        };
        let telling = past.until(&mut told, active, &resuming, known);
        (told, Some((active, telling)))
    };
    let (told, active) = service.projections.read(principal, &thread.id, Some(seq), Some(thread.epoch), tell).await?;
    let Some((active, telling)) = active else { return Ok(Some(Opening { told, rest: None })) };
    let events = &service.events;
    let subscription = events
        .subscribe(principal, &thread.id, seq, Some(thread.epoch), Some(&active.id), FollowMethod::Copilotkit)
        .await?;
    Ok(Some(Opening { told, rest: Some((subscription, telling)) }))
}

/// Folds the events of a run, to find the position at which a client can resume.
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

//! Requests that ask for validation of their events, or whose project does.

use serde::Deserialize;
use threadline_core::{EventValidation, NewEvents, Principal, RunId, ThreadId};
use threadline_engine::{RunAt, StreamValidation};
use threadline_http::problem::Problem;

use super::ApiState;

/// Validation that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Validate {
    AgUi,
}

/// Place of an append, as its request names it.
pub struct AppendAt {
    pub thread: ThreadId,
    pub run: RunId,
    /// Number of the attempt that appends; `None` for the first one.
    pub attempt: Option<u64>,
    pub producer_seq: Option<u64>,
}

/// Refuses an append whose events are validated and are not as AG-UI has them. The place is asked for only then.
pub async fn check_append(
    state: &ApiState,
    principal: &Principal,
    asked: Option<Validate>,
    events: &NewEvents,
    at: impl FnOnce() -> AppendAt + Send,
) -> Result<(), Problem> {
    if !validates(state, principal, asked).await? {
        return Ok(());
    }
    let AppendAt { thread, run, attempt, producer_seq } = at();
    Ok(state
        .service
        .validations
        .check_append(principal, &thread, RunAt { id: &run, attempt }, producer_seq, events)
        .await?)
}

/// Refuses the first events of a run, or all of them, if they are validated and are not as AG-UI has them.
pub async fn check_run(
    state: &ApiState,
    principal: &Principal,
    asked: Option<Validate>,
    events: &NewEvents,
) -> Result<(), Problem> {
    if !validates(state, principal, asked).await? {
        return Ok(());
    }
    Ok(state.service.validations.check_run(principal, events).await?)
}

/// Validation of a streamed run, from this producerSeq on; `None` if its events are not validated.
pub async fn of_stream(
    state: &ApiState,
    principal: &Principal,
    asked: Option<Validate>,
    thread: &ThreadId,
    run: Option<&RunId>,
    producer_seq: u64,
) -> Result<Option<StreamValidation>, Problem> {
    if !validates(state, principal, asked).await? {
        return Ok(None);
    }
    Ok(Some(state.service.validations.of_stream(principal, thread, run, producer_seq).await?))
}

async fn validates(state: &ApiState, principal: &Principal, asked: Option<Validate>) -> Result<bool, Problem> {
    if asked.is_some() {
        return Ok(true);
    }
    let projects = state.http.auth.projects();
    Ok(projects.validation(&principal.project).await? == EventValidation::AgUi)
}

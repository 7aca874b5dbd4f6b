//! The Response object, and the stream of its events.

use axum::response::Response;
use serde::Serialize;
use serde_json::Value;
use threadline_core::{
    Principal, RunStatus,
    limits::RUN_END_TIMEOUT,
    projection::response::{Header, ResponseStream},
};
use threadline_engine::{
    ServiceError,
    limits::{StreamPermit, in_place},
};
use threadline_http::{observe, problem::Problem, sse};
use tokio::time;
use utoipa::ToSchema;

use super::{
    forgetting::{Forget, follow as follow_run, until_end},
    ids::{ResponseId, or_gone},
    record::Record,
    stream::{Followed, RunOfStream},
};
use crate::api::{ApiState, run_agent::AguiClient, run_log::Log};

/// A response, as OpenAI's API has it. See docs/openai.md for what its members mean here.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResponseView {
    #[schema(example = "resp_dABy")]
    id: String,
    #[schema(example = "response")]
    object: String,
    /// `in_progress`, `completed`, `failed`, `incomplete` or `cancelled`.
    #[schema(example = "completed")]
    status: String,
    #[schema(example = "demo")]
    model: String,
    output: Vec<Value>,
    /// All other members of OpenAI's Response.
    #[serde(flatten)]
    #[schema(inline)]
    rest: serde_json::Map<String, Value>,
}

/// The Response object as of now.
pub async fn read(
    state: &ApiState,
    principal: &Principal,
    id: &ResponseId,
    record: &Record,
) -> Result<Response, Problem> {
    let make = async || Ok(folded(state, principal, id, record).await?.into_bytes());
    or_gone(id, state.http.responses.json(principal, make).await)
}

async fn folded(state: &ApiState, principal: &Principal, id: &ResponseId, record: &Record) -> Result<String, Problem> {
    let epoch = state.service.threads.get(principal, &id.thread).await?.epoch;
    let run = state.service.runs.get(principal, &id.thread, &id.run).await?;
    let log = Log { state, principal, thread: &id.thread, epoch };
    let mut work = log.begin().await?;
    let superseded = log.superseded_in(&mut work, &run).await?;
    let mut stream = ResponseStream::new(record.header(id, &run));
    // Only the object is needed: no event is written.
    stream.skip(u64::MAX);
    if run.status == RunStatus::Stopped {
        stream.note_stop();
    }
    let mut events = Vec::new();
    log.each(&mut work, Some(&run), (run.first_seq - 1, run.last_seq()), |seq, event, at| {
        match superseded.fate(seq, event) {
            None => stream.observe(event, at, &mut events),
            Some(is_kept) => stream.observe_superseded(event, at, is_kept, &mut events),
        }
        events.clear();
    })
    .await?;
    let bytes = stream.bytes();
    work.step(bytes).await?;
    work.took(bytes);
    Ok(in_place(|| stream.response()))
}

/// Waits until the run of a response has ended.
pub async fn wait(state: &ApiState, principal: &Principal, id: &ResponseId) -> Result<(), Problem> {
    let mut subscription = or_gone(id, follow_run(&state.service, principal, id).await.map_err(Problem::from))?;
    let leaving = state.service.leaving();
    // The server ends the runs of its agents when it shuts down, or hands them over.
    let over = async {
        leaving.cancelled().await;
        time::sleep(RUN_END_TIMEOUT).await;
    };
    tokio::select! {
        () = until_end(&mut subscription) => Ok(()),
        () = over => Err(ServiceError::Draining.into()),
    }
}

/// The stream of a response, after the event with the number `after`.
pub async fn follow(
    state: &ApiState,
    principal: &Principal,
    id: &ResponseId,
    (header, after): (Header, Option<u64>),
    (mut requester, forget): (Option<AguiClient>, Option<Forget>),
    place: StreamPermit,
) -> Result<Response, Problem> {
    let opened = or_gone(id, open(state, principal, id, (header, after)).await);
    let mut followed = opened.inspect_err(|_| requester.iter_mut().for_each(AguiClient::done))?;
    (followed.requester, followed.forget) = (requester, forget);
    Ok(sse::response(followed, None, place, &state.http, principal))
}

async fn open(
    state: &ApiState,
    principal: &Principal,
    id: &ResponseId,
    (header, after): (Header, Option<u64>),
) -> Result<Followed, Problem> {
    let run = state.service.runs.get(principal, &id.thread, &id.run).await?;
    let epoch = state.service.threads.get(principal, &id.thread).await?.epoch;
    let superseded = Log { state, principal, thread: &id.thread, epoch }.superseded(&run).await?;
    let source = follow_run(&state.service, principal, id).await?;
    let mut stream = ResponseStream::new(header);
    if let Some(after) = after {
        stream.skip(after);
    }
    let run_of_stream = RunOfStream { service: state.service.clone(), principal: principal.clone(), id: id.clone() };
    Ok(Followed {
        stream,
        run: run_of_stream,
        superseded,
        driven: run.driven,
        source: Some(Box::new(source)),
        pending: None,
        asked: false,
        requester: None,
        forget: None,
        counted: observe::DeliveryMetrics::new(&state.http),
    })
}

//! Messages and state of a thread, folded from the log at any seq.

use std::io::Write;

use axum::{extract::State, response::Response};
use serde::Deserialize;
use serde_json::json;
use threadline_core::{
    Epoch, ThreadId,
    json::quoted,
    limits::MAX_PAGE_BYTES,
    projection::conversation::{Conversation, Message},
};
use threadline_engine::Projected;
use threadline_http::{
    extract::{Caller, InThread, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::IntoParams;

use crate::api::ApiState;

/// Position at which the state is read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StateParams {
    /// After the event with this seq; the newest one if absent.
    at: Option<u64>,
    /// The epoch of `at`. If the log has another epoch, the response is 410.
    epoch: Option<String>,
}

/// Position, number and end of the messages that are read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MessagesParams {
    /// After the event with this seq; the newest one if absent.
    at: Option<u64>,
    /// The epoch of `at`. If the log has another epoch, the response is 410.
    epoch: Option<String>,
    /// Most messages, the newest ones. All that fit into 4 MiB if absent.
    limit: Option<usize>,
    /// Only messages before the message with this ID.
    before: Option<String>,
}

fn begin(thread: &ThreadId, projected: &Projected) -> Vec<u8> {
    let mut out = Vec::new();
    let thread = quoted(thread.as_str());
    // Writing to a vector cannot fail.
    let _ = write!(out, "{{\"threadId\":{thread},\"epoch\":\"{}\",\"seq\":{}", projected.epoch, projected.seq);
    out
}

/// Reads the messages of a thread, as AG-UI has them: the same that `@ag-ui/client` builds from the same events.
///
/// A response has at most 4 MiB of messages, the newest ones. If `hasMore` is true, request older ones with `before`.
/// `seq` is the last event that the messages contain: follow the log from there without gaps or duplicates. The
/// response includes the open interrupts, and the tool calls without a result. A number beyond a double (`1e400`)
/// reads as null; `skippedNumbers` counts them, in messages and state, since the first event of the thread.
#[utoipa::path(get, path = "/v1/threads/{threadId}/messages", tag = "projections",
    params(("threadId" = String, Path), MessagesParams), responses(
    (status = 200, description = "The messages", body = serde_json::Value, example = json!({
        "threadId": "demo", "epoch": "0123456789abcdef", "seq": 7,
        "messages": [{ "id": "m1", "role": "user", "content": "Hello" }], "hasMore": false,
        "interrupts": [], "pendingToolCallIds": [], "skippedNumbers": 0
    })),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 410, description = "`at` belongs to a log that was replaced", body = ProblemDocument),
    (status = 416, description = "`at` is beyond the end of the log", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn messages(
    State(state): State<ApiState>,
    caller: Caller,
    InThread(thread): InThread,
    Params(params): Params<MessagesParams>,
) -> Result<Response, Problem> {
    let make = async || {
        let (at, epoch) = (params.at, params.epoch.as_deref().map(Epoch::named));
        let document = |projected: &Projected| messages_document(projected, &thread, &params);
        state.service.projections.read(&caller.0, &thread, at, epoch, document).await?
    };
    state.http.responses.json(&caller.0, make).await
}

fn messages_document(projected: &Projected, thread: &ThreadId, params: &MessagesParams) -> Result<Vec<u8>, Problem> {
    let conversation = &projected.conversation;
    let end = match &params.before {
        None => conversation.messages().len(),
        Some(before) => conversation
            .messages()
            .position(|message| message.id() == before)
            .ok_or_else(|| Problem::invalid("before is not the ID of a message"))?,
    };
    let (start, messages) = newest(conversation, end, params.limit.unwrap_or(end));
    let mut out = begin(thread, projected);
    out.extend_from_slice(b",\"messages\":[");
    out.extend_from_slice(&messages);
    let _ = write!(out, "],\"hasMore\":{},\"interrupts\":", start > 0);
    out.extend_from_slice(&conversation.interrupts_json());
    let (pending, skipped) = (conversation.pending_tool_calls(), conversation.skipped_numbers());
    let _ = write!(out, ",\"pendingToolCallIds\":{},\"skippedNumbers\":{skipped}}}", json!(pending));
    Ok(out)
}

/// The newest messages before `end` that fit into a response: index of the first one, and their JSON with commas
/// between. At least one message, unless there is none or `limit` is 0.
fn newest(conversation: &Conversation, end: usize, limit: usize) -> (usize, Vec<u8>) {
    let all: Vec<&Message> = conversation.messages().take(end).collect();
    let (mut start, mut size, mut parts) = (end, 0, Vec::new());
    for message in all.iter().rev().take(limit) {
        let mut part = Vec::new();
        message.write_json(&mut part);
        size += part.len() + 1;
        if size > MAX_PAGE_BYTES && start < end {
            break;
        }
        start -= 1;
        parts.push(part);
    }
    parts.reverse();
    (start, parts.join(&b','))
}

/// Reads the state of a thread: STATE_SNAPSHOT with every STATE_DELTA applied.
///
/// A delta that cannot be applied is skipped, and counted in `skippedDeltas`. A number beyond a double (`1e400`)
/// reads as null, and is counted in `skippedNumbers`.
#[utoipa::path(get, path = "/v1/threads/{threadId}/state", tag = "projections",
    params(("threadId" = String, Path), StateParams), responses(
    (status = 200, description = "The state", body = serde_json::Value, example = json!({
        "threadId": "demo", "epoch": "0123456789abcdef", "seq": 7, "state": { "steps": [] }, "skippedDeltas": 0, "skippedNumbers": 0
    })),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 410, description = "`at` belongs to a log that was replaced", body = ProblemDocument),
    (status = 416, description = "`at` is beyond the end of the log", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn state(
    State(state): State<ApiState>,
    caller: Caller,
    InThread(thread): InThread,
    Params(params): Params<StateParams>,
) -> Result<Response, Problem> {
    let make = async || {
        let (at, epoch) = (params.at, params.epoch.as_deref().map(Epoch::named));
        let document = |projected: &Projected| state_document(projected, &thread);
        Ok(state.service.projections.read(&caller.0, &thread, at, epoch, document).await?)
    };
    state.http.responses.json(&caller.0, make).await
}

fn state_document(projected: &Projected, thread: &ThreadId) -> Vec<u8> {
    let mut out = begin(thread, projected);
    out.extend_from_slice(b",\"state\":");
    out.extend_from_slice(&projected.conversation.state_json());
    let (deltas, numbers) = (projected.conversation.skipped_deltas(), projected.conversation.skipped_numbers());
    let _ = write!(out, ",\"skippedDeltas\":{deltas},\"skippedNumbers\":{numbers}}}");
    out
}

//! Content of a thread: its messages, and its events and state for the inspector.

use std::io::Write;

use axum::{Json as Answer, extract::State, response::Response};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use threadline_core::{
    Principal, ThreadId, json as text,
    limits::{MAX_EVENT_PAGE, MAX_INSPECTED_BYTES},
    projection::conversation::Conversation,
};
use threadline_engine::{Projected, ReadError};
use threadline_http::{
    extract::{Caller, InThread, Params},
    problem::{Problem, ProblemDocument},
};

use super::acting;
use crate::api::ApiState;

/// Message, read in the form of AG-UI and written in the form of this API.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    role: &'a RawValue,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    content: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    activity_type: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Vec::is_empty", default)]
    tool_calls: Vec<Call<'a>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a RawValue>,
}

#[derive(Serialize, Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow, skip_serializing)]
    function: Function<'a>,
    #[serde(borrow, skip_deserializing)]
    name: Option<&'a RawValue>,
    #[serde(borrow, skip_deserializing)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow)]
    arguments: &'a RawValue,
}

/// Returns all messages of a thread, oldest first. Before each run the runtime compares their IDs: other messages are
/// new.
#[utoipa::path(get, path = "/api/threads/{threadId}/messages", tag = "copilotkit",
    params(("threadId" = String, Path), acting::ForUser), responses(
    (status = 200, description = "The messages", body = serde_json::Value, example = json!({
        "messages": [{ "id": "m1", "role": "user", "content": "Hello" }]
    })),
    (status = 403, description = "Thread of another user", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn messages(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Params(asked): Params<acting::ForUser>,
) -> Result<Response, Problem> {
    let (_, principal) = acting::thread(&state, principal, asked.user_id, &id).await?;
    let make = || async {
        let document = |projected: &Projected| messages_document(&projected.conversation);
        Ok(state.service.projections.read(&principal, &id, None, None, document).await?)
    };
    state.http.responses.json(&principal, make).await
}

/// `{"messages": […]}`, in the form that clients of the CopilotKit APIs read.
pub fn messages_document(conversation: &Conversation) -> Vec<u8> {
    let mut out = b"{\"messages\":[".to_vec();
    let begin = out.len();
    let mut json = Vec::new();
    for message in conversation.messages() {
        json.clear();
        message.write_json(&mut json);
        let Ok(mut shown) = serde_json::from_slice::<Message<'_>>(&json) else { continue };
        for call in &mut shown.tool_calls {
            (call.name, call.args) = (Some(call.function.name), Some(call.function.arguments));
        }
        if !shown.tool_calls.is_empty() && shown.content.is_some_and(|content| content.get() == "\"\"") {
            shown.content = None;
        }
        if out.len() > begin {
            out.push(b',');
        }
        // Writing into memory cannot fail.
        let _ = serde_json::to_writer(&mut out, &shown);
    }
    out.extend_from_slice(b"]}");
    out
}

/// Returns the events of a thread, for the inspector: all runs, oldest first. Of a long log only the newest;
/// `truncated` is then true.
#[utoipa::path(get, path = "/api/_inspect/threads/{threadId}/events", tag = "copilotkit",
    params(("threadId" = String, Path)), responses(
    (status = 200, description = "The events", body = serde_json::Value, example = json!({
        "events": [{ "type": "RUN_STARTED" }], "decodeErrorRowIds": [], "truncated": false
    })),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn events(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
) -> Result<Response, Problem> {
    let principal = acting::holder(principal);
    let make = || events_document(&state, &principal, &id);
    state.http.responses.page(&principal, MAX_INSPECTED_BYTES, make).await
}

/// `{"events": […]}` in the form of the inspector; no events if the thread does not exist.
pub async fn events_document(state: &ApiState, principal: &Principal, id: &ThreadId) -> Result<Vec<u8>, Problem> {
    let mut log = state.service.events.backwards(principal, id, MAX_EVENT_PAGE);
    let (mut pages, mut bytes, mut more) = (Vec::new(), 0, false);
    while bytes < MAX_INSPECTED_BYTES {
        let page = match log.next().await {
            Ok(None) | Err(ReadError::ThreadNotFound) => break,
            Ok(Some(page)) => page,
            Err(error) => return Err(error.into()),
        };
        more = page.has_more;
        bytes += page.slice.bytes();
        pages.push(page.slice);
    }
    let mut out = Vec::with_capacity(bytes + 128);
    out.extend_from_slice(b"{\"events\":[");
    let begin = out.len();
    for (_, event, _) in pages.iter().rev().flat_map(|slice| slice.events()) {
        if out.len() > begin {
            out.push(b',');
        }
        out.extend_from_slice(event);
    }
    let _ = write!(out, "],\"decodeErrorRowIds\":[],\"truncated\":{more}}}");
    Ok(out)
}

/// Returns the state of a thread, for the inspector: the newest STATE_SNAPSHOT and every STATE_DELTA after it. Deltas
/// without a snapshot are ignored.
#[utoipa::path(get, path = "/api/_inspect/threads/{threadId}/state", tag = "copilotkit",
    params(("threadId" = String, Path)), responses(
    (status = 200, description = "The state", body = serde_json::Value, example = json!({
        "kind": "snapshot", "state": { "step": 2 }, "skippedDeltas": 0
    })),
    (status = 503, description = "Store unavailable", body = ProblemDocument)))]
pub async fn state(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
) -> Result<Answer<Box<RawValue>>, Problem> {
    let shown = state_document(&state, &acting::holder(principal), &id).await?;
    Ok(Answer(shown))
}

/// State of a thread in the form of the inspector.
pub async fn state_document(state: &ApiState, principal: &Principal, id: &ThreadId) -> Result<Box<RawValue>, Problem> {
    let raw = |value: String| RawValue::from_string(value).unwrap_or_default();
    // Pages are read backwards to the newest snapshot, and the deltas on the way are kept.
    let mut after: Vec<Vec<u8>> = Vec::new();
    let mut log = state.service.events.backwards(principal, id, MAX_EVENT_PAGE);
    loop {
        let page = match log.next().await {
            Ok(None) | Err(ReadError::ThreadNotFound) => {
                return Ok(raw(json!({ "kind": "no-snapshot" }).to_string()));
            }
            Ok(Some(page)) => page,
            Err(error) => return Err(error.into()),
        };
        let mut found = false;
        let events: Vec<&[u8]> = page.slice.events().map(|(_, event, _)| event).collect();
        for event in events.into_iter().rev() {
            match kind(event) {
                Some("\"STATE_DELTA\"") => after.push(event.to_vec()),
                Some("\"STATE_SNAPSHOT\"") => {
                    after.push(event.to_vec());
                    found = true;
                    break;
                }
                _ => {}
            }
        }
        if found {
            break;
        }
        if after.iter().map(Vec::len).sum::<usize>() > MAX_INSPECTED_BYTES {
            return Ok(raw(json!({ "kind": "no-snapshot" }).to_string()));
        }
    }
    let (bytes, service) = (after.iter().map(Vec::len).sum(), &state.service);
    let room = service.projections.room_for_events(principal, after.iter().map(Vec::as_slice)).await?;
    let Some(_room) = room else { return Ok(raw(json!({ "kind": "no-snapshot" }).to_string())) };
    let fold = || {
        let mut conversation = Conversation::default();
        after.iter().rev().for_each(|event| conversation.observe(event));
        let shown = String::from_utf8(conversation.state_json()).unwrap_or_default();
        let skipped = conversation.skipped_deltas();
        raw(format!("{{\"kind\":\"snapshot\",\"state\":{shown},\"skippedDeltas\":{skipped}}}"))
    };
    Ok(service.queue.process(principal, bytes, fold).await?)
}

fn kind(event: &[u8]) -> Option<&str> {
    text::member(std::str::from_utf8(event).ok()?, "type")
}

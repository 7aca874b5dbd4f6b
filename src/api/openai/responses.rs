//! Responses: read, followed, cancelled and deleted.

use axum::{Json as Answer, extract::State, http::Uri, response::Response};
use serde::Serialize;
use serde_json::{Value, json};
use threadline_core::{json as text, limits::RUN_END_TIMEOUT, projection::response::items};
use threadline_engine::StopError;
use threadline_http::{
    extract::{Caller, InPath},
    problem::Problem,
};
use tokio::time;
use utoipa::ToSchema;

use super::{
    errors::OpenAiError,
    ids::{no_response, or_gone},
    list::ListView,
    object::{self, ResponseView},
    parameters::{ListParams, ResponseParams},
    record::{self, Found},
};
use crate::api::ApiState;

/// Reads a response, or follows it with `stream`, also after its end: each event has the same number in every stream.
#[utoipa::path(get, path = "/openai/v1/responses/{responseId}", tag = "openai",
    params(("responseId" = String, Path), ResponseParams), responses(
    (status = 200, description = "The response, or with `stream` its events",
        content((ResponseView = "application/json"), (String = "text/event-stream"))),
    (status = 400, description = "Invalid request", body = OpenAiError),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Response not found", body = OpenAiError)))]
pub async fn get(
    Caller(principal): Caller,
    State(state): State<ApiState>,
    InPath(id): InPath,
    uri: Uri,
) -> Result<Response, Problem> {
    let params = ResponseParams::read(&uri)?;
    let Found { id, run, record } = record::find(&state, &principal, &id).await?;
    if !params.stream {
        return object::read(&state, &principal, &id, &record).await;
    }
    let place = state.http.quota.open(&principal)?;
    let header = record.header(&id, &run);
    object::follow(&state, &principal, &id, (header, params.starting_after), (None, None), place).await
}

/// Stops the run of a response, and waits a little for its end. A response that has ended stays as it is.
#[utoipa::path(post, path = "/openai/v1/responses/{responseId}/cancel", tag = "openai",
    params(("responseId" = String, Path)), responses(
    (status = 200, description = "The response", body = ResponseView),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Response not found", body = OpenAiError)))]
pub async fn cancel(
    Caller(principal): Caller,
    State(state): State<ApiState>,
    InPath(id): InPath,
) -> Result<Response, Problem> {
    let Found { id: named, run, record } = record::find(&state, &principal, &id).await?;
    if run.status.is_active() {
        match state.service.runs.stop(&principal, &named.thread, &named.run).await {
            Err(StopError::ThreadNotFound | StopError::RunNotFound) => return Err(no_response(&id)),
            stopped => drop(stopped?),
        }
        if let Ok(ended) = time::timeout(RUN_END_TIMEOUT, object::wait(&state, &principal, &named)).await {
            ended?;
        }
    }
    object::read(&state, &principal, &named, &record).await
}

/// A response that was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedResponse {
    id: String,
    #[schema(example = "response.deleted")]
    object: &'static str,
    deleted: bool,
}

/// Deletes a response: it cannot be read or continued any more. Its messages stay in the conversation.
#[utoipa::path(delete, path = "/openai/v1/responses/{responseId}", tag = "openai",
    params(("responseId" = String, Path)), responses(
    (status = 200, description = "Deleted", body = DeletedResponse),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Response not found", body = OpenAiError)))]
pub async fn delete(
    Caller(principal): Caller,
    State(state): State<ApiState>,
    InPath(id): InPath,
) -> Result<Answer<DeletedResponse>, Problem> {
    let Found { id: named, record, .. } = record::find(&state, &principal, &id).await?;
    or_gone(&named, record.hide(&state, &principal, &named).await)?;
    Ok(Answer(DeletedResponse { id, object: "response.deleted", deleted: true }))
}

/// Lists the items of the input of a response: those that its request brought.
#[utoipa::path(get, path = "/openai/v1/responses/{responseId}/input_items", tag = "openai",
    params(("responseId" = String, Path), ListParams), responses(
    (status = 200, description = "The items", body = ListView),
    (status = 400, description = "Invalid request", body = OpenAiError),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Response not found", body = OpenAiError)))]
pub async fn input_items(
    Caller(principal): Caller,
    State(state): State<ApiState>,
    InPath(id): InPath,
    uri: Uri,
) -> Result<Response, Problem> {
    let (state, principal, params) = (&state, &principal, &ListParams::read(&uri)?);
    let Found { id, run, .. } = &record::find(state, principal, &id).await?;
    let make = async || {
        let epoch = state.service.threads.get(principal, &id.thread).await?.epoch;
        let first = state.service.events.first_of(principal, &id.thread, run, epoch).await?;
        let page = || {
            let page = ListView::page(brought(first.as_deref()).into_iter(), params)?;
            Ok(serde_json::to_vec(&page).unwrap_or_default())
        };
        state.service.queue.process(principal, first.as_ref().map_or(0, String::len), page).await?
    };
    or_gone(id, state.http.responses.json(principal, make).await)
}

/// Items that a run brought, by their messages: RUN_STARTED has them.
fn brought(first: Option<&str>) -> Vec<Vec<String>> {
    let input = first.and_then(|event| text::member(event, "input")).unwrap_or("null");
    let list = |name: &str| -> Vec<Box<serde_json::value::RawValue>> {
        text::member(input, name).and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
    };
    let mut groups: Vec<_> = list("messages").iter().map(|message| items(message.get())).collect();
    groups.extend(list("resume").iter().filter_map(|entry| approval(entry.get())).map(|item| vec![item]));
    groups
}

/// Answer to a request for an approval.
fn approval(entry: &str) -> Option<String> {
    let entry: Value = serde_json::from_str(entry).ok()?;
    let (interrupt, approve) = (entry["interruptId"].as_str()?, entry["payload"]["approved"].as_bool()?);
    let mut item = json!({ "type": "mcp_approval_response", "id": format!("mcpa_{interrupt}"),
        "approval_request_id": format!("mcpr_{interrupt}"), "approve": approve });
    if let Some(reason) = entry["payload"]["reason"].as_str() {
        item["reason"] = reason.into();
    }
    Some(item.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_items_of_an_input_are_messages_and_answers() {
        let started = json!({ "type": "RUN_STARTED", "input": {
            "messages": [{ "id": "u", "role": "user", "content": "hi" }],
            "resume": [{ "interruptId": "i", "status": "resolved", "payload": { "approved": true, "reason": "fine" } }, { "interruptId": "j", "status": "cancelled" }],
        } });
        let groups = brought(Some(&started.to_string()));
        let ids: Vec<_> = groups.iter().flatten().filter_map(|item| text::string_member(item, "id")).collect();
        assert_eq!(ids, ["msg_u", "mcpa_i"]);
        assert_eq!(text::string_member(&groups[1][0], "approval_request_id").as_deref(), Some("mcpr_i"));
        assert!(brought(None).is_empty() && brought(Some("{}")).is_empty());
    }
}

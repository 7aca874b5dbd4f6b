//! Items of a conversation: parts of its messages.

use std::{collections::HashSet, sync::Arc};

use axum::{
    Json as Answer,
    extract::{Request as HttpRequest, State},
    http::Uri,
    response::Response,
};
use serde_json::{Value, value::RawValue};
use threadline_core::{
    Principal, RunId, ThreadId, Version, json as text,
    limits::MAX_OPENAI_ITEMS,
    projection::{
        conversation::{Conversation, Draft, Message},
        response::{Input, ItemId, items},
    },
};
use threadline_engine::{Condition, Projected, ProjectionError, Save, SaveError, ServiceError};
use threadline_http::{
    extract::{Caller, InConversationItem, InPath},
    idempotency::IdempotencyKey,
    problem::{Problem, ProblemType},
};

use super::{
    conversations::{ConversationView, thread_of, view},
    errors::{OpenAiError, invalid, locked},
    ids::{ResponseId, conversation, no_conversation},
    list::ListView,
    parameters::{IncludeParams, ListParams},
    record::note_removed,
    request::said,
    retries::Identity,
};
use crate::api::ApiState;

/// Beginning of the ids of runs that only change the items of a conversation.
pub const ITEMS_RUN: &str = "conversation-";
/// Number of attempts at a removal while others change the conversation. Then the client must retry.
const REMOVALS: usize = 8;

/// Messages that a request adds.
pub struct Added {
    pub messages: Vec<Draft>,
    /// The items as they are stored.
    pub items: Vec<String>,
}

impl Added {
    /// Reads the items of a request, and gives the messages without an id one that derives from the run.
    pub fn read(list: &str, run: &RunId) -> Result<Self, Problem> {
        let count =
            serde_json::from_str::<Vec<&RawValue>>(list).map_err(|_| invalid("items", "items is not a list"))?;
        if count.len() > MAX_OPENAI_ITEMS {
            let detail = format!("items has {} items: send at most {MAX_OPENAI_ITEMS} at once", count.len());
            return Err(invalid("items", detail));
        }
        let Input { messages, resume, .. } = said(list, "items", run)?;
        if !resume.is_empty() {
            return Err(invalid("items", "an approval is given in the input of a response, not as an item"));
        }
        let json = Value::from(messages);
        let messages = Draft::list(&json.to_string()).map_err(ServiceError::from)?;
        let items = messages.iter().flat_map(|message| items(message.text())).collect();
        Ok(Self { messages, items })
    }
}

/// Id of the run that brings the items of a request.
pub fn run_of(identity: &Identity) -> Result<RunId, Problem> {
    RunId::new(format!("{ITEMS_RUN}items-{}", identity.run.as_str()))
        .map_err(|error| Problem::invalid(error.to_string()))
}

/// Refusal of a change. If a run is active, the refusal names the response that is in progress.
pub fn refused(error: SaveError, thread: &ThreadId) -> Problem {
    let active = match &error {
        SaveError::RunActive(active) => Some(ResponseId::new(thread, &active.run.id).to_string()),
        _ => None,
    };
    let problem = Problem::from(error);
    match active {
        Some(id) => locked(problem, &id),
        None => problem,
    }
}

fn json_of(message: &Message) -> String {
    let mut json = Vec::new();
    message.write_json(&mut json);
    String::from_utf8(json).unwrap_or_default()
}

fn items_of(conversation: &Conversation) -> impl DoubleEndedIterator<Item = Vec<String>> {
    let messages: Vec<&Message> = conversation.messages().collect();
    messages.into_iter().map(|message| items(&json_of(message)))
}

/// Reads a part of the conversation as it is now.
async fn read<T>(
    state: &ApiState,
    principal: &Principal,
    id: &str,
    make: impl FnOnce(&Projected) -> T,
) -> Result<T, Problem> {
    match state.service.projections.read(principal, &conversation(id)?, None, None, make).await {
        Err(ProjectionError::ThreadNotFound) => Err(no_conversation(id)),
        made => Ok(made?),
    }
}

/// Lists the items of a conversation: its messages, tool calls, results and reasoning.
#[utoipa::path(get, path = "/openai/v1/conversations/{conversationId}/items", tag = "openai",
    params(("conversationId" = String, Path), ListParams), responses(
    (status = 200, description = "The items", body = ListView),
    (status = 400, description = "Invalid request", body = OpenAiError),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Conversation not found", body = OpenAiError),
    (status = 422, description = "Conversation too large", body = OpenAiError)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InPath(id): InPath,
    uri: Uri,
) -> Result<Response, Problem> {
    let params = &ListParams::read(&uri)?;
    let (state, principal, id) = (&state, &principal, &id);
    let make = async || {
        let page = read(state, principal, id, |projected| ListView::page(items_of(&projected.conversation), params));
        Ok(serde_json::to_vec(&page.await??).unwrap_or_default())
    };
    state.http.responses.json(principal, make).await
}

/// Reads an item of a conversation.
#[utoipa::path(get, path = "/openai/v1/conversations/{conversationId}/items/{itemId}", tag = "openai",
    params(("conversationId" = String, Path), ("itemId" = String, Path), IncludeParams), responses(
    (status = 200, description = "The item", body = serde_json::Value),
    (status = 400, description = "Invalid request", body = OpenAiError),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Conversation or item not found", body = OpenAiError),
    (status = 422, description = "Conversation too large", body = OpenAiError)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InConversationItem(id, item): InConversationItem,
    uri: Uri,
) -> Result<Response, Problem> {
    IncludeParams::check(&uri)?;
    let (state, principal, id, item) = (&state, &principal, &id, &item);
    let make = async || {
        let found = read(state, principal, id, |projected| {
            let mut all = items_of(&projected.conversation).flatten();
            all.find(|found| text::string_member(found, "id").as_ref() == Some(item))
        });
        Ok(found.await?.ok_or_else(|| no_item(item))?.into_bytes())
    };
    state.http.responses.json(principal, make).await
}

fn no_item(item: &str) -> Problem {
    let shown = &item[..item.floor_char_boundary(128)];
    Problem::new(ProblemType::MessageNotFound, format!("the conversation has no item with the id {shown:?}"))
}

/// A request to add items.
#[derive(Debug, Default, serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AddBody {
    /// 1 to 20 items.
    #[schema(value_type = Vec<Object>, required, example = json!([{ "role": "user", "content": "Hello" }]))]
    items: Option<Box<RawValue>>,
}

/// Adds items to a conversation, at its end. Refused while a response is in progress.
#[utoipa::path(post, path = "/openai/v1/conversations/{conversationId}/items", tag = "openai",
    params(("conversationId" = String, Path), IncludeParams, IdempotencyKey), request_body = AddBody, responses(
    (status = 200, description = "The items as they are stored", body = ListView),
    (status = 400, description = "Invalid request", body = OpenAiError),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Conversation not found", body = OpenAiError),
    (status = 409, description = "A response is in progress, or a message has the id of an earlier one", body = OpenAiError),
    (status = 413, description = "Request body too large", body = OpenAiError),
    (status = 415, description = "Unsupported media type", body = OpenAiError),
    (status = 422, description = "Invalid message, or conversation too large", body = OpenAiError),
    (status = 507, description = "Storage full", body = OpenAiError)))]
pub async fn add(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InPath(id): InPath,
    key: IdempotencyKey,
    http: HttpRequest,
) -> Result<Answer<ListView>, Problem> {
    IncludeParams::check(http.uri())?;
    let thread = conversation(&id)?;
    let (headers, path) = (http.headers().clone(), http.uri().path().to_owned());
    let (body, _room): (AddBody, _) = state.read_values(&principal, http).await?;
    let list = body.items.ok_or_else(|| invalid("items", "items is missing: a list of items"))?;
    let identity = Identity::of(&state, &principal, &key, &headers, (&path, list.get().as_bytes())).await?;
    let run = run_of(&identity)?;
    let read = || Added::read(list.get(), &run);
    let Added { messages, items } = state.service.queue.process(&principal, list.get().len(), read).await??;
    if messages.is_empty() {
        return Err(invalid("items", "items has no item to add"));
    }
    append(&state, &principal, (&id, &thread), &run, &messages).await?;
    Ok(Answer(ListView::all(items)))
}

async fn append(
    state: &ApiState,
    principal: &Principal,
    (id, thread): (&str, &ThreadId),
    run: &RunId,
    messages: &[Draft],
) -> Result<(), Problem> {
    match state.service.conversations.append(principal, thread, run, messages).await {
        Err(SaveError::ThreadNotFound) => Err(no_conversation(id)),
        appended => appended.map_err(|error| refused(error, thread)),
    }
}

/// Removes an item from a conversation. The log keeps the item, but agents and readers no longer see it. Refused while a response is in
/// progress.
#[utoipa::path(delete, path = "/openai/v1/conversations/{conversationId}/items/{itemId}", tag = "openai",
    params(("conversationId" = String, Path), ("itemId" = String, Path)), responses(
    (status = 200, description = "The conversation", body = ConversationView),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Conversation or item not found", body = OpenAiError),
    (status = 409, description = "A response is in progress", body = OpenAiError),
    (status = 422, description = "Conversation too large", body = OpenAiError)))]
pub async fn remove(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InConversationItem(id, item): InConversationItem,
) -> Result<Answer<ConversationView>, Problem> {
    let thread = conversation(&id)?;
    for _ in 0..REMOVALS {
        let found = thread_of(&state, &principal, &id).await?;
        if let Some(active) = &found.active_run {
            let active = ResponseId::new(&thread, &active.id).to_string();
            return Err(locked(Problem::new(ProblemType::RunActive, ""), &active));
        }
        if remove_once(&state, &principal, &thread, &item).await? {
            return Ok(Answer(view(&state, &principal, &found).await?));
        }
    }
    let detail = "the conversation is changing too fast: remove the item again";
    Err(Problem::new(ProblemType::Busy, detail).retry_after(1_000))
}

/// Removes an item; false if the conversation has changed meanwhile.
async fn remove_once(state: &ApiState, principal: &Principal, thread: &ThreadId, item: &str) -> Result<bool, Problem> {
    let removed = HashSet::from([item.to_owned()]);
    let Some(save) = without(state, principal, thread, &removed).await? else { return Err(no_item(item)) };
    note_removed(state, principal, thread, item).await?;
    match state.service.conversations.save(principal, thread, save).await {
        Ok(_) => Ok(true),
        Err(SaveError::ConversationChanged { .. } | SaveError::ConversationDiverged { .. }) => Ok(false),
        Err(error) => Err(refused(error, thread)),
    }
}

/// Save that replaces the messages of a conversation by those without these items; `None` if the conversation has none of the items.
pub async fn without(
    state: &ApiState,
    principal: &Principal,
    thread: &ThreadId,
    removed: &HashSet<String>,
) -> Result<Option<Save>, Problem> {
    let service = &state.service;
    let Projected { epoch, seq, conversation } = service.projections.at(principal, thread, None, None).await?;
    let bytes = conversation.bytes();
    let mut room = service.projections.room(principal, bytes * 2).await?;
    let rest = || rest_of(&conversation, removed).map(|rest| Draft::list(&rest)).transpose();
    let messages = service.queue.process(principal, bytes, rest).await?.map_err(ServiceError::from)?;
    drop(conversation);
    let Some(messages) = messages else { return Ok(None) };
    room.shrink(messages.iter().map(Draft::weight).sum());
    let condition = Condition::Version(vec![Version { epoch, seq }]);
    Ok(Some(Save { messages, metadata: None, agent: None, condition, room: Arc::new(room) }))
}

/// Messages of a conversation without these items, as a JSON array; `None` if it has none of them.
fn rest_of(conversation: &Conversation, removed: &HashSet<String>) -> Option<String> {
    let (mut list, mut found) = (Vec::new(), false);
    for message in conversation.messages() {
        let json = json_of(message);
        let ids = items(&json).into_iter().filter_map(|item| text::string_member(&item, "id"));
        let gone: Vec<String> = ids.filter(|id| removed.contains(id)).collect();
        found |= !gone.is_empty();
        let rest = gone.iter().try_fold(json, |message, item| without_item(&message, item));
        list.extend(rest);
    }
    found.then(|| format!("[{}]", list.join(",")))
}

/// The message without an item; `None` if nothing of the message is left.
fn without_item(message: &str, item: &str) -> Option<String> {
    let mut message: Value = serde_json::from_str(message).ok()?;
    let has_calls = |message: &Value| message["toolCalls"].as_array().is_some_and(|calls| !calls.is_empty());
    match ItemId::read(item)? {
        ItemId::Message(_) if has_calls(&message) => {
            message.as_object_mut()?.remove("content");
        }
        ItemId::Call(call) => {
            message["toolCalls"].as_array_mut()?.retain(|one| one["id"] != call);
            if !has_calls(&message) {
                message.as_object_mut()?.remove("toolCalls");
                if message["content"].as_str().is_none_or(str::is_empty) {
                    return None;
                }
            }
        }
        _ => return None,
    }
    Some(message.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_message_only_the_item_goes() {
        let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "pay", "arguments": "{}" } });
        let message = |content: Value, calls: &[&str]| {
            let calls: Vec<Value> = calls.iter().map(|id| call(id)).collect();
            json!({ "id": "m", "role": "assistant", "content": content, "toolCalls": calls }).to_string()
        };
        let rest = |message: &str, item: &str| {
            without_item(message, item).map(|rest| serde_json::from_str::<Value>(&rest).expect("JSON"))
        };
        let both = message(json!("hi"), &["c", "d"]);
        assert_eq!(
            rest(&both, "msg_m"),
            Some(json!({ "id": "m", "role": "assistant", "toolCalls": [call("c"), call("d")] }))
        );
        assert_eq!(rest(&both, "fc_c").expect("a rest")["toolCalls"], json!([call("d")]));
        assert_eq!(
            rest(&message(json!("hi"), &["c"]), "fc_c"),
            Some(json!({ "id": "m", "role": "assistant", "content": "hi" }))
        );
        assert_eq!(rest(&message(json!(""), &["c"]), "fc_c"), None);
        assert_eq!(rest(&json!({ "id": "m", "role": "user", "content": "hi" }).to_string(), "msg_m"), None);
    }
}

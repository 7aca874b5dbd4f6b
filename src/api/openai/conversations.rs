//! Conversations, which are threads, and their metadata.

use axum::{
    Json as Answer,
    extract::{Request as HttpRequest, State},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{Principal, Thread, ThreadId, projection::response::Echo};
use threadline_engine::{CreateThread, DeleteThreadError, LookupError};
use threadline_http::{
    extract::{Caller, InPath},
    idempotency::IdempotencyKey,
    problem::Problem,
};
use utoipa::ToSchema;

use super::{
    errors::{OpenAiError, invalid},
    ids::{conversation, conversation_id, no_conversation},
    items::{Added, refused, run_of},
    record::{metadata_of, set_metadata},
    retries::Identity,
};
use crate::api::ApiState;

/// Path of creations: a repeated request has the same path and body.
const PATH: &str = "/openai/v1/conversations";

/// A conversation, as OpenAI's API has it.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConversationView {
    #[schema(example = "conv_t")]
    id: String,
    #[schema(example = "conversation")]
    object: &'static str,
    /// Time of creation, in seconds since 1970.
    created_at: i64,
    /// Up to 16 pairs of strings.
    #[schema(value_type = Object)]
    metadata: Box<RawValue>,
}

impl ConversationView {
    fn new(thread: &Thread, metadata: Box<RawValue>) -> Self {
        let created_at = thread.created_at.0.div_euclid(1_000);
        Self { id: conversation_id(&thread.id), object: "conversation", created_at, metadata }
    }
}

/// Conversation that a thread is.
pub async fn view(state: &ApiState, principal: &Principal, thread: &Thread) -> Result<ConversationView, Problem> {
    Ok(ConversationView::new(thread, metadata_of(state, principal, &thread.id).await?))
}

/// Thread that a conversation is; the refusal of the API if there is none.
pub async fn thread_of(state: &ApiState, principal: &Principal, id: &str) -> Result<Thread, Problem> {
    match state.service.threads.get(principal, &conversation(id)?).await {
        Err(LookupError::ThreadNotFound) => Err(no_conversation(id)),
        thread => Ok(thread?),
    }
}

/// A request to create a conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = OpenAiConversationBody)]
#[serde(deny_unknown_fields, default)]
pub struct CreateBody {
    /// Up to 20 items.
    #[schema(value_type = Option<Vec<Object>>)]
    items: Option<Box<RawValue>>,
    /// Up to 16 pairs: names of up to 64, values of up to 512 characters.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
}

/// A request to change a conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateBody {
    /// Up to 16 pairs, which replace all others.
    #[schema(value_type = Option<Object>, required, example = json!({ "topic": "tea" }))]
    metadata: Option<Box<RawValue>>,
}

/// Metadata of a request, checked; `None` for null.
fn checked(metadata: Option<Box<RawValue>>) -> Result<Option<Box<RawValue>>, Problem> {
    let Some(metadata) = metadata else { return Ok(None) };
    let whole = format!("{{\"metadata\":{}}}", metadata.get());
    Echo::read(&whole).map_err(|misfit| invalid("metadata", misfit.to_string()))?;
    Ok(Some(metadata))
}

/// Creates a conversation, with its first items if the request has any.
#[utoipa::path(post, path = "/openai/v1/conversations", tag = "openai", params(IdempotencyKey), request_body = CreateBody, responses(
    (status = 200, description = "The conversation", body = ConversationView),
    (status = 400, description = "Invalid request", body = OpenAiError),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 413, description = "Request body too large", body = OpenAiError),
    (status = 415, description = "Unsupported media type", body = OpenAiError),
    (status = 422, description = "Invalid message", body = OpenAiError),
    (status = 410, description = "The conversation that an earlier request with the same Idempotency-Key created was deleted",
        body = OpenAiError),
    (status = 507, description = "Storage full", body = OpenAiError)))]
pub async fn create(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    key: IdempotencyKey,
    http: HttpRequest,
) -> Result<Answer<ConversationView>, Problem> {
    let headers = http.headers().clone();
    let (body, _room): (Box<RawValue>, _) = state.read_values(&principal, http).await?;
    let parse = || serde_json::from_str::<CreateBody>(if body.get() == "null" { "{}" } else { body.get() });
    let parsed = state.service.queue.process(&principal, body.get().len(), parse).await?;
    let CreateBody { items, metadata } = parsed.map_err(|error| Problem::invalid(format!("invalid body: {error}")))?;
    let metadata = checked(metadata)?;
    let identity = Identity::of(&state, &principal, &key, &headers, (PATH, body.get().as_bytes())).await?;
    let run = run_of(&identity)?;
    let read = || items.as_deref().map(|items| Added::read(items.get(), &run)).transpose();
    let added = state.service.queue.process(&principal, body.get().len(), read).await??;
    let messages = added.map(|added| added.messages).unwrap_or_default();
    // Refused before the conversation exists.
    state.service.conversations.may_append(&principal, &messages)?;
    let create = CreateThread { id: Some(identity.thread), request: key.0, ..CreateThread::default() };
    let thread = state.service.threads.create(&principal, create).await?.thread;
    if !messages.is_empty() {
        let appended = state.service.conversations.append(&principal, &thread.id, &run, &messages).await;
        appended.map_err(|error| refused(error, &thread.id))?;
    }
    if let Some(metadata) = &metadata {
        set_metadata(&state, &principal, &thread.id, metadata).await?;
    }
    Ok(Answer(view(&state, &principal, &thread).await?))
}

/// Reads a conversation, without its items.
#[utoipa::path(get, path = "/openai/v1/conversations/{conversationId}", tag = "openai",
    params(("conversationId" = String, Path)), responses(
    (status = 200, description = "The conversation", body = ConversationView),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Conversation not found", body = OpenAiError)))]
pub async fn get(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InPath(id): InPath,
) -> Result<Answer<ConversationView>, Problem> {
    let thread = thread_of(&state, &principal, &id).await?;
    Ok(Answer(view(&state, &principal, &thread).await?))
}

/// Replaces the metadata of a conversation.
#[utoipa::path(post, path = "/openai/v1/conversations/{conversationId}", tag = "openai",
    params(("conversationId" = String, Path)), request_body = UpdateBody, responses(
    (status = 200, description = "The conversation", body = ConversationView),
    (status = 400, description = "Invalid request", body = OpenAiError),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Conversation not found", body = OpenAiError),
    (status = 413, description = "Request body too large", body = OpenAiError),
    (status = 415, description = "Unsupported media type", body = OpenAiError),
    (status = 507, description = "Storage full", body = OpenAiError)))]
pub async fn update(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InPath(id): InPath,
    http: HttpRequest,
) -> Result<Answer<ConversationView>, Problem> {
    let (body, _room): (UpdateBody, _) = state.read_values(&principal, http).await?;
    let thread = thread_of(&state, &principal, &id).await?;
    let metadata = checked(body.metadata)?;
    let metadata = metadata.ok_or_else(|| invalid("metadata", "metadata is missing: an object of strings"))?;
    set_metadata(&state, &principal, &thread.id, &metadata).await?;
    Ok(Answer(ConversationView::new(&thread, metadata)))
}

/// A conversation that was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedConversation {
    id: String,
    #[schema(example = "conversation.deleted")]
    object: &'static str,
    deleted: bool,
}

/// Deletes a conversation with all of its items and responses.
#[utoipa::path(delete, path = "/openai/v1/conversations/{conversationId}", tag = "openai",
    params(("conversationId" = String, Path)), responses(
    (status = 200, description = "Deleted", body = DeletedConversation),
    (status = 401, description = "Authentication required", body = OpenAiError),
    (status = 404, description = "Conversation not found", body = OpenAiError)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InPath(id): InPath,
) -> Result<Answer<DeletedConversation>, Problem> {
    let thread: ThreadId = conversation(&id)?;
    match state.service.threads.delete(&principal, &thread).await {
        Err(DeleteThreadError::ThreadNotFound) => return Err(no_conversation(&id)),
        deleted => deleted?,
    }
    Ok(Answer(DeletedConversation { id, object: "conversation.deleted", deleted: true }))
}

//! API of conversations as documents: the complete list of messages under a name.

use std::{io::Write, sync::Arc};

use axum::{
    Json as Answer,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use threadline_core::{
    AgentId, Epoch, Seq, ThreadId, Version,
    json::{self, quoted},
    limits::{MAX_DOCUMENT_BYTES, MAX_METADATA_BYTES, MAX_REQUEST_BYTES},
    projection::conversation::Draft,
};
use threadline_engine::{Condition, Outcome, Projected, Save, Saved, ServiceError, ThreadAt};
use threadline_http::{
    etag::{Tags, etag, tags},
    extract::{Caller, InThread, Params, parse_json},
    precondition::Precondition,
    problem::{Problem, ProblemDocument},
    routes::{Access, Routes},
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::ApiState;

/// Adds the routes of this API.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes.route(Access::READ, routes!(read)).route(Access::READ, routes!(save)).route(Access::CHAT, routes!(delete))
}

/// The version that a strong entity tag names. A tag that Threadline never issued names a version that does not exist.
fn version(tag: &str) -> Version {
    let named = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).and_then(|tag| tag.rsplit_once('-'));
    let named = named.and_then(|(epoch, seq)| {
        let version = Version { epoch: Epoch::named(epoch), seq: seq.parse().ok()? };
        // One version has one tag: another spelling of its number is not its tag.
        (etag(version) == tag).then_some(version)
    });
    named.unwrap_or(Version { epoch: Epoch::named(""), seq: 0 })
}

fn condition(headers: &HeaderMap) -> Result<Condition, Problem> {
    match (tags(headers, &header::IF_MATCH)?, tags(headers, &header::IF_NONE_MATCH)?) {
        (None, None) => Ok(Condition::None),
        (Some(Tags::Any), None) => Ok(Condition::Exists),
        (Some(Tags::These(tags)), None) => Ok(Condition::Version(tags.iter().map(|tag| version(tag)).collect())),
        (None, Some(Tags::Any)) => Ok(Condition::Absent),
        (None, Some(Tags::These(_))) => Err(Problem::invalid("the only If-None-Match that a save supports is *")),
        (Some(_), Some(_)) => Err(Problem::invalid("If-Match and If-None-Match exclude each other")),
    }
}

/// Version of a conversation that a request reads.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ConversationParams {
    /// The state after the event with this seq. Default: the current state.
    at: Option<Seq>,
    /// The incarnation of the log that `at` belongs to.
    epoch: Option<String>,
}

/// Reads a conversation: all of its messages, as AG-UI has them.
///
/// `ETag` is its version, which changes with every event of the thread. With `If-None-Match` the response is 304 if
/// the version is the same.
#[utoipa::path(get, path = "/v1/conversations/{name}", tag = "conversations",
    params(("name" = String, Path), ConversationParams), responses(
    (status = 200, description = "The conversation", body = serde_json::Value, example = json!({
        "name": "demo", "epoch": "0123456789abcdef", "seq": 2,
        "messages": [{ "id": "m1", "role": "user", "content": "Hello" }]
    })),
    (status = 304, description = "Not modified: If-None-Match names the stored version"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Conversation not found", body = ProblemDocument),
    (status = 410, description = "`at` belongs to a log that was replaced", body = ProblemDocument),
    (status = 416, description = "`at` is beyond the end of the log", body = ProblemDocument),
    (status = 422, description = "Conversation too large", body = ProblemDocument),
    (status = 503, description = "Server at capacity, or store unavailable", body = ProblemDocument)))]
pub async fn read(
    State(state): State<ApiState>,
    caller: Caller,
    InThread(name): InThread,
    Params(params): Params<ConversationParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let epoch = params.epoch.as_deref().map(Epoch::named);
    if let (Some(known), None) = (tags(&headers, &header::IF_NONE_MATCH)?, params.at) {
        let now = etag(state.service.conversations.version(&caller.0, &name).await?);
        if known.have(&now) {
            return Ok(tagged(StatusCode::NOT_MODIFIED.into_response(), &now));
        }
    }
    let make = || async {
        let document = |projected: &Projected| {
            let version = Version { epoch: projected.epoch, seq: projected.seq };
            let mut document = Vec::new();
            let quoted = quoted(name.as_str());
            // Writing to a vector cannot fail.
            let _ = write!(document, "{{\"name\":{quoted},\"epoch\":\"{}\",\"seq\":{}", version.epoch, version.seq);
            document.extend_from_slice(b",\"messages\":");
            document.extend_from_slice(&projected.conversation.messages_json());
            document.push(b'}');
            (document, version)
        };
        Ok(state.service.projections.read(&caller.0, &name, params.at, epoch, document).await?)
    };
    let (document, version) = state.http.responses.chunk(&caller.0, make).await?;
    let response = ([(header::CONTENT_TYPE, "application/json")], document).into_response();
    Ok(tagged(response, &etag(version)))
}

/// A request to save a conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SaveBody {
    /// All messages of the conversation, as AG-UI defines them. A message without an `id` gets one.
    #[schema(value_type = Vec<Object>, required, example = json!([{ "role": "user", "content": "Hello" }]))]
    messages: Option<Box<RawValue>>,
    /// Changes of the thread's metadata, a merge patch (RFC 7396).
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
    /// The agent of a new thread, and of the appended run.
    #[schema(value_type = Option<String>)]
    agent_id: Option<AgentId>,
}

/// The result of a save.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedView {
    #[schema(value_type = String)]
    name: ThreadId,
    epoch: String,
    /// The version that has exactly these messages; with the epoch it is the ETag.
    seq: Seq,
    /// `appended`; `unchanged`: the list was stored already; `repeated`: the list was saved before, and others have
    /// appended since; `replaced`.
    outcome: &'static str,
    /// The number of messages appended to the log.
    appended: usize,
}

impl SavedView {
    fn new(name: ThreadId, saved: &Saved) -> Self {
        let outcome = match saved.outcome {
            Outcome::Appended => "appended",
            Outcome::Unchanged => "unchanged",
            Outcome::Repeated => "repeated",
            Outcome::Replaced => "replaced",
        };
        let Version { epoch, seq } = saved.version;
        Self { name, epoch: epoch.to_string(), seq, outcome, appended: saved.appended }
    }
}

/// Saves a conversation: the complete list, whose new messages are appended. Waits up to 10 s while a run is active.
///
/// A list that omits stored messages, or has others in their place, is rejected, unless `If-Match` names the stored
/// version: then the list replaces it. `If-None-Match: *` saves only a conversation that does not exist. A list that
/// is stored already is never rejected, so a save may be retried.
#[utoipa::path(put, path = "/v1/conversations/{name}", tag = "conversations", params(("name" = String, Path)),
    request_body = SaveBody, responses(
    (status = 201, description = "Saved, and thread created", body = SavedView),
    (status = 200, description = "Saved, or stored before", body = SavedView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 409, description = "Conversation diverged, active run conflict, or name already in use",
        body = ProblemDocument),
    (status = 412, description = "Conversation version mismatch", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 422, description = "Invalid message, or conversation too large", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn save(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(name): InThread,
    request: Request,
) -> Result<Response, Problem> {
    let condition = condition(request.headers())?;
    let body = state.http.body(request, MAX_DOCUMENT_BYTES).await?;
    let SaveBody { messages, metadata, agent_id } = parse_json(&body)?;
    let messages = messages
        .ok_or_else(|| Problem::invalid("messages is missing: send all messages of the conversation, or []"))?;
    let metadata = metadata.as_deref().map(merge_patch).transpose()?;
    // A large list, its trees and its digests take memory and time.
    let service = &state.service;
    let mut room = service.projections.room(&principal, body.len() + json::weight(messages.get().as_bytes())).await?;
    let read = || Draft::list(messages.get());
    let drafts = service.queue.process(&principal, body.len(), read).await?.map_err(ServiceError::from)?;
    drop((messages, body));
    room.shrink(drafts.iter().map(Draft::weight).sum());
    let save = Save { messages: drafts, metadata, agent: agent_id, condition, room: Arc::new(room) };
    let saved = state.service.conversations.save(&principal, &name, save).await?;
    let status = if saved.created { StatusCode::CREATED } else { StatusCode::OK };
    let response = (status, Answer(SavedView::new(name, &saved))).into_response();
    Ok(tagged(response, &etag(saved.version)))
}

/// Reads a merge patch of metadata. One that is larger than the body of every other request is refused unread.
fn merge_patch(patch: &RawValue) -> Result<Map<String, Value>, Problem> {
    let text = patch.get();
    if text.len() > MAX_REQUEST_BYTES {
        return Err(Problem::invalid(format!("metadata exceeds {MAX_METADATA_BYTES} bytes of JSON")));
    }
    serde_json::from_str(text).map_err(|error| Problem::invalid(format!("invalid metadata: {error}")))
}

/// Deletes a conversation, its thread and all of its log permanently. A retry by its user gets the same response.
///
/// `If-Match` is here the epoch of the log, not a version: a conversation that was created under this name since is not
/// deleted.
#[utoipa::path(delete, path = "/v1/conversations/{name}", tag = "conversations",
    params(("name" = String, Path), Precondition), responses(
    (status = 204, description = "Deleted"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Conversation not found", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(name): InThread,
    Precondition(epoch): Precondition,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    if headers.contains_key(header::IF_NONE_MATCH) {
        // Refused, since a delete could remove the version that the condition was to protect.
        return Err(Problem::invalid("a delete does not support If-None-Match"));
    }
    state.service.threads.delete(&principal, ThreadAt { id: &name, epoch }).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn tagged(mut response: Response, etag: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn of(lines: &[(HeaderName, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn conditions_are_read_as_http_has_them() {
        use header::{IF_MATCH, IF_NONE_MATCH};
        let now = Version { epoch: Epoch::named("0123456789abcdef"), seq: 7 };
        assert_eq!(etag(now), "\"0123456789abcdef-7\"");
        assert_eq!(version(&etag(now)), now);
        assert_eq!(condition(&of(&[])).ok(), Some(Condition::None));
        assert_eq!(condition(&of(&[(IF_MATCH, "*")])).ok(), Some(Condition::Exists));
        assert_eq!(condition(&of(&[(IF_NONE_MATCH, " * ")])).ok(), Some(Condition::Absent));
        let none = version("\"other\"");
        for (tags, want) in [
            ("\"0123456789abcdef-7\"", vec![now]),
            ("\"other\", \"0123456789abcdef-7\" ", vec![none, now]),
            // Weak tags match nothing here, nor does any other spelling of a tag.
            ("W/\"0123456789abcdef-7\"", vec![none]),
            ("\"0123456789ABCDEF-7\",\"0123456789abcdef-07\",\"0123456789abcdef-+7\"", vec![none; 3]),
        ] {
            assert_eq!(condition(&of(&[(IF_MATCH, tags)])).ok(), Some(Condition::Version(want)), "{tags}");
        }
        let lines = [(IF_MATCH, "\"a\""), (IF_MATCH, "\"0123456789abcdef-7\"")];
        assert_eq!(condition(&of(&lines)).ok(), Some(Condition::Version(vec![none, now])));
        for bad in [
            &[(IF_MATCH, "")][..],
            &[(IF_MATCH, "7")],
            &[(IF_MATCH, "*, \"a\"")],
            &[(IF_MATCH, "\"")],
            &[(IF_NONE_MATCH, "\"a\"")],
            &[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")],
        ] {
            assert!(condition(&of(bad)).is_err(), "{bad:?}");
        }
    }
}

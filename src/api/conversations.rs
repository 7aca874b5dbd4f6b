//! The door of conversations as documents: the whole list of messages under a name.

use std::{io::Write, ops::ControlFlow};

use axum::{
    Json as Answer,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::{
    ApiState,
    doors::{Access, Doors},
    extract::{Caller, InThread, Params, parse_json},
    problem::{Problem, ProblemDocument},
};
use crate::{
    domain::{
        AgentId, Epoch, Seq, ThreadId,
        json::quoted,
        limits::{MAX_CONDITION_TAGS, MAX_DOCUMENT_BYTES},
    },
    projection::conversation::Draft,
    service::{Condition, Outcome, Save, Saved, ServiceError, Version},
};

/// Adds the routes of this door.
pub fn register(doors: Doors) -> Doors {
    doors.route(Access::READ, routes!(read)).route(Access::WRITE, routes!(save, delete))
}

/// A version as an entity tag, quotes and all.
pub fn etag(version: Version) -> String {
    format!("\"{}-{}\"", version.epoch, version.seq)
}

/// The version that a strong entity tag names; one that we have never given out names no version that there is.
fn version(tag: &str) -> Version {
    let named = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).and_then(|tag| tag.rsplit_once('-'));
    let named = named.and_then(|(epoch, seq)| {
        let version = Version { epoch: Epoch::named(epoch), seq: seq.parse().ok()? };
        // One version has one tag: no other way to write its number is it.
        (etag(version) == tag).then_some(version)
    });
    named.unwrap_or(Version { epoch: Epoch::named(""), seq: 0 })
}

/// What a condition's header names: all of its lines together.
#[derive(Debug, PartialEq, Eq)]
enum Tags {
    Any,
    These(Vec<String>),
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let mut tags = Vec::new();
    for line in headers.get_all(name) {
        let line = line.to_str().map_err(|_| Problem::invalid(format!("{name} is no list of entity tags")))?;
        tags.extend(line.split(',').map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned));
    }
    let is_tag = |tag: &String| {
        let tag = tag.strip_prefix("W/").unwrap_or(tag);
        tag.len() >= 2 && tag.starts_with('"') && tag.ends_with('"')
    };
    match tags.as_slice() {
        [] if headers.contains_key(name) => Err(Problem::invalid(format!("{name} is empty"))),
        [] => Ok(None),
        [any] if any == "*" => Ok(Some(Tags::Any)),
        some if some.len() > MAX_CONDITION_TAGS => {
            Err(Problem::invalid(format!("{name} names at most {MAX_CONDITION_TAGS} entity tags")))
        }
        some if some.iter().all(is_tag) => Ok(Some(Tags::These(tags))),
        _ => Err(Problem::invalid(format!("{name} is a list of entity tags, each in quotes, or *"))),
    }
}

fn condition(headers: &HeaderMap) -> Result<Condition, Problem> {
    match (tags(headers, &header::IF_MATCH)?, tags(headers, &header::IF_NONE_MATCH)?) {
        (None, None) => Ok(Condition::None),
        (Some(Tags::Any), None) => Ok(Condition::Exists),
        (Some(Tags::These(tags)), None) => Ok(Condition::Version(tags.iter().map(|tag| version(tag)).collect())),
        (None, Some(Tags::Any)) => Ok(Condition::Absent),
        (None, Some(Tags::These(_))) => Err(Problem::invalid("a save takes If-None-Match: * and no other")),
        (Some(_), Some(_)) => Err(Problem::invalid("If-Match and If-None-Match go without each other")),
    }
}

/// Which version of a conversation.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ConversationParams {
    /// As it was after this event. Default: as it is now.
    at: Option<Seq>,
    /// The incarnation of the log that `at` belongs to.
    epoch: Option<String>,
}

/// Reads a conversation: all of its messages, as AG-UI has them.
///
/// `ETag` is its version: every event of the thread makes another one. With `If-None-Match` the answer is 304 if it is that
/// version still.
#[utoipa::path(get, path = "/v1/conversations/{name}", tag = "conversations",
    params(("name" = String, Path), ConversationParams), responses(
    (status = 200, description = "The conversation", body = serde_json::Value, example = json!({
        "name": "demo", "epoch": "0123456789abcdef", "seq": 2,
        "messages": [{ "id": "m1", "role": "user", "content": "Hello" }]
    })),
    (status = 304, description = "It is the version that If-None-Match names"),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 404, description = "No such conversation", body = ProblemDocument),
    (status = 410, description = "`at` belongs to another log", body = ProblemDocument),
    (status = 416, description = "`at` is beyond the tail", body = ProblemDocument),
    (status = 422, description = "The conversation is too large", body = ProblemDocument),
    (status = 503, description = "No room for the answer, or no store", body = ProblemDocument)))]
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
        let is_known = match &known {
            Tags::Any => true,
            Tags::These(tags) => tags.iter().any(|tag| tag.strip_prefix("W/").unwrap_or(tag) == now),
        };
        if is_known {
            return Ok(tagged(StatusCode::NOT_MODIFIED.into_response(), &now));
        }
    }
    let mut answer = state.answers.to(&caller.0);
    loop {
        let projected = state.service.projections.at(&caller.0, &name, params.at, epoch).await?;
        let version = Version { epoch: projected.epoch, seq: projected.seq };
        let mut document = Vec::new();
        let quoted = quoted(name.as_str());
        // Writing to a vector cannot fail.
        let _ = write!(document, "{{\"name\":{quoted},\"epoch\":\"{}\",\"seq\":{}", version.epoch, version.seq);
        document.extend_from_slice(b",\"messages\":");
        document.extend_from_slice(&projected.conversation.messages_json());
        document.push(b'}');
        drop(projected);
        match answer.json(document).await? {
            ControlFlow::Break(response) => return Ok(tagged(response, &etag(version))),
            ControlFlow::Continue(again) => answer = again,
        }
    }
}

/// A conversation to be saved.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SaveBody {
    /// All of its messages, as AG-UI has them. One without an `id` gets one.
    #[schema(value_type = Vec<Object>, required, example = json!([{ "role": "user", "content": "Hello" }]))]
    messages: Option<Box<RawValue>>,
    /// Changes of the thread's metadata, a merge patch (RFC 7396).
    #[schema(value_type = Option<Object>)]
    metadata: Option<Map<String, Value>>,
    /// The agent that a new thread, and what is appended, are of.
    #[schema(value_type = Option<String>)]
    agent_id: Option<AgentId>,
}

/// What a save did.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedView {
    #[schema(value_type = String)]
    name: ThreadId,
    epoch: String,
    /// The version that has exactly these messages; with the epoch it is the ETag.
    seq: Seq,
    /// `appended`; `unchanged`: it was stored like this already; `repeated`: it was saved like this before, and others have
    /// appended since; `replaced`.
    outcome: &'static str,
    /// How many messages were put into the log.
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

/// Saves a conversation: the whole list, of which what is new is appended. Waits up to 10 s while a run is active.
///
/// A list that lacks stored messages, or has others in their place, is refused, unless `If-Match` names the version that is
/// stored: then it takes that one's place. `If-None-Match: *` saves only what is not there yet. A list that is stored
/// already is never refused, so a save may be sent again.
#[utoipa::path(put, path = "/v1/conversations/{name}", tag = "conversations", params(("name" = String, Path)),
    request_body = SaveBody, responses(
    (status = 201, description = "Saved, and its thread made", body = SavedView),
    (status = 200, description = "Saved, or stored before", body = SavedView),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 409, description = "The stored conversation is another one, a run is active, or the name is taken",
        body = ProblemDocument),
    (status = 412, description = "The conversation has another version", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument),
    (status = 422, description = "A message cannot be stored, or the conversation is too large", body = ProblemDocument)))]
pub async fn save(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(name): InThread,
    request: Request,
) -> Result<Response, Problem> {
    let condition = condition(request.headers())?;
    let body = state.bodies.read(request, MAX_DOCUMENT_BYTES).await?;
    let SaveBody { messages, metadata, agent_id } = parse_json(&body)?;
    let messages = messages.ok_or_else(|| Problem::invalid("messages is missing: all of the conversation's, or []"))?;
    // It may be large, and its digests take their time.
    let drafts = tokio::task::spawn_blocking(move || Draft::list(messages.get())).await;
    let drafts = drafts.map_err(|error| {
        tracing::error!(%error, "a conversation could not be read");
        Problem::new(super::problem::ProblemType::Internal, "the server's log says more")
    })?;
    let messages = drafts.map_err(ServiceError::from)?;
    let save = Save { messages, metadata, agent: agent_id, condition };
    let saved = state.service.conversations.save(&principal, &name, save).await?;
    let status = if saved.created { StatusCode::CREATED } else { StatusCode::OK };
    let response = (status, Answer(SavedView::new(name, &saved))).into_response();
    Ok(tagged(response, &etag(saved.version)))
}

/// Deletes a conversation, and with it its thread and all of its log, for ever. Sent again by its user: the same answer.
#[utoipa::path(delete, path = "/v1/conversations/{name}", tag = "conversations", params(("name" = String, Path)), responses(
    (status = 204, description = "Deleted"),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 404, description = "No such conversation", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(name): InThread,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    if [header::IF_MATCH, header::IF_NONE_MATCH].iter().any(|name| headers.contains_key(name)) {
        // Better than to delete what the condition was to protect.
        return Err(Problem::invalid("a delete takes no condition"));
    }
    state.service.threads.delete(&principal, &name).await?;
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
            // Weak ones match nothing here, nor does any other way to write it.
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

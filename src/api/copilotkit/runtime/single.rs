//! Single endpoint: the body names the method.

use axum::{
    Json as Answer,
    extract::{Request, State},
    http::{HeaderMap, Uri},
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use threadline_http::{
    extract::{Caller, need, parse_json, query},
    negotiation::Content,
    parameters,
    problem::{Problem, ProblemDocument, ProblemType},
};
use utoipa::ToSchema;

use super::{
    info, runs, suggest,
    threads::{self, AnyBody, Part},
};
use crate::{
    agents::ClientInput,
    api::ApiState,
    domain::{AgentId, Principal, Scope, ThreadId},
};

/// A method and its parameters.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub struct Call {
    /// `info`, `agent/run`, `agent/connect`, `agent/suggest`, `agent/stop`, or `resource/request` for what has a path.
    #[schema(example = "info")]
    method: String,
    params: CallParams,
    /// The body of the named route.
    #[schema(value_type = Option<Object>)]
    body: Option<Box<RawValue>>,
}

/// The path parameters of the named route.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CallParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    /// Of `resource/request`: the path below `/copilotkit`, with its query.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "/threads?agentId=demo")]
    path: Option<String>,
    /// Of `resource/request`: its method.
    #[serde(skip_serializing_if = "Option::is_none")]
    http_method: Option<String>,
}

/// Serves every other route of this API: the body names the method.
///
/// Clients use it if they are configured to (`useSingleEndpoint`), or if they find no other route.
#[utoipa::path(post, path = "/copilotkit", tag = "copilotkit", request_body = Call, responses(
    (status = 200, description = "The response of the named route", content(
        (serde_json::Value = "application/json"), (String = "text/event-stream"))),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Agent, thread or resource not found", body = ProblemDocument),
    (status = 409, description = "Active run conflict, or run ID already in use", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 422, description = "Invalid messages or state, or conversation too large", body = ProblemDocument)))]
pub async fn call(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    if Content::of(&headers)? != Content::Json {
        return Err(Problem::new(ProblemType::UnsupportedMediaType, "send application/json"));
    }
    let bytes = state.http.bodies.read_appended(request, &principal).await?;
    let call: Call = parse_json(&bytes)?;
    drop(bytes);
    let params = &call.params;
    let agent = || params.agent_id.as_ref().ok_or_else(|| Problem::invalid("params.agentId is missing"));
    match &*call.method {
        "info" => info::tell(&state, &principal, &headers, true).await,
        "agent/run" => {
            need(&principal, Scope::Write)?;
            runs::start(&state, &principal, agent()?, call.body()?).await
        }
        "agent/suggest" => {
            need(&principal, Scope::Write)?;
            let (agent, _) = state.agents.get(&principal, agent()?).await?;
            suggest::answer(&state, &principal, &agent, call.body()?).await
        }
        "agent/connect" => {
            let input: ClientInput = call.body()?;
            runs::come_back(&state, &principal, agent()?, &input).await
        }
        "agent/stop" => {
            need(&principal, Scope::Write)?;
            let thread = params.thread_id.as_ref();
            let thread = thread.ok_or_else(|| Problem::invalid("params.threadId is missing"))?;
            Ok(Answer(runs::end(&state, &principal, thread, call.body()?).await?).into_response())
        }
        "resource/request" => resource(&state, &principal, &call).await,
        "inspector/metadata" | "inspector/learning" | "transcribe" => {
            Err(Problem::new(ProblemType::NotFound, "the server does not support this method"))
        }
        other => Err(Problem::invalid(format!("unknown method {other:?}"))),
    }
}

impl Call {
    /// Parses the nested body with the same checks as the body of a request of its own.
    fn body<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        parse_json(self.body.as_ref().map_or("", |body| body.get()).as_bytes())
    }
}

/// Serves a route that is named by its path.
async fn resource(state: &ApiState, principal: &Principal, call: &Call) -> Result<Response, Problem> {
    let path = call.params.path.as_deref().unwrap_or_default();
    let uri = path.parse::<Uri>().ok().filter(|_| path.starts_with('/') && !path.starts_with("//"));
    let Some(uri) = uri else { return Err(Problem::invalid("params.path is not a path below this address")) };
    let segments: Vec<String> = uri
        .path()
        .split('/')
        .skip(1)
        .map(|segment| percent_decode_str(segment).decode_utf8().map(String::from))
        .collect::<Result<_, _>>()
        .map_err(|_| Problem::invalid("params.path is not UTF-8"))?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = call.params.http_method.as_deref().unwrap_or("GET").to_ascii_uppercase();
    let thread = |id: &str| ThreadId::new(id).map_err(|error| Problem::invalid(format!("params.path: {error}")));
    let write = || need(principal, Scope::Write);
    match (&*method, &*segments) {
        ("GET", ["threads"]) => parameters::check_for::<threads::ListParams>(&uri)?,
        _ => parameters::check(&uri, &[])?,
    }
    match (&*method, &*segments) {
        ("GET", ["threads"]) => threads::page(state, principal, query(&uri)?).await,
        ("POST", ["threads", "subscribe"]) => threads::token(state, principal).await,
        ("PATCH", ["threads", id]) => {
            write()?;
            threads::change(state, principal, &thread(id)?, call.body()?).await
        }
        ("DELETE", ["threads", id]) => {
            write()?;
            threads::remove(state, principal, &thread(id)?).await
        }
        ("POST", ["threads", id, "archive"]) => {
            write()?;
            call.body::<AnyBody>()?;
            threads::put_away(state, principal, &thread(id)?).await
        }
        ("GET", ["threads", id, part]) => {
            let part = match *part {
                "messages" => Part::Messages,
                "events" => Part::Events,
                "state" => Part::State,
                _ => return Err(nothing()),
            };
            threads::show(state, principal, &thread(id)?, part).await
        }
        _ => Err(nothing()),
    }
}

fn nothing() -> Problem {
    Problem::new(ProblemType::NotFound, "no resource has this path")
}

//! Single endpoint: the body names the method.

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, Uri, header},
    response::Response,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadline_core::{AgentId, ThreadId, limits::MAX_BATCH_BYTES};
use threadline_http::{
    extract::{Caller, parse_json},
    negotiation::Representation,
    problem::{Problem, ProblemDocument, ProblemType},
    routes::InnerRoutes,
};
use utoipa::ToSchema;

use crate::api::ApiState;

/// Marks inner requests of the single endpoint.
#[derive(Debug, Clone, Copy)]
pub struct SingleEndpoint;

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
    (status = 507, description = "Storage full", body = ProblemDocument),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Agent, thread or resource not found", body = ProblemDocument),
    (status = 409, description = "Active run conflict, or run ID already in use", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 415, description = "Unsupported media type", body = ProblemDocument),
    (status = 422, description = "Invalid messages or state, or conversation too large", body = ProblemDocument)))]
pub async fn call(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Extension(routes): Extension<InnerRoutes>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    if Representation::of(&headers)? != Representation::Json {
        return Err(Problem::new(ProblemType::UnsupportedMediaType, "send application/json"));
    }
    let whole = state.http.body(request, MAX_BATCH_BYTES).await?;
    let call: Call = parse_json(&whole)?;
    let (method, uri) = call.target()?;
    let body = whole.inner(call.body.map_or_else(Bytes::new, |body| body.get().to_owned().into()));
    drop(whole);
    let mut inner = Request::new(Body::empty());
    (*inner.method_mut(), *inner.uri_mut(), *inner.headers_mut()) = (method, uri, headers);
    // Of the envelope, not of the body in it.
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        inner.headers_mut().remove(name);
    }
    inner.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    inner.extensions_mut().insert(SingleEndpoint);
    Ok(routes.answer(inner, principal, body).await)
}

impl Call {
    /// Route that the method names: the HTTP method, and the path with its query.
    fn target(&self) -> Result<(Method, Uri), Problem> {
        let missing = |name: &str| Problem::invalid(format!("params.{name} is missing"));
        let agent = || self.params.agent_id.as_ref().map(encoded).ok_or_else(|| missing("agentId"));
        let thread = || self.params.thread_id.as_ref().map(encoded).ok_or_else(|| missing("threadId"));
        let (method, path) = match &*self.method {
            "info" => (Method::GET, "/info".to_owned()),
            "agent/run" => (Method::POST, format!("/agent/{}/run", agent()?)),
            "agent/suggest" => (Method::POST, format!("/agent/{}/suggest", agent()?)),
            "agent/connect" => (Method::POST, format!("/agent/{}/connect", agent()?)),
            "agent/stop" => (Method::POST, format!("/agent/{}/stop/{}", agent()?, thread()?)),
            "resource/request" => self.resource()?,
            "inspector/metadata" | "inspector/learning" | "transcribe" => {
                return Err(Problem::new(ProblemType::NotFound, "the server does not support this method"));
            }
            other => return Err(Problem::invalid(format!("unknown method {other:?}"))),
        };
        let uri = format!("/copilotkit{path}").parse();
        Ok((method, uri.map_err(|_| Problem::invalid("params.path is not a path below this address"))?))
    }

    /// Route of a resource. Only threads have routes of their own; whatever else has a path is a method.
    fn resource(&self) -> Result<(Method, String), Problem> {
        let path = self.params.path.as_deref().unwrap_or_default();
        if !path.starts_with('/') || path.starts_with("//") {
            return Err(Problem::invalid("params.path is not a path below this address"));
        }
        if path.split(['/', '?']).nth(1) != Some("threads") {
            return Err(Problem::new(ProblemType::NotFound, "no resource has this path"));
        }
        let method = self.params.http_method.as_deref().unwrap_or("GET").to_ascii_uppercase();
        let method = Method::from_bytes(method.as_bytes());
        Ok((method.map_err(|_| Problem::invalid("params.httpMethod is not a method"))?, path.to_owned()))
    }
}

/// An id as one segment of a path.
fn encoded(id: &impl ToString) -> String {
    utf8_percent_encode(&id.to_string(), NON_ALPHANUMERIC).to_string()
}

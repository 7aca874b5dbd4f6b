//! Routes about the server itself, and the answers where there is no route.

use std::any::Any;

use axum::{
    Json,
    extract::State,
    http::{Method, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    api::{
        ApiState,
        extract::{Caller, InPath},
        front,
        problem::{Problem, ProblemDocument, ProblemType},
    },
    domain::limits::READY_MEMORY,
    metrics,
    service::ServiceError,
};

/// Says that the server is alive, whatever it stands on, and while it shuts down as well.
///
/// For those who start a server anew that does not answer. Whether to send it requests is told by /readyz.
#[utoipa::path(get, path = "/healthz", tag = "server", responses(
    (status = 200, description = "The server answers", body = Value, example = json!({ "status": "ok" }))))]
pub async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Whether requests are to be sent to this server, and what it stands on.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadinessView {
    /// `ready`, or `degraded`: something is missing that can be done without.
    status: &'static str,
    dependencies: Dependencies,
}

/// What the server stands on: `ok` or `unavailable`.
#[derive(Debug, Serialize, ToSchema)]
struct Dependencies {
    /// Without it nothing can be done.
    store: &'static str,
    /// Locks and wake-ups, if several nodes share them. Without it the store decides alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<&'static str>,
}

/// Says whether requests are to be sent to this server: its store answers, and it is not shutting down.
///
/// A Redis that is away makes it `degraded`, which is no reason to send requests elsewhere. The answer is good for a
/// second: asking more often costs nothing.
#[utoipa::path(get, path = "/readyz", tag = "server", responses(
    (status = 200, description = "It takes requests", body = ReadinessView,
        example = json!({ "status": "ready", "dependencies": { "store": "ok", "redis": "ok" } })),
    (status = 503, description = "It takes none: its store does not answer, or it is shutting down. \
        `dependencies` says what is missing", body = ProblemDocument)))]
pub async fn ready(State(state): State<ApiState>) -> Result<Json<ReadinessView>, Problem> {
    let found = state.service.readiness().await;
    let word = |answers| if answers { "ok" } else { "unavailable" };
    let dependencies = Dependencies { store: word(found.store), redis: found.redis.map(word) };
    if found.is_ready() {
        let status = if found.is_degraded() { "degraded" } else { "ready" };
        return Ok(Json(ReadinessView { status, dependencies }));
    }
    let wait = u64::try_from(READY_MEMORY.as_millis()).unwrap_or(u64::MAX);
    let problem = if found.draining {
        ServiceError::Draining.into()
    } else {
        Problem::new(ProblemType::StoreUnavailable, "the store does not answer").retry_after(wait)
    };
    Err(problem.with(json!({ "dependencies": dependencies })))
}

/// What this node counts, as OpenMetrics text for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server", responses(
    (status = 200, description = "What is counted: see OPERATIONS.md", content((String = "application/openmetrics-text"))),
    (status = 401, description = "Not let in", body = ProblemDocument)))]
pub async fn metrics(State(state): State<ApiState>, _caller: Caller) -> Response {
    let text = state.service.measured(state.connections.len()).await;
    ([(header::CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response()
}

/// Describes these routes.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "server", responses(
    (status = 200, description = "An OpenAPI document", body = Value)))]
pub async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], front::openapi_text()).into_response()
}

/// Explains a type of problem.
#[utoipa::path(get, path = "/problems/{slug}", tag = "server", params(("slug" = String, Path)), responses(
    (status = 200, description = "What it means and what to do", body = Value),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 404, description = "No such type", body = ProblemDocument)))]
pub async fn problem(InPath(slug): InPath) -> Result<Json<Value>, Problem> {
    let kind = ProblemType::ALL.iter().find(|kind| kind.slug() == slug);
    let kind = kind.ok_or_else(|| Problem::new(ProblemType::NotFound, "there is no such type of problem"))?;
    Ok(Json(json!({
        "type": format!("/problems/{}", kind.slug()),
        "title": kind.title(),
        "status": kind.status().as_u16(),
        "retryable": kind.is_retryable(),
        "help": kind.help(),
    })))
}

/// No such route.
pub async fn not_found(uri: Uri) -> Problem {
    Problem::new(ProblemType::NotFound, format!("there is no route {}", uri.path()))
}

/// The route has other methods.
pub async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(ProblemType::MethodNotAllowed, format!("{} does not understand {method}", uri.path()))
}

/// A handler panicked: a fault of ours that must not take the connection's other requests along.
pub fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let reason = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    tracing::error!(reason, "a request handler panicked");
    Problem::new(ProblemType::Internal, "the server's log says more").into_response()
}

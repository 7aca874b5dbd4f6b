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
    service::{ServiceError, StoreState},
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
    /// What is wrong, by stable names: `redis-unreachable`, `redis-is-no-master` (it takes no writes),
    /// `redis-takes-no-locks` (it refuses them: out of memory, or one node of a cluster).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<&'static str>,
}

/// Dependencies of the server: each is `ok` or `unavailable`; a store that accepts no writes is `read-only`.
#[derive(Debug, Serialize, ToSchema)]
struct Dependencies {
    /// Without it nothing can be done.
    store: &'static str,
    /// Locks and wake-ups, if several nodes share them. Without it the store decides alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<&'static str>,
}

/// Says whether requests are to be sent to this server: its store answers and takes writes, and it is not shutting down.
///
/// A Redis that is away makes it `degraded`, which is no reason to send requests elsewhere. The answer is good for a
/// second: asking more often costs nothing.
#[utoipa::path(get, path = "/readyz", tag = "server", responses(
    (status = 200, description = "It takes requests", body = ReadinessView,
        example = json!({ "status": "ready", "dependencies": { "store": "ok", "redis": "ok" } })),
    (status = 503, description = "It takes none. `why` says for what reason: `draining`, `store-unreachable` or \
        `store-read-only` (a standby); `dependencies` says what is missing", body = ProblemDocument)))]
pub async fn ready(State(state): State<ApiState>) -> Result<Json<ReadinessView>, Problem> {
    let found = state.service.readiness().await;
    let store = match found.store {
        StoreState::Good => "ok",
        StoreState::Unreachable => "unavailable",
        StoreState::ReadOnly => "read-only",
    };
    let redis = found.redis.map(|redis| if redis.finding().is_none() { "ok" } else { "unavailable" });
    let dependencies = Dependencies { store, redis };
    let Some(why) = found.why() else {
        let findings: Vec<_> = found.finding().into_iter().collect();
        let status = if findings.is_empty() { "ready" } else { "degraded" };
        return Ok(Json(ReadinessView { status, dependencies, findings }));
    };
    let wait = u64::try_from(READY_MEMORY.as_millis()).unwrap_or(u64::MAX);
    let detail = match found.store {
        StoreState::ReadOnly => "the store takes no writes: it is a standby, or set to read only",
        StoreState::Good | StoreState::Unreachable => "the store does not answer",
    };
    let problem = if found.leaving {
        ServiceError::Draining.into()
    } else {
        Problem::new(ProblemType::StoreUnavailable, detail).retry_after(wait)
    };
    Err(problem.with(json!({ "why": why, "dependencies": dependencies })))
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

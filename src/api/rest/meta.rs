//! Routes about the server itself, and the responses where no route exists.

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json};
use threadline_core::limits::READY_MEMORY;
use threadline_engine::{ServiceError, StoreState, metrics};
use threadline_http::{
    extract::{Caller, InPath},
    problem::{Problem, ProblemDocument, ProblemType},
};
use utoipa::ToSchema;

use crate::api::ApiState;

/// Reports that the server is alive, whatever the state of its dependencies, also while it shuts down.
///
/// A liveness check: restart a server that does not respond. /readyz is the readiness check.
#[utoipa::path(get, path = "/healthz", tag = "server", responses(
    (status = 200, description = "The server answers", body = Value, example = json!({ "status": "ok" }))))]
pub async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// The readiness of the server, and the state of its dependencies.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadinessView {
    /// `ready`, or `degraded`: an optional dependency is unavailable.
    status: &'static str,
    dependencies: Dependencies,
    /// The findings, by stable names: `redis-unreachable`, `redis-is-no-master` (accepts no writes),
    /// `redis-takes-no-locks` (rejects locks: out of memory, or one node of a cluster).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<&'static str>,
}

/// Dependencies of the server: each is `ok` or `unavailable`; a store that accepts no writes is `read-only`.
#[derive(Debug, Serialize, ToSchema)]
struct Dependencies {
    /// The store. Required by every request.
    store: &'static str,
    /// Redis: locks and wake-ups of several nodes. Without it locks are kept in the store only.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<&'static str>,
}

/// Reports whether the server is ready: its store responds and accepts writes, and it is not shutting down.
///
/// Without Redis the server is `degraded`, and still accepts requests. The result is cached for a second.
#[utoipa::path(get, path = "/readyz", tag = "server", responses(
    (status = 200, description = "The server accepts requests", body = ReadinessView,
        example = json!({ "status": "ready", "dependencies": { "store": "ok", "redis": "ok" } })),
    (status = 503, description = "The server accepts no requests. `why` is the reason: `draining`, `store-unreachable` or \
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
        StoreState::ReadOnly => "the store accepts no writes: it is a standby or read-only",
        StoreState::Good | StoreState::Unreachable => "the store does not respond",
    };
    let problem = if found.leaving {
        ServiceError::Draining.into()
    } else {
        Problem::new(ProblemType::StoreUnavailable, detail).retry_after(wait)
    };
    Err(problem.with(json!({ "why": why, "dependencies": dependencies })))
}

/// Returns the metrics of this node as OpenMetrics text, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server", responses(
    (status = 200, description = "Metrics: see OPERATIONS.md", content((String = "application/openmetrics-text"))),
    (status = 401, description = "Authentication required", body = ProblemDocument)))]
pub async fn metrics(State(state): State<ApiState>, _caller: Caller) -> Response {
    let text = state.service.measured(state.http.connections.len()).await;
    ([(header::CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response()
}

/// Explains a type of problem.
#[utoipa::path(get, path = "/problems/{slug}", tag = "server", params(("slug" = String, Path)), responses(
    (status = 200, description = "Title, status and next step of the problem type", body = Value),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Problem type not found", body = ProblemDocument)))]
pub async fn problem(InPath(slug): InPath) -> Result<Json<Value>, Problem> {
    let kind = ProblemType::ALL.iter().find(|kind| kind.slug() == slug);
    let kind = kind.ok_or_else(|| Problem::new(ProblemType::NotFound, "no problem type has this name"))?;
    Ok(Json(json!({
        "type": format!("/problems/{}", kind.slug()),
        "title": kind.title(),
        "status": kind.status().as_u16(),
        "retryable": kind.is_retryable(),
        "help": kind.help(),
    })))
}

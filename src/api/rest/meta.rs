//! Routes about the server itself, and the responses where no route exists.

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json};
use threadline_core::{
    Node,
    limits::{LIVE_TIMEOUT, READY_RETRY_AFTER},
};
use threadline_engine::{
    BeatMeasure, NodeState, ServiceError, StoreState,
    health::{self, RedisState},
    metrics,
};
use threadline_http::{
    extract::{Caller, InPath},
    problem::{Problem, ProblemDocument, ProblemType},
};
use tokio::runtime::Handle;
use utoipa::ToSchema;

use crate::api::ApiState;

/// Reports that the server processes its work, whatever the state of its dependencies, also while it shuts down.
///
/// A liveness check, which never asks the store: restart a server that does not respond. /readyz is the readiness check.
#[utoipa::path(get, path = "/livez", tag = "server", responses(
    (status = 200, description = "The server is alive", body = Value, example = json!({ "status": "ok" })),
    (status = 503, description = "The server has not run a new task for five seconds. Only the admin listener can \
        still report that", body = ProblemDocument)))]
pub async fn live(State(state): State<ApiState>) -> Result<Json<Value>, Problem> {
    liveness(&state.runtime).await
}

/// The liveness of the server by its runtime.
pub async fn liveness(runtime: &Handle) -> Result<Json<Value>, Problem> {
    if health::responds(runtime).await {
        return Ok(Json(json!({ "status": "ok" })));
    }
    let detail = format!("no new task was run for {} s", LIVE_TIMEOUT.as_secs());
    Err(Problem::new(ProblemType::Unresponsive, detail))
}

/// The readiness of the server, and the state of its dependencies.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadinessView {
    /// `ready`, or `degraded`: there are findings.
    status: &'static str,
    dependencies: Dependencies,
    beat: Option<BeatView>,
    /// The result of the last checks of Redis, if it is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<RedisView>,
    /// The findings, by stable names: `redis-unreachable`, `redis-is-no-master` (accepts no writes),
    /// `redis-takes-no-locks` (rejects locks: out of memory, or one node of a cluster), `redis-delivers-no-messages`
    /// (a message of this server to itself did not arrive), `async-standby` (Postgres acknowledges commits that its
    /// standbys do not have yet, so a failover may lose them), `clock-skew` (the clocks of this server and of the store
    /// differ by more than 10 s).
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

/// The checks of Redis, each true if it has passed. They are repeated every second.
#[derive(Debug, Serialize, ToSchema)]
struct RedisView {
    /// Redis is a master.
    role: bool,
    /// Redis accepts the keys that the server writes.
    write: bool,
    /// A message that the server sent to itself arrived within half a second.
    publish: bool,
}

impl RedisView {
    fn new(state: RedisState) -> Self {
        let [role, write, publish] = state.checks().map(|(_, passed)| passed);
        Self { role, write, publish }
    }
}

/// The last write by which the server has proven that its store commits.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct BeatView {
    /// Duration of the commit, in milliseconds.
    took_ms: u64,
    /// Milliseconds by which the store's clock is ahead of this server's.
    skew_ms: Option<i64>,
}

impl BeatView {
    fn new(measure: BeatMeasure) -> Self {
        let took_ms = u64::try_from(measure.took.as_millis()).unwrap_or(u64::MAX);
        Self { took_ms, skew_ms: measure.skew_ms }
    }
}

/// Reports whether the server is ready: it has committed a write within the last five seconds, and is not shutting down.
///
/// A server that was not ready is ready again after two committed writes. Without Redis the server is `degraded`, and
/// still accepts requests.
/// Redis is checked every second, whatever the number of probes.
#[utoipa::path(get, path = "/readyz", tag = "server", responses(
    (status = 200, description = "The server accepts requests", body = ReadinessView,
        example = json!({ "status": "ready", "dependencies": { "store": "ok", "redis": "ok" },
            "beat": { "tookMs": 3, "skewMs": 0 }, "redis": { "role": true, "write": true, "publish": true } })),
    (status = 503, description = "The server accepts no requests. `why` is the reason: `draining`, `starting`, \
        `store-unreachable`, `store-read-only` (a standby), `store-does-not-commit` (a full disk, a missing synchronous \
        standby), `lineage-changing` (a failover or a restore that is not adopted yet) or `store-is-corrupt`; `dependencies` says what is missing", body = ProblemDocument)))]
pub async fn ready(State(state): State<ApiState>) -> Result<Json<ReadinessView>, Problem> {
    let found = state.service.readiness().await;
    let store = match found.store {
        StoreState::Good => "ok",
        StoreState::ReadOnly => "read-only",
        StoreState::Starting
        | StoreState::Unreachable
        | StoreState::CommitsNothing
        | StoreState::LineageChanging
        | StoreState::Corrupt => "unavailable",
    };
    let redis = found.redis.map(|redis| if redis.is_good() { "ok" } else { "unavailable" });
    let (dependencies, beat) = (Dependencies { store, redis }, found.beat.map(BeatView::new));
    let Some(why) = found.why() else {
        let findings = found.findings();
        let status = if findings.is_empty() { "ready" } else { "degraded" };
        return Ok(Json(ReadinessView {
            status,
            dependencies,
            beat,
            redis: found.redis.map(RedisView::new),
            findings,
        }));
    };
    let wait = u64::try_from(READY_RETRY_AFTER.as_millis()).unwrap_or(u64::MAX);
    let detail = match found.store {
        StoreState::Good | StoreState::Starting => "the store has not committed the server's first write yet",
        StoreState::Unreachable => "the store does not respond",
        StoreState::ReadOnly => "the store accepts no writes: it is a standby or read-only",
        StoreState::CommitsNothing => "the store answers reads but commits no write",
        StoreState::LineageChanging => "the history of the store has changed, and this node has not adopted it yet",
        StoreState::Corrupt => "the store's data is damaged",
    };
    let problem = match found.store {
        _ if found.leaving => ServiceError::Draining.into(),
        StoreState::LineageChanging => Problem::new(ProblemType::LineageChanging, detail).retry_after(wait),
        _ => Problem::new(ProblemType::StoreUnavailable, detail).retry_after(wait),
    };
    Err(problem.with(json!({ "why": why, "dependencies": dependencies })))
}

/// A node of the installation, as its last beat describes it. A beat is a row that a node commits at each interval.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    /// The ID of the process: a restarted node has another one.
    node_id: String,
    /// The name of the machine.
    name: String,
    version: String,
    /// `live`, `leaving` (shutting down), `ended` (shut down) or `lost` (no beat for seven seconds).
    state: &'static str,
    #[schema(value_type = String, format = DateTime)]
    started_at: String,
    #[schema(value_type = String, format = DateTime)]
    last_beat_at: String,
    /// The number of beats since the start.
    beats: u64,
    /// Milliseconds by which the store's clock is ahead of the node's.
    skew_ms: Option<i64>,
    /// Duration of a beat's commit, in microseconds.
    rtt_us: Option<i64>,
}

impl NodeView {
    fn new((node, state): (Node, NodeState)) -> Self {
        Self {
            node_id: node.id.to_string(),
            name: node.name,
            version: node.version,
            state: state.name(),
            started_at: node.started_at.to_string(),
            last_beat_at: node.at.to_string(),
            beats: node.beat,
            skew_ms: node.skew_ms,
            rtt_us: node.rtt_us,
        }
    }
}

/// Nodes, those with the newest beats first.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodesView {
    nodes: Vec<NodeView>,
}

/// Lists the nodes of the installation. Up to 500 nodes, those that ended within the last
/// seven days included. Requires the operator's key.
#[utoipa::path(get, path = "/v1/nodes", tag = "server", responses(
    (status = 200, description = "The nodes, those with the newest beats first", body = NodesView)))]
pub async fn nodes(State(state): State<ApiState>, _caller: Caller) -> Result<Json<NodesView>, Problem> {
    let nodes = state.service.nodes().await.map_err(ServiceError::from)?;
    Ok(Json(NodesView { nodes: nodes.into_iter().map(NodeView::new).collect() }))
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

//! Lock of a thread. Acquiring it starts a run, whose events then arrive over the run's topic.

use axum::{Json as Answer, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use threadline_core::{AgentId, Run, RunId, RunStatus, UserId, limits::LATE_RENEWAL};
use threadline_engine::{ActiveRun, EndRunError, HeartbeatError, ServiceError, StartRequest, StartedRun, evicted};
use threadline_http::{
    extract::{Caller, InThread, Json, lease},
    problem::{Problem, ProblemDocument},
};
use utoipa::ToSchema;

use super::acting;
use crate::api::ApiState;

/// Default prefix of a lock's displayed name.
const PREFIX: &str = "thread";

/// A request to acquire a lock.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AcquireBody {
    /// Generated if absent.
    #[schema(value_type = Option<String>)]
    run_id: Option<RunId>,
    #[schema(value_type = String)]
    user_id: Option<UserId>,
    #[schema(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    /// The lease in seconds, 1 to 3600. Default 20.
    ttl_seconds: Option<f64>,
    /// Returned in the response. A thread has one lock, whatever its name.
    lock_key_prefix: Option<String>,
}

/// An acquired lock.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acquired {
    thread_id: String,
    /// The ID of the run. It differs from the requested ID if that was used before.
    run_id: String,
    /// The token with which a page follows the run.
    join_token: String,
    lock: Lock,
}

/// The name of a lock, and its lease.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lock {
    key: String,
    ttl_seconds: u64,
}

/// Starts a run, if no other run is active in the thread.
///
/// Unlike the start of other APIs it is not idempotent: an active run holds the lock, also against a client that
/// names that run, since that client would run its agent a second time.
#[utoipa::path(post, path = "/api/threads/{threadId}/lock", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = AcquireBody, responses(
    (status = 200, description = "Acquired", body = Acquired),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 403, description = "Thread of another user", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 409, description = "Lock held by an active run", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn acquire(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Json(body): Json<AcquireBody>,
) -> Result<Answer<Acquired>, Problem> {
    let lease = lease("ttlSeconds", body.ttl_seconds)?;
    let (thread, principal) = acting::thread(&state, principal, body.user_id, &id).await?;
    let principal = principal.for_user(thread.user);
    let mut start = StartRequest { run: body.run_id, agent: body.agent_id, lease, ..StartRequest::default() };
    let started = loop {
        let started = state.service.runs.start(&principal, &id, start.clone()).await?;
        if started.created {
            break started;
        }
        if started.run.status == RunStatus::Running {
            return Err(held(started).into());
        }
        // Ids of runs are never reused, but clients may send an id again for the continuation of a run.
        start.run = None;
    };
    let ttl = started.run.lease_until.map_or(0, |until| until.0.saturating_sub(started.run.started_at.0)) / 1_000;
    Ok(Answer(Acquired {
        join_token: state.http.auth.thread_token(&principal, &id).await?,
        thread_id: id.to_string(),
        run_id: started.run.id.to_string(),
        lock: Lock {
            key: format!("{}:{id}", body.lock_key_prefix.as_deref().unwrap_or(PREFIX)),
            ttl_seconds: ttl.unsigned_abs(),
        },
    }))
}

fn held(started: StartedRun) -> ServiceError {
    let StartedRun { run, epoch, cursor, .. } = started;
    ServiceError::RunActive(Box::new(ActiveRun { tail: run.last_seq(), epoch, cursor, run }))
}

/// A request to renew or release a lock.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldBody {
    #[schema(value_type = String)]
    run_id: Option<RunId>,
    /// The new lease in seconds; unchanged if absent.
    ttl_seconds: Option<f64>,
}

impl HeldBody {
    fn run(&self) -> Result<&RunId, Problem> {
        self.run_id.as_ref().ok_or_else(|| Problem::invalid("runId is missing"))
    }
}

/// A renewed lock.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Renewed {
    ttl_seconds: u64,
}

/// Renews the lock of a run. After an error the runtime aborts its agent.
#[utoipa::path(patch, path = "/api/threads/{threadId}/lock", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = HeldBody, responses(
    (status = 200, description = "Renewed, or the run has just ended", body = Renewed),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Thread or run not found", body = ProblemDocument),
    (status = 409, description = "Run already ended, or driven by the server", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn renew(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Json(body): Json<HeldBody>,
) -> Result<Answer<Renewed>, Problem> {
    let lease = lease("ttlSeconds", body.ttl_seconds)?;
    let principal = acting::holder(principal);
    match state.service.runs.heartbeat(&principal, &id, body.run()?, lease).await {
        Ok(run) => {
            let now = state.service.clock().now().0;
            let left = run.lease_until.map_or(0, |until| until.0.saturating_sub(now)).max(0).unsigned_abs();
            Ok(Answer(Renewed { ttl_seconds: lease.map_or(left.div_ceil(1_000), |lease| lease.as_secs()) }))
        }
        // The run has ended with its own last event while the renewal was in flight.
        Err(HeartbeatError::RunFenced(run)) if ended_just_now(&state, &run) => {
            Ok(Answer(Renewed { ttl_seconds: lease.map_or(0, |lease| lease.as_secs()) }))
        }
        Err(error) => Err(error.into()),
    }
}

fn ended_just_now(state: &ApiState, run: &Run) -> bool {
    let now = state.service.clock().now();
    !evicted(run.status, run.error_code.as_deref()) && run.ended_at.is_some_and(|at| at.plus(LATE_RENEWAL) > now)
}

/// Releases the lock of a run. The run may still append its last events; a run without events soon ends. Without a
/// lock nothing changes.
#[utoipa::path(delete, path = "/api/threads/{threadId}/lock", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = HeldBody, responses(
    (status = 204, description = "Lock no longer held by this run"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 409, description = "Run driven by the server", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn release(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Json(body): Json<HeldBody>,
) -> Result<StatusCode, Problem> {
    match state.service.runs.release(&acting::holder(principal), &id, body.run()?).await {
        Ok(_) | Err(EndRunError::RunNotFound | EndRunError::ThreadNotFound) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(error.into()),
    }
}

//! The lock of a thread: acquiring it begins a run, whose events then come over its topic.

use axum::{Json as Answer, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::acting;
use crate::{
    api::{
        ApiState,
        extract::{Caller, InThread, Json, lease},
        problem::{Problem, ProblemDocument},
    },
    domain::{AgentId, Run, RunId, RunStatus, UserId, limits::LATE_RENEWAL},
    service::{ActiveRun, NewRun, ServiceError, StartedRun, evicted},
};

/// Begins the name under which a lock is shown, if its client says nothing else.
const PREFIX: &str = "thread";

/// A lock to be acquired.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AcquireBody {
    /// Made up if absent.
    #[schema(value_type = Option<String>)]
    run_id: Option<RunId>,
    #[schema(value_type = String)]
    user_id: Option<UserId>,
    #[schema(value_type = Option<String>)]
    agent_id: Option<AgentId>,
    /// How long the run may be silent, 1 to 3600. Default 20.
    ttl_seconds: Option<f64>,
    /// Shown in the answer. A thread has one lock, whatever it is called.
    lock_key_prefix: Option<String>,
}

/// An acquired lock.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Acquired {
    thread_id: String,
    /// The run's id from here on; another than was asked for if that one has been used before.
    run_id: String,
    /// With which a page follows the run.
    join_token: String,
    lock: Lock,
}

/// How a lock is called, and how long it holds.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lock {
    key: String,
    ttl_seconds: u64,
}

/// Begins a run, if no other is active in the thread.
///
/// Unlike a start through other doors it is not the same again: the lock of a run that is active is held, also for a
/// client that names that run, since it would run its agent a second time.
#[utoipa::path(post, path = "/api/threads/{threadId}/lock", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = AcquireBody, responses(
    (status = 200, description = "Acquired", body = Acquired),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 403, description = "Another user's", body = ProblemDocument),
    (status = 404, description = "No such thread", body = ProblemDocument),
    (status = 409, description = "Held by an active run", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument)))]
pub async fn acquire(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Json(body): Json<AcquireBody>,
) -> Result<Answer<Acquired>, Problem> {
    let lease = lease("ttlSeconds", body.ttl_seconds)?;
    let (thread, principal) = acting::thread(&state, principal, body.user_id, &id).await?;
    let principal = crate::domain::Principal { user: Some(thread.user), ..principal };
    let mut new = NewRun { id: body.run_id, agent: body.agent_id, lease };
    let started = loop {
        let started = state.service.runs.start(&principal, &id, new.clone()).await?;
        if started.created {
            break started;
        }
        if started.run.status == RunStatus::Running {
            return Err(held(started).into());
        }
        // Runs are known by their ids for ever; clients may use one again, for the continuation of a run.
        new.id = None;
    };
    let ttl = started.run.lease_until.map_or(0, |until| until.0.saturating_sub(started.run.started_at.0)) / 1_000;
    Ok(Answer(Acquired {
        join_token: state.auth.thread_token(&principal, &id).await?,
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

/// A lock to be renewed or released.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldBody {
    #[schema(value_type = String)]
    run_id: Option<RunId>,
    /// How long the run may be silent from now on; as before if absent.
    ttl_seconds: Option<f64>,
}

impl HeldBody {
    fn run(&self) -> Result<&RunId, Problem> {
        self.run_id.as_ref().ok_or_else(|| Problem::invalid("say of which run: runId"))
    }
}

/// A renewed lock.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Renewed {
    ttl_seconds: u64,
}

/// A sign of life of a run. A refusal has the runtime abort its agent.
#[utoipa::path(patch, path = "/api/threads/{threadId}/lock", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = HeldBody, responses(
    (status = 200, description = "Renewed; or the run has just ended", body = Renewed),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 404, description = "No such thread or run", body = ProblemDocument),
    (status = 409, description = "The run has ended, or the server drives it", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument)))]
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
        // It has ended by its own last event while the renewal was on its way.
        Err(ServiceError::RunFenced(run)) if ended_just_now(&state, &run) => {
            Ok(Answer(Renewed { ttl_seconds: lease.map_or(0, |lease| lease.as_secs()) }))
        }
        Err(error) => Err(error.into()),
    }
}

fn ended_just_now(state: &ApiState, run: &Run) -> bool {
    let now = state.service.clock().now();
    !evicted(run.status, run.error_code.as_deref()) && run.ended_at.is_some_and(|at| at.plus(LATE_RENEWAL) > now)
}

/// Gives a run's lock back. Its last events may still come; a run without any is soon over. Of a run that holds none,
/// nothing changes.
#[utoipa::path(delete, path = "/api/threads/{threadId}/lock", tag = "copilotkit", params(("threadId" = String, Path)),
    request_body = HeldBody, responses(
    (status = 204, description = "Not held by this run any more"),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 409, description = "The server drives the run", body = ProblemDocument),
    (status = 413, description = "Too large", body = ProblemDocument)))]
pub async fn release(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
    Json(body): Json<HeldBody>,
) -> Result<StatusCode, Problem> {
    match state.service.runs.release(&acting::holder(principal), &id, body.run()?).await {
        Ok(_) | Err(ServiceError::RunNotFound | ServiceError::ThreadNotFound) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(error.into()),
    }
}

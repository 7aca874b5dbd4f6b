//! REST routes of forks and branches.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use threadline_core::{Seq, ThreadId};
use threadline_engine::{ForkThread, ForkedThread, ThreadAt};
use threadline_http::{
    extract::{Caller, InThread, Json},
    idempotency::IdempotencyKey,
    precondition::Precondition,
    problem::{Problem, ProblemDocument},
    view::ThreadView,
};
use utoipa::ToSchema;

use crate::{
    agents::{ForkPoint, ForkStart},
    api::ApiState,
};

/// A request to fork a thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ForkBody {
    /// The ID of the fork. Generated (UUIDv7) if absent.
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    /// Seq of the last event that the fork has too. The newest event if absent.
    #[schema(value_type = Option<u64>)]
    at: Option<Seq>,
    /// True for a copy of its own, which is no branch of the conversation.
    separate: bool,
}

/// Forks a thread: the fork has its events up to a seq, with the same seqs, and is independent from then on.
///
/// The fork has the present name, metadata and agent of the thread, its runs and open interrupts as of that seq, and an epoch of its
/// own. A run that goes on beyond the seq ends there in the fork: as stopped, or with RUN_ERROR `forked` if it answers interrupts.
/// Annotations and queued turns are not copied. The
/// fork is a branch of the same conversation, and lists show it in place of the thread. With `separate` lists show both.
#[utoipa::path(post, path = "/v1/threads/{threadId}/forks", tag = "branches",
    params(("threadId" = String, Path), Precondition, IdempotencyKey), request_body = ForkBody, responses(
    (status = 201, description = "Forked", body = ThreadView),
    (status = 200, description = "Forked before by the same request", body = ThreadView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument),
    (status = 409, description = "ID already in use, or too many branches", body = ProblemDocument),
    (status = 410, description = "Fork made with this Idempotency-Key and deleted", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 416, description = "`at` is beyond the end of the log", body = ProblemDocument),
    (status = 507, description = "Storage full", body = ProblemDocument)))]
pub async fn fork(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Precondition(epoch): Precondition,
    key: IdempotencyKey,
    Json(body): Json<ForkBody>,
) -> Result<Response, Problem> {
    let derived = if body.thread_id.is_none() { key.fork(&principal, &thread) } else { None };
    let request = derived.is_some().then_some(key.0).flatten();
    let id = body.thread_id.or(derived);
    let named = id.is_some();
    let fork = ForkThread { id, at: body.at, separate: body.separate, unlisted: false, request };
    let forked = state.service.forks.fork(&principal, ThreadAt { id: &thread, epoch }, fork).await;
    let forked = forked.map_err(Problem::from).map_err(|problem| problem.of_request(named))?;
    let ForkedThread { thread, created } = forked;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Answer(ThreadView::new(&thread).seen_by(&principal))).into_response())
}

/// The branches of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub struct BranchesView {
    /// Oldest first. `listed` is true for the one that lists and feeds show.
    branches: Vec<ThreadView>,
}

/// Lists the branches of the conversation that a thread belongs to, itself included.
#[utoipa::path(get, path = "/v1/threads/{threadId}/branches", tag = "branches",
    params(("threadId" = String, Path)), responses(
    (status = 200, description = "The branches", body = BranchesView),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread not found", body = ProblemDocument)))]
pub async fn branches(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
) -> Result<Answer<BranchesView>, Problem> {
    let branches = state.service.forks.branches(&principal, &thread).await?;
    Ok(Answer(BranchesView { branches: branches.iter().map(ThreadView::new).collect() }))
}

/// The branch to list.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListedBody {
    #[schema(required, value_type = String)]
    thread_id: Option<ThreadId>,
}

/// Has lists and feeds show another branch of the conversation that a thread belongs to.
#[utoipa::path(put, path = "/v1/threads/{threadId}/branches/listed", tag = "branches",
    params(("threadId" = String, Path), Precondition), request_body = ListedBody, responses(
    (status = 200, description = "The branch that is listed now", body = ThreadView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 404, description = "Thread or branch not found", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn list_branch(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(thread): InThread,
    Precondition(epoch): Precondition,
    Json(body): Json<ListedBody>,
) -> Result<Answer<ThreadView>, Problem> {
    let chosen = body.thread_id.ok_or_else(|| Problem::invalid("threadId is missing: the branch to list"))?;
    let listed = state.service.forks.choose(&principal, ThreadAt { id: &thread, epoch }, &chosen).await?;
    Ok(Answer(ThreadView::new(&listed).seen_by(&principal)))
}

/// A fork in which the run begins. Exactly one of `at`, `before` and `regenerate`.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ForkStartBody {
    /// Fork after this seq.
    #[schema(value_type = Option<u64>)]
    at: Option<Seq>,
    /// Fork before the message with this ID: the messages of `input` replace it and everything after it.
    before: Option<String>,
    /// Fork before the run that made the message with this ID: the new run answers the same messages.
    regenerate: Option<String>,
    /// The ID of the fork. Derived from `runId` if absent, so that a repeated request finds the same fork; generated without both.
    #[schema(value_type = Option<String>)]
    thread_id: Option<ThreadId>,
    /// Stop the active run of the thread, once the run of the fork has begun.
    stop: bool,
}

impl ForkStartBody {
    /// The fork that it asks for. A start that names its run finds the same fork again.
    pub fn start(self, made_for: impl FnOnce() -> Option<ThreadId>) -> Result<ForkStart, Problem> {
        let point = match (self.at, self.before, self.regenerate) {
            (Some(seq), None, None) => ForkPoint::At(seq),
            (None, Some(message), None) => ForkPoint::Before(message),
            (None, None, Some(message)) => ForkPoint::Regenerate(message),
            _ => return Err(Problem::invalid("fork names none, or more than one, of at, before and regenerate")),
        };
        Ok(ForkStart { point, thread: self.thread_id.or_else(made_for), stop: self.stop, listed: true })
    }
}

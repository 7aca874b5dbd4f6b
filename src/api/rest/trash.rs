//! REST routes of retention: list and restore the trash, and approve a sweep that waits.

use axum::{Json as Answer, extract::State};
use serde::{Deserialize, Serialize};
use threadline_core::{Timestamp, TrashedThread, limits::DEFAULT_PAGE};
use threadline_engine::ServiceError;
use threadline_http::{
    cursor::{read_trashed, write_trashed},
    extract::{Caller, InProject, InThread, Json, Params},
    problem::{Problem, ProblemDocument},
    view::ThreadView,
};
use utoipa::{IntoParams, ToSchema};

use crate::api::ApiState;

/// Page of the trash.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TrashParams {
    /// 1 to 500. Default 50.
    limit: Option<usize>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
}

/// A thread in the trash.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrashedView {
    /// The thread as it was.
    thread: ThreadView,
    #[schema(value_type = String, format = DateTime)]
    trashed_at: Timestamp,
    /// Time from which the thread is removed for good.
    #[schema(value_type = String, format = DateTime)]
    purge_at: Timestamp,
}

/// A page of the trash.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrashPageView {
    threads: Vec<TrashedView>,
    /// Cursor of the next page; null on the last page.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Lists the threads of the project that retention has put in the trash, the last ones first. Scope `admin`.
///
/// Each can be restored until `purgeAt`. Threads that people delete are not in the trash.
#[utoipa::path(get, path = "/v1/trash", tag = "identity", params(TrashParams), responses(
    (status = 200, description = "Threads in the trash", body = TrashPageView),
    (status = 400, description = "Invalid request", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<TrashParams>,
) -> Result<Answer<TrashPageView>, Problem> {
    let after = params.cursor.as_deref().map(read_trashed).transpose()?;
    let limit = params.limit.unwrap_or(DEFAULT_PAGE);
    let page = state.service.trash.list(&principal, after.as_ref(), limit).await.map_err(ServiceError::Store)?;
    let view = |trashed: &TrashedThread| TrashedView {
        thread: ThreadView::new(&trashed.thread),
        trashed_at: trashed.at,
        purge_at: trashed.purge_at,
    };
    Ok(Answer(TrashPageView {
        threads: page.threads.iter().map(view).collect(),
        next_cursor: page.next.as_ref().map(write_trashed),
    }))
}

/// Restores a thread from the trash: its events, its epoch and all cursors are as they were. A retry returns the same
/// thread. Scope `admin`.
///
/// The restoration counts as use of the thread. If the trash has several threads of this ID, the last one is restored. If
/// they belong to several users, the header `Threadline-User` names one.
#[utoipa::path(post, path = "/v1/trash/{threadId}/restore", tag = "identity", params(("threadId" = String, Path)),
    responses(
    (status = 200, description = "The thread", body = ThreadView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "No such thread in the trash", body = ProblemDocument),
    (status = 409, description = "ID in use by another thread, or ambiguous", body = ProblemDocument)))]
pub async fn restore(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InThread(id): InThread,
) -> Result<Answer<ThreadView>, Problem> {
    Ok(Answer(ThreadView::new(&state.service.trash.restore(&principal, &id).await?)))
}

/// A request to approve a sweep of retention.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ApprovalBody {
    /// Most threads that may be put in the trash: at least 1. Required.
    #[schema(minimum = 1)]
    count: u64,
}

/// Retention that waited for an approval.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoldView {
    project_id: String,
    /// Unused threads, when retention looked last.
    idle: u64,
    /// All threads of the project.
    threads: u64,
    /// Threads that may be put in the trash.
    approved: u64,
}

/// Approves that retention puts up to `count` threads in the trash. Scope `admin`.
///
/// Retention waits for an approval if it would put more than 100 threads and more than a fifth of a project's threads in
/// the trash at once; the audit log then has `retention.held` with the numbers. Its next pass begins at once. If the store
/// does not confirm the approval (503 `outcome-unknown`), the audit log has `retention.approved` if it holds.
#[utoipa::path(post, path = "/v1/projects/{projectId}/retention/approve", tag = "identity",
    params(("projectId" = String, Path)), request_body = ApprovalBody, responses(
    (status = 200, description = "Approved", body = HoldView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Project not found", body = ProblemDocument),
    (status = 409, description = "Retention not waiting", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn approve(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InProject(id): InProject,
    Json(body): Json<ApprovalBody>,
) -> Result<Answer<HoldView>, Problem> {
    let project = state.http.auth.project(&principal, &id).await?;
    if body.count == 0 {
        return Err(Problem::invalid("count is missing or 0, but must be at least 1"));
    }
    let approved = state.service.trash.approve(&principal, &project.id, body.count).await.map_err(Problem::from);
    // Retention may have put threads in the trash by the first approval: a second one would approve more.
    let hold = approved.map_err(|problem| problem.of_request(false))?;
    Ok(Answer(HoldView {
        project_id: hold.project.to_string(),
        idle: hold.idle,
        threads: hold.threads,
        approved: hold.approved,
    }))
}

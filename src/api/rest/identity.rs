//! REST routes of tokens, tickets and projects, and of the erasure of users.

use std::time::Duration;

use axum::{Json as Answer, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use threadline_core::{Credential, ProjectSettings, Scopes, Usage, UsageOwner, UserId};
use threadline_engine::{Erasure, ServiceError};
use threadline_http::{
    auth::{AuthError, ChangedProject, Project},
    extract::{Caller, InProject, InUser, Json},
    problem::{Problem, ProblemDocument},
};
use utoipa::ToSchema;

use crate::api::ApiState;

pub(super) fn scopes(named: Option<Vec<String>>) -> Result<Option<Scopes>, Problem> {
    let Some(names) = named else { return Ok(None) };
    let scopes = Scopes::parse(&names.join(" "))
        .map_err(|name| Problem::invalid(format!("{name:?} is not a scope: expected one of {}", Scopes::ALL)))?;
    if scopes.is_empty() {
        return Err(Problem::invalid("scopes must not be empty"));
    }
    Ok(Some(scopes))
}

pub(super) fn lifetime(seconds: Option<u64>) -> Result<Option<Duration>, Problem> {
    match seconds {
        Some(0) => Err(Problem::invalid("expiresInSeconds is 0, but must be at least 1")),
        seconds => Ok(seconds.map(Duration::from_secs)),
    }
}

/// A request to create a token.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TokenBody {
    /// The user. Required unless the request acts for a user.
    #[schema(value_type = Option<String>)]
    user_id: Option<UserId>,
    /// `read`, `chat`, `approve`, `produce`. If absent, those of the project's setting `tokenScopes`: by default all but
    /// `produce`.
    scopes: Option<Vec<String>>,
    /// 1 to the project's `maxTokenSeconds` (604800 unless set). Default 3600.
    #[schema(minimum = 1, maximum = 2592000)]
    expires_in_seconds: Option<u64>,
}

/// A token or ticket.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    token: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

/// Creates a token with which a browser acts as one user: `Authorization: Bearer <token>`. Scope `tokens`.
///
/// The token is a JWT (HS256) signed with the project's secret: a backend that has the secret can sign tokens itself.
#[utoipa::path(post, path = "/v1/tokens", tag = "identity", request_body = TokenBody, responses(
    (status = 201, description = "The token", body = TokenView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn create_token(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(body): Json<TokenBody>,
) -> Result<(StatusCode, Answer<TokenView>), Problem> {
    let lifetime = lifetime(body.expires_in_seconds)?;
    let user = match (&principal.user, body.user_id) {
        // In development mode a request has a user even if none was named.
        (Some(user), Some(named)) if *user != named && principal.credential != Credential::Development => {
            return Err(AuthError::OtherUser.into());
        }
        (_, Some(named)) => named,
        (Some(user), None) => user.clone(),
        (None, None) => return Err(Problem::invalid("userId is missing")),
    };
    let token = state.http.auth.create_token(&principal, &user, scopes(body.scopes)?, lifetime).await?;
    Ok((StatusCode::CREATED, Answer(TokenView { token: token.text, expires_at: token.expires_at.to_string() })))
}

/// A ticket.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TicketView {
    ticket: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

/// Creates a ticket that opens one socket within a minute, with the rights of this request:
/// `/v1/socket?ticket=<ticket>`.
///
/// For clients that can send only a URL in a handshake: a ticket in a log is useless, since it is valid once.
#[utoipa::path(post, path = "/v1/socket-tickets", tag = "identity", responses(
    (status = 201, description = "The ticket", body = TicketView)))]
pub async fn create_ticket(
    State(state): State<ApiState>,
    Caller(principal): Caller,
) -> Result<(StatusCode, Answer<TicketView>), Problem> {
    let ticket = state.http.auth.ticket(&principal).await?;
    Ok((StatusCode::CREATED, Answer(TicketView { ticket: ticket.text, expires_at: ticket.expires_at.to_string() })))
}

/// A project.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectView {
    project_id: String,
    #[schema(value_type = Object)]
    settings: ProjectSettings,
    /// `sealed` if the secrets of the project's tokens are encrypted in the store, `unsealed` if it has them in clear text.
    #[schema(example = "sealed")]
    secrets: &'static str,
    /// Data that the project has stored, as known to this node; absent in the list of projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageView>,
}

/// Amount of stored data of an owner.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageView {
    /// Bytes of events, uncompressed.
    bytes: u64,
    /// Threads, those in the trash included.
    threads: u64,
}

impl From<Usage> for UsageView {
    fn from(usage: Usage) -> Self {
        Self { bytes: usage.stored_bytes(), threads: usage.stored_threads() }
    }
}

impl ProjectView {
    fn new(project: &Project) -> Self {
        let secrets = if project.sealed { "sealed" } else { "unsealed" };
        Self { project_id: project.id.to_string(), settings: project.settings.clone(), secrets, usage: None }
    }
}

/// A project, and what it has stored.
async fn whole_view(state: &ApiState, project: &Project) -> Result<ProjectView, Problem> {
    let usage = state.service.stored.held(&UsageOwner::project(&project.id)).await.map_err(ServiceError::from)?;
    Ok(ProjectView { usage: Some(usage.into()), ..ProjectView::new(project) })
}

/// All projects.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProjectsView {
    projects: Vec<ProjectView>,
}

/// Lists the projects. For the operator.
#[utoipa::path(get, path = "/v1/projects", tag = "identity", responses(
    (status = 200, description = "The projects, by id", body = ProjectsView)))]
pub async fn list_projects(State(state): State<ApiState>, _: Caller) -> Result<Answer<ProjectsView>, Problem> {
    let all = state.http.auth.projects().all().await?;
    Ok(Answer(ProjectsView { projects: all.iter().map(ProjectView::new).collect() }))
}

/// Shows a project. Scope `admin`.
#[utoipa::path(get, path = "/v1/projects/{projectId}", tag = "identity", params(("projectId" = String, Path)),
    responses(
    (status = 200, description = "The project", body = ProjectView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Project not found", body = ProblemDocument)))]
pub async fn get_project(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InProject(id): InProject,
) -> Result<Answer<ProjectView>, Problem> {
    let project = state.http.auth.project(&principal, &id).await?;
    Ok(Answer(whole_view(&state, &project).await?))
}

/// Creates a project, or replaces its settings. For the operator.
///
/// `issuer` (`issuer`, `audience`, `jwksUrl`) is an external issuer of tokens for the project's users, signed RS256
/// or ES256. `retention` (`archiveAfterDays`, `deleteAfterDays`) applies to unused threads: those to be deleted are first in
/// the trash for `graceDays` (7). `limits` override those of the configuration. `tokenScopes` are those of a token that names none; `maxTokenSeconds`
/// (604800, up to 2592000) is the longest life of a token; `agentOrigins` are origins to which `agents` alone may move an agent;
/// `validation` (`off` or `ag-ui`) validates what producers append; `auditDays` (400) is the age at which entries of the audit log are removed. With `generateThreadNames: false` threads have only the names that people give them.
/// A project that has these settings already is not changed: a retry of the creation is answered with 200.
#[utoipa::path(put, path = "/v1/projects/{projectId}", tag = "identity", params(("projectId" = String, Path)),
    request_body(content((serde_json::Value = "application/json"))), responses(
    (status = 200, description = "Settings replaced", body = ProjectView),
    (status = 201, description = "Created", body = ProjectView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn put_project(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InProject(id): InProject,
    Json(settings): Json<ProjectSettings>,
) -> Result<(StatusCode, Answer<ProjectView>), Problem> {
    let ChangedProject { project, created } = state.http.auth.put_project(&principal, &id, settings).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Answer(whole_view(&state, &project).await?)))
}

/// A secret.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretView {
    secret: String,
}

/// Rotates the secret of a project's user tokens. Only this response shows it. Scopes `admin` and `tokens`, and
/// all that a user's token can have: the holder of the secret can act as any user of the project.
///
/// Tokens signed with the previous secret stay valid until the next rotation: rotate, then update your backends.
#[utoipa::path(post, path = "/v1/projects/{projectId}/token-secret", tag = "identity",
    params(("projectId" = String, Path)), responses(
    (status = 201, description = "The secret", body = SecretView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Project not found", body = ProblemDocument)))]
pub async fn renew_secret(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InProject(id): InProject,
) -> Result<(StatusCode, Answer<SecretView>), Problem> {
    let renewed = state.http.auth.renew_secret(&principal, &id).await.map_err(Problem::from);
    // A second renewal would end the secret that tokens are signed with now.
    let secret = renewed.map_err(|problem| problem.of_request(false))?;
    Ok((StatusCode::CREATED, Answer(SecretView { secret })))
}

/// Result of an erasure.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErasureView {
    /// Keyed digest of the user's id, as the audit has it: the same for each erasure of this id.
    user_digest: String,
    #[schema(format = DateTime)]
    at: String,
    #[schema(value_type = Object)]
    erased: Value,
}

impl From<Erasure> for ErasureView {
    fn from(erasure: Erasure) -> Self {
        Self {
            user_digest: erasure.user_digest,
            at: erasure.at.to_string(),
            erased: serde_json::to_value(erasure.erased).unwrap_or_default(),
        }
    }
}

/// Erases a user: threads with their logs, runs, names, snapshots and annotations, and the feed. Scope `admin`.
///
/// The response, which is also in the audit log as `user.erased`, is the receipt: how much of what was erased. A retry
/// counts what was left; the entry `user.erases` has what each request found. Active runs end. The user is signed out
/// first; a backend with a key that acts for the user can create new threads afterwards. Of two concurrent requests for
/// one user each may count what the other has erased.
#[utoipa::path(delete, path = "/v1/users/{userId}", tag = "identity", params(("userId" = String, Path)), responses(
    (status = 200, description = "The receipt", body = ErasureView),
    (status = 400, description = "Invalid request", body = ProblemDocument)))]
pub async fn erase_user(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InUser(user): InUser,
) -> Result<Answer<ErasureView>, Problem> {
    Ok(Answer(state.service.users.erase(&principal, &user).await?.into()))
}

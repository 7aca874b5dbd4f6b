//! REST routes of keys, tokens, tickets and projects, of the audit log and of the erasure of users.

use std::time::Duration;

use axum::{Json as Answer, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use threadline_core::{ApiKey, Credential, KeyId, ProjectSettings, Scopes, UserId, limits::DEFAULT_PAGE};
use threadline_engine::Erasure;
use threadline_http::{
    auth::{AuthError, ChangedProject, NewKey, Project},
    cursor::{read_audit, write_audit},
    extract::{Caller, InKey, InProject, InUser, Json, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::{IntoParams, ToSchema};

use crate::api::ApiState;

/// An API key, without the key itself.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    key_id: String,
    project_id: String,
    #[schema(example = json!(["read", "chat"]))]
    scopes: Vec<&'static str>,
    #[schema(value_type = String, format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    #[schema(format = DateTime)]
    revoked_at: Option<String>,
    /// `authenticated`, or `development`: created by a server in development mode, and accepted by no other.
    #[schema(example = "authenticated")]
    born: &'static str,
    /// The key itself: only in the response to the request that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

impl KeyView {
    fn new(key: &ApiKey, text: Option<String>) -> Self {
        Self {
            key_id: key.id.to_string(),
            project_id: key.project.to_string(),
            scopes: key.scopes.iter().map(|scope| scope.as_str()).collect(),
            created_at: key.created_at.to_string(),
            expires_at: key.expires_at.map(|at| at.to_string()),
            revoked_at: key.revoked_at.map(|at| at.to_string()),
            born: key.born.as_str(),
            key: text,
        }
    }
}

/// All keys.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeysView {
    keys: Vec<KeyView>,
}

/// A request to create a key.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KeyBody {
    /// The ID of the key. Generated if absent.
    #[schema(value_type = Option<String>)]
    key_id: Option<KeyId>,
    /// `read`, `chat`, `approve`, `produce`, `agents`, `tokens` (these six if absent), `admin`, `metrics`.
    scopes: Option<Vec<String>>,
    /// 1 to 3153600000, which is 100 years. The key does not expire if absent.
    #[schema(minimum = 1, maximum = 3153600000i64)]
    expires_in_seconds: Option<u64>,
}

fn scopes(named: Option<Vec<String>>) -> Result<Option<Scopes>, Problem> {
    let Some(names) = named else { return Ok(None) };
    let scopes = Scopes::parse(&names.join(" "))
        .map_err(|name| Problem::invalid(format!("{name:?} is not a scope: expected one of {}", Scopes::ALL)))?;
    if scopes.is_empty() {
        return Err(Problem::invalid("scopes must not be empty"));
    }
    Ok(Some(scopes))
}

fn lifetime(seconds: Option<u64>) -> Result<Option<Duration>, Problem> {
    match seconds {
        Some(0) => Err(Problem::invalid("expiresInSeconds is 0, but must be at least 1")),
        seconds => Ok(seconds.map(Duration::from_secs)),
    }
}

/// Lists the API keys of the project, including expired and revoked ones. Scope `admin`.
#[utoipa::path(get, path = "/v1/keys", tag = "identity", responses(
    (status = 200, description = "The keys, by id", body = KeysView)))]
pub async fn list_keys(State(state): State<ApiState>, Caller(principal): Caller) -> Result<Answer<KeysView>, Problem> {
    let keys = state.http.auth.keys(&principal).await?;
    Ok(Answer(KeysView { keys: keys.iter().map(|key| KeyView::new(key, None)).collect() }))
}

/// Creates an API key. Only this response shows it; the server stores its SHA-256. Scope `admin`.
#[utoipa::path(post, path = "/v1/keys", tag = "identity", request_body = KeyBody, responses(
    (status = 201, description = "The key", body = KeyView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 409, description = "ID already in use", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument)))]
pub async fn create_key(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Json(body): Json<KeyBody>,
) -> Result<(StatusCode, Answer<KeyView>), Problem> {
    let lifetime = lifetime(body.expires_in_seconds)?;
    let new = NewKey { id: body.key_id, scopes: scopes(body.scopes)?, lifetime };
    let named = new.id.is_some();
    let created = state.http.auth.create_key(&principal, new).await.map_err(Problem::from);
    let (key, text) = created.map_err(|problem| problem.of_request(named))?;
    Ok((StatusCode::CREATED, Answer(KeyView::new(&key, Some(text)))))
}

/// Revokes an API key: at once on this node, within seconds on the others. Its sockets and streams are closed. Scope
/// `admin`.
#[utoipa::path(delete, path = "/v1/keys/{keyId}", tag = "identity", params(("keyId" = String, Path)), responses(
    (status = 200, description = "The revoked key", body = KeyView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "API key not found", body = ProblemDocument)))]
pub async fn revoke_key(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InKey(id): InKey,
) -> Result<Answer<KeyView>, Problem> {
    Ok(Answer(KeyView::new(&state.http.auth.revoke_key(&principal, &id).await?, None)))
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
    /// 1 to 604800. Default 3600.
    #[schema(minimum = 1, maximum = 604800)]
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
}

impl ProjectView {
    fn new(project: &Project) -> Self {
        let secrets = if project.sealed { "sealed" } else { "unsealed" };
        Self { project_id: project.id.to_string(), settings: project.settings.clone(), secrets }
    }
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
    Ok(Answer(ProjectView::new(&state.http.auth.project(&principal, &id).await?)))
}

/// Creates a project, or replaces its settings. For the operator.
///
/// `issuer` (`issuer`, `audience`, `jwksUrl`) is an external issuer of tokens for the project's users, signed RS256
/// or ES256. `retention` (`archiveAfterDays`, `deleteAfterDays`) applies to unused threads: those to be deleted are first in
/// the trash for `graceDays` (7). `limits` override those of the configuration. With `generateThreadNames: false` threads have only the names that people give them.
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
    Ok((status, Answer(ProjectView::new(&project))))
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

/// Page of the audit log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditParams {
    /// 1 to 500. Default 50.
    limit: Option<usize>,
    /// `nextCursor` of the page before.
    cursor: Option<String>,
}

/// An administrative action in the project.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditView {
    #[schema(format = DateTime)]
    at: String,
    /// `operator`, `development`, `key:<keyId>` or `retention`.
    actor: String,
    #[schema(example = "key.revoked")]
    action: String,
    #[schema(value_type = Object)]
    facts: Box<RawValue>,
}

/// A page of the audit log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditPage {
    entries: Vec<AuditView>,
    next_cursor: Option<String>,
}

/// Reads the audit log of the project, newest first: keys, settings, erased users, retention. Scope `admin`.
#[utoipa::path(get, path = "/v1/audit", tag = "identity", params(AuditParams), responses(
    (status = 200, description = "Entries", body = AuditPage),
    (status = 400, description = "Invalid request", body = ProblemDocument)))]
pub async fn audit(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<AuditParams>,
) -> Result<Answer<AuditPage>, Problem> {
    let limit = params.limit.unwrap_or(DEFAULT_PAGE);
    let before = params.cursor.as_deref().map(read_audit).transpose()?;
    let found = state.http.auth.audit(&principal, before, limit).await?;
    let next_cursor = found.last().filter(|_| found.len() >= limit).map(|(number, _)| write_audit(*number));
    let view = |(_, entry): (i64, threadline_core::AuditEntry)| AuditView {
        at: entry.at.to_string(),
        actor: entry.actor,
        action: entry.action,
        facts: RawValue::from_string(entry.facts).unwrap_or_default(),
    };
    Ok(Answer(AuditPage { entries: found.into_iter().map(view).collect(), next_cursor }))
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
/// counts what was left; the entry `user.erases` has what each request found. Active runs end. A user
/// with a valid token can create new threads afterwards: revoke the tokens first. Of two concurrent requests for one
/// user each may count what the other has erased.
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

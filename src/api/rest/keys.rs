//! REST routes of API keys, and of sign-outs.

use axum::{Json as Answer, extract::State, http::StatusCode};
use serde::{Deserialize, Serialize};
use threadline_core::{ApiKey, KeyId, Timestamp};
use threadline_engine::credentials::Subject;
use threadline_http::{
    auth::{Made, NewKey},
    extract::{Caller, InKey, InProject, InUser, Json, Params},
    problem::{Problem, ProblemDocument},
};
use utoipa::{IntoParams, ToSchema};

use super::identity::{lifetime, scopes};
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
    /// The key with which it was created; absent if the operator created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    made_by: Option<String>,
    /// Time of the last use that was noted, about once a minute.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
    /// Address of the last use, which is that of a proxy if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_from: Option<String>,
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
            made_by: key.made_by.as_ref().map(ToString::to_string),
            last_used_at: key.last_used.as_ref().map(|used| used.at.to_string()),
            last_used_from: key.last_used.as_ref().and_then(|used| used.from.clone()),
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

/// Parameters of a revocation.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RevokeParams {
    /// With `true` the keys that were created with this key, and with those, are revoked as well.
    #[serde(default)]
    and_made: bool,
}

/// A revoked key, and the keys that were created with it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevokedKeyView {
    #[serde(flatten)]
    key: KeyView,
    /// The keys that were revoked with it.
    also_revoked: Vec<String>,
    /// The keys that were created with it, or with those, and are valid: revoke them as well, with `andMade=true`.
    still_valid: Vec<String>,
}

/// Revokes an API key, and with it all tokens that were created with it: at once on this node, within seconds on the
/// others. Their sockets and streams are closed within 20 seconds. Scope `admin`.
#[utoipa::path(delete, path = "/v1/keys/{keyId}", tag = "identity", params(("keyId" = String, Path), RevokeParams), responses(
    (status = 200, description = "The revoked key", body = RevokedKeyView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "API key not found", body = ProblemDocument)))]
pub async fn revoke_key(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InKey(id): InKey,
    Params(params): Params<RevokeParams>,
) -> Result<Answer<RevokedKeyView>, Problem> {
    let made = if params.and_made { Made::Go } else { Made::Stay };
    let revoked = state.http.auth.revoke_key(&principal, &id, made).await?;
    let names = |keys: Vec<KeyId>| keys.iter().map(ToString::to_string).collect();
    Ok(Answer(RevokedKeyView {
        key: KeyView::new(&revoked.key, None),
        also_revoked: names(revoked.also_revoked),
        still_valid: names(revoked.still_valid),
    }))
}

/// The result of a sign-out.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignOutView {
    /// Tokens that were issued before this time (claim `iat`) are refused, and those without `iat`.
    #[schema(value_type = String, format = DateTime)]
    not_before: String,
}

impl SignOutView {
    fn new(not_before: Timestamp) -> Self {
        Self { not_before: not_before.to_string() }
    }
}

/// Signs a user out: all tokens of the user that were issued up to now end, and their sockets and streams are closed
/// within 20 seconds. Backends with a key may act for the user as before. Scope `admin`.
#[utoipa::path(post, path = "/v1/users/{userId}/sign-out", tag = "identity", params(("userId" = String, Path)),
    responses(
    (status = 200, description = "The user is signed out", body = SignOutView),
    (status = 400, description = "Invalid request", body = ProblemDocument)))]
pub async fn sign_out_user(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InUser(user): InUser,
) -> Result<Answer<SignOutView>, Problem> {
    let not_before = state.http.auth.sign_out(&principal, Subject::User(&user)).await?;
    Ok(Answer(SignOutView::new(not_before)))
}

/// Ends all tokens that were created with a key up to now, and their sockets and streams. The key itself stays valid.
/// Scope `admin`.
#[utoipa::path(post, path = "/v1/keys/{keyId}/sign-out", tag = "identity", params(("keyId" = String, Path)),
    responses(
    (status = 200, description = "The tokens of the key have ended", body = SignOutView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "API key not found", body = ProblemDocument)))]
pub async fn sign_out_key(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InKey(id): InKey,
) -> Result<Answer<SignOutView>, Problem> {
    let not_before = state.http.auth.sign_out(&principal, Subject::Key(&id)).await?;
    Ok(Answer(SignOutView::new(not_before)))
}

/// Signs out all users of a project. Scope `admin`.
#[utoipa::path(post, path = "/v1/projects/{projectId}/sign-out", tag = "identity",
    params(("projectId" = String, Path)), responses(
    (status = 200, description = "All users are signed out", body = SignOutView),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 404, description = "Project not found", body = ProblemDocument)))]
pub async fn sign_out_project(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    InProject(id): InProject,
) -> Result<Answer<SignOutView>, Problem> {
    Ok(Answer(SignOutView::new(state.http.auth.sign_out_project(&principal, &id).await?)))
}

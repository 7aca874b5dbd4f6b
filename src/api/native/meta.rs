//! Routes about the server itself, and the answers where there is no route.

use std::any::Any;

use axum::{
    Json,
    extract::State,
    http::{Method, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::api::{
    ApiState,
    extract::InPath,
    front,
    problem::{Problem, ProblemDocument, ProblemType},
};

/// Says that the server is up.
#[utoipa::path(get, path = "/healthz", tag = "server", responses(
    (status = 200, description = "The server answers", body = Value, example = json!({ "status": "ok" })),
    (status = 503, description = "The server is shutting down", body = ProblemDocument)))]
pub async fn health(State(state): State<ApiState>) -> Result<Json<Value>, Problem> {
    if state.draining.is_cancelled() {
        return Err(crate::service::ServiceError::Draining.into());
    }
    Ok(Json(json!({ "status": "ok" })))
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

//! Endpoints at which pages and runtimes join their topics: sockets, and long-polling as the alternative.

use axum::{
    extract::{Request, State},
    response::Response,
};
use serde::Deserialize;
use threadline_core::Principal;
use threadline_engine::ServiceError;
use threadline_http::{
    auth::AuthError,
    extract::{Caller, Params},
    problem::{Problem, ProblemDocument, ProblemType},
    ws::{Upgrade, protocol::HandOver},
};
use utoipa::IntoParams;

use super::topics::{ClientPlane, RunnerPlane};
use crate::api::{
    ApiState,
    copilotkit::phoenix::{channel::SocketKind, frame, longpoll, socket},
};

/// Query of a Phoenix client's handshake, without its credential.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Handshake {
    /// The version of the serializer, which is `2.0.0`.
    #[param(example = "2.0.0")]
    vsn: Option<String>,
}

/// Query of a page's handshake, which includes its token.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageHandshake {
    /// The version of the serializer, which is `2.0.0`.
    #[param(example = "2.0.0")]
    vsn: Option<String>,
    /// The token with which the page joins its topic.
    join_token: Option<String>,
}

/// Query that names a long-poll session.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct InSession {
    /// The token of the session. A request without it opens a session.
    token: Option<String>,
}

fn check_version(vsn: Option<&str>) -> Result<(), Problem> {
    if vsn == Some(frame::VERSION) {
        return Ok(());
    }
    Err(Problem::invalid(format!(
        "the only supported version of the serializer is {}: vsn={}",
        frame::VERSION,
        frame::VERSION
    )))
}

/// Authenticates a page by its token. A refusal must answer the HTTP request: if the socket were accepted and then
/// closed, the page would reconnect forever, and never request another token.
async fn page(state: &ApiState, token: Option<&str>) -> Result<(Principal, ClientPlane), Problem> {
    if state.http.draining.is_cancelled() {
        return Err(ServiceError::Draining.into());
    }
    let opened = ClientPlane::open(state, token.unwrap_or_default()).await;
    let (principal, mut plane) = opened.map_err(|error| match error {
        AuthError::Store(error) => ServiceError::Store(error).into(),
        error => Problem::new(ProblemType::ForbiddenToken, error.to_string()),
    })?;
    if let Err(limited) = state.http.quota.admit(&principal) {
        // Closing the plane returns the token, which stays valid.
        plane.closed(HandOver::Uncertain).await;
        return Err(limited.into());
    }
    Ok((principal, plane))
}

/// Opens the socket of a page: Phoenix channels, `thread:` or `user_meta:` according to its token. See
/// `docs/copilotkit.md`.
#[utoipa::path(get, path = "/client/websocket", tag = "copilotkit", params(PageHandshake), responses(
    (status = 101, description = "Switching protocols"),
    (status = 400, description = "Not a WebSocket handshake, or unsupported serializer version", body = ProblemDocument),
    (status = 403, description = "Invalid token, or origin not allowed",
        body = ProblemDocument),
    (status = 429, description = "A limit of the user or the project is reached", body = ProblemDocument),
    (status = 503, description = "Server shutting down, or store unavailable", body = ProblemDocument)))]
pub async fn client_socket(
    State(state): State<ApiState>,
    Params(asked): Params<PageHandshake>,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    check_version(asked.vsn.as_deref())?;
    let (principal, plane) = page(&state, asked.join_token.as_deref()).await?;
    socket::open(state, principal, plane, upgrade).await
}

/// Opens the socket of a runtime: Phoenix channels, `ingestion:` topics.
///
/// The API key comes in a subprotocol `base64url.bearer.phx.<key in Base64>` next to `phoenix`.
#[utoipa::path(get, path = "/runner/websocket", tag = "copilotkit", params(Handshake), responses(
    (status = 101, description = "Switching protocols"),
    (status = 400, description = "Not a WebSocket handshake, or unsupported serializer version", body = ProblemDocument),
    (status = 503, description = "Server shutting down", body = ProblemDocument)))]
pub async fn runner_socket(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(asked): Params<Handshake>,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    check_version(asked.vsn.as_deref())?;
    if state.http.draining.is_cancelled() {
        return Err(ServiceError::Draining.into());
    }
    let plane = RunnerPlane::new(state.clone(), principal.clone());
    socket::open(state, principal, plane, upgrade).await
}

/// Opens a long-poll session of a page, or waits for its frames. The client reads `status` in the response.
#[utoipa::path(get, path = "/client/longpoll", tag = "copilotkit", params(PageHandshake, InSession), responses(
    (status = 200, description = "`status` 410 with the token of a new session, 200 with frames, 204 without frames; or 410: session not found"),
    (status = 400, description = "Unsupported serializer version", body = ProblemDocument),
    (status = 403, description = "Invalid token", body = ProblemDocument),
    (status = 429, description = "A limit of the user or the project is reached", body = ProblemDocument),
    (status = 503, description = "Server shutting down, or store unavailable", body = ProblemDocument)))]
pub async fn client_poll(
    State(state): State<ApiState>,
    Params(asked): Params<PageHandshake>,
    Params(session): Params<InSession>,
) -> Response {
    if let Err(problem) = check_version(asked.vsn.as_deref()) {
        return longpoll::refused(problem);
    }
    if let Some(token) = session.token {
        return longpoll::poll(&state, &token, None).await;
    }
    match page(&state, asked.join_token.as_deref()).await {
        Ok((principal, plane)) => longpoll::open(&state, principal, plane).await,
        Err(problem) => longpoll::refused(problem),
    }
}

/// Accepts frames for a long-poll session of a page, one per line (`application/x-ndjson`). The token of the session
/// is the only credential.
#[utoipa::path(post, path = "/client/longpoll", tag = "copilotkit", params(PageHandshake, InSession), responses(
    (status = 200, description = "`status` 200: frames processed; 410: session not found"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 408, description = "Request body timeout", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 429, description = "A limit of the user or the project is reached", body = ProblemDocument),
    (status = 503, description = "Server at capacity", body = ProblemDocument)))]
pub async fn client_send(
    State(state): State<ApiState>,
    Params(session): Params<InSession>,
    request: Request,
) -> Response {
    longpoll::send(&state, session.token.as_deref().unwrap_or_default(), request).await
}

/// Opens a long-poll session of a runtime, or waits for its frames. The client reads `status` in the response.
///
/// The API key comes in the header `X-Phoenix-AuthToken`.
#[utoipa::path(get, path = "/runner/longpoll", tag = "copilotkit", params(Handshake, InSession), responses(
    (status = 200, description = "`status` 410 with the token of a new session, 200 with frames, 204 without frames; or 410: session not found"),
    (status = 400, description = "Unsupported serializer version", body = ProblemDocument),
    (status = 503, description = "Server shutting down", body = ProblemDocument)))]
pub async fn runner_poll(
    State(state): State<ApiState>,
    caller: Result<Caller, Problem>,
    Params(asked): Params<Handshake>,
    Params(session): Params<InSession>,
) -> Response {
    let checked = caller.and_then(|caller| check_version(asked.vsn.as_deref()).map(|()| caller));
    match (checked, session.token) {
        (Err(problem), _) => longpoll::refused(problem),
        (Ok(Caller(principal)), Some(token)) => longpoll::poll(&state, &token, Some(&principal)).await,
        (Ok(Caller(principal)), None) => {
            let plane = RunnerPlane::new(state.clone(), principal.clone());
            longpoll::open(&state, principal, plane).await
        }
    }
}

/// Accepts frames for a long-poll session of a runtime, one per line (`application/x-ndjson`). The token of the
/// session is the only credential: the client sends its key only when it polls.
#[utoipa::path(post, path = "/runner/longpoll", tag = "copilotkit", params(Handshake, InSession), responses(
    (status = 200, description = "`status` 200: frames processed; 410: session not found"),
    (status = 400, description = "Invalid request", body = ProblemDocument),
    (status = 408, description = "Request body timeout", body = ProblemDocument),
    (status = 413, description = "Request body too large", body = ProblemDocument),
    (status = 429, description = "A limit of the user or the project is reached", body = ProblemDocument),
    (status = 503, description = "Server at capacity", body = ProblemDocument)))]
pub async fn runner_send(
    State(state): State<ApiState>,
    Params(session): Params<InSession>,
    request: Request,
) -> Response {
    longpoll::send(&state, session.token.as_deref().unwrap_or_default(), request).await
}

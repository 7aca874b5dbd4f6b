//! Where pages and runtimes join their topics: sockets, and long-polling in their place.

use axum::{
    extract::{Request, State},
    response::Response,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::topics::{ClientPlane, RunnerPlane};
use crate::{
    api::{
        ApiState,
        copilotkit::phoenix::{channel::Plane, frame, longpoll, socket},
        extract::{Caller, Params},
        problem::{Problem, ProblemDocument, ProblemType},
        websocket::Upgrade,
    },
    auth::AuthError,
    domain::Principal,
    service::ServiceError,
};

/// What a Phoenix client says in its query, beside what it was given for it.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Handshake {
    /// The version of the serializer, which is `2.0.0`.
    #[param(example = "2.0.0")]
    vsn: Option<String>,
}

/// The same of a page, which shows its token here.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageHandshake {
    /// The version of the serializer, which is `2.0.0`.
    #[param(example = "2.0.0")]
    vsn: Option<String>,
    /// The token that lets it join its topic.
    join_token: Option<String>,
}

/// Which long-poll session is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct InSession {
    /// The token of the session; without one it is opened.
    token: Option<String>,
}

fn check_version(vsn: Option<&str>) -> Result<(), Problem> {
    if vsn == Some(frame::VERSION) {
        return Ok(());
    }
    Err(Problem::invalid(format!("the version of the serializer is {}: vsn={}", frame::VERSION, frame::VERSION)))
}

/// Lets a page in with what it was given. One that is refused is refused here: accepted and then closed it would come again
/// for ever, and never ask for another token.
async fn page(state: &ApiState, token: Option<&str>) -> Result<(Principal, ClientPlane), Problem> {
    if state.draining.is_cancelled() {
        return Err(ServiceError::Draining.into());
    }
    let opened = ClientPlane::open(state, token.unwrap_or_default()).await;
    let (principal, plane) = opened.map_err(|error| match error {
        AuthError::Store(error) => ServiceError::Store(error).into(),
        error => Problem::new(ProblemType::ForbiddenToken, error.to_string()),
    })?;
    if let Err(limited) = state.quota.admit(&principal) {
        // What it was given is good still.
        plane.closed(false).await;
        return Err(limited.into());
    }
    Ok((principal, plane))
}

/// Opens the socket of a page: Phoenix channels, `thread:` or `user_meta:` as its token says. See `docs/copilotkit.md`.
#[utoipa::path(get, path = "/client/websocket", tag = "copilotkit", params(PageHandshake), responses(
    (status = 101, description = "Switching protocols"),
    (status = 400, description = "No WebSocket handshake, or another version", body = ProblemDocument),
    (status = 403, description = "The token is not valid (any more), or pages of this Origin are not let in",
        body = ProblemDocument),
    (status = 429, description = "A limit of the user or the project is reached", body = ProblemDocument),
    (status = 503, description = "The server is shutting down, or the store does not answer", body = ProblemDocument)))]
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
/// The API key comes in a subprotocol `base64url.bearer.phx.<key in Base64>` beside `phoenix`.
#[utoipa::path(get, path = "/runner/websocket", tag = "copilotkit", params(Handshake), responses(
    (status = 101, description = "Switching protocols"),
    (status = 400, description = "No WebSocket handshake, or another version", body = ProblemDocument),
    (status = 503, description = "The server is shutting down", body = ProblemDocument)))]
pub async fn runner_socket(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(asked): Params<Handshake>,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    check_version(asked.vsn.as_deref())?;
    if state.draining.is_cancelled() {
        return Err(ServiceError::Draining.into());
    }
    let plane = RunnerPlane::new(state.clone(), principal.clone());
    socket::open(state, principal, plane, upgrade).await
}

/// Opens a long-poll session of a page, or waits for its frames. The client goes by `status` in the answer.
#[utoipa::path(get, path = "/client/longpoll", tag = "copilotkit", params(PageHandshake, InSession), responses(
    (status = 200, description = "`status` 410 with a new session's token, 200 with frames, 204 without; or 410: gone"),
    (status = 400, description = "Another version", body = ProblemDocument),
    (status = 403, description = "The token is not valid (any more)", body = ProblemDocument),
    (status = 429, description = "A limit of the user or the project is reached", body = ProblemDocument),
    (status = 503, description = "The server is shutting down, or the store does not answer", body = ProblemDocument)))]
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

/// Takes frames for a long-poll session of a page, one on each line (`application/x-ndjson`). Whoever has the session's token
/// may send.
#[utoipa::path(post, path = "/client/longpoll", tag = "copilotkit", params(PageHandshake, InSession), responses(
    (status = 200, description = "`status` 200: carried out; 410: there is no such session"),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 408, description = "The body stopped coming", body = ProblemDocument),
    (status = 413, description = "More than fits", body = ProblemDocument),
    (status = 429, description = "A limit of the user or the project is reached", body = ProblemDocument),
    (status = 503, description = "No room for the body", body = ProblemDocument)))]
pub async fn client_send(
    State(state): State<ApiState>,
    Params(session): Params<InSession>,
    request: Request,
) -> Response {
    longpoll::send(&state, session.token.as_deref().unwrap_or_default(), request).await
}

/// Opens a long-poll session of a runtime, or waits for its frames. The client goes by `status` in the answer.
///
/// The API key comes in the header `X-Phoenix-AuthToken`.
#[utoipa::path(get, path = "/runner/longpoll", tag = "copilotkit", params(Handshake, InSession), responses(
    (status = 200, description = "`status` 410 with a new session's token, 200 with frames, 204 without; or 410: gone"),
    (status = 400, description = "Another version", body = ProblemDocument),
    (status = 503, description = "The server is shutting down", body = ProblemDocument)))]
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

/// Takes frames for a long-poll session of a runtime, one on each line (`application/x-ndjson`). Whoever has the session's
/// token may send: the client shows its key only when it polls.
#[utoipa::path(post, path = "/runner/longpoll", tag = "copilotkit", params(Handshake, InSession), responses(
    (status = 200, description = "`status` 200: carried out; 410: there is no such session"),
    (status = 400, description = "Not understood", body = ProblemDocument),
    (status = 408, description = "The body stopped coming", body = ProblemDocument),
    (status = 413, description = "More than fits", body = ProblemDocument),
    (status = 429, description = "A limit of the user or the project is reached", body = ProblemDocument),
    (status = 503, description = "No room for the body", body = ProblemDocument)))]
pub async fn runner_send(
    State(state): State<ApiState>,
    Params(session): Params<InSession>,
    request: Request,
) -> Response {
    longpoll::send(&state, session.token.as_deref().unwrap_or_default(), request).await
}

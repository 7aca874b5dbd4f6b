//! Where the sockets of this door are opened: `/client` by pages, `/runner` by runtimes; by long-polling as well, since
//! Node has no WebSocket before version 22.

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
        copilotkit::phoenix::{longpoll, socket},
        extract::{Caller, Params, need},
        native::socket::Upgrade,
        problem::{Problem, ProblemDocument, ProblemType},
    },
    auth::AuthError,
    domain::{Principal, Scope},
    service::ServiceError,
};

/// The version of the serializer that is spoken.
const VERSION: &str = "2.0.0";

/// How a client of Phoenix channels asks.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ChannelParams {
    /// Version of the serializer: 2.0.0.
    vsn: Option<String>,
    /// Of pages: with which a topic is joined.
    join_token: Option<String>,
    /// Long-polling: the session.
    token: Option<String>,
}

impl ChannelParams {
    fn check(&self, state: &ApiState) -> Result<(), Problem> {
        if self.vsn.as_deref() != Some(VERSION) {
            return Err(Problem::invalid(format!("vsn is the version of the serializer, and has to be {VERSION}")));
        }
        if state.draining.is_cancelled() {
            return Err(ServiceError::Draining.into());
        }
        Ok(())
    }

    /// What a page has come for. One that is not let in is refused here: accepted and then closed it would come again for
    /// ever.
    async fn page(&self, state: &ApiState) -> Result<(Principal, ClientPlane), Problem> {
        let token = self.join_token.as_deref().unwrap_or_default();
        let (principal, plane) = ClientPlane::open(state, token).await.map_err(|error| match error {
            AuthError::Store(error) => ServiceError::Store(error).into(),
            error => Problem::new(ProblemType::ForbiddenToken, error.to_string()),
        })?;
        state.quota.admit(&principal)?;
        Ok((principal, plane))
    }
}

/// Opens a page's socket: Phoenix channels, V2 JSON serializer. What can be joined is what the token in the query is for,
/// `thread:{threadId}` or `user_meta:{joinCode}`.
#[utoipa::path(get, path = "/client/websocket", tag = "copilotkit", params(ChannelParams), responses(
    (status = 101, description = "Switching protocols"),
    (status = 400, description = "No WebSocket handshake, or another version", body = ProblemDocument),
    (status = 403, description = "The token is not valid (any more)", body = ProblemDocument),
    (status = 429, description = "Too many sockets", body = ProblemDocument),
    (status = 503, description = "The server is shutting down", body = ProblemDocument)))]
pub async fn client(
    State(state): State<ApiState>,
    Params(params): Params<ChannelParams>,
    Upgrade(upgrade): Upgrade,
) -> Result<Response, Problem> {
    params.check(&state)?;
    let (principal, plane) = params.page(&state).await?;
    socket::open(state, principal, plane, upgrade)
}

/// Opens a runtime's socket: Phoenix channels, V2 JSON serializer, topics `ingestion:{runId}`. The key stands in a
/// subprotocol, `base64url.bearer.phx.` and the key in Base64; `phoenix` is answered.
#[utoipa::path(get, path = "/runner/websocket", tag = "copilotkit", params(ChannelParams), responses(
    (status = 101, description = "Switching protocols"),
    (status = 400, description = "No WebSocket handshake, or another version", body = ProblemDocument),
    (status = 503, description = "The server is shutting down", body = ProblemDocument)))]
pub async fn runner(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Params(params): Params<ChannelParams>,
    Upgrade(upgrade): Upgrade,
) -> Result<Response, Problem> {
    params.check(&state)?;
    let plane = RunnerPlane::new(state.clone(), principal.clone());
    socket::open(state, principal, plane, upgrade)
}

/// Opens a runtime's session of long-polling, or waits for its frames. HTTP says 200; what the client goes by is `status`
/// in the body, and `token` names the session. The key is in the header `X-Phoenix-AuthToken`.
#[utoipa::path(get, path = "/runner/longpoll", tag = "copilotkit", params(ChannelParams), responses(
    (status = 200, description = "`status` 410 with a `token`: opened; 200: `messages`; 204: none came", body = serde_json::Value),
    (status = 400, description = "Another version", body = ProblemDocument),
    (status = 401, description = "Not let in", body = ProblemDocument),
    (status = 403, description = "Let in, but not for this", body = ProblemDocument),
    (status = 429, description = "Too many requests", body = ProblemDocument),
    (status = 503, description = "The server is shutting down", body = ProblemDocument)))]
pub async fn poll_runner(
    State(state): State<ApiState>,
    caller: Result<Caller, Problem>,
    Params(params): Params<ChannelParams>,
) -> Response {
    let opened = async {
        let Caller(principal) = caller?;
        need(&principal, Scope::Write)?;
        params.check(&state)?;
        Ok::<_, Problem>(principal)
    };
    let principal = match opened.await {
        Ok(principal) => principal,
        Err(problem) => return longpoll::refused(problem),
    };
    match &params.token {
        Some(token) => longpoll::poll(&state, token, Some(&principal)).await,
        None => {
            let plane = RunnerPlane::new(state.clone(), principal.clone());
            longpoll::open(&state, principal, plane)
        }
    }
}

/// Sends frames, one a line, each a JSON text of its own. The session is the key here.
#[utoipa::path(post, path = "/runner/longpoll", tag = "copilotkit", params(ChannelParams),
    request_body(content((String = "application/x-ndjson"))), responses(
    (status = 200, description = "`status` 200: carried out; 410: the session is gone", body = serde_json::Value)))]
pub async fn send(State(state): State<ApiState>, Params(params): Params<ChannelParams>, request: Request) -> Response {
    longpoll::send(&state, params.token.as_deref().unwrap_or_default(), request).await
}

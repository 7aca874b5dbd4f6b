//! Long-polling transport, for Phoenix's client without a WebSocket: in Node before version 22.
//!
//! A session is a task on the node that opened it, and lives as long as its client polls. Responses are JSON objects.
//! The client evaluates the `status` member; the HTTP status is for every other reader.

use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use threadline_core::{
    Principal,
    json::quoted,
    limits::{CHANNEL_FRAME_BYTES, UNTRUSTED_FRAME_BYTES},
};
use threadline_engine::{
    ServiceError,
    limits::{BudgetOwner, StreamPermit},
};
use threadline_http::{
    problem::{Problem, ProblemType},
    ws::protocol::HandOver,
};
use tokio::sync::oneshot;

use super::{
    channel::SocketKind,
    poll_session,
    poll_sessions::{PollOpened, Polled, Post},
};
use crate::api::ApiState;

/// Values of `status` that Phoenix's client knows.
mod status {
    /// Answer to a poll with frames, or to a request whose frames have been processed.
    pub const OK: u16 = 200;
    /// Answer to a poll without frames.
    pub const NO_CONTENT: u16 = 204;
    /// Authentication failed: the client reports an error to its application, and retries later.
    pub const FORBIDDEN: u16 = 403;
    /// Session opened, for a client without one; session ended, for a client with one.
    pub const GONE: u16 = 410;
    /// Failure after which the client retries.
    pub const FAILED: u16 = 500;
}

/// Opens a session in which the principal joins topics. If the session is refused, the plane is closed.
pub async fn open<P: SocketKind>(state: &ApiState, principal: Principal, mut plane: P) -> Response {
    match admitted(state, &principal) {
        Ok((place, token, opened)) => {
            let alive = state.http.connections.token();
            let state = state.clone();
            tokio::spawn(async move {
                let _held = (alive, place);
                poll_session::run(state, principal, plane, opened).await;
            });
            answer(status::GONE, Some(&token), None)
        }
        Err(problem) => {
            plane.closed(HandOver::Uncertain).await;
            refused(problem)
        }
    }
}

fn admitted(state: &ApiState, principal: &Principal) -> Result<(StreamPermit, String, PollOpened), Problem> {
    if state.http.draining.is_cancelled() {
        return Err(ServiceError::Draining.into());
    }
    let place = state.http.quota.open(principal)?;
    let polls = &state.copilotkit.polls;
    if polls.is_full_for(principal) {
        return Err(Problem::new(ProblemType::Busy, "the maximum number of long-poll sessions is open on this node"));
    }
    let (token, opened) = polls.open(principal.clone()).map_err(|error| {
        tracing::error!(%error, "cannot generate a secret");
        Problem::new(ProblemType::Internal, "see the server's log")
    })?;
    Ok((place, token, opened))
}

/// Waits for frames of a session. If `principal` is given, it must be the principal that opened the session.
pub async fn poll(state: &ApiState, token: &str, principal: Option<&Principal>) -> Response {
    let Some(session) = state.copilotkit.polls.find(token) else { return answer(status::GONE, None, None) };
    match principal {
        Some(principal) if *principal != session.principal => return answer(status::GONE, None, None),
        Some(_) => {}
        // A runtime sends its key with each poll; only a page authenticates with the token of the session alone.
        None if !session.principal.is_untrusted() && !state.http.auth.is_development() => {
            return answer(status::GONE, None, None);
        }
        None => {
            if let Err(limited) = state.http.quota.admit(&session.principal) {
                return refused(limited.into());
            }
        }
    }
    let (polled, answered) = oneshot::channel();
    if session.polls.send(polled).await.is_err() {
        return answer(status::GONE, None, None);
    }
    match answered.await.unwrap_or(Polled::Gone) {
        Polled::Frames(frames) => answer(status::OK, Some(token), Some(&frames)),
        Polled::Nothing => answer(status::NO_CONTENT, Some(token), None),
        Polled::Gone => answer(status::GONE, None, None),
        Polled::Forbidden => answer(status::FORBIDDEN, None, None),
        Polled::Failed => answer(status::FAILED, None, None),
    }
}

/// Accepts frames for a session, and answers once all of them are processed, so its client never has more than one
/// request in flight.
pub async fn send(state: &ApiState, token: &str, mut request: Request) -> Response {
    let Some(session) = state.copilotkit.polls.find(token) else { return answer(status::GONE, None, None) };
    if let Err(limited) = state.http.quota.admit(&session.principal) {
        return refused(limited.into());
    }
    request.extensions_mut().insert(BudgetOwner::of(&session.principal));
    let most = if session.principal.is_untrusted() { UNTRUSTED_FRAME_BYTES } else { CHANNEL_FRAME_BYTES };
    let lines = match state.http.body(request, most).await {
        Ok(lines) => lines,
        Err(problem) => return refused(problem),
    };
    let (taken, done) = oneshot::channel();
    if session.posts.send(Post { lines, taken }).await.is_err() || done.await.is_err() {
        return answer(status::GONE, None, None);
    }
    answer(status::OK, None, None)
}

/// Formats a refusal for the client, which evaluates the `status` of the body and fails on any value that it does not
/// know.
pub fn refused(problem: Problem) -> Response {
    let http = problem.kind.status();
    let known = match http {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => status::FORBIDDEN,
        _ => status::FAILED,
    };
    let mut document = serde_json::to_value(problem.clone().document()).unwrap_or_default();
    document["status"] = known.into();
    let (parts, _) = problem.into_response().into_parts();
    Response::from_parts(parts, document.to_string().into())
}

fn answer(status: u16, token: Option<&str>, frames: Option<&[String]>) -> Response {
    let mut body = json!({ "status": status });
    if let Some(token) = token {
        body["token"] = token.into();
    }
    let mut body = body.to_string();
    if let Some(frames) = frames {
        body.pop();
        body.push_str(",\"messages\":[");
        for (index, frame) in frames.iter().enumerate() {
            body.push_str(if index > 0 { "," } else { "" });
            body.push_str(&quoted(frame));
        }
        body.push_str("]}");
    }
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

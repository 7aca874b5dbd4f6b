//! Long-polling, where Phoenix's client has no WebSocket: in Node before version 22.
//!
//! A session is a task on the node where it was opened, and lives as long as its client polls. Answers are JSON objects
//! whose `status` is what the client goes by; the HTTP status is for everybody else.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use dashmap::DashMap;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::{channel::Plane, poll_session};
use crate::{
    api::{
        ApiState,
        body::Whole,
        problem::{Problem, ProblemType},
    },
    auth::secret::{self, NoRandomness},
    domain::{
        Digest, Principal,
        json::quoted,
        limits::{
            CHANNEL_FRAME_BYTES, MAX_POLL_SESSIONS, POLL_SESSION_QUEUE, POLL_SESSIONS_PART, STRANGER_FRAME_BYTES,
        },
    },
    quota::{Place, Taker},
    service::ServiceError,
};

/// Begins the token of a session.
const TOKEN_PREFIX: &str = "tlp_";

/// The statuses that Phoenix's client knows.
mod status {
    /// There are frames; or what was sent has been taken.
    pub const OK: u16 = 200;
    /// Nothing for now.
    pub const NO_CONTENT: u16 = 204;
    /// Not let in: the client says so to whoever uses it, and comes again later.
    pub const FORBIDDEN: u16 = 403;
    /// Opened, to a client that had no session; gone, to one that had.
    pub const GONE: u16 = 410;
    /// The client comes again.
    pub const FAILED: u16 = 500;
}

/// The sessions of a node. Cheap to clone; the clones are one.
#[derive(Clone, Default)]
pub struct Sessions(Arc<DashMap<Digest, Session>>);

/// The way to a session.
#[derive(Clone)]
struct Session {
    principal: Principal,
    polls: mpsc::Sender<oneshot::Sender<Polled>>,
    posts: mpsc::Sender<Post>,
}

/// What a poll is answered.
pub enum Polled {
    /// These frames.
    Frames(Vec<String>),
    /// Nothing came in time, or another poll has taken its place.
    Nothing,
    /// The session is over; the client may come again.
    Gone,
    /// The session is over, and so is what it was opened with.
    Forbidden,
    /// The session could not go on.
    Failed,
}

/// Frames that a client sent, each on a line of its own.
pub struct Post {
    /// They share the room for bodies until they are taken.
    pub lines: Whole,
    /// Told once they are.
    pub taken: oneshot::Sender<()>,
}

/// What a session has of its own place among the sessions: with this it is gone.
pub struct Opened {
    sessions: Sessions,
    digest: Digest,
    /// The polls of its client.
    pub polls: mpsc::Receiver<oneshot::Sender<Polled>>,
    /// What its client sends.
    pub posts: mpsc::Receiver<Post>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.sessions.0.remove(&self.digest);
    }
}

impl Sessions {
    fn open(&self, principal: Principal) -> Result<(String, Opened), NoRandomness> {
        let token = secret::generate(TOKEN_PREFIX)?;
        let digest = secret::digest(&token);
        let (polls, polled) = mpsc::channel(POLL_SESSION_QUEUE);
        let (posts, posted) = mpsc::channel(POLL_SESSION_QUEUE);
        self.0.insert(digest, Session { principal, polls, posts });
        Ok((token, Opened { sessions: self.clone(), digest, polls: polled, posts: posted }))
    }

    fn find(&self, token: &str) -> Option<Session> {
        self.0.get(&secret::digest(token)).map(|found| found.clone())
    }
}

/// Opens a session for what this principal joins.
pub async fn open<P: Plane>(state: &ApiState, principal: Principal, plane: P) -> Response {
    match admitted(state, &principal) {
        Ok((place, token, opened)) => {
            let alive = state.connections.token();
            let state = state.clone();
            tokio::spawn(async move {
                let _held = (alive, place);
                poll_session::run(state, principal, plane, opened).await;
            });
            answer(status::GONE, Some(&token), None)
        }
        Err(problem) => {
            plane.closed(false).await;
            refused(problem)
        }
    }
}

fn admitted(state: &ApiState, principal: &Principal) -> Result<(Place, String, Opened), Problem> {
    if state.draining.is_cancelled() {
        return Err(ServiceError::Draining.into());
    }
    let place = state.quota.open(principal)?;
    let polls = &state.copilotkit.polls;
    // No project is to leave nothing for the others.
    let own = polls.0.iter().filter(|session| session.principal.project == principal.project).count();
    if polls.0.len() >= MAX_POLL_SESSIONS || own >= MAX_POLL_SESSIONS / POLL_SESSIONS_PART {
        return Err(Problem::new(ProblemType::Busy, "this node has as many long-poll sessions as it can"));
    }
    let (token, opened) = polls.open(principal.clone()).map_err(|error| {
        tracing::error!(%error, "nothing secret can be made");
        Problem::new(ProblemType::Internal, "the server's log says more")
    })?;
    Ok((place, token, opened))
}

/// Waits for frames of a session. Where `principal` is known, it must be the one who has opened it.
pub async fn poll(state: &ApiState, token: &str, principal: Option<&Principal>) -> Response {
    let Some(session) = state.copilotkit.polls.find(token) else { return answer(status::GONE, None, None) };
    match principal {
        Some(principal) if *principal != session.principal => return answer(status::GONE, None, None),
        Some(_) => {}
        // A runtime shows its key with each poll; only a page has nothing but the session.
        None if !session.principal.is_stranger() && !state.auth.is_development() => {
            return answer(status::GONE, None, None);
        }
        None => {
            if let Err(limited) = state.quota.admit(&session.principal) {
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

/// Takes frames for a session, and answers once they are carried out: so its client never has more under way.
pub async fn send(state: &ApiState, token: &str, mut request: Request) -> Response {
    let Some(session) = state.copilotkit.polls.find(token) else { return answer(status::GONE, None, None) };
    if let Err(limited) = state.quota.admit(&session.principal) {
        return refused(limited.into());
    }
    request.extensions_mut().insert(Taker::of(&session.principal));
    let most = if session.principal.is_stranger() { STRANGER_FRAME_BYTES } else { CHANNEL_FRAME_BYTES };
    let lines = match state.bodies.read(request, most).await {
        Ok(lines) => lines,
        Err(problem) => return refused(problem),
    };
    let (taken, done) = oneshot::channel();
    if session.posts.send(Post { lines, taken }).await.is_err() || done.await.is_err() {
        return answer(status::GONE, None, None);
    }
    answer(status::OK, None, None)
}

/// A refusal as the client understands it: it goes by the `status` of the body, and stumbles over any that it does not
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
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

//! The socket: many subscriptions, the feed, appends and stops over one connection. See `proto/socket.md`.

mod answers;
mod appends;
mod frames;
mod items;
mod protocol;
mod session;

pub use frames::CLIENT_FRAMES;

use axum::{extract::State, response::Response};
use threadline_http::{
    extract::Caller,
    problem::{Problem, ProblemDocument},
    routes::{Access, Routes},
    ws::{
        Terms, Upgrade,
        close::CloseCode,
        driver::{self, SocketEnv},
    },
};
use utoipa_axum::routes;

use session::Session;
use threadline_core::limits::MAX_BATCH_BYTES;
use threadline_engine::ServiceError;

use crate::api::ApiState;

/// A frame's events, for fuzzers; `None` if it is another frame.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn frame_events(text: &str) -> Option<&serde_json::value::RawValue> {
    match frames::parse(text).ok()?.frame {
        frames::ClientFrame::Append(append) => Some(append.events),
        _ => None,
    }
}

/// Adds the handshake and the frames of the socket.
pub fn routes(routes: Routes<ApiState>) -> Routes<ApiState> {
    routes.route(Access::TicketOrKey(Access::SOCKET), routes!(open)).frames(PATH, frames::CLIENT_FRAMES)
}

/// Path of the socket.
pub const PATH: &str = "/v1/socket";

/// Subprotocol name of the socket, with the protocol version.
pub const PROTOCOL: &str = "threadline.v1";

/// Opens the socket (RFC 6455), subprotocol `threadline.v1`.
///
/// Browsers cannot set headers: they may add a subprotocol `bearer.<API key>`, or send a ticket.
#[utoipa::path(get, path = "/v1/socket", tag = "socket",
    params(("ticket" = Option<String>, Query, description = "Ticket from POST /v1/socket-tickets, in place of a key")), responses(
    (status = 101, description = "Switching protocols"),
    (status = 400, description = "Not a WebSocket handshake", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 503, description = "Server shutting down", body = ProblemDocument)))]
pub async fn open(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    if state.http.draining.is_cancelled() {
        return Err(ServiceError::Draining.into());
    }
    let place = state.http.quota.open(&principal)?;
    let asked = upgrade.requested_protocols();
    let understood = asked.is_empty() || asked.iter().any(|name| name == PROTOCOL);
    let alive = state.http.connections.token();
    let terms = Terms::new(&state.http, &principal, PROTOCOL, MAX_BATCH_BYTES);
    let env = SocketEnv::new(&state.http, &principal);
    let mut session = Box::new(Session::new(state, principal));
    Ok(upgrade.open(terms, async move |socket| {
        let _held = (alive, place);
        if understood {
            session.welcome();
            driver::drive(socket, session, env).await;
        } else {
            driver::refuse(socket, session, env, CloseCode::UnsupportedVersion).await;
        }
    }))
}

//! The event stream of a thread and its commands over one socket.
//!
//! A command becomes an inner request to the route of commands. The subscriptions of a socket share one stream: clients hand each event
//! to all subscriptions that match it, so events must come in the order of their numbers, and not once for each subscription.

mod protocol;
mod session;

pub use session::CLIENT_FRAMES;

use axum::{Extension, extract::State, response::Response};
use threadline_core::limits::MAX_BATCH_BYTES;
use threadline_engine::ServiceError;
use threadline_http::{
    extract::{Caller, InThread},
    problem::{Problem, ProblemDocument},
    routes::InnerRoutes,
    ws::{
        Terms, Upgrade,
        driver::{self, SocketEnv},
    },
};

use session::Session;

use super::start::thread_of;
use crate::api::ApiState;

/// Path of the socket.
pub const PATH: &str = "/langgraph/threads/{threadId}/stream/events";

/// Subprotocol that the server selects if the client requests it, next to the one that holds a key.
const PROTOCOL: &str = "threadline.langgraph";

/// Opens a socket (RFC 6455) for the commands and the events of a thread, which need not exist yet.
///
/// Browsers cannot set headers: they may add a subprotocol `bearer.<API key>`, or send a ticket.
#[utoipa::path(get, path = "/langgraph/threads/{threadId}/stream/events", tag = "langgraph",
    params(("threadId" = String, Path),
        ("ticket" = Option<String>, Query, description = "Ticket from POST /v1/socket-tickets, in place of a key")), responses(
    (status = 101, description = "The socket is open"),
    (status = 400, description = "The request is no WebSocket handshake", body = ProblemDocument),
    (status = 401, description = "Authentication required", body = ProblemDocument),
    (status = 503, description = "Server shutting down", body = ProblemDocument)))]
pub async fn connect(
    State(state): State<ApiState>,
    Caller(principal): Caller,
    Extension(routes): Extension<InnerRoutes>,
    InThread(thread): InThread,
    upgrade: Upgrade,
) -> Result<Response, Problem> {
    if state.http.draining.is_cancelled() {
        return Err(ServiceError::Draining.into());
    }
    // Fails for a key that may mean threads of several users.
    thread_of(&state, &principal, &thread).await?;
    let place = state.http.quota.open(&principal)?;
    let alive = state.http.connections.token();
    let terms = Terms::new(&state.http, &principal, PROTOCOL, MAX_BATCH_BYTES);
    let env = SocketEnv::new(&state.http, &principal);
    let session = Box::new(Session::new(state, principal, routes, thread));
    Ok(upgrade.open(terms, async move |socket| {
        let _held = (alive, place);
        driver::drive(socket, session, env).await;
    }))
}

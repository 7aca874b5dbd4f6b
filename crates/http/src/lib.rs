//! The HTTP layer under the APIs of Threadline: routes and who may use them, authentication, problem documents, bodies,
//! responses, event streams, WebSockets and the listener. No API is known here.

pub mod auth;
pub mod body;
pub mod cursor;
pub mod egress;
pub mod envelope;
pub mod etag;
pub mod extract;
pub mod fallback;
mod forwarded;
pub mod idempotency;
pub mod listener;
pub mod negotiation;
pub mod observe;
pub mod origins;
pub mod parameters;
pub mod precondition;
pub mod problem;
pub mod protection;
pub mod response;
pub mod routes;
pub mod sse;
mod state;
pub mod view;
pub mod ws;

pub use state::{HttpState, run_to_completion};

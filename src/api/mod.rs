//! APIs of the server. Each API translates between its wire format and the service, and is never the source of truth.

pub mod agui;
pub mod ai;
mod console;
pub mod conversations;
pub mod copilotkit;
mod errors;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod langgraph;
pub mod openai;
pub mod rest;
pub mod router;
mod run_agent;
mod run_log;
pub mod socket;
mod state;
mod streams;
mod superseded;
pub mod validating;
mod waiting_turn;

pub use state::ApiState;

//! Threadline: an open, self-hosted, realtime, event-sourced thread platform for AI agents.
//!
//! The root package assembles the server from its crates (see ARCHITECTURE.md): `threadline_core` (types, limits and
//! projections; pure), `threadline_store` (the store port and its back-ends), `threadline_engine` (the use cases, the
//! lock, the bus and subscriptions) and `threadline_http` (the layer under the APIs). Modules, in the order in which they
//! may import each other:
//!
//! - [`agents`]: running agents, each kind a source of events.
//! - [`titles`]: names for threads that have none.
//! - [`api`]: the APIs; requests enter here.
//! - [`app`]: assembly of the server.
//!
//! In addition, [`cli`]: the command line, which depends on the Rust client, `threadline_client`, and [`transfer`]: the
//! export of threads from one store and their import into another.

pub mod agents;
pub mod api;
pub mod app;
mod base64_bytes;
pub mod cli;
pub mod config;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod progress;
pub mod telemetry;
pub mod titles;
pub mod transfer;

//! Threadline: an open, self-hosted, realtime, event-sourced thread platform for AI agents.
//!
//! Modules, in the order in which they may import each other (see ARCHITECTURE.md):
//!
//! - [`domain`]: types and limits, and [`projection`]: folds over events; pure. Both are `crates/core`.
//! - [`store`]: the store port, its reference in memory, SQLite and Postgres: `crates/store`.
//! - [`lock`]: the gate in front of the store's lease. [`bus`]: wake-ups between nodes. Both in process, or in Redis.
//! - [`subscription`]: following a log.
//! - [`quota`]: limits of users and projects. [`service`]: the use cases.
//! - [`http`]: the layer under the APIs, with authentication, allowed addresses for requests of the server, and the
//!   listener: `crates/http`. [`agents`]: running agents, each kind a source of events.
//! - [`titles`]: names for threads that have none.
//! - [`api`]: the APIs; requests enter here.
//! - [`app`]: assembly of the server.
//!
//! [`metrics`] holds the counters of a node, from all modules.
//!
//! In addition, [`client`]: the Rust client, `crates/client`, which depends on `crates/core` alone, and [`cli`]: the
//! command line, which depends on the client. [`transfer`] exports threads from one store and imports them into another.

pub mod agents;
pub mod api;
pub mod app;
pub mod cli;
pub mod config;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod progress;
pub mod telemetry;
pub mod titles;
pub mod transfer;

pub use threadline_client as client;
pub use threadline_core::{self as domain, projection};
pub use threadline_engine::{
    self as service,
    cluster::{bus, lock, redis_connection as redis_link},
    limits as quota, metrics, subscription,
};
pub use threadline_http as http;
pub use threadline_store as store;

//! Threadline: an open, self-hosted, realtime, event-sourced thread platform for AI agents.
//!
//! Where things live, in the order in which they may import each other (see ARCHITECTURE.md):
//!
//! - [`domain`]: words and limits, and [`projection`]: folds over events; pure. Both are `crates/core`.
//! - [`store`]: the store port, its reference in memory, SQLite and Postgres.
//! - [`lock`]: the gate in front of the store's lease. [`bus`]: wake-ups between nodes. Both in process, or in Redis.
//! - [`subscription`]: following a log.
//! - [`quota`]: how much users and projects may use. [`service`]: the use cases. [`auth`]: who is asking.
//! - [`egress`]: where requests of the server may go. [`agents`]: running agents, each kind a source of events.
//! - [`naming`]: names for threads that have none.
//! - [`api`]: the front doors; a request enters here. [`server`]: the listener.
//! - [`app`]: puts the parts together.
//!
//! [`metrics`] is what a node counts of itself, wherever it happens.
//!
//! Beside them, [`client`]: the Rust client, `crates/client`, which depends on `crates/core` alone, and [`cli`]: the command
//! line, which depends on it. [`mod@bench`] measures the program beside bare ones. [`moving`] takes threads from one store
//! to another.

pub mod agents;
pub mod api;
pub mod app;
pub mod auth;
pub mod bench;
pub mod bus;
pub mod cli;
pub mod config;
pub mod egress;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod lingering;
pub mod lock;
pub mod metrics;
pub mod moving;
pub mod naming;
mod planted;
pub mod progress;
pub mod quota;
pub mod redis_link;
pub mod server;
pub mod service;
pub mod store;
pub mod subscription;
pub mod telemetry;
mod timed_io;

pub use threadline_client as client;
pub use threadline_core::{self as domain, projection};

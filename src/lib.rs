//! Threadline: an open, self-hosted, realtime, event-sourced thread platform for AI agents.
//!
//! Where things live, in the order in which they may import each other:
//!
//! - [`domain`]: words and limits; pure.
//! - [`projection`]: folds over events; pure.
//! - [`store`]: the store port, its reference in memory, and SQLite.
//! - [`client`]: the Rust client; knows nothing of the server but `domain`.
//! - [`cli`]: the commands; those that talk to a server do so through `client`.

pub mod cli;
pub mod client;
pub mod domain;
pub mod projection;
pub mod store;

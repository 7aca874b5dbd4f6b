//! Threadline: an open, self-hosted, realtime, event-sourced thread platform for AI agents.
//!
//! Where things live, in the order in which they may import each other:
//!
//! - [`domain`]: words and limits; pure.
//! - [`projection`]: folds over events; pure.
//! - [`store`]: the store port, its reference in memory, and SQLite.

pub mod api;
pub mod app;
pub mod auth;
pub mod bench;
pub mod domain;
pub mod projection;
pub mod server;
pub mod service;
pub mod store;
pub mod subscription;
mod timed_io;

//! What production stands on, for tests: private Postgres and Redis processes, and a network between that can be
//! broken.
//!
//! Everything here is ended, and its files are removed, when it is dropped and when the test process dies in whatever
//! way. A Postgres or Redis that is not installed fails the test with what to install.

#![allow(clippy::unwrap_used, reason = "test code: a failure is a panic")]

pub mod keeper;
pub mod ports;
pub mod postgres;
pub mod proxy;
pub mod redis;

pub use self::{
    postgres::Postgres,
    proxy::{Cut, Flow, Proxy, Way},
    redis::Redis,
};

//! What production stands on, for tests: private Postgres and Redis processes, and a network between that can be
//! broken. Included by test binaries with `#[path = "../backing/mod.rs"] mod backing;`.
//!
//! Everything here is ended, and its files are removed, when it is dropped and when the test process dies in whatever
//! way. A Postgres or Redis that is not installed fails the test with what to install.

// Each test binary uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod keeper;
pub mod ports;
pub mod postgres;
pub mod proxy;
pub mod redis;
#[path = "../shared/rng.rs"]
pub mod rng;

pub use self::{
    postgres::Postgres,
    proxy::{Cut, Flow, Proxy, Way},
    redis::Redis,
};

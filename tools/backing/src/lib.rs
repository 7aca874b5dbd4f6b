//! Services of production for tests: private Postgres and Redis processes, and a proxy that injects network faults.
//!
//! Every service is stopped, and its files are removed, when it is dropped and when the test process dies. If Postgres
//! or Redis is not installed, the test fails with the name of the package.

#![allow(clippy::unwrap_used, reason = "test code: a failure is a panic")]

pub mod answers;
pub mod keeper;
pub mod migrated;
pub mod ports;
pub mod postgres;
pub mod proxy;
pub mod redis;
pub mod redis_cluster;
pub mod sentinels;
pub mod standby;
pub mod wall_clock;

pub use self::{
    answers::AnswerProxy,
    migrated::migrated_directory,
    postgres::Postgres,
    proxy::{Cut, Flow, Proxy, Way},
    redis::Redis,
    redis_cluster::RedisCluster,
    sentinels::Sentinels,
    standby::Standby,
    wall_clock::WallClock,
};

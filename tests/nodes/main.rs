//! Several nodes over one Postgres and one Redis, each the real program in a process of its own.

mod across;
mod answers;
mod backups;
mod balancer;
mod clocks;
mod cluster;
mod copilotkit;
mod deaths;
mod failover;
mod langgraph;
mod lineage;
mod losses;
mod old_client;
mod outages;
mod redis_failover;
mod responses;
mod retention;
mod secrets;
#[allow(dead_code)]
#[path = "../faults/server.rs"]
mod server;
mod starting;
mod streams;
mod unanswered;
mod watched;
mod witness;

use threadline_backing as backing;

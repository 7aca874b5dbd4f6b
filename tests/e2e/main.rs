//! End to end: a real server on a real port, spoken to in plain HTTP and raw WebSocket frames.

mod agents;
mod annotations;
mod architecture;
mod audited;
#[path = "../backing/mod.rs"]
mod backing;
mod bad_input;
mod benchmark;
mod chat;
mod clocks;
mod commands;
mod configuration;
mod connections;
mod console;
mod contract_documents;
mod conversations;
mod copilotkit;
mod copilotkit_runtime;
mod development;
mod draining;
mod equivalence;
mod exposition;
mod harness;
mod identity;
mod keys;
mod limits;
mod metrics;
mod names;
mod origins;
mod parameters;
mod read_marker;
mod readiness;
mod reading;
mod runs;
mod search;
mod slow_readers;
mod socket;
mod socket_limits;
mod stream_run;
mod subscriptions;
mod table;
mod thread_agent;
mod threads;
#[path = "../shared/through.rs"]
#[allow(dead_code, reason = "the simulation uses the rest")]
mod through;
mod wire;

//! End to end: a real server on a real port, spoken to in plain HTTP and raw WebSocket frames.

mod architecture;
mod bad_input;
mod chat;
mod commands;
mod connections;
mod contract_documents;
mod development;
mod draining;
mod equivalence;
mod harness;
mod keys;
mod reading;
mod runs;
mod socket;
mod socket_limits;
mod stream_run;
mod table;
mod threads;

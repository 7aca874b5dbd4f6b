//! End to end: a real server on a real port, spoken to in plain HTTP and raw WebSocket frames.

mod draining;
mod equivalence;
mod harness;
mod reading;
mod runs;
mod socket;
mod socket_limits;
mod stream_run;
mod threads;

//! End to end: a real server on a real port, spoken to in plain HTTP and raw WebSocket frames.

mod harness;
mod runs;
mod stream_run;
mod threads;

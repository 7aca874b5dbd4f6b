//! The private processes and the breakable network that other tests stand on, tested themselves.

#[path = "mod.rs"]
mod backing;
mod left;
mod network;
mod processes;

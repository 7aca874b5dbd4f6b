//! Models of what must hold whatever the order of things: seeded, on paused time, in memory.
//!
//! A test that fails prints its seed; `THREADLINE_SEED=<seed>` runs that one alone.

mod lease;
mod matrix;
mod probe;
mod reads;
mod service;
mod subscription;
mod support;
mod turns;

use threadline_testkit::{seeds, through};

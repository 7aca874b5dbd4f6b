//! Position of an event.

/// Position of an event in its thread: dense, from 1. `0` is the position before the first event.
pub type Seq = u64;

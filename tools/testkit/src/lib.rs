//! What several test programs share: chance that can be repeated, the record of what clients were told, and the judge of
//! what the log must then be; and a store whose calls can be seen, held and failed.

#![allow(clippy::unwrap_used, reason = "test code: a failure is a panic")]

pub mod judge;
pub mod record;
pub mod reply;
pub mod rng;
pub mod seeds;
pub mod seen;
pub mod through;

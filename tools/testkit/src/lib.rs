//! Code that several test programs share: repeatable random numbers, the record of requests and answers, the check of
//! logs against that record, and a store whose calls can be observed, delayed and failed.

#![allow(clippy::unwrap_used, reason = "test code: a failure is a panic")]

pub mod judge;
pub mod record;
pub mod reply;
pub mod rng;
pub mod seeds;
pub mod seen;
pub mod through;

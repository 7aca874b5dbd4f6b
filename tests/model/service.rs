//! The use cases over a store in memory, on paused time and a clock that only the test moves.

mod access;
mod annotations;
mod appends;
mod attempts;
mod drivers;
mod ending;
mod fairness;
mod gate;
mod lists;
mod retries;
mod streams;
mod whole;
